"""Render memories as prompt text: fenced, labelled, and unable to end their fence."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime, tzinfo
from operator import itemgetter
from typing import Final
from unicodedata import normalize

from langchain_core.messages import SystemMessage

from langmem_tiers.core import prompts
from langmem_tiers.core.checks import checked_instance, checked_list, checked_strings
from langmem_tiers.core.errors import InvalidInputError, short
from langmem_tiers.core.memory import (
    ASSISTANT_ROLES,
    HANDLE_LENGTH,
    USER_ROLES,
    Recollection,
    Source,
    bracket_handle,
)
from langmem_tiers.core.texts import exact_words, is_invisible, normalise, split_sentences
from langmem_tiers.core.values import source_of, trust_of
from langmem_tiers.recall.question import MONTHS, WEEKDAYS

_TAGS: Final = {
    tag
    for text in vars(prompts).values()
    if isinstance(text, str)
    for tag in re.findall(r"<(\w+)", text)
}
"""Tags that our prompts put around data."""
_FENCE: Final = re.compile(
    rf"<(?=\s*+(?:/\s*+)?(?:{'|'.join(sorted(_TAGS))})\b)|\[(?=\s*+[a-z0-9]{{{HANDLE_LENGTH}}}\s*+\])",
    re.IGNORECASE,
)
_OPENING: Final = re.compile("[<\\[\ufe64\uff1c\uff3b]")
_ESCAPED: Final = {"<": "&lt;", "[": "&#91;"}
_NOT_IN_A_LABEL: Final = re.compile(r'[\s<>"&\x00-\x1f\x7f]+')
_LINES: Final = re.compile(r"\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_INDENT: Final = "\n    "
_UNNAMED: Final = USER_ROLES | {prompts.UNKNOWN_SPEAKER}
"""Speakers that get no name: a memory without a speaker is the user's."""
_HALF_A_YEAR: Final = 183
"""Days within which a date needs no year."""
_DOUBTED: Final = 0.8
"""Trust below which a memory is marked as doubtful: an agent's trust, by default."""
_LONGEST: Final = 80
"""Characters of a label; a longer one ends with an ellipsis."""


def recalled_text(
    recollections: Iterable[Recollection],
    lessons: Iterable[Recollection] = (),
    reminders: Iterable[str] = (),
    *,
    pinned: Iterable[Recollection] = (),
    intended: Iterable[str] = (),
    now: datetime | None = None,
    asked: str | None = None,
) -> str:
    """Render memories as one text for a prompt, a line each; empty if there are none.

    Pinned memories stand first. Then come conversations, the newest day first and each conversation
    in its order, then lessons, then `intended` and the reminders that are due; these two are lines
    already. A line begins with the handle, by which a tool takes a memory. It names the speaker,
    unless that was the user, and a doubtful source. Each memory stands once, and so do pins with
    the same text. A text that could end the fence, or pass for a handle, is escaped, and further
    lines of a memory are indented; all else is verbatim. With `now` the text names the day, and
    days are those of its zone. With `asked`, the question, long messages are cut to the sentences
    that share its words, the more the further down.

    Example:
        ```python
        from langmem_tiers.recall.prompt_text import recalled_text

        prompt = recalled_text(memory.get_context("When do keys change?"))
        ```
    """
    zone = None if now is None else checked_instance(now, datetime, "now").tzinfo
    if now is not None and zone is not None and now.utcoffset() is None:
        raise InvalidInputError(f"now has a time zone that tells no time: {short(now)}")
    pins, taught = _checked_memories(pinned, "pinned"), _checked_memories(lessons, "lessons")
    taken = [memory.place for memory in (*pins, *taught)]
    distinct: dict[str, Recollection] = {}
    for pin in pins:
        distinct.setdefault(normalise(pin.content), pin)
    recalled = _checked_memories(recollections, "recollections")
    rest = [memory for memory in recalled if memory.place not in taken]
    sections = (
        (
            prompts.PINNED_HEAD,
            [_format_line(prompts.RECALLED_NOTE, pin) for pin in distinct.values()],
        ),
        (prompts.REST_HEAD, _lines_by_day(rest, zone, now, asked)),
        (prompts.LESSONS_HEAD, [_format_line(prompts.RECALLED_NOTE, lesson) for lesson in taught]),
        (prompts.INTENDED_HEAD, checked_strings(intended, "intended")),
        (prompts.REMINDERS_HEAD, checked_strings(reminders, "reminders")),
    )
    today = "" if now is None else prompts.RECALLED_TODAY.format(today=long_day(now.date()))
    return _write_fence(sections, today)


def titled_text(sections: Iterable[tuple[str, Sequence[Recollection]]]) -> str:
    """Render memories as one text for a prompt, under titles; empty if there are none.

    Sections and their memories stand in the given order, each memory with its day, its speaker and
    its source.
    """
    return _write_fence(
        (
            f"{short_label(title)}:",
            [_format_line(prompts.RECALLED_ONE, memory) for memory in memories],
        )
        for title, memories in sections
    )


