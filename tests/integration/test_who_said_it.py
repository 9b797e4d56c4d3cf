"""The speaker of a human message: a person, by name, or an agent that wrote it to another."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import pytest
from langchain.tools import InjectedToolCallId
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import MessagesState, StateGraph
from langgraph.types import Command
from typing_extensions import TypedDict

from langmem_tiers import (
    MemoryContext,
    MemoryCoordinator,
    TieredMemoryMiddleware,
    TieredStore,
    create_assemble_node,
    create_manage_memory_tool,
    create_remember_node,
    create_user_prompt_node,
)
from langmem_tiers.graph.recall import MemoryState
from langmem_tiers.graph.reminders import HookState
from tests.integration.test_revising import JOKE, TWIN, judge
from tests.integration.test_revising import remembering as noting
from tests.support.agents import Way, agent_on, calls, scripted
from tests.support.graphs import ACME

FIFTEEN = "Our production database is Postgres 15."
SIXTEEN = "No, sorry, it's Postgres 16."
ASKED = "Which lakes are near our office in Turin?"
PAGE = "The lakes near Turin are Avigliana and Candia."
PERSONS, AGENTS, AFTER_A_PAGE = ("user", "user", 1.0), ("assistant", "agent", 0.8), 0.6
FINDS = ("retract", "Otto", 0.9, "")


@tool
def fetch(url: str) -> str:
    """Fetch a page."""
    return PAGE if url else ""


def remembering(store: TieredStore, *says: Any, **own: Any) -> Any:
    """Make an agent with a memory of its own, and tools."""
    tools = own.pop("tools", ())
    saver = own.pop("checkpointer", None)
    middleware = TieredMemoryMiddleware(recall=False, **own)
    return agent_on(store, scripted(*says), middleware, tools=tools, checkpointer=saver)


def delegating(agent: Any) -> Any:
    """Make a tool by which a model gives an agent a task."""

    @tool
    async def delegate(task: str) -> str:
        """Give a task to a helper."""
        asked = {"messages": [{"role": "user", "content": task}]}
        return str((await agent.ainvoke(asked, context=ACME))["messages"][-1].text)

    def waiting(task: str) -> str:
        asked = {"messages": [{"role": "user", "content": task}]}
        return str(agent.invoke(asked, context=ACME)["messages"][-1].text)

    delegate.func = waiting
    return delegate


async def told(store: TieredStore, **options: Any) -> dict[str, tuple[Any, str, float]]:
    """Return the speaker, the source and the trust of each memory, by its content."""
    memory = MemoryCoordinator(store, context=replace(ACME, session_id="t"))
    found = await memory.aget_context("", limit=100, min_match=0, **options)
    assert len({one.content for one in found}) == len(found)
    return {
        one.content: (one.speaker, one.value.get("source", "user"), one.value.get("trust", 1.0))
        for one in found
    }


def person(text: str = ASKED, **own: Any) -> dict[str, Any]:
    return {"messages": [HumanMessage(text, **own)]}


def thread(name: str = "t") -> Any:
    return {"configurable": {"thread_id": name}}


@pytest.mark.parametrize("around", [True, False], ids=["remembers", "remembers nothing"])
async def test_a_task_that_a_model_writes_is_an_agents_and_takes_nothing_back(
    way: Way, *, around: bool
) -> None:
    memory = MemoryCoordinator(way.store, context=ACME)
    await memory.astore(FIFTEEN, speaker="user")
    helper = remembering(way.store, "Noted, version 16 from now on.")
    says = scripted(calls("delegate", task=SIXTEEN), "I have told the helper.")
    middleware = [TieredMemoryMiddleware(recall=False)] if around else []
    outer = agent_on(way.store, says, *middleware, tools=[delegating(helper)])
    await way(outer, person(), context=ACME)

    found = await told(way.store)
    assert found[FIFTEEN] == PERSONS
    assert found[SIXTEEN] == AGENTS
    assert found["Noted, version 16 from now on."] == AGENTS
    assert found.get(ASKED) == (PERSONS if around else None)


@pytest.mark.parametrize("around", [True, False], ids=["remembers", "remembers nothing"])
async def test_a_task_is_trusted_no_further_than_the_turn_that_wrote_it(
    way: Way, *, around: bool
) -> None:
    manage = create_manage_memory_tool(("{langgraph_user_id}", "notes"))
    keeps = calls("manage_memory", content="Avigliana is near Turin", action="create")
    helper = remembering(way.store, keeps, "Two lakes lie there.", tools=[manage])
    says = scripted(calls("fetch", url="lakes"), calls("delegate", task=PAGE), "Two of them.")
    middleware = [TieredMemoryMiddleware(recall=False)] if around else []
    outer = agent_on(way.store, says, *middleware, tools=[fetch, delegating(helper)])
    await way(outer, person(), config={"configurable": {"langgraph_user_id": "u"}}, context=ACME)

    found = await told(way.store)
    assert found[PAGE] == ("assistant", "agent", AFTER_A_PAGE)
    assert found["Two lakes lie there."] == ("assistant", "agent", AFTER_A_PAGE)
    (note,) = await way.store.asearch(("u", "notes"))
    assert note.value["trust"] == AFTER_A_PAGE


async def test_what_a_supervisor_hands_on_of_the_user_stays_the_users(way: Way) -> None:
    def supervise(_: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage("", name="supervisor")]}

    builder: Any = StateGraph(MessagesState, context_schema=MemoryContext)
    builder.add_node("supervisor", supervise)
    builder.add_node("helper", remembering(way.store, "Two lakes."))
    builder.add_edge("supervisor", "helper")
    builder.set_entry_point("supervisor")
    await way(builder.compile(store=way.store), person(), context=ACME)

    assert await told(way.store) == {ASKED: PERSONS, "Two lakes.": AGENTS}


async def test_what_is_handed_off_of_the_user_stays_the_users_and_is_stored_once(way: Way) -> None:
    @tool
    def transfer(call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        """Hand over to the helper."""
        done = ToolMessage("Handed over.", name="transfer", tool_call_id=call_id)
        return Command(goto="helper", graph=Command.PARENT, update={"messages": [done]})

    front = remembering(way.store, calls("transfer"), tools=[transfer])
    builder: Any = StateGraph(MessagesState, context_schema=MemoryContext)
    builder.add_node("front", front)
    builder.add_node("helper", remembering(way.store, "Two lakes."))
    builder.set_entry_point("front")
    await way(builder.compile(store=way.store), person(), context=ACME)

    found = await told(way.store)
    assert found[ASKED] == PERSONS
    assert found.keys() == {ASKED, "Two lakes."}


class Conversation(TypedDict):
    """A state that keeps its messages under a name of its own."""

    conversation: list[Any]


async def test_what_a_graph_keeps_under_another_key_stays_the_users(way: Way) -> None:
    helper = remembering(way.store, "Two lakes.")

    async def asks(state: Conversation) -> dict[str, Any]:
        done = await helper.ainvoke({"messages": state["conversation"]}, context=ACME)
        return {"conversation": done["messages"]}

    def waits(state: Conversation) -> dict[str, Any]:
        done = helper.invoke({"messages": state["conversation"]}, context=ACME)
        return {"conversation": done["messages"]}

    builder: Any = StateGraph(Conversation, context_schema=MemoryContext)
    builder.add_node("helper", waits if way.how == "invoke" else asks)
    builder.set_entry_point("helper")
    asked = {"conversation": [HumanMessage(ASKED)]}
    await way(builder.compile(store=way.store), asked, context=ACME)

    assert (await told(way.store))[ASKED] == PERSONS


@pytest.mark.parametrize("saver", [True, False], ids=["with a checkpointer", "without"])
async def test_two_graphs_deep_it_is_the_users_where_a_checkpointer_tells(
    way: Way, *, saver: bool
) -> None:
    team: Any = StateGraph(MessagesState, context_schema=MemoryContext)
    team.add_node("helper", remembering(way.store, "Two lakes."))
    team.set_entry_point("helper")
    root: Any = StateGraph(MessagesState, context_schema=MemoryContext)
    root.add_node("begin", lambda _: {"messages": []})
    root.add_node("team", team.compile())
    root.add_edge("begin", "team")
    root.set_entry_point("begin")
    graph = root.compile(store=way.store, checkpointer=InMemorySaver() if saver else None)
    await way(graph, person(), config=thread(), context=ACME)

    found = await told(way.store)
    assert found[ASKED] == (PERSONS if saver else ("assistant", "agent", AFTER_A_PAGE))


async def test_what_a_node_signs_with_its_name_is_no_persons_and_what_ada_signs_is_hers(
    way: Way,
) -> None:
    def searched(_: MessagesState) -> dict[str, Any]:
        return {"messages": [HumanMessage(PAGE, name="search")]}

    builder: Any = StateGraph(MessagesState, context_schema=MemoryContext)
    builder.add_node("search", searched)
    builder.add_node("helper", remembering(way.store, "Two lakes."))
    builder.add_edge("search", "helper")
    builder.set_entry_point("search")
    await way(builder.compile(store=way.store), person(name="ada"), context=ACME)

    found = await told(way.store)
    assert found[ASKED] == ("ada", "user", 1.0)
    assert found[PAGE][:2] == ("search", "agent")


async def test_a_person_whose_message_bears_an_assistants_name_is_the_user(way: Way) -> None:
    made = agent_on(way.store, scripted("Noted."), TieredMemoryMiddleware())
    await way(made, person(name="Assistant"), context=ACME)
    assert (await told(way.store))[ASKED] == ("user", "user", 1.0)


async def test_two_people_of_one_thread_are_told_apart_and_each_takes_back_their_own(
    way: Way,
) -> None:
    graph = noting(way.store, judge(FINDS))
    revised = []
    for number, (name, text) in enumerate((("ada", TWIN), ("ben", JOKE), ("ada", JOKE))):
        says = AIMessage(f"Good, {number}.", id=f"a{number}")
        asks = [HumanMessage(text, name=name, id=f"h{number}"), says]
        state = await way(graph, {"messages": asks}, config=thread(), context=ACME)
        revised.append(len(state["revised"]))
        if name == "ben":
            assert (await told(way.store))[TWIN] == ("ada", "user", 1.0)

    assert revised == [0, 0, 1]
    memory = MemoryCoordinator(way.store, context=ACME)
    assert TWIN not in {one.content for one in await memory.aget_context("", limit=50)}


async def test_what_a_tool_puts_among_the_messages_in_a_humans_place_is_no_persons(
    way: Way,
) -> None:
    @tool
    def look(call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
        """Look at a page."""
        seen = [ToolMessage("See below.", tool_call_id=call_id), HumanMessage(PAGE)]
        return Command(update={"messages": seen})

    saver = InMemorySaver()
    agent = remembering(
        way.store, calls("look"), "Two lakes.", "Yes, both.", tools=[look], checkpointer=saver
    )
    await way(agent, person(), config=thread(), context=ACME)
    await way(agent, person("Can one swim in both lakes?"), config=thread(), context=ACME)

    found = await told(way.store)
    assert found == {
        ASKED: PERSONS,
        "Two lakes.": ("assistant", "agent", AFTER_A_PAGE),
        "Can one swim in both lakes?": PERSONS,
        "Yes, both.": AGENTS,
    }


@pytest.mark.parametrize("saver", [True, False], ids=["with a checkpointer", "without"])
async def test_nodes_of_a_graph_within_a_graph_go_by_the_same_rule(
    way: Way, *, saver: bool
) -> None:
    inner: Any = StateGraph(HookState, context_schema=MemoryContext)
    inner.add_node("prompt", create_user_prompt_node())
    inner.add_node("respond", lambda _: {"messages": [AIMessage("Two lakes.")]})
    inner.add_node("remember", create_remember_node())
    inner.add_edge("prompt", "respond")
    inner.add_edge("respond", "remember")
    inner.set_entry_point("prompt")
    root: Any = StateGraph(HookState, context_schema=MemoryContext)
    root.add_node("begin", lambda _: {"messages": []})
    root.add_node("inner", inner.compile())
    root.add_edge("begin", "inner")
    root.set_entry_point("begin")
    graph = root.compile(store=way.store, checkpointer=InMemorySaver() if saver else None)
    await way(graph, person(name="ada"), config=thread(), context=ACME)

    said = {"memory_types": ["episodic"]}
    kept = {"memory_types": ["working"]}
    whose = ("ada", "user", 1.0) if saver else ("ada", "agent", AFTER_A_PAGE)
    assert (await told(way.store, **said))[ASKED] == whose
    assert await told(way.store, **kept) == ({ASKED: whose} if saver else {})


async def test_the_context_of_a_turn_tells_the_people_of_its_conversation_apart(way: Way) -> None:
    builder: Any = StateGraph(MemoryState, context_schema=MemoryContext)
    builder.add_node("assemble", create_assemble_node())
    builder.set_entry_point("assemble")
    said = [
        HumanMessage("I live in Turin.", name="ada"),
        HumanMessage("I live in Genoa.", name="ben"),
        AIMessage("Both are near the sea, more or less."),
        HumanMessage(ASKED, name="ada"),
    ]
    graph = builder.compile(store=way.store)
    context = (await way(graph, {"messages": said}, context=ACME))["context"]
    lines = {one.strip("- ") for one in str(context).splitlines()}
    assert {"ada: I live in Turin.", "ben: I live in Genoa."} <= lines
    assert f"ada: {ASKED}" not in lines
