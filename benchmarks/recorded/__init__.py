"""What the package does, recorded: every verb's answer and statements, rows, schema, signatures."""
