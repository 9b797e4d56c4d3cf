"""Steps of consolidation on a ready store: what they find, and what they do to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg

from benchmarks.ruling import COUNTED
from langmem_tiers import MemoryCoordinator, TieredStore
from langmem_tiers.consolidate.cycle import steps
from langmem_tiers.consolidate.policy import ConsolidationPolicy
from langmem_tiers.consolidate.steps import Cycle, CycleStep, Proposal, StepCounts, StepDecision
from langmem_tiers.core.memory import Moment
from langmem_tiers.learn.promotion_rules import PromotionPolicy
from tests.support.opening import Clock, tables

EASY = PromotionPolicy(
    min_access_count=0, min_success_rate=0.0, min_age_days=0.0, min_projects=1, demote_after=1
)
STEPS = ("expire", "rise", "merge", "supersede", "demote", "promote", "decay")
CHAT = frozenset({"billing.chat."})
NOTHING: StepCounts = {"done": {}, "left": {}, "moves": []}


def cycle(store: TieredStore, name: str = "first", **given: Any) -> Cycle:
    """A cycle of a tenant that begins now."""
    store.run(store.flows.flush())
    fields = {
        "tenant": "acme",
        "cycle": name,
        "moment": Moment(store.flows.now),
        "options": store.options,
    }
    return Cycle(**{**fields, **given})


def step(name: str, policy: ConsolidationPolicy | None = None, **given: Any) -> CycleStep:
    """The step of that name, with a judge who counts words unless another, or None, is given."""
    policy = policy or ConsolidationPolicy(promotion=EASY)
    given = {"judge": COUNTED, **given}
    (found,) = [one for one in steps(policy, **given) if one.name == name]
    return found


def proposed(store: TieredStore, one: CycleStep, at: Cycle) -> dict[str, Any]:
    """What a step proposes of everything that it selects."""
    ids = store.run(one.select(at, 0, 100))
    found = store.run(one.propose(at, ids)) if ids else Proposal(decisions=[], kept={})
    return {name: said for name, said in found.items() if said or name != "findings"}


def judged(store: TieredStore, one: CycleStep, at: Cycle) -> list[StepDecision]:
    """What a step decides of everything that it selects."""
    found: list[StepDecision] = proposed(store, one, at)["decisions"]
    return found


def done(store: TieredStore, one: CycleStep, at: Cycle) -> StepCounts:
    """What comes of all that a step selects."""
    applied = store.run(one.apply(at, judged(store, one, at)))
    store.run(one.finish(at))
    return applied


def column(url: str, name: str) -> dict[str, Any]:
    """A column of each memory by key."""
    query = f"SELECT key, {name} FROM memory.memories"  # noqa: S608 - a name of ours
    with psycopg.connect(url) as conn:
        return dict(conn.execute(query.encode()).fetchall())


def usage(url: str, key: str) -> tuple[Any, ...] | None:
    """Accesses, strength and since when of a memory."""
    query = """SELECT u.access_count, u.success_count, u.strength, u.strength_at
               FROM memory.memories m JOIN memory.usage u USING (tenant, id) WHERE m.key = %s"""
    with psycopg.connect(url) as conn:
        return conn.execute(query, [key]).fetchone()


def without_events(url: str) -> dict[str, Any]:
    """Every stored row but those of events."""
    return {name: rows for name, rows in tables(url).items() if name != "events"}


def fact(memory: MemoryCoordinator, key: str, content: str, **given: Any) -> None:
    """Remember that something is so, in working."""
    memory.store(content, given.pop("memory_type", "semantic"), tier="working", key=key, **given)


Prepare = Callable[[TieredStore, MemoryCoordinator, Clock], None]


def expired(_: TieredStore, memory: MemoryCoordinator, clock: Clock) -> None:
    """Two memories whose time to live is over."""
    memory.store("gone soon", "episodic", tier="short_term", key="one")
    memory.store("gone as well", "episodic", tier="short_term", key="two")
    clock.advance(hours=2)


def important(_: TieredStore, memory: MemoryCoordinator, clock: Clock) -> None:
    """Two notes of a session, of which one is important."""
    memory.store("The launch is on 3 May", "episodic", tier="short_term", key="one", importance=0.9)
    memory.store("small talk", "episodic", tier="short_term", key="two")
    clock.advance(minutes=5)


def alike(store: TieredStore, memory: MemoryCoordinator, clock: Clock) -> None:
    """Three memories that say the same, each read at several times."""
    fact(memory, "one", "Anna likes green tea")
    clock.advance(hours=1)
    fact(memory, "two", "Anna likes green tea.")
    fact(memory, "three", "ANNA LIKES GREEN TEA")
    memory.get("two")
    memory.get("three")
    store.run(store.flows.flush())
    clock.advance(days=3)
    memory.get("one")
    memory.get("three")
    clock.advance(hours=1)


def contradicting(_: TieredStore, memory: MemoryCoordinator, clock: Clock) -> None:
    """Three memories, of which each contradicts the one before."""
    fact(memory, "one", "The deployment port is 80")
    clock.advance(days=1)
    fact(memory, "two", "The deployment port is 443")
    clock.advance(days=1)
    fact(memory, "three", "The deployment port is 8443")
    clock.advance(hours=1)


def proven(_: TieredStore, memory: MemoryCoordinator, clock: Clock) -> None:
    """A memory that helped a run."""
    fact(memory, "one", "Retry a POST only with a key", memory_type="pattern")
    shown = memory.get_context("retry", run_id="run")
    assert [one.key for one in shown] == ["one"]
    memory.record_outcome(success=True, run_id="run")
    clock.advance(days=1)


def failed(store: TieredStore, memory: MemoryCoordinator, clock: Clock) -> None:
    """A memory that was promoted and has failed since."""
    proven(store, memory, clock)
    assert done(store, step("promote"), cycle(store, "before"))["done"]
    clock.advance(days=1)
    for run in ("a", "b"):
        memory.get_context("retry", run_id=run)
        memory.record_outcome(success=False, run_id=run)


def read(_: TieredStore, memory: MemoryCoordinator, clock: Clock) -> None:
    """A memory that was read a month ago."""
    fact(memory, "one", "Anna likes green tea")
    memory.get("one")
    clock.advance(days=30)


PREPARE: dict[str, Prepare] = {
    "expire": expired,
    "rise": important,
    "merge": alike,
    "supersede": contradicting,
    "demote": failed,
    "promote": proven,
    "decay": read,
}
MOVING = ("rise", "merge", "supersede", "demote", "promote")
