"""Measurements of this package beside its peers; each module prints tables and plots."""
