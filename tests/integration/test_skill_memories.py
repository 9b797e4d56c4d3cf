from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from langmem_tiers import MemoryContext, MemoryCoordinator, TieredStore, create_skill_node
from langmem_tiers.coordinator.learning import learn_skills
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.learning.promotion_policy import PromotionPolicy
from langmem_tiers.learning.skills import MOST_TRACES, ToolCall, Trace
from langmem_tiers.postgres.flow import Flow, GroupWrite, Query
from tests.support.agents import Way
from tests.support.coordinating import Caller, coordinator
from tests.support.graphs import (
    ACME,
    BROKEN,
    QUICK,
    answer,
    asks,
    call,
    chain,
    fails_once_after,
    memories,
    off_the_loop,
    tried,
)
from tests.support.opening import Clock, Opener, opened_store, text_index, tiered
from tests.support.plans import MODES, calls_of, indexes, loaded, named, plan, rows_read, sequential


def trace(name: str, tools: str = "search open answer", *, succeeded: bool = True) -> Trace:
    calls = [ToolCall(one, frozenset(("what",)), True) for one in tools.split()]  # noqa: FBT003
    return Trace(name, calls, succeeded)


def proposed(memory: MemoryCoordinator) -> str:
    """Three runs that make a skill; its key."""
    *_, skills = [memory.learning.learn_skills(trace(name)) for name in "123"]
    return str(skills[0].key)


def skills(store: TieredStore, context: MemoryContext = ACME) -> dict[str, tuple[int, float]]:
    """Support and success rate of each skill, by its steps."""
    found = memories(store, "skill", context)
    return {
        " ".join(step.partition("(")[0] for step in one.value["steps"]): (
            one.value["support"],
            one.value["success_rate"],
        )
        for one in found
    }


async def test_what_recurs_in_successful_runs_is_proposed_as_a_skill(
    open_store: Opener, url: str
) -> None:
    async with open_store(url=url, index=text_index()) as driver:
        store = tiered(driver)
        call = Caller(MemoryCoordinator(store, context=ACME), driver.mode)
        results = [await call("learning.learn_skills", trace(name)) for name in "1223"]
        failed = await call("learning.learn_skills", trace("4", succeeded=False))
        unchanged = await call("learning.learn_skills")
        (skill,) = await off_the_loop(memories, store, "skill")
        episodes = await off_the_loop(memories, store, "episodic")

    assert list(map(len, results)) == [0, 0, 0, 1]
    assert (results[-1][0].stored, results[-1][0].key) == (True, skill.key)
    assert failed[0].stored
    assert (unchanged[0].stored, unchanged[0].key) == (False, skill.key)
    assert skill.tier == "working"
    assert skill.content == (
        "To search, then open, then answer: 1. search(what) 2. open(what) 3. answer(what)"
    )
    value = skill.value
    assert (value["support"], value["success_rate"]) == (3, 0.75)
    assert (value["runs"], value["proposed"]) == (["1", "2", "3"], True)
    assert value["steps"] == ["search(what)", "open(what)", "answer(what)"]
    assert len(episodes) == 4
    assert {one.tags for one in episodes} == {("trace",)}


def test_a_deleted_skill_is_proposed_again_and_one_that_is_somebodys_own_stays(
    memory: MemoryCoordinator,
) -> None:
    key = proposed(memory)
    memory.delete_memory(key)
    assert [(one.stored, one.key) for one in memory.learning.learn_skills(trace("4"))] == [
        (True, key)
    ]
    memory.store("How we search", memory_type="skill", key=key)
    assert [one.stored for one in memory.learning.learn_skills(trace("5"))] == [False]
    found = memory.get(key)
    assert found is not None
    assert found.content == "How we search"


def test_a_proposed_skill_is_promoted_once_it_has_proven_itself(
    ready: TieredStore, memory: MemoryCoordinator, clock: Clock
) -> None:
    key = proposed(memory)
    policy = PromotionPolicy(min_access_count=0, min_projects=1)
    clock.advance(days=8)
    assert memory.learning.promote(policy=policy) == []
    found = memory.get(key)
    assert found is not None
    memory.learning.record_outcome([found], success=True, run_id="x")

    (promotion,) = memory.learning.promote(policy=policy)
    assert (promotion.promoted, promotion.key) == (True, key)
    memory.learning.learn_skills(trace("4"))
    everybodys = MemoryCoordinator(ready, context=replace(ACME, project_id="elsewhere"))
    for told, tier in ((memory, "working"), (everybodys, "long_term")):
        current = told.get_context("", memory_types=["skill"])
        assert [one.tier for one in current] == [tier]
    assert memory.learning.rollback(str(promotion.move))
    assert skills(ready) == {"search open answer": (4, 1.0)}


