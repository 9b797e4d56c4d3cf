"""The graph of consolidation on a real Postgres: cycles that end the same whatever befalls them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any
from uuid import UUID

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver

from langmem_tiers import (
    ConfigurationError,
    DatabaseUnavailableError,
    InvalidInputError,
    InvalidTypeError,
    MemoryContext,
    TieredStore,
)
from langmem_tiers.consolidate import lease
from langmem_tiers.consolidate.policy import ConsolidationPolicy
from langmem_tiers.consolidate.report import ConsolidationReport
from langmem_tiers.consolidate.stored import NEAREST
from langmem_tiers.graph import consolidation, consolidation_nodes
from langmem_tiers.graph.consolidation import consolidation_due, create_consolidation_graph
from tests.support.agents import How, run, scripted
from tests.support.consolidating import (
    ACME,
    DONE,
    by_key,
    crashing,
    cycle,
    done,
    everything,
    opened_world,
)
from tests.support.coordinating import coordinator
from tests.support.learning import broken
from tests.support.opening import Clock, Opened, opened_store
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


@pytest.mark.parametrize(("kept", "opened", "how"), WAYS)
async def test_a_cycle_does_each_step_and_the_next_one_finds_nothing_to_do(
    url: str, clock: Clock, kept: Saver, opened: Opened, how: How
) -> None:
    async with opened_store(opened_world(url, clock), opened) as store, saver(kept, url) as keeping:
        graph = cycle(store, keeping)
        first = await run(graph, how, {}, config=THREAD, context=ACME)
        after = everything(url)
        second = await run(graph, how, {}, config=THREAD, context=ACME)

    assert done(ConsolidationReport.of(first)) == DONE
    assert sum(done(ConsolidationReport.of(second)).values()) == 0
    assert everything(url) == after


# Its report and its stream


@pytest.mark.parametrize("batch", [2, 100])
def test_of_each_memory_that_a_step_looked_at_the_report_says_once_what_became_of_it(
    store: TieredStore, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    monkeypatch.setattr(consolidation_nodes, "BATCH", batch)
    looked_at = dict.fromkeys(DONE, 0)
    stream = cycle(store).stream({}, context=ACME, stream_mode=["updates", "values"])
    for mode, one in stream:
        if mode == "updates" and (batches := one.get("select", {}).get("batches")):
            looked_at[one["select"]["step"]] += sum(map(len, batches))
    report = ConsolidationReport.of(one)

    verdicts: tuple[Any, ...] = ("done", "left", "kept")
    told = {step: sum(report.count(step, each) for each in verdicts) for step in DONE}
    assert told == looked_at
    assert looked_at["merge"] == 9


@pytest.mark.parametrize("batch", [1, 7, 100])
def test_more_duplicates_than_any_of_them_has_neighbours_become_one(
    store: TieredStore, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    monkeypatch.setattr(consolidation_nodes, "BATCH", batch)
    memory = coordinator(store, "dense", project_id="billing")
    for number in range(3 * NEAREST):
        memory.store("Ben likes coffee", "semantic", tier="working", key=str(number))
    graph = cycle(store)
    context = MemoryContext(tenant="dense")
    report = ConsolidationReport.of(graph.invoke({}, context=context))

    assert (report.count("merge"), report.count("merge", "kept")) == (3 * NEAREST - 1, 1)
    assert report.count("merge", "left") == 0
    assert ConsolidationReport.of(graph.invoke({}, context=context)).count("merge") == 0


@pytest.mark.parametrize(("batch", "fan_out"), [(1, 1), (2, 2)])
@pytest.mark.usefixtures("named")
def test_the_size_of_batches_changes_neither_the_tables_nor_the_report(
    worlds: Callable[[], str],
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    batch: int,
    fan_out: int,
) -> None:
    ends = []
    for size, at_once in ((100, 8), (batch, fan_out)):
        monkeypatch.setattr(consolidation_nodes, "BATCH", size)
        monkeypatch.setattr(consolidation_nodes, "FAN_OUT", at_once)
        url = worlds()
        with opened_world(url, clock) as store:
            report = ConsolidationReport.of(cycle(store).invoke({}, context=ACME))
        ends.append((report.lines, by_key(url)))

    assert ends[0] == ends[1]


async def test_each_node_says_what_it_did_to_whoever_streams_custom(
    url: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consolidation_nodes, "BATCH", 2)
    async with opened_world(url, clock) as store:
        stream = cycle(store).astream({}, context=ACME, stream_mode="custom")
        said = [one async for one in stream]

    assert said[0]["consolidation"] == "begin"
    assert {one["tenant"] for one in said} == {"acme"}
    assert len({one["cycle"] for one in said}) == 1
    merging = [one for one in said if one["step"] == "merge"]
    numbers = ("consolidation", "batch", "batches", "memories", "done", "left", "kept")
    shown = [tuple(one[name] for name in numbers) for one in merging]
    assert shown[0] == ("select", 0, 5, 9, 0, 0, 0)
    assert sorted(one[1:4] for one in shown if one[0] == "propose") == [
        (1, 5, 2), (2, 5, 2), (3, 5, 2), (4, 5, 2), (5, 5, 1)
    ]  # fmt: skip
    assert [one for one in shown if one[0] == "review"] == [("review", 0, 5, 2, 0, 0, 7)]
    assert [one for one in shown if one[0] == "apply"] == [("apply", 1, 1, 2, 2, 0, 0)]
    last = said[-1]
    assert (last["consolidation"], last["step"]) == ("report", None)
    assert last["done"] == sum(DONE.values())


def test_a_report_reads_as_a_table_in_a_terminal_and_in_a_notebook(store: TieredStore) -> None:
    state = cycle(store).invoke({}, context=ACME)
    report = ConsolidationReport.of(state)

    assert report == ConsolidationReport.of(state["consolidated"])
    text, html = str(report), report._repr_html_()
    assert text.startswith("acme: a cycle as of 2026-03-08 18:05 UTC, 0.0 s\n")
    assert "  merge      done        2  it says the same as an older one\n" in text
    assert "<td>merge</td><td>done</td><td>2</td>" in html
    assert "importance &gt;= 0.6" in html
    assert len(report.moves) == 6
    quiet = str(ConsolidationReport.of(cycle(store).invoke({}, context=ACME)))
    assert "0.0 s" in quiet


# Leases


def test_a_tenant_that_a_worker_has_the_lease_of_is_skipped(
    url: str, store: TieredStore, clock: Clock
) -> None:
    store.run(lease.acquire("acme", "worker", clock.now, 60))
    before = everything(url)
    report = ConsolidationReport.of(cycle(store).invoke({}, context=ACME))

    assert everything(url) == before
    assert (report.skipped, report.lines) == ("somebody else is consolidating this tenant", ())
    assert not report.taken_over
    assert "nothing was done, as somebody else" in str(report)
    assert "nothing was done" in report._repr_html_()


@pytest.mark.parametrize("step", ["rise", "merge", "supersede"])
def test_a_cycle_that_a_worker_takes_the_tenant_from_leaves_the_rest_to_it(
    url: str, store: TieredStore, clock: Clock, step: str
) -> None:
    graph = cycle(store, InMemorySaver(), interrupt_before=["apply"])
    graph.invoke({}, THREAD, context=ACME)
    while graph.get_state(THREAD).values["step"] != step:
        graph.invoke(None, THREAD, context=ACME)
    fence = store.run(lease.acquire("acme", "worker", clock.now, 60))
    before = everything(url)
    graph.invoke(None, THREAD, context=ACME)
    report = ConsolidationReport.of(graph.get_state(THREAD).values)

    assert everything(url) == before
    assert report.taken_over
    assert report.lines[-1].step == step
    assert report.count(step, "left") == DONE[step]
    assert store.run(lease.release("acme", fence or 0))
    again = ConsolidationReport.of(cycle(store).invoke({}, context=ACME))
    assert not again.taken_over
    assert {name: report.count(name) + again.count(name) for name in DONE} == DONE


# Faults


@pytest.mark.parametrize("node", NODES)
def test_a_database_that_is_away_for_a_moment_is_asked_again(
    store: TieredStore, monkeypatch: pytest.MonkeyPatch, node: str
) -> None:
    away = DatabaseUnavailableError("away")
    crashing(monkeypatch, node, after=node == "apply", error=away)
    at_once = consolidation._RETRY._replace(initial_interval=0.0, max_interval=0.0, jitter=False)
    monkeypatch.setattr(consolidation, "_RETRY", at_once)

    found = done(ConsolidationReport.of(cycle(store, model=None).invoke({}, context=ACME)))
    assert found == {**DONE, "merge": 0, "supersede": 0}  # which no model was there to judge


def test_what_a_model_was_asked_is_not_asked_again_by_itself(
    store: TieredStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    crashing(monkeypatch, "propose", after=True, error=DatabaseUnavailableError("away"))
    graph = cycle(store, model=scripted("never asked"), policy=ConsolidationPolicy(promotion=None))

    with pytest.raises(DatabaseUnavailableError):
        graph.invoke({}, context=ACME)


def test_a_caller_s_mistakes_are_found_before_anything_runs(store: TieredStore) -> None:
    wrong: Any
    for wrong in ({"merge": True}, "all"):
        with pytest.raises(InvalidTypeError, match="policy is a ConsolidationPolicy"):
            create_consolidation_graph(policy=wrong)
    with pytest.raises(InvalidInputError, match="there is no node 'aply': use one of begin"):
        create_consolidation_graph(interrupt_before=["aply"])
    wrong = {"every_turns": 5}
    with pytest.raises(InvalidTypeError, match="schedule is a ConsolidationSchedule"):
        consolidation_due(wrong)
    with pytest.raises(ConfigurationError, match="compiled with no store"):
        create_consolidation_graph().invoke({}, context=ACME)
    with pytest.raises(InvalidInputError, match="whose memory"):
        cycle(store).invoke({})
    without = MemoryContext(tenant="acme")
    with pytest.raises(InvalidInputError, match="does not say which session"):
        cycle(store).invoke({"session_ended": True}, context=without)
