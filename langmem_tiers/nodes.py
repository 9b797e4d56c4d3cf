"""Nodes for a `StateGraph`: recalling as a step of one's own graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypedDict, Unpack

from langchain_core.messages import AnyMessage
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda

from langmem_tiers.attempts import concern_of, led_by
from langmem_tiers.coordinator import MemoryCoordinator
from langmem_tiers.documents import facts
from langmem_tiers.errors import InvalidTypeError, MissingExtraError
from langmem_tiers.learn.outcome import Run
from langmem_tiers.memory import Recollection
from langmem_tiers.recalled import recalled_text
from langmem_tiers.runs import (
    DEFAULT_LESSONS,
    RecallOptions,
    Remembered,
    checked,
    checked_lessons,
    last_question,
    of_state,
    run_of,
    text_of,
)

try:
    from langgraph.graph.message import add_messages
    from langgraph.runtime import get_runtime
except ImportError as error:
    raise MissingExtraError(
        "nodes need LangGraph: pip install 'langmem-tiers[langgraph]'"
    ) from error

Question = str | Callable[[Any], str]
"""A key of the state, or a function of the state."""


class MemoryState(TypedDict, total=False):
    """A graph's state with what was recalled; subclass it, or name its keys in your own."""

    messages: Annotated[list[AnyMessage], add_messages]
    recalled: list[dict[str, Any]]
    """Recollections as JSON, best first, so that any checkpointer can keep them."""
    recalled_text: str
    """The same as a text for a prompt, or nothing."""
    recalled_run: str
    """The run they were recalled for: what the outcome node credits."""


def create_recall_node(
    *,
    query: Question | None = None,
    lessons: int = DEFAULT_LESSONS,
    holdout: float = 0.0,
    tenant: str | None = None,
    project_id: str | None = None,
    session_id: str | None = None,
    coordinator: Callable[..., MemoryCoordinator] = MemoryCoordinator,
    name: str = "recall",
    **options: Unpack[RecallOptions],
) -> Runnable[Any, dict[str, Any]]:
    """A node that recalls what matters for the question, for `invoke` and `ainvoke`.

    What was learned from a failure among the last messages, or in a tool that the last message
    calls, comes first. It writes three keys of the state, `recalled`, `recalled_text` and
    `recalled_run`; see `MemoryState`. Each recall is a run of its own, which `create_outcome_node`
    credits; a retry of the node is the same run, a loop that comes by again another one. Its
    memory is that of the store the graph was compiled with. Whose it is says the run's context,
    a `MemoryContext` or a mapping with its fields, and over it the arguments here.

    Args:
        query: The question: a key of the state, or a function of the state. If not given, it is
            what the last human message says. An empty one gets the newest memories.
        lessons: Lessons at most that come first, beside the `limit` of the others; 0 for none.
        holdout: The share of memories that each recall goes without; see `get_context`.
        tenant: A label, in which `{name}` stands for `config["configurable"]["name"]`.
        project_id: Likewise.
        session_id: Likewise; `{thread_id}` for instance.
        coordinator: Makes the coordinator from a store and `context`; for options of its own,
            `functools.partial(MemoryCoordinator, settings=…)`.
        name: The node's name, in traces too.
        options: Those of `MemoryCoordinator.get_context`: `limit`, `max_tokens`, `tiers`, ….

    Raises:
        InvalidInputError: for an option that no recall could take.

    Example:
        ```python
        from langgraph.graph import StateGraph
        from langmem_tiers import MemoryContext
        from langmem_tiers.nodes import MemoryState, create_recall_node

        builder = StateGraph(MemoryState, context_schema=MemoryContext)
        builder.add_node("recall", create_recall_node(limit=3))
        builder.set_entry_point("recall")
        graph = builder.compile(store=store)
        graph.invoke({"messages": ["When do keys change?"]}, context=MemoryContext(tenant="acme"))
        ```
    """
    scope = {"tenant": tenant, "project_id": project_id, "session_id": session_id}
    whose = Remembered(scope=scope, coordinator=coordinator)
    known = checked(options, create_recall_node)
    checked_lessons(lessons, holdout)
    ask = _asker(query)

    def recall(state: Any, config: RunnableConfig) -> dict[str, Any]:
        runtime = get_runtime()
        memory, run = whose.memory(runtime, config), run_of(runtime)
        concern = concern_of(state, lessons)
        first = memory.get_lessons(**concern, run_id=run, holdout=holdout) if concern else []
        found = memory.get_context(ask(state), run_id=run, holdout=holdout, **known)
        return _update(found, first, run)

    async def arecall(state: Any, config: RunnableConfig) -> dict[str, Any]:
        runtime = get_runtime()
        memory, run = whose.memory(runtime, config), run_of(runtime)
        concern = concern_of(state, lessons)
        first = await memory.aget_lessons(**concern, run_id=run, holdout=holdout) if concern else []
        found = await memory.aget_context(ask(state), run_id=run, holdout=holdout, **known)
        return _update(found, first, run)

    return RunnableLambda(recall, arecall, name=name)


def _asker(query: Question | None) -> Callable[[Any], str]:
    if query is None:
        return lambda state: text_of(last_question(of_state(state, "messages")))
    if isinstance(query, str):
        return lambda state: str(of_state(state, query))
    if not callable(query):
        raise InvalidTypeError("query is a key of the state, or a function of the state")
    return query


def _update(
    found: Sequence[Recollection], lessons: Sequence[Recollection], run: Run
) -> dict[str, Any]:
    return {
        "recalled_run": run.id,
        "recalled": [facts(one) for one in led_by(lessons, found)],
        "recalled_text": recalled_text(found, lessons),
    }
