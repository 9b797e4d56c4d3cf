"""Recall memories: a node for a `StateGraph`, and a retriever for LangChain."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Unpack, cast

from langchain_core.documents import Document
from langchain_core.messages import AnyMessage, BaseMessage, convert_to_messages
from langchain_core.retrievers import BaseRetriever, LangSmithRetrieverParams
from langchain_core.runnables import Runnable
from langgraph.graph.message import add_messages
from pydantic import ConfigDict, Field, ValidationError
from typing_extensions import TypedDict

from langmem_tiers.coordinator.base import checked_limit
from langmem_tiers.coordinator.coordinator import MemoryCoordinator
from langmem_tiers.coordinator.learning import MAX_LESSONS
from langmem_tiers.coordinator.recall import check_recall_options, get_context, unknown_option_text
from langmem_tiers.core.checks import checked_share
from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError, short
from langmem_tiers.core.memory import Recollection, Recollections, recollection_fields
from langmem_tiers.core.options import RecallOptions
from langmem_tiers.core.types import PROSPECTIVE
from langmem_tiers.core.values import replace_unstorable
from langmem_tiers.graph import runtime
from langmem_tiers.graph.messages import open_failures, pending_calls, text_of_call, tool_of
from langmem_tiers.graph.runtime import OnError, Scope, StateSource, Step, Update, invoke
from langmem_tiers.graph.speakers import message_keys
from langmem_tiers.postgres.flow import Ask, Flow, FlowRunner, both, unit
from langmem_tiers.recall.prompt_text import recalled_text
from langmem_tiers.recall.ranking import HELPS, TURN_FLOOR, Floor, ProfileFunction
from langmem_tiers.recall.recall import RecallQuery, recall_bounds

DEFAULT_LESSONS = 3
"""Lessons at most that come before the recalled memories."""
DEFAULT_MEMORIES = 5
"""Memories of a turn that names neither a limit nor a budget, beside those that match nearly as
well (`TURN_FLOOR`); the settings may allow fewer. It is our own choice: each memory is paid for
with every call of the model. In an earlier state 8 and 10 showed the needed memories to 3 and 5 %
more of 428 questions, for 47 and 91 tokens more each (`benchmarks/data/life.jsonl`)."""


class MemoryState(TypedDict, total=False):
    """State of a graph with recalled memories; subclass it, or name its keys in your own."""

    messages: Annotated[list[AnyMessage], add_messages]
    recalled: list[dict[str, Any]]
    """Recollections as JSON, best first, so that any checkpointer can keep them."""
    recalled_text: str
    """The recollections as a text for a prompt; empty if there are none."""
    recalled_run: str
    """Run that they were recalled for, which the outcome node credits."""
    recalled_question: str
    """Last message of a human: it stays the question where a summary takes its place."""
    remembered: list[str]
    """Keys of the memories that messages became."""
    revised: list[dict[str, Any]]
    """Memories that messages took back (`retracted`) or corrected (`superseded`): the key, and the
    `move`."""
    turn: dict[str, Any] | None
    """The open turn: its spend and its pending writes, until it is committed."""
    context: str
    """Context assembled for the turn, as a text for a prompt."""
    committed: dict[str, Any]
    """Report of the last committed turn."""
    memory_errors: dict[str, str]
    """Errors after which the latest nodes went on without memory, by the task that failed."""


def create_recall_node(
    *,
    query: StateSource | None = None,
    lessons: int = DEFAULT_LESSONS,
    holdout: float | None = None,
    on_error: OnError = "continue",
    context: Scope | None = None,
    coordinator: Callable[..., MemoryCoordinator] = MemoryCoordinator,
    name: str = "recall",
    **options: Unpack[RecallOptions],
) -> Runnable[Any, Update]:
    """Create a node that recalls memories for the question, for `invoke` and `ainvoke`.

    Lessons about a failure among the last messages, or about a tool that the last message calls,
    come first; in the text pins do. It writes the keys `recalled`, `recalled_text`,
    `recalled_run` and `recalled_question` of the state, and `memory_errors` where Postgres or a
    model fails; see `MemoryState`. Each recall is a run of its own, which `create_outcome_node`
    credits. A retry of the node is the same run; a loop that comes by again is another one. The
    node uses the store that the graph was compiled with. The run's context, a `MemoryContext` or a
    mapping with its fields, says whose memory it is; the arguments here take precedence.

    Args:
        query: The question: a key of the state, or a function of the state. The default is the
            text of the last human message. An empty question gets the newest memories.
        lessons: Lessons at most that come first, besides `limit` other memories; 0 for none.
        holdout: The share of memories that each recall goes without; see `get_context`.
        on_error: `continue` goes on where Postgres or a model fails, and tells the log, the stream
            and `memory_errors`; `raise` leaves it to the graph and its retry policy.
        context: Whose memory it is: a `MemoryContext` or a mapping of some of its fields;
            `{name}` in a field is `config["configurable"]["name"]`, `{thread_id}` for instance.
        coordinator: A function that makes the coordinator of a context for all its runs, such as
            `partial(MemoryCoordinator, settings=…)`.
        name: The node's name, in traces too.
        options: Options of `MemoryCoordinator.get_context`: `max_tokens`, `tiers`, …; `limit` is 5
            and `deduplicate` True by default. Memories of the messages themselves are left out.

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
    turn_options = check_turn_options(options, create_recall_node)
    check_lessons(lessons, holdout)
    runtime.check_state_sources(query=query)
    body = partial(_recall, query=query, lessons=lessons, holdout=holdout, options=turn_options)
    return runtime.NodeConfig(context, coordinator, name, on_error).node(body)


