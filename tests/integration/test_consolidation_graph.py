"""The graph of consolidation on a real Postgres: cycles that end the same whatever befalls them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from typing import Any
from uuid import UUID

import psycopg
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
    consolidation,
    consolidation_nodes,
)
from langmem_tiers.consolidate import lease
from langmem_tiers.consolidate.policy import ConsolidationPolicy
from langmem_tiers.consolidate.report import ConsolidationReport
from langmem_tiers.consolidation import consolidation_due, create_consolidation_graph
from tests.support.agents import How, run, scripted
from tests.support.consolidating import (
    ACME,
    DONE,
    POLICY,
    Saver,
    everything,
    fill,
    open_store,
    saver,
)
from tests.support.learning import broken
from tests.support.opening import Clock, Opened, opened_store, tables

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
QUICKLY = {"initial_interval": 0.0, "max_interval": 0.0, "jitter": False}
_numbers = count()


@pytest.fixture(scope="module")
def filled(server_url: str, template: str) -> Iterator[tuple[str, Clock]]:
    """The name of a database in which every step finds something to do, and when that is."""
    name = template.replace("template", "world")
    with psycopg.connect(server_url, autocommit=True) as conn:
        conn.execute(f"CREATE DATABASE {name} TEMPLATE {template}".encode())
    clock = Clock()
    with open_store(psycopg.conninfo.make_conninfo(server_url, dbname=name), clock) as store:
        fill(store, clock)
    yield name, clock
    with psycopg.connect(server_url, autocommit=True) as conn:
        conn.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest.fixture
def worlds(server_url: str, filled: tuple[str, Clock]) -> Iterator[Callable[[], str]]:
    """Make copies of that database; each call returns a connection string."""
    made: list[str] = []

    def make() -> str:
        made.append(f"{filled[0]}_{next(_numbers)}")
        with psycopg.connect(server_url, autocommit=True) as conn:
            conn.execute(f"CREATE DATABASE {made[-1]} TEMPLATE {filled[0]}".encode())
        return psycopg.conninfo.make_conninfo(server_url, dbname=made[-1])

    yield make
    with psycopg.connect(server_url, autocommit=True) as conn:
        for name in made:
            conn.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


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
    with open_store(url, clock) as store:
        yield store


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cycles of one name, so that those of two worlds can be compared."""
    monkeypatch.setattr(consolidation_nodes, "uuid4", lambda: UUID(int=1))


def cycle(store: TieredStore, checkpointer: Any = None, **options: Any) -> Any:
    """The graph on a store."""
    return create_consolidation_graph(
        **{"policy": POLICY, "store": store, "checkpointer": checkpointer, **options}
    )


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


@pytest.mark.parametrize(("kept", "opened", "how"), WAYS)
async def test_a_cycle_does_each_step_and_the_next_one_finds_nothing_to_do(
    url: str, clock: Clock, kept: Saver, opened: Opened, how: How
) -> None:
    async with opened_store(open_store(url, clock), opened) as store, saver(kept, url) as keeping:
        graph = cycle(store, keeping)
        first = await run(graph, how, {}, config=THREAD, context=ACME)
        after = everything(url)
        second = await run(graph, how, {}, config=THREAD, context=ACME)

    assert done(ConsolidationReport.of(first)) == DONE
    assert sum(done(ConsolidationReport.of(second)).values()) == 0
    assert everything(url) == after


# Its report and its stream


def test_of_each_memory_that_a_step_looked_at_the_report_says_what_became_of_it(
    store: TieredStore,
) -> None:
    graph = cycle(store)
    looked_at: dict[str, int] = {}
    for update in graph.stream({}, context=ACME, stream_mode="updates"):
        if batches := update.get("select", {}).get("batches"):
            step = update["select"]["step"]
            looked_at[step] = looked_at.get(step, 0) + sum(map(len, batches))
    report = ConsolidationReport.of(cycle(store).invoke({}, context=ACME))

    assert sum(done(report).values()) == 0
    assert looked_at == {
        "expire": 2, "rise": 1, "merge": 9, "supersede": 4, "demote": 1, "promote": 1, "decay": 4
    }  # fmt: skip


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
        with open_store(url, clock) as store:
            report = ConsolidationReport.of(cycle(store).invoke({}, context=ACME))
        ends.append((report.lines, by_key(url)))

    assert ends[0] == ends[1]


async def test_each_node_says_what_it_did_to_whoever_streams_custom(
    url: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consolidation_nodes, "BATCH", 2)
    async with open_store(url, clock) as store:
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


# What befalls it


def crashing(
    monkeypatch: pytest.MonkeyPatch, node: str, *, after: bool, error: Exception, at: int = 1
) -> None:
    """Let a node fail once, the `at`-th time it runs: before its work, or when it is done."""
    does = getattr(consolidation, node)
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


@pytest.fixture(scope="module")
def undisturbed(
    server_url: str, filled: tuple[str, Clock]
) -> tuple[dict[str, list[tuple[Any, ...]]], dict[str, int]]:
    """The tables that a cycle leaves which nothing befalls, and what it did."""
    name = f"{filled[0]}_undisturbed"
    with psycopg.connect(server_url, autocommit=True) as conn:
        conn.execute(f"CREATE DATABASE {name} TEMPLATE {filled[0]}".encode())
    url = psycopg.conninfo.make_conninfo(server_url, dbname=name)
    with pytest.MonkeyPatch.context() as patch, open_store(url, filled[1]) as store:
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
    async with open_store(url, clock) as store, saver(kept, url) as keeping:
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


# Leases


def test_a_tenant_that_a_worker_has_the_lease_of_is_skipped(
    url: str, store: TieredStore, clock: Clock
) -> None:
    store.run(lease.acquire("acme", "worker", clock.now, 60))
    before = everything(url)
    report = ConsolidationReport.of(cycle(store).invoke({}, context=ACME))

    assert everything(url) == before
    assert (report.skipped, report.lines) == ("somebody else is consolidating this tenant", ())
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
    assert report.lines[-1].step == step
    assert report.count(step, "left") == DONE[step]
    assert store.run(lease.release("acme", fence or 0))
    again = ConsolidationReport.of(cycle(store).invoke({}, context=ACME))
    assert {name: report.count(name) + again.count(name) for name in DONE} == DONE


# Faults


@pytest.mark.parametrize("node", NODES)
def test_a_database_that_is_away_for_a_moment_is_asked_again(
    store: TieredStore, monkeypatch: pytest.MonkeyPatch, node: str
) -> None:
    away = DatabaseUnavailableError("away")
    crashing(monkeypatch, node, after=node == "apply", error=away)
    monkeypatch.setattr(consolidation, "_RETRY", consolidation._RETRY._replace(**QUICKLY))

    assert done(ConsolidationReport.of(cycle(store).invoke({}, context=ACME))) == DONE


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
