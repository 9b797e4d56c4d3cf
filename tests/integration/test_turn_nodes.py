"""A turn in a graph and in an agent: from its context to its commit, whatever is retried."""

from __future__ import annotations

from typing import Any

import pytest
from langchain.agents.middleware import TodoListMiddleware
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import interrupt

from langmem_tiers import (
    Budget,
    MemoryContext,
    MemoryCoordinator,
    MemoryOrchestrator,
    MemoryState,
    OrchestratorSettings,
    TieredStore,
    ToolClock,
    create_assemble_node,
    create_commit_node,
    create_search_memory_tool,
    create_tool_tracking_node,
)
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.turn.trace import TurnTrace
from tests.support.agents import How, Way, agent_between, calls, run, scripted
from tests.support.graphs import ACME, QUICK, add, call, fails_once_after
from tests.support.opening import tables

ASKED: dict[str, Any] = {"messages": [HumanMessage("Add up the invoices", id="m1")]}
MONDAY = "Invoices leave on Mondays"
THREAD: Any = {"configurable": {"thread_id": "t"}}
ANSWER = "Both invoices were added up."


@pytest.fixture
def ready(store: TieredStore) -> TieredStore:
    MemoryCoordinator(store, context=ACME).store(MONDAY, memory_type="semantic")
    return store


def model(state: MemoryState) -> dict[str, Any]:
    """Calls a tool wrongly, then rightly, then answers."""
    number = sum(one.type == "ai" for one in state["messages"])
    asked = [
        call("add", 1, amount="1,234", currency="EUR"),
        call("add", 2, amount="1234", currency="EUR"),
        AIMessage(ANSWER),
    ]
    return {"messages": [asked[min(number, 2)]]}


def turn_graph(store: TieredStore, *, lost: bool = False) -> Any:
    """Assemble, then a model and its tools in a loop, then commit."""
    clock = ToolClock()
    tools = ToolNode(
        [add],
        handle_tool_errors=True,
        wrap_tool_call=clock.wrap_tool_call,
        awrap_tool_call=clock.awrap_tool_call,
    )
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(MemoryState, context_schema=MemoryContext)
    builder.add_node("assemble", create_assemble_node())
    builder.add_node("model", model)
    builder.add_node("tools", tools)
    builder.add_node("track", create_tool_tracking_node())
    commit = create_commit_node(memorize=lambda state: [state["messages"][-1].text])
    wrapped = fails_once_after(commit) if lost else commit
    builder.add_node("commit", wrapped, retry_policy=QUICK)
    for before, after in ((START, "assemble"), ("assemble", "model"), ("tools", "track")):
        builder.add_edge(before, after)
    builder.add_edge("track", "model")
    builder.add_conditional_edges(
        "model", lambda state: "tools" if state["messages"][-1].tool_calls else "commit"
    )
    return builder.compile(store=store)


async def test_a_graph_goes_through_a_turn_however_it_is_run(way: Way) -> None:
    await MemoryCoordinator(way.store, context=ACME).astore(MONDAY, memory_type="semantic")
    state = await way(turn_graph(way.store), ASKED, context=ACME)

    assert MONDAY in state["context"]
    assert state["turn"] is None
    assert state["committed"]["summary"] == {
        "episodic": 3,
        "semantic": 2,
        "tool calls": 2,
        "lessons": 1,
        "skills": 0,
        "goals": 0,
        "refused": 0,
        "quarantined": 0,
    }


def test_each_tool_call_is_kept_with_how_long_it_took(ready: TieredStore) -> None:
    state = turn_graph(ready).invoke(ASKED, context=ACME)

    told = [one["tool_call"] for one in kept(ready, state) if "tool_call" in one]
    assert [(one["parameters"], one["error"] is None) for one in told] == [
        ({"amount": "1,234", "currency": "EUR"}, False),
        ({"amount": "1234", "currency": "EUR"}, True),
    ]
    assert {one["seconds"] for one in told} == {0.0}  # the clock stands still


def test_a_commit_whose_answer_got_lost_is_done_once(url: str, ready: TieredStore) -> None:
    turn_graph(ready, lost=True).invoke(ASKED, context=ACME)

    kinds = [row[0].split(",")[3] for row in tables(url)["events"]]
    assert kinds.count("committed") == 1
    assert kinds.count("tracked") == 2


