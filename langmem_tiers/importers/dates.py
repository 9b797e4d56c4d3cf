"""Dates as files write them, turned into ISO 8601 in UTC."""

import re
from datetime import UTC, datetime, timedelta

from langmem_tiers.core.errors import InvalidInputError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_TEXT = re.compile(r"\d{9,10}(\.\d+)?")
_SPOKEN = re.compile(
    r"(?:(?P<hour>\d{1,2}):(?P<minute>\d{2})\s*(?P<half>[ap])m\s+on\s+)?"
    r"(?P<day>\d{1,2})\s+(?P<month>[a-z]+),?\s+(?P<year>\d{4})",
    re.IGNORECASE | re.ASCII,
)
# Month names are spelled out because strptime's depend on the machine's locale.
_MONTHS = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip


def utc_date(written: object) -> str:
    """Return a date as ISO 8601 in UTC; one without a time zone is taken to be in UTC.

    Read are ISO 8601, seconds since 1970 and "1:56 pm on 8 May, 2023".
    Raises `InvalidInputError` for anything else.
    """
    try:
        return _moment(written).astimezone(UTC).isoformat()
    except (ValueError, OverflowError) as error:
        raise InvalidInputError(
            f"the date {written!r} cannot be read; write it as ISO 8601 "
            "(2023-05-08T13:56:00Z) or as seconds since 1970"
        ) from error


def _moment(written: object) -> datetime:
    if isinstance(written, int | float) and not isinstance(written, bool):
        return _EPOCH + timedelta(seconds=written)
    if not isinstance(written, str):
        raise InvalidInputError("a date is text or a number")
    text = written.strip()
    if _EPOCH_TEXT.fullmatch(text):
        return _EPOCH + timedelta(seconds=float(text))
    moment = _spoken(text) or datetime.fromisoformat(text.upper())
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _spoken(text: str) -> datetime | None:
    found = _SPOKEN.fullmatch(text)
    if found is None:
        return None
    month = _MONTHS.index(found["month"].lower()) + 1
    year, day, minute = int(found["year"]), int(found["day"]), int(found["minute"] or 0)
    return datetime(year, month, day, _hour(found), minute, tzinfo=UTC)


def _hour(found: re.Match[str]) -> int:
    if found["hour"] is None:
        return 0
    hour = int(found["hour"])
    if hour not in range(1, 13):
        raise InvalidInputError("a twelve-hour clock has no such hour")
    return hour % 12 + (12 if found["half"].lower() == "p" else 0)
