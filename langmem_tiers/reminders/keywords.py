"""Intentions in a prompt, by the four keywords of the specification, with priority and time.

The library `dateparser`, the extra `dates`, reads times. It takes words too literally, so each part
that it takes for a time is read again. These are no times: a moment that is past, a span that means
one moment before now and another after it ("5 minutes"), a month without its day, and a time of
which it ignored a number ("tomorrow at 9").
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, time
from threading import Lock
from typing import Any, Final, NamedTuple

from langmem_tiers.core.checks import checked_strings
from langmem_tiers.core.errors import InvalidInputError, MissingExtraError, short
from langmem_tiers.core.texts import head_and_tail, split_sentences
from langmem_tiers.reminders.intentions import Priority
from langmem_tiers.reminders.triggers import DENIED, At

SESSION_STARTS: Final = "session_starts"
"""The predicate for which an intention without a time waits: a session begins."""

_KEYWORD: Final = re.compile(r"\b(?:to-?do|later|needs? to|plan(?:ning)? to)\b", re.IGNORECASE)
_LOW: Final = re.compile(
    r"\b(?:no rush|not urgent|some ?day|when(?:ever)? you (?:get a chance|have time)"
    r"|low[- ]priority)\b|\[low\]",
    re.IGNORECASE,
)
_HIGH: Final = re.compile(
    r"\b(?:urgent|asap|immediately|critical|high[- ]priority)\b|\[high\]|!", re.IGNORECASE
)


class PromptIntention(NamedTuple):
    """The intention of a prompt."""

    priority: Priority
    content: str
    """The sentences that intend something, in their own words."""


def find_intention(prompt: str) -> PromptIntention | None:
    """Find the intention of a prompt: its sentences with a keyword; None if there is none.

    A question or a denial is no intention. If the prompt is long, only both its ends are read.

    Example:
        ```python
        from langmem_tiers.reminders.keywords import find_intention

        found = find_intention("Urgent: I need to renew the certificate. It is for the shop.")
        assert found == ("high", "Urgent: I need to renew the certificate.")
        assert find_intention("What do I need to do later?") is None
        ```
    """
    ends = head_and_tail(prompt)
    sentences = [sentence.strip() for sentence in split_sentences(ends) if _has_intention(sentence)]
    content = " ".join(sentences)
    return PromptIntention(_read_priority(ends, content), content) if sentences else None


def _has_intention(sentence: str) -> bool:
    if sentence.endswith("?"):
        return False
    clauses = ((clause, _KEYWORD.search(clause)) for clause in sentence.split(","))
    return any(
        keyword and not DENIED.search(clause[: keyword.start()]) for clause, keyword in clauses
    )


def _read_priority(prompt: str, intended: str) -> Priority:
    """Read the priority that a prompt gives its intention; `medium` if it gives none.

    An exclamation mark counts in the intention alone.
    """
    if _LOW.search(prompt):
        return Priority.LOW
    if _HIGH.search(intended) or _HIGH.search(prompt.replace("!", ".")):
        return Priority.HIGH
    return Priority.MEDIUM


DAY_START: Final = time()
"""The hour of a day that is named without one: a reminder for a day is raised all day."""
LANGUAGES: Final = ("en",)
"""The default languages of times."""
NO_EXTRA: Final = "times are read with dateparser: pip install 'langmem-tiers[dates]'"
NO_TIME: Final = "no time was read in it"
SEVERAL_TIMES: Final = "several times were read in it"
_MAX_CHARACTERS: Final = 1_000
"""The most characters that are read, from both ends, which takes some 25 ms: our own choice."""
_MIN_LETTERS: Final = 4
"""The fewest letters of a word that names a time; shorter words ("we", "sat") mostly mean something
else."""
_FIRST_UNSPACED: Final = "\u0e00"
"""The first sign of the scripts in which two signs are a word."""
_EXACT_PERIODS: Final = ("time", "part_of_day")
_DAY_PERIODS: Final = ("day", "week")
_NUMBER: Final = re.compile(r"\d+")
_WORD: Final = re.compile(r"[^\W\d_]+")
_PARSER_LOCK: Final = Lock()
"""A lock that is held while dateparser reads: it keeps data of languages between calls."""


class TimeReading(NamedTuple):
    """The time that was read in a text."""

    at: At | None
    reason: str | None = None
    """The reason if there is none."""


def checked_languages(languages: object) -> tuple[str, ...]:
    """Return the checked languages of times.

    Raises:
        InvalidInputError: for a value that is no list of languages that dateparser knows.
        MissingExtraError: for other languages than the default, without dateparser.
    """
    named = tuple(checked_strings(languages, "languages"))
    if named == LANGUAGES:
        return LANGUAGES
    if not named:
        raise InvalidInputError("languages is empty: name one at least, such as 'en'")
    try:
        from dateparser.data.languages_info import language_order
    except ImportError as error:
        raise MissingExtraError(NO_EXTRA) from error
    for language in named:
        if language not in language_order:
            raise InvalidInputError(
                f"languages has {short(language)}, which dateparser does not know: use codes such "
                "as 'en' or 'de'"
            )
    return named


def read_time(text: str, now: datetime, languages: Sequence[str] = LANGUAGES) -> TimeReading:
    """Read the future time that a text names, in the zone of now; none unless it names just one.

    A day without an hour stands for its start.

    Example:
        ```python
        from datetime import UTC, datetime
        from langmem_tiers.reminders.keywords import read_time

        monday = datetime(2026, 3, 2, 10, tzinfo=UTC)
        assert str(read_time("Call the bank tomorrow at 5pm", monday).at) == (
            "at 2026-03-03T17:00:00+00:00"
        )
        ```
    """
    try:
        from dateparser.search import search_dates
    except ImportError:
        return TimeReading(None, NO_EXTRA)
    base = now.replace(tzinfo=None)
    future = _parser_settings(base, "future")
    with _PARSER_LOCK:
        spans = search_dates(
            head_and_tail(text, _MAX_CHARACTERS), languages=[*languages], settings=future
        )
        read = _SpanReader(base, languages)
        moments = {
            read_moment for span, _ in spans or () if (read_moment := read.moment(span)) is not None
        }
    if len(moments) != 1:
        return TimeReading(None, SEVERAL_TIMES if moments else NO_TIME)
    (moment,) = moments
    zoned = moment if moment.tzinfo is not None else moment.replace(tzinfo=now.tzinfo)
    return TimeReading(At(zoned, timezone=getattr(now.tzinfo, "key", "UTC")))


def _parser_settings(base: datetime, prefers: str) -> dict[str, Any]:
    return {"PREFER_DATES_FROM": prefers, "RELATIVE_BASE": base, "RETURN_TIME_AS_PERIOD": True}


class _SpanReader:
    """Reads a part of a text that dateparser takes for a time."""

    def __init__(self, base: datetime, languages: Sequence[str]) -> None:
        """Read as of a moment without its zone."""
        from dateparser.date import DateDataParser

        def parser(prefers: str, **own: Any) -> Any:
            return DateDataParser([*languages], settings={**_parser_settings(base, prefers), **own})

        self._base = base
        self._whole = parser("future")
        self._spans = [
            parser(direction, PARSERS=["relative-time"]) for direction in ("future", "past")
        ]

    def moment(self, span: str) -> datetime | None:
        """Return the future moment that a part names; None if it names none for sure."""
        read = self._whole.get_date_data(span)
        moment: datetime | None = read.date_obj
        if moment is None or not self._is_sure(span):
            return None
        if read.period in _EXACT_PERIODS:
            return moment if moment.replace(tzinfo=None) > self._base else None
        if read.period not in _DAY_PERIODS or self._passed_over(span, moment):
            return None
        return datetime.combine(moment, DAY_START) if moment.date() >= self._base.date() else None

    def _is_sure(self, span: str) -> bool:
        """Return True if it has a number or a long word, and is the same read ahead and back."""
        words = _WORD.findall(span)
        long = any(len(word) >= _MIN_LETTERS or max(word) >= _FIRST_UNSPACED for word in words)
        ahead, behind = (parser.get_date_data(span).date_obj for parser in self._spans)
        return (long or bool(_NUMBER.search(span))) and ahead == behind

    def _passed_over(self, span: str, day: datetime) -> bool:
        """Return True if the day is the same without one of its numbers: that may be an hour."""
        numbers = (number for number in _NUMBER.finditer(span) if number[0] != str(day.year))
        rests = (f"{span[: number.start()]}{span[number.end() :]}" for number in numbers)
        others = (self._whole.get_date_data(rest).date_obj for rest in rests)
        return any(other is not None and other.date() == day.date() for other in others)
