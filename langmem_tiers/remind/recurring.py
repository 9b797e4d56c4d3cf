"""What recurs: rules of RFC 5545 (`FREQ=WEEKLY;BYDAY=MO`), read in a time zone."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from dateutil.rrule import rrule, rrulestr  # type: ignore[import-untyped]

from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError, short
from langmem_tiers.core.zones import zone_of

_RULE: Final = re.compile(r"[A-Z]+=[A-Z0-9,+-]{1,100}(?:;[A-Z]+=[A-Z0-9,+-]{1,100}){0,8}")
_PARTS: Final = frozenset(
    ("FREQ", "INTERVAL", "BYDAY", "BYMONTHDAY", "BYMONTH", "BYHOUR", "BYMINUTE", "BYSETPOS", "WKST")
)
_INTERVAL: Final = re.compile(r"[1-9]\d{0,2}")
_OFTEN: Final = frozenset(("HOURLY", "DAILY"))
_FREQUENCIES: Final = frozenset((*_OFTEN, "WEEKLY", "MONTHLY", "YEARLY"))


def checked_rule(rule: object) -> str:
    """A rule by which something recurs, at most once an hour, without an end.

    Raises:
        InvalidInputError: for anything else.
    """
    if not isinstance(rule, str):
        raise InvalidTypeError(f"a recurrence is a text, not {type(rule).__name__}")
    told = rule.removeprefix("RRULE:")
    if not _RULE.fullmatch(told) or not _is_known(dict(one.split("=") for one in told.split(";"))):
        raise InvalidInputError(
            f"{short(rule)} is no recurrence: use a rule of RFC 5545 such as "
            "'FREQ=WEEKLY;BYDAY=MO', with a FREQ from HOURLY to YEARLY, BYMONTH and BYMONTHDAY "
            "from WEEKLY on, and `expires_at` for its end"
        )
    try:
        rrulestr(told, dtstart=datetime(2026, 1, 1, tzinfo=UTC))
    except ValueError as error:
        raise InvalidInputError(f"{short(rule)} is no rule of RFC 5545: {error}") from error
    return told


def _is_known(parts: dict[str, str]) -> bool:
    """Whether it comes again soon enough to be found: what never does is sought for long."""
    often = parts.get("FREQ") in _OFTEN and not parts.keys().isdisjoint(("BYMONTH", "BYMONTHDAY"))
    return (
        parts.keys() <= _PARTS
        and parts.get("FREQ") in _FREQUENCIES
        and bool(_INTERVAL.fullmatch(parts.get("INTERVAL", "1")))
        and not often
    )


def next_time(rule: str, since: datetime, after: datetime, zone: str) -> datetime | None:
    """The first time after a moment by a rule that holds since one; None if there is none."""
    times: rrule = rrulestr(rule, dtstart=since.astimezone(zone_of(zone)))
    found: datetime | None = times.after(after)
    return None if found is None else found.astimezone(UTC)
