"""A turn of an agent: what is going on while it runs."""
