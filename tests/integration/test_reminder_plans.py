"""The statements of reminders read what they answer, however much else a tenant intends."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

import pytest

from langmem_tiers import MemoryCoordinator, TieredStore
from tests.support.coordinating import coordinator, keys
from tests.support.plans import (
    MODES,
    Mode,
    calls_of,
    loaded_store,
    named,
    plan,
    rows_read,
    sequential,
)

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
_FILL = """
INSERT INTO memory.memories (tenant, tier, namespace, key, value, created_at, updated_at)
SELECT t.name, 'working', 'p.', 'k' || i,
       jsonb_build_object('content', 'do ' || i, 'memory_type', 'prospective'), now(), now()
FROM (SELECT 'tenant' || n AS name FROM generate_series(1, 10) n) t, generate_series(1, 3000) i;
INSERT INTO memory.intentions (tenant, id, priority, kind, trigger, due_at, words, name, needs,
                               status, expires_at, closed_at, delivered_at)
SELECT m.tenant, m.id, n % 3, k.kind,
       CASE k.kind WHEN 'time' THEN '{"kind": "time", "at": "2027-01-01T00:00:00+00:00"}'
       WHEN 'cue' THEN jsonb_build_object('kind', 'cue', 'cue', 'when Anna mentions topic' || n)
       WHEN 'tool' THEN jsonb_build_object('kind', 'tool', 'tool', 'tool' || n, 'args', '{}'::jsonb)
       ELSE jsonb_build_object('kind', 'state', 'predicate', 'state' || n) END,
       CASE k.kind WHEN 'time' THEN timestamptz '2027-01-01' ELSE timestamptz '2026-01-01' END,
       CASE k.kind WHEN 'cue' THEN ARRAY['anna', 'topic' || n] END,
       CASE k.kind WHEN 'time' THEN NULL WHEN 'cue' THEN 'topic' || n ELSE k.kind || n END, '{}',
       CASE WHEN n <= 1500 THEN 'pending' ELSE 'done' END,
       CASE WHEN n <= 1500 THEN timestamptz '2028-01-01' END,
       CASE WHEN n > 1500 THEN timestamptz '2026-02-28' END,
       CASE WHEN n > 1500 THEN timestamptz '2026-02-28' END
FROM memory.memories m
CROSS JOIN LATERAL (SELECT substr(m.key, 2)::int AS n) i
CROSS JOIN LATERAL (
    SELECT (ARRAY['time', 'cue', 'tool', 'state'])[n % 4 + 1] AS kind
) k;
"""
"""Ten tenants with 1,500 intentions that are open and as many that are done."""

store = loaded_store(_FILL, "memory.intentions", "working.memories", clock=lambda: NOON)

USES: dict[str, tuple[str, Callable[[MemoryCoordinator], object], int]] = {
    "nothing is due": ("due_intentions", lambda memory: memory.reminders.due(), 0),
    "a query": (
        "due_intentions",
        lambda memory: memory.reminders.due("Has Anna asked about the topic of the garden party?"),
        0,
    ),
    "a query that names one cue": (
        "due_intentions",
        lambda memory: memory.reminders.due("Anna did not mention topic5."),
        5,
    ),
    "a tool": (
        "due_intentions",
        lambda memory: memory.reminders.due(tool="deploy", kinds=["tool"]),
        0,
    ),
    "a topic": ("open_topics", lambda memory: memory.reminders.due("Is it about topic5?"), 0),
    "what is intended for its topic": (
        "intend",
        lambda memory: memory.reminders.add("Ask about topic5", topic=True, key="new"),
        5,
    ),
    "what is intended for a day": (
        "intend",
        lambda memory: memory.reminders.add("Do it", at="2027-01-02T00:00:00+00:00", key="new"),
        5,
    ),
    "a predicate": (
        "due_intentions",
        lambda memory: memory.reminders.due(state=1, predicates={"odd": lambda one: one == 1}),
        0,
    ),
    "what is open": ("intentions", lambda memory: memory.reminders.list(limit=5), 100),
    "what is done": ("intentions", lambda memory: memory.reminders.list("done", limit=5), 60),
    "what was delivered": (
        "acknowledge",
        lambda memory: memory.reminders.acknowledge(*(f"{one}.0" for one in range(1, 30_000, 750))),
        60,
    ),
    "the sweep's expired": ("expire_intentions", lambda memory: memory.tiered_store.sweep_ttl(), 0),
    "the sweep's closed": ("retire_intentions", lambda memory: memory.tiered_store.sweep_ttl(), 0),
}


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_what_is_not_asked_for_is_not_read(store: TieredStore, mode: Mode) -> None:
    memory = coordinator(store, "tenant7", project_id="p")
    for asked, (name, use, most) in USES.items():
        root = plan(store, named(calls_of(store, partial(use, memory)), name), mode)
        assert sequential(root) == [], asked
        assert rows_read(root) <= most, asked


def test_a_cue_is_still_found_among_all_of_them(store: TieredStore) -> None:
    memory = coordinator(store, "tenant7", project_id="p")
    assert keys(memory.reminders.due("Anna mentioned topic9 today.")) == ["k9"]