def test_what_is_no_trace_bound_or_outcome_is_refused_and_nothing_is_stored(
    memory: MemoryCoordinator,
) -> None:
    nameless = Trace("1", [ToolCall("", frozenset(), True)], True)  # noqa: FBT003
    wrong: list[tuple[Any, dict[str, Any], str | None]] = [
        ("a run", {}, None),
        (Trace("", [], True), {}, None),  # noqa: FBT003
        (nameless, {}, None),
        (trace("1"), {"min_support": 0}, "min_support"),
    ]
    for one, options, says in wrong:
        with pytest.raises(InvalidInputError, match=says):
            memory.learning.learn_skills(one, **options)
    with pytest.raises(InvalidInputError, match="success"):
        create_skill_node(None)  # type: ignore[arg-type]
    assert memory.stats().total_count == 0


def overtaken(flow: Flow[Any], overtake: Callable[[], object]) -> Flow[Any]:
    """A flow that another one overtakes between what it read and what it writes."""
    effect = next(flow)
    has_read = False
    while True:
        if has_read and isinstance(effect, GroupWrite):
            overtake()
            has_read = False
        has_read |= isinstance(effect, Query) and effect.calls[0].name == "recent_traces"
        try:
            effect = flow.send((yield effect))
        except StopIteration as done:
            return done.value


def test_what_was_read_before_another_run_wrote_does_not_stand(
    ready: TieredStore, memory: MemoryCoordinator
) -> None:
    for name in "12":
        memory.learning.learn_skills(trace(name))
    slow = learn_skills(memory, trace("3"), min_support=3)
    ready.run(overtaken(slow, lambda: memory.learning.learn_skills(trace("4"))))

    assert skills(ready) == {"search open answer": (4, 1.0)}


async def test_runs_at_once_on_several_stores_lose_no_support(url: str) -> None:
    stores = [TieredStore(url, index=text_index()) for _ in range(4)]

    async def work(own: int, store: TieredStore) -> None:
        async with opened_store(store, "async" if own % 2 else "sync"):
            memory = MemoryCoordinator(store, context=ACME)
            runs = (memory.learning.alearn_skills(trace(f"{own}-{number}")) for number in range(8))
            await asyncio.gather(*runs)

    await asyncio.gather(*(work(own, store) for own, store in enumerate(stores)))
    with TieredStore(url, index=text_index()) as store:
        assert await off_the_loop(skills, store) == {"search open answer": (32, 1.0)}


# The node


def used(*tools: str) -> list[Any]:
    """Calls of these tools that worked, and their answers."""
    pairs = ((call(name, n, amount="1"), answer("fine", n)) for n, name in enumerate(tools, 1))
    return [one for pair in pairs for one in pair]


async def test_a_skill_node_keeps_what_a_run_called_however_the_graph_is_run(way: Way) -> None:
    store = way.store
    graph = chain(store, create_skill_node("worked"))
    messages = [asks(), *tried(9, "1,234", BROKEN, failed=True), *used("add", "pay")]
    states = [
        await way(graph, {"messages": messages, "worked": True}, context=ACME) for _ in range(3)
    ]
    (skill,) = await off_the_loop(memories, store, "skill")
    episodes = await off_the_loop(memories, store, "episodic")

    assert [one["skills"] for one in states] == [[], [], [skill.key]]
    assert skill.value["steps"] == ["add(amount)", "pay(amount)"]
    assert skill.value["support"] == 3
    assert len(episodes) == 3
    expected = "Run that succeeded\nCalled: add(amount) (failed) > add(amount) > pay(amount)"
    assert {one.content for one in episodes} == {expected}


def test_a_skill_node_that_is_retried_counts_the_run_once(ready: TieredStore) -> None:
    node = fails_once_after(create_skill_node("worked", min_support=1))
    graph = chain(ready, node, retry_policy=QUICK)
    graph.invoke({"messages": [asks(), *used("add", "pay")], "worked": True}, context=ACME)

    assert skills(ready) == {"add pay": (1, 1.0)}
    assert len(memories(ready, "episodic")) == 1


# The statement

_FILL = """
INSERT INTO memory.memories (tenant, tier, namespace, key, value, created_at, updated_at)
SELECT 'tenant' || t, 'working', (ARRAY['billing.', 'shipping.'])[i % 2 + 1], i::text,
       jsonb_build_object('content', 'row', 'trace', CASE WHEN i % 4 = 0 THEN
           jsonb_build_object('run', i::text, 'succeeded', true, 'calls', '[]'::jsonb) END),
       now(), now() - i * interval '1 second'
FROM generate_series(0, 9) t, generate_series(1, 4000) i;
"""


@pytest.mark.slow
def test_the_newest_traces_are_read_from_an_index_and_no_more(server_url: str) -> None:
    with loaded(server_url, _FILL) as store:
        memory = coordinator(store, "tenant3", project_id="billing")
        asked = named(calls_of(store, memory.learning.learn_skills), "recent_traces")
        for mode in MODES:
            found = plan(store, asked, mode)
            assert found["Actual Rows"] == MOST_TRACES
            assert sequential(found) == []
            assert any("updated_at" in name or "newest" in name for name in indexes(found))
            assert rows_read(found) <= 4 * MOST_TRACES + 10
