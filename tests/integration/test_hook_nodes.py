"""Hooks in a graph and in an agent: what is said and done is kept, once, and no answer is lost."""

from __future__ import annotations

from typing import Any

import pytest
from langchain.agents.middleware import TodoListMiddleware
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphInterrupt
from langgraph.graph import START, StateGraph

from langmem_tiers import (
    HookState,
    MemoryContext,
    MemoryCoordinator,
    MemoryHooks,
    TieredStore,
    create_acknowledge_node,
    create_completed_task_node,
    create_manage_reminder_tool,
    create_session_end_node,
    create_session_start_node,
    create_user_prompt_node,
)
from langmem_tiers.core.errors import DatabaseError
from langmem_tiers.graph.runtime import DRIVER, NodeConfig, Step
from langmem_tiers.postgres.flow import Flow
from tests.support.agents import Way, agent_between, agent_on, calls, scripted
from tests.support.graphs import ACME, QUICK, fails_once_after
from tests.support.opening import Clock, away, refusing, tables, text_index
from tests.support.sessions import types

RENEW = "I need to renew the certificate tomorrow at 5pm, it is urgent"
BRANCHES = "Clean up the old branches later, no rush"
CHAT = MemoryContext(tenant="acme", project_id="billing", session_id="chat")
PORT = "The port is 8443."


def said(text: str, number: int = 1, **further: Any) -> Any:
    return {"messages": [HumanMessage(text, id=f"m{number}")], **further}


def within(thread: str = "7", context: MemoryContext = ACME) -> Any:
    """Where a run is."""
    return {"config": {"configurable": {"thread_id": thread}}, "context": context}


# In a graph


def hooked(store: TieredStore, **changed: Any) -> Any:
    """A session's start, the prompt, an answer, the todos, and the session's end."""

    def answer(state: HookState) -> dict[str, Any]:
        return {"messages": [AIMessage(f"Noted: {state['messages'][-1].text}")]}

    nodes = {
        "session_start": create_session_start_node(),
        "user_prompt": create_user_prompt_node(),
        "answer": answer,
        "completed_tasks": create_completed_task_node(),
        "session_end": create_session_end_node(),
        **changed,
    }
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(HookState, context_schema=MemoryContext)
    before = START
    for name, node in nodes.items():
        builder.add_node(name, node, retry_policy=QUICK)
        builder.add_edge(before, name)
        before = name
    return builder.compile(store=store, checkpointer=InMemorySaver())


async def test_a_graph_remembers_from_a_sessions_start_to_its_end_however_it_is_run(
    way: Way, url: str, clock: Clock
) -> None:
    todo = {"content": "Rotate the API keys", "task_type": "ops"}
    doing, done = [{**todo, "status": "in_progress"}], [{**todo, "status": "completed"}]
    chat = within(context=CHAT)
    end = create_session_end_node(
        events=lambda _: [{"description": "Anna chose Redis", "type": "decision"}],
        concepts=lambda _: [{"description": "Sessions live in Redis", "category": "storage"}],
    )
    graph = hooked(way.store, session_end=end)
    first = await way(graph, said(RENEW, todos=doing), **chat)
    clock.advance(minutes=20)
    decided = said("Anna decided to keep sessions in Redis.", 2, todos=done)
    second = await way(graph, decided, **chat)
    before = types(url)
    last = await way(graph, said("That is all, Anna", 3, session_ended=True), **chat)
    memory = MemoryCoordinator(way.store, context=CHAT)
    kept = [await memory.aget(last["session"][name][0]) for name in ("events", "concepts")]
    (flow,) = await memory.aget_context("Rotate", memory_types=["procedural"])

    prompt = first["hooks"]["user_prompt"]
    assert (prompt["priority"], prompt["trigger"]) == ("high", "at 2026-03-02T17:00:00+00:00")
    assert first["messages"][-1].text == f"Noted: {RENEW}"
    assert [one["stored"] for one in second["hooks"]["completed_tasks"]["stored"]] == [True]
    assert before == {"working": 2, "prospective": 1, "procedural": 1}
    assert flow.metadata == {"task_type": "ops", "success": True, "duration_minutes": 20.0}
    metadata = [one and one.metadata for one in kept]
    assert metadata == [{"decision_type": "decision"}, {"category": "storage"}]
    assert "working" not in types(url)


def test_a_session_starts_once_with_what_is_open_also_where_its_first_start_failed(
    url: str, ready: TieredStore
) -> None:
    hooks = MemoryHooks(MemoryCoordinator(ready, context=ACME))
    for text in (BRANCHES, RENEW):
        hooks.on_user_prompt_submit(text)
    graph = hooked(ready)
    with away(url, "intentions"):
        failed = graph.invoke(said("Good morning, Anna here"), **within())
    started, later = (graph.invoke(said(PORT, number), **within()) for number in (2, 3))

    assert "Error" in failed["hooks"]["session_start"]["error"]
    assert failed["reminders_text"] == ""
    assert failed["messages"][-1].text == "Noted: Good morning, Anna here"
    assert [one["content"] for one in started["reminders"]] == [BRANCHES]
    listed = [(one["priority"], one["content"]) for one in started["intentions"]]
    assert listed == [("high", RENEW)]
    assert len(started["hooks"]["session_start"]["pending"]) == 1
    assert (later["reminders"], later["reminders_text"]) == ([], "")


