"""A program that remembers and recalls in every way, for a test to see what is traced of it.

python -m tests.support.traced_runs URL
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from langchain_core.tracers.langchain import wait_for_all_tracers
from langgraph.graph import StateGraph
from langsmith.run_trees import get_cached_client

from langmem_tiers import (
    MemoryContext,
    MemoryCoordinator,
    MemoryHooks,
    MemoryOrchestrator,
    TieredStore,
)
from langmem_tiers.core.tracing import is_tracing
from langmem_tiers.graph.middleware import TieredMemoryMiddleware
from langmem_tiers.graph.recall import MemoryState, TieredMemoryRetriever, create_recall_node
from tests.support.agents import calls, scripted
from tests.support.opening import text_index

ACME = MemoryContext(tenant="acme", project_id="billing", session_id="chat-7")
GLOBEX = MemoryContext(tenant="globex", session_id="s")
QUERY = "Where is the vault?"
ASKED: Any = {"messages": [HumanMessage(QUERY)]}


def graph_of(store: TieredStore) -> Any:
    builder = StateGraph(MemoryState, context_schema=MemoryContext)
    builder.add_node("recall", create_recall_node(limit=1))
    builder.set_entry_point("recall")
    return builder.compile(store=store)


def agent_of(store: TieredStore) -> Any:
    middleware = TieredMemoryMiddleware(remember=True)
    model = scripted(calls("missing"), "In the cellar")
    return create_agent(model, middleware=[middleware], context_schema=MemoryContext, store=store)


def named(name: str) -> Any:
    return {"run_name": name, "configurable": {"thread_id": "chat-7"}}


def blocking(store: TieredStore) -> None:
    memory = MemoryCoordinator(store, context=ACME)
    memory.store("The vault is in the cellar", memory_type="semantic", importance=0.0)
    memory.get_context(QUERY, limit=1, profile=lambda memory, _: memory.match)
    memory.get_context_batch([QUERY, "cellar"], limit=1)
    with suppress(ValueError):
        memory.get_context(QUERY, limit=-1)
    retriever_of(memory).invoke(QUERY, named("alone"))
    graph_of(store).invoke(ASKED, named("graph-invoke"), context=ACME)
    agent_of(store).invoke(ASKED, named("agent-invoke"), context=ACME)
    elsewhere(MemoryCoordinator(store, context=GLOBEX))


def retriever_of(memory: MemoryCoordinator) -> TieredMemoryRetriever:
    return TieredMemoryRetriever(memory=memory, k=1, memory_types=["semantic"])


def elsewhere(memory: MemoryCoordinator) -> None:
    """What another tenant does with everything that stands on a coordinator."""
    memory.reminders.add("Close the vault", when="vault")
    memory.reminders.due("vault")
    memory.state.start_task("Move the vault")
    with MemoryOrchestrator(memory) as turn:
        turn.assemble_context(QUERY)
        turn.memorize("The vault is in the attic")
        turn.commit()
    hooks = MemoryHooks(memory)
    hooks.on_user_prompt_submit("Find the vault")
    hooks.on_session_stop({})


async def awaiting(store: TieredStore) -> None:
    await graph_of(store).ainvoke(ASKED, named("graph-ainvoke"), context=ACME)
    async for _ in graph_of(store).astream(ASKED, named("graph-astream"), context=ACME):
        pass
    await agent_of(store).ainvoke(ASKED, named("agent-ainvoke"), context=ACME)
    memory = MemoryCoordinator(store, context=ACME)
    await retriever_of(memory).ainvoke(QUERY, named("alone-ainvoke"))
    async with MemoryOrchestrator(MemoryCoordinator(store, context=GLOBEX)) as turn:
        await turn.aassemble_context(QUERY, messages=[HumanMessage("Of Globex")])


def main(url: str) -> None:
    with TieredStore(url, index=text_index()) as store:
        blocking(store)
        asyncio.run(awaiting(store))
    if is_tracing():
        wait_for_all_tracers()
        get_cached_client().flush()


if __name__ == "__main__":
    main(sys.argv[1])
