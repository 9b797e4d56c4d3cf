"""Each statement reads the index made for it, in plans made for its parameters or for any."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from langgraph.store.base import GetOp, ListNamespacesOp, MatchCondition, PutOp, SearchOp

from langmem_tiers import TieredStore
from langmem_tiers.core.memory import TIERS
from langmem_tiers.postgres.flow import Call
from langmem_tiers.store.upkeep import sweep_memories_call
from tests.support import plans
from tests.support.coordinating import coordinator, recall_call
from tests.support.plans import (
    MODES,
    Mode,
    calls_of,
    indexes,
    named,
    plan,
    rows_read,
    scans,
    sequential,
)
from tests.support.servers import fresh_database

TENANTS = 20
OF_ONE_TENANT = 600
"""Rows of a small tenant, in all three tiers together; the large one has ten times as many."""

LARGE = "large"
PLACE = ("tenant7", "notes")
KEY = "tenant7-300"
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)

pytestmark = pytest.mark.parametrize("mode", MODES)

_FILL = """
INSERT INTO memory.memories (tenant, tier, namespace, key, value, lexemes, created_at,
                             updated_at, expires_at, ttl_minutes)
SELECT t.name, (enum_range(NULL::memory.tier))[i % 3 + 1], 'notes.', t.name || '-' || i,
       jsonb_build_object('text', 'row ' || i, 'about', 'word' || i % 50),
       to_tsvector('english', 'row word' || i % 50) || array_to_tsvector(ARRAY[chr(1) || t.name]),
       now(), now() - i * interval '1 second',
       CASE WHEN i % 200 = 0 THEN timestamptz '2026-03-01 12:00:00.5+00' END,
       CASE WHEN i % 200 = 0 THEN 0.01 END
FROM (SELECT 'tenant' || n AS name, 600 AS rows FROM generate_series(0, 19) n
      UNION ALL SELECT 'large', 6000) t, generate_series(1, t.rows) i;
INSERT INTO memory.vectors (tenant, tier, namespace, id, field, embedding)
SELECT m.tenant, m.tier, m.namespace, m.id, 'text',
       (SELECT array_agg(random() - 0.5) FROM generate_series(1, 16) WHERE m.id > 0)::halfvec
