"""One flow, driven both ways where its caller stands, and what of LangGraph it leans on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypedDict

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.errors import NodeError
from langgraph.graph import START, StateGraph

from langmem_tiers.core.errors import ConfigurationError
from langmem_tiers.graph.learning import _NODE_ERROR_KEY
from langmem_tiers.graph.runtime import DRIVER, both_forms, check_keys, invoke
from langmem_tiers.postgres.flow import Flow


class Doubling:
    """Two verbs, in two forms each."""

    def double(self, number: int) -> int:
        return 2 * number

    async def adouble(self, number: int) -> int:
        return await asyncio.to_thread(self.double, number)

    def fail(self) -> int:
        raise KeyError("gone")

    async def afail(self) -> int:
        raise KeyError("gone")


def quadrupled(number: int) -> Flow[int]:
    """Four times a number."""
    once = yield from invoke(Doubling().double, number)
    return (yield from invoke(Doubling().double, once))


async def test_an_error_is_raised_where_the_flow_asked() -> None:
    def mended() -> Flow[str]:
        try:
            yield from invoke(Doubling().fail)
        except KeyError as error:
            return f"mended: {error}"
        return "never"

    assert DRIVER.run(mended()) == await DRIVER.arun(mended()) == "mended: 'gone'"
    blocking, awaited = both_forms(quadrupled)
    assert (blocking(3), await awaited(3)) == (12, 12)
    assert (blocking.__name__, awaited.__doc__) == ("quadrupled", "Four times a number.")


async def test_flows_that_wait_for_their_callers_hold_no_threads() -> None:
    async with asyncio.timeout(10):
        assert await asyncio.gather(*[DRIVER.arun(quadrupled(2)) for _ in range(200)]) == [8] * 200


# LangGraph has no public name for these: were they called otherwise, a node could not tell that its
# update is lost, and an error handler would learn nothing of the node that failed.


class State(TypedDict, total=False):
    number: int
    hooks: dict[str, Any]


def looks_at(seen: Callable[[RunnableConfig], object], **options: Any) -> Any:
    def look(state: State, config: RunnableConfig) -> State:
        seen(config)
        return state

    builder: StateGraph[Any, Any, Any, Any] = StateGraph(State)
    builder.add_node("look", look, **options)
    builder.add_edge(START, "look")
    return builder.compile()


def test_a_node_can_tell_which_keys_the_state_has() -> None:
    looks_at(lambda config: check_keys(config, "number", "hooks")).invoke({"number": 1})
    with pytest.raises(ConfigurationError, match="no key 'reminders'"):
        looks_at(lambda config: check_keys(config, "hooks", "reminders")).invoke({"number": 1})


def test_an_error_handler_is_told_which_node_failed() -> None:
    told: list[Any] = []

    def breaks(_: RunnableConfig) -> None:
        raise OSError("the disk is full")

    def handler(state: State, config: RunnableConfig) -> State:
        told.append(config["configurable"][_NODE_ERROR_KEY])
        return state

    looks_at(breaks, error_handler=handler).invoke({"number": 1})
    assert [(type(one), one.node) for one in told] == [(NodeError, "look")]
