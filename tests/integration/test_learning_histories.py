"""Random histories of learning: the store and a plain model of it agree after every step."""

from __future__ import annotations

import asyncio
import os
from typing import Any, NamedTuple

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from langmem_tiers import GatePolicy
from langmem_tiers.core.errors import RollbackError
from langmem_tiers.learning.outcome import Run
from langmem_tiers.learning.promotion_policy import PromotionPolicy
from langmem_tiers.testing import Mode
from tests.support.coordinating import Caller, coordinator
from tests.support.learning import BILLING, SHIPPING, broken
from tests.support.learning_oracle import DEMOTE_AFTER, DEMOTE_WITHIN, MIN_RATE, Stored, World
from tests.support.opening import Clock, Opened, Opener, empty, text_index, tiered

FULL = os.environ.get("LANGMEM_TIERS_PROOF") == "full"
COMMON = settings(
    deadline=None,
    derandomize=not FULL,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    phases=(Phase.explicit, Phase.generate, Phase.shrink),
)
SAMPLE = settings(COMMON, max_examples=4)
PROOF = settings(COMMON, max_examples=400 if FULL else 20)

POLICY = PromotionPolicy(
    min_access_count=0,
    min_success_rate=MIN_RATE,
    min_age_days=0.0,
    min_projects=1,
    demote_after=DEMOTE_AFTER,
    demote_within=DEMOTE_WITHIN,
)
GATE = GatePolicy(refuse_echoes=False)
"""What was recalled may be learned again: the model knows of no recalls."""
LESSONS = (
    "kiwis ripen beside bananas within two days",
    "retry a throttled request after the header says so",
)
PROJECTS = (BILLING, SHIPPING)
EVERYBODY = "everybody"

projects = st.sampled_from(PROJECTS)
lessons = st.integers(0, len(LESSONS) - 1)
numbers = st.integers(0, 7)
runs = st.sampled_from(["a1", "a2", "b1", "A", "B"])
LEARN = st.tuples(st.just("learn"), projects, lessons)
RECALL = st.tuples(st.just("recall"), projects, runs, st.sampled_from([0.0, 0.0, 1.0]))
ENDS = st.sampled_from(["succeeded", "failed"])
SETTLE = st.tuples(st.just("settle"), runs, ENDS)
IN_HAND = st.tuples(st.just("in_hand"), numbers, st.sampled_from(["b1", "A", "", ""]), ENDS)
PROVE = st.tuples(st.just("prove"), projects, lessons)
TURN = st.tuples(st.just("turn"), numbers)
ROLLBACK = st.tuples(st.just("rollback"), numbers)
STEPS = st.one_of(
    LEARN,
    PROVE,
    PROVE,
    PROVE,
    RECALL,
    SETTLE,
    IN_HAND,
    st.just(("promote",)),
    st.just(("promote",)),
    TURN,
    TURN,
    st.just(("demote",)),
    st.just(("demote",)),
    ROLLBACK,
    ROLLBACK,
    st.tuples(st.just("delete"), numbers),
    st.tuples(st.just("put_over"), numbers, lessons),
    st.tuples(st.just("move"), numbers, st.sampled_from(["working", "long_term"])),
)
BEGINNING: list[tuple[Any, ...]] = [("prove", BILLING, 0), ("prove", SHIPPING, 1), ("promote",)]
"""So that there is something to go on with."""
HISTORIES = st.lists(STEPS, min_size=25, max_size=45)
THERE_AND_BACK: list[tuple[Any, ...]] = [
    *(("prove", SHIPPING, 0), ("promote",), ("recall", SHIPPING, "a1", 0.0), ("rollback", 0)),
    *(("turn", 0), ("demote",), ("recall", BILLING, "b1", 0.0), ("rollback", 0)),
    *(("recall", SHIPPING, "b1", 0.0), ("rollback", 2), ("recall", BILLING, "a2", 0.0)),
]
"""A reinforcement and a demotion, both taken back, and then the promotion."""


