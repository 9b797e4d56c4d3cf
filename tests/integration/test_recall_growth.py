"""What a recall reads stays bounded: as a tenant grows, and as a question gets longer."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import psycopg
import pytest

from langmem_tiers import TieredStore
from langmem_tiers.core.config import EF_SEARCH
from langmem_tiers.postgres.flow import Call
from tests.support import plans
from tests.support.coordinating import coordinator, recall_call
from tests.support.plans import MODES, Mode, indexes, plan, rows_read, sequential

pytestmark = pytest.mark.slow

SIZES = (1_000, 5_000, 20_000)
BOUND = 6_000
"""Rows that any recall may read: fewer than the largest tenant has of a frequent word."""

_FILL = """
SELECT setseed(0.5);
INSERT INTO memory.memories (tenant, tier, namespace, key, value, lexemes, created_at, updated_at,
                             session, turn, speaker)
SELECT t.name, 'working', '_.', t.name || '-' || i, jsonb_build_object('content', c.text),
       to_tsvector('english', c.text) || array_to_tsvector(ARRAY[chr(1) || t.name]),
       now(), now() - i * interval '1 second', 's' || i / 30, i % 30, 'Speaker' || i % 4
FROM (SELECT 'tenant' || n AS name, n AS rows
      FROM unnest(ARRAY[300, 1000, 5000, 20000]) n) t,
     generate_series(1, t.rows) i,
     -- As in any language: a word is as frequent as its rank is low.
     LATERAL (SELECT string_agg('word' || floor(exp(random() * ln(5000)))::int, ' ') AS text
              FROM generate_series(1, 12) WHERE i > 0) c;
INSERT INTO memory.vectors (tenant, tier, namespace, id, field, embedding)
SELECT m.tenant, m.tier, m.namespace, m.id, 'content',
       (SELECT array_agg(random() - 0.5) FROM generate_series(1, 16) WHERE m.id > 0)::halfvec
FROM memory.memories m;
"""

QUESTIONS = {
    "short": "word1 word7 word60 word700",
    "of frequent words": "word1 word2",
    "long": " ".join(f"word{n}" for n in range(1, 400, 4)),
}


@pytest.fixture(scope="module")
def grown(server_url: str) -> Iterator[TieredStore]:
    """Tenants of four sizes, counted and indexed."""
    with plans.loaded(server_url, _FILL, exact_limit=2_000) as store:
        store.optimize()
        yield store


def counted(store: TieredStore) -> dict[str, tuple[float, int, int]]:
    """Of each tenant that was counted: its memories, frequent words and crowded namespaces."""
    database = store.runner._database
    assert database is not None
    with psycopg.connect(database.target.conninfo) as conn:
        rows = conn.execute(
            "SELECT tenant, memories, cardinality(words), cardinality(crowded) "
            "FROM memory.tenant_sizes"
        ).fetchall()
    return {row[0]: (row[1], row[2], row[3]) for row in rows}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("asked", QUESTIONS)
def test_what_is_read_is_bounded_whatever_the_size_and_the_question(
    grown: TieredStore, mode: Mode, asked: str
) -> None:
    read: dict[int, float] = {}
    for size in SIZES:
        memory = coordinator(grown, f"tenant{size}")
        call = recall_call(grown, partial(memory.get_context, QUESTIONS[asked], limit=10))
        settings = [Call("hnsw_settings", {"ef_search": str(EF_SEARCH)})]
        root = plan(grown, call, mode, settings=settings)
        assert sequential(root) == []
        assert ("vectors_hnsw_cosine" in indexes(root)) == (size > 2_000)
        read[size] = rows_read(root)
    assert max(read.values()) <= BOUND
    assert read[20_000] <= 2 * read[5_000]


def test_large_tenants_alone_are_counted_and_their_frequent_words(grown: TieredStore) -> None:
    found = counted(grown)
    assert set(found) == {f"tenant{size}" for size in SIZES}
    for size in SIZES:
        memories, words, crowded = found[f"tenant{size}"]
        assert memories == size
        assert 10 <= words <= 1_000
        assert crowded == (size > 2_000)


def test_the_rarest_word_of_a_large_tenant_finds_its_memory(grown: TieredStore) -> None:
    memory = coordinator(grown, "tenant20000")
    key = memory.store("word1 word2 word3 and one okapi").key
    asked: dict[str, Any] = {"min_match": 0, "limit": 3}
    assert memory.get_context(f"{QUESTIONS['long']} okapi", **asked)[0].key == key
    assert memory.get_context("word1 word2 okapi", **asked)[0].key == key


def test_a_tenant_that_shrinks_is_counted_no_longer(grown: TieredStore) -> None:
    database = grown.runner._database
    assert database is not None
    with psycopg.connect(database.target.conninfo) as conn:
        conn.execute("DELETE FROM memory.memories WHERE tenant = 'tenant1000' AND turn > 1")
    grown.optimize()
    assert set(counted(grown)) == {"tenant5000", "tenant20000"}
