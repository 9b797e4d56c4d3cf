"""Forget memories for good: find, erase, and prove it."""
