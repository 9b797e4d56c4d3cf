"""Nodes for a `StateGraph`: recalling as a step of one's own graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any, Unpack

from langchain_core.messages import AnyMessage, BaseMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.graph.message import add_messages
from langgraph.runtime import get_runtime
from typing_extensions import TypedDict

from langmem_tiers.core.config import Bounds
from langmem_tiers.core.memory import Recollection, Recollections, facts
from langmem_tiers.core.options import RecallOptions
from langmem_tiers.core.values import storable
from langmem_tiers.graph.messages import concern_of, led_by, messages_of
from langmem_tiers.graph.node import (
    DEFAULT_LESSONS,
    RECALLED,
    Careful,
    OfState,
    OnError,
    Remembered,
    Scope,
    asked,
    by_words,
    careful_of,
    checked_lessons,
    checked_of_state,
    errors_of,
    last_question,
    node,
    of_a_turn,
    of_state,
    text_of,
    this_run,
)
from langmem_tiers.graph.speakers import keys_seen, messages_around
from langmem_tiers.memory.coordinator import MemoryCoordinator
from langmem_tiers.postgres.flow import Flow
from langmem_tiers.recall.fence import recalled_text
from langmem_tiers.recall.floor import HELPS, Floor


class MemoryState(TypedDict, total=False):
    """A graph's state with what was recalled; subclass it, or name its keys in your own."""

    messages: Annotated[list[AnyMessage], add_messages]
    recalled: list[dict[str, Any]]
    """Recollections as JSON, best first, so that any checkpointer can keep them."""
    recalled_text: str
    """The same as a text for a prompt, or nothing."""
    recalled_run: str
    """The run they were recalled for: what the outcome node credits."""
    recalled_question: str
    """The last words of a human: they stay the question where a summary has taken their place."""
    remembered: list[str]
    """The keys of what was stored of what was said."""
    revised: list[dict[str, Any]]
    """What that took back (`retracted`) or corrected (`superseded`): its key, and the `move`."""
    turn: dict[str, Any] | None
    """The turn that goes on: what it spent and wants written, until it is committed."""
    context: str
    """What was assembled for it, as a text for a prompt."""
    committed: dict[str, Any]
    """What the last turn left behind."""
    memory_errors: dict[str, str]
    """The errors by which the latest nodes went without memory, by what was to be done."""


def create_recall_node(
    *,
    query: OfState | None = None,
    lessons: int = DEFAULT_LESSONS,
    holdout: float | None = None,
    on_error: OnError = "continue",
    context: Scope | None = None,
    coordinator: Callable[..., MemoryCoordinator] = MemoryCoordinator,
    name: str = "recall",
    **options: Unpack[RecallOptions],
) -> Runnable[Any, dict[str, Any]]:
    """A node that recalls what matters for the question, for `invoke` and `ainvoke`.

    What was learned from a failure among the last messages, or in a tool that the last message
    calls, comes first; in the text pins do. It writes the keys `recalled`, `recalled_text`,
    `recalled_run` and `recalled_question` of the state, and `memory_errors` where Postgres or a
    model fails; see `MemoryState`. Each recall is a run of its own, which `create_outcome_node`
    credits; a retry of the node is the same run, a loop that comes by again another one. Its memory
    is that of the store the graph was compiled with. The run's context, a `MemoryContext` or a
    mapping with its fields, says whose memory it is; the arguments here come before it.

    Args:
        query: The question: a key of the state, or a function of the state. If not given, it is
            what the last human message says. An empty one gets the newest memories.
        lessons: Lessons at most that come first, beside the `limit` of the others; 0 for none.
        holdout: The share of memories that each recall goes without; see `get_context`.
        on_error: `continue` goes on where Postgres or a model fails, and tells the log, the stream
            and `memory_errors`; `raise` leaves it to the graph and its retry policy.
        context: Whose memory it is: a `MemoryContext` or a mapping of some of its fields;
            `{name}` in one stands for `config["configurable"]["name"]`, `{thread_id}` for instance.
        coordinator: Makes the coordinator, such as `partial(MemoryCoordinator, settings=…)`.
        name: The node's name, in traces too.
        options: Those of `MemoryCoordinator.get_context`: `max_tokens`, `tiers`, …; `limit` is 6
            and `deduplicate` True if not given. What stands among the messages is not recalled.

    Raises:
        InvalidInputError: for an option that no recall could take.

    Example:
        ```python
        from langgraph.graph import StateGraph
        from langmem_tiers import MemoryContext
        from langmem_tiers.graph.recall import MemoryState, create_recall_node

        builder = StateGraph(MemoryState, context_schema=MemoryContext)
        builder.add_node("recall", create_recall_node(limit=3))
        builder.set_entry_point("recall")
        graph = builder.compile(store=store)
        graph.invoke({"messages": ["When do keys change?"]}, context=MemoryContext(tenant="acme"))
        ```
    """
    known = of_a_turn(options, create_recall_node)
    checked_lessons(lessons, holdout)
    checked_of_state(query=query)
    careful = careful_of(on_error, "continue")
    asking: Any = {"query": query, "lessons": lessons, "holdout": holdout, "options": known}
    body = partial(_recall, careful=careful, **asking)
    return node(name, body, Remembered(context, coordinator))


