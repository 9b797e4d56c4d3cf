"""A small agent that runs code, as a LangGraph graph, with and without a memory.

It follows one rule: it tries the naive way, unless what it recalled tells the improved one. Where
a try fails it makes the second one by itself, as agents do, so that every task is solved in the
end, and notes what it learned. What memory can save is the failure.
"""

from __future__ import annotations

import json
from typing import Any, Literal, TypeAlias, TypedDict, cast
from uuid import uuid4

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import ToolNode
from langgraph.runtime import Runtime

from demo.tasks import FAMILIES, Task, execute
from langmem_tiers import (
    MemoryContext,
    MemoryCoordinator,
    MemoryState,
    TieredStore,
    create_outcome_node,
    create_promotion_node,
    create_recall_node,
)
from langmem_tiers.graph.messages import executed_calls


class State(MemoryState, total=False):
    """A task, the messages of its run, and what was learned of it."""

    task: Task
    told: bool
    """Whether what was recalled told the way that is tried now."""
    noted: str | None
    """The key of the lesson that the agent noted."""


class Night(TypedDict, total=False):
    """What a look at the whole tenant moved."""

    promoted: list[dict[str, Any]]
    demoted: list[dict[str, Any]]


Agent: TypeAlias = CompiledStateGraph[State, MemoryContext, State, State]
Promoter: TypeAlias = CompiledStateGraph[Night, MemoryContext, Night, Night]


def build_agent(store: TieredStore) -> Agent:
    """Make an agent that learns: it recalls before each try, credits it, and notes the lesson.

    Example:
        ```python
        from demo.agent import asked, build_agent, errors
        from demo.tasks import tasks
        from langmem_tiers import MemoryContext, TieredStore

        with TieredStore.embedded("./.memory") as store:
            agent = build_agent(store)
            billing = MemoryContext(tenant="acme", project_id="billing")
            for day in (1, 2):
                run = agent.invoke(asked(tasks(day, project=0)[0]), context=billing)
                print(errors(run))  # it fails on the first day alone
        ```
    """
    builder = StateGraph(State, context_schema=MemoryContext)
    # Nine days are no trial: every run is shown what there is.
    builder.add_node("recall", create_recall_node(memory_types=["reflexion"], limit=3, holdout=0))
    builder.add_node("write", write)
    builder.add_node("run", RUN)
    builder.add_node("outcome", create_outcome_node(helped))
    builder.add_node("note", note)
    builder.add_edge(START, "recall")
    builder.add_edge("recall", "write")
    builder.add_edge("write", "run")
    builder.add_edge("run", "outcome")
    builder.add_conditional_edges("outcome", then)
    builder.add_edge("note", END)
    return builder.compile(store=store)


def build_forgetful_agent() -> Agent:
    """Make the same agent without a memory."""
    builder = StateGraph(State, context_schema=MemoryContext)
    builder.add_node("write", write)
    builder.add_node("run", RUN)
    builder.add_edge(START, "write")
    builder.add_edge("write", "run")
    builder.add_conditional_edges("run", lambda state: END if worked(state) else "write")
    return builder.compile()


def build_promoter(store: TieredStore) -> Promoter:
    """Make the graph that runs each night: it promotes what has proven itself."""
    builder = StateGraph(Night, context_schema=MemoryContext)
    builder.add_node("promotion", create_promotion_node())
    builder.add_edge(START, "promotion")
    builder.add_edge("promotion", END)
    return builder.compile(store=store)


@tool
def run_python(code: str, given: str) -> str:
    """Run Python on a literal."""
    return execute(code, given)


def reported(error: Exception) -> str:
    """Return an error as the last line of its traceback says it."""
    return f"{type(error).__name__}: {error}"


RUN = ToolNode([run_python], handle_tool_errors=reported)


def asked(task: Task) -> State:
    """Return the state that a run begins with."""
    return {"task": task, "messages": [HumanMessage(f"{task.question}: {task.given}")]}


def write(state: State) -> dict[str, Any]:
    """Write the code of the next try, by the agent's rule."""
    task = state["task"]
    family = FAMILIES[task.family]
    told = tells(state.get("recalled_text", ""), family.improved)
    code = family.improved if told or errors(state) else family.naive
    call = {"name": "run_python", "args": {"code": code, "given": task.given}, "id": str(uuid4())}
    return {"told": told, "messages": [AIMessage("", tool_calls=[call])]}


def tells(recalled: str, code: str) -> bool:
    """Whether a lesson names this code; in a lesson it stands as JSON."""
    return json.dumps(code, ensure_ascii=False)[1:-1] in recalled


def errors(state: State) -> list[str]:
    """Return the failures of this run, in order."""
    return [
        str(one.text)
        for one in state["messages"]
        if isinstance(one, ToolMessage) and one.status == "error"
    ]


def worked(state: State) -> bool:
    """Whether the last try did."""
    last = state["messages"][-1]
    return isinstance(last, ToolMessage) and last.status != "error"


def helped(state: State) -> bool | None:
    """Return the outcome that lessons are credited with, or None if the run read no lesson."""
    return worked(state) if state["told"] else None


def then(state: State) -> Literal["recall", "note", "__end__"]:
    """Try again after a failure, note what a run taught that had one, else be done."""
    if not worked(state):
        return "recall"
    return "note" if errors(state) else "__end__"


def note(state: State, runtime: Runtime[MemoryContext]) -> dict[str, Any]:
    """Note what failed, and what to do instead: it is the agent that says so, not its memory."""
    memory = MemoryCoordinator(cast("TieredStore", runtime.store), context=runtime.context)
    failed, *_, done = executed_calls(state["messages"])
    lesson = memory.store_reflexion(
        task_id=state["task"].question,
        original_approach=failed.approach,
        failure_reason=failed.text,
        improved_approach=done.approach,
        failure=failed.text,
        tool=failed.tool,
        source="agent",
    )
    return {"noted": lesson.key}