FROM memory.memories m;
INSERT INTO memory.usage (tenant, id, access_count) SELECT tenant, id, 1 FROM memory.memories;
"""
EXPIRED = 3 * TENANTS + 30


@pytest.fixture(scope="module")
def loaded(server_url: str) -> Iterator[TieredStore]:
    """Small tenants and a large one over three tiers."""
    with plans.loaded(server_url, _FILL, exact_limit=1000, clock=lambda: NOON) as store:
        yield store


@pytest.fixture(scope="module")
def indexed(loaded: TieredStore) -> TieredStore:
    """The same with HNSW indexes; tests that need none come first."""
    loaded.optimize()
    return loaded


def batch_call(store: TieredStore, name: str, *ops: Any, tier: str | None = None) -> Call:
    view = store if tier is None else store.tier(tier)
    return named(calls_of(store, lambda: view.batch(ops)), name)


GETS = [GetOp(PLACE, f"tenant7-{i + 1}") for i in range(20)]
PUTS = [PutOp(PLACE, f"tenant7-{i + 1}", {"text": f"row {i}"}) for i in range(5)]
OF_TENANT = ListNamespacesOp((MatchCondition("prefix", PLACE[:1]),))
BY_KEY = "memories_tenant_key_namespace_tier_key"

READS: dict[str, tuple[str, list[Any], int, str]] = {
    "a get": ("get", [GetOp(PLACE, KEY)], 3, BY_KEY),
    "gets": ("get_many", GETS, 4 * len(GETS), BY_KEY),
    "a put": ("put", PUTS, 12 * len(PUTS), ""),
    "what a put replaces": ("delete_expired", PUTS, 12 * len(PUTS), ""),
    "its old vectors": ("delete_vectors", PUTS, 12 * len(PUTS), ""),
    "its new vectors": ("put_vectors", PUTS, 12 * len(PUTS), ""),
    "a deletion": ("delete", [PutOp(PLACE, "absent", None)], 12, ""),
    "the newest of a tenant": ("search_newest", [SearchOp(PLACE)], OF_ONE_TENANT, ""),
    "the newest of a large one": ("search_newest", [SearchOp((LARGE,))], 100, ""),
    "namespaces of a tenant": ("list_namespaces", [OF_TENANT], 2 * OF_ONE_TENANT, ""),
}
"""The statement, what is asked, the rows that it may read, and the index that it reads."""


@pytest.mark.parametrize("what", READS)
def test_a_statement_reads_little_and_nothing_in_sequence(
    loaded: TieredStore, mode: Mode, what: str
) -> None:
    name, ops, most, index = READS[what]
    calls = calls_of(loaded, lambda: loaded.batch(ops))
    settings = [named(calls, "delete_vectors")] if name in ("put", "put_vectors") else []
    root = plan(loaded, named(calls, name), mode, settings=settings)
    assert sequential(root) == []
    assert any(index in found for found in indexes(root))
    assert rows_read(root) <= most


def test_a_deletion_looks_for_twins_by_their_index_and_a_move_for_its_key(
    loaded: TieredStore, mode: Mode
) -> None:
    memory = coordinator(loaded, "tenant7", project_id="notes")
    loaded.put(PLACE, "twin", {"text": "row"})
    twin = named(calls_of(loaded, lambda: memory.delete_memory("twin")), "delete")
    move = named(calls_of(loaded, lambda: loaded.move(PLACE, "absent", "long_term")), "move")
    loaded.put(PLACE, "twin", {"text": "row"})
    roots = [plan(loaded, call, mode) for call in (twin, move)]
    loaded.delete(PLACE, "twin")
    assert [sequential(root) for root in roots] == [[], []]
    assert rows_read(roots[0]) <= 40
    assert rows_read(roots[1]) <= 12


def test_keys_are_found_by_their_index_before_there_are_statistics(
    server_url: str, mode: Mode
) -> None:
    with (
        fresh_database(server_url) as url,
        TieredStore.from_conn_string(url, index={}) as store,
    ):
        store.setup()
        with psycopg.connect(url, autocommit=True) as conn:
            for tier in TIERS:
                conn.execute(f"ALTER TABLE {tier}.memories SET (autovacuum_enabled = off)")
        store.batch([PutOp(PLACE, str(number), {}) for number in range(2_000)])
        for name, value in (("put", {"text": "new"}), ("delete", None)):
            ops = [PutOp(PLACE, str(number), value) for number in range(5)]
            assert rows_read(plan(store, batch_call(store, name, *ops), mode)) <= 20 * len(ops)


@pytest.mark.parametrize("tier", [None, *TIERS])
def test_exact_search_reads_the_vectors_of_its_tenant_and_tiers_from_the_key_alone(
    loaded: TieredStore, mode: Mode, tier: str | None
) -> None:
    op = SearchOp(PLACE, query="row word7", limit=10)
    root = plan(loaded, batch_call(loaded, "search_single", op, tier=tier), mode)
    assert sequential(root) == []
    vectors = [node for node in scans(root) if node["Node Type"] == "Index Only Scan"]
    wanted = 3 if tier is None else 1
    assert {node["Index Name"] for node in vectors} == {"vectors_pkey"}
    assert len({node["Alias"] for node in vectors}) == wanted
    assert rows_read(root) <= 2 * OF_ONE_TENANT


def test_a_sweep_reads_only_what_has_expired(loaded: TieredStore, mode: Mode) -> None:
    call = sweep_memories_call(NOON + timedelta(minutes=1), loaded.options)
    root = plan(loaded, call, mode)
    assert sequential(root) == []
    assert any("expir" in name for name in indexes(root))
    assert rows_read(root) <= 12 * EXPIRED


def test_a_recall_reads_the_words_of_a_large_tenant_from_gin(
    loaded: TieredStore, mode: Mode
) -> None:
    memory = coordinator(loaded, LARGE, project_id="notes")
    root = plan(loaded, recall_call(loaded, lambda: memory.get_context("word7")), mode)
    assert any("lexemes" in name for name in indexes(root))


def test_get_of_a_table_sharded_by_tenant_reads_one_shard(loaded: TieredStore, mode: Mode) -> None:
    shard(loaded)
    call = batch_call(loaded, "get", GetOp(PLACE, KEY))
    root = plan(loaded, call, mode, replace=("memory.memories", "twin.memories"))
    assert len({node["Relation Name"] for node in scans(root)}) == 1


def shard(store: TieredStore) -> None:
    """A twin of the table with the same keys, partitioned by hash of the tenant."""
    database = store.runner._database
    assert database is not None
    with database.pool.connection() as conn:
        conn.execute("CREATE SCHEMA IF NOT EXISTS twin")
        conn.execute("DROP TABLE IF EXISTS twin.memories")
        conn.execute("""CREATE TABLE twin.memories (LIKE memory.memories INCLUDING ALL)
                        PARTITION BY HASH (tenant)""")
        for i in range(4):
            conn.execute(
                f"""CREATE TABLE twin.memories_{i} PARTITION OF twin.memories
                    FOR VALUES WITH (MODULUS 4, REMAINDER {i})""".encode()
            )
        conn.execute("INSERT INTO twin.memories SELECT * FROM memory.memories")
        conn.execute("ANALYZE twin.memories")


def searched(store: TieredStore, mode: Mode, prefix: tuple[str, ...]) -> dict[str, Any]:
    """The plan of a search beside HNSW."""
    op = SearchOp(prefix, query="row word7", limit=10)
    calls = calls_of(store, lambda: store.batch([op]))
    settings = [named(calls, "ann_settings")]
    root = plan(store, named(calls, "search_ann"), mode, settings=settings)
    assert sequential(root) == []
    return root


@pytest.mark.slow
def test_search_of_a_large_tenant_reads_hnsw(indexed: TieredStore, mode: Mode) -> None:
    assert "vectors_hnsw_cosine" in indexes(searched(indexed, mode, (LARGE,)))


def test_search_by_hnsw_reads_the_memories_of_its_page(indexed: TieredStore, mode: Mode) -> None:
    root = searched(indexed, mode, (LARGE,))
    assert rows_read(root, lambda node: node.get("Relation Name") == "memories") <= 20


def test_search_of_a_small_tenant_beside_hnsw_stays_exact(indexed: TieredStore, mode: Mode) -> None:
    assert "vectors_hnsw_cosine" not in indexes(searched(indexed, mode, PLACE))
