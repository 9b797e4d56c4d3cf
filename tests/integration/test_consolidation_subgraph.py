"""Consolidation as a node of an agent's graph: when it runs, and what the agent's user sees."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from pydantic import BaseModel

from langmem_tiers import (
    ConsolidationReport,
    ConsolidationSchedule,
    ConsolidationWorker,
    MemoryContext,
    TieredStore,
    consolidation_due,
    create_consolidation_graph,
)
from langmem_tiers.consolidation.merge import Merge
from langmem_tiers.core.errors import ConfigurationError
from langmem_tiers.graph.consolidation import count_turns_since
from tests.support.agents import How, run
from tests.support.coordinating import coordinator
from tests.support.cycles import ACME, opened_world
from tests.support.opening import Clock, Opened, opened_store, tier_of
from tests.support.savers import Saver, saver

THREAD: RunnableConfig = {"configurable": {"thread_id": "1"}}
ALWAYS = ConsolidationSchedule(every_turns=1)
WAYS: list[tuple[Saver, Opened, How]] = [
    ("memory", "async", "astream"),
    ("postgres", "sync", "invoke"),
    ("async postgres", "async", "ainvoke"),
]


class Talk(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    session_ended: bool
    consolidated: dict[str, Any]


def agent(
    store: TieredStore,
    schedule: ConsolidationSchedule = ALWAYS,
    checkpointer: Any = None,
    context_schema: Any = MemoryContext,
    **options: Any,
) -> Any:
    """An agent that answers, and then consolidates when it is due."""
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(Talk, context_schema=context_schema)
    builder.add_node("model", lambda _: {"messages": [AIMessage("ok")]})
    builder.add_node("consolidation", create_consolidation_graph(**options))
    builder.add_edge(START, "model")
    builder.add_conditional_edges("model", consolidation_due(schedule), ["consolidation", END])
    builder.add_edge("consolidation", END)
    return builder.compile(store=store, checkpointer=checkpointer)


def says(text: str = "Hello", **more: Any) -> dict[str, Any]:
    """What a human says."""
    return {"messages": [HumanMessage(text)], **more}


def told(store: TieredStore, *keys: str, tenant: str = "acme") -> None:
    """Remember the same thing under several keys."""
    memory = coordinator(store, tenant, project_id="billing")
    for key in keys:
        memory.store("Anna likes green tea", "semantic", tier="working", key=key)


def merged(state: Any) -> int:
    """How many memories the last cycle merged."""
    return ConsolidationReport.of(state).count("merge")


# When it runs


@pytest.mark.parametrize(("kept", "opened", "how"), WAYS)
async def test_it_runs_after_so_many_turns_of_a_human_since_the_last_cycle(
    new_url: Callable[[], str], clock: Clock, kept: Saver, opened: Opened, how: How
) -> None:
    url = new_url()
    async with opened_store(opened_world(url, clock), opened) as store, saver(kept, url) as keeping:
        graph = agent(store, ConsolidationSchedule(every_turns=2), keeping)
        states = []
        for n in range(5):
            await asyncio.to_thread(told, store, str(n))
            clock.advance(minutes=2)
            states.append(await run(graph, how, says(), config=THREAD, context=ACME))

    cycles = [(one.get("consolidated") or {}).get("turns") for one in states]
    assert cycles == [None, 2, 2, 4, 4]
    assert merged(states[-1]) == 2
    assert len(states[-1]["messages"]) == 10


def test_it_runs_at_once_and_then_when_so_much_time_has_passed(
    store: TieredStore, clock: Clock
) -> None:
    began = clock.now
    graph = agent(store, ConsolidationSchedule(every=timedelta(hours=6)), InMemorySaver())
    cycles = []
    for _ in range(4):
        state = graph.invoke(says(), THREAD, context=ACME)
        cycles.append(ConsolidationReport.of(state).started_at - began)
        clock.advance(hours=5)
    assert cycles == [timedelta(hours=hours) for hours in (0, 0, 10, 10)]


def test_while_a_cycle_is_under_way_no_other_thread_begins_one(
    store: TieredStore, clock: Clock
) -> None:
    begun: list[str] = []
    builder: Any = StateGraph(Talk, context_schema=MemoryContext)
    builder.add_node("model", lambda _: {"messages": [AIMessage("ok")]})
    builder.add_node("cycle", lambda state: begun.append(state["messages"][0].text))
    builder.add_edge(START, "model")
    schedule = ConsolidationSchedule(every=timedelta(hours=6))
    builder.add_conditional_edges("model", consolidation_due(schedule, then="cycle"))
    graph = builder.compile(store=store)
    for minutes, tenant in ((0, "acme"), (0, "acme"), (0, "other"), (9, "acme"), (1, "acme")):
        clock.advance(minutes=minutes)
        graph.invoke(says(f"{clock.now:%M} {tenant}"), context={"tenant": tenant})
    assert begun == ["00 acme", "00 other", "10 acme"]


@pytest.mark.parametrize(("kept", "opened", "how"), WAYS)
async def test_the_time_since_a_tenant_s_last_cycle_is_the_same_in_every_thread_and_for_a_worker(
    new_url: Callable[[], str], clock: Clock, kept: Saver, opened: Opened, how: How
) -> None:
    url, every = new_url(), ConsolidationSchedule(every=timedelta(hours=6))
    async with opened_store(opened_world(url, clock), opened) as store, saver(kept, url) as keeping:
        graph, alone = agent(store, every, keeping), agent(store, every)
        await asyncio.to_thread(told, store, "1", "2")

        async def runs(one: Any, thread: str, tenant: str = "acme") -> bool:
            config: RunnableConfig = {"configurable": {"thread_id": thread}}
            state = await run(one, how, says(), config=config, context={"tenant": tenant})
            return "consolidated" in state

        threads = [(graph, "1"), (graph, "2"), (alone, "3")]
        assert [await runs(*one) for one in threads] == [True, False, False]
        worker = ConsolidationWorker(store, every, checkpointer=InMemorySaver())
        assert await worker.arun_due() == []
        assert await runs(graph, "4", "other")
        clock.advance(hours=6)
        (report,) = await worker.arun_due()
        assert report.tenant == "acme"
        assert not await runs(alone, "5")


@pytest.mark.parametrize("session", ["chat", None], ids=["named", "the thread"])
def test_when_a_session_ends_all_of_it_and_nothing_else_rises_once(
    store: TieredStore, url: str, session: str | None
) -> None:
    context = MemoryContext(tenant="acme", project_id="billing", session_id=session)
    ends = session or "1"
    for project, said in (("billing", ends), ("billing", "tea"), ("shipping", ends)):
        memory = coordinator(store, project_id=project, session_id=said)
        memory.store("a note", "episodic", tier="short_term", key=f"{project} {said}")
    graph = agent(store, ConsolidationSchedule(on_session_end=True), InMemorySaver())
    states = [
        graph.invoke(one, THREAD, context=context)
        for one in (says(), says("Bye", session_ended=True), says("One more thing"))
    ]

    first, second, third = (one.get("consolidated") for one in states)
    assert first is None
    assert second == third
    assert ConsolidationReport.of(states[1]).count("rise") == 1
    assert states[1]["session_ended"] is False
    rose = {
        key: tier_of(url, key) for key in (f"billing {ends}", "billing tea", f"shipping {ends}")
    }
    assert list(rose.values()) == [["working"], ["short_term"], ["short_term"]]


def test_turns_are_counted_anew_where_older_messages_were_removed(store: TieredStore) -> None:
    graph = agent(store, ConsolidationSchedule(every_turns=3), InMemorySaver())
    states = [graph.invoke(says(), THREAD, context=ACME) for _ in range(3)]
    state = states[-1]
    gone = [RemoveMessage(one.id) for one in state["messages"]]
    graph.update_state(THREAD, {"messages": gone})
    cycles = {graph.invoke(says(), THREAD, context=ACME)["consolidated"]["cycle"] for _ in range(2)}
    assert cycles == {state["consolidated"]["cycle"]}
    assert graph.invoke(says(), THREAD, context=ACME)["consolidated"]["cycle"] not in cycles


def test_turns_without_ids_are_counted() -> None:
    said = [HumanMessage("a"), AIMessage("b"), {"role": "user", "content": "c"}]
    last = {"turn": None, "turns": 1}
    assert [count_turns_since(said, one) for one in (None, last, {**last, "turns": 5})] == [2, 1, 0]


class Bare(BaseModel):
    """A state that lacks what a schedule goes by."""

    text: str = ""


@pytest.mark.parametrize(
    ("schedule", "name"),
    [
        (ConsolidationSchedule(every_turns=1), "consolidated"),
        (ConsolidationSchedule(on_session_end=True), "session_ended"),
    ],
)
def test_a_model_of_a_state_that_lacks_a_key_is_told_which(
    store: TieredStore, schedule: ConsolidationSchedule, name: str
) -> None:
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(Bare)
    builder.add_node("model", lambda _: {"text": "ok"})
    builder.add_edge(START, "model")
    builder.add_conditional_edges("model", consolidation_due(schedule), [END])
    graph = builder.compile(store=store, checkpointer=InMemorySaver())
    with pytest.raises(ConfigurationError, match=f"Bare has no '{name}'"):
        graph.invoke({"text": "Hello"}, THREAD)


@dataclass
class Mine:
    """A context of somebody else's."""

    tenant: str
    session_id: str | None = None


