"""How all of a tenant is carried from one database to another: an export, and its import."""
