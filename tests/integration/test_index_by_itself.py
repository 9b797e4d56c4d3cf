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
    SELECT 'acme', %(tier)s, '', 'k' || n, '{"text": "t"}', now(), now()
    FROM generate_series(1, %(many)s) n RETURNING id
)
INSERT INTO memory.vectors (tenant, tier, namespace, id, field, embedding)
SELECT 'acme', %(tier)s, '', id, 'text',
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


def fill(url: str, tier: str, many: int) -> None:
    with psycopg.connect(url) as conn:
        conn.execute(FILL, {"tier": tier, "many": many})


def built_within(url: str, wanted: int, seconds: float) -> int:
    """How many usable HNSW indexes there are, once there are as many as wanted or time is up."""
    until = time.monotonic() + seconds
    while indexes(url) < wanted and time.monotonic() < until:
        time.sleep(0.2)
    return indexes(url)


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
    fill(database_url, "working", many)
    with opened(database_url) as store:
        assert searched(store) == 5
        assert built_within(database_url, 1, 60 if built else 2) == built
        assert searched(store) == 5


def test_a_tier_that_grows_later_is_indexed_though_a_larger_one_was_before(
    database_url: str,
) -> None:
    with opened(database_url) as store:
        store.setup()
    fill(database_url, "working", 30_000)
    with opened(database_url) as store:
        assert searched(store) == 5
        assert built_within(database_url, 1, 60) == 1
        fill(database_url, "long_term", 20_000)
        until = time.monotonic() + 60
        while indexes(database_url) < 2 and time.monotonic() < until:
            store.flows._state_expires = 0.0  # a minute later
            assert searched(store) == 5
            time.sleep(0.2)
        assert indexes(database_url) == 2
