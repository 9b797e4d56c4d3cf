"""How memories are written."""