class Living(NamedTuple):
    """A store and the model of it, at the same time."""

    callers: dict[str, Caller]
    world: World
    clock: Clock
    url: str

    async def step(self, verb: str, *args: Any) -> None:
        self.clock.advance(minutes=1)
        await getattr(self, verb)(*args)
        await self.callers[BILLING]("stats")
        assert rows(self.url) == expected(self.world)

    @property
    def operator(self) -> Caller:
        """Who looks after the whole tenant."""
        return self.callers[EVERYBODY]

    def owner(self, one: Stored) -> Caller:
        """Who reaches a memory: its project, or anybody."""
        return self.callers[one.project or BILLING]

    async def learn(self, project: str, lesson: int) -> None:
        key = f"{project}-{lesson}"
        await self.callers[project]("store", LESSONS[lesson], "pattern", tier="working", key=key)
        self.world.put(key, project, lesson)

    async def recall(self, project: str, run: str, holdout: float) -> None:
        root = run[0].upper() if run[0].islower() else None
        options: Any = {"limit": 100, "min_match": 0, "run_id": Run(run, root)}
        found = await self.callers[project]("get_context", LESSONS[0], holdout=holdout, **options)
        visible = self.world.visible(project)
        shown = [] if holdout else visible
        assert sorted(one.key for one in found) == sorted(one.key for one in shown)
        self.world.expose(visible, Run(run, root), project, held=holdout == 1.0)

    async def settle(self, run: str, end: str) -> None:
        success = end == "succeeded"
        report = await self.operator("learning.record_outcome", success=success, run_id=run)
        assert report.credited == self.world.settle(run, self.clock.now, success=success)

    def some(self, number: int) -> Any:
        known = list(self.world.memories.values())
        return known[number % len(known)] if known else None

    async def in_hand(self, number: int, run: str, end: str) -> None:
        if (one := self.some(number)) is None:
            return
        run = run or f"own-{self.clock.now.timestamp()}"
        found = await self.owner(one)("get", one.key)
        one.accesses += 1
        success = end == "succeeded"
        report = await self.callers[BILLING](
            "learning.record_outcome", [found], success=success, run_id=run
        )
        now = self.clock.now
        credited = self.world.settle_shown(one, run, now, BILLING, success=success)
        assert report.credited == credited

    async def prove(self, project: str, lesson: int) -> None:
        """Learn it, and let it succeed."""
        await self.learn(project, lesson)
        found = self.world.by_key(f"{project}-{lesson}")
        assert found is not None
        await self.in_hand(list(self.world.memories).index(found.number), "", "succeeded")

    async def turn(self, number: int) -> None:
        """Let a memory that was promoted fail twice."""
        made = [one for one in self.world.memories.values() if one.project is None]
        for _ in range(2 if made else 0):
            one = made[number % len(made)]
            self.clock.advance(seconds=1)
            await self.in_hand(list(self.world.memories).index(one.number), "", "failed")

    async def promote(self) -> None:
        self.world.promote(await self.operator("learning.promote"))
        assert not [one for one in await self.operator("learning.promote") if one.promoted]

    async def demote(self) -> None:
        self.world.demote(await self.operator("learning.demote"))
        assert not [one for one in await self.operator("learning.demote") if one.demoted]

    async def rollback(self, number: int) -> None:
        if not self.world.moves:
            return
        move = list(self.world.moves)[-1 - number % len(self.world.moves)]
        wanted = self.world.refusal(move)
        if wanted is None:
            with pytest.raises(RollbackError):
                await self.operator("learning.rollback", move)
            return
        assert await self.operator("learning.rollback", move) is wanted
        if wanted:
            self.world.roll_back(move, self.clock.now)

    async def delete(self, number: int) -> None:
        if (one := self.some(number)) is not None:
            assert await self.owner(one)("delete_memory", one.key)
            self.world.delete(one.number)

    async def put_over(self, number: int, lesson: int) -> None:
        if (one := self.some(number)) is None:
            return
        lesson = one.lesson if one.project is None else lesson
        value = {"content": LESSONS[lesson], "memory_type": "pattern", "project_id": one.project}
        store = self.operator.memory.tiered_store
        space = ("acme", one.project) if one.project else ("acme",)
        await store.aput(space, one.key, value, ["content"])
        self.world.put(one.key, one.project, lesson)

    async def move(self, number: int, tier: str) -> None:
        if (one := self.some(number)) is None:
            return
        store = self.operator.memory.tiered_store
        space = ("acme", one.project) if one.project else ("acme",)
        assert await store.amove(space, one.key, tier) is (one.tier != tier)
        self.world.move(one, tier)


def rows(url: str) -> dict[str, Any]:
    """What is stored, by keys."""
    with psycopg.connect(url) as conn:
        memories = conn.execute(
            """SELECT m.key, m.tier::text, m.state, coalesce(u.access_count, 0),
                      coalesce(u.success_count, 0), coalesce(u.failure_count, 0)
               FROM memory.memories m
               LEFT JOIN memory.usage u ON u.tenant = m.tenant AND u.id = m.id"""
        ).fetchall()
        edges = conn.execute(
            """SELECT s.key, m.key FROM memory.lineage l
               LEFT JOIN memory.memories m ON m.id = l.id
               LEFT JOIN memory.memories s ON s.id = l.source"""
        ).fetchall()
        exposures = conn.execute(
            """SELECT e.run, m.key, e.held_out, e.settled_by, e.succeeded
               FROM memory.exposures e LEFT JOIN memory.memories m ON m.id = e.id"""
        ).fetchall()
    return {"memories": sorted(memories), "edges": sorted(edges), "exposures": sorted(exposures)}


def expected(world: World) -> dict[str, Any]:
    """The same of the model."""
    keys = {one.number: one.key for one in world.memories.values()}
    return {
        "memories": sorted(
            (one.key, one.tier, one.state, *one.counters) for one in world.memories.values()
        ),
        "edges": sorted((keys[source], keys[target]) for source, target in world.edges.items()),
        "exposures": sorted(
            (run, keys[number], one.held_out, one.settled_by, one.succeeded)
            for (run, number), one in world.exposures.items()
        ),
    }


async def live(history: list[Any], opened: Opened, mode: Mode, url: str) -> None:
    """Live through a history, blocking or awaiting."""
    empty(url)
    clock = Clock()
    opener = Opener(opened=opened, mode=mode, new_url=lambda: url, clock=clock)
    async with opener(url=url, index=text_index()) as driver:
        callers = {
            name: Caller(
                coordinator(tiered(driver), project_id=one, policy=POLICY, gate=GATE), mode
            )
            for name, one in ((BILLING, BILLING), (SHIPPING, SHIPPING), (EVERYBODY, None))
        }
        living = Living(callers, World(), clock, url)
        for verb, *args in [*BEGINNING, *history]:
            await living.step(verb, *args)
    assert broken(url) == {}


@pytest.mark.slow
@pytest.mark.parametrize(("opened", "mode"), [("sync", "batch"), ("async", "abatch")])
@SAMPLE
@given(HISTORIES)
@example(THERE_AND_BACK)
def test_a_history_is_what_the_model_says_however_its_verbs_are_called(
    url: str, opened: Opened, mode: Mode, history: list[Any]
) -> None:
    asyncio.run(live(history, opened, mode, url))


@pytest.mark.proof
@PROOF
@given(HISTORIES)
def test_four_hundred_histories_are_what_the_model_says(url: str, history: list[Any]) -> None:
    asyncio.run(live(history, "sync", "batch", url))
