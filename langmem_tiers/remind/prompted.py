"""What a prompt intends: how much it matters, and what it waits for.

By the specification's keywords and by what asks to be reminded, in English.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta
from typing import Final, NamedTuple

from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.reading import ends_of
from langmem_tiers.recall.question import Named, read_question
from langmem_tiers.remind.cue import DENIED, LEAD, read_cue, sentences
from langmem_tiers.remind.intentions import Priority
from langmem_tiers.remind.triggers import At, BeforeTool, If, Trigger, When

SESSION_STARTS: Final = "session_starts"
"""The predicate that what names no occasion waits for: a session that begins."""
MORNING: Final = time(9)
"""The hour of a day that is named without one, in UTC: our own choice."""

_TODO: Final = re.compile(r"\bto-?do\b", re.IGNORECASE)
_KEYWORD: Final = re.compile(r"\b(?:to-?do|later|needs? to|plan(?:ning)? to)\b", re.IGNORECASE)
"""The specification's keywords of prospective memory."""
_REMIND: Final = re.compile(r"\bremind|(?:\bnot|n['\u2019]t) (?:let \w+ )?forget\b", re.IGNORECASE)
"""What asks to be reminded, in a question too."""
_LOW: Final = re.compile(
    r"\b(?:no rush|not urgent|some ?day|when(?:ever)? you (?:get a chance|have time)"
    r"|low[- ]priority)\b|\[low\]",
    re.IGNORECASE,
)
_HIGH: Final = re.compile(
    r"\b(?:urgent|asap|immediately|critical|high[- ]priority)\b|\[high\]|!", re.IGNORECASE
)
_CUE: Final = re.compile(rf"{LEAD.pattern}\s+([^,;:.!?\n]+)", re.IGNORECASE)
_BEFORE: Final = r"\bbefore (?:\w+ ){{0,3}}?`?{name}(?:`|\b)"

_WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_UNITS: Final = ("minute", "hour", "day", "week")
_IN: Final = re.compile(rf"\b(?:in|after) (\d{{1,6}}|an?) ({'|'.join(_UNITS)})s?\b")
_MOST: Final = timedelta(days=3660)
_CLOCK: Final = re.compile(
    r"\b(?:(1[0-2]|0?[1-9])(?::([0-5]\d))? ?([ap])m|([01]?\d|2[0-3]):([0-5]\d))\b"
)
_DAY: Final = re.compile(rf"\b(?:(today)|(tomorrow)|({'|'.join(_WEEKDAYS)}))\b")
_PAST: Final = re.compile(r"\b(?:last|since) \w+")


class Intended(NamedTuple):
    """What a prompt intends."""

    priority: Priority
    trigger: Trigger
    content: str
    """The sentences that intend something, in their own words."""


def intended_in(
    prompt: str, now: datetime, *, tools: Iterable[str] = (), asked: bool = False
) -> Intended | None:
    """What a prompt intends; None if nothing.

    A question intends nothing, a request to be reminded does. Its trigger is the first of these
    that can be read from it: a tool of `tools` that something is to be done before; a time, in
    UTC, from `now` on; a cue ("when Anna mentions the budget"). Else it waits for a session to
    begin. With `asked` nothing is intended but what the prompt asks to be reminded of, or names a
    todo.

    Example:
        ```python
        from datetime import UTC, datetime
        from langmem_tiers.remind.prompted import intended_in

        now = datetime(2026, 3, 2, 9, tzinfo=UTC)
        found = intended_in("Urgent: I need to renew the certificate tomorrow at 5pm", now)
        assert (found.priority, str(found.trigger)) == ("high", "at 2026-03-03T17:00:00+00:00")
        ```
    """
    prompt = ends_of(prompt)
    found = [one for one in sentences(prompt) if _intends(one, asked=asked)]
    if not found:
        return None
    triggers = (_trigger(one, now, tuple(tools)) for one in found)
    trigger = next((one for one in triggers if one is not None), None)
    content = " ".join(one.strip() for one in found)
    return Intended(priority_of(prompt, content), trigger or If(SESSION_STARTS), content)


def priority_of(prompt: str, intended: str) -> Priority:
    """How much a prompt says that what it intends matters; `medium` if it does not say.

    An exclamation mark counts in what it intends alone.
    """
    if _LOW.search(prompt):
        return Priority.LOW
    if _HIGH.search(intended) or _HIGH.search(prompt.replace("!", ".")):
        return Priority.HIGH
    return Priority.MEDIUM


def _intends(sentence: str, *, asked: bool) -> bool:
    if _REMIND.search(sentence):
        return True
    if sentence.endswith("?"):
        return False
    keyword = _TODO if asked else _KEYWORD
    said = ((one, keyword.search(one)) for one in sentence.split(","))
    return any(found and not DENIED.search(one[: found.start()]) for one, found in said)


def _trigger(sentence: str, now: datetime, tools: tuple[str, ...]) -> Trigger | None:
    for name in tools:
        if re.search(_BEFORE.format(name=re.escape(name)), sentence, re.IGNORECASE):
            return BeforeTool(name)
    moment = moment_in(sentence, now)
    return _cue(_LOW.sub(" ", sentence)) if moment is None else At(moment)


def _cue(sentence: str) -> When | None:
    """The first clause that says enough to be recognised: two words at least."""
    for clause in _CUE.findall(sentence):
        cue = f"when {clause.strip()}"
        try:
            if len(read_cue(cue).stems) > 1:
                return When(cue)
        except InvalidInputError:  # it is too long
            continue
    return None


def moment_in(text: str, now: datetime) -> datetime | None:
    """The moment that a text names, in UTC; None if it names none that is still to come.

    A day without an hour stands for its morning, an hour without a day for the next such hour, a
    date without a year for the next such date, a month for its first day.
    """
    told = _PAST.sub(" ", text.lower())
    if found := _IN.search(told):
        number = int(found[1]) if found[1].isdigit() else 1
        span = timedelta(**{f"{found[2]}s": number})
        return now + span if timedelta() < span <= _MOST else None
    day, hour = _day(told, now), _hour(told)
    if day is None and hour is None:
        return None
    moment = datetime.combine(day or now.date(), hour or MORNING, UTC)
    if moment > now:
        return moment
    return moment + timedelta(days=1) if day is None else None


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
    return next((day for one in named if (day := _date(one, today)) is not None), None)


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
