"""What must hold of the stored rows, whatever has happened: asked of Postgres itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import psycopg

from langmem_tiers.core.vectors import VectorOptions, pack
from langmem_tiers.testing import TrigramEmbeddings
from tests.support.opening import DIMS

_BROKEN: Mapping[str, str] = {
    "keys that live in several tiers": """
        SELECT tenant, namespace, key FROM memory.memories
        GROUP BY tenant, namespace, key HAVING count(*) > 1""",
    "vectors without their memory": """
        SELECT v.tenant, v.id FROM memory.vectors v
        LEFT JOIN memory.memories m
          ON m.tenant = v.tenant AND m.id = v.id AND m.tier = v.tier
         AND m.namespace = v.namespace
        WHERE m.id IS NULL""",
    "counters without their memory": """
        SELECT u.tenant, u.id FROM memory.usage u
        LEFT JOIN memory.memories m ON m.tenant = u.tenant AND m.id = u.id
        WHERE m.id IS NULL""",
    "memories without exactly one vector": """
        SELECT m.tenant, m.key FROM memory.memories m
        LEFT JOIN memory.vectors v ON v.tenant = m.tenant AND v.id = m.id
        GROUP BY m.tenant, m.id, m.key HAVING count(v.id) <> 1""",
}


def broken_rows(url: str) -> dict[str, list[tuple[Any, ...]]]:
    """Rows that break a rule, by rule; for stores that index the field "text" alone."""
    with psycopg.connect(url) as conn:
        found = {rule: conn.execute(query.encode()).fetchall() for rule, query in _BROKEN.items()}
        found["vectors of another text"] = _stale_vectors(conn)
    return {rule: rows for rule, rows in found.items() if rows}


def values(url: str) -> dict[str, dict[str, Any]]:
    """Every stored value by key."""
    with psycopg.connect(url) as conn:
        return dict(conn.execute("SELECT key, value FROM memory.memories").fetchall())


def access_counts(url: str) -> dict[str, int]:
    """Counted accesses by key; a memory that was never read is left out."""
    query = """SELECT m.key, u.access_count FROM memory.memories m
               JOIN memory.usage u ON u.tenant = m.tenant AND u.id = m.id"""
    with psycopg.connect(url) as conn:
        return dict(conn.execute(query).fetchall())


def _stale_vectors(conn: psycopg.Connection[Any]) -> list[tuple[Any, ...]]:
    rows = conn.execute(
        """SELECT m.key, m.value ->> 'text', halfvec_send(v.embedding)
           FROM memory.memories m JOIN memory.vectors v ON v.tenant = m.tenant AND v.id = m.id"""
    ).fetchall()
    return [(key, text) for key, text, stored in rows if stored != _packed(text)]


def _packed(text: str) -> bytes:
    vector = pack(TrigramEmbeddings(DIMS).embed_query(text), VectorOptions(dims=DIMS))
    assert vector is not None
    return vector.data
