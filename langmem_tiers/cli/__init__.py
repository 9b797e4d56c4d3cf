"""Command line `langmem-tiers`."""
