"""A cycle that breaks off, is interrupted or repeated ends as an undisturbed one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count
from typing import Any
from uuid import UUID

import psycopg
import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver

from langmem_tiers import TieredStore
from langmem_tiers.consolidate.report import ConsolidationReport
from langmem_tiers.graph import consolidation_nodes
from tests.support.agents import How, run
from tests.support.consolidating import (
    ACME,
    DONE,
    POLICY,
    by_key,
    crashing,
    cycle,
    done,
    everything,
    opened_world,
)
from tests.support.learning import broken
from tests.support.opening import Clock, Opened, tables, tier_of
from tests.support.savers import Saver, saver

THREAD: RunnableConfig = {"configurable": {"thread_id": "1"}}
NODES = ("begin", "select", "propose", "review", "apply", "report")
WAYS: list[tuple[Saver, Opened, How]] = [
    ("memory", "sync", "invoke"),
    ("memory", "async", "astream"),
    ("postgres", "sync", "invoke"),
    ("postgres", "async", "invoke"),
    ("async postgres", "sync", "ainvoke"),
    ("async postgres", "async", "ainvoke"),
]
_numbers = count()


@pytest.fixture
def clock(filled: tuple[str, Clock]) -> Clock:
    """A clock that goes on where the world was left."""
    clock = Clock()
    clock.now = filled[1].now
    return clock


@pytest.fixture
def url(worlds: Callable[[], str]) -> Iterator[str]:
    """A world, which is whole after the test."""
    made = worlds()
    yield made
    assert broken(made) == {}


@pytest.fixture
def store(url: str, clock: Clock) -> Iterator[TieredStore]:
    """A store on a world."""
    with opened_world(url, clock) as store:
        yield store


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cycles of one name, so that those of two worlds can be compared."""
    monkeypatch.setattr(consolidation_nodes, "uuid4", lambda: UUID(int=1))


@pytest.fixture(scope="module")
def undisturbed(
    server_url: str, filled: tuple[str, Clock]
) -> tuple[dict[str, list[tuple[Any, ...]]], dict[str, int]]:
    """The tables that a cycle leaves which nothing befalls, and what it did."""
    name = f"{filled[0]}_undisturbed"
    with psycopg.connect(server_url, autocommit=True) as conn:
        conn.execute(f"CREATE DATABASE {name} TEMPLATE {filled[0]}".encode())
    url = psycopg.conninfo.make_conninfo(server_url, dbname=name)
    with pytest.MonkeyPatch.context() as patch, opened_world(url, filled[1]) as store:
        patch.setattr(consolidation_nodes, "uuid4", lambda: UUID(int=1))
        report = ConsolidationReport.of(cycle(store).invoke({}, context=ACME))
    left = everything(url)
    with psycopg.connect(server_url, autocommit=True) as conn:
        conn.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
    return left, done(report)


@pytest.mark.parametrize(
    ("node", "at", "after"),
    [
        *((node, 1, False) for node in NODES),
        *((node, 3 if node in NODES[1:5] else 1, True) for node in NODES),
    ],
)
@pytest.mark.usefixtures("named")
def test_a_cycle_that_breaks_off_at_any_node_ends_as_an_undisturbed_one(
    store: TieredStore,
    url: str,
    monkeypatch: pytest.MonkeyPatch,
    undisturbed: tuple[Any, Any],
    *,
    node: str,
    at: int,
    after: bool,
) -> None:
    crashing(monkeypatch, node, after=after, error=KeyError("crash"), at=at)
    graph = cycle(store, InMemorySaver())
    with pytest.raises(KeyError):
        graph.invoke({}, THREAD, context=ACME)
    state = graph.invoke(None, THREAD, context=ACME)

    assert everything(url) == undisturbed[0]
    assert done(ConsolidationReport.of(state)) == undisturbed[1]


@pytest.mark.parametrize("node", NODES)
@pytest.mark.usefixtures("named")
def test_a_cycle_that_is_interrupted_before_a_node_ends_as_an_undisturbed_one(
    url: str, store: TieredStore, clock: Clock, undisturbed: tuple[Any, Any], node: str
) -> None:
    graph = cycle(store, InMemorySaver(), interrupt_before=[node])
    graph.invoke({}, THREAD, context=ACME)
    stops = 0
    while graph.get_state(THREAD).next:
        stops += 1
        clock.advance(minutes=node != "begin")
        graph.invoke(None, THREAD, context=ACME)

    assert stops >= 1
    assert everything(url) == undisturbed[0]
    report = ConsolidationReport.of(graph.get_state(THREAD).values)
    assert done(report) == undisturbed[1]
    waited = 0 if node == "begin" else stops * 60
    assert (report.finished_at - report.started_at).total_seconds() == waited