def chain(store: TieredStore, checkpointer: Any = None, **nodes: Any) -> Any:
    """These nodes, one after the other."""
    builder: Any = StateGraph(MemoryState, context_schema=MemoryContext)
    builder.add_sequence(list(nodes.items())).set_entry_point(next(iter(nodes)))
    return builder.compile(store=store, checkpointer=checkpointer)


def history(store: TieredStore, turn: str) -> TurnTrace:
    return MemoryOrchestrator(MemoryCoordinator(store, context=ACME)).history(turn)


def test_a_new_message_leaves_a_turn_that_was_not_committed(url: str, ready: TieredStore) -> None:
    graph = chain(ready, InMemorySaver(), assemble=create_assemble_node())

    first = graph.invoke(ASKED, THREAD, context=ACME)["turn"]
    again = graph.invoke({"messages": []}, THREAD, context=ACME)["turn"]
    second = graph.invoke({"messages": [HumanMessage("And now?")]}, THREAD, context=ACME)["turn"]

    assert (again["turn"], again["spent"]) == (first["turn"], 2)
    assert second["turn"] != first["turn"]
    kinds = [row[0].split(",")[3] for row in tables(url)["events"]]
    assert kinds == ["assembled", "assembled", "abandoned"]


@pytest.mark.parametrize("node", [create_tool_tracking_node(), create_commit_node()])
def test_a_node_without_a_turn_says_what_is_missing(ready: TieredStore, node: Any) -> None:
    with pytest.raises(InvalidInputError, match="put the assemble node before this one"):
        chain(ready, node=node).invoke(ASKED, context=ACME)


@tool
def look(place: str) -> str:
    """Look at a place."""
    return f"{place}: nothing to see"


def looking(store: TieredStore, model: Any, **options: Any) -> Any:
    """An agent that looks at places, between the nodes of a turn."""
    before = {"assemble": create_assemble_node(show_messages=False)}
    commit = create_commit_node(memorize=lambda state: state["messages"][-1].text)
    after = {"track": create_tool_tracking_node(), "commit": commit}
    return agent_between(store, model, before, after, **{"tools": [look], **options})


async def test_an_agent_in_a_turn_is_shown_its_context_and_keeps_every_tool_call(way: Way) -> None:
    scripted_model = scripted(calls("look", place="vault"), "It is empty", "On Mondays.")
    memory = MemoryCoordinator(way.store, context=ACME)
    await memory.astore(MONDAY, memory_type="semantic")
    agent = looking(way.store, scripted_model, checkpointer=InMemorySaver())
    state = await way(agent, ASKED, config=THREAD, context=ACME)
    found = await memory.aget_context("look at the vault", memory_types=["episodic"])
    again: Any = {"messages": [HumanMessage("When do invoices leave?")]}
    await way(agent, again, config=THREAD, context=ACME)

    system = scripted_model.seen[0][0]
    assert isinstance(system, SystemMessage)
    assert system.text.startswith("## Semantic Memory\n<memories>")
    assert scripted_model.seen[1][0].text == system.text
    assert state["committed"]["summary"]["tool calls"] == 1
    traced = next(one for one in found if "tool_call" in one.value)
    assert traced.value["tool_call"]["result"] == "vault: nothing to see"
    texts = [one.text for one in scripted_model.seen[-1]]
    assert MONDAY in texts[0]
    assert sum(text.count("Add up the invoices") for text in texts) == 1  # among the messages


@pytest.mark.parametrize("how", ["invoke", "ainvoke"])
async def test_an_agent_that_fails_goes_on_with_its_turn_when_it_is_resumed(
    url: str, ready: TieredStore, how: How
) -> None:
    away = [True]

    @tool
    def flaky(place: str) -> str:
        """Fail once."""
        if away.pop() if away else False:
            raise ConnectionError(place)
        return f"{place}: nothing to see"

    model, saver = scripted(calls("flaky", place="vault"), "It is empty"), InMemorySaver()
    agent = looking(ready, model, tools=[flaky], checkpointer=saver)
    before = tables(url)
    with pytest.raises(ConnectionError):
        await run(agent, how, ASKED, config=THREAD, context=ACME)
    after = tables(url)
    turn = agent.get_state(THREAD).values["turn"]["turn"]
    state = await run(agent, how, None, config=THREAD, context=ACME)

    assert after == before
    assert state["committed"]["turn"] == turn
    assert state["committed"]["summary"]["tool calls"] == 1


