from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import (
    ToolMessage,
)
from langchain_core.tools import tool
from langgraph.prebuilt import ToolNode

from langmem_tiers import (
    MemoryCoordinator,
    TieredStore,
    ToolLessons,
    create_outcome_node,
    create_recall_node,
    create_reflexion_node,
)
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.graph.messages import calls_in
from tests.support.agents import Way
from tests.support.graphs import (
    ACME,
    BROKEN,
    add,
    asks,
    call,
    chain,
    learned,
    memories,
    off_the_loop,
    pay,
)

LESSON = "Do instead: add"


def tools(lessons: ToolLessons, *more: Any) -> ToolNode:
    return ToolNode(
        [add, pay, *more],
        handle_tool_errors=True,
        wrap_tool_call=lessons.wrap_tool_call,
        awrap_tool_call=lessons.awrap_tool_call,
    )


def says(number: int, name: str = "add", **arguments: Any) -> Any:
    """A node that calls a tool."""
    return lambda _: {"messages": [call(name, number, **arguments)]}


def answers(state: dict[str, Any]) -> list[ToolMessage]:
    return [one for one in state["messages"] if isinstance(one, ToolMessage)]


def counts(store: TieredStore, key: str) -> tuple[int, int, int]:
    """Accesses, successes and failures of a memory, but for the access that tells them."""
    MemoryCoordinator(store, context=ACME).stats()  # writes what was counted
    found = MemoryCoordinator(store, context=ACME).get(key)
    assert found is not None
    return found.access_count, found.success_count, found.failure_count


# Beside an error


def divided(**given: Any) -> dict[str, Any]:
    """The lesson of a division by zero."""
    return {"failure": ZeroDivisionError("division by zero"), "tool": "run_python", **given}


async def test_an_error_is_answered_with_its_lesson_however_the_graph_is_run(way: Way) -> None:
    store = way.store
    await off_the_loop(learned, store)
    graph = chain(store, tools(ToolLessons()))
    given = {"messages": [asks(), call("add", amount="5,678")]}
    state = await way(graph, given, context=ACME)

    (said,) = answers(state)
    assert said.status == "error"
    assert said.text.startswith("<recalled_memories>")
    assert said.text.index(LESSON) < said.text.index("the amount '5,678' has a comma")


def test_an_error_in_blocks_keeps_them(ready: TieredStore) -> None:
    learned(ready)
    blocks: list[Any] = [
        {"type": "text", "text": BROKEN},
        {"type": "image", "url": "https://x.example/1"},
    ]

    def broken(request: Any, _: Any) -> ToolMessage:
        return ToolMessage(blocks, tool_call_id=request.tool_call["id"], status="error")

    lessons = ToolLessons()

    def wrapped(request: Any, _: Any) -> Any:
        return lessons.wrap_tool_call(request, lambda one: broken(one, None))

    graph = chain(ready, ToolNode([add], wrap_tool_call=wrapped))
    state = graph.invoke({"messages": [asks(), call("add", amount="1,2")]}, context=ACME)
    (said,) = answers(state)
    assert said.content[1:] == blocks
    assert LESSON in said.text


# Holding a call that failed before


async def test_a_call_that_failed_before_in_this_form_is_held_once_and_then_runs(way: Way) -> None:
    store = way.store
    ran: list[str] = []

    @tool
    def pick(amount: str) -> str:
        """Pick an amount."""
        ran.append(amount)
        return f"picked {amount}"

    await off_the_loop(learned, store, tool="pick", original_approach='pick({"amount": "1,234"})')
    node = tools(ToolLessons(), pick)
    again = [says(number, "pick", amount="1,234") for number in (1, 2, 3)]
    graph = chain(store, again[0], node, again[1], node, again[2], node)
    state = await way(graph, {"messages": [asks()]}, context=ACME)

    held, *others = answers(state)
    assert held.status == "error"
    assert held.text.startswith("This call was not run")
    assert LESSON in held.text
    assert [one.text for one in others] == ["picked 1,234"] * 2
    assert ran == ["1,234"] * 2


def test_a_call_that_was_held_did_not_fail_and_teaches_nothing(ready: TieredStore) -> None:
    learned(ready)
    node = tools(ToolLessons())
    graph = chain(
        ready, says(1, amount="1,234"), node, says(2, amount="1234"), node, create_reflexion_node()
    )
    state = graph.invoke({"messages": [asks()]}, context=ACME)

    assert [one.status for one in answers(state)] == ["error", "success"]
    assert state["reflexions"] == []
    assert memories(ready, "episodic") == []
    assert len(memories(ready, "reflexion")) == 1
    assert [one.approach for one in calls_in(state["messages"])] == ['add({"amount": "1234"})']


def test_a_lesson_that_held_a_call_is_credited_with_what_came_of_the_run(
    ready: TieredStore,
) -> None:
    key = learned(ready)
    other = learned(ready, original_approach="something else", task_id="Other")
    graph = chain(
        ready,
        create_recall_node(limit=0, lessons=0),
        says(1, amount="1,234"),
        tools(ToolLessons()),
        create_outcome_node("worked"),
    )
    for success, expected in ((True, (1, 0)), (False, (1, 1))):
        state = graph.invoke({"messages": [asks()], "worked": success}, context=ACME)
        assert state["credited"] == 1
        assert counts(ready, key)[1:] == expected
    assert counts(ready, other) == (0, 0, 0)


def test_lessons_of_what_was_tried_in_just_one_form_can_be_asked_for(ready: TieredStore) -> None:
    key = learned(ready)
    learned(ready, original_approach="something else", improved_approach="more", task_id="Other")
    memory = MemoryCoordinator(ready, context=ACME)
    tried_so = 'add({"amount": "1,234"})'

    assert len(memory.get_lessons(tools="add")) == 2
    assert [one.key for one in memory.get_lessons(tools="add", approach=tried_so)] == [key]
    assert list(memory.get_lessons(tools="add", approach="nothing of it")) == []
    with pytest.raises(InvalidInputError, match="approach is empty"):
        memory.get_lessons(tools="add", approach=" ")


# A failure whose tool is not known


def test_lessons_of_no_tool_come_before_those_of_any_and_those_of_the_tools_alone(
    ready: TieredStore,
) -> None:
    told = [divided(), divided(tool=None), divided(failure=KeyError("x"), tool="add")]
    in_tool, bare, other = (
        learned(ready, task_id=f"task {n}", improved_approach=f"way {n}", **one)
        for n, one in enumerate(told)
    )
    memory = MemoryCoordinator(ready, context=ACME)
    error = ZeroDivisionError("division by zero")

    found = memory.get_lessons(error, tools=["add", "pay"])
    assert [one.key for one in found] == [bare, in_tool, other]
    assert [one.key for one in memory.get_lessons(error, tools="pay")] == [bare]
    long = "the division went on for ever, " * 20
    key = learned(ready, **divided(failure=ValueError(long), improved_approach="way 4"))
    assert [one.key for one in memory.get_lessons(ValueError(long))] == [key]
