"""The options of a recall, and of a memory to be stored."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from inspect import Parameter, getdoc, signature
from typing import Any, Final, Literal, TypedDict, TypeVar

from langmem_tiers.core.memory import Tier

Verb = TypeVar("Verb", bound=Callable[..., Any])


class RecallOptions(TypedDict, total=False):
    """The options of every recall.

    Options:
        tiers: Where to look; all three if not given.
        memory_types: Only these types.
        tags: Only memories that have all of these.
        agent_id: Only what this agent remembered.
        limit: Memories at most, 0 to 1,000; if not given, the settings'
            `max_context_items`, which is 10 unless set; 50 at least with `max_tokens` and
            no `review`.
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
        min_match: The least match of what is returned, from 0 to 1, or two such numbers: by
            itself, and as a share of the best one's. Above 0, what memory cannot help with, such
            as thanks or a sum, gets nothing but what was learned. By default `DEFAULT_FLOOR`, in
            which what stands alone has a chance and a floor of its own; 0 leaves nothing out.
        exclude: Keys of memories that are not wanted, such as those of what the model sees anyway.
        review: Let the coordinator's reviewers score three times the `limit` for relevance,
            and return the best by that: `model` asks its `review_model`, `own` the functions of
            reviewers of one's own (docs/review.md). Nobody reviews if not given.
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
    min_match: float | tuple[float, float] | None
    exclude: Iterable[str]
    review: Literal["own", "model"] | None


RECALL_DEFAULTS: Final = {
    "tags": (),
    "exclude": (),
    "deduplicate": False,
    "similarity_threshold": 0.85,
}
"""The defaults of a recall's options; all others are None."""
RECALL_OPTIONS: Final = ("project_id", "session_id", *RecallOptions.__annotations__, "embedding")
"""The names of all options of `get_context`."""


class StoringOptions(TypedDict, total=False):
    """The options of a memory to be stored.

    Options:
        source: Who says so: `user`, `system`, `agent`, `tool`, `web`, or a name of one's own,
            which is trusted as `unknown` is unless the gate's policy says otherwise.
        trust: How far it is trusted at most, from 0 to 1: as far as its source, if that is less.
        tier: Where it goes; the type's own tier if not given.
        personal: Whether it is the own of the context's user, and told to nobody else; as its type
            says, if not given.
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
        pinned: Whether it is shown in every context of its user or project; see `pin`.
        key: A key of one's own, under which storing again replaces it; else a new UUID.
        recalled: What was recalled in this run, as texts or recollections. The store adds what the
            same tenant, user and project recalled in the last hour. A memory that repeats any of
            it is no new evidence.
    """

    source: str
    trust: float | None
    tier: Tier | str | None
    personal: bool | None
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
    pinned: bool
    key: str | None
    recalled: Iterable[object]


STORING_DEFAULTS: Final = {
    "source": "user",
    "pinned": False,
    **dict.fromkeys(("tags", "derived_from", "entities", "recalled"), ()),
}
"""The defaults of a memory's options; all others are None."""


def document_options(options: Any, defaults: Mapping[str, object]) -> Callable[[Verb], Verb]:
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