@pytest.mark.parametrize("name", ["", "lo\0ok", "look" * 200])
def test_an_agent_whose_model_calls_a_name_that_no_tool_has_answers_and_commits(
    ready: TieredStore, name: str
) -> None:
    model = scripted(call(name, place="vault"), "It is empty")
    agent = looking(ready, model)

    state = agent.invoke(ASKED, context=ACME)

    assert state["messages"][-1].text == "It is empty"
    trace = history(ready, state["committed"]["turn"])
    told = [*trace.of_kind("tracked"), *trace.of_kind("refused")]
    assert any("call-1" in str(one.detail) or "tool" in one.detail for one in told)
    assert state["committed"]["summary"]["tool calls"] == (1 if name else 0)


def kept(store: TieredStore, state: Any) -> list[dict[str, Any]]:
    """What a turn kept of what happened."""
    found = [
        MemoryCoordinator(store, context=ACME).get(key) for key in state["committed"]["episodic"]
    ]
    return [dict(one.value) for one in found if one]


def test_calls_by_which_an_agent_keeps_its_tasks_and_memory_are_not_tracked(
    ready: TieredStore,
) -> None:
    todos = [{"content": "Look at the vault", "status": "completed"}]
    model = scripted(
        calls("write_todos", todos=todos),
        calls("search_memory", query="invoices"),
        calls("look", place="vault"),
        "It is empty",
    )
    tools = [look, create_search_memory_tool(("acme",))]

    agent = looking(ready, model, tools=tools, middleware=[TodoListMiddleware()])
    state = agent.invoke(ASKED, context=ACME)

    assert state["todos"] == todos
    stored = kept(ready, state)
    assert [one["tool_call"]["tool"] for one in stored if "tool_call" in one] == ["look"]
    assert "write_todos" not in str(stored)


def test_which_tools_are_not_tracked_is_a_setting(ready: TieredStore) -> None:
    settings = OrchestratorSettings(untracked_tools=["look"])
    memory = MemoryCoordinator(ready, context=ACME)
    with MemoryOrchestrator(memory, settings=settings) as turn:
        out = turn.track_tool_invocation("look", {"place": "vault"}, result="empty")
        assert turn.track_tool_invocation("write_todos", {"todos": []}, result="done").tracked
        assert turn.commit().summary["tool calls"] == 1

    assert (out.tracked, out.key) == (False, None)
    assert out.reason == "look is among the settings' untracked_tools"


def test_an_interrupted_agents_turn_leaves_its_trace_when_another_message_comes(
    ready: TieredStore,
) -> None:
    @tool
    def confirm(place: str) -> str:
        """Ask a person."""
        return str(interrupt(place))

    model, saver = scripted(calls("confirm", place="vault"), "It is empty"), InMemorySaver()
    agent = looking(ready, model, tools=[confirm], checkpointer=saver)
    agent.invoke(ASKED, THREAD, context=ACME)
    turn = agent.get_state(THREAD).values["turn"]["turn"]

    state = agent.invoke({"messages": [HumanMessage("And now?")]}, THREAD, context=ACME)

    left = history(ready, turn)
    assert [one.kind for one in left.events] == ["assembled", "abandoned"]
    assert left.events[-1].reasons == ("another message came",)
    assert state["committed"]["turn"] != turn


def test_where_there_is_no_budget_for_a_context_it_is_empty_and_the_answer_comes(
    ready: TieredStore,
) -> None:
    none = Budget(events=0)
    graph = chain(
        ready,
        assemble=create_assemble_node(budget=none),
        model=lambda state: {"messages": [AIMessage(ANSWER + state["context"])]},
        commit=create_commit_node(budget=none),
    )

    state = graph.invoke(ASKED, context=ACME)

    assert state["messages"][-1].text == ANSWER
    trace = history(ready, state["committed"]["turn"])
    assert trace.of_kind("refused")[0].detail == {"what": "assemble a context", "times": 1}


def test_an_option_that_no_turn_has_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="no option 'buget': did you mean 'budget'"):
        create_commit_node(buget=Budget())  # type: ignore[call-arg]
