"""A program that learns in every way, for a test to see what is traced of it.

python -m tests.support.traced_learning URL
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import pairwise
from typing import Any

from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.runnables import Runnable
from langchain_core.tracers.langchain import wait_for_all_tracers
from langgraph.graph import START, StateGraph
from langsmith import trace
from langsmith.run_trees import get_cached_client
from psycopg.conninfo import make_conninfo

from langmem_tiers import (
    FailedAttempt,
    MemoryContext,
    MemoryCoordinator,
    TieredStore,
    create_consolidation_graph,
)
from langmem_tiers.core.errors import DatabaseUnavailableError, InvalidInputError
from langmem_tiers.core.tracing import is_tracing
from langmem_tiers.graph.learning import (
    create_evolution_node,
    create_outcome_node,
    create_promotion_node,
    create_reflexion_node,
    create_skill_node,
)
from langmem_tiers.graph.recall import create_recall_node
from langmem_tiers.learning.outcome import Run
from langmem_tiers.learning.promotion_policy import PromotionPolicy
from langmem_tiers.learning.skills import ToolCall, Trace
from tests.support.agents import How, run
from tests.support.coordinating import Caller, coordinator
from tests.support.graphs import BROKEN, TASK, Learning, failed_then_worked
from tests.support.opening import Clock, text_index

KEY = "sk-not-for-anyone"
EASY = PromotionPolicy(min_access_count=0, min_success_rate=0.5, min_projects=1)
LESSON: Mapping[str, Any] = {
    "task_id": TASK,
    "original_approach": 'add({"amount": "1,234"})',
    "failure_reason": BROKEN,
    "improved_approach": "Leave the comma out",
    "failure": ValueError("the amount '1,234' has a comma"),
    "tool": "add",
}
ATTEMPT = FailedAttempt(
    task_id="Pay", approach="pay()", error="TypeError: missing argument", tool="pay"
)
CALLS = (ToolCall("add", frozenset({"amount", "currency"}), succeeded=True),)
ASKED: Mapping[str, Any] = {
    "messages": failed_then_worked(),
    "worked": True,
    "interaction": {"asked": TASK, "novel_pattern": True},
    "metrics": {"engagement_rate": 0.2},
}


class Teacher(GenericFakeChatModel):
    """A chat model that holds a key where anybody can read it."""

    model_name: str = "teacher-1"
    api_key: str = KEY

    def bind_tools(self, *_: Any, **__: Any) -> Runnable[Any, AIMessage]:
        """It answers what it answers."""
        return self


def teacher() -> Teacher:
    """A model that draws lessons and makes them general, in turn."""
    return Teacher(messages=iter([*_answers()] * 2))


def _answers() -> Iterator[AIMessage]:
    lesson = {"failure_reason": "No amount", "improved_approach": "Name one", "tags": []}
    general = {"content": "Write amounts without a comma"}
    for name, given in (("Reflected", lesson), ("General", general)):
        yield AIMessage("", tool_calls=[{"name": name, "args": given, "id": "1"}])


def graph_of(store: TieredStore) -> Any:
    """A graph with every node that learns."""
    nodes: dict[str, Any] = {
        "look": create_recall_node(memory_types=["reflexion"], limit=1),
        "reflect_on": create_reflexion_node(model=teacher()),
        "judge": create_outcome_node("worked"),
        "raise": create_promotion_node(policy=EASY),
        "gain": create_evolution_node(interaction="interaction", success_metrics="metrics"),
        "practise": create_skill_node("worked"),
    }
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(Learning, context_schema=MemoryContext)
    for name, node in nodes.items():
        builder.add_node(name, node)
    for one, other in pairwise([START, *nodes]):
        builder.add_edge(one, other)
    return builder.compile(store=store)


async def in_a_graph(store: TieredStore, clock: Clock, how: How) -> None:
    """Recall a lesson that is old enough to be promoted, and learn."""
    memory = coordinator(store, how, project_id="billing")
    await memory.astore_reflexion(**LESSON)
    clock.advance(days=8)
    config = {"run_name": f"graph-{how}"}
    await run(graph_of(store), how, dict(ASKED), config=config, context=memory.context)


async def alone(call: Caller, clock: Clock) -> None:
    """Every verb by itself."""
    await call("store_pattern", "Count twice", tags=(one for one in ["Sums"]))
    lesson = await call("store_reflexion", **LESSON)
    await call("learning.reflect", [ATTEMPT], model=teacher())
    found = await call(
        "learning.get_lessons", LESSON["failure"], tools="add", run_id=Run("1", "whole")
    )
    await call("learning.record_exposure", found, run_id="2")
    await call("learning.record_outcome", (one for one in found), run_id="2", success=True)
    await call("promote_to_long_term", lesson.key)
    clock.advance(days=8)
    model = teacher()
    next(model.messages)
    promotions = await call("learning.promote", policy=EASY, model=model)
    (move,) = [one.move for one in promotions if one.promoted]
    await call("learning.demote", policy=EASY)
    await call("learning.rollback", move)
    with suppress(InvalidInputError):
        await call("learning.rollback", "no-such-move")
    await call("learning.evolve", ASKED["interaction"], ASKED["metrics"])
    await call("learning.learn_skills", Trace("run-1", CALLS, succeeded=True))


async def learning(url: str, clock: Clock) -> None:
    """Learn in every way, each in a tenant of its own, on stores that are opened either way."""
    index = text_index()
    with TieredStore(url, index=index, clock=clock) as store:
        await in_a_graph(store, clock, "invoke")
        await as_a_trace("blocking", Caller(whose("blocking", store), "batch"), clock)
        a_cycle(whose("tidy", store))
    async with TieredStore(url, index=index, clock=clock) as store:
        await in_a_graph(store, clock, "ainvoke")
        await as_a_trace("awaiting", Caller(whose("awaiting", store), "abatch"), clock)


async def as_a_trace(name: str, call: Caller, clock: Clock) -> None:
    """Every verb below one run, if this is traced."""
    with trace(name, client=get_cached_client() if is_tracing() else None):
        await alone(call, clock)


def a_cycle(memory: MemoryCoordinator) -> None:
    """Say the same twice, and consolidate."""
    for key in ("1", "2"):
        memory.store("The vault is in the cellar", "semantic", tier="working", key=key)
    graph = create_consolidation_graph(store=memory.tiered_store)
    graph.invoke({}, {"run_name": "cycle"}, context=memory.context)


def whose(tenant: str, store: TieredStore) -> MemoryCoordinator:
    """The coordinator of an agent."""
    return coordinator(store, tenant, project_id="billing", agent_id="adder")


def without_a_server(url: str) -> None:
    """Learn where no server answers."""
    nowhere = make_conninfo(url, host="127.0.0.1", port=1)
    memory = whose("nowhere", TieredStore(nowhere, index=text_index()))
    with suppress(DatabaseUnavailableError):
        memory.learning.demote()


def main(url: str) -> None:
    """Learn, and send what is traced of it."""
    asyncio.run(learning(url, Clock()))
    without_a_server(url)
    if is_tracing():
        wait_for_all_tracers()
        get_cached_client().flush()


if __name__ == "__main__":
    main(sys.argv[1])