def _recall(
    step: Step,
    *,
    query: StateSource | None,
    lessons: int,
    holdout: float | None,
    options: RecallOptions,
) -> Flow[Update]:
    memory = step.memory
    shown_to: Any = {"run_id": step.run, "holdout": holdout}
    first, recalled, pinned = Recollections(), Recollections(), list[Recollection]()
    if concern := _lesson_concern(step.messages, lessons):
        with step.tolerate("lessons"):
            first = yield from invoke(memory.learning.get_lessons, **concern, **shown_to)
    question = _question(step, query)
    with step.tolerate("recall"):
        wanted = turn_recall_options(step, step.messages, options)
        recalled = yield from invoke(memory.get_context, question, **wanted, **shown_to)
        if options.get("memory_types") is None:  # reminders are raised on their own
            recalled[:] = [item for item in recalled if item.memory_type != PROSPECTIVE]
        if recalled or recalled.helps >= HELPS:
            pinned = yield from invoke(memory.pinned)
    step.note_words_only(recalled.by_words)
    lead = {(item.namespace, item.key) for item in first}
    others = [item for item in recalled if (item.namespace, item.key) not in lead]
    text_options: Any = {"pinned": pinned, "now": memory.now, "asked": str(question)}
    return {
        **({"recalled_question": question} if query is None else {}),
        "recalled_run": step.run.id,
        "recalled": [recollection_fields(item) for item in (*first, *others)],
        "recalled_text": recalled_text(recalled, first, **text_options),
        **step.errors(same_turn=None),
    }


def _lesson_concern(messages: Sequence[BaseMessage], limit: int) -> dict[str, Any]:
    """Return the failures and tools that need lessons, as options of a verb; empty without any."""
    failures, calls = open_failures(messages), pending_calls(messages)
    if not limit or not (failures or calls):
        return {}
    question = replace_unstorable(runtime.text_of(runtime.last_question(messages)))
    return {
        "failures": failures,
        "tools": list({tool: None for call in calls if (tool := tool_of(call))}),
        "query": "\n".join([question, *map(text_of_call, calls)]),
        "limit": limit,
    }


