"""How memories are read."""
