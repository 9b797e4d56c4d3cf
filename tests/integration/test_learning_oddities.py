"""Learning from odd failures and names, from what worked since, and by clocks that disagree."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langgraph.prebuilt import ToolNode

from langmem_tiers import ToolLessons, create_reflexion_node, create_skill_node
from langmem_tiers.core.errors import RollbackError
from tests.support.agents import Way
from tests.support.graphs import (
    ACME,
    add,
    answer,
    asks,
    call,
    chain,
    learned,
    memories,
    off_the_loop,
    tried,
)
from tests.support.learning import BILLING, Team


@pytest.mark.parametrize("error", [ValueError("byte \0 at 3"), OSError("no file 'caf\udce9'")])
async def test_the_error_of_a_node_is_kept_though_postgres_cannot_hold_its_text(
    way: Way, error: Exception
) -> None:
    store = way.store

    def fails(_: Any) -> dict[str, Any]:
        raise error

    graph = chain(store, fails, error_handler=create_reflexion_node())
    await way(graph, {"messages": [asks()]}, context=ACME)
    (kept,) = await off_the_loop(memories, store, "episodic")
    assert f"Failed with: {type(error).__name__}: " in kept.content


async def test_a_call_of_what_can_be_no_tool_takes_no_run_of_its_trace(way: Way) -> None:
    store = way.store
    names = ("", "a\0b", "caf\udce9", "x" * 401)
    failed = [
        (call(name, n), answer("no such tool", n, failed=True)) for n, name in enumerate(names)
    ]
    odd = [call("add", 9, **{"am\0ount": "1"}), answer("added", 9)]
    graph = chain(store, create_skill_node(lambda _: True))
    await way(
        graph,
        {"messages": [asks(), *(one for both in failed for one in both), *odd]},
        context=ACME,
    )
    (kept,) = await off_the_loop(memories, store, "episodic")
    assert [tool for tool, _, _ in kept.value["trace"]["calls"]] == ["add"]


async def test_a_call_that_has_worked_in_the_thread_is_not_held(way: Way) -> None:
    store = way.store
    lessons = ToolLessons()
    tools = ToolNode(
        [add],
        handle_tool_errors=True,
        wrap_tool_call=lessons.wrap_tool_call,
        awrap_tool_call=lessons.awrap_tool_call,
    )
    await off_the_loop(learned, store, original_approach='add({"amount": "7"})')
    worked = tried(1, "7", "added 7")
    failed = tried(1, "7", "the server was down", failed=True)
    for before, status in ((worked, "success"), (failed, "error")):
        given = {"messages": [asks(), *before, asks("Once more"), call("add", 2, amount="7")]}
        state = await way(chain(store, tools), given, context=ACME)
        assert state["messages"][-1].status == status


async def test_the_last_copy_is_not_rolled_back_though_the_clock_that_put_over_it_was_slow(
    ours: Team,
) -> None:
    move = await ours.promoted()
    ours.clock.advance(hours=-1)
    value = {"content": "Quinces keep until spring"}
    await asyncio.to_thread(ours.store.put, ("acme", BILLING), move.key, value)
    assert await ours.states() == {move.key: None, move.successor: None}
    ours.clock.advance(hours=2)
    with pytest.raises(RollbackError, match="last copy"):
        await ours.billing("rollback", move.move)
