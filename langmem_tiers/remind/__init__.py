"""Prospective memory: what is intended, and when it is raised."""
