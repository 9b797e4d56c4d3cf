"""The tables of a tenant that an export contains; a test compares them with the catalog."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

EXPORTED_TABLES: Final[Mapping[str, str]] = {
    "usage": "id",
    "vectors": "namespace, id, field, tier",
    "lineage": "id, source",
    "exposures": "run, id",
    "memories": "id, tier",
    "events": "event",
    "intentions": "id",
    "archives": "archive",
    "archived": "id",
    "states": "owner, kind, name",
    "cycles": "step",
    "tenant_sizes": "tenant",
    "tombstone_keys": "tenant",
    "tombstones": "hash",
    "forgettings": "receipt",
}
"""Tables, each with the order of its rows: its key without the tenant. They are exported
in this order, so that a memory comes after its vectors, counters and lineage and is seen whole."""

UNEXPORTED_TABLES: Final[Mapping[str, str]] = {
    "leases": "who consolidates the tenant, for a few minutes, in that database",
    "exports": "files of exports that are not whole, on the machine where they were begun",
    "imports": "how far an import has come, in that database",
    "audit": "what was done in that database is proven there; the import is logged where it goes",
    "audit_links": "as the log",
    "recalls": "what recalls saw in that database, for some days, by the ids that are there",
}
"""Tables that an export leaves out, each with the reason."""

PROOF_TABLES: Final = frozenset(("tombstone_keys", "tombstones", "forgettings"))
"""Tables that keep rows of a forgotten tenant; a tenant with these alone counts as empty."""

ID_COLUMNS: Final = frozenset(("id", "source", "target", "number", "needs"))
"""The columns of numbers that are drawn from the sequence of ids, in whatever table."""


def statement_for(statement: str, table: str) -> str:
    """Name the statement that is loaded for a table."""
    return f"{statement}_{table}"
