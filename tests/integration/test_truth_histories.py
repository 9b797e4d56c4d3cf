"""Random histories of what was true and known: the store and a plain oracle see the same."""

from __future__ import annotations

import asyncio
import os
from datetime import datetime, timedelta
from itertools import pairwise, product
from typing import Any, NamedTuple

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from langmem_tiers import TieredStore
from langmem_tiers.core.errors import InvalidInputError, RollbackError
from langmem_tiers.testing import Mode
from tests.support.coordinating import Caller, coordinator
from tests.support.cycling import without_events
from tests.support.learning import broken
from tests.support.opening import Clock, Opened, Opener, empty, text_index, tiered
from tests.support.truth_oracle import Fact, World

FULL = os.environ.get("LANGMEM_TIERS_PROOF") == "full"
COMMON = settings(
    deadline=None,
    derandomize=not FULL,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    phases=(Phase.explicit, Phase.generate, Phase.shrink),
)
SAMPLE = settings(COMMON, max_examples=4)
DAGS = settings(COMMON, max_examples=12)
PROOF = settings(COMMON, max_examples=300 if FULL else 15)

BASE = Clock().now
HOURS = st.integers(-4, 40)
"""Hours since the beginning: a step takes one."""
SPAN = st.tuples(st.none() | HOURS, st.none() | HOURS)
NUMBER = st.integers(0, 30)
PARENTS = st.lists(NUMBER, max_size=2)
STORE = st.tuples(st.just("store"), PARENTS, SPAN, st.none() | HOURS)
SUPERSEDE = st.tuples(st.just("supersede"), NUMBER, NUMBER)
RETRACT = st.tuples(st.just("retract"), NUMBER)
RESTORE = st.tuples(st.just("restore"), NUMBER)
STEPS = st.one_of(
    STORE,
    *[SUPERSEDE] * 3,
    *[RETRACT] * 3,
    *[RESTORE] * 2,
    st.tuples(st.just("put_over"), NUMBER, PARENTS, SPAN),
    st.tuples(st.just("delete"), NUMBER),
    st.tuples(st.just("rollback"), NUMBER),
)
POINT = st.tuples(st.none() | HOURS, st.none() | HOURS)
BEGINNING: list[Any] = [
    (("store", parents, (None, None), None), (None, None))
    for parents in ([], [0], [1], [], [0, 3], [4], [], [])
]
BEGINNING.append((("supersede", 6, 7), (None, 7)))
"""Eight facts, so that there is something to go on with; one is superseded."""
DELETED_ABOVE: list[Any] = [
    *BEGINNING,
    *((step, (None, None)) for step in (("retract", 0), ("retract", 1), ("delete", 0))),
]
"""What came from two memories that were taken back, the first of which is deleted."""
HISTORIES = st.lists(st.tuples(STEPS, POINT), min_size=20, max_size=30).map(
    lambda history: [*BEGINNING, *history]
)
EDGES = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=25)


def at(hours: int | None) -> datetime | None:
    return None if hours is None else BASE + timedelta(hours=hours)


class Living(NamedTuple):
    """A store and the oracle, at the same time."""

    call: Caller
    world: World
    clock: Clock

    async def step(self, verb: str, *args: Any) -> None:
        self.clock.advance(hours=1)
        await getattr(self, verb)(*args)

    async def check(self, as_of: datetime | None, known_at: datetime | None) -> None:
        """Each leg of a recall finds what the oracle sees."""
        wanted = self.world.visible(self.clock.now, as_of, known_at)
        for query in ("", "fact"):
            options = {"as_of": as_of, "known_at": known_at, "limit": 100, "min_match": 0}
            found = await self.call("get_context", query, **options)
            assert sorted(one.key for one in found) == wanted

    def some(self, number: int) -> str | None:
        known = list(self.world.facts)
        return known[number % len(known)] if known else None

    def fact(
        self, key: str, parents: list[int], span: tuple[Any, Any], occurred: int | None
    ) -> Fact:
        began, ended = span
        if began is not None and ended is not None:
            began, ended = min(began, ended), max(began, ended) + 1
        named = {one for one in map(self.some, parents) if one is not None}
        return Fact(key, self.clock.now, at(occurred), at(began), at(ended), named)

    async def remember(self, fact: Fact) -> None:
        await self.call(
            "store",
            f"fact {fact.key}",
            "semantic",
            key=fact.key,
            occurred_at=fact.occurred,
            valid_from=fact.valid_from,
            valid_to=fact.valid_to,
            derived_from=sorted(fact.parents),
        )

    async def store(self, parents: list[int], span: tuple[Any, Any], occurred: int | None) -> None:
        number = (self.clock.now - BASE) // timedelta(hours=1)
        fact = self.fact(f"k{number}", parents, span, occurred)
        await self.remember(fact)
        self.world.put(fact)

    async def put_over(self, number: int, parents: list[int], span: tuple[Any, Any]) -> None:
        if (key := self.some(number)) is None:
            return
        fact = self.fact(key, parents, span, None)
        if any(key == one or key in self.world.ancestors(one) for one in fact.parents):
            with pytest.raises(InvalidInputError):
                await self.remember(fact)
            return
        await self.remember(fact)
        self.world.put(fact)

    async def supersede(self, older: int, newer: int) -> None:
        old, new = self.some(older), self.some(newer)
        if old is None or new is None:
            return
        if not self.world.can_supersede(old, new):
            with pytest.raises(InvalidInputError):
                await self.call("truth.supersede", old, by=new)
            return
        move = await self.call("truth.supersede", old, by=new)
        self.world.supersede(move, old, new, self.clock.now)

    async def retract(self, number: int) -> None:
        if (key := self.some(number)) is not None:
            done = await self.call("truth.retract", key, reason="a rumour")
            assert set(done.suspects) == self.world.retract(done.move, key, self.clock.now)

    async def restore(self, number: int) -> None:
        if (key := self.some(number)) is None:
            return
        if self.world.state(key)[0] != "retracted":
            with pytest.raises(InvalidInputError):
                await self.call("truth.restore", key)
            return
        done = await self.call("truth.restore", key)
        assert set(done.restored) == self.world.restore(key)
        assert done.state == self.world.state(key)[0]

    async def delete(self, number: int) -> None:
        if (key := self.some(number)) is not None:
            assert await self.call("delete_memory", key)
            self.world.delete(key, f"deleted-{self.clock.now}")

    async def rollback(self, number: int) -> None:
        moves = [one for one in self.world.moves if not one.startswith("deleted-")]
        if not moves:
            return
        move = moves[-1 - number % len(moves)]
        wanted = self.world.refusal(move)
        if wanted is None:
            with pytest.raises(RollbackError):
                await self.call("learning.rollback", move)
            return
        assert await self.call("learning.rollback", move) is wanted
        if wanted:
            self.world.roll_back(move)


