"""The graph of consolidation on a real Postgres: cycles that end the same whatever befalls them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from psycopg.conninfo import conninfo_to_dict

from langmem_tiers import MemoryContext, TieredStore
from langmem_tiers.consolidation import lease
from langmem_tiers.consolidation.policy import ConsolidationPolicy
from langmem_tiers.consolidation.report import ConsolidationReport
from langmem_tiers.core.errors import (
    ConfigurationError,
    DatabaseUnavailableError,
    InvalidInputError,
    InvalidTypeError,
)
from langmem_tiers.graph import consolidation
from langmem_tiers.graph.consolidation import consolidation_due, create_consolidation_graph
from tests.support.agents import How, run, scripted
from tests.support.cycles import (
    ACME,
    DONE,
    POLICY,
    contents,
    crashing,
    cycle,
    done,
    fill,
    opened_world,
)
from tests.support.learning import broken
from tests.support.opening import Clock, Opened, opened_store, tables
from tests.support.savers import Saver, saver
from tests.support.servers import fresh_database

THREAD: RunnableConfig = {"configurable": {"thread_id": "1"}}
NODES = ("begin", "select", "propose", "review", "apply", "report")
WAYS: list[tuple[Saver, Opened, How]] = [
    ("memory", "async", "astream"),
    ("postgres", "sync", "invoke"),
    ("async postgres", "async", "ainvoke"),
]


@pytest.fixture(scope="module")
def filled(server_url: str, template: str) -> Iterator[tuple[str, Clock]]:
    """The name of a database in which every step finds something to do, and when that is."""
    clock = Clock()
    with fresh_database(server_url, template) as url:
        with opened_world(url, clock) as store:
            fill(store, clock)
        yield str(conninfo_to_dict(url)["dbname"]), clock


@pytest.fixture
def clock(filled: tuple[str, Clock]) -> Clock:
    """A clock that goes on where the world was left."""
    clock = Clock()
    clock.now = filled[1].now
    return clock


@pytest.fixture
def url(server_url: str, filled: tuple[str, Clock]) -> Iterator[str]:
    """A world, which is whole after the test."""
    with fresh_database(server_url, filled[0]) as made:
        yield made
        assert broken(made) == {}


@pytest.fixture
def store(url: str, clock: Clock) -> Iterator[TieredStore]:
    """A store on a world."""
    with opened_world(url, clock) as store:
        yield store


Undisturbed = tuple[dict[str, list[str]], Any]


@pytest.fixture(scope="module")
def undisturbed(server_url: str, filled: tuple[str, Clock]) -> Undisturbed:
    """What a cycle leaves and tells which nothing befalls."""
    with (
        fresh_database(server_url, filled[0]) as url,
        opened_world(url, filled[1]) as store,
    ):
        report = ConsolidationReport.of(cycle(store).invoke({}, context=ACME))
        return contents(url), report.lines


@pytest.mark.parametrize(("kept", "opened", "how"), WAYS)
async def test_a_cycle_does_each_step_and_the_next_one_finds_nothing_to_do(
    url: str, clock: Clock, kept: Saver, opened: Opened, how: How
) -> None:
    async with opened_store(opened_world(url, clock), opened) as store, saver(kept, url) as keeping:
        graph = cycle(store, keeping)
        first = await run(graph, how, {}, config=THREAD, context=ACME)
        after = contents(url)
        second = await run(graph, how, {}, config=THREAD, context=ACME)

    assert done(ConsolidationReport.of(first)) == DONE
    assert sum(done(ConsolidationReport.of(second)).values()) == 0
    assert contents(url) == after


# Its report and its stream


@pytest.mark.parametrize("batch", [2, 100])
def test_of_each_memory_that_a_step_looked_at_the_report_says_once_what_became_of_it(
    store: TieredStore, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    monkeypatch.setattr(consolidation, "BATCH", batch)
    looked_at = dict.fromkeys(DONE, 0)
    stream = cycle(store).stream({}, context=ACME, stream_mode=["updates", "values"])
    for mode, one in stream:
        if mode == "updates" and (batches := one.get("select", {}).get("batches")):
            looked_at[one["select"]["step"]] += sum(map(len, batches))
    report = ConsolidationReport.of(one)

    verdicts: tuple[Any, ...] = ("done", "left", "kept")
    told = {step: sum(report.count(step, each) for each in verdicts) for step in DONE}
    assert told == looked_at
    assert looked_at["merge"] == 13


@pytest.mark.parametrize("few", [1, 2])
def test_the_size_of_batches_changes_neither_the_tables_nor_the_report(
    url: str,
    store: TieredStore,
    monkeypatch: pytest.MonkeyPatch,
    undisturbed: Undisturbed,
    few: int,
) -> None:
    for name in ("BATCH", "FAN_OUT"):
        monkeypatch.setattr(consolidation, name, few)
    report = ConsolidationReport.of(cycle(store).invoke({}, context=ACME))

    left, lines = undisturbed
    assert without_events(contents(url)) == without_events(left)  # a merge is a move in each batch
    assert report.lines == lines


def without_events(left: dict[str, list[str]]) -> list[str]:
    return [row for row in left["acme"] if not row.startswith('["events"')]


def test_a_report_reads_as_a_table(store: TieredStore) -> None:
    state = cycle(store).invoke({}, context=ACME)
    report = ConsolidationReport.of(state)

    assert report == ConsolidationReport.of(state["consolidated"])
    text = str(report)
    assert text.startswith("acme: a cycle as of 2026-09-15 17:05 UTC, 0.0 s\n")
    assert "  merge      done        2  it says the same as an older one\n" in text
    assert len(report.moves) == 6
    quiet = str(ConsolidationReport.of(cycle(store).invoke({}, context=ACME)))
    assert "0.0 s" in quiet


# Leases


def test_a_tenant_that_a_worker_has_the_lease_of_is_skipped(
    url: str, store: TieredStore, clock: Clock
) -> None:
    store.run(lease.acquire_lease("acme", "worker", clock.now, 60))
    before = contents(url)
    report = ConsolidationReport.of(cycle(store).invoke({}, context=ACME))

    assert contents(url) == before
    assert (report.skipped, report.lines) == ("somebody else is consolidating this tenant", ())
    assert not report.taken_over
    assert "nothing was done, as somebody else" in str(report)


@pytest.mark.parametrize("step", ["rise", "merge"])
def test_a_cycle_that_a_worker_takes_the_tenant_from_leaves_the_rest_to_it(
    url: str, store: TieredStore, clock: Clock, step: str
) -> None:
    graph = cycle(store, InMemorySaver(), interrupt_before=["apply"])
    graph.invoke({}, THREAD, context=ACME)
    while graph.get_state(THREAD).values["step"] != step:
        graph.invoke(None, THREAD, context=ACME)
    fence = store.run(lease.acquire_lease("acme", "worker", clock.now, 60))
    before = contents(url)
    graph.invoke(None, THREAD, context=ACME)
    report = ConsolidationReport.of(graph.get_state(THREAD).values)

    assert contents(url) == before
    assert report.taken_over
    assert report.lines[-1].step == step
    assert report.count(step, "left") == DONE[step]
    assert store.run(lease.release_lease("acme", fence or 0))
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
    assert found == {**DONE, "merge": 1, "supersede": 0, "decay": 4}  # no model judged


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


@pytest.mark.parametrize(
    ("node", "at", "after"),
    [
        *((node, 1, False) for node in NODES),
        *((node, 3 if node in NODES[1:5] else 1, True) for node in NODES),
    ],
)
def test_a_cycle_that_breaks_off_at_any_node_ends_as_an_undisturbed_one(
    store: TieredStore,
    url: str,
    monkeypatch: pytest.MonkeyPatch,
    undisturbed: Undisturbed,
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

    assert (contents(url), ConsolidationReport.of(state).lines) == undisturbed


@pytest.mark.parametrize("node", ["begin", "apply"])
def test_a_cycle_that_is_interrupted_before_a_node_ends_as_an_undisturbed_one(
    url: str, store: TieredStore, clock: Clock, undisturbed: Undisturbed, node: str
) -> None:
    graph = cycle(store, InMemorySaver(), interrupt_before=[node])
    graph.invoke({}, THREAD, context=ACME)
    stops = 0
    while graph.get_state(THREAD).next:
        stops += 1
        clock.advance(minutes=node != "begin")
        graph.invoke(None, THREAD, context=ACME)

    report = ConsolidationReport.of(graph.get_state(THREAD).values)
    assert (contents(url), report.lines) == undisturbed
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


def test_two_cycles_at_once_end_as_one(
    url: str, store: TieredStore, undisturbed: Undisturbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consolidation, "BATCH", 3)
    with ThreadPoolExecutor() as pool:
        graphs = [cycle(store) for _ in range(3)]
        states = list(pool.map(lambda one: one.invoke({}, context=ACME), graphs))

    assert contents(url) == undisturbed[0]
    told = [done(ConsolidationReport.of(one)) for one in states]
    moved = ("rise", "merge", "supersede", "demote")
    assert {step: sum(one[step] for one in told) for step in moved} == {
        step: DONE[step] for step in moved
    }
