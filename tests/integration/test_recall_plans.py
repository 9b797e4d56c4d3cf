"""The recall statement reads its tenant's words and vectors from their indexes, and no more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from langmem_tiers import MemoryCoordinator, TieredStore
from langmem_tiers.core.memory import TIERS
from tests.support import plans
from tests.support.coordinating import coordinator, recall_call
from tests.support.opening import text_index
from tests.support.plans import (
    MODES,
    Mode,
    calls_of,
    indexes,
    kept_plan,
    named,
    plan,
    rows_read,
    scans,
    sequential,
)
from tests.support.servers import fresh_database

OF_ONE_TENANT = 1000
OF_ONE_WORD = 20
"""Memories of a tenant that hold a certain word."""

_FILL = """
INSERT INTO memory.memories (tenant, tier, namespace, key, value, lexemes, created_at, updated_at,
                             session, turn, speaker)
SELECT t.name, p.tier, p.namespace, t.name || '-' || i,
       jsonb_build_object('content', 'row word' || i % 50, 'memory_type', 'episodic',
                          'tags', jsonb_build_array('tag' || i % 10)),
       to_tsvector('english', 'row word' || i % 50) || array_to_tsvector(ARRAY[chr(1) || t.name]),
       now(), now() - i * interval '1 second',
       CASE WHEN i % 2 = 0 THEN 's' END, CASE WHEN i % 2 = 0 THEN i / 2 END,
       CASE WHEN i % 2 = 0 THEN 'Speaker' || i % 4 END
FROM (SELECT 'tenant' || n AS name FROM generate_series(0, 19) n) t,
     generate_series(1, 1000) i,
     LATERAL (SELECT (enum_range(NULL::memory.tier))[i % 3 + 1] AS tier,
                     (ARRAY['p.s.', 'p.', ''])[i % 3 + 1] AS namespace) p;
INSERT INTO memory.vectors (tenant, tier, namespace, id, field, embedding)
SELECT m.tenant, m.tier, m.namespace, m.id, 'content',
       (SELECT array_agg(random() - 0.5) FROM generate_series(1, 16) WHERE m.id > 0)::halfvec
FROM memory.memories m;
INSERT INTO memory.usage (tenant, id, access_count) SELECT tenant, id, 1 FROM memory.memories;
"""

PARTITIONS = [f"{tier}.{name}" for tier in TIERS for name in ("memories", "vectors")]

ASKED: dict[str, dict[str, Any]] = {
    "nothing else": {},
    "tags and types": {"tags": ["tag1"], "memory_types": ["episodic"]},
    "a filter": {"filter": {"memory_type": "episodic"}},
}


def asker(store: TieredStore) -> MemoryCoordinator:
    return coordinator(store, "tenant7", project_id="p", session_id="s")


@pytest.fixture(scope="module")
def loaded(server_url: str) -> Iterator[TieredStore]:
    """Twenty tenants over three tiers, analysed."""
    with plans.loaded(server_url, _FILL) as store:
        yield store


@pytest.fixture(scope="module")
def planned_empty(server_url: str) -> Iterator[TieredStore]:
    """The same, but each statement was planned while the tables were empty; not analysed."""
    one_connection = {"min_size": 1, "max_size": 1}
    with (
        fresh_database(server_url) as url,
        psycopg.connect(url, autocommit=True) as conn,
        TieredStore(url, index=text_index(16), pool_config=one_connection) as store,
    ):
        store.setup()
        for table in [*PARTITIONS, "memory.usage"]:
            conn.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)".encode())
        for options in ASKED.values():
            for query in ("row word7", ""):
                assert asker(store).get_context(query, **options) == []
        assert asker(store).get("absent") is None
        assert store.get(("tenant7",), "absent") is None
        conn.execute(_FILL)
        yield store


def reads_little(root: dict[str, Any]) -> None:
    """Both legs of each tier by their own indexes, one tenant's rows and not many times."""
    assert sequential(root) == []
    vectors = [node for node in scans(root) if node.get("Index Name") == "vectors_pkey"]
    assert len(vectors) >= len(TIERS)
    words = [name for name in indexes(root) if "lexemes" in name]
    assert words
    assert rows_read(root) <= 8 * OF_ONE_TENANT


def call_of(store: TieredStore, query: str, **options: Any) -> Any:
    return recall_call(store, lambda: asker(store).get_context(query, min_match=0, **options))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("what", ASKED)
def test_a_recall_reads_words_and_vectors_of_its_tenant_from_their_indexes(
    loaded: TieredStore, mode: Mode, what: str
) -> None:
    reads_little(plan(loaded, call_of(loaded, "word7", **ASKED[what]), mode))


def test_the_words_of_each_tier_are_read_from_gin(loaded: TieredStore) -> None:
    root = plan(loaded, call_of(loaded, "word7"), "force_generic_plan")
    gin = [node for node in scans(root) if "lexemes" in node.get("Index Name", "")]
    assert len(gin) >= len(TIERS)
    assert sum(node["Actual Rows"] * node["Actual Loops"] for node in gin) <= 4 * OF_ONE_WORD


@pytest.mark.parametrize("what", ASKED)
def test_the_newest_are_read_a_page_of_each_tier(
    loaded: TieredStore, planned_empty: TieredStore, what: str
) -> None:
    call = call_of(loaded, "", **ASKED[what])
    planned = plan(loaded, call, "force_generic_plan")
    for root in (planned, kept_plan(planned_empty, call)):
        assert sequential(root) == []
        assert rows_read(root) <= 3 * OF_ONE_TENANT


def test_a_memory_is_found_by_its_key_alone(
    loaded: TieredStore, planned_empty: TieredStore
) -> None:
    call = named(calls_of(loaded, lambda: asker(loaded).get("tenant7-7")), "find")
    for root in (plan(loaded, call, "force_generic_plan"), kept_plan(planned_empty, call)):
        assert sequential(root) == []
        assert rows_read(root) <= 6


def test_a_memory_is_read_by_its_place_as_planned_while_the_tables_were_empty(
    planned_empty: TieredStore,
) -> None:
    calls = calls_of(planned_empty, lambda: planned_empty.get(("tenant7",), "tenant7-8"))
    root = kept_plan(planned_empty, named(calls, "get"))
    assert sequential(root) == []
    assert rows_read(root) == 1


@pytest.mark.parametrize("what", ASKED)
def test_a_plan_made_while_the_tables_were_empty_is_replaced_once_they_are_analysed(
    planned_empty: TieredStore, what: str
) -> None:
    call = call_of(planned_empty, "word7", **ASKED[what])
    database = planned_empty.runner._database
    assert database is not None
    with psycopg.connect(database.target.conninfo, autocommit=True) as conn:
        for table in PARTITIONS:  # as autovacuum does: each partition, not their parent
            conn.execute(f"ANALYZE {table}".encode())
    reads_little(kept_plan(planned_empty, call))
