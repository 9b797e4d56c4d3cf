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
    DatabaseError,
    HookState,
    InvalidInputError,
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
from langmem_tiers.graph.careful import careful_of
from langmem_tiers.graph.driven import CALLER
from langmem_tiers.postgres.flow import Flow
from tests.support.agents import WAYS, How, agent_on, calls, run, scripted
from tests.support.graphs import ACME, QUICK, fails_once_after, memories
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


@pytest.mark.parametrize(("opened", "how"), WAYS)
async def test_a_graph_remembers_from_a_sessions_start_to_its_end_however_it_is_run(
    url: str, clock: Clock, opened: Opened, how: How
) -> None:
    todo = {"content": "Rotate the API keys", "status": "completed", "task_type": "ops"}
    store = TieredStore(url, index=text_index(), clock=clock)
    async with opened_store(store, opened):
        graph = hooked(store, checkpointer=InMemorySaver())
        first = await run(graph, how, said(RENEW), config=THREAD, context=CHAT)
        second = await run(
            graph, how, {**said("Anna decided to keep sessions in Redis.", 2), "todos": [todo]},
            config=THREAD, context=CHAT,
        )  # fmt: skip
        before = types(url)
        last = await run(
            graph, how, {**said("That is all for now, Anna needs nothing else", 3),
                         "session_ended": True},
            config=THREAD, context=CHAT,
        )  # fmt: skip

    prompt = first["hooks"]["user_prompt"]
    assert (prompt["priority"], prompt["trigger"]) == ("high", "at 2026-03-02T17:00:00+00:00")
    assert first["messages"][-1].text == f"Noted: {RENEW}"
    assert [one["stored"] for one in second["hooks"]["completed_tasks"]["stored"]] == [True]
    assert before == {"working": 2, "prospective": 1, "procedural": 1}
    assert len(last["session"]["events"]) == 1
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


def test_each_todo_is_kept_once_in_a_thread_with_how_long_it_took(
    ready: TieredStore, clock: Clock
) -> None:
    graph = hooked(ready, checkpointer=InMemorySaver())
    todo = {"content": "Rotate the API keys", "status": "in_progress"}
    for number, status in enumerate(("in_progress", "completed", "completed"), 1):
        asked = {**said(f"Prompt number {number} about keys", number)}
        graph.invoke({**asked, "todos": [{**todo, "status": status}]}, THREAD, context=CHAT)
        clock.advance(minutes=20)

    (one,) = memories(ready, "procedural", CHAT)
    assert one.metadata == {"task_type": None, "success": True, "duration_minutes": 20.0}


def test_the_events_and_concepts_of_a_state_are_kept_at_its_sessions_end(
    ready: TieredStore,
) -> None:
    graph = hooked(
        ready,
        events=lambda _: [{"description": "Anna chose Redis", "type": "architecture"}],
        concepts=lambda _: [{"description": "Sessions live in Redis", "category": "storage"}],
    )
    state = graph.invoke({**said("Redis keeps sessions"), "session_ended": True}, THREAD,
                         context=ACME)  # fmt: skip

    memory = MemoryCoordinator(ready, context=ACME)
    found = [memory.get(state["session"][name][0]) for name in ("events", "concepts")]
    assert [one and one.metadata for one in found] == [
        {"decision_type": "architecture"}, {"category": "storage"},
    ]  # fmt: skip
    assert state["session"]["session_id"] == "7"  # the thread's, as the context names none


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


def test_an_error_of_a_hook_is_told_and_the_answer_is_not_lost(
    url: str, ready: TieredStore, caplog: pytest.LogCaptureFixture
) -> None:
    graph = hooked(ready)
    todo = {"content": "Rotate the API keys", "status": "completed"}
    before = tables(url)
    with refusing(url):
        state = graph.invoke({**said(RENEW, 2), "todos": [todo]}, context=CHAT)

    assert state["messages"][-1].text == f"Noted: {RENEW}"
    assert "DatabaseError" in state["hooks"]["user_prompt"]["error"]
    assert "DatabaseError" in state["hooks"]["completed_tasks"]["error"]
    assert state["todos_seen"]["noted"] == []  # it is tried again
    assert "the run goes on without its memory (user_prompt)" in caplog.text
    assert tables(url) == before


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
    assert first["messages"][-1].text == "Noted: Good morning, Anna here"
    assert [one["content"] for one in second["reminders"]] == [BRANCHES]
    assert second["hooks"]["session_start"]["pending"] == []


