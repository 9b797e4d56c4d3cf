"""Tenants whose memory gives every step of a cycle something to do, and what cycles left of it."""

from __future__ import annotations

import hashlib
import json
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

import psycopg
from langgraph.checkpoint.postgres import PostgresSaver

from benchmarks.ruling import Ruling
from langmem_tiers import MemoryContext, MemoryCoordinator, TieredStore
from langmem_tiers.graph.checkpoints import config_of
from langmem_tiers.graph.consolidation import create_consolidation_graph
from langmem_tiers.postgres.target import checkpointer_pool
from tests.support.coordinating import coordinator
from tests.support.opening import Clock, text_index

TENANTS = ("acme", "beta", "gamma")
ENDED = TENANTS[1]
"""Whose session has ended. No worker hears of that: an agent's graph has begun its cycle."""
LATER = timedelta(days=40)
"""How long after it was filled a database is consolidated."""
LONG_AGO = timedelta(days=200)
"""How long before that the oldest memories are from."""

_TABLES: Mapping[str, str] = {
    "memories": """
        SELECT tenant, namespace, key, tier::text, value::text, lexemes::text, created_at::text,
               updated_at::text, expires_at::text, ttl_minutes, session, turn, speaker,
               occurred_at::text, state, state_at::text, valid_from::text, valid_to::text,
               signature, tool
        FROM memory.memories""",
    "vectors": """
        SELECT v.tenant, m.namespace, m.key, v.tier::text, v.field, v.embedding::text
        FROM memory.vectors v JOIN memory.memories m USING (tenant, id)""",
    "usage": """
        SELECT u.tenant, m.namespace, m.key, u.access_count, u.success_count, u.failure_count,
               u.last_accessed_at::text, u.strength, u.strength_at::text
        FROM memory.usage u LEFT JOIN memory.memories m USING (tenant, id)""",
    "exposures": """
        SELECT e.tenant, m.namespace, m.key, e.run, e.project, e.succeeded, e.held_out
        FROM memory.exposures e LEFT JOIN memory.memories m USING (tenant, id)""",
    "lineage": """
        SELECT l.tenant, m.namespace, m.key, s.namespace, s.key, l.derived
        FROM memory.lineage l
        LEFT JOIN memory.memories m ON m.tenant = l.tenant AND m.id = l.id
        LEFT JOIN memory.memories s ON s.tenant = l.tenant AND s.id = l.source""",
    "events": """
        SELECT e.tenant, e.kind, m.key, t.key, e.at::text, e.undone_at::text, e.detail
        FROM memory.events e
        LEFT JOIN memory.memories m ON m.tenant = e.tenant AND m.id = e.id
        LEFT JOIN memory.memories t ON t.tenant = e.tenant AND t.id = e.target""",
    "cycles": "SELECT tenant, step, seen::text FROM memory.cycles",
    "archives": "SELECT tenant, checksum, memories, archived_at::text FROM memory.archives",
    "archived": """
        SELECT a.tenant, a.id, a.tier::text, a.namespace, a.key, f.checksum
        FROM memory.archived a JOIN memory.archives f USING (tenant, archive)""",
}
_IDS = ("id", "source", "target", "sources", "again")
"""Where the detail of an event names memories."""


def fill(url: str) -> None:
    """Store memories of which every step of a cycle finds some."""
    with TieredStore.from_conn_string(url, index=text_index(), clock=Clock()) as store:
        store.setup()
    for number, tenant in enumerate(TENANTS):
        _fill(url, tenant, random.Random(number))  # noqa: S311 - seeded, not secret
    with psycopg.connect(url) as conn:
        conn.execute(
            """INSERT INTO memory.exposures (tenant, run, id, project, position, held_out,
                                             exposed_at, succeeded, settled_at, settled_by)
               SELECT m.tenant, 'run-' || m.id || p, m.id, p, 1, false, m.created_at, true,
                      m.created_at, 'run-' || m.id || p
               FROM memory.memories m, unnest(ARRAY['billing', 'shipping']) p
               WHERE m.key LIKE 'proven%'"""
        )
        conn.execute(
            """INSERT INTO memory.usage (tenant, id, access_count, success_count, strength,
                                         last_accessed_at, strength_at)
               SELECT tenant, id, 7, CASE WHEN key LIKE 'proven%' THEN 2 ELSE 0 END, 7,
                      created_at, created_at
               FROM memory.memories WHERE key LIKE 'proven%' OR key LIKE 'same%'"""
        )
        conn.execute(
            """UPDATE memory.memories SET expires_at = NULL, ttl_minutes = NULL
               WHERE key ~ '^(rising|note)'"""
        )
    _begin(url)


def _fill(url: str, tenant: str, rng: random.Random) -> None:
    clock = Clock()
    now = clock.now
    with TieredStore.from_conn_string(url, index=text_index(), clock=clock) as store:
        memory = coordinator(store, tenant, project_id="billing", session_id="chat")
        clock.now = now - LONG_AGO
        _remember_old(memory, rng)
        shipping = coordinator(store, tenant, project_id="shipping")
        for number in range(2):
            _turn(f"turned-{number}", memory, shipping, clock, rng)
        clock.now = now - LATER
        for key, content, kind, tier in _memories(rng):
            clock.advance(minutes=1)
            importance = 0.9 if key.startswith("rising") else None
            memory.store(content, kind, tier=tier, key=key, importance=importance)


