"""Keeping the notes of a session reads that session alone, however planned."""

from __future__ import annotations

from datetime import UTC, datetime

import psycopg
import pytest

from langmem_tiers import TieredStore
from tests.support.coordinating import coordinator
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
NOTES = 60
"""Notes of each session, of which the large tenant has a hundred."""

_FILL = """
INSERT INTO memory.memories (tenant, tier, namespace, key, value, created_at, updated_at, session,
                             ttl_minutes, expires_at)
SELECT t.name, 'short_term', 'p.s' || i % t.sessions || '.', 'k' || i,
       jsonb_build_object('content', 'note ' || i, 'memory_type', 'working',
                          'project_id', 'p', 'session_id', 's' || i % t.sessions),
       timestamptz '2026-03-01 00:00+00', timestamptz '2026-03-01 00:00+00', 's' || i % t.sessions,
       1440, timestamptz '2026-03-02 00:00+00'
FROM (SELECT 'tenant' || n AS name, CASE n WHEN 0 THEN 100 ELSE 3 END AS sessions
      FROM generate_series(0, 19) n) t, generate_series(1, t.sessions * 60) i;
"""
"""A large tenant of a hundred sessions and nineteen small ones, all half a day old."""

store = loaded_store(_FILL, "short_term.memories", clock=lambda: NOON)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("tenant", ["tenant0", "tenant7"])
@pytest.mark.parametrize("name", ["renew_sessions", "extend"])
def test_the_notes_of_one_session_are_read_and_no_others(
    store: TieredStore, mode: Mode, tenant: str, name: str
) -> None:
    memory = coordinator(store, tenant, project_id="p", session_id="s1")

    def use() -> None:
        if name == "extend":
            assert memory.get("k1") is not None
        else:
            memory.store("Order 7 was refunded", "episodic", key=f"{mode}")

    call = named(calls_of(store, use), name)
    with psycopg.connect(store.target.conninfo, autocommit=True) as conn:
        conn.execute(
            "UPDATE memory.memories SET expires_at = '2026-03-02 00:00+00' WHERE session = 's1'"
        )
    found = plan(store, call, mode)
    assert sequential(found) == []
    assert rows_read(found) < 6 * NOTES
