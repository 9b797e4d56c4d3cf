"""A world in which each step of a cycle finds something to do."""

from __future__ import annotations

from itertools import count
from typing import Any

import psycopg
import pytest

from benchmarks.ruling import Ruling
from langmem_tiers import MemoryContext, MemoryCoordinator, TieredStore
from langmem_tiers.consolidate.policy import ConsolidationPolicy
from langmem_tiers.consolidate.report import ConsolidationReport
from langmem_tiers.graph import consolidation, consolidation_nodes
from langmem_tiers.graph.consolidation import create_consolidation_graph
from langmem_tiers.learn.promotion_rules import PromotionPolicy
from tests.support.coordinating import coordinator
from tests.support.opening import Clock, tables, text_index

ACME = MemoryContext(tenant="acme", project_id="billing", session_id="chat")
EASY = PromotionPolicy(
    min_access_count=0, min_success_rate=0.0, min_age_days=0.0, min_projects=1, demote_after=1
)
POLICY = ConsolidationPolicy(promotion=EASY)
PROMOTING = ConsolidationPolicy(
    expiry=False, rise=None, merge=None, supersede=None, promotion=EASY, decay=False
)
DONE = {
    "expire": 2,
    "rise": 1,
    "merge": 2,
    "supersede": 2,
    "demote": 1,
    "promote": 1,
    "decay": 4,
}
"""What each step of a first cycle does in the world."""


def fill(store: TieredStore, clock: Clock) -> None:
    """Remember something for each step; it takes eight days."""
    memory = coordinator(store, project_id="billing", session_id="chat")
    _turned(store, memory, clock)
    _proven(memory, "Write invoices in the language of the customer", "proven")
    for key, content in (
        ("port 1", "The deployment port is 80"),
        ("port 2", "The deployment port is 443"),
        ("port 3", "The deployment port is 8443"),
        ("tea 1", "Anna likes green tea"),
        ("tea 2", "Anna likes green tea."),
        ("tea 3", "ANNA LIKES GREEN TEA"),
    ):
        memory.store(content, "semantic", tier="working", key=key)
        clock.advance(hours=1)
    for key in ("gone 1", "gone 2"):
        memory.store(f"it is {key}", "episodic", tier="short_term", key=key)
    clock.advance(days=2)
    memory.store("The launch is on 3 May", "episodic", tier="short_term", key="up", importance=0.9)
    memory.store("Ben says hello to all", "episodic", tier="short_term", key="hello")
    clock.advance(minutes=5)


def _proven(memory: MemoryCoordinator, content: str, key: str) -> None:
    memory.store(content, "pattern", tier="working", key=key)
    shown = memory.get_context(content)
    memory.record_outcome([one for one in shown if one.key == key], success=True)


def _turned(store: TieredStore, memory: MemoryCoordinator, clock: Clock) -> None:
    _proven(memory, "Retry a POST only with a key", "turned")
    clock.advance(days=1)
    create_consolidation_graph(policy=PROMOTING, store=store).invoke({}, context=ACME)
    clock.advance(days=4)
    for run in "ab":
        memory.get_context("retry a POST", run_id=run)
        memory.record_outcome(success=False, run_id=run)


def opened_world(url: str, clock: Clock) -> TieredStore:
    """A store on a world."""
    return TieredStore(url, index=text_index(), clock=clock)


def everything(url: str) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of a store, with what steps have seen."""
    with psycopg.connect(url) as conn:
        seen = conn.execute("SELECT c::text FROM memory.cycles c ORDER BY 1").fetchall()
    return {**tables(url), "cycles": seen}


def cycle(store: TieredStore, checkpointer: Any = None, **options: Any) -> Any:
    """The graph on a store; what the stand-in for a model says is done."""
    given = {"model": Ruling(), "policy": POLICY, "store": store, "checkpointer": checkpointer}
    return create_consolidation_graph(**{**given, **options})


def by_key(url: str) -> list[tuple[Any, ...]]:
    """What is known of each memory, whatever its number is."""
    query = """SELECT m.namespace, m.key, m.value, m.tier, m.state, m.state_at, m.valid_to,
                      m.expires_at, u.access_count, u.success_count, u.failure_count, u.strength,
                      (SELECT array_agg(s.key ORDER BY s.key) FROM memory.lineage l
                       JOIN memory.memories s ON s.id = l.source WHERE l.id = m.id)
               FROM memory.memories m LEFT JOIN memory.usage u USING (tenant, id) ORDER BY 1, 2"""
    with psycopg.connect(url) as conn:
        return conn.execute(query).fetchall()


def done(report: ConsolidationReport) -> dict[str, int]:
    """What each step did."""
    return {step: report.count(step) for step in DONE}


def crashing(
    monkeypatch: pytest.MonkeyPatch, node: str, *, after: bool, error: Exception, at: int = 1
) -> None:
    """Let a node fail once, the `at`-th time it runs: before its work, or when it is done."""
    does = getattr(consolidation_nodes, node)
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
