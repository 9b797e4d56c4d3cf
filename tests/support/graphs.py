"""Graphs that learn: a state with every key of our nodes, and chains of nodes on a store."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda
from langchain_core.tools import ToolException, tool
from langgraph.graph import START, StateGraph
from langgraph.types import RetryPolicy

from langmem_tiers import MemoryContext, MemoryCoordinator, TieredStore
from langmem_tiers.graph.recall import MemoryState

ACME = MemoryContext(tenant="acme", project_id="billing")
TASK = "Add up the invoices"
QUICK = RetryPolicy(initial_interval=0.0, max_interval=0.0, jitter=False, max_attempts=3)
BROKEN = "ValueError: the amount '1,234' has a comma"


class Learning(MemoryState, total=False):
    """A state with what our nodes read and write."""

    worked: bool | None
    interaction: dict[str, Any]
    metrics: dict[str, Any]
    reflexions: list[str]
    credited: int
    promoted: list[dict[str, Any]]
    demoted: list[dict[str, Any]]
    evolved: dict[str, Any]
    skills: list[str]


@tool
def add(amount: str, currency: str = "EUR") -> str:  # noqa: ARG001 - of the call alone
    """Add an amount."""
    if "," in amount:
        raise ToolException(f"ValueError: the amount {amount!r} has a comma")
    return f"added {amount}"


@tool
def pay(amount: str) -> str:
    """Pay an amount."""
    return f"paid {amount}"


def asks(text: str = TASK) -> HumanMessage:
    """What a human asks for."""
    return HumanMessage(text)


def call(name: str, number: int = 1, /, **arguments: Any) -> AIMessage:
    """A message that calls one tool."""
    return AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": f"call-{number}"}])


def answer(said: str, number: int = 1, *, failed: bool = False) -> ToolMessage:
    """What a tool answered to that call."""
    status = "error" if failed else "success"
    return ToolMessage(said, tool_call_id=f"call-{number}", status=status)


def tried(number: int, amount: str, said: str, *, failed: bool = False) -> list[AnyMessage]:
    """A call of `add`, and its answer."""
    return [call("add", number, amount=amount), answer(said, number, failed=failed)]


def failed_then_worked() -> list[AnyMessage]:
    """A failure, and what worked after it."""
    failure = tried(1, "1,234", BROKEN, failed=True)
    return [asks(), *failure, *tried(2, "1234", "added 1234")]


def chain(store: TieredStore, *nodes: Any, checkpointer: Any = None, **options: Any) -> Any:
    """A graph of nodes in a row; `options` are `add_node`'s, for the last of them."""
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(Learning, context_schema=MemoryContext)
    names = [f"step{number}" for number, _ in enumerate(nodes)]
    for name, node in zip(names, nodes, strict=True):
        builder.add_node(name, node, **(options if name == names[-1] else {}))
    for one, other in pairwise([START, *names]):
        builder.add_edge(one, other)
    return builder.compile(store=store, checkpointer=checkpointer)


def learned(store: TieredStore, **changes: Any) -> str:
    """Store the lesson of the broken amount; its key."""
    lesson = {
        "task_id": TASK,
        "original_approach": 'add({"amount": "1,234"})',
        "failure_reason": BROKEN,
        "improved_approach": 'add({"amount": "1234"})',
        "failure": BROKEN,
        "tool": "add",
        **changes,
    }
    stored = MemoryCoordinator(store, context=ACME).store_reflexion(**lesson)
    return str(stored.key)


async def off_the_loop(call: Any, *args: Any, **options: Any) -> Any:
    """Call what blocks, as an async-opened store refuses it on its own loop."""
    return await asyncio.to_thread(call, *args, **options)


def answers(state: dict[str, Any]) -> list[ToolMessage]:
    """What tools answered in a state, in order."""
    return [one for one in state["messages"] if isinstance(one, ToolMessage)]


def counts(store: TieredStore, *keys: str) -> list[tuple[int, int]]:
    """Successes and failures of memories; blocking."""
    memory = MemoryCoordinator(store, context=ACME)
    found = [one for one in map(memory.get, keys) if one]
    return [(one.success_count, one.failure_count) for one in found]


def memories(store: TieredStore, memory_type: str, context: MemoryContext = ACME) -> list[Any]:
    """Every memory of a type, current or not, sorted by content; blocking."""
    memory = MemoryCoordinator(store, context=context)
    stored = store.search((context.root,), filter={"memory_type": memory_type}, limit=1000)
    found = [memory.get(one.key) for one in stored]
    return sorted(found, key=lambda one: one.content if one else "")


def fails_once_after(node: Runnable[Any, Any]) -> RunnableLambda[Any, Any]:
    """A node that does its work and then fails, the first time."""
    tries: list[int] = []

    def again() -> None:
        tries.append(1)
        if len(tries) == 1:
            raise ConnectionError("the answer got lost")

    def blocking(state: Any, config: RunnableConfig) -> Any:
        done = node.invoke(state, config)
        again()
        return done

    async def awaited(state: Any, config: RunnableConfig) -> Any:
        done = await node.ainvoke(state, config)
        again()
        return done

    return RunnableLambda(blocking, awaited)