def _write_fence(sections: Iterable[tuple[str, Sequence[str]]], today: str = "") -> str:
    """Write lines below their heads inside one fence; a head without lines is left out."""
    parts = [line for head, lines in sections if lines for line in (head, *lines)]
    head = f"{prompts.RECALLED_HEAD} {today}".rstrip()
    return "\n".join([head, *parts, prompts.RECALLED_TAIL]) if parts else ""


def _checked_memories(recollections: Iterable[Recollection], what: str) -> list[Recollection]:
    memories = list(checked_list(recollections, what, "what get_context returns"))
    for memory in memories:
        checked_instance(memory, Recollection, f"one of {what}")
    return memories


def _lines_by_day(
    ranked: Sequence[Recollection], zone: tzinfo | None, now: datetime | None, asked: str | None
) -> list[str]:
    """Write ranked memories in lines, the newest day first.

    Within a day the latest conversation stands first, each in its order: an answer follows what was
    said at the same moment.
    """
    today = None if now is None else now.date()
    latest: dict[tuple[date, object], datetime] = {}
    lines = []
    for place, memory in enumerate(ranked):
        day = _day_of(memory.when, zone)
        # a memory without a session is a conversation by itself
        talk = (day, memory.session_id or memory.place)
        latest[talk] = max(memory.when, latest.get(talk, memory.when))
        answers = (memory.speaker or "").lower() in ASSISTANT_ROLES
        content = memory.content
        if asked is not None and memory.speaker:
            longest = LONGEST[min(place, len(LONGEST) - 1)]
            content = excerpt(content, asked, min(longest, LONGEST_ANSWER) if answers else longest)
        line = _dated_line(memory, content, day, zone, today)
        lines.append(((memory.when, answers, memory.namespace, memory.key), talk, line))
    lines.sort(key=itemgetter(0))
    lines.sort(key=lambda line: (line[1][0], latest[line[1]]), reverse=True)
    return [line for _, _, line in lines]


def _dated_line(
    memory: Recollection, content: str, day: date, zone: tzinfo | None, today: date | None
) -> str:
    """Write a memory of a conversation as a line."""
    speaker, replaces = memory.speaker or prompts.UNKNOWN_SPEAKER, ""
    if (was := memory.replaces) is not None:
        since = short_day(_day_of(was.at, zone), today)
        replaces = prompts.RECALLED_REPLACES.format(handle=bracket_handle(was.handle), date=since)
    return prompts.RECALLED_SAID.format(
        handle=f"{bracket_handle(memory.handle)} ",
        date=short_day(day, today),
        by="" if speaker.lower() in _UNNAMED else f", {short_label(speaker)}",
        origin=_describe_origin(memory),
        content=indent_lines(escape_fences(content)),
        replaces=replaces,
    )


def short_day(day: date, today: date | None) -> str:
    """Write a day as `27 Feb`, with its year unless that is this year's or within half a year."""
    near = today is not None and (day.year == today.year or abs((today - day).days) < _HALF_A_YEAR)
    month = MONTHS[day.month - 1].capitalize()[:3]
    return f"{day.day} {month}" if near else f"{day.day} {month} {day.year}"


def long_day(day: date) -> str:
    """Write a day as `Tuesday 3 March 2026`."""
    weekday, month = WEEKDAYS[day.weekday()].capitalize(), MONTHS[day.month - 1].capitalize()
    return f"{weekday} {day.day} {month} {day.year}"


def _day_of(moment: datetime, zone: tzinfo | None) -> date:
    """Return the day of a moment in the time zone; without a zone, the day that it names."""
    return (moment if zone is None else moment.astimezone(zone)).date()


def _format_line(form: str, memory: Recollection) -> str:
    return form.format_map(
        {**layout_fields(memory), "content": indent_lines(escape_fences(memory.content))}
    )


def with_recalled(system: SystemMessage | None, text: str) -> SystemMessage | None:
    """Return a system message that ends with the recalled text; the given one is not changed."""
    checked_instance(text, str, "text")
    if system is not None:
        checked_instance(system, SystemMessage, "system")
    if not text:
        return system
    if system is None:
        return SystemMessage(text)
    if isinstance(system.content, str):
        return system.model_copy(update={"content": f"{system.content}\n\n{text}"})
    block = {"type": "text", "text": text}
    return system.model_copy(update={"content": [*system.content, block]})


def escape_fences(text: str) -> str:
    """Escape what could begin or end a fence, or pass for a handle.

    A `<` becomes `&lt;` there and a `[` becomes `&#91;`; all else is verbatim. Invisible or wide
    characters hide neither.
    """
    if not _OPENING.search(text):
        return text
    seen = [place for place, character in enumerate(text) if not is_invisible(character)]
    plain = "".join(_plain_character(text[place]) for place in seen)
    after = 0
    pieces: list[str] = []
    for match in _FENCE.finditer(plain):
        place = seen[match.start()]
        pieces += (text[after:place], _ESCAPED[match[0]])
        after = place + 1
    return "".join((*pieces, text[after:]))