def test_from_any_checkpoint_of_its_history_and_from_forks_nothing_is_done_twice(
    url: str, store: TieredStore, clock: Clock
) -> None:
    graph = cycle(store, InMemorySaver())
    graph.invoke({}, THREAD, context=ACME)
    after = tables(url)
    history = list(graph.get_state_history(THREAD))
    assert len(history) > 25
    clock.advance(seconds=20)
    for one in history:
        if one.next:
            graph.invoke(None, one.config, context=ACME)
            assert tables(url) == after, one.next
    for one in history:
        if one.next and set(one.next) <= {"apply", "propose", "review"}:
            fork = graph.update_state(one.config, {"after": one.values["after"]}, as_node="select")
            graph.invoke(None, fork, context=ACME)
            assert tables(url) == after, one.next


@pytest.mark.parametrize("kept", ["postgres", "async postgres"])
async def test_time_travel_with_a_checkpointer_on_postgres_changes_nothing(
    url: str, clock: Clock, kept: Saver
) -> None:
    async with opened_world(url, clock) as store, saver(kept, url) as keeping:
        graph = cycle(store, keeping)
        how: How = "invoke" if kept == "postgres" else "ainvoke"
        await run(graph, how, {}, config=THREAD, context=ACME)
        after = everything(url)
        if kept == "postgres":
            history = await asyncio.to_thread(lambda: list(graph.get_state_history(THREAD)))
        else:
            history = [one async for one in graph.aget_state_history(THREAD)]
        for one in history[1:-1:4]:
            await run(graph, how, None, config=one.config, context=ACME)
            assert everything(url) == after


def test_somebody_may_take_decisions_back_before_they_are_applied(
    url: str, store: TieredStore
) -> None:
    graph = cycle(store, InMemorySaver(), interrupt_before=["apply"])
    graph.invoke({}, THREAD, context=ACME)
    seen: list[str] = []
    while (state := graph.get_state(THREAD)).next:
        assert set(state.next) == {"apply"}
        (decisions,) = state.values["decisions"]
        seen += [one["key"] for one in decisions]
        if state.values["step"] == "merge":
            standing = [one for one in decisions if one["key"] != "tea 3"]
            graph.update_state(THREAD, {"decisions": [standing]}, as_node="review")
        graph.invoke(None, THREAD, context=ACME)

    report = ConsolidationReport.of(graph.get_state(THREAD).values)
    assert done(report) == {**DONE, "merge": 1}
    assert {"tea 2", "tea 3", "port 1", "gone 1", "up"} <= {*seen}
    with psycopg.connect(url) as conn:
        rows = conn.execute("SELECT key, state FROM memory.memories WHERE key LIKE 'tea %'")
        assert dict(rows.fetchall()) == {"tea 1": None, "tea 2": "consolidated", "tea 3": None}


def test_a_step_that_the_policy_leaves_out_by_now_is_not_mistaken_for_another(
    store: TieredStore,
) -> None:
    keeping = InMemorySaver()
    begun = cycle(store, keeping, interrupt_before=["apply"])
    begun.invoke({}, THREAD, context=ACME)
    while begun.get_state(THREAD).values["step"] != "merge":
        begun.invoke(None, THREAD, context=ACME)
    later = cycle(store, keeping, policy=replace(POLICY, merge=None))
    report = ConsolidationReport.of(later.invoke(None, THREAD, context=ACME))

    assert done(report) == {**DONE, "merge": 0}
    assert report.count("merge", "left") == 2


def test_a_session_that_ended_has_ended_for_a_cycle_that_goes_on_later(
    url: str, store: TieredStore
) -> None:
    graph = cycle(store, InMemorySaver(), interrupt_before=["begin", "select"])
    graph.invoke({"session_ended": True}, THREAD, context=ACME)
    while graph.get_state(THREAD).next:
        graph.invoke(None, THREAD, context=ACME)

    assert tier_of(url, "hello") == ["working"]
    assert graph.get_state(THREAD).values["session_ended"] is False


def test_two_cycles_at_once_end_as_one(
    worlds: Callable[[], str], url: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = worlds()
    with opened_world(alone, clock) as store:
        cycle(store).invoke({}, context=ACME)
    monkeypatch.setattr(consolidation_nodes, "BATCH", 3)
    with opened_world(url, clock) as store, ThreadPoolExecutor() as pool:
        graphs = [cycle(store) for _ in range(3)]
        states = list(pool.map(lambda one: one.invoke({}, context=ACME), graphs))

    assert by_key(url) == by_key(alone)
    told = [done(ConsolidationReport.of(one)) for one in states]
    moved = ("rise", "merge", "supersede", "demote")
    assert {step: sum(one[step] for one in told) for step in moved} == {
        step: DONE[step] for step in moved
    }