def _recall(
    memory: MemoryCoordinator,
    state: Any,
    config: RunnableConfig,
    *,
    query: OfState | None,
    lessons: int,
    holdout: float | None,
    options: RecallOptions,
    careful: Careful,
) -> Flow[dict[str, Any]]:
    shown_to: Any = {"run_id": this_run(), "holdout": holdout}
    first, found = Recollections(), Recollections()
    told: dict[str, str] = {}
    pinned: list[Recollection] = []
    if concern := concern_of(state, lessons):
        with careful("lessons", get_runtime(), told):
            first = yield from asked(memory.get_lessons, memory.aget_lessons, **concern, **shown_to)
    question = _question(state, query, memory.tiered_store.options.bounds)
    noted = {"recalled_question": question} if query is None else {}
    asking = {**beside(messages_of(state), options, memory, config), **shown_to}
    with careful("recall", get_runtime(), told):
        found = yield from asked(memory.get_context, memory.aget_context, question, **asking)
        if found or found.helps >= HELPS:
            pinned = yield from asked(memory.pinned, memory.apinned)
    told |= by_words(found.by_words)
    return {
        **noted,
        "recalled_run": shown_to["run_id"].id,
        "recalled": [facts(one) for one in led_by(first, found)],
        "recalled_text": recalled_text(
            found, first, pinned=pinned, now=memory.now, asked=str(question)
        ),
        **errors_of(state, told, known=None),
    }


def _question(state: Any, query: OfState | None, bounds: Bounds) -> str:
    if query is None:
        said = last_question(of_state(state, "messages"))
        before: str = of_state(state, "recalled_question", None) or ""
        return before if said is None else bounds.beginning(storable(text_of(said)))
    given: str = of_state(state, query)
    return bounds.beginning(str(given)) if isinstance(query, str) else given


def beside(
    messages: Sequence[BaseMessage],
    options: RecallOptions,
    memory: MemoryCoordinator,
    config: RunnableConfig,
) -> dict[str, Any]:
    """Return options of a turn's recall, which leave out the memories of its own messages.

    They also leave out what was said to the run around this one, which handed it on.
    """
    seen = keys_seen([*messages_around(config), *messages], config)
    asked = {**options, "exclude": seen.union(options.get("exclude", ()))}
    most, floor = memory.settings.max_context_items, asked.get("min_match")
    unsaid = options.get("limit") is None and options.get("max_tokens") is None
    if unsaid:
        asked["limit"] = min(RECALLED, most)
    if isinstance(floor, Floor) and (not unsaid or most <= RECALLED):
        asked["min_match"] = floor._replace(further=(0, 1.0))  # no more than somebody said
    return asked