def _remember_old(memory: MemoryCoordinator, rng: random.Random) -> None:
    """Memories that nobody has asked for since, but for one that was read and served once."""
    for number in range(5):
        tier = "long_term" if number % 2 else "working"
        memory.store(_words(rng), "semantic", tier=tier, key=f"old-{number}")
    _serve(memory, "old-0", 1, success=True)


def _turn(
    key: str,
    memory: MemoryCoordinator,
    shipping: MemoryCoordinator,
    clock: Clock,
    rng: random.Random,
) -> None:
    """A memory that was promoted and has failed since."""
    memory.store(_words(rng), "pattern", tier="working", key=key)
    _serve(memory, key, 5, success=True)
    _serve(shipping, key, 1, success=True, of=memory)
    clock.advance(days=8)
    promotion = memory.promote_to_long_term(key)
    assert promotion.successor is not None, promotion
    clock.advance(days=1)
    _serve(memory, promotion.successor, 12, success=False)


def _serve(
    memory: MemoryCoordinator,
    key: str,
    runs: int,
    *,
    success: bool,
    of: MemoryCoordinator | None = None,
) -> None:
    """Let runs read a memory, of another project if one is named, and say what came of them."""
    for number in range(runs):
        found = (of or memory).get(key)
        assert found is not None
        run = f"{memory.context.project_id}-{key}-{success}-{number}"
        assert memory.record_outcome([found], success, run_id=run).credited == 1


def _begin(url: str) -> None:
    """Begin the cycle of the tenant whose session has ended, and leave it at that."""
    context = MemoryContext(tenant=ENDED, project_id="billing", session_id="chat")
    with (
        TieredStore.from_conn_string(url, index=text_index(), clock=Clock()) as store,
        checkpointer_pool(url) as pool,
    ):
        saver = PostgresSaver(pool)
        saver.setup()
        graph = create_consolidation_graph(
            Ruling(), store=store, checkpointer=saver, interrupt_before=["select"]
        )
        graph.invoke({"session_ended": True}, config_of(ENDED), context=context)


def _memories(rng: random.Random) -> Iterator[tuple[str, str, str, str]]:
    """Keys, contents, types and tiers."""
    for said in range(4):
        text = _words(rng)
        for again in range(2):
            yield f"same-{said}-{again}", text, "semantic", "working"
    for name, was, became in (("Ada", "Berlin", "Madrid"), ("Bob", "Oslo", "Rome")):
        yield f"was-{name}", f"{name} lives in {was}.", "semantic", "working"
        yield f"now-{name}", f"{name} lives in {became}.", "semantic", "working"
    for number in range(4):
        yield f"proven-{number}", _words(rng), "pattern", "working"
        yield f"plain-{number}", _words(rng), "episodic", "working"
    for number in range(3):
        yield f"over-{number}", _words(rng), "episodic", "short_term"
        yield f"rising-{number}", _words(rng), "episodic", "short_term"
        yield f"note-{number}", f"The port of {_words(rng)} is 80.", "working", "short_term"


def _words(rng: random.Random) -> str:
    return " ".join("".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=9)) for _ in range(5))


def restored(url: str) -> dict[str, str]:
    """The contents once all that was archived is back."""
    with TieredStore.from_conn_string(url, index=text_index(), clock=Clock()) as store:
        for tenant in TENANTS:
            memory = coordinator(store, tenant)
            for file in memory.archives():
                assert memory.restore_archive(file.archive).restored == file.remaining
    return contents(url)


def contents(url: str) -> dict[str, str]:
    """By tenant, a hash of every row, but for the order in which rows were written.

    New memories are told apart by their keys, as ids are not the same in every run.
    """
    rows: dict[str, list[str]] = defaultdict(list)
    with psycopg.connect(url) as conn:
        conn.execute("SET timezone = 'UTC'")
        names = _names(conn)
        for table, query in _TABLES.items():
            for tenant, *columns in conn.execute(query.encode()):
                rows[tenant].append(json.dumps([table, *(_named(one, names) for one in columns)]))
    return {
        tenant: hashlib.sha256("\n".join(sorted(several)).encode()).hexdigest()
        for tenant, several in rows.items()
    }


def _names(conn: psycopg.Connection[Any]) -> dict[int, str]:
    found = conn.execute("SELECT id, namespace || ' ' || key FROM memory.memories")
    return dict(found.fetchall())


def _named(value: Any, names: Mapping[int, str]) -> Any:
    """A detail that names memories by their keys."""
    if not isinstance(value, dict):
        return value
    return {
        name: _key(one, names) if name in _IDS else _named(one, names)
        for name, one in value.items()
    }


def _key(one: Any, names: Mapping[int, str]) -> Any:
    if isinstance(one, list):
        return sorted(str(names.get(each, each)) for each in one)
    return names.get(one, one)
