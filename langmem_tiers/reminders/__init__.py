"""Prospective memory: intentions, and the occasions on which they are raised."""
