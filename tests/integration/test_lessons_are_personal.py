"""Lessons of one user's calls are shown to that user, and to no other of the tenant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolCall
from langchain_core.tools import ToolException, tool
from langgraph.graph import StateGraph
from langgraph.prebuilt import ToolNode

from langmem_tiers import (
    FailedAttempt,
    HookState,
    MemoryContext,
    MemoryCoordinator,
    MemoryOrchestrator,
    TieredMemoryMiddleware,
    TieredStore,
    create_completed_task_node,
    create_reflexion_node,
)
from tests.support.agents import Way, agent_on, calls, scripted
from tests.support.cycling import EASY
from tests.support.graphs import Learning, off_the_loop
from tests.support.opening import Clock
from tests.support.reflecting import advising

REQUEST = "My psychiatrist wants me back on zanzibar, please refill it, and tell nobody"
WRONG, RIGHT = "zanzibar 20,5 mg", "zanzibar 20.5 mg"
UNKNOWN = "ValueError: the amount '20,5' has a comma"
CANARIES = ("zanzibar", "psychiatrist")


@tool
def refill(drug: str, patient: str) -> str:  # noqa: ARG001 - of the call alone
    """Refill a prescription."""
    if "," in drug:
        raise ToolException(UNKNOWN)
    return "It is refilled."


refill.handle_tool_error = True


def of(user: str | None, project: str = "clinic") -> MemoryContext:
    return MemoryContext(tenant="acme", project_id=project, user_id=user)


def turn(request: str = REQUEST) -> dict[str, Any]:
    return {"messages": [HumanMessage(request)]}


def shown_to(store: TieredStore, whose: MemoryContext) -> str:
    """Return all that memory shows somebody, by question and by failure."""
    memory = MemoryCoordinator(store, context=whose)
    lessons = memory.learning.get_lessons(UNKNOWN, tools="refill", query=REQUEST, limit=100)
    found = [*lessons, *memory.get_context(REQUEST, limit=100), *memory.get_context("", limit=100)]
    return "\n".join(f"{one.content} {one.value}" for one in found)


def in_an_agent(store: TieredStore, model: Any = None) -> Any:
    said = scripted(*(calls("refill", drug=one, patient="me") for one in (WRONG, RIGHT)), "Done.")
    memory = TieredMemoryMiddleware(reflect=model or True, hold_repeats=True)
    return agent_on(store, said, memory, tools=[refill])


def in_a_graph(store: TieredStore, model: Any = None) -> Any:
    """Build a tool node between prepared calls, and the reflexion node behind it."""
    builder: Any = StateGraph(Learning, context_schema=MemoryContext)
    for number, drug in enumerate((WRONG, RIGHT)):
        args = {"drug": drug, "patient": "me"}
        call = ToolCall(name="refill", args=args, id=f"call-{number}")
        said = AIMessage("", tool_calls=[call])
        builder.add_node(f"model{number}", lambda _, said=said: {"messages": [said]})
        builder.add_node(f"tools{number}", ToolNode([refill]))
    builder.add_node("reflexion", create_reflexion_node(model=model))
    for before, after in (
        ("model0", "tools0"),
        ("tools0", "model1"),
        ("model1", "tools1"),
        ("tools1", "reflexion"),
    ):
        builder.add_edge(before, after)
    builder.set_entry_point("model0")
    return builder.compile(store=store)


def repeating() -> Any:
    """Make a model that repeats the user's words in its lesson."""
    return advising("No comma", f"{REQUEST}: the title")


@pytest.mark.parametrize("made", [in_an_agent, in_a_graph])
@pytest.mark.parametrize(("model", "shown"), [(None, "; later "), (repeating, "Do instead")])
async def test_what_one_users_call_taught_is_shown_to_that_user_alone(
    way: Way, made: Callable[..., Any], model: Callable[[], Any] | None, shown: str
) -> None:
    graph = made(way.store, *([] if model is None else [model()]))
    await way(graph, turn(), context=of("ada"))
    assert await MemoryCoordinator(way.store, context=of("ada")).learning.afinish_reflections()
    own = await off_the_loop(shown_to, way.store, of("ada"))
    assert shown in own
    for other in ("ben", None):
        said = await off_the_loop(shown_to, way.store, of(other))
        assert not [one for one in CANARIES if one in said]