def _question(step: Step, query: StateSource | None) -> str:
    bounds = step.memory.tiered_store.options.bounds
    if query is None:
        message = runtime.last_question(
            convert_to_messages(runtime.read_state(step.state, "messages"))
        )
        before: str = step.read("recalled_question") or ""
        return (
            before
            if message is None
            else bounds.truncate_query(replace_unstorable(runtime.text_of(message)))
        )
    value: str = runtime.read_state(step.state, query)
    return bounds.truncate_query(str(value)) if isinstance(query, str) else value


def turn_recall_options(
    step: Step, messages: Sequence[BaseMessage], options: RecallOptions
) -> dict[str, Any]:
    """Return the options of a turn's recall, which leave out the memories of its own messages.

    They leave out the messages of the run around this one as well.
    """
    seen = message_keys(messages, step.config)
    wanted = {**options, "exclude": seen.union(options.get("exclude", ()))}
    most, floor = step.memory.settings.max_context_items, wanted.get("min_match")
    unsaid = options.get("limit") is None and options.get("max_tokens") is None
    if unsaid:
        wanted["limit"] = min(DEFAULT_MEMORIES, most)
    if isinstance(floor, Floor):  # no more than the options or the settings allow
        (many, share), spare = floor.further, most - DEFAULT_MEMORIES if unsaid else 0
        goes_on = floor.goes_on if spare > 0 else 0
        further = (max(0, min(many, spare)), share)
        wanted["min_match"] = floor._replace(further=further, goes_on=goes_on)
    return wanted


def check_turn_options(options: Mapping[str, Any], surface: Callable[..., Any]) -> RecallOptions:
    """Return the checked options of a turn's recall, with the defaults of a turn.

    The names of memory types are looked up when it runs. `surface` is the function or class that
    was given the options: an unknown one may be a misspelt option of its own.

    Raises:
        InvalidInputError: for an option that `get_context` does not know or would refuse.
    """
    known_options = RecallOptions.__annotations__
    if unknown := options.keys() - known_options.keys():
        taken = inspect.signature(surface).parameters.values()
        own = [
            parameter.name
            for parameter in taken
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY
        ]
        raise InvalidTypeError(unknown_option_text(min(unknown), [*own, *known_options]))
    turn_options: Any = {"deduplicate": True, "min_match": TURN_FLOOR, **options}
    names: Any = turn_options.get("memory_types")
    is_list = isinstance(names, Collection) and not isinstance(names, str | bytes | Mapping)
    if names is not None and not (is_list and all(isinstance(name, str) for name in names)):
        raise InvalidTypeError(f"memory_types is a list of names, not {short(names)}")
    general: Any = {name: value for name, value in turn_options.items() if name != "memory_types"}
    anyone = recall_bounds(MemoryContext(tenant="anyone"))
    RecallQuery(**{"query": "", "bounds": anyone, "limit": 1, **check_recall_options(general)})
    return cast("RecallOptions", turn_options)


def check_lessons(lessons: object, holdout: object) -> None:
    """Refuse a number of lessons, or a share to hold out, that no recall could take.

    Raises:
        InvalidInputError: for either.
    """
    checked_limit(lessons, MAX_LESSONS, "lessons")
    checked_share(holdout, "holdout")


FAILED_EVENT: Final = "memory_failed"
"""Custom event that tells a run that it goes on without memory, with the failure and its error."""


