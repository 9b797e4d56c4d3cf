"""Readers of memory in a graph go on without it if it takes too long, and that is told."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest
from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.graph import StateGraph
from langgraph.prebuilt import ToolNode

from langmem_tiers import (
    Bounds,
    MemoryContext,
    MemoryCoordinator,
    TieredStore,
    create_recall_node,
    create_reminder_node,
    create_search_memory_tool,
)
from langmem_tiers.graph.langmem_tools import create_manage_memory_tool
from langmem_tiers.graph.recall import TieredMemoryRetriever
from langmem_tiers.graph.reminders import HookState
from tests.support.coded import coded
from tests.support.opening import text_index
from tests.support.servers import held

ACME = MemoryContext(tenant="acme")
AWAY = "LOCK TABLE memory.memories, memory.intentions IN ACCESS EXCLUSIVE MODE"


@pytest.fixture
async def slow(url: str) -> AsyncIterator[TieredStore]:
    """Give a store whose calls have little time."""
    async with TieredStore(url, index=text_index(), bounds=Bounds(call_timeout_ms=300)) as store:
        yield store


def graph_of(store: TieredStore, node: Any) -> Any:
    builder = StateGraph(HookState, context_schema=MemoryContext)
    builder.add_node("node", node)
    builder.set_entry_point("node")
    return builder.compile(store=store)


@pytest.mark.parametrize("make", [create_recall_node, create_reminder_node])
async def test_a_node_goes_on_without_memory_and_the_state_the_log_and_the_stream_say_so(
    slow: TieredStore, url: str, make: Any, caplog: pytest.LogCaptureFixture
) -> None:
    graph = graph_of(slow, make())
    given: Any = {"messages": ["Where is the vault?"]}
    with held(url, AWAY):
        told = [
            one
            async for one in graph.astream(given, context=ACME, stream_mode=["custom", "values"])
        ]
    state = told[-1][1]
    (error,) = state["memory_errors"].values()
    assert error.startswith("DatabaseError (query_timeout): ")
    assert state.get("recalled", []) == []
    assert ("custom", {"memory": "failed"}) in [
        (mode, {"memory": one.get("memory")}) for mode, one in told
    ]
    assert "goes on without its memory" in caplog.text
    assert "memory_errors" not in (await graph.ainvoke(given, context=ACME))


@pytest.mark.parametrize("make", [create_recall_node, create_reminder_node])
async def test_a_node_raises_where_it_is_to(slow: TieredStore, url: str, make: Any) -> None:
    graph = graph_of(slow, make(on_error="raise"))
    with held(url, AWAY), coded("query_timeout"):
        await graph.ainvoke({"messages": ["Where is the vault?"]}, context=ACME)


class Listening(AsyncCallbackHandler):
    """Hears of custom events."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, Any]] = []

    async def on_custom_event(self, name: str, data: Any, **_: Any) -> None:
        self.heard.append((name, data))


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
async def test_a_retriever_answers_with_nothing_and_tells_the_log_and_who_listens(
    slow: TieredStore, url: str, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    memory = MemoryCoordinator(slow, context=ACME)
    await memory.astore("The vault is in the cellar.")
    retriever = TieredMemoryRetriever(memory=memory)
    listening = Listening()
    config: Any = {"callbacks": [listening]}

    async def ask(retriever: TieredMemoryRetriever) -> Any:
        if way == "ainvoke":
            return await retriever.ainvoke("Where is the vault?", config)
        return await asyncio.to_thread(retriever.invoke, "Where is the vault?", config)

    with held(url, AWAY):
        assert await ask(retriever) == []
        with coded("query_timeout"):
            await ask(TieredMemoryRetriever(memory=memory, on_error="raise"))
    ((name, told),) = listening.heard
    assert name == "memory_failed"
    assert told["recall"].startswith("DatabaseError (query_timeout): ")
    assert caplog.records[0].levelno == logging.WARNING
    assert len(await ask(retriever)) == 1


async def test_a_model_is_told_that_memory_is_away_and_its_run_goes_on(
    slow: TieredStore, url: str
) -> None:
    tools = [create_search_memory_tool(("acme",)), create_manage_memory_tool(("acme",))]
    graph = graph_of(slow, ToolNode(tools))
    search = {"name": "search_memory", "args": {"query": "vault"}, "id": "1"}
    create = {"name": "manage_memory", "args": {"content": "The vault is blue."}, "id": "2"}
    calls: Any = {"messages": [AIMessage("", tool_calls=[search, create])]}
    with held(url, AWAY):
        answers = (await graph.ainvoke(calls, context=ACME))["messages"][-2:]
    for one in answers:
        assert isinstance(one, ToolMessage)
        assert one.status == "error"
        assert "Memory cannot be reached now, and nothing was changed" in str(one.content)
    answers = (await graph.ainvoke(calls, context=ACME))["messages"][-2:]
    assert isinstance(json.loads(str(answers[0].content)), list)
    assert str(answers[1].content).startswith("created memory")
