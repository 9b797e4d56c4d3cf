"""Exports of a tenant to a file, and imports of that into another database."""
