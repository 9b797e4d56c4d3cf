"""What an agent has in mind: memories by their relevance, and as many of them as a prompt holds."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from langmem_tiers.core.memory import Recollection
from langmem_tiers.recall.budget import TokenCounter, counted

FADE = 0.5
"""What is left of the relevance of a memory that the next context does not call up: our own choice.
After three contexts it is an eighth."""
MARK = " …"
"""Ends a text that was cut."""

Render = Callable[[Sequence[Recollection]], str]
"""Writes memories as one text, in their order."""

_PIECE = re.compile(r"\S{1,20}")
"""A text is cut after a word, or inside of one that is longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferedMemory:
    """A memory in mind, and how relevant it is, in 0…1."""

    memory: Recollection
    relevance: float

    @property
    def place(self) -> tuple[tuple[str, ...], str]:
        """Its namespace and key."""
        return self.memory.namespace, self.memory.key


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptMemory:
    """A memory as it stands in a prompt."""

    memory: Recollection
    """As it was recalled, whole."""
    content: str
    """What the prompt says of it: its content, or the beginning with a mark."""
    relevance: float

    @property
    def truncated(self) -> bool:
        """Whether the prompt says less than the memory."""
        return self.content != self.memory.content


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptMemories:
    """Memories for a prompt, the most relevant first."""

    memories: tuple[PromptMemory, ...] = ()
    text: str = ""
    """All of them, fenced and labelled; nothing if there are none."""
    tokens: int = 0
    """What the text counts."""

    def __str__(self) -> str:
        """The text."""
        return self.text


def called_up(
    held: Iterable[BufferedMemory], found: Iterable[Recollection], capacity: int
) -> tuple[BufferedMemory, ...]:
    """What is in mind in a new context: what it calls up, by match, and fading what it does not."""
    faded = (replace(one, relevance=one.relevance * FADE) for one in held)
    return _sorted({**_by_place(faded), **_by_place(map(_buffered, found))}, capacity)


def fed(
    held: Iterable[BufferedMemory], found: Iterable[Recollection], capacity: int
) -> tuple[BufferedMemory, ...]:
    """What is in mind once something else was found in the same context; nothing fades."""
    known = _by_place(held)
    new = [_buffered(one) for one in found]
    raised = (
        replace(one, relevance=max(one.relevance, known[one.place].relevance))
        if one.place in known
        else one
        for one in new
    )
    return _sorted({**known, **_by_place(raised)}, capacity)


def fitting(
    held: Iterable[BufferedMemory],
    *,
    max_memories: int,
    max_tokens: int | None,
    min_relevance: float,
    count_tokens: TokenCounter,
    render: Render,
) -> PromptMemories:
    """The most relevant memories that fit, in order; the last one may be cut.

    Whatever the counter, it counts no more than `max_tokens` in the text.

    Raises:
        InvalidInputError: if the counter returns no whole number of 0 or more.
    """
    page = PromptMemories()
    for one in held:
        if len(page.memories) == max_memories or one.relevance < min_relevance:
            break
        grown = _with(page, one, one.memory.content, render, count_tokens)
        if max_tokens is not None and grown.tokens > max_tokens:
            return _with_beginning(page, one, max_tokens, render, count_tokens)
        page = grown
    return page


def _with_beginning(
    page: PromptMemories,
    one: BufferedMemory,
    max_tokens: int,
    render: Render,
    count_tokens: TokenCounter,
) -> PromptMemories:
    """The page with as much of one more memory as fits, by bisection; without it if none does."""
    content = one.memory.content
    ends = [piece.end() for piece in _PIECE.finditer(content)][:-1]
    best, low, high = page, 0, len(ends)
    while low < high:
        middle = (low + high) // 2
        cut = content[: ends[middle]] + MARK
        grown = _with(page, one, cut, render, count_tokens)
        if grown.tokens <= max_tokens:
            best, low = grown, middle + 1
        else:
            high = middle
    return best


def _with(
    page: PromptMemories,
    one: BufferedMemory,
    content: str,
    render: Render,
    count_tokens: TokenCounter,
) -> PromptMemories:
    """The page with one more memory."""
    new = PromptMemory(memory=one.memory, content=content, relevance=one.relevance)
    memories = (*page.memories, new)
    text = render([replace(each.memory, content=each.content) for each in memories])
    return PromptMemories(memories=memories, text=text, tokens=counted(text, count_tokens))


def _buffered(found: Recollection) -> BufferedMemory:
    return BufferedMemory(memory=found, relevance=found.match)


def _by_place(several: Iterable[BufferedMemory]) -> dict[object, BufferedMemory]:
    return {one.place: one for one in several}


def _sorted(several: dict[object, BufferedMemory], capacity: int) -> tuple[BufferedMemory, ...]:
    """The most relevant; among equals those that come first by namespace and key."""
    ordered = sorted(several.values(), key=lambda one: (-one.relevance, one.place))
    return tuple(ordered[:capacity])
