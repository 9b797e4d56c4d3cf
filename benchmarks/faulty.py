"""An agent with faulty tools, as a LangGraph graph: a rule that remembers, or does not.

docs/learning.md has the rule; nothing here asks a model.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, cast

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import InjectedState, ToolNode
from pydantic import create_model

from benchmarks.faulty_tools import Task, call, tools
from langmem_tiers import MemoryContext, TieredStore
from langmem_tiers.graph.learn import create_outcome_node, create_reflexion_node
from langmem_tiers.graph.recall import MemoryState, create_recall_node

CALLS = 4
"""A task is given up after so many."""
FOLLOWS = 0.95
WORKED_OUT = 0.5

Node = Runnable[Any, Any] | Callable[[Any], Any]
_ADVICE = re.compile(r"^Do instead: (\w+)\((\{.*\})\)$", re.MULTILINE)


class State(MemoryState, total=False):
    """A task's messages, and the task itself, which a real agent would not see."""

    task: Task
    seed: int


class Outcome(NamedTuple):
    """What came of a task."""

    task: Task
    failed_calls: int
    succeeded: bool


@dataclass(frozen=True, slots=True)
class Memory:
    """How an agent remembers: a node before each call, and what follows the last one."""

    recall: Node
    learn: Sequence[Node]
    store: TieredStore | None = None


@dataclass(frozen=True, slots=True)
class Agent:
    """The graph, and what runs it."""

    graph: CompiledStateGraph[Any, Any, Any, Any]
    tenant: str
    seed: int

    def do(self, task: Task) -> Outcome:
        """Run one task."""
        begun = {"messages": [HumanMessage(task.question)], "task": task, "seed": self.seed}
        context = MemoryContext(tenant=self.tenant, project_id=task.project)
        state = cast("State", self.graph.invoke(begun, context=context))
        failed = sum(one.status == "error" for one in answers(state))
        return Outcome(task, failed, succeeded(state))


def agent(memory: Memory, world: str, *, tenant: str, seed: int) -> Agent:
    """An agent with this memory and a world's tools."""
    builder = StateGraph(State, context_schema=MemoryContext)
    builder.add_node("plan", _plan)
    builder.add_node("recall", memory.recall)
    builder.add_node("decide", _decide)
    builder.add_node(
        "tools", ToolNode([_tool(*one) for one in tools(world).items()], handle_tool_errors=True)
    )
    builder.add_sequence([(f"learn {number}", one) for number, one in enumerate(memory.learn)])
    builder.add_edge(START, "plan")
    builder.add_edge("plan", "recall")
    builder.add_edge("recall", "decide")
    builder.add_edge("decide", "tools")
    builder.add_conditional_edges(
        "tools", lambda state: "learn 0" if _over(state) else "plan", ["learn 0", "plan"]
    )
    builder.add_edge(f"learn {len(memory.learn) - 1}", END)
    return Agent(builder.compile(store=memory.store), tenant, seed)


def forgetful() -> Memory:
    """No memory at all."""
    return Memory(recall=_nothing, learn=[_nothing])


def tiered(store: TieredStore, **options: Any) -> Memory:
    """Ours, with options of the recall node."""
    recall = create_recall_node(memory_types=["reflexion"], **options)
    return Memory(recall, [create_reflexion_node(), create_outcome_node(succeeded)], store)


def _nothing(_: State) -> dict[str, Any]:
    return {}


def advice(text: str, tool: str) -> dict[str, Any]:
    """The arguments of the first lesson in a text that is about the tool; none without one."""
    for found in _ADVICE.finditer(text):
        if found[1] == tool:
            arguments: dict[str, Any] = json.loads(found[2])
            return arguments
    return {}


def _plan(state: State) -> dict[str, Any]:
    """The naive call, or from the second one on what was worked out from the error."""
    task, attempt = state["task"], len(answers(state))
    arguments: dict[str, Any] = {"target": task.target}
    if attempt and _draw(state, "worked out").random() < WORKED_OUT:
        arguments |= task.family.remedy
    return {"messages": [_calling(task, attempt, arguments)]}


def _decide(state: State) -> dict[str, Any]:
    """The planned call, with what the first lesson about the tool adds to it."""
    task, planned = state["task"], _arguments(state["messages"][-1])
    learned = advice(state.get("recalled_text", ""), task.tool) | planned
    worked_out = planned.keys() != {"target"}
    tried = learned in map(_arguments, state["messages"])
    if worked_out or tried or _draw(state, "follows").random() >= FOLLOWS:
        return {}
    return {"messages": [_calling(task, len(answers(state)), learned)]}


def _arguments(message: AnyMessage) -> dict[str, Any]:
    """What a message calls a tool with, if it does."""
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    return dict(calls[0]["args"]) if calls else {}


def _calling(task: Task, attempt: int, arguments: Mapping[str, Any]) -> AIMessage:
    """The message that calls the tool; of one id, so that a decided call replaces the planned."""
    name = f"{task.number}-{attempt}"
    calls = [{"name": task.tool, "args": dict(arguments), "id": f"call-{name}"}]
    return AIMessage("", id=name, tool_calls=calls)


def _tool(name: str, further: Sequence[str]) -> BaseTool:
    """A tool that takes its target and further arguments."""

    def run(state: State, **arguments: Any) -> str:
        return call(state["task"], arguments, _draw(state, "error"))

    fields: dict[str, Any] = dict.fromkeys(further, (Any, None))
    schema = create_model(
        name, target=(str, ...), state=(Annotated[dict[str, Any], InjectedState], ...), **fields
    )
    return StructuredTool.from_function(
        run, name=name, description=f"{name}, when it works", args_schema=schema
    )


def _draw(state: State, what: str) -> random.Random:
    """A chance of its own for each task, call and question: the same however one remembers."""
    attempt = len(answers(state))
    return random.Random(f"{state['seed']} {state['task'].number} {attempt} {what}")


def answers(state: State) -> list[ToolMessage]:
    return [one for one in state["messages"] if isinstance(one, ToolMessage)]


def succeeded(state: State) -> bool:
    return answers(state)[-1].status != "error"


def _over(state: State) -> bool:
    return succeeded(state) or len(answers(state)) >= CALLS
