"""When a cycle is due: a pure rule over what a checkpoint remembers of the last one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from langmem_tiers.core.errors import ConfigurationError, short


@dataclass(frozen=True, slots=True, kw_only=True)
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

    every: timedelta | None = None
    """The time from the beginning of one cycle to that of the next."""
    every_turns: int | None = None
    """Messages of a human on this thread since the last cycle, of those that it still keeps."""
    on_session_end: bool = False
    """Whether the end of a session is a reason; the state's `session_ended` says so."""

    def __post_init__(self) -> None:
        """Check what a caller may have set."""
        every, turns = self.every, self.every_turns
        if every is None and turns is None and not self.on_session_end:
            raise ConfigurationError(
                "nothing is ever due: give every=timedelta(…), every_turns=…, or on_session_end"
            )
        if every is not None and not _is_span(every):
            raise ConfigurationError(f"every is a timedelta above zero, not {short(every)}")
        if turns is not None and not _is_count(turns):
            raise ConfigurationError(
                f"every_turns is a whole number of at least 1, not {short(turns)}"
            )


def _is_span(value: object) -> bool:
    return isinstance(value, timedelta) and value > timedelta(0)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def due(
    schedule: ConsolidationSchedule,
    last: Mapping[str, Any] | None,
    *,
    now: datetime,
    turns: int = 0,
    session_ended: bool = False,
) -> str | None:
    """Why a cycle is due, None if none is.

    `last` is the report of the last cycle, of which `started_at` (ISO 8601) is read; None if there
    was none yet, in which case whatever goes by time is due at once. `turns` are those since then.
    """
    if schedule.on_session_end and session_ended:
        return "the session ended"
    if schedule.every_turns is not None and turns >= schedule.every_turns:
        return f"{turns} turns since the last cycle"
    if schedule.every is not None and not until(schedule.every, last, now):
        return "the time has come"
    return None


def until(every: timedelta, last: Mapping[str, Any] | None, now: datetime) -> timedelta:
    """How long until the next cycle; zero if it is due, or overdue."""
    if last is None:
        return timedelta(0)
    started = datetime.fromisoformat(last["started_at"])
    return max(timedelta(0), started + every - now)
