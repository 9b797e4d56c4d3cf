"""The moment that a text names, from now on: "tomorrow at 5pm", "in two hours", "by Friday"."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta
from typing import Final

from langmem_tiers.recall.question import Named, read_question

MORNING: Final = time(9)
"""The hour of a day that is named without one, in UTC: our own choice."""
_HOURS: Final = {
    "morning": MORNING,
    "noon": time(12),
    "midday": time(12),
    "afternoon": time(14),
    "evening": time(18),
    "tonight": time(20),
    "night": time(20),
    "end of the day": time(17),
    "end of day": time(17),
    "eod": time(17),
}
_WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_NUMBERS: Final = {"a": 1, "an": 1, "one": 1, "a couple of": 2, "two": 2, "a few": 3, "three": 3}
_NUMBERS.update({"four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10})
_MINUTES: Final = {"minute": 1, "min": 1, "hour": 60, "day": 1_440, "week": 10_080}
_MOST_MINUTES: Final = 10 * 366 * 1_440

_IN: Final = re.compile(
    rf"\b(?:in|after) (\d{{1,6}}|half an|{'|'.join(sorted(_NUMBERS, key=len, reverse=True))}) "
    r"(minute|min|hour|day|week)s?\b"
)
_CLOCK: Final = re.compile(r"\b(\d{1,2})(?::(\d{2}))? ?([ap])\.?m\b|\b(\d{1,2}):(\d{2})\b")
_PART: Final = re.compile(rf"\b({'|'.join(_HOURS)})\b")
_DAY: Final = re.compile(
    r"\b(?:(the day after tomorrow)|(tomorrow)|(today|tonight|this (?:morning|afternoon|evening)"
    r"|end of (?:the )?day|eod)"
    rf"|(?:(next|on|by|this|until|before|every|coming) )?({'|'.join(_WEEKDAYS)})s?"
    r"|(next) (week|month))\b"
)
_PAST: Final = re.compile(rf"\b(?:last (?:{'|'.join(_WEEKDAYS)}|week|month|night)|since \w+)\b")


def moment_in(text: str, now: datetime) -> datetime | None:
    """The moment that a text names, in UTC; None if it names none that is still to come.

    A day without an hour stands for its morning, an hour without a day for the next such hour, a
    date without a year for the next such date, a month for its first day.
    """
    told = _PAST.sub(" ", text.lower())
    if found := _IN.search(told):
        return _later(now, found)
    day, hour = _day(told, now), _hour(told)
    if day is None and hour is None:
        return None
    if day is None:
        moment = datetime.combine(now.date(), hour or MORNING, UTC)
        return moment if moment > now else moment + timedelta(days=1)
    moment = datetime.combine(day, hour or MORNING, UTC)
    return moment if moment > now else None


def _later(now: datetime, found: re.Match[str]) -> datetime | None:
    number = 0.5 if found[1] == "half an" else float(_NUMBERS.get(found[1]) or int(found[1]))
    minutes = number * _MINUTES[found[2]]
    return now + timedelta(minutes=minutes) if 0 < minutes <= _MOST_MINUTES else None


def _hour(told: str) -> time | None:
    for found in _CLOCK.finditer(told):
        number, minute, half = int(found[1] or found[4]), int(found[2] or found[5] or 0), found[3]
        if half:
            if not 1 <= number <= 12:  # noqa: PLR2004 - a clock's face
                continue
            number = number % 12 + (12 if half == "p" else 0)
        if number < 24 and minute < 60:  # noqa: PLR2004 - of a day and an hour
            return time(number, minute)
    part = _PART.search(told)
    return _HOURS[part[1]] if part else None


def _day(told: str, now: datetime) -> date | None:
    today = now.date()
    if found := _DAY.search(told):
        if found[1]:
            return today + timedelta(days=2)
        if found[2]:
            return today + timedelta(days=1)
        if found[3]:
            return today
        if found[5]:
            ahead = (_WEEKDAYS.index(found[5]) - today.weekday() - 1) % 7 + 1
            return today + timedelta(days=ahead)
        return _next(found[7], today)
    times = read_question(told.replace("before ", "by "), now).times
    named = (one for one in times if isinstance(one, Named))
    return next((day for one in named if (day := _date(one, today)) is not None), None)


def _next(unit: str, today: date) -> date:
    """The Monday of the next week, or the first of the next month."""
    if unit == "week":
        return today + timedelta(days=7 - today.weekday())
    return (today.replace(day=1) + timedelta(days=32)).replace(day=1)


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
