"""Steps of consolidation on a ready store: what they find, and what they do to it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import psycopg

from benchmarks.ruling import COUNTED
from langmem_tiers import MemoryCoordinator, TieredStore
from langmem_tiers.consolidation.cycle import steps
from langmem_tiers.consolidation.policy import ConsolidationPolicy
from langmem_tiers.consolidation.steps import Cycle, CycleStep, Proposal, StepCounts, StepDecision
from langmem_tiers.core.memory import Moment
from langmem_tiers.learning.promotion_policy import PromotionPolicy
from langmem_tiers.postgres.flow import Flow
from tests.support.opening import Clock, tables

EASY = PromotionPolicy(
    min_access_count=0, min_success_rate=0.0, min_age_days=0.0, min_projects=1, demote_after=1
)
THREE = ("one", "two", "three")
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


class BrokenOffError(Exception):
    """What ends a flow in the middle."""


def _broken_off(flow: Flow[Any], after: int) -> Flow[Any]:
    answer = None
    for _ in range(after):
        answer = yield flow.send(answer)
    raise BrokenOffError


def left_by(store: TieredStore, url: str, begin: Callable[[], Flow[Any]]) -> list[Any]:
    """The different contents that a flow leaves when it is broken off after each of its effects."""
    seen = [tables(url)]
    for after in range(30):
        with suppress(BrokenOffError, StopIteration, RuntimeError):
            store.run(_broken_off(begin(), after))
        if (now := tables(url)) != seen[-1]:
            seen.append(now)
    return seen


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


# What a step finds something to do in


def expired(memory: MemoryCoordinator, clock: Clock, one: str = "one", two: str = "two") -> None:
    """Two memories whose time to live is over."""
    memory.store("gone soon", "episodic", tier="short_term", key=one)
    memory.store("gone as well", "episodic", tier="short_term", key=two)
    clock.advance(hours=2)


def important(memory: MemoryCoordinator, clock: Clock, one: str = "one", two: str = "two") -> None:
    """Two notes of a session, of which one is important."""
    memory.store("The launch is on 3 May", "episodic", tier="short_term", key=one, importance=0.9)
    memory.store("small talk", "episodic", tier="short_term", key=two)
    clock.advance(minutes=5)


def ended(memory: MemoryCoordinator, clock: Clock) -> None:
    """Two notes of a session."""
    for key in ("one", "two"):
        memory.store(f"Reading the mail of May, {key}", "working", key=key)
    clock.advance(minutes=5)


def alike(memory: MemoryCoordinator, clock: Clock, keys: tuple[str, str, str] = THREE) -> None:
    """Three memories that say the same, each read at several times."""
    one, two, three = keys
    fact(memory, one, "Anna likes green tea")
    clock.advance(hours=1)
    fact(memory, two, "Anna likes green tea.")
    fact(memory, three, "ANNA LIKES GREEN TEA")
    memory.get(two)
    memory.get(three)
    memory.tiered_store.run(memory.tiered_store.flows.flush())
    clock.advance(days=3)
    memory.get(one)
    memory.get(three)
    clock.advance(hours=1)


def contradicting(
    memory: MemoryCoordinator, clock: Clock, keys: tuple[str, str, str] = THREE
) -> None:
    """Three memories, of which each contradicts the one before."""
    one, two, three = keys
    fact(memory, one, "The deployment port is 80")
    clock.advance(days=1)
    fact(memory, two, "The deployment port is 443")
    clock.advance(days=1)
    fact(memory, three, "The deployment port is 8443")
    clock.advance(hours=1)


def proven(
    memory: MemoryCoordinator,
    clock: Clock,
    key: str = "one",
    content: str = "Retry a write only with a key",
) -> None:
    """A memory that helped a run."""
    fact(memory, key, content, memory_type="pattern")
    shown = memory.get_context(content)
    memory.learning.record_outcome([one for one in shown if one.key == key], success=True)
    clock.advance(days=1)


def failed(memory: MemoryCoordinator, clock: Clock, key: str = "one") -> None:
    """A memory that was promoted and has failed since."""
    proven(memory, clock, key)
    store = memory.tiered_store
    before = cycle(store, "before", tenant=memory.context.tenant)
    assert done(store, step("promote"), before)["done"]
    clock.advance(days=1)
    context = replace(memory.context, project_id="elsewhere", session_id=None)
    elsewhere = MemoryCoordinator(store, context=context)
    for run in ("a", "b"):
        elsewhere.get_context("retry", run_id=run)
        elsewhere.learning.record_outcome(success=False, run_id=run)


def read(memory: MemoryCoordinator, clock: Clock) -> None:
    """A memory that was read a month ago."""
    fact(memory, "one", "Anna likes green tea")
    memory.get("one")
    clock.advance(days=30)


PREPARE: dict[str, Callable[[MemoryCoordinator, Clock], None]] = {
    "expire": expired,
    "rise": important,
    "session_end": ended,
    "merge": alike,
    "supersede": contradicting,
    "demote": failed,
    "promote": proven,
    "decay": read,
}
STEPS = tuple(PREPARE)
MOVING = ("rise", "merge", "supersede", "demote", "promote")
