"""The statements of learning read their tenant's rows by their keys, however they were planned."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from itertools import count
from typing import Any

import psycopg
import pytest

from langmem_tiers import MemoryCoordinator, TieredStore
from langmem_tiers.core.memory import TIERS
from langmem_tiers.learning.outcome import Run
from langmem_tiers.postgres.flow import Call, rows_of
from tests.support.coordinating import coordinator
from tests.support.learning import EASY
from tests.support.plans import (
    MODES,
    Mode,
    calls_of,
    loaded_store,
    plan,
    rows_read,
    sequential,
)

OF_ONE_TENANT = 300
"""Memories of a tenant, in all three tiers."""
OF_TENANT7 = range(1801, 2101)
"""Their ids."""
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)

_FILL = """
INSERT INTO memory.memories (tenant, tier, namespace, key, value, lexemes, created_at, updated_at,
                             signature, tool, state)
SELECT t.name, p.tier, p.namespace, t.name || '-' || i,
       jsonb_build_object('content', 'row word' || i % 50, 'memory_type', 'pattern',
                          'project_id', 'p'),
       to_tsvector('english', 'row word' || i % 50) || array_to_tsvector(ARRAY[chr(1) || t.name]),
       timestamptz '2026-01-01', timestamptz '2026-01-01' + i * interval '1 second',
       'error-' || i % 20, 'tool-' || i % 10, NULL
FROM (SELECT 'tenant' || n AS name FROM generate_series(1, 30) n) t,
     generate_series(1, 300) i,
     LATERAL (SELECT (enum_range(NULL::memory.tier))[i % 3 + 1] AS tier,
                     (ARRAY['p.s.', 'p.', ''])[i % 3 + 1] AS namespace) p;
INSERT INTO memory.vectors (tenant, tier, namespace, id, field, embedding)
SELECT m.tenant, m.tier, m.namespace, m.id, 'content',
       (SELECT array_agg(random() - 0.5) FROM generate_series(1, 16) WHERE m.id > 0)::halfvec
FROM memory.memories m;
INSERT INTO memory.usage (tenant, id, access_count, success_count)
SELECT tenant, id, 7, 2 FROM memory.memories;
INSERT INTO memory.exposures (tenant, run, id, root, project, position, held_out, exposed_at,
                              succeeded, settled_at)
SELECT m.tenant, 'run-' || (m.id % 150 * 4 + n), m.id, 'root-' || m.id % 150, 'p', 1, false,
       timestamptz '2026-01-01', CASE WHEN n < 3 THEN n = 0 END,
       CASE WHEN n < 3 THEN timestamptz '2026-01-02' END
FROM memory.memories m, generate_series(0, 3) n WHERE m.id % 2 = 0;
INSERT INTO memory.lineage (tenant, id, source, event, derived)
SELECT m.tenant, s.id, m.id, 'move-' || m.id, true FROM memory.memories m
JOIN memory.memories s ON s.tenant = m.tenant AND s.id = m.id + 1
WHERE split_part(m.key, '-', 2)::int % 6 = 1;
INSERT INTO memory.events (tenant, event, kind, id, target, at, detail)
SELECT l.tenant, l.event, 'promoted', l.source, l.id, timestamptz '2026-01-01',
       jsonb_build_object('sources', jsonb_build_array(l.source), 'updated_at', now(),
                          'handed', jsonb_build_object('access_count', 1, 'success_count', 1,
                                                       'failure_count', 0, 'strength', 1),
                          'had', NULL)