def test_a_node_whose_answer_got_lost_writes_nothing_twice(
    url: str, ready: TieredStore, clock: Clock
) -> None:
    node = fails_once_after(create_user_prompt_node())
    state = hooked(ready, user_prompt=node).invoke(said(RENEW), **within(context=CHAT))
    clock.advance(days=2)

    assert state["hooks"]["user_prompt"]["intended"]["stored"]
    assert types(url) == {"working": 1, "prospective": 1}
    assert len(MemoryCoordinator(ready, context=CHAT).reminders.due()) == 1


# In an agent


@tool
def make_key(kind: str) -> str:
    """Make a key."""
    return f"a new {kind} key"


def working_agent(store: TieredStore) -> tuple[Any, Any]:
    """An agent that does one todo, between the nodes that remember what it does, and its model."""
    doing, done = (
        calls("write_todos", todos=[{"content": "Rotate", "status": status}])
        for status in ("in_progress", "completed")
    )
    model = scripted(doing, calls("make_key", kind="ed25519"), done, "The keys are rotated.")
    before = {"start": create_session_start_node(), "prompt": create_user_prompt_node()}
    after = {"acknowledge": create_acknowledge_node(), "done": create_completed_task_node()}
    beside: Any = {"middleware": [TodoListMiddleware()], "tools": [make_key]}
    return agent_between(store, model, before, after, **beside), model


async def test_an_agent_remembers_what_it_is_told_and_what_it_has_done(way: Way, url: str) -> None:
    memory = MemoryCoordinator(way.store, context=ACME)
    await MemoryHooks(memory).aon_user_prompt_submit(BRANCHES)
    agent, model = working_agent(way.store)
    state = await way(agent, said(RENEW), **within())
    (flow,) = await memory.aget_context("Rotate", memory_types=["procedural"])
    again = await way(agent, said(RENEW), **within())

    assert state["messages"][-1].text == "The keys are rotated."
    system = next(one for one in model.seen[0] if isinstance(one, SystemMessage))
    assert BRANCHES in system.text
    first, second = (one["hooks"]["user_prompt"]["intended"] for one in (state, again))
    assert first["stored"]
    assert first["key"] == second["key"]
    assert flow.content == 'Rotate: 1. make_key({"kind": "ed25519"})'
    assert flow.metadata == {"task_type": None, "success": True, "duration_minutes": None}
    assert types(url) == {"working": 2, "prospective": 2, "procedural": 1}


async def test_a_model_closes_what_it_was_reminded_of_within_its_runs_context(way: Way) -> None:
    memory, other = (
        MemoryCoordinator(way.store, context=one) for one in (ACME, MemoryContext(tenant="umbra"))
    )
    await memory.reminders.aadd("Call the bank", key="bank")
    await other.reminders.aadd("Call the other bank", key="other")
    closing = [calls("manage_reminder", action="done", id=key) for key in ("bank", "other")]
    model = scripted(*closing, "Done.")
    agent = agent_on(way.store, model, tools=[create_manage_reminder_tool()])
    state = await way(agent, said("It is done."), **within())
    done, none = [one.text for one in state["messages"] if isinstance(one, ToolMessage)]
    assert done == "The reminder [bank] is done."
    assert "other" in none
    assert [len(await one.reminders.alist()) for one in (memory, other)] == [0, 1]
    assert state["messages"][-1].text == "Done."


# Where something goes wrong


def broken(_: list[str]) -> list[list[float]]:
    """An embedding model whose client is broken."""
    raise AttributeError("the answer has no 'data'")


def test_an_error_of_a_hook_is_told_and_no_answer_is_lost_or_it_is_raised(
    url: str, ready: TieredStore, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    todo = {"content": "Rotate the API keys", "status": "completed"}
    odd = {**todo, "content": "Rotate the\x00 \ud800 keys", "id": "1"}
    chat = within(context=CHAT)
    working, _ = working_agent(ready)
    strict = hooked(ready, user_prompt=create_user_prompt_node(on_error="raise"))
    before = tables(url)
    with refusing(url):
        state = hooked(ready).invoke(said(RENEW, 2, todos=[todo]), **chat)
        answered = working.invoke(said(RENEW), **chat)
        with pytest.raises(DatabaseError):
            strict.invoke(said(RENEW), **chat)
    assert tables(url) == before
    assert state["messages"][-1].text == f"Noted: {RENEW}"
    assert answered["messages"][-1].text == "The keys are rotated."
    for each in (state, answered):
        assert "DatabaseError" in each["hooks"]["user_prompt"]["error"]
        assert "DatabaseError" in each["hooks"]["completed_tasks"]["error"]
    assert state["todos_seen"]["noted"] == []  # it is tried again
    assert "goes on without its memory (user_prompt)" in caplog.text

    told = hooked(ready).invoke(said(PORT, todos=[{**todo, "content": " "}]), **chat)
    assert "the content of a todo is empty" in told["hooks"]["completed_tasks"]["error"]
    told = hooked(ready).invoke(said(PORT, 2, todos=[odd]), **chat)
    assert told["hooks"]["completed_tasks"]["stored"][0]["stored"]
    with TieredStore(url, index=text_index() | {"embed": broken}, clock=clock) as store:
        told = hooked(store).invoke(said(PORT), **chat)
        assert "(AttributeError: the answer has no 'data')" in told["hooks"]["user_prompt"]["error"]
        assert told["messages"][-1].text == f"Noted: {PORT}"


def test_an_interrupt_passes() -> None:
    def interrupts() -> Flow[dict[str, Any]]:
        yield from ()
        raise GraphInterrupt

    nobody: Any = None
    step = Step(nobody, {}, {}, None, NodeConfig(None, nobody, "hook", "tell", "tell"))
    with pytest.raises(GraphInterrupt):
        DRIVER.run(step.run_hook(interrupts()))
