"""Hooks in a graph and in an agent: what is said and done is kept, once, and no answer is lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from langchain.agents.middleware import TodoListMiddleware
from langchain_core.embeddings import Embeddings
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphInterrupt
from langgraph.graph import START, StateGraph

from langmem_tiers import (
    HookState,
    MemoryContext,
    MemoryCoordinator,
    MemoryHooks,
    MemoryHooksMiddleware,
    TieredStore,
    TurnMiddleware,
    create_completed_task_node,
    create_session_end_node,
    create_session_start_node,
    create_user_prompt_node,
)
from langmem_tiers.core.errors import DatabaseError, InvalidInputError
from langmem_tiers.graph.node import careful_of
from langmem_tiers.graph.runs import CALLER
from langmem_tiers.postgres.flow import Flow
from tests.support.agents import WAYS, How, Way, agent_on, calls, run, scripted
from tests.support.graphs import ACME, QUICK, fails_once_after
from tests.support.opening import Clock, Opened, opened_store, tables, text_index
from tests.support.sessions import types

RENEW = "I need to renew the certificate tomorrow at 5pm, it is urgent"
BRANCHES = "Clean up the old branches later, no rush"
CHAT = MemoryContext(tenant="acme", project_id="billing", session_id="chat")
THREAD: Any = {"configurable": {"thread_id": "7"}}


def said(text: str, number: int = 1) -> Any:
    return {"messages": [HumanMessage(text, id=f"m{number}")]}


def hooked(store: TieredStore, *, user_prompt: Any = None, **options: Any) -> Any:
    """A session's start, the prompt, an answer, the todos, and the session's end."""

    def answer(state: HookState) -> dict[str, Any]:
        return {"messages": [AIMessage(f"Noted: {state['messages'][-1].text}")]}

    nodes = {
        "session_start": create_session_start_node(),
        "user_prompt": user_prompt or create_user_prompt_node(),
        "answer": answer,
        "completed_tasks": create_completed_task_node(),
        "session_end": create_session_end_node(
            events=options.pop("events", None), concepts=options.pop("concepts", None)
        ),
    }
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(HookState, context_schema=MemoryContext)
    before = START
    for name, node in nodes.items():
        builder.add_node(name, node, retry_policy=QUICK)
        builder.add_edge(before, name)
        before = name
    return builder.compile(store=store, checkpointer=options.get("checkpointer"))


async def test_a_graph_remembers_from_a_sessions_start_to_its_end_however_it_is_run(
    way: Way, url: str, clock: Clock
) -> None:
    store = way.store
    todo = {"content": "Rotate the API keys", "task_type": "ops"}
    doing, done = [{**todo, "status": "in_progress"}], [{**todo, "status": "completed"}]
    told: dict[str, Any] = {"config": THREAD, "context": CHAT}
    graph = hooked(
        store,
        events=lambda _: [{"description": "Anna chose Redis", "type": "decision"}],
        concepts=lambda _: [{"description": "Sessions live in Redis", "category": "storage"}],
        checkpointer=InMemorySaver(),
    )
    first = await way(graph, {**said(RENEW), "todos": doing}, **told)
    clock.advance(minutes=20)
    decided = said("Anna decided to keep sessions in Redis.", 2)
    second = await way(graph, {**decided, "todos": done}, **told)
    before = types(url)
    last = await way(graph, {**said("That is all, Anna", 3), "session_ended": True}, **told)
    memory = MemoryCoordinator(store, context=CHAT)
    kept = [await memory.aget(last["session"][name][0]) for name in ("events", "concepts")]
    (flow,) = await memory.aget_context("Rotate", memory_types=["procedural"])

    prompt = first["hooks"]["user_prompt"]
    assert (prompt["priority"], prompt["trigger"]) == ("high", "at 2026-03-02T17:00:00+00:00")
    assert first["messages"][-1].text == f"Noted: {RENEW}"
    assert [one["stored"] for one in second["hooks"]["completed_tasks"]["stored"]] == [True]
    assert before == {"working": 2, "prospective": 1, "procedural": 1}
    assert flow.metadata == {"task_type": "ops", "success": True, "duration_minutes": 20.0}
    assert [one and one.metadata for one in kept] == [
        {"decision_type": "decision"}, {"category": "storage"},
    ]  # fmt: skip
    assert "working" not in types(url)


def test_a_session_starts_once_with_what_is_open_and_raises_what_waits_for_it(
    ready: TieredStore,
) -> None:
    MemoryHooks(MemoryCoordinator(ready, context=ACME)).on_user_prompt_submit(BRANCHES)
    MemoryHooks(MemoryCoordinator(ready, context=ACME)).on_user_prompt_submit(RENEW)
    graph = hooked(ready, checkpointer=InMemorySaver())
    first = graph.invoke(said("Good morning, Anna here"), THREAD, context=ACME)
    second = graph.invoke(said("The port is 8443.", 2), THREAD, context=ACME)

    assert [one["content"] for one in first["reminders"]] == [BRANCHES]
    assert [(one["priority"], one["content"]) for one in first["intentions"]] == [("high", RENEW)]
    assert (second["reminders"], second["reminders_text"]) == ([], "")


def test_a_node_whose_answer_got_lost_writes_nothing_twice(
    url: str, ready: TieredStore, clock: Clock
) -> None:
    node = fails_once_after(create_user_prompt_node())
    state = hooked(ready, user_prompt=node).invoke(said(RENEW), context=CHAT)
    clock.advance(days=2)

    assert state["hooks"]["user_prompt"]["intended"]["stored"]
    assert types(url) == {"working": 1, "prospective": 1}
    assert len(MemoryCoordinator(ready, context=CHAT).remind()) == 1


@contextmanager
def refusing(url: str) -> Iterator[None]:
    """Meanwhile no memory can be written."""
    with psycopg.connect(url) as conn:
        conn.execute("ALTER TABLE memory.memories ADD CONSTRAINT none CHECK (false) NOT VALID")
    try:
        yield
    finally:
        with psycopg.connect(url) as conn:
            conn.execute("ALTER TABLE memory.memories DROP CONSTRAINT none")


class Broken(Embeddings):
    """An embedding model whose client is broken."""

    def embed_documents(self, _: list[str]) -> list[list[float]]:
        raise AttributeError("the answer has no 'data'")

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]


def agent_with_hooks(store: TieredStore, **options: Any) -> Any:
    return agent_on(store, scripted("Fine."), MemoryHooksMiddleware(**options))


def test_an_error_of_a_hook_is_told_and_no_answer_is_lost_or_it_is_raised(
    url: str, ready: TieredStore, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    todo = {"content": "Rotate the API keys", "status": "completed"}
    wrong = [{"content": " ", "status": "completed"}]
    odd = [{"content": "Rotate the\x00 \ud800 keys", "status": "completed", "id": "1"}]
    working, _ = working_agent(ready)
    before = tables(url)
    with refusing(url):
        state = hooked(ready).invoke({**said(RENEW, 2), "todos": [todo]}, context=CHAT)
        answered = working.invoke(said(RENEW), THREAD, context=CHAT)
        strict = hooked(ready, user_prompt=create_user_prompt_node(on_error="raise"))
        for each in (strict, agent_with_hooks(ready, on_error="raise")):
            with pytest.raises(DatabaseError):
                each.invoke(said(RENEW), context=CHAT)
    assert tables(url) == before
    assert state["messages"][-1].text == f"Noted: {RENEW}"
    assert answered["messages"][-1].text == "The keys are rotated."
    for each in (state, answered):
        assert "DatabaseError" in each["hooks"]["user_prompt"]["error"]
        assert "DatabaseError" in each["hooks"]["completed_tasks"]["error"]
    assert state["todos_seen"]["noted"] == []  # it is tried again
    assert "goes on without its memory (user_prompt)" in caplog.text

    told = hooked(ready).invoke({**said("The port is 8443."), "todos": wrong}, context=CHAT)
    assert "the content of a todo is empty" in told["hooks"]["completed_tasks"]["error"]
    told = hooked(ready).invoke({**said("The port is 8443.", 2), "todos": odd}, context=CHAT)
    assert told["hooks"]["completed_tasks"]["stored"][0]["stored"]
    with TieredStore(url, index={**text_index(), "embed": Broken()}, clock=clock) as store:
        for broken in (hooked(store), agent_with_hooks(store)):
            told = broken.invoke(said("The port is 8443."), context=CHAT)
            assert told["hooks"]["user_prompt"]["error"].endswith("the answer has no 'data'")
            assert told["messages"][-1].text in {"Noted: The port is 8443.", "Fine."}


def test_an_interrupt_passes() -> None:
    def interrupts() -> Flow[dict[str, Any]]:
        yield from ()
        raise GraphInterrupt

    with pytest.raises(GraphInterrupt):
        CALLER.run(careful_of("tell", "tell").hook("hook", interrupts()))


def test_a_session_whose_start_failed_answers_and_starts_with_the_next_message(
    url: str, ready: TieredStore
) -> None:
    MemoryHooks(MemoryCoordinator(ready, context=ACME)).on_user_prompt_submit(BRANCHES)
    graph = hooked(ready, checkpointer=InMemorySaver())
    with psycopg.connect(url) as conn:
        conn.execute("ALTER TABLE memory.intentions RENAME TO elsewhere")
    try:
        first = graph.invoke(said("Good morning, Anna here"), THREAD, context=ACME)
    finally:
        with psycopg.connect(url) as conn:
            conn.execute("ALTER TABLE memory.elsewhere RENAME TO intentions")
    second = graph.invoke(said("The port is 8443.", 2), THREAD, context=ACME)

    assert "Error" in first["hooks"]["session_start"]["error"]
    assert first["reminders_text"] == ""
    assert first["messages"][-1].text == "Noted: Good morning, Anna here"
    assert [one["content"] for one in second["reminders"]] == [BRANCHES]
    assert second["hooks"]["session_start"]["pending"] == []


def test_a_mistake_is_raised_before_anything_runs() -> None:
    with pytest.raises(InvalidInputError, match="on_error is 'tell' or 'raise'"):
        create_user_prompt_node(on_error="ignore")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="prompt is a key of the state"):
        create_user_prompt_node(prompt=3)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="tasks is a key of the state"):
        create_completed_task_node(tasks=None)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="ended is a key of the state"):
        create_session_end_node(ended=None)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="limit is -1"):
        MemoryHooksMiddleware(limit=-1)


@tool
def make_key(kind: str) -> str:
    """Make a key."""
    return f"a new {kind} key"


def todos(**statuses: str) -> list[dict[str, str]]:
    return [{"content": name, "status": status} for name, status in statuses.items()]


def working_agent(store: TieredStore, *beside: Any, checkpointer: Any = None) -> tuple[Any, Any]:
    """An agent that does one todo, and its model."""
    model = scripted(
        calls("write_todos", todos=todos(Rotate="in_progress")),
        calls("make_key", kind="ed25519"),
        calls("write_todos", todos=todos(Rotate="completed")),
        "The keys are rotated.",
    )
    agent = agent_on(
        store,
        model,
        TodoListMiddleware(),
        *beside,
        MemoryHooksMiddleware(),
        tools=[make_key],
        checkpointer=checkpointer,
    )
    return agent, model


@pytest.mark.parametrize(
    ("opened", "how", "beside"),
    [(*way, beside) for way, beside in zip(WAYS, (False, True, True), strict=True)],
)
async def test_an_agent_remembers_what_it_is_told_and_what_it_has_done(
    url: str, clock: Clock, opened: Opened, how: How, *, beside: bool
) -> None:
    store = TieredStore(url, index=text_index(), clock=clock)
    async with opened_store(store, opened):
        await MemoryHooks(MemoryCoordinator(store, context=ACME)).aon_user_prompt_submit(BRANCHES)
        agent, model = working_agent(store, *((TurnMiddleware(),) if beside else ()))
        state = await run(agent, how, said(RENEW), config=THREAD, context=ACME)
        memory = MemoryCoordinator(store, context=ACME)
        (flow,) = await memory.aget_context("Rotate", memory_types=["procedural"])
        again = await run(agent, how, said(RENEW), config=THREAD, context=ACME)

    assert state["messages"][-1].text == "The keys are rotated."
    system = next(one for one in model.seen[0] if isinstance(one, SystemMessage))
    assert BRANCHES in system.text
    assert how == "astream" or "reminders_text" not in state  # streams show all of a state
    assert state["hooks"]["user_prompt"]["intended"]["stored"]
    assert flow.content == 'Rotate: 1. make_key({"kind": "ed25519"})'
    assert flow.metadata == {"task_type": None, "success": True, "duration_minutes": 0.0}
    intended = [one["hooks"]["user_prompt"]["intended"] for one in (state, again)]
    assert intended[0]["key"] == intended[1]["key"]
    kinds = types(url)
    assert {name: kinds[name] for name in ("working", "prospective", "procedural")} == {
        "working": 2, "prospective": 2, "procedural": 1,
    }  # fmt: skip
    assert (kinds.get("episodic", 0) > 0) is beside


def test_what_is_due_is_shown_in_the_turn_whose_message_shows_its_cue(
    ready: TieredStore, clock: Clock
) -> None:
    model = scripted("Noted.", "Ask her.", "Yes.")
    agent = agent_on(ready, model, MemoryHooksMiddleware(), checkpointer=InMemorySaver())
    asked = "When Anna mentions the budget, I need to ask her for the figures"
    for number, text in enumerate((asked, "Anna asked about the budget", "Well then, go on"), 1):
        agent.invoke(said(text, number), THREAD, context=ACME)
        clock.now += timedelta(minutes=1)

    shown = ["figures" in "".join(str(one.text) for one in seen if one.type == "system")
             for seen in model.seen]  # fmt: skip
    assert shown == [False, True, False]
