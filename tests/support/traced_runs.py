"""A program that remembers and recalls in every way, for a test to see what is traced of it.

python -m tests.support.traced_runs URL
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Literal

from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from langchain_core.tracers.langchain import wait_for_all_tracers
from langgraph.graph import StateGraph
from langsmith.run_trees import get_cached_client

from langmem_tiers import MemoryContext, MemoryCoordinator, TieredStore
from langmem_tiers.core.tracing import traced, tracing
from langmem_tiers.graph.middleware import TieredMemoryMiddleware
from langmem_tiers.graph.recall import MemoryState, create_recall_node
from langmem_tiers.graph.retriever import TieredMemoryRetriever
from tests.support.agents import calls, scripted
from tests.support.opening import text_index

ACME = MemoryContext(tenant="acme", project_id="billing", session_id="chat-7")
QUERY = "Where is the vault?"
ASKED: Any = {"messages": [HumanMessage(QUERY)]}


def shown(verb: Callable[..., Any], run_type: Literal["retriever", "tool"]) -> Any:
    """The verb, traced if it is not yet."""
    return verb if hasattr(verb, "__wrapped__") else traced(run_type)(verb)


class Coordinator(MemoryCoordinator):
    """A coordinator whose verbs are traced."""

    get_context = shown(MemoryCoordinator.get_context, "retriever")
    aget_context = shown(MemoryCoordinator.aget_context, "retriever")
    get_context_batch = shown(MemoryCoordinator.get_context_batch, "retriever")
    store = shown(MemoryCoordinator.store, "tool")
    store_many = shown(MemoryCoordinator.store_many, "tool")
    astore_many = shown(MemoryCoordinator.astore_many, "tool")


def graph_of(store: TieredStore) -> Any:
    builder = StateGraph(MemoryState, context_schema=MemoryContext)
    builder.add_node("recall", create_recall_node(coordinator=Coordinator, limit=1))
    builder.set_entry_point("recall")
    return builder.compile(store=store)


def agent_of(store: TieredStore) -> Any:
    middleware = TieredMemoryMiddleware(coordinator=Coordinator, remember=True)
    model = scripted(calls("missing"), "In the cellar")
    return create_agent(model, middleware=[middleware], context_schema=MemoryContext, store=store)


def named(name: str) -> Any:
    return {"run_name": name, "configurable": {"thread_id": "chat-7"}}


def blocking(store: TieredStore) -> None:
    memory = Coordinator(store, context=ACME)
    memory.store("The vault is in the cellar", memory_type="semantic", importance=0.0)
    memory.get_context(QUERY, limit=1, profile=lambda memory, _: memory.match)
    memory.get_context_batch([QUERY, "cellar"], limit=1)
    with suppress(ValueError):
        memory.get_context(QUERY, limit=-1)
    TieredMemoryRetriever(memory=memory, k=1).invoke(QUERY, named("alone"))
    graph_of(store).invoke(ASKED, named("graph-invoke"), context=ACME)
    agent_of(store).invoke(ASKED, named("agent-invoke"), context=ACME)


async def awaiting(store: TieredStore) -> None:
    await graph_of(store).ainvoke(ASKED, named("graph-ainvoke"), context=ACME)
    async for _ in graph_of(store).astream(ASKED, named("graph-astream"), context=ACME):
        pass
    await agent_of(store).ainvoke(ASKED, named("agent-ainvoke"), context=ACME)
    retriever = TieredMemoryRetriever(memory=Coordinator(store, context=ACME), k=1)
    await retriever.ainvoke(QUERY, named("alone-ainvoke"))


def main(url: str) -> None:
    with TieredStore(url, index=text_index()) as store:
        blocking(store)
        asyncio.run(awaiting(store))
    if tracing():
        wait_for_all_tracers()
        get_cached_client().flush()


if __name__ == "__main__":
    main(sys.argv[1])
