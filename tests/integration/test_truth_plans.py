"""The statements of truth over time read their tenant's rows by their keys, however planned."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from langmem_tiers import MemoryCoordinator, TieredStore
from tests.support.coordinating import coordinator
from tests.support.plans import MODES, Mode, calls_of, loaded_store, plan, rows_read, sequential

_FILL = """
INSERT INTO memory.memories (tenant, tier, namespace, key, value, created_at, updated_at)
SELECT 'tenant' || t, 'working', 'p.', 'k' || i, '{"content": "fact"}',
       timestamptz '2026-01-01', timestamptz '2026-01-01'
FROM generate_series(1, 20) t, generate_series(1, 500) i;
INSERT INTO memory.lineage (tenant, id, source, event, derived)
SELECT m.tenant, m.id, m.id - 1, 'derived-' || m.id, true FROM memory.memories m
WHERE substr(m.key, 2)::int % 10 > 0 AND m.key <> 'k1';
INSERT INTO memory.events (tenant, event, kind, id, target, at, detail)
SELECT l.tenant, l.event, CASE WHEN l.id % 2 = 0 THEN 'derived' ELSE 'superseded' END, l.id,
       CASE WHEN l.id % 2 = 1 THEN l.source END, timestamptz '2026-01-02', '{}'
FROM memory.lineage l;
"""
"""Twenty tenants of whose memories ten hang on each other at a time."""

store = loaded_store(_FILL, "working.memories", "memory.lineage", "memory.events")


Use = Callable[[MemoryCoordinator], object]


def retract(memory: MemoryCoordinator) -> object:
    return memory.truth.retract("k203", reason="a rumour")


def supersede(memory: MemoryCoordinator) -> object:
    old, new = (str(memory.store("fact").key) for _ in range(2))
    return memory.truth.supersede(old, by=new)


def derive(memory: MemoryCoordinator) -> object:
    return memory.store("a conclusion", derived_from=["k301", "k302"])


USES: dict[str, Use] = {
    "known_keys": derive,
    "origins_of_writes": derive,
    "derive": derive,
    "doubt": derive,
    "standing": supersede,
    "retract": retract,
    "retraction": retract,
    "undo_retraction": lambda memory: (retract(memory), memory.truth.restore("k203")),
    "derivation": lambda memory: memory.learning.explain("k409"),
    "versions": lambda memory: memory.truth.history("k409"),
}


@pytest.mark.parametrize("mode", MODES)
def test_each_statement_reads_a_few_rows_of_its_tenant(store: TieredStore, mode: Mode) -> None:
    memory = coordinator(store, "tenant7", project_id="p")
    for name, use in USES.items():
        call = next(one for one in calls_of(store, partial(use, memory)) if one.name == name)
        if name == "derive":
            anew = {"keys": ["k400"] * 2, "events": ["new"] * 2}
            call = call._replace(params={**call.params, **anew})
        root = plan(store, call, mode)
        assert sequential(root) == [], name
        assert rows_read(root) <= 400, name
