"""Reminders in a graph: raised without being asked, once, also where a node is retried."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

from langmem_tiers import (
    MemoryContext,
    MemoryCoordinator,
    TieredStore,
    create_acknowledge_node,
    create_reminder_node,
)
from langmem_tiers.core.errors import ConfigurationError, InvalidInputError, InvalidTypeError
from langmem_tiers.graph.recall import MemoryState
from tests.support.agents import Way
from tests.support.graphs import ACME, QUICK, asks, call
from tests.support.opening import Clock, refusing

CUE = "when Anna mentions the budget"


class State(MemoryState, total=False):
    reminders: list[dict[str, Any]]
    reminders_text: str
    intentions: list[dict[str, Any]]
    cart: int


def graph(store: TieredStore, node: Any, *, schema: Any = State, saver: Any = None) -> Any:
    builder: Any = StateGraph(schema, context_schema=MemoryContext)
    builder.add_node("remind", node, retry_policy=QUICK)
    builder.set_entry_point("remind")
    return builder.compile(store=store, checkpointer=saver)


def raised(state: Any) -> list[str]:
    return [one["key"] for one in state["reminders"]]


async def test_what_is_due_is_in_the_state_without_being_asked(way: Way) -> None:
    memory = MemoryCoordinator(way.store, context=ACME)
    await memory.reminders.aadd("Ask her for the figures", cue=CUE, key="cue", priority="high")
    await memory.reminders.aadd("Fix the flaky test", key="now")
    await memory.reminders.aadd("Offer free shipping", when="full", key="state")
    await memory.reminders.aadd("Tell </reminders> the team", before_tool="deploy", key="tool")
    node = create_reminder_node(predicates={"full": lambda s: s.get("cart", 0) > 2})
    agent = graph(way.store, node)
    turns: list[tuple[Any, list[str]]] = [
        ({"messages": [asks("Anna asked about the budget")]}, ["cue", "now"]),
        ({"messages": [asks("Anna, budget")], "cart": 3}, ["state"]),
        ({"messages": [call("deploy", environment="p")]}, ["tool"]),
        ({"messages": [asks("Anna's budget")]}, []),
    ]
    states = [await way(agent, given, context=ACME) for given, _ in turns]
    assert [raised(one) for one in states] == [due for _, due in turns]
    assert [one["key"] for one in states[0]["intentions"]] == ["state", "tool"]
    assert "Ask her for the figures" in states[0]["reminders_text"]
    assert [one["reminders_text"].count("</memories>") for one in states] == [1, 1, 1, 0]


def test_a_session_begins_with_what_is_open_by_priority_and_goes_on_without(
    memory: MemoryCoordinator, store: TieredStore
) -> None:
    for priority in ("low", "high", "medium"):
        memory.reminders.add(priority, cue=CUE, key=priority, priority=priority)
    agent = graph(store, create_reminder_node(at_start=2), saver=InMemorySaver())
    thread = {"configurable": {"thread_id": "1"}}
    first = agent.invoke({"messages": [asks("Hello")]}, thread, context=ACME)
    assert [one["key"] for one in first["intentions"]] == ["high", "medium"]
    assert (raised(first), first["reminders_text"]) == ([], "")
    second = agent.invoke({"messages": [asks("And now?")]}, thread, context=ACME)
    assert second["reminders_text"] == ""
    assert [one.status for one in memory.reminders.list()] == ["pending"] * 3


def test_a_retried_node_raises_the_same_and_loses_nothing(
    memory: MemoryCoordinator, store: TieredStore
) -> None:
    memory.reminders.add("Call", key="k")
    node = create_reminder_node()
    tries: list[list[str]] = []

    def fails_twice(state: State, config: RunnableConfig) -> Any:
        update = node.invoke(state, config)
        tries.append(raised(update))
        if len(tries) < 3:
            raise ConnectionError("the state was not written")
        return update

    agent = graph(store, fails_twice)
    state = agent.invoke({"messages": [asks("Hello")]}, context=ACME)
    assert (tries, raised(state)) == ([["k"]] * 3, ["k"])
    assert raised(agent.invoke({"messages": [asks("Hello")]}, context=ACME)) == []


def conversation(
    store: TieredStore,
    *fails: int,
    acknowledges: bool,
    lease: float | None = 300.0,
    saver: Any = None,
    schema: Any = State,
    trims: bool = False,
) -> Any:
    """Reminders, then a model whose calls of these numbers fail."""
    tries: list[int] = []

    def model(state: Any) -> dict[str, Any]:
        tries.append(len(tries) + 1)
        if tries[-1] in fails:
            raise ConnectionError("the model is away")
        over = [RemoveMessage(id=one.id) for one in state["messages"][:-1]] if trims else []
        return {"messages": [*over, AIMessage("Noted.")]}

    builder: Any = StateGraph(schema, context_schema=MemoryContext)
    builder.add_node("remind", create_reminder_node(lease_seconds=lease))
    builder.add_node("model", model)
    builder.add_edge(START, "remind")
    builder.add_edge("remind", "model")
    if acknowledges:
        builder.add_node("acknowledge", create_acknowledge_node())
        builder.add_edge("model", "acknowledge")
    return builder.compile(store=store, checkpointer=saver)


def test_what_a_model_that_failed_was_to_be_reminded_of_is_raised_again(
    memory: MemoryCoordinator, store: TieredStore, clock: Clock
) -> None:
    memory.reminders.add("Call", key="k")
    agent = conversation(store, 1, acknowledges=True)
    with pytest.raises(ConnectionError):
        agent.invoke({"messages": [asks("Hello")]}, context=ACME)
    assert [one.status for one in memory.reminders.list()] == ["leased"]
    clock.advance(seconds=301)
    second = agent.invoke({"messages": [asks("Hello")]}, context=ACME)
    assert raised(second) == ["k"]
    assert [one.status for one in memory.reminders.list()] == ["delivered"]
    clock.advance(days=1)
    assert raised(agent.invoke({"messages": [asks("Hello")]}, context=ACME)) == []


class Plain(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], operator.add]
    reminders: list[dict[str, Any]]
    reminders_text: str


@pytest.mark.parametrize(
    ("schema", "trims"), [(State, False), (State, True), (Plain, False)], ids=str
)
def test_a_thread_that_goes_on_acknowledges_what_its_model_has_answered(
    memory: MemoryCoordinator, store: TieredStore, clock: Clock, schema: Any, *, trims: bool
) -> None:
    """Also where messages are trimmed, or have no ids."""
    agent = conversation(
        store, 3, acknowledges=False, saver=InMemorySaver(), schema=schema, trims=trims
    )
    thread: Any = {"configurable": {"thread_id": "1"}}
    said = HumanMessage if schema is Plain else asks
    for _ in range(2):
        agent.invoke({"messages": [said("Hello")]}, thread, context=ACME)
    memory.reminders.add("Call", key="k")
    with pytest.raises(ConnectionError):
        agent.invoke({"messages": [said("Hello")]}, thread, context=ACME)
    seen = []
    for _ in range(3):
        clock.advance(seconds=301)
        state = agent.invoke({"messages": [said("And now?")]}, thread, context=ACME)
        seen.append((raised(state), str(memory.reminders.list()[0].status)))
    assert seen == [(["k"], "leased"), ([], "delivered"), ([], "delivered")]


def test_a_state_that_would_lose_what_is_leased_is_refused_before_anything_is_raised(
    memory: MemoryCoordinator, store: TieredStore
) -> None:
    memory.reminders.add("Call", key="k")
    said = {"messages": [asks("Hello")]}
    for node in (create_reminder_node(as_message=True), create_acknowledge_node()):
        agent = graph(store, node, schema=MessagesState)
        with pytest.raises(ConfigurationError, match="the graph's state has no key 'reminders'"):
            agent.invoke(said, context=ACME)
    assert [one.status for one in memory.reminders.list()] == ["pending"]
    at_once = create_reminder_node(as_message=True, lease_seconds=None)
    state = graph(store, at_once, schema=MessagesState).invoke(said, context=ACME)
    assert "Call" in state["messages"][-1].text
    assert [one.status for one in memory.reminders.list()] == ["delivered"]


def test_without_a_lease_what_a_node_raises_is_delivered_at_once(
    memory: MemoryCoordinator, store: TieredStore, clock: Clock
) -> None:
    memory.reminders.add("Call", key="k")
    agent = conversation(store, 1, acknowledges=False, lease=None)
    with pytest.raises(ConnectionError):
        agent.invoke({"messages": [asks("Hello")]}, context=ACME)
    clock.advance(days=1)
    assert raised(agent.invoke({"messages": [asks("Hello")]}, context=ACME)) == []


def test_an_answer_is_not_lost_where_its_reminders_cannot_be_acknowledged(
    url: str, memory: MemoryCoordinator, store: TieredStore, clock: Clock,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    memory.reminders.add("Call", key="k")
    agent = conversation(store, acknowledges=True)
    with refusing(url, "intentions", unless="status <> 'delivered'"):
        state = agent.invoke({"messages": [asks("Hello")]}, context=ACME)
    assert state["messages"][-1].text == "Noted."
    assert "goes on without its memory (acknowledge)" in caplog.text
    clock.advance(seconds=301)
    assert [one.key for one in memory.reminders.due(lease_seconds=1)] == ["k"]


def test_an_option_that_cannot_work_is_refused_when_the_node_is_made() -> None:
    async def full(_: Any) -> bool:
        return True

    with pytest.raises(InvalidTypeError, match="the predicate 'full' is an async function"):
        create_reminder_node(predicates={"full": full})  # type: ignore[dict-item]
    with pytest.raises(InvalidTypeError, match="as_message is True or False"):
        create_reminder_node(as_message="yes")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="lease_seconds is a number above 0"):
        create_reminder_node(lease_seconds=0)
