"""What a cycle of consolidation does, each part of it a policy that can be switched off, and when.

What rises, and when a cycle is due, are pure rules over these.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated

from pydantic import StrictBool

from langmem_tiers.core.checks import number_between, record, validated_by, whole_between
from langmem_tiers.core.errors import ConfigurationError, InvalidInputError, short
from langmem_tiers.core.settings import MOST_DAYS, MOST_TIMES, RISE_ACCESSES, RISE_IMPORTANCE
from langmem_tiers.learn.promotion_rules import SPECIFIED, PromotionPolicy
from langmem_tiers.remember.new import checked_text

BY_TIME = "the time has come"
"""Why a cycle is due that no thread asks for itself."""


@record
class RisePolicy:
    """What of short_term belongs to the project: it moves to working. Any one of these suffices.

    Raises:
        ConfigurationError: for a value that cannot work.
    """

    min_importance: Annotated[float, number_between(0, 1)] = RISE_IMPORTANCE
    """Importance to reach, in 0…1."""
    min_access_count: Annotated[int, whole_between(0, MOST_TIMES)] = RISE_ACCESSES
    """Accesses to reach."""


def rise_reason(
    policy: RisePolicy, importance: float | None, access_count: int, *, ended: bool = False
) -> str | None:
    """Why a memory moves to working, in words that many share; None if it stays.

    The first of these that holds: it is important, it was read often, its session has ended. An
    importance that nobody told is never enough.
    """
    if importance is not None and importance >= policy.min_importance:
        return f"importance >= {policy.min_importance:g}"
    if access_count >= policy.min_access_count:
        return f"accesses >= {policy.min_access_count}"
    return "its session ended" if ended else None


@record
class MergePolicy:
    """What says the same in one namespace lives on in the oldest of it.

    Without a model that is what one speaker said twice in a row: equal texts, but for case, white
    space and what ends a sentence, minutes apart. What is near may say the same: it is proposed in
    the report; a model that is named decides on that.

    Raises:
        ConfigurationError: for a value that cannot work.
    """

    near_duplicate: Annotated[float, number_between(0, 1)] = 0.85
    """How near two memories must be to be proposed: their cosine, or the share of words that they
    have in common."""
    within_minutes: Annotated[float, number_between(0, MOST_DAYS * 24 * 60)] = 10
    """How far apart the same may be said to be said once: by when it happened, if that was told,
    else by when it was stored."""


def _check_names(value: object, what: str) -> object:
    if isinstance(value, tuple) and all(isinstance(name, str) for name in value):
        return value
    raise ConfigurationError(f"{what} is a tuple of names, not {short(value)}")


@record
class SupersedePolicy:
    """What a newer memory of the same namespace contradicts is true until then, and no longer.

    A model that is named says which of the nearest do. Without one nothing is ended: they are
    proposed in the report.

    Raises:
        ConfigurationError: for a value that cannot work.
    """

    memory_types: Annotated[tuple[str, ...], validated_by(_check_names)] = (
        "semantic",
        "learning",
        "relationship",
        "prospective",
    )
    """Types that say how things are. What happened (`episodic`) does not stop having happened."""


def _check_name(value: object, what: str) -> object:
    try:
        return checked_text(value, what)
    except InvalidInputError as error:
        raise ConfigurationError(str(error)) from error


@record
class ArchivalPolicy:
    """What leaves the database for a file: old, hardly read, and said to be unimportant.

    The defaults of what that means are the agent-memory specification's, with its strict
    comparisons. However much is meant, a cycle takes a tenth of the tenant at most, the least
    valuable first: the least important, then the least read, then what was longest left alone.

    Raises:
        ConfigurationError: for a value that cannot work.
    """

    url: Annotated[str, validated_by(_check_name)]
    """The directory of the files, as fsspec reads it: a path, `s3://bucket/memories`, …"""
    older_than_days: Annotated[float, number_between(0, MOST_DAYS)] = 180
    """Days since it was recorded, or changed if it was, to exceed."""
    max_access_count: Annotated[int, whole_between(0, MOST_TIMES)] = 3
    """Fewer accesses than this."""
    max_importance: Annotated[float, number_between(0, 1)] = 0.6
    """Less important than this."""
    default_importance: Annotated[float, number_between(0, 1)] | None = None
    """As how important a memory counts whose importance nobody told. None: it stays, however old
    and unread; what was said once and never asked for may be asked for tomorrow."""
    agent_id: Annotated[str, validated_by(_check_name)] | None = None
    """Memories of this agent alone; of the whole tenant if not given."""
    max_share: Annotated[float, number_between(0, 1)] = 0.1
    """Of the tenant's current memories, the share that a cycle, or a call of `archive`, may take;
    1 takes all that is meant."""


@record
class ConsolidationPolicy:
    """What a cycle does, in this order; None or False leaves a part out.

    Example:
        ```python
        from langmem_tiers import ArchivalPolicy, ConsolidationPolicy

        policy = ConsolidationPolicy(merge=None, archive=ArchivalPolicy(url="./archive"))
        ```
    """

    expiry: StrictBool = True
    """Remove what has expired."""
    rise: RisePolicy | None = RisePolicy()
    """short_term to working: the row moves."""
    merge: MergePolicy | None = MergePolicy()
    """What says the same lives on in one of them, with the evidence of all."""
    supersede: SupersedePolicy | None = SupersedePolicy()
    """Newer memories end those that they contradict, which were true until then; memories that came
    from these are proposed."""
    promotion: PromotionPolicy | None = SPECIFIED
    """working to long_term, by evidence; and back, where later outcomes turn."""
    decay: StrictBool = True
    """Bring the strength of each memory up to date: it halves in 30 days."""
    archive: ArchivalPolicy | None = None
    """What nobody asks for leaves for a file. None unless a directory is named."""


def _check_span(value: object, what: str) -> object:
    if isinstance(value, timedelta) and value > timedelta(0):
        return value
    raise ConfigurationError(f"{what} is a timedelta above zero, not {short(value)}")


@record
class ConsolidationSchedule:
    """When to consolidate: whichever of these comes first.

    Cycles that were missed are caught up by one.

    Raises:
        ConfigurationError: for a value that cannot work, and where nothing is given.

    Example:
        ```python
        from datetime import timedelta

        from langmem_tiers import ConsolidationSchedule

        schedule = ConsolidationSchedule(every=timedelta(hours=6), every_turns=20)
        ```
    """

    every: Annotated[timedelta, validated_by(_check_span)] | None = None
    """The time from the beginning of one cycle of the tenant to that of the next, whoever runs
    them."""
    every_turns: Annotated[int, whole_between(1, MOST_TIMES)] | None = None
    """Messages of a human on this thread since the last cycle, of those that it still keeps."""
    on_session_end: StrictBool = False
    """Whether the end of a session is a reason; the state's `session_ended` says so."""

    def __post_init__(self) -> None:
        """Refuse a schedule by which nothing is ever due."""
        if self.every is None and self.every_turns is None and not self.on_session_end:
            raise ConfigurationError(
                "nothing is ever due: give every=timedelta(…), every_turns=…, or on_session_end"
            )


def due_reason(
    schedule: ConsolidationSchedule,
    last: datetime | None,
    *,
    now: datetime,
    turns: int = 0,
    session_ended: bool = False,
) -> str | None:
    """Why a cycle is due, None if none is.

    `last` is when the tenant's last cycle began; None if there was none yet, in which case whatever
    goes by time is due at once. `turns` are those of the thread since its own last one.
    """
    if schedule.on_session_end and session_ended:
        return "the session ended"
    if schedule.every_turns is not None and turns >= schedule.every_turns:
        return f"{turns} turns since the last cycle"
    if schedule.every is not None and not time_until_due(schedule.every, last, now):
        return BY_TIME
    return None


def time_until_due(every: timedelta, last: datetime | None, now: datetime) -> timedelta:
    """How long until the next cycle; zero if it is due, or overdue."""
    return timedelta(0) if last is None else max(timedelta(0), last + every - now)
