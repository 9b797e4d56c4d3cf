"""What holds for every step of a cycle, and for the lease that it runs under."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from langmem_tiers import MemoryCoordinator, TieredStore
from langmem_tiers.consolidation import lease
from langmem_tiers.consolidation.cycle import steps
from langmem_tiers.consolidation.policy import ConsolidationPolicy
from langmem_tiers.consolidation.steps import Cycle
from tests.support.coded import coded
from tests.support.coordinating import coordinator
from tests.support.cycling import (
    CHAT,
    MOVING,
    NOTHING,
    PREPARE,
    STEPS,
    cycle,
    done,
    fact,
    judged,
    left_by,
    proposed,
    step,
    without_events,
)
from tests.support.learning import broken
from tests.support.opening import Clock, tables
from tests.support.plans import calls_of


@pytest.fixture
def memory(store: TieredStore, url: str) -> Iterator[MemoryCoordinator]:
    """A project's coordinator in a session, on a store that stays whole."""
    yield coordinator(store, project_id="billing", session_id="chat")
    assert broken(url) == {}


# Of every step


def test_steps_come_in_the_order_of_a_cycle_without_those_that_are_off() -> None:
    names = tuple(one.name for one in steps(ConsolidationPolicy()))
    assert [one for one in names if one != "outdated"] == [
        *("session_end", "rise", "expire"),
        *STEPS[3:],
    ]
    assert names.index("outdated") == names.index("supersede") + 1
    nothing = ConsolidationPolicy(
        expiry=False, rise=None, merge=None, supersede=None, promotion=None, decay=False
    )
    assert steps(nothing) == ()


@pytest.mark.parametrize("name", STEPS)
def test_a_step_that_is_broken_off_anywhere_is_done_once_and_the_next_cycle_has_nothing_to_do(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock, url: str, name: str
) -> None:
    PREPARE[name](memory, clock)
    at, one = cycle(store, ended=CHAT), step(name)
    decisions = judged(store, one, at)
    seen = left_by(store, url, lambda: one.apply(at, decisions))
    assert len(seen) == 2
    applied = store.run(one.apply(at, decisions))
    assert sum(applied["done"].values()) == len(decisions) > 0
    assert store.run(one.apply(at, decisions)) == applied
    assert tables(url) == seen[-1]
    store.run(one.finish(at))
    clock.advance(minutes=10)
    assert done(store, one, cycle(store, "second", ended=CHAT)) == NOTHING
    assert tables(url) == seen[-1]


@pytest.mark.parametrize("name", STEPS)
def test_a_tenant_that_somebody_else_consolidates_is_left_alone(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock, url: str, name: str
) -> None:
    PREPARE[name](memory, clock)
    fence = store.run(lease.acquire_lease("acme", "one", clock.now, 60))
    at = cycle(store, ended=CHAT, fence=fence)
    one = step(name)
    decisions = judged(store, one, at)
    clock.advance(minutes=2)
    newer = store.run(lease.acquire_lease("acme", "two", clock.now, 60))
    before = tables(url)
    for late in (at, at._replace(fence=None)):
        with coded("lease_lost", match="'acme'"):
            store.run(one.apply(late, decisions))
    assert tables(url) == before
    assert store.run(one.apply(at._replace(fence=newer), decisions))["done"]


@pytest.mark.parametrize("name", [one for one in STEPS if one not in ("expire", "decay")])
def test_what_changed_since_it_was_judged_is_left(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock, url: str, name: str
) -> None:
    PREPARE[name](memory, clock)
    at, one = cycle(store, ended=CHAT), step(name)
    decisions = judged(store, one, at)
    with psycopg.connect(url) as conn:
        conn.execute("UPDATE memory.memories SET updated_at = updated_at + interval '1 second'")
    before = tables(url)
    applied = store.run(one.apply(at, decisions))
    assert sum(applied["left"].values()) == len(decisions)
    assert applied["done"] == {} and applied["moves"] == []  # noqa: PT018 - one claim
    assert tables(url) == before


@pytest.mark.parametrize("name", MOVING)
def test_a_move_that_is_rolled_back_leaves_the_very_rows_there_were(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock, url: str, name: str
) -> None:
    PREPARE[name](memory, clock)
    at = cycle(store)
    before = without_events(url)
    applied = done(store, step(name), at)
    assert applied["moves"]
    assert without_events(url) != before
    clock.advance(hours=1)
    for move in reversed(applied["moves"]):
        assert memory.learning.rollback(move)
    assert without_events(url) == before


@pytest.mark.parametrize("name", ["merge", "supersede"])
def test_what_was_rolled_back_is_not_done_again(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock, url: str, name: str
) -> None:
    PREPARE[name](memory, clock)
    for move in reversed(done(store, step(name), cycle(store))["moves"]):
        memory.learning.rollback(move)
    with psycopg.connect(url) as conn:
        conn.execute("UPDATE memory.memories SET updated_at = %s", [clock.now])
    found = proposed(store, step(name), cycle(store, "second"))
    assert found["decisions"] == []
    assert sum(found["kept"].values()) == 3


@pytest.mark.parametrize("name", ["expire", "rise", "merge", "supersede", "decay"])
def test_a_batch_takes_as_many_statements_as_one_memory(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock, name: str
) -> None:
    at, one = _many(store, memory, clock, name), step(name)
    ids = store.run(one.select(at, 0, 100))
    assert len(ids) >= 20
    few = calls_of(store, lambda: store.run(one.propose(at, ids[:2])))
    many = calls_of(store, lambda: store.run(one.propose(at, ids)))
    cosines = name in ("merge", "supersede")  # which a judge is asked by
    assert len(few) == len(many) <= 4 + cosines
    decisions = store.run(one.propose(at, ids))["decisions"]
    assert len(decisions) >= 20
    assert len(calls_of(store, lambda: store.run(one.apply(at, decisions)))) <= 6


def _many(store: TieredStore, memory: MemoryCoordinator, clock: Clock, name: str) -> Cycle:
    """Twenty memories, or pairs, for a step to find."""
    tier = "short_term" if name in ("expire", "rise") else "working"
    for n in range(20):
        memory.store(f"The port of service {n} is 80", "semantic", tier=tier, key=f"a{n}")
    clock.advance(minutes=5)
    if name in ("merge", "supersede"):
        port = "80." if name == "merge" else "443"
        for n in range(20):
            fact(memory, f"b{n}", f"The port of service {n} is {port}")
    if name == "decay":
        memory.get_context("port", limit=100)
    clock.advance(days=2 if name in ("decay", "expire") else 0)
    return cycle(store, ended=CHAT)