FROM memory.lineage l;
"""
"""Thirty tenants; of each, every second memory was shown to four runs."""

store = loaded_store(
    _FILL,
    *(f"{tier}.{name}" for tier in TIERS for name in ("memories", "vectors")),
    *(f"memory.{name}" for name in ("usage", "exposures", "lineage", "events")),
    clock=lambda: NOON,
)


def asker(store: TieredStore) -> MemoryCoordinator:
    return coordinator(store, "tenant7", project_id="p", session_id="s")


def key(number: int) -> str:
    return f"tenant7-{number}"


def recalled(store: TieredStore) -> Any:
    return [one for one in (asker(store).get(key(i)) for i in (1, 2, 3)) if one is not None]


def promoted(store: TieredStore) -> object:
    """Promote a memory that was not promoted yet."""
    return asker(store).promote_to_long_term(key(4 + 6 * next(_unpromoted)), policy=EASY)


_unpromoted = count()


USES: dict[str, tuple[Callable[[TieredStore], object], int]] = {
    "expose": (
        lambda store: asker(store).get_context("word7", run_id=Run("new", "root"), limit=5),
        15,
    ),
    "settle": (
        lambda store: asker(store).learning.record_outcome(run_id="root-2", success=True),
        120,
    ),
    "settle_shown": (
        lambda store: asker(store).learning.record_outcome(
            recalled(store), success=True, run_id="root-2"
        ),
        120,
    ),
    "recall_lessons": (
        lambda store: asker(store).learning.get_lessons("error-7", tools="tool-3"),
        4 * OF_ONE_TENANT,
    ),
    "failures_alike": (
        lambda store: asker(store).learning.get_lessons("error-7", tools="tool-3"),
        2 * OF_ONE_TENANT,
    ),
    "holdout_evidence": (
        lambda store: asker(store).get_context("word7", run_id=Run("new", "root"), limit=5),
        4 * OF_ONE_TENANT,
    ),
    "promotion_candidates": (lambda store: asker(store).learning.promote(), 4 * OF_ONE_TENANT),
    "promotion_evidence": (
        lambda store: asker(store).learning.explain(key(7)),
        4 * OF_ONE_TENANT,
    ),
    "promotion_sources": (promoted, 40),
    "promotion_targets": (promoted, 2 * OF_ONE_TENANT),
    "record_promotion": (promoted, 2 * OF_ONE_TENANT),
    "demotion_candidates": (lambda store: asker(store).learning.demote(), 12 * OF_ONE_TENANT),
    "history_of": (lambda store: asker(store).learning.explain(key(7)), OF_ONE_TENANT),
    "relatives": (lambda store: asker(store).learning.explain(key(7)), 20),
    "recalled_again": (
        lambda store: store.run(rows_of("recalled_again", tenant="tenant7", ids=[*OF_TENANT7])),
        6 * OF_ONE_TENANT,
    ),
    "holdout_counts": (lambda store: asker(store).stats(), 6 * OF_ONE_TENANT),
}


@pytest.mark.parametrize("mode", MODES)
def test_each_statement_reads_a_few_rows_of_its_tenant(store: TieredStore, mode: Mode) -> None:
    for name, (use, most) in USES.items():
        sent = [call for call in calls_of(store, partial(use, store)) if call.name == name]
        assert sent, f"{name} was not sent"
        call = sent[0]
        if name == "record_promotion":
            call = call._replace(params={**call.params, "event": "another"})
        root = plan(store, call, mode)
        assert sequential(root) == [], name
        assert rows_read(root) <= most, name


@pytest.mark.parametrize("mode", MODES)
def test_the_way_back_reads_a_few_rows_of_its_tenant(store: TieredStore, mode: Mode) -> None:
    with psycopg.connect(store.target.conninfo) as conn:
        row = conn.execute(
            "SELECT event, target FROM memory.events WHERE tenant = 'tenant9' ORDER BY 1 LIMIT 1"
        ).fetchone()
    assert row is not None
    params = {"tenant": "tenant9", "event": row[0], "id": row[1], "now": NOON, "detail": "{}"}
    params |= {"alive_at": NOON, "project_low": "", "project_high": ""}
    back = ("undo_promotion", "undo_reinforcement", "undo_demotion", "event")
    there = Call("record_demotion", {**params, "event": "new", "tier": "long_term"})
    for call in [*(Call(name, params) for name in back), there]:
        root = plan(store, call, mode)
        assert sequential(root) == [], call.name
        assert rows_read(root) <= 120, call.name
