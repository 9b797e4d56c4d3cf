"""A program that consolidates, alone and in an agent, for a test to see what is traced of it.

python -m tests.support.traced_consolidation URL
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any, TypedDict

from langchain_core.tracers.langchain import wait_for_all_tracers
from langgraph.graph import START, StateGraph
from langsmith.run_trees import get_cached_client

from langmem_tiers import MemoryContext, TieredStore, create_consolidation_graph
from langmem_tiers.core.tracing import tracing
from tests.support.coordinating import coordinator
from tests.support.opening import text_index


class State(TypedDict, total=False):
    consolidated: dict[str, Any]


def told(store: TieredStore, tenant: str) -> MemoryContext:
    """Say the same twice."""
    memory = coordinator(store, tenant)
    for key in ("1", "2"):
        memory.store("The vault is in the cellar", "semantic", tier="working", key=key)
    return memory.context


def main(url: str) -> None:
    """Consolidate a tenant by a graph, and another by an agent's."""
    with TieredStore(url, index=text_index()) as store:
        alone = create_consolidation_graph(store=store)
        alone.invoke({}, {"run_name": "alone"}, context=told(store, "one"))
        builder: StateGraph[Any, Any, Any, Any] = StateGraph(State, context_schema=MemoryContext)
        builder.add_node("tidy", create_consolidation_graph())
        builder.add_edge(START, "tidy")
        agent: Any = builder.compile(store=store)
        asyncio.run(agent.ainvoke({}, {"run_name": "agent"}, context=told(store, "two")))
    if tracing():
        wait_for_all_tracers()
        get_cached_client().flush()


if __name__ == "__main__":
    main(sys.argv[1])