@pytest.mark.parametrize(
    ("schema", "context", "options", "config"),
    [
        (MemoryContext, {"tenant": "acme"}, {}, {}),
        (Mine, Mine("acme"), {}, {}),
        (None, None, {"context": {"tenant": "{user}"}}, {"configurable": {"user": "acme"}}),
        (None, None, {"context": MemoryContext(tenant="acme")}, {}),
    ],
)
def test_whose_memory_it_is_the_agent_s_run_says(
    store: TieredStore, schema: Any, context: Any, options: Any, config: Any
) -> None:
    told(store, "1", "2")
    told(store, "1", "2", tenant="other")
    graph = agent(store, context_schema=schema, **options)
    report = ConsolidationReport.of(graph.invoke(says(), config, context=context))

    assert (report.tenant, report.count("merge")) == ("acme", 1)


# What is seen of it


@pytest.mark.parametrize("how", ["stream", "astream"])
async def test_its_progress_streams_through_the_agent_to_whoever_asks_for_subgraphs(
    store: TieredStore, how: str
) -> None:
    async def streamed(**options: Any) -> list[Any]:
        graph = agent(store)
        given = {"context": ACME, "stream_mode": "custom", **options}
        if how == "stream":
            return list(graph.stream(says(), **given))
        return [one async for one in graph.astream(says(), **given)]

    assert await streamed() == []
    told(store, "1", "2")
    found = await streamed(subgraphs=True)
    assert all(place[0].startswith("consolidation:") for place, _ in found)
    said = [one for _, one in found]
    assert [one["consolidation"] for one in said if one["step"] == "merge"] == [
        "select", "propose", "review", "apply"
    ]  # fmt: skip
    assert said[-1]["consolidation"] == "report"


def _fails(*_: Any) -> Any:
    raise KeyError("crash")


def test_an_agent_s_run_that_breaks_off_goes_on_with_the_same_cycle(
    store: TieredStore, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    told(store, "1", "2", "3")
    graph = agent(store, checkpointer=InMemorySaver())
    with monkeypatch.context() as patch:
        patch.setattr(Merge, "apply", _fails)
        with pytest.raises(KeyError):
            graph.invoke(says(), THREAD, context=ACME)
    (task,) = graph.get_state(THREAD, subgraphs=True).tasks
    begun = task.state.values["started_at"]
    clock.advance(hours=1)
    report = ConsolidationReport.of(graph.invoke(None, THREAD, context=ACME))

    assert report.started_at.isoformat() == begun
    assert report.count("merge") == 2
