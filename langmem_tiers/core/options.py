"""How a coordinator, an orchestrator and promotion go about it, and what a recall can be told."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from inspect import Parameter, getdoc, signature
from typing import Any, Final, Literal, TypedDict, TypeVar

from langmem_tiers.core.bounds import checked_whole
from langmem_tiers.core.config import check_known
from langmem_tiers.core.errors import ConfigurationError, short
from langmem_tiers.core.memory import Tier

Verb = TypeVar("Verb", bound=Callable[..., Any])


class RecallOptions(TypedDict, total=False):
    """What a recall can be told wherever one is made.

    Options:
        tiers: Where to look; all three if not given.
        memory_types: Only these types.
        tags: Only memories that have all of these.
        agent_id: Only what this agent remembered.
        limit: Memories at most, 0 to 1,000; if not given, the settings'
            `max_context_items`, which is 10 unless set.
        max_tokens: The most useful memories among the `limit` best that fit into this many.
        since: Only what happened, or was recorded, at this moment or later; a datetime with a
            time zone, or ISO 8601.
        as_of: What was true at this moment; now, if not given.
        known_at: What was known at this moment; now, if not given. What came of a memory
            later, such as that it was superseded, is not known then. To recall as it was
            possible at a moment, give both.
        min_importance: Only what is at least this important, from 0 to 1.
        filter: LangGraph's filter on the stored value.
        deduplicate: Leave out what repeats a better one.
        similarity_threshold: From 0 to 1: what counts as a repeat.
        profile: How to rank: a name of `PROFILES`, or a function of a memory and what was
            asked that returns a number, or terms that add up to it. By default `calibrated`:
            the match, and between near-equals recency, accesses and the project.
        cutoff: Whether a question that nothing stored can answer gets nothing. By default
            it does where the local embeddings are used, which the threshold is fitted to.
            What is no question (no question mark, no question word first) is never cut.
        review: Let the coordinator's reviewers score three times the `limit` for relevance,
            and return the best by that: by their `rules`, or by the coordinator's
            `review_model` (docs/review.md). Nobody reviews if not given.
    """

    tiers: Sequence[Tier | str] | None
    memory_types: Sequence[str] | None
    tags: Iterable[str]
    agent_id: str | None
    limit: int | None
    max_tokens: int | None
    since: datetime | str | None
    as_of: datetime | str | None
    known_at: datetime | str | None
    min_importance: float | None
    filter: Mapping[str, Any] | None
    deduplicate: bool
    similarity_threshold: float
    profile: str | Callable[..., Any] | None
    cutoff: bool | None
    review: Literal["rules", "model"] | None


RECALL_DEFAULTS: Final = {"tags": (), "deduplicate": False, "similarity_threshold": 0.85}
"""What holds where a recall is not told; of all else None."""
RECALL_OPTIONS: Final = ("project_id", "session_id", *RecallOptions.__annotations__, "embedding")
"""All that one recall can be told: the options of `get_context`."""


class StoringOptions(TypedDict, total=False):
    """What can be said of something that is to be remembered.

    Options:
        source: Who says so: `user`, `system`, `agent`, `tool`, `web`, or a name of one's own,
            which is trusted as `unknown` is unless the gate's policy says otherwise.
        tier: Where it goes; the type's own tier if not given.
        tags: Stored in lower case, words joined by hyphens.
        project_id: The context's if not given; so `session_id` and `agent_id`.
        session_id: The turns of a session are neighbours in the order they are stored in.
        agent_id: Which agent remembers.
        speaker: Who said it: a name, or a role such as `user` and `assistant`.
        turn: Its place in the session, from 0; it follows the last one if not given.
        occurred_at: When it happened, with a time zone; not when it was recorded.
        valid_from: When it began to be true, with a time zone. If not given, it is true from
            when it happened or was recorded, whichever is earlier.
        valid_to: When it ceases to be true; not at all, if not given.
        derived_from: Keys of the memories that it was concluded from. Where one of
            them is retracted, it becomes suspect.
        importance: From 0 to 1.
        entities: Who and what it is about.
        context: The circumstances, as text or a mapping.
        emotional_valence: The mood it was in.
        platform_source: Where it comes from.
        success_metrics: What came of it, as numbers.
        source_task: The task it comes from.
        metadata: Anything else that is JSON.
        key: A key of one's own, under which storing again replaces it; else a new UUID.
        recalled: What was recalled in this run, as texts or recollections, beside what this
            coordinator recalled in the last hour: what repeats it is no new evidence.
    """

    source: str
    tier: Tier | str | None
    tags: Iterable[str]
    project_id: str | None
    session_id: str | None
    agent_id: str | None
    speaker: str | None
    turn: int | None
    occurred_at: datetime | str | None
    valid_from: datetime | str | None
    valid_to: datetime | str | None
    derived_from: Iterable[str]
    importance: float | None
    entities: Iterable[str]
    context: str | Mapping[str, Any] | None
    emotional_valence: str | None
    platform_source: str | None
    success_metrics: Mapping[str, Any] | None
    source_task: str | None
    metadata: Mapping[str, Any] | None
    key: str | None
    recalled: Iterable[object]


STORING_DEFAULTS: Final = {
    "source": "user",
    **dict.fromkeys(("tags", "derived_from", "entities", "recalled"), ()),
}
"""What holds where nothing is said; of all else None."""


def spelt_out(options: Any, defaults: Mapping[str, object]) -> Callable[[Verb], Verb]:
    """Let `help` and `inspect.signature` show each of a verb's typed `**options`, and its meaning.

    Example:
        ```python
        @spelt_out(RecallOptions, RECALL_DEFAULTS)
        def get_context(memory: Memory, query: str, **options: Unpack[RecallOptions]) -> ...: ...
        ```
    """

    def decorate(verb: Verb) -> Verb:
        plain: Any = verb
        *named, _ = (whole := signature(verb)).parameters.values()
        spelt = [
            Parameter(
                name,
                Parameter.KEYWORD_ONLY,
                default=defaults.get(name),
                annotation=kind.__forward_arg__,
            )
            for name, kind in options.__annotations__.items()
        ]
        plain.__signature__ = whole.replace(parameters=[*named, *spelt])
        meant = (getdoc(options) or "").partition("\n\n")[2]
        plain.__doc__ = f"{getdoc(verb)}\n\n{meant}"
        return verb

    return decorate


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorSettings:
    """How the coordinator recalls: the specification's `memory.coordinator`.

    The specification names a model and an embedding model. Here both are None: a default that
    spends tokens would be a surprise, and would need a key. Without `model` every rule is
    deterministic; without `embedding_model` the store embeds with what its `index` names.

    Raises:
        ConfigurationError: for a value that cannot work; the message begins with its key.
    """

    model: str | None = None
    """The chat model, as `init_chat_model` takes it; None uses none."""
    embedding_model: str | None = None
    """The embedding model, as `init_embeddings` takes it; None leaves it to the store."""
    query_timeout_ms: int = 500
    """Milliseconds that a recall may take (specification: 500)."""
    max_context_items: int = 10
    """Memories that a recall returns at most (specification: 10)."""
    review_timeout_ms: int = 5000
    """Milliseconds that models may take to review a storage (specification: 3 to 5 s)."""
    relevance_timeout_ms: int = 2000
    """Milliseconds that models may take to review a recall (specification: 1 to 2 s)."""

    def __post_init__(self) -> None:
        """Check what a caller may have set."""
        _model_name(self.model, "model")
        _model_name(self.embedding_model, "embedding_model")
        checked_whole(self.query_timeout_ms, "query_timeout_ms", 1, _HOUR_MS)
        checked_whole(self.max_context_items, "max_context_items", 1, 1000)
        checked_whole(self.review_timeout_ms, "review_timeout_ms", 1, _HOUR_MS)
        checked_whole(self.relevance_timeout_ms, "relevance_timeout_ms", 1, _HOUR_MS)


BOOKKEEPING = ("write_todos", "search_memory", "manage_memory", "complete_reminder")
"""Tools by which an agent keeps its list of tasks (LangChain's) and its memory (this package's):
their calls teach nothing, and what they answer is known already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrchestratorSettings:
    """How a turn goes about: the specification's configuration of the memory orchestrator.

    Raises:
        ConfigurationError: for a value that cannot work; the message begins with its key.
    """

    default_filters: Mapping[str, Any] = field(default_factory=dict)
    """Options of `get_context` that hold for every recall of a turn: `agent_id`, `tags`, ….
    Filters of a call go over them."""
    enable_tool_tracking: bool = True
    """Whether tool calls are kept as memories."""
    untracked_tools: Sequence[str] = BOOKKEEPING
    """Tools whose calls are not kept, by name."""
    enable_skill_extraction: bool = True
    """Whether a commit looks for skills in what the project's turns called."""

    def __post_init__(self) -> None:
        """Check what a caller may have set."""
        if not isinstance(self.default_filters, Mapping):
            raise ConfigurationError(
                f"default_filters is a mapping of options, not {short(self.default_filters)}"
            )
        check_known(self.default_filters, RECALL_OPTIONS, "default_filters")
        names = self.untracked_tools
        if isinstance(names, str) or not isinstance(names, Iterable):
            raise ConfigurationError(f"untracked_tools is a list of names, not {short(names)}")
        object.__setattr__(self, "untracked_tools", tuple(names))
        if not all(isinstance(one, str) for one in self.untracked_tools):
            raise ConfigurationError(f"untracked_tools is a list of names, not {short(names)}")
        for key in ("enable_tool_tracking", "enable_skill_extraction"):
            if not isinstance(getattr(self, key), bool):
                raise ConfigurationError(f"{key} is true or false, not {short(getattr(self, key))}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PromotionSettings:
    """What a memory must have shown to become long_term: the specification's `memory.promotion`.

    Access count, success rate and age must exceed their thresholds; the number of projects must
    reach its own.

    Raises:
        ConfigurationError: for a value that cannot work; the message begins with its key.
    """

    min_access_count: int = 5
    """Accesses to exceed (specification: more than 5)."""
    min_success_rate: float = 0.8
    """Share of the runs it was applied in to exceed (specification: more than 80 %)."""
    min_age_days: float = 7
    """Days to exceed (specification: older than 7)."""
    min_projects: int = 2
    """Projects it was used in (specification: 2 or more, in its table of criteria alone)."""

    def __post_init__(self) -> None:
        """Check what a caller may have set."""
        checked_whole(self.min_access_count, "min_access_count", 0, _MAX_COUNT)
        _number(self.min_success_rate, "min_success_rate", 0, 1)
        _number(self.min_age_days, "min_age_days", 0, _MAX_DAYS)
        checked_whole(self.min_projects, "min_projects", 1, _MAX_COUNT)


_HOUR_MS = 3_600_000
_MAX_COUNT = 1_000_000
_MAX_DAYS = 36_500


def _model_name(value: object, key: str) -> None:
    if value is not None and not (isinstance(value, str) and value.strip()):
        raise ConfigurationError(
            f"{key} names a model, such as 'provider:model', or is null, not {value!r}"
        )


def _number(value: object, key: str, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise ConfigurationError(f"{key} is a number from {low} to {high:,}, not {value!r}")
