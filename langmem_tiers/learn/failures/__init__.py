"""Reading what failed: texts of errors in many forms, and what is accidental in them."""