def test_what_a_model_says_wrongly_of_its_todos_is_told_and_the_answer_is_not_lost(
    ready: TieredStore,
) -> None:
    wrong = [{"content": " ", "status": "completed"}]
    odd = [{"content": "Rotate the\x00 \ud800 keys", "status": "completed", "id": "1"}]
    graph = hooked(ready)
    state = graph.invoke({**said("The port is 8443."), "todos": wrong}, context=CHAT)
    other = graph.invoke({**said("The port is 8443.", 2), "todos": odd}, context=CHAT)

    assert "the content of a todo is empty" in state["hooks"]["completed_tasks"]["error"]
    assert state["messages"][-1].text == "Noted: The port is 8443."
    assert other["hooks"]["completed_tasks"]["stored"][0]["stored"]


def test_an_error_of_a_hook_is_raised_where_that_is_asked_for(url: str, ready: TieredStore) -> None:
    graph = hooked(ready, user_prompt=create_user_prompt_node(on_error="raise"))
    agent = agent_on(ready, scripted("Fine."), MemoryHooksMiddleware(on_error="raise"))
    for each in (graph, agent):
        with refusing(url), pytest.raises(DatabaseError):
            each.invoke(said(RENEW), context=CHAT)


def test_an_interrupt_passes_and_what_is_not_ours_is_told_with_its_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def raises(error: Exception) -> Flow[dict[str, Any]]:
        yield from ()
        raise error

    careful = careful_of("tell", "tell")
    with pytest.raises(GraphInterrupt):
        CALLER.run(careful.hook("hook", raises(GraphInterrupt())))
    told = CALLER.run(careful.hook("hook", raises(OSError("no embeddings"))))
    assert told == {"error": "OSError: no embeddings"}
    assert caplog.records[-1].exc_info is not None


def agent_with_hooks(store: TieredStore) -> Any:
    return agent_on(store, scripted("Fine."), MemoryHooksMiddleware())


def test_a_defect_of_our_own_is_raised_and_not_told_as_something_that_was_refused(
    ready: TieredStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("langmem_tiers.memory.hooks._prompted")
    for each in (hooked(ready), agent_with_hooks(ready)):
        with pytest.raises(NameError, match="_prompted"):
            each.invoke(said(RENEW), context=CHAT)


class Broken(Embeddings):
    """An embedding model whose client is broken."""

    def embed_documents(self, _: list[str]) -> list[list[float]]:
        raise AttributeError("the answer has no 'data'")

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]


def test_whatever_an_embedding_model_raises_is_told_and_the_answer_is_not_lost(
    url: str, clock: Clock
) -> None:
    index = {**text_index(), "embed": Broken()}
    with TieredStore(url, index=index, clock=clock) as store:
        states = [
            each.invoke(said("The port is 8443."), context=CHAT)
            for each in (hooked(store), agent_with_hooks(store))
        ]
    for state in states:
        assert state["hooks"]["user_prompt"]["error"] == "AttributeError: the answer has no 'data'"
    assert [one["messages"][-1].text for one in states] == ["Noted: The port is 8443.", "Fine."]


def test_a_mistake_is_raised_before_anything_runs() -> None:
    with pytest.raises(InvalidInputError, match="on_error is 'tell' or 'raise'"):
        create_user_prompt_node(on_error="ignore")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="prompt is a key of the state"):
        create_user_prompt_node(prompt=3)  # type: ignore[arg-type]
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


def test_an_agent_answers_where_its_hooks_cannot_write(url: str, ready: TieredStore) -> None:
    agent, _ = working_agent(ready)
    with refusing(url):
        state = agent.invoke(said(RENEW), THREAD, context=ACME)

    assert state["messages"][-1].text == "The keys are rotated."
    assert "DatabaseError" in state["hooks"]["user_prompt"]["error"]
    assert "DatabaseError" in state["hooks"]["completed_tasks"]["error"]