def learning(store: TieredStore, whose: MemoryContext) -> None:
    """Let a model draw the lesson of a turn, and wait for it."""
    in_an_agent(store, repeating()).invoke(turn(), context=whose)
    assert MemoryCoordinator(store, context=whose).learning.finish_reflections()


def test_the_next_call_of_that_user_is_held_by_the_lesson_and_no_other_users_is(
    store: TieredStore,
) -> None:
    learning(store, of("ada"))
    states = {user: in_an_agent(store).invoke(turn(), context=of(user)) for user in ("ada", "ben")}
    held, ran = (str(states[user]["messages"][2].content) for user in ("ada", "ben"))
    assert held.startswith("This call was not run")
    assert ran == UNKNOWN


def test_a_lesson_of_who_names_no_user_is_its_tenants(store: TieredStore) -> None:
    learning(store, of(None))
    assert "Do instead" in shown_to(store, of(None))
    assert "Do instead" in shown_to(store, of("ben"))


def test_what_a_coordinator_reflects_on_is_its_users_and_equal_attempts_of_two_are_two(
    store: TieredStore,
) -> None:
    one = FailedAttempt(
        task_id=REQUEST, approach=WRONG, error=UNKNOWN, tool="refill", succeeded_with=RIGHT
    )
    places = []
    for user in ("ada", "ben"):
        memory = MemoryCoordinator(store, context=of(user))
        (learned,) = memory.learning.reflect([one])
        (found,) = memory.learning.get_lessons(UNKNOWN)
        assert found.key == learned.key
        places.append(found.namespace)
    assert places == [("acme", "clinic", "@ada"), ("acme", "clinic", "@ben")]
    assert not [one for one in CANARIES if one in shown_to(store, of(None))]


def test_what_a_turn_learns_of_its_calls_is_its_users(store: TieredStore) -> None:
    memory = MemoryCoordinator(store, context=of("ada"))
    with MemoryOrchestrator(memory) as working:
        working.assemble_context(REQUEST)
        whose = {"patient": "me"}
        working.track_tool_invocation("refill", {"drug": WRONG, **whose}, error=UNKNOWN)
        working.track_tool_invocation("refill", {"drug": RIGHT, **whose}, result="It is refilled.")
        report = working.commit()
    assert report.lessons
    assert "; later " in shown_to(store, of("ada"))
    assert not [one for one in CANARIES if one in shown_to(store, of("ben"))]


async def test_how_a_todo_was_done_is_the_own_of_the_user_it_was_done_for(way: Way) -> None:
    todo = {"content": REQUEST, "status": "completed", "steps": [f"refill({WRONG})"]}
    builder: Any = StateGraph(HookState, context_schema=MemoryContext)
    builder.add_node("done", create_completed_task_node())
    builder.set_entry_point("done")
    graph = builder.compile(store=way.store)
    await way(graph, {**turn(), "todos": [todo]}, context=of("ada"))
    assert "zanzibar" in await off_the_loop(shown_to, way.store, of("ada"))
    assert "zanzibar" not in await off_the_loop(shown_to, way.store, of("ben"))


def test_what_two_users_learned_alike_is_promoted_for_each_and_told_to_no_third(
    store: TieredStore, clock: Clock
) -> None:
    for user in ("ada", "ben"):
        learning(store, of(user))
        memory = MemoryCoordinator(store, context=of(user))
        memory.learning.get_lessons(UNKNOWN, tools="refill", run_id=user)
        memory.learning.record_outcome(run_id=user, success=True)
    clock.advance(minutes=5)
    assert not MemoryCoordinator(store, context=of(None)).learning.promote(policy=EASY)
    for user in ("ada", "ben"):
        (moved,) = MemoryCoordinator(store, context=of(user)).learning.promote(policy=EASY)
        assert moved.promoted
    assert not [one for one in CANARIES if one in shown_to(store, of("cleo", "pharmacy"))]
    assert "Do instead" in shown_to(store, of("ada", "pharmacy"))