class TieredMemoryRetriever(BaseRetriever):
    """Retriever that returns memories as documents, best first.

    A document's page is the memory's content, its id the memory's key. Its metadata is all else, as
    JSON: tier, memory_type, score, explanation, speaker, occurred_at, …; `by_words` is the error of
    the embedding model, if words alone were sought. The entries of the memory's own `metadata`
    stand beside these. Where two names are the same, ours takes precedence; the memory's own
    entries are also under `metadata`, whole.

    Every field but `memory` and `k` is an option of `MemoryCoordinator.get_context`, which
    explains it; `memory_tags` are its `tags`, as a retriever's own tags are those of its runs.
    `k` is the limit. One call can take all of them too: `retriever.invoke(query, k=3)`.

    Example:
        ```python
        from langmem_tiers import MemoryContext, MemoryCoordinator, TieredStore
        from langmem_tiers.graph.recall import TieredMemoryRetriever

        with TieredStore.embedded("./.memory") as store:
            memory = MemoryCoordinator(store, context=MemoryContext(tenant="acme"))
            memory.store("The API key rotates on Mondays", memory_type="semantic")
            retriever = TieredMemoryRetriever(memory=memory, k=3)
            print(retriever.invoke("When do keys change?"))
        ```
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    memory: MemoryCoordinator
    k: int = Field(default=5, ge=0)
    project_id: str | None = None
    session_id: str | None = None
    tiers: list[str] | None = None
    memory_types: list[str] | None = None
    memory_tags: list[str] = Field(default_factory=list)
    agent_id: str | None = None
    max_tokens: int | None = None
    since: datetime | str | None = None
    as_of: datetime | str | None = None
    known_at: datetime | str | None = None
    min_importance: float | None = None
    filter: dict[str, Any] | None = None
    deduplicate: bool = False
    similarity_threshold: float = 0.85
    profile: str | ProfileFunction | None = None
    min_match: float | tuple[float, float] | None = None
    exclude: tuple[str, ...] = ()
    review: Literal["own", "model"] | None = None
    on_error: Literal["continue", "raise"] = "continue"
    """Reaction where Postgres fails or takes too long: `continue` returns no documents, and tells
    the log and a custom event `memory_failed`; `raise` raises the error."""

    if not TYPE_CHECKING:

        def __init__(self, **fields: Any) -> None:
            """Take the fields; turn an error of pydantic into one of ours."""
            try:
                super().__init__(**fields)
            except ValidationError as error:
                raise InvalidInputError(_first_error(error)) from error

    @property
    def runner(self) -> FlowRunner:
        """Return the runner of its flows."""
        return self.memory.runner

    def _find_documents(
        self, /, query: str, *, run_manager: Any, k: int | None = None, **overrides: Any
    ) -> Flow[list[Document]]:
        """Return the documents of one call, a run of its own; an error gives none, and an event."""
        if unknown := overrides.keys() - set(_OPTIONS):
            use = f"use k for the limit, or one of {', '.join(_OPTIONS)}"
            raise InvalidTypeError(f"a retriever has no option {short(min(unknown))}: {use}")
        options: Any = {**{name: getattr(self, name) for name in _OPTIONS}, **overrides}
        options |= {"tags": options.pop("memory_tags"), "limit": self.k if k is None else k}
        recalled, failures = get_context(self.memory, query, **options), dict[str, str]()
        with runtime.continue_on_error("recall", self.on_error, failures=failures):
            results = yield from unit(recalled)
            return [_document(result, results.by_words) for result in results]
        child = run_manager.get_child()
        tell = partial(child.on_custom_event, FAILED_EVENT, failures, run_id=run_manager.run_id)
        yield Ask(tell, tell)
        return []

    _get_relevant_documents, _aget_relevant_documents = both(_find_documents)

    def _get_ls_params(self, **_: Any) -> LangSmithRetrieverParams:
        return LangSmithRetrieverParams(
            ls_retriever_name="tieredmemory", ls_vector_store_provider="TieredStore"
        )


def _first_error(error: ValidationError) -> str:
    """Return the first error of a retriever's fields as text."""
    first = error.errors(include_url=False, include_context=False)[0]
    field = ".".join(map(str, first["loc"][:1])) or "it"
    return f"{short(field)} of a retriever: {first['msg']}, not {short(first['input'])}"


def _document(item: Recollection, by_words: str | None) -> Document:
    """Return a memory as a document: its content the page, all else metadata, ours first."""
    fields = recollection_fields(item)
    page = fields.pop("content")
    if by_words is not None:
        fields["by_words"] = by_words
    return Document(id=item.key, page_content=page, metadata={**fields["metadata"], **fields})


_OPTIONS = tuple(
    name
    for name in TieredMemoryRetriever.model_fields
    if name not in {*BaseRetriever.model_fields, "memory", "k", "on_error"}
)
