"""The places of a tenant's texts: `forget` and `verify_forgotten` both look at all of them.

A test compares them with the database's catalog, and tries each place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_OURS: Final = "a name of ours, or one of a few words"
_HASH: Final = "a hash"
_OF_VALUE: Final = "it is read from the value of its memory"
_GOES: Final = "it goes with its memory"

LOOKED_AT: Final[Mapping[str, tuple[str, ...]]] = {
    "memories": ("namespace", "key", "value", "session", "speaker", "user_id"),
    "exposures": ("run", "root", "project", "session", "settled_by", "user_id"),
    "events": ("event", "detail"),
    "intentions": ("trigger", "words", "name", "holder"),
    "states": ("owner", "name", "value"),
    "archived": ("namespace", "key", "user_id"),
    "recalls": ("turn", "recall", "user_id", "root", "project", "asked", "seen", "answered"),
    "audit": ("told",),
}
"""The columns of each table that may name somebody."""

STAYS: Final[Mapping[str, Mapping[str, str]]] = {
    "memories": {
        "lexemes": _OF_VALUE,
        "signature": _OF_VALUE,
        "tool": _OF_VALUE,
        "state": _OURS,
    },
    "vectors": {"namespace": _GOES, "field": "the name of an indexed field, of the settings"},
    "lineage": {"event": "the name of a move, of ours"},
    "events": {"kind": _OURS},
    "intentions": {"kind": _OURS, "status": _OURS},
    "states": {"kind": _OURS},
    "cycles": {"step": _OURS},
    "leases": {"holder": "who consolidates, for a few minutes"},
    "exports": {"part": "where an export was put", "machine": "where an export was begun"},
    "imports": {"export": _OURS, "source": "who answers for an import, until it ends"},
    "tenant_sizes": {
        "words": "it is counted anew",
        "crowded": "it is counted anew",
    },
    "archives": {
        "archive": "the name of a file, by the number of a memory",
        "url": "where the settings put archives",
        "checksum": _HASH,
    },
    "archived": {"archive": "the name of a file, by the number of a memory"},
    "recalls": {"by": "versions of packages and names of models"},
    "audit": {
        "verb": _OURS,
        "told_hash": _HASH,
        "salt": "the key of hashes",
        "value_hash": _HASH,
        "hash": _HASH,
    },
    "audit_links": {"hash": _HASH},
    "tombstones": {"hash": _HASH},
    "tombstone_keys": {"secret": "the key of hashes"},
    "forgettings": {
        "receipt": _OURS,
        "asked": _HASH,
        "detail": "ids, counts, hashes and names of files",
        "files": "names of files that are to be removed",
        "threads": "names of threads that are to be deleted",
    },
}
"""All other columns of texts, each with the reason why nobody has to look at it."""
