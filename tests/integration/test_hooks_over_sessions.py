"""Hooks over several sessions: what is said again, what is intended twice, and what is over."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages

from langmem_tiers import (
    ConfigurationError,
    InvalidInputError,
    MemoryContext,
    MemoryCoordinator,
    MemoryHooks,
    MemoryHooksMiddleware,
    TieredStore,
    TurnMiddleware,
    create_complete_reminder_tool,
    create_completed_task_node,
    create_session_end_node,
    create_session_start_node,
    create_user_prompt_node,
)
from tests.support.agents import WAYS, How, agent_on, calls, run, scripted
from tests.support.opening import Clock, Opened, opened_store, tables, text_index

ACME = MemoryContext(tenant="acme", project_id="billing")
SORT = "I need to sort a list of dicts by two keys."
CERTIFICATE = "I need to renew the certificate tomorrow."


@pytest.fixture
def memory(ready: TieredStore) -> MemoryCoordinator:
    return MemoryCoordinator(ready, context=ACME)


def thread(name: str) -> Any:
    return {"configurable": {"thread_id": name}}


def said(text: str) -> Any:
    return {"messages": [HumanMessage(text, id="m1")]}


def agent_of(store: TieredStore, model: Any, *middleware: Any, tools: Any = ()) -> Any:
    return agent_on(store, model, *middleware, tools=list(tools), checkpointer=InMemorySaver())


def test_what_a_user_says_in_each_thread_is_evidence_and_the_assistants_echo_is_not(
    ready: TieredStore, memory: MemoryCoordinator
) -> None:
    text = "Deployments need two approvals."
    kept = []
    for number, answer in enumerate(("I see, so Ben and Carla.", text, text)):
        agent = agent_of(ready, scripted(answer), TurnMiddleware())
        asked = f"As I said: {text}" if number else text
        state = agent.invoke(said(asked), thread(str(number)), context=ACME)
        kept.append(len(state["committed"]["episodic"]))
    found = memory.get_context("approvals", limit=10)
    assert sorted(one.value["speaker"] for one in found if text in one.content) == ["user"] * 3
    assert kept == [2, 1, 1]


def test_what_a_user_states_in_general_is_kept_at_the_sessions_end_and_the_rest_says_why_not(
    ready: TieredStore,
) -> None:
    told = (
        "I prefer short answers.",
        "I am allergic to peanuts.",
        "We always release on Tuesdays.",
        "Our staging database is on host db7.",
    )
    chat = MemoryContext(tenant="acme", project_id="billing", session_id="chat")
    memory = MemoryCoordinator(ready, context=chat)
    hooks = MemoryHooks(memory)
    for one in (*told, "Can you help me with that?", "I guess it may rain.", "Write me a haiku."):
        hooks.on_user_prompt_submit(one)
    memory.store("Nova prefers long answers", "working", source="agent")
    stop = hooks.on_session_stop()

    kept = [memory.get(key) for key in stop.report.semantic]
    assert {one.content for one in kept if one} == {*told}
    assert stop.report.not_kept == {
        "it asks": 1,
        "it is not the user's": 1,
        "it states nothing that lasts": 2,
    }


class Bare(TypedDict):
    """A state that knows nothing of hooks."""

    messages: Annotated[list[AnyMessage], add_messages]


@pytest.mark.parametrize(
    ("node", "missing"),
    [
        (create_session_start_node(), "'hooks' and no key 'reminders'"),
        (create_user_prompt_node(), "'hooks'"),
        (create_completed_task_node(), "'hooks' and no key 'todos_seen'"),
        (create_session_end_node(), "'session' and no key 'session_ended'"),
        (create_session_end_node(ended=lambda _: True), "'session'"),
    ],
)
def test_a_state_without_the_keys_of_a_hook_is_refused_before_anything_is_delivered(
    url: str, ready: TieredStore, memory: MemoryCoordinator, node: Any, missing: str
) -> None:
    memory.intend("Call the bank")
    before = tables(url)
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(Bare, context_schema=MemoryContext)
    builder.add_node("hook", node)
    builder.add_edge(START, "hook")
    graph = builder.compile(store=ready)
    with pytest.raises(ConfigurationError, match=missing):
        graph.invoke(said("Good morning, Anna here"), context=ACME)
    assert tables(url) == before


@tool
def deploy(version: str) -> str:
    """Deploy a version."""
    return f"deployed {version}"


@pytest.mark.parametrize(("opened", "how"), WAYS)
async def test_an_agents_call_is_held_by_what_is_intended_before_it_once(
    url: str, clock: Clock, opened: Opened, how: How
) -> None:
    store = TieredStore(url, index=text_index(), clock=clock)
    async with opened_store(store, opened):
        hooks = MemoryHooksMiddleware(before_tools=["deploy"])
        model = scripted("Noted.", calls("deploy", version="v1"), calls("deploy", version="v1"),
                         "Done.")  # fmt: skip
        agent = agent_of(store, model, hooks, tools=[deploy])
        asked = said("I need to tell the team before you deploy")
        await run(agent, how, asked, config=thread("a"), context=ACME)
        state = await run(agent, how, said("Go on with version one then"), config=thread("b"),
                          context=ACME)  # fmt: skip
    held, ran = [one for one in state["messages"] if isinstance(one, ToolMessage)]
    assert "tell the team" in held.text
    assert ran.text == "deployed v1"


def test_what_names_no_occasion_expires_and_is_not_listed_for_ever(
    ready: TieredStore, memory: MemoryCoordinator, clock: Clock
) -> None:
    hooks = MemoryHooks(memory)
    hooks.on_user_prompt_submit(SORT)
    hooks.on_user_prompt_submit("I plan to learn Rust later")
    MemoryHooks(memory, expire_days=None).on_user_prompt_submit("Clean up the branches later")
    assert len(hooks.on_session_start().reminders) == 3
    clock.advance(days=6)
    assert len(hooks.on_session_start().pending) == 3
    clock.advance(days=2)
    start = MemoryHooks(MemoryCoordinator(ready, context=ACME)).on_session_start()
    assert [one.content for one in start.pending] == ["Clean up the branches later"]


def test_what_is_intended_already_is_not_intended_again_until_it_is_closed(
    memory: MemoryCoordinator,
) -> None:
    hooks = MemoryHooks(memory)
    first, again = (hooks.on_user_prompt_submit(one) for one in (SORT, SORT.lower()))
    assert first.intended is not None
    assert again.intended is not None
    assert (again.intended.key, len(memory.intentions())) == (first.intended.key, 1)
    memory.complete(str(first.intended.key))
    hooks.on_user_prompt_submit(SORT)
    assert len(memory.intentions()) == 1


def test_only_the_sentence_that_intends_is_intended(memory: MemoryCoordinator) -> None:
    MemoryHooks(memory).on_user_prompt_submit(f"Version v1 is out on staging. {CERTIFICATE}")
    assert [one.content for one in memory.intentions()] == [CERTIFICATE]


def test_hooks_can_intend_nothing_but_what_they_are_asked_to(memory: MemoryCoordinator) -> None:
    hooks = MemoryHooks(memory, intends="asked")
    for text in (SORT, CERTIFICATE, "Remind me to call Ben on Friday", "TODO: rotate the keys"):
        assert hooks.on_user_prompt_submit(text).working.stored
    hooks.on_user_prompt_submit("Don't let me forget the passport")
    assert len(memory.intentions()) == 3
    with pytest.raises(InvalidInputError, match="intends is 'keywords' or 'asked'"):
        MemoryHooks(memory, intends="all")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="expire_days is -1"):
        MemoryHooksMiddleware(expire_days=-1)


@pytest.mark.parametrize(("opened", "how"), WAYS)
async def test_a_reminder_that_no_model_saw_is_raised_again(
    url: str, clock: Clock, opened: Opened, how: How
) -> None:
    store = TieredStore(url, index=text_index(), clock=clock)
    raised = []
    async with opened_store(store, opened):
        memory = MemoryCoordinator(store, context=ACME)
        await memory.aintend("Call the bank", key="bank")
        broken = agent_of(store, scripted(), MemoryHooksMiddleware())
        with pytest.raises(IndexError):
            await run(broken, how, said("Hello, Nova here"), config=thread("a"), context=ACME)
        assert [one.status for one in await memory.aintentions()] == ["leased"]
        for name in ("b", "c"):
            clock.advance(minutes=6)
            agent = agent_of(store, scripted("Fine."), MemoryHooksMiddleware())
            state = await run(
                agent, how, said("Hello, Nova here"), config=thread(name), context=ACME
            )
            raised.append(state["hooks"]["session_start"]["reminders"])
        (one,) = await memory.aintentions()
    assert raised == [["bank"], []]
    assert one.status == "delivered"


@pytest.mark.parametrize(("opened", "how"), WAYS)
async def test_a_model_closes_what_it_was_reminded_of_within_its_runs_context(
    url: str, clock: Clock, opened: Opened, how: How
) -> None:
    store = TieredStore(url, index=text_index(), clock=clock)
    async with opened_store(store, opened):
        memory = MemoryCoordinator(store, context=ACME)
        other = MemoryCoordinator(store, context=MemoryContext(tenant="umbra"))
        await memory.aintend("Call the bank", key="bank")
        await other.aintend("Call the other bank", key="other")
        model = scripted(calls("complete_reminder", key="bank"),
                         calls("complete_reminder", key="other"), "Done.")  # fmt: skip
        agent = agent_of(store, model, tools=[create_complete_reminder_tool()])
        state = await run(agent, how, said("It is done."), config=thread("a"), context=ACME)
        left = [len(await one.aintentions()) for one in (memory, other)]
    done, none = [one.text for one in state["messages"] if isinstance(one, ToolMessage)]
    assert done == "completed reminder bank"
    assert "other" in none
    assert left == [0, 1]
    assert isinstance(state["messages"][-1], AIMessage)
