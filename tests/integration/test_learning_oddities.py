"""Learning from odd failures and names, from what worked since, and by clocks that disagree."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langgraph.prebuilt import ToolNode

from langmem_tiers import TieredStore, ToolLessons, create_reflexion_node, create_skill_node
from langmem_tiers.core.errors import RollbackError
from tests.support.agents import How, run
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
from tests.support.opening import Opened, opened_store, text_index

TWINS = [("sync", "invoke"), ("async", "ainvoke")]


@pytest.mark.parametrize("error", [ValueError("byte \0 at 3"), OSError("no file 'caf\udce9'")])
@pytest.mark.parametrize(("opened", "how"), TWINS)
async def test_the_error_of_a_node_is_kept_though_postgres_cannot_hold_its_text(
    url: str, opened: Opened, how: How, error: Exception
) -> None:
    def fails(_: Any) -> dict[str, Any]:
        raise error

    store = TieredStore(url, index=text_index())
    async with opened_store(store, opened):
        graph = chain(store, fails, error_handler=create_reflexion_node())
        await run(graph, how, {"messages": [asks()]}, context=ACME)
        (kept,) = await off_the_loop(memories, store, "episodic")
    assert f"Failed with: {type(error).__name__}: " in kept.content


@pytest.mark.parametrize(("opened", "how"), TWINS)
async def test_a_call_of_what_can_be_no_tool_takes_no_run_of_its_trace(
    url: str, opened: Opened, how: How
) -> None:
    names = ("", "a\0b", "caf\udce9", "x" * 401)
    failed = [
        (call(name, n), answer("no such tool", n, failed=True)) for n, name in enumerate(names)
    ]
    odd = [call("add", 9, **{"am\0ount": "1"}), answer("added", 9)]
    store = TieredStore(url, index=text_index())
    async with opened_store(store, opened):
        graph = chain(store, create_skill_node(lambda _: True))
        await run(
            graph,
            how,
            {"messages": [asks(), *(one for both in failed for one in both), *odd]},
            context=ACME,
        )
        (kept,) = await off_the_loop(memories, store, "episodic")
    assert [tool for tool, _, _ in kept.value["trace"]["calls"]] == ["add"]


@pytest.mark.parametrize(("opened", "how"), TWINS)
async def test_a_call_that_has_worked_in_the_thread_is_not_held(
    url: str, opened: Opened, how: How
) -> None:
    lessons = ToolLessons()
    tools = ToolNode(
        [add],
        handle_tool_errors=True,
        wrap_tool_call=lessons.wrap_tool_call,
        awrap_tool_call=lessons.awrap_tool_call,
    )
    store = TieredStore(url, index=text_index())
    async with opened_store(store, opened):
        await off_the_loop(learned, store, original_approach='add({"amount": "7"})')
        worked = tried(1, "7", "added 7")
        failed = tried(1, "7", "the server was down", failed=True)
        for before, status in ((worked, "success"), (failed, "error")):
            given = {"messages": [asks(), *before, asks("Once more"), call("add", 2, amount="7")]}
            state = await run(chain(store, tools), how, given, context=ACME)
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