def clean_label(text: str) -> str:
    """Return a text as a label: characters that could end the fence or the line become spaces."""
    return _NOT_IN_A_LABEL.sub(" ", text).strip()


def short_label(text: str) -> str:
    """Return a text as a short label, such as a name, a type or a source."""
    label = clean_label(text)
    return label if len(label) <= _LONGEST else f"{label[: _LONGEST - 1]}…"


def indent_lines(text: str) -> str:
    """Indent the further lines of a text, so that none begins another entry of a list."""
    return _LINES.sub(_INDENT, text)


def layout_fields(memory: Recollection) -> dict[str, str]:
    """Return the fields of a memory that a layout can show beside its content."""
    speaker = memory.speaker or prompts.UNKNOWN_SPEAKER
    return {
        "handle": f"{bracket_handle(memory.handle)} ",
        "tier": memory.tier.value,
        "memory_type": short_label(memory.memory_type),
        "date": str(memory.when.date()),
        "when": memory.when.isoformat(),
        "speaker": short_label(speaker),
        "by": "" if speaker.lower() in _UNNAMED else f" {short_label(speaker)}",
        "role": short_label(speaker).upper(),
        "relevance": f"{memory.score:.2f}",
        "origin": _describe_origin(memory),
    }


def _plain_character(character: str) -> str:
    """Return a character in its plain form, if that is one character as well."""
    plain = character if character.isascii() else normalize("NFKC", character)
    return plain if len(plain) == 1 else character


def _describe_origin(memory: Recollection) -> str:
    """Name the source of a memory and say if it is doubtful, unless it is a person's own word."""
    source, trust = source_of(memory.value), trust_of(memory.value)
    since = prompts.RECALLED_OUTDATED if memory.outdated else ""
    own = source == Source.AGENT and (memory.speaker or trust >= _DOUBTED)
    if own or (source == Source.USER and trust >= 1):
        return since
    template = prompts.RECALLED_DOUBTED if trust < _DOUBTED else prompts.RECALLED_ORIGIN
    return template.format(source=short_label(source)) + since


# Excerpts of long messages

LONGEST_ANSWER: Final = 180
"""Characters shown of an assistant's message. In lives (`benchmarks/data/life.jsonl`) as many
questions are answered as by whole answers, and with 160 as good as all."""
LONGEST: Final = (1000, 1000, 300, 140, 100)
"""Characters shown of other messages, the best first. In lives six memories at full length answer
one question of 150 more, and take 9 tokens more each."""

_LEFT_OUT: Final = "…"
_WORD: Final = re.compile(r"\w+")


def excerpt(text: str, asked: str, most: int) -> str:
    """Cut a text to the sentences that share most words with the question, in their order.

    They have `most` characters together, and `…` stands for each gap; of equal sentences the first
    are taken. If the best sentence alone is longer, it is cut to the text around the first shared
    word. A text of `most` characters or fewer is returned unchanged.

    Example:
        >>> excerpt("Tea is fine. Coffee at ten. Sleep well.", "When is coffee?", 20)
        '… Coffee at ten. …'
    """
    if len(text) <= most:
        return text
    parts, sought = split_sentences(text), frozenset(exact_words(asked))
    near = [_word_overlap(part, sought) for part in parts]
    ranked = sorted(range(len(parts)), key=near.__getitem__, reverse=True)
    kept, room = set[int](), most
    for place in ranked:
        if len(parts[place]) <= room:
            kept.add(place)
            room -= len(parts[place]) + 1
    if ranked[0] not in kept and not any(near[place] for place in kept):
        return _window(parts[ranked[0]], sought, most)
    return " ".join(_join_kept(parts, kept))


def _word_overlap(part: str, sought: frozenset[str]) -> float:
    words = frozenset(exact_words(part))
    return sum(map(len, words & sought)) / math.sqrt(1 + len(words))  # short words are common


def _window(part: str, sought: frozenset[str], most: int) -> str:
    """Cut a sentence that is too long to the text around the first shared word."""
    hits = (
        match.start() for match in _WORD.finditer(part) if sought & frozenset(exact_words(match[0]))
    )
    hit = next(hits, 0)
    if hit < most:
        return part[: most - 1].rstrip() + _LEFT_OUT
    start = min(hit - most // 4, len(part) - most + 2)
    end = start + most - 3
    return f"{_LEFT_OUT} {part[start:end].strip()}{_LEFT_OUT if end < len(part) else ''}"


def _join_kept(parts: Sequence[str], kept: set[int]) -> Iterator[str]:
    for place, part in enumerate(parts):
        if place in kept:
            yield part
        elif place == 0 or place - 1 in kept:
            yield _LEFT_OUT
