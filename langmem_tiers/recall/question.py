"""Read a question's clues about its answer: who, when, and which side of the conversation.

A repeated question holds no answer. The statement `recall` goes by the same rule, in the database,
so that no repetition takes an answer's place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property, lru_cache
from typing import Any, Final, NamedTuple

from langmem_tiers.core.memory import ROLES
from langmem_tiers.core.texts import fold_case
from langmem_tiers.core.values import SMALL_TALK
from langmem_tiers.recall.message_intent import memory_need

MONTHS: Final = """january february march april may june july august september october november
december""".split()  # noqa: SIM905 - read as prose
_MONTH = {name: i for i, name in enumerate(MONTHS, 1)}
_MONTH |= {name[:3]: i for name, i in _MONTH.items() if name != "may"} | {"sept": 9}
WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_NUMBERS = {"a": 1, "an": 1, "one": 1, "two": 2, "a couple of": 2, "three": 3, "a few": 3}
_NUMBERS |= {"four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10}
_NUMBERS |= {"eleven": 11, "twelve": 12}

_ANY_MONTH = "|".join(_MONTH)
_DAY_MONTH = re.compile(rf"\b(\d{{1,2}})(?:st|nd|rd|th)?(?: of)? ({_ANY_MONTH})\b,?(?: (\d{{4}}))?")
_MONTH_DAY = re.compile(rf"\b({_ANY_MONTH}) (\d{{1,2}})(?:st|nd|rd|th)?\b,?(?: (\d{{4}}))?(?!\d)")
_ISO_DAY = re.compile(r"\b((?:19|20)\d\d)-(\d\d)-(\d\d)\b")
_DOTTED_DAY = re.compile(r"\b(\d{1,2})\.(\d{1,2})\.((?:19|20)\d\d)\b")
_IN_MONTH = re.compile(
    r"\b(?:in|during|of|since|by|until|early|late|mid|last|this|for)[ -]"
    rf"({_ANY_MONTH})\b,?(?: (?:of )?(\d{{4}}))?|\b({_ANY_MONTH}),? (\d{{4}})"
)
_IN_YEAR = re.compile(r"\b(?:in|during) ((?:19|20)\d\d)\b")
_RELATIVE = re.compile(
    r"\b(?:(today|yesterday)|(last|this) (week|month|year)"
    rf"|(last|on) ({'|'.join(WEEKDAYS)})"
    rf"|(\d{{1,3}}|{'|'.join(sorted(_NUMBERS, key=len, reverse=True))}) "
    r"(day|week|month|year)s? ago)\b"
)

_TELLING = (
    r"(said|say|told|tell|suggest\w*|recommend\w*|mention\w*|gave|give|list\w*|provid\w*"
    r"|explain\w*|wrote|write|advis\w*|describ\w*|shared?|propos\w*|taught|bring up|brought"
    r"|point\w*|call\w*|made|make|creat\w*)"
)
_ABOUT_ASSISTANT = re.compile(
    rf"\byou\b(?:'d|'ve| had| have| also| just)? {_TELLING}\b"
    r"|\b(remind me|(previous|earlier|last|past) (chat|conversation|discussion)"
    r"|we (talked|discussed|spoke|chatted))\b"
    r"|\byour (suggestion|recommendation|advice|answer|list|response|explanation)",
    re.IGNORECASE,
)
_WANTS_TIME = re.compile(
    r"\b(when|what (date|day|time|month|year)|which (date|day|month|year)"
    r"|how (long|many (days|weeks|months|years|hours))|how (old|often|recently)|since when)\b",
    re.IGNORECASE,
)
_ASKS = re.compile(
    r"(who|whom|whose|what|which|when|where|why|how|is|are|was|were|do|does|did|has|have|had)\b",
    re.IGNORECASE,
)
_NAME = re.compile(r"(?<=[\w,;:] )[A-Z][a-z]+")
_CALENDAR = frozenset((*_MONTH, *WEEKDAYS))
_NO_NAMES = frozenset(["the", "and", "for", "all", "our", "other", "from", "with", "will", "who"])


_HEADING = 40
"""Characters at the beginning of a text in which its date stands."""
_MONTH_DAYS = 31
_SOME_DAY = date(2000, 1, 1)
"""Day from which relative times are counted where none of them is wanted."""


class DayRange(NamedTuple):
    """Days from the first to the last, both included."""

    first: date
    last: date


class NamedDate(NamedTuple):
    """Date as a question names it; parts that it leaves open are None."""

    year: int | None
    month: int | None
    day: int | None


@dataclass(frozen=True, kw_only=True)
class Question:
    """Clues of a question, read once."""

    text: str
    asks: bool
    """True for a question, False for a statement."""
    about_assistant: bool
    wants_time: bool
    times: tuple[DayRange | NamedDate, ...]
    days: tuple[DayRange, ...]
    """Days that it names, in ranges of up to a month; without a year, of this year and the last."""
    words: frozenset[str]
    names: frozenset[str]
    """Capitalised words inside its sentences, in lower case."""

    @cached_property
    def needs(self) -> float:
        """Return the logarithm of odds that its words need memory; 0 if they are unknown."""
        return memory_need(self.text)


@lru_cache(maxsize=256)
def read_question(text: str, today: date) -> Question:
    """Read a question asked on that day."""
    lower = text.lower()
    times = tuple(_find_times(lower, today))
    return Question(
        text=text,
        asks=is_question(text),
        about_assistant=bool(_ABOUT_ASSISTANT.search(text)),
        wants_time=bool(_WANTS_TIME.search(text)),
        times=times,
        days=tuple(_named_days(times, today)),
        words=frozenset(re.findall(r"[a-z]+", lower)),
        names=frozenset(map(str.lower, _NAME.findall(text))) - _CALENDAR,
    )


@lru_cache(maxsize=1024)
def name_words(speaker: str) -> frozenset[str]:
    """Return the words by which a speaker can be named; roles are no names."""
    if speaker.lower() in ROLES:
        return frozenset()
    words = re.findall(r"[a-z]+", speaker.lower())
    return frozenset(word for word in words if len(word) > 2) - _NO_NAMES  # noqa: PLR2004 - "Al"


def days_from_nearest(times: Iterable[DayRange | NamedDate], when: date) -> int | None:
    """Return the days from the nearest of these times to `when`: negative before, 0 within it.

    A time without a year stands for the nearest such time.
    """
    years = (when.year - 1, when.year, when.year + 1)
    gaps = [
        (when - days.first).days if when < days.first else max(0, (when - days.last).days)
        for time in times
        for days in _day_ranges(time, years)
    ]
    return min(gaps, key=abs) if gaps else None


def _named_days(times: Iterable[DayRange | NamedDate], today: date) -> Iterator[DayRange]:
    for time in times:
        if isinstance(time, DayRange) or time.month:
            for days in _day_ranges(time, (today.year - 1, today.year)):
                if (days.last - days.first).days <= _MONTH_DAYS:
                    yield days


def leading_date(text: str) -> date | None:
    """Return the day that begins a text, such as `[8 May 2023] …`, or None."""
    for time in _find_times(text[:_HEADING].lower(), _SOME_DAY):
        if isinstance(time, NamedDate) and time.year and time.month:
            return next((days.first for days in _day_ranges(time, ())), None)
    return None


def _find_times(text: str, today: date) -> list[DayRange | NamedDate]:
    """Return the days that are named, else months, else years; and all relative times."""
    days = [NamedDate(_int(m[3]), _MONTH[m[2]], int(m[1])) for m in _DAY_MONTH.finditer(text)]
    days += [NamedDate(_int(m[3]), _MONTH[m[1]], int(m[2])) for m in _MONTH_DAY.finditer(text)]
    days += [NamedDate(int(m[1]), int(m[2]), int(m[3])) for m in _ISO_DAY.finditer(text)]
    days += [NamedDate(int(m[3]), int(m[2]), int(m[1])) for m in _DOTTED_DAY.finditer(text)]
    months = [
        NamedDate(_int(m[2] or m[4]), _MONTH[m[1] or m[3]], None) for m in _IN_MONTH.finditer(text)
    ]
    years = [NamedDate(int(m[1]), None, None) for m in _IN_YEAR.finditer(text)]
    return [*(days or months or years), *_find_relative_days(text, today)]


def _int(text: str | None) -> int | None:
    return int(text) if text else None


def _find_relative_days(text: str, today: date) -> Iterator[DayRange]:
    for m in _RELATIVE.finditer(text):
        if m[1]:
            day = today - timedelta(days=m[1] == "yesterday")
            yield DayRange(day, day)
        elif m[3]:
            yield _period(m[3], today, back=m[2] == "last")
        elif m[5]:
            back = (today.weekday() - WEEKDAYS.index(m[5]) - 1) % 7 + 1
            day = today - timedelta(days=back)
            yield DayRange(day, day)
        else:  # a time in months or years is as vague as its unit
            length = {"day": 1, "week": 7, "month": 30, "year": 365}[m[7]]
            number = _NUMBERS.get(m[6]) or int(m[6])
            middle = today - timedelta(days=min(number * length, 36_500))
            yield DayRange(
                middle - timedelta(days=length // 2), middle + timedelta(days=length // 2)
            )


def _period(unit: str, today: date, *, back: bool) -> DayRange:
    """Return this week (from Monday), month or year so far, or the one before."""
    if unit == "week":
        first = today - timedelta(days=today.weekday() + 7 * back)
        return DayRange(first, first + timedelta(days=6))
    first = today.replace(day=1) if unit == "month" else today.replace(month=1, day=1)
    if not back:
        return DayRange(first, today)
    last = first - timedelta(days=1)
    return DayRange(last.replace(day=1) if unit == "month" else last.replace(month=1, day=1), last)


def _day_ranges(time: DayRange | NamedDate, years: Sequence[int]) -> Iterator[DayRange]:
    """Yield the days that a time means, in these years if it names none."""
    if isinstance(time, DayRange):
        yield time
        return
    for year in (time.year,) if time.year else years:
        with suppress(ValueError):
            first = date(year, time.month or 1, time.day or 1)
            if time.day:
                last = first
            elif time.month:
                last = date(year + time.month // 12, time.month % 12 + 1, 1)
            else:
                last = date(year, 12, 31)
            yield DayRange(first, last)


MARKS: Final = (
    ".,;:!?\"'`()[]{}<>*_…“”„‘’‚«»‹›¿¡"  # noqa: RUF001 - marks of other scripts
    "\u3001\u3002\uff0c\uff1a\uff01\uff1f\u061f\u060c"
)
"""Marks that make no difference between two askings of a question."""
_QUESTION_MARKS: Final = frozenset("?\uff1f\u061f")
REMINDER_SET: Final = "reminder_set"
"""Field that is True for a message of a turn in which a model set a reminder."""
TALKS: Final = 0.5
"""Chance from which on a message is small talk, and answers no question."""
FACTS: Final = [
    *("content", "text", "memory_type", "tags", "project_id", "session_id", "agent_id", "speaker"),
    *("role", "turn", "occurred_at", "valid_from", "valid_to", "importance", "entities", "source"),
    *("trust", "emotional_valence", "platform_source", "source_task", "category"),
    *(SMALL_TALK, REMINDER_SET),
]
"""Fields that may stand beside any text: none of them can answer what the text asks."""
_NO_MARKS: Final = str.maketrans("", "", MARKS)


def is_question(text: str) -> bool:
    """Tell whether a text asks: by a question mark of any script, or by its first word."""
    return not _QUESTION_MARKS.isdisjoint(text) or bool(_ASKS.match(text.strip()))


def is_repeated_question(value: Mapping[str, Any], query: str) -> bool:
    """Tell whether a value only repeats this question, perhaps behind the asker's name.

    A value with a field beyond those of any memory may hold the answer, and so may a note without a
    speaker.
    """
    plain, speaker = _without_marks(query), value.get("speaker")
    has_speaker = isinstance(speaker, str) and bool(speaker)
    if not plain or not value.keys() <= ({*FACTS, "metadata"} if has_speaker else {*FACTS}):
        return False
    texts = (value.get(name) for name in ("content", "text"))
    content = next((text for text in texts if isinstance(text, str) and text), "")
    names = {"", *ROLES, str(speaker).lower() if has_speaker else ""}
    return _without_marks(content) in {f"{name} {plain}".strip() for name in names} and (
        is_question(content) or is_question(query)
    )


def _without_marks(text: str) -> str:
    return fold_case(text.translate(_NO_MARKS))
