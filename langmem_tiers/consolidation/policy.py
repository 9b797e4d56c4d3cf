"""Policies of a consolidation cycle, each of which can be switched off, and its schedule.

Pure functions decide by them which memories rise, and when a cycle is due.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated

from pydantic import StrictBool

from langmem_tiers.core.checks import number_between, record, validated_by, whole_between
from langmem_tiers.core.errors import ConfigurationError, InvalidInputError, short
from langmem_tiers.core.settings import MOST_DAYS, MOST_TIMES, RISE_ACCESSES, RISE_IMPORTANCE
from langmem_tiers.learning.promotion_policy import SPECIFIED, PromotionPolicy
from langmem_tiers.remember.new_memory import checked_text

BY_TIME = "the time has come"
"""The reason of a cycle that is due by its schedule, and not because of a thread."""


@record
class RisePolicy:
    """The conditions on which a memory rises from short_term to working. Each one suffices.

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
    """Return why a memory moves to working, in words that many share; None if it stays.

    The first condition that holds is the reason: it is important, it was read often, its session
    has ended. A memory without a stated importance is never important.
    """
    if importance is not None and importance >= policy.min_importance:
        return f"importance >= {policy.min_importance:g}"
    if access_count >= policy.min_access_count:
        return f"accesses >= {policy.min_access_count}"
    return "its session ended" if ended else None


@record
class MergePolicy:
    """The rules of merging: duplicates in a namespace live on in the oldest of them.

    Without a model, duplicates are texts that one speaker said twice in a row, minutes apart. They
    are equal but for case, white space and the end of a sentence. Other near memories are proposed
    in the report, or a named model decides on them.

    Raises:
        ConfigurationError: for a value that cannot work.
    """

    near_duplicate: Annotated[float, number_between(0, 1)] = 0.85
    """The least nearness of two proposed memories: their cosine, or their share of common words."""
    within_minutes: Annotated[float, number_between(0, MOST_DAYS * 24 * 60)] = 10
    """The most minutes between two equal texts that count as one: by the time when they happened,
    if that was told, else when they were stored."""


def _check_names(value: object, what: str) -> object:
    if isinstance(value, tuple) and all(isinstance(name, str) for name in value):
        return value
    raise ConfigurationError(f"{what} is a tuple of names, not {short(value)}")


@record
class SupersedePolicy:
    """The rules of superseding: a memory ends when a newer one of its namespace contradicts it.

    A named model says which of the nearest memories contradict. Without a model nothing ends: the
    report proposes them.

    Raises:
        ConfigurationError: for a value that cannot work.
    """

    memory_types: Annotated[tuple[str, ...], validated_by(_check_names)] = (
        "semantic",
        "learning",
        "relationship",
        "prospective",
    )
    """Types that say how things are. An event (`episodic`) does not stop having happened."""


def _check_name(value: object, what: str) -> object:
    try:
        return checked_text(value, what)
    except InvalidInputError as error:
        raise ConfigurationError(str(error)) from error


@record
class ArchivalPolicy:
    """The memories that leave the database for a file: old, hardly read and unimportant ones.

    The defaults are the agent-memory specification's, with its strict comparisons. A cycle takes a
    tenth of the tenant at most, the least valuable first: the least important, then the least read,
    then those whose last read is the oldest.

    Raises:
        ConfigurationError: for a value that cannot work.
    """

    url: Annotated[str, validated_by(_check_name)]
    """The directory of the files, as fsspec reads it: a path, `s3://bucket/memories`, …"""
    older_than_days: Annotated[float, number_between(0, MOST_DAYS)] = 180
    """Days since a memory was recorded or last changed; an archived one is older."""
    max_access_count: Annotated[int, whole_between(0, MOST_TIMES)] = 3
    """An archived memory has fewer accesses."""
    max_importance: Annotated[float, number_between(0, 1)] = 0.6
    """An archived memory is less important."""
    default_importance: Annotated[float, number_between(0, 1)] | None = None
    """The importance of a memory for which nobody stated one. None: it stays, however old and
    unread, as somebody may ask for it tomorrow."""
    agent_id: Annotated[str, validated_by(_check_name)] | None = None
    """The agent whose memories are archived; None archives those of the whole tenant."""
    max_share: Annotated[float, number_between(0, 1)] = 0.1
    """The share of the tenant's current memories that a cycle, or a call of `archive`, may take;
    1 takes all memories that the other conditions select."""


@record
class ConsolidationPolicy:
    """The parts of a cycle, in this order; None or False leaves a part out.

    Example:
        ```python
        from langmem_tiers import ArchivalPolicy, ConsolidationPolicy

        policy = ConsolidationPolicy(merge=None, archive=ArchivalPolicy(url="./archive"))
        ```
    """

    expiry: StrictBool = True
    """Remove expired memories."""
    rise: RisePolicy | None = RisePolicy()
    """Move memories from short_term to working."""
    merge: MergePolicy | None = MergePolicy()
    """Merge duplicates into one of them, with the evidence of all."""
    supersede: SupersedePolicy | None = SupersedePolicy()
    """End memories that newer ones contradict; they were true until then. Propose the memories that
    came from them."""
    promotion: PromotionPolicy | None = SPECIFIED
    """Promote memories to long_term by evidence; demote them if later outcomes turn."""
    decay: StrictBool = True
    """Bring the strength of each memory up to date: it halves in 30 days."""
    archive: ArchivalPolicy | None = None
    """Move unused memories into a file. None unless a directory is named."""


def _check_span(value: object, what: str) -> object:
    if isinstance(value, timedelta) and value > timedelta(0):
        return value
    raise ConfigurationError(f"{what} is a timedelta above zero, not {short(value)}")


@record
class ConsolidationSchedule:
    """The conditions on which a cycle is due; the first that holds starts one.

    One cycle makes up for all that were missed.

    Raises:
        ConfigurationError: for a value that cannot work, and if no condition is given.

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
    """Messages of a human on this thread since the last cycle; only messages that it still keeps
    count."""
    on_session_end: StrictBool = False
    """Start a cycle when a session ends: when `session_ended` of the state is true."""

    def __post_init__(self) -> None:
        """Refuse a schedule by which no cycle is ever due."""
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
    """Return why a cycle is due; None if none is.

    `last` is the beginning of the tenant's last cycle. If it is None, there was no cycle yet, and
    one that goes by time is due at once. `turns` are those of the thread since its own last cycle.
    """
    if schedule.on_session_end and session_ended:
        return "the session ended"
    if schedule.every_turns is not None and turns >= schedule.every_turns:
        return f"{turns} turns since the last cycle"
    if schedule.every is not None and not time_until_due(schedule.every, last, now):
        return BY_TIME
    return None


def time_until_due(every: timedelta, last: datetime | None, now: datetime) -> timedelta:
    """Return the time until the next cycle; zero if it is due, or overdue."""
    return timedelta(0) if last is None else max(timedelta(0), last + every - now)
