"""When something is to be done, as a text says it: a moment, or a rule by which it recurs.

Days and hours are those of the time zone that now is given in.
"""

from __future__ import annotations

import re
from calendar import monthrange
from datetime import UTC, date, datetime, time, timedelta
from typing import Final

from langmem_tiers.recall.question import Named, read_question
from langmem_tiers.remind.recurring import next_time
from langmem_tiers.remind.triggers import At

START: Final = time()
"""The hour of a day that is named without one: what is for a day is told all day."""

_WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_CODES: Final = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
"""Weekdays in the rules of RFC 5545."""
_ORDER: Final = ("FREQ", "INTERVAL", "BYDAY", "BYMONTH", "BYMONTHDAY")
_UNITS: Final = ("minute", "hour", "day", "week")
_FREQUENCIES: Final = {
    "hour": "HOURLY",
    "day": "DAILY",
    "week": "WEEKLY",
    "month": "MONTHLY",
    "year": "YEARLY",
}
_IN: Final = re.compile(rf"\b(?:in|after) (\d{{1,6}}|an?) ({'|'.join(_UNITS)})s?\b")
_MOST: Final = timedelta(days=3660)
_CLOCK: Final = re.compile(
    r"\b(?:(1[0-2]|0?[1-9])(?::([0-5]\d))? ?([ap])m|([01]?\d|2[0-3]):([0-5]\d))\b"
)
_DAY: Final = re.compile(rf"\b(?:(today)|(tomorrow)|({'|'.join(_WEEKDAYS)}))\b")
_PAST: Final = re.compile(r"\b(?:last|since) (?!day of)\w+")
_EVERY: Final = re.compile(
    rf"\b(?:every|each) (?:(other|[1-9]\d?) )?"
    rf"(?:(weekday)|({'|'.join(_WEEKDAYS)})|({'|'.join(_FREQUENCIES)}))s?\b"
)
_REGULARLY: Final = re.compile(
    rf"\b({'|'.join(map(str.lower, _FREQUENCIES.values()))})\b(?=\W*$|[.,;:!?]| (?:at|on|to)\b)"
)
_WEEKLY: Final = re.compile(rf"\b({'|'.join(_WEEKDAYS)})s\b")
_END: Final = re.compile(r"\b(?:end|last day) of (?:the |this |each |every )?(month|year)\b")
_DAY_OF_MONTH: Final = re.compile(
    r"\b(?:on|by) the (3[01]|[12]?\d)(?:st|nd|rd|th)\b(?! (?!at\b)\w)"
)
_PLACE: Final = re.compile(r"\bthe (3[01]|[12]?\d)(?:st|nd|rd|th)\b")


def time_in(text: str, now: datetime) -> At | None:
    """When a text says that something is to be done; None if it names no time still to come.

    Example:
        ```python
        from datetime import UTC, datetime
        from langmem_tiers.remind.times import time_in

        monday = datetime(2026, 3, 2, 10, tzinfo=UTC)
        assert str(time_in("Check the backups every Monday", monday)) == (
            "at 2026-03-09T00:00:00+00:00, FREQ=WEEKLY;BYDAY=MO in UTC"
        )
        ```
    """
    told = _PAST.sub(" ", text.lower())
    rule, zone = _rule(told), getattr(now.tzinfo, "key", "UTC")
    if rule is None:
        moment = moment_in(text, now)
        return None if moment is None else At(moment, timezone=zone)
    day = _day(told, now) if rule.startswith("FREQ=YEARLY") else None
    since = datetime.combine(day or now.date(), _hour(told) or START, now.tzinfo)
    if rule.startswith("FREQ=HOURLY"):
        since = now
    first = next_time(rule, since, now, zone)
    return None if first is None else At(first, rule, zone)


