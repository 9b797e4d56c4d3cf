"""A world in which each step of a cycle finds something to do, and what cycles leave of it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from datetime import timedelta
from itertools import count
from typing import Any

import psycopg
import pytest

from benchmarks.ruling import Ruling
from langmem_tiers import MemoryContext, TieredStore
from langmem_tiers.consolidation.policy import ConsolidationPolicy
from langmem_tiers.consolidation.report import ConsolidationReport
from langmem_tiers.graph import consolidation
from langmem_tiers.graph.consolidation import create_consolidation_graph
from tests.support.coordinating import coordinator
from tests.support.cycling import EASY, alike, contradicting, expired, failed, important, proven
from tests.support.opening import Clock, text_index

ACME = MemoryContext(tenant="acme", project_id="billing", session_id="chat")
POLICY = ConsolidationPolicy(promotion=EASY)
DONE = {
    "expire": 2,
    "rise": 1,
    "merge": 2,
    "supersede": 2,
    "demote": 1,
    "promote": 1,
    "decay": 5,
}
"""What each step of a first cycle does in the world."""
FILLING = timedelta(days=198, hours=5, minutes=5)
"""How long it takes to fill."""

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


def fill(store: TieredStore, clock: Clock, tenant: str = "acme") -> None:
    """Remember something for each step, after what nobody has asked for since."""
    attic = coordinator(store, tenant, project_id="attic")
    for number in range(3):
        attic.store(f"Box {number} holds {number} lamps", "semantic", tier="working")
    clock.advance(days=190)
    memory = coordinator(store, tenant, project_id="billing", session_id="chat")
    failed(memory, clock, "turned")
    proven(memory, clock, "proven", "Write invoices in the language of the customer")
    contradicting(memory, clock, ("port 1", "port 2", "port 3"))
    alike(memory, clock, ("tea 1", "tea 2", "tea 3"))
    expired(memory, clock, "gone 1", "gone 2")
    memory.store("The printer of the office is on 3", "working", key="note")
    important(memory, clock, "up", "hello")


def opened_world(url: str, clock: Clock) -> TieredStore:
    """A store on a world."""
    return TieredStore(url, index=text_index(), clock=clock)


def cycle(store: TieredStore, checkpointer: Any = None, **options: Any) -> Any:
    """The graph on a store; what the stand-in for a model says is done."""
    given = {"model": Ruling(), "policy": POLICY, "store": store, "checkpointer": checkpointer}
    return create_consolidation_graph(**{**given, **options})


def done(report: ConsolidationReport) -> dict[str, int]:
    """What each step did."""
    return {step: report.count(step) for step in DONE}


def crashing(
    monkeypatch: pytest.MonkeyPatch, node: str, *, after: bool, error: Exception, at: int = 1
) -> None:
    """Let a node fail once, the `at`-th time it runs: before its work, or when it is done."""
    does = getattr(consolidation, node)
    times = count(1)

    def failing(run: Any, state: Any) -> Any:
        fails = next(times) == at
        if fails and not after:
            raise error
        update = yield from does(run, state)
        if fails:
            raise error
        return update

    failing.__name__ = node
    nodes = [failing if one is does else one for one in consolidation._NODES]
    monkeypatch.setattr(consolidation, "_NODES", nodes)


def contents(url: str) -> dict[str, list[str]]:
    """By tenant, every row, but for the order in which rows were written and how they are named.

    New memories are told apart by their keys, as ids are not the same in every run.
    """
    rows: dict[str, list[str]] = defaultdict(list)
    with psycopg.connect(url) as conn:
        conn.execute("SET timezone = 'UTC'")
        named = conn.execute("SELECT id, namespace || ' ' || key FROM memory.memories")
        names: dict[int, str] = dict(named.fetchall())
        for table, query in _TABLES.items():
            for tenant, *columns in conn.execute(query.encode()):
                rows[tenant].append(json.dumps([table, *(_named(one, names) for one in columns)]))
    return {tenant: sorted(several) for tenant, several in rows.items()}


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