def states(url: str) -> dict[str, tuple[Any, ...]]:
    """How memories stand, by key."""
    with psycopg.connect(url) as conn:
        rows = conn.execute("SELECT key, state, state_at FROM memory.memories").fetchall()
    return {key: rest for key, *rest in rows}  # type: ignore[misc]


async def live(history: list[Any], opened: Opened, mode: Mode, url: str) -> None:
    """Live through a history, blocking or awaiting."""
    empty(url)
    clock = Clock()
    opener = Opener(opened=opened, mode=mode, new_url=lambda: url, clock=clock)
    async with opener(url=url, index=text_index()) as driver:
        call = Caller(coordinator(tiered(driver), project_id="p"), mode)
        living = Living(call, World(), clock)
        for (verb, *args), point in history:
            await living.step(verb, *args)
            found = {key: list(one) for key, one in states(url).items()}
            living.world.judged_anew(found)
            assert found == {key: list(living.world.state(key)) for key in living.world.facts}
            await living.check(None, None)
            await living.check(*map(at, point))
        for as_of, known_at in product((None, *range(-2, 34, 6)), repeat=2):
            await living.check(at(as_of), at(known_at))
    assert broken(url) == {}


@pytest.mark.slow
@SAMPLE
@example(DELETED_ABOVE)
@given(HISTORIES)
def test_a_history_of_blocking_calls_is_seen_as_the_oracle_sees_it(
    url: str, history: list[Any]
) -> None:
    asyncio.run(live(history, "sync", "batch", url))


@pytest.mark.slow
@SAMPLE
@given(HISTORIES)
def test_a_history_of_awaited_calls_is_seen_as_the_oracle_sees_it(
    url: str, history: list[Any]
) -> None:
    asyncio.run(live(history, "async", "abatch", url))


@pytest.mark.proof
@PROOF
@given(HISTORIES)
def test_three_hundred_histories_are_seen_as_the_oracle_sees_them(
    url: str, history: list[Any]
) -> None:
    asyncio.run(live(history, "sync", "batch", url))


def in_a_dag(edges: list[tuple[int, int]], retracted: list[int], url: str) -> None:
    """Retract memories of a random derivation, and restore them in another order."""
    empty(url)
    clock = Clock()
    with TieredStore(url, index=text_index(), clock=clock) as store:
        memory = coordinator(store, project_id="p")
        world = World()
        for number in range(10):
            parents = {f"k{low}" for low, high in map(sorted, edges) if low < high == number}
            memory.store(f"fact {number}", key=f"k{number}", derived_from=sorted(parents))
            world.put(Fact(f"k{number}", clock.now, None, None, None, parents))
        pictures = [without_events(url)]
        keys = [f"k{number}" for number in dict.fromkeys(retracted)]
        for key in keys:
            clock.advance(hours=1)
            done = memory.truth.retract(key, reason="a rumour")
            assert set(done.suspects) == world.retract(done.move, key, clock.now)
            assert {key: one[0] for key, one in states(url).items()} == {
                key: world.state(key)[0] for key in world.facts
            }
            pictures.append(without_events(url))
        for key, (before, after) in zip(reversed(keys), pairwise(reversed(pictures)), strict=True):
            assert without_events(url) == before
            memory.truth.restore(key)
            assert without_events(url) == after
        for key in keys:
            memory.truth.retract(key, reason="again")
        for key in keys:  # the first first
            memory.truth.restore(key)
        assert without_events(url) == pictures[0]


@DAGS
@given(EDGES, st.lists(st.integers(0, 9), min_size=1, max_size=3))
def test_a_retraction_reaches_what_came_from_it_and_nothing_else_and_a_restoration_is_its_inverse(
    url: str, edges: list[tuple[int, int]], retracted: list[int]
) -> None:
    in_a_dag(edges, retracted, url)
