"""A tenant that outgrows exact search gets its HNSW index though nobody calls anything."""

from __future__ import annotations

import time
from typing import Any

import psycopg
import pytest

from langmem_tiers import TieredStore

pytestmark = pytest.mark.slow
FILL = """
WITH new AS (
    INSERT INTO memory.memories (tenant, tier, namespace, key, value, created_at, updated_at)
    SELECT 'acme', 'working', '', 'k' || n, '{"text": "t"}', now(), now()
    FROM generate_series(1, %(many)s) n RETURNING id
)
INSERT INTO memory.vectors (tenant, tier, namespace, id, field, embedding)
SELECT 'acme', 'working', '', id, 'text',
       ARRAY[sin(id), cos(id), sin(id * 7), cos(id * 7)]::real[]::halfvec(4) FROM new
"""


def indexes(url: str) -> int:
    """How many usable HNSW indexes there are."""
    with psycopg.connect(url) as conn:
        row = conn.execute(
            "SELECT count(*) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid "
            "JOIN pg_am a ON a.oid = c.relam WHERE a.amname = 'hnsw' AND i.indisvalid"
        ).fetchone()
    assert row is not None
    return int(row[0])


def opened(url: str) -> TieredStore:
    index: Any = {"dims": 4, "embed": lambda texts: [[1.0, 0.0, 0.0, 0.0] for _ in texts]}
    return TieredStore(url, index={**index, "fields": ["text"]})


def searched(store: TieredStore) -> int:
    return len(store.search(("acme",), query="anything", limit=5))


@pytest.mark.parametrize(("many", "built"), [(20_000, 1), (2_000, 0)])
def test_a_large_tenant_is_indexed_while_it_is_searched(
    database_url: str, many: int, built: int
) -> None:
    with opened(database_url) as store:
        store.setup()
    with psycopg.connect(database_url) as conn:
        conn.execute(FILL, {"many": many})
    with opened(database_url) as store:
        assert searched(store) == 5
        until = time.monotonic() + (60 if built else 2)
        while indexes(database_url) < 1 and time.monotonic() < until:
            time.sleep(0.2)
        assert searched(store) == 5
        assert indexes(database_url) == built