def moment_in(text: str, now: datetime) -> datetime | None:
    """The moment that a text names, in UTC; None if it names none that is still to come.

    A day without an hour stands for its start, also if that is today; an hour without a day for the
    next such hour, a date without a year for the next such date, a month for its first day.
    """
    told = _PAST.sub(" ", text.lower())
    if found := _IN.search(told):
        number = int(found[1]) if found[1].isdigit() else 1
        span = timedelta(**{f"{found[2]}s": number})
        return now.astimezone(UTC) + span if timedelta() < span <= _MOST else None
    day, hour = _day(told, now), _hour(told)
    if day is None and hour is None:
        return None
    moment = datetime.combine(day or now.date(), hour or START, now.tzinfo)
    if moment <= now and day is None:
        moment += timedelta(days=1)
    return moment.astimezone(UTC) if moment > now or hour is None else None


def _rule(told: str) -> str | None:
    """The rule by which a text says that something recurs."""
    parts = _recurs(told)
    if not parts:
        return None
    parts = {**_within(parts["FREQ"], told), **parts}
    return ";".join(f"{name}={parts[name]}" for name in sorted(parts, key=_ORDER.index))


def _recurs(told: str) -> dict[str, str]:
    """How often; with the weekday, where that says it."""
    if found := _EVERY.search(told):
        number, weekdays, weekday, unit = found.groups()
        parts = {"FREQ": _FREQUENCIES.get(unit, "WEEKLY")}
        if weekdays or weekday:
            parts["BYDAY"] = ",".join(_CODES[:5]) if weekdays else _code(weekday)
        return {**parts, "INTERVAL": "2" if number == "other" else number} if number else parts
    if found := _REGULARLY.search(told):
        return {"FREQ": found[1].upper()}
    found = _WEEKLY.search(told)
    return {"FREQ": "WEEKLY", "BYDAY": _code(found[1])} if found else {}


def _within(frequency: str, told: str) -> dict[str, str]:
    """On which day of a week, a month or a year, if it says so."""
    day, place, end = _DAY.search(told), _PLACE.search(told), _END.search(told)
    match frequency:
        case "WEEKLY" if day and day[3]:
            return {"BYDAY": _code(day[3])}
        case "MONTHLY" if place or end:
            return {"BYMONTHDAY": place[1] if place else "-1"}
        case "YEARLY" if end:
            return {"BYMONTH": "12", "BYMONTHDAY": "31"}
    return {}


def _code(weekday: str) -> str:
    return _CODES[_WEEKDAYS.index(weekday)]


def _hour(told: str) -> time | None:
    found = _CLOCK.search(told)
    if found is None:
        return None
    if found[4]:
        return time(int(found[4]), int(found[5]))
    return time(int(found[1]) % 12 + 12 * (found[3] == "p"), int(found[2] or 0))


def _day(told: str, now: datetime) -> date | None:
    today = now.date()
    if found := _DAY.search(told):
        if found[3]:
            ahead = (_WEEKDAYS.index(found[3]) - today.weekday() - 1) % 7 + 1
            return today + timedelta(days=ahead)
        return today + timedelta(days=1 if found[2] else 0)
    times = read_question(told, now).times
    named = (one for one in times if isinstance(one, Named))
    if dated := next((day for one in named if (day := _date(one, today)) is not None), None):
        return dated
    if found := _END.search(told):
        month = 12 if found[1] == "year" else today.month
        return date(today.year, month, monthrange(today.year, month)[1])
    return _of_month(int(found[1]), today) if (found := _DAY_OF_MONTH.search(told)) else None


def _date(one: Named, today: date) -> date | None:
    """The next day of that name, the first of a month; None if there is none, or it is past."""
    if one.month is None or (one.day is None and one.month == today.month):
        return None
    for year in (one.year,) if one.year else (today.year, today.year + 1):
        try:
            day = date(year, one.month, one.day or 1)
        except ValueError:
            continue
        if day >= today:
            return day
    return None


def _of_month(number: int, today: date) -> date | None:
    """The next day of the month with that number."""
    for ahead in range(3):
        years, month = divmod(today.month - 1 + ahead, 12)
        if number <= monthrange(today.year + years, month + 1)[1]:
            day = date(today.year + years, month + 1, number)
            if day >= today:
                return day
    return None
