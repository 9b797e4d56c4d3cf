"""What merging and superseding look at is found by indexes, however planned, and it is bounded."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial

import pytest

from langmem_tiers import TieredStore
from langmem_tiers.consolidation import merge
from langmem_tiers.postgres.flow import Call, Flow, Query, Row
from tests.support.cycling import cycle
from tests.support.plans import (
    MODES,
    Mode,
    calls_of,
    indexes,
    loaded_store,
    named,
    plan,
    rows_read,
    sequential,
)

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
LARGE, SMALL = "tenant0", "tenant7"
OF_LARGE, OF_SMALL = 6000, 300
"""Their memories."""

_FILL = """
INSERT INTO memory.memories (tenant, tier, namespace, key, value, lexemes, created_at, updated_at,
                             session)
SELECT t.name, 'working', 'p.s' || i % 3 || '.', 'k' || i,
       jsonb_build_object('content', 'thing' || i / 2, 'memory_type', 'semantic'),
       to_tsvector('simple', concat('every thing', i / 2, ' kind', i / 2 % 7, ' shelf', i / 2 % 11))
           || array_to_tsvector(ARRAY[chr(1) || t.name]),
       timestamptz '2026-01-01' + i * interval '1 second',
       timestamptz '2026-01-01' + i * interval '1 second', 's' || i % 3
FROM (SELECT 'tenant' || n AS name, CASE n WHEN 0 THEN 6000 ELSE 300 END AS rows
      FROM generate_series(0, 19) n) t, generate_series(1, t.rows) i;
INSERT INTO memory.vectors (tenant, tier, namespace, id, field, embedding)
SELECT m.tenant, m.tier, m.namespace, m.id, 'content',
       (SELECT array_agg(random() - 0.5) FROM generate_series(1, 16) WHERE m.id > 0)::halfvec
FROM memory.memories m;
"""
"""A large tenant and nineteen small ones, each of one project."""

store = loaded_store(_FILL, "working.memories", "working.vectors", clock=lambda: NOON)


def looked_at(store: TieredStore, tenant: str, ids: list[int]) -> list[Call]:
    """The statements that look for what is near to some memories."""
    at = cycle(store, tenant=tenant)
    groups = partial(merge.read_groups, at, ids, same_tier=True, thorough=False)
    return calls_of(store, lambda: store.run(groups()))


def some(store: TieredStore, tenant: str, count: int) -> list[int]:
    """So many of a tenant's memories, in pairs that share a thing."""
    return [row[0] for row in rows(store, Call("select_changed", {
        "tenant": tenant, "step": "merge", "after": 0, "limit": count, "now": NOON,
        "alive_at": NOON, "memory_types": None,
    }))]  # fmt: skip


def rows(store: TieredStore, call: Call) -> list[Row]:
    """What a statement answers."""

    def asked() -> Flow[list[Row]]:
        (found,) = yield Query((call,), commit=True)
        return list(found)

    return store.run(asked())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["near_by_words", "near_by_vector", "cosines", "stored_memories"])
def test_a_small_tenant_is_read_by_indexes_alone(store: TieredStore, name: str, mode: Mode) -> None:
    ids = some(store, SMALL, 20)
    root = plan(store, named(looked_at(store, SMALL, ids), name), mode)
    assert sequential(root) == []
    most = {"near_by_vector": 3, "near_by_words": 3}.get(name, 2)
    assert rows_read(root) <= most * len(ids) * OF_SMALL


@pytest.mark.parametrize("mode", MODES)
def test_words_of_a_large_home_are_found_in_their_index_and_common_ones_are_not_gone_by(
    store: TieredStore, mode: Mode
) -> None:
    ids = some(store, LARGE, 50)
    call = named(looked_at(store, LARGE, ids), "near_by_words")
    root = plan(store, call, mode)
    assert sequential(root) == []
    assert any("lexemes" in one for one in indexes(root))
    assert rows_read(root) <= 2 * OF_LARGE + 5 * merge.MAX_WORD_NEIGHBOURS * len(ids)
    found = {(row[0], row[1]) for row in rows(store, call)}
    assert {(one, one + 1) for one in ids[1:-1:2]} <= found


def test_vectors_of_a_large_home_are_left_alone_and_those_of_a_small_one_are_not(
    store: TieredStore,
) -> None:
    for tenant, near in ((LARGE, False), (SMALL, True)):
        ids = some(store, tenant, 20)
        call = named(looked_at(store, tenant, ids), "near_by_vector")
        assert bool(rows(store, call)) == near
        assert rows_read(plan(store, call, "force_generic_plan")) <= (
            3 * OF_SMALL * len(ids) if near else 2 * merge.EXACT_LIMIT
        )


def test_every_pair_is_told_how_near_it_is_by_cosine_or_by_words(store: TieredStore) -> None:
    ids = some(store, LARGE, 20)
    at = cycle(store, tenant=LARGE)._replace(options=store.options)
    (near,) = store.run(merge.read_groups(at, ids, same_tier=True, thorough=True))
    (by_words,) = store.run(merge.read_groups(at, ids, same_tier=True, thorough=False))
    for found in (near, by_words):
        assert {one for pair in found.near for one in pair} >= set(ids)
        assert all(merge.MIN_OVERLAP <= one <= 1.001 for one in by_words.near.values())
    assert len(near.near) > len(by_words.near)
