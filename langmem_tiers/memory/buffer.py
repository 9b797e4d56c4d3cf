"""WorkingMemoryBuffer: the memories that an agent has in mind, in this process; its rules below."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from threading import Lock
from typing import Any

from langmem_tiers.core.checks import checked_instance, checked_list, checked_share
from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError, short
from langmem_tiers.core.memory import Recollection, Recollections
from langmem_tiers.core.types import MemoryTypes
from langmem_tiers.memory.base import checked_limit
from langmem_tiers.memory.coordinator import MemoryCoordinator
from langmem_tiers.memory.recalling import get_context
from langmem_tiers.postgres.flow import Flow, both, map_result
from langmem_tiers.recall.budget import TokenCounter, checked_count, checked_tokens
from langmem_tiers.recall.fence import titled_text

FADE = 0.5
"""What is left of the relevance of a memory that the next context does not call up: our own choice.
After three contexts it is an eighth."""
MARK = " …"
"""Ends a text that was cut."""

_PIECE = re.compile(r"\S{1,20}")
"""A text is cut after a word, or inside of one that is longer."""
DEFAULT_CAPACITY = 20
"""Memories in mind: our own choice, four recalls of the default size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferedMemory:
    """A memory in mind, and how relevant it is, in 0…1."""

    memory: Recollection
    relevance: float


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
        """Tell whether the prompt says less than the memory."""
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


def update_context(
    buffer: WorkingMemoryBuffer,
    text: str | None = None,
    *,
    embedding: Sequence[float] | None = None,
) -> Flow[list[BufferedMemory]]:
    """Turn to another context; what is in mind then, the most relevant first.

    Args:
        text: What is going on; its words and its meaning are sought.
        embedding: Its vector, by the store's own model, if there is one already. Alone, it is
            sought by meaning only.

    Raises:
        InvalidInputError: if neither is given, or the embedding does not fit the store.
    """
    if text is not None and not isinstance(text, str):
        raise InvalidTypeError(f"a text is a string, not {short(text)}")
    if embedding is None and not (text or "").strip():
        raise InvalidInputError("there is no context: give a text, an embedding, or both")
    recalling = get_context(
        buffer.memory, text or "", embedding=embedding, limit=buffer.capacity, profile="match"
    )

    def turned(recollections: Recollections) -> list[BufferedMemory]:
        with buffer.changing:
            buffer.held = called_up(buffer.held, recollections, buffer.capacity)
            return buffer.items

    return map_result(recalling, turned)


def search(buffer: WorkingMemoryBuffer, /, query: str, **options: Any) -> Flow[Recollections]:
    """Recall as `get_context` does, with its options, and bear in mind what is found."""

    def borne(recollections: Recollections) -> Recollections:
        buffer.add_search_results(recollections)
        return recollections

    return map_result(get_context(buffer.memory, query, **options), borne)


class WorkingMemoryBuffer:
    """The memories that matter in the current context, by relevance, up to a capacity.

    A new context calls up memories of all three tiers: each has its match with the context as its
    relevance. What was in mind before and is not called up again keeps half of its relevance, until
    something more relevant takes its place. The buffer lives in this process, and may be shared by
    threads and tasks; a memory in it stays as it was when it was found last.

    Example:
        ```python
        from langmem_tiers import (
            MemoryContext,
            MemoryCoordinator,
            TieredStore,
            WorkingMemoryBuffer,
        )

        with TieredStore.embedded("./.memory") as store:
            memory = MemoryCoordinator(store, context=MemoryContext(tenant="acme"))
            memory.store("The API key rotates on Mondays.", memory_type="semantic")
            buffer = WorkingMemoryBuffer(memory)
            buffer.update_context("When do keys change?")
            print(buffer.get_prompt_context_memories(max_tokens=200))
        ```
    """

    def __init__(self, memory: MemoryCoordinator, *, capacity: int = DEFAULT_CAPACITY) -> None:
        """Hold up to `capacity` memories, 1 to 1,000, of what a coordinator recalls.

        Raises:
            InvalidInputError: if there is no room in it.
        """
        if not isinstance(memory, MemoryCoordinator):
            raise InvalidTypeError(
                f"a buffer needs a MemoryCoordinator, not {type(memory).__name__}"
            )
        if not checked_limit(capacity):
            raise InvalidInputError("the capacity is 0: nothing could be in mind; use 1 to 1,000")
        self.memory, self.context, self.runner = memory, memory.context, memory.runner
        self.capacity = capacity
        self.held: tuple[BufferedMemory, ...] = ()
        self.changing = Lock()

    @property
    def items(self) -> list[BufferedMemory]:
        """Return what is in mind, the most relevant first."""
        return list(self.held)

    update_context, aupdate_context = both(update_context, "retriever")
    search, asearch = both(search, "retriever")

    def add_search_results(self, recollections: Iterable[Recollection]) -> list[BufferedMemory]:
        """Bear in mind what was found otherwise, each by its match; what is in mind then.

        The context stays the same: nothing fades, and what is in mind already keeps the higher of
        its two relevances.
        """
        listed = checked_list(recollections, "recollections", "what get_context returns")
        memories = [
            checked_instance(memory, Recollection, "one of recollections") for memory in listed
        ]
        with self.changing:
            self.held = fed(self.held, memories, self.capacity)
            return self.items

    def get_prompt_context_memories(
        self, max_memories: int = 5, max_tokens: int | None = None, min_relevance: float = 0.0
    ) -> PromptMemories:
        """Write what is in mind as a text for a prompt, as `recalled_text` writes what is recalled.

        Args:
            max_memories: How many at most.
            max_tokens: What the coordinator's counter counts in the text at most; no limit if not
                given. The last memory is cut if it does not fit whole.
            min_relevance: How relevant each is at least, in 0…1.

        Raises:
            InvalidInputError: for an argument that makes no sense.
        """
        return fitting(
            self.held,
            max_memories=checked_limit(max_memories),
            max_tokens=checked_tokens(max_tokens),
            min_relevance=checked_share(min_relevance, "min_relevance") or 0.0,
            count_tokens=self.memory.count_tokens,
            types=self.memory.types,
        )

    def clear(self) -> None:
        """Have nothing in mind."""
        with self.changing:
            self.held = ()


# Rules


def called_up(
    held: Iterable[BufferedMemory], recollections: Iterable[Recollection], capacity: int
) -> tuple[BufferedMemory, ...]:
    """Return what is in mind in a new context: what it calls up, and fading what it does not."""
    faded = (replace(buffered, relevance=buffered.relevance * FADE) for buffered in held)
    new = (BufferedMemory(memory=memory, relevance=memory.match) for memory in recollections)
    return _best([*faded, *new], capacity)


def fed(
    held: Iterable[BufferedMemory], recollections: Iterable[Recollection], capacity: int
) -> tuple[BufferedMemory, ...]:
    """Return what is in mind once something else was found in the same context; nothing fades."""
    before = list(held)
    relevances = {buffered.memory.place: buffered.relevance for buffered in before}
    new = (
        BufferedMemory(
            memory=memory, relevance=max(memory.match, relevances.get(memory.place, 0.0))
        )
        for memory in recollections
    )
    return _best([*before, *new], capacity)


def _best(memories: Iterable[BufferedMemory], capacity: int) -> tuple[BufferedMemory, ...]:
    """The most relevant, each as it is last; among equals the first by namespace and key."""
    last = {buffered.memory.place: buffered for buffered in memories}
    ordered = sorted(
        last.values(), key=lambda buffered: (-buffered.relevance, buffered.memory.place)
    )
    return tuple(ordered[:capacity])


def fitting(
    held: Iterable[BufferedMemory],
    *,
    max_memories: int,
    max_tokens: int | None,
    min_relevance: float,
    count_tokens: TokenCounter,
    types: MemoryTypes,
) -> PromptMemories:
    """The most relevant memories that fit, in order; the last one may be cut.

    Whatever the counter, it counts no more than `max_tokens` in the text.

    Raises:
        InvalidInputError: if the counter returns no whole number of 0 or more.
    """

    def grown(page: PromptMemories, buffered: BufferedMemory, content: str) -> PromptMemories:
        """The page with one more memory."""
        new = PromptMemory(memory=buffered.memory, content=content, relevance=buffered.relevance)
        memories = (*page.memories, new)
        sections: dict[str, list[Recollection]] = {}
        for each in memories:
            kind = each.memory.memory_type
            title = types.get(kind).title if kind in types else kind
            sections.setdefault(title, []).append(replace(each.memory, content=each.content))
        text = titled_text(sections.items())
        return PromptMemories(
            memories=memories, text=text, tokens=checked_count(text, count_tokens)
        )

    page = PromptMemories()
    for buffered in held:
        if len(page.memories) == max_memories or buffered.relevance < min_relevance:
            break
        content = buffered.memory.content
        whole = grown(page, buffered, content)
        if max_tokens is not None and whole.tokens > max_tokens:
            ends = [piece.end() for piece in _PIECE.finditer(content)][:-1]
            cut = partial(_beginning, content)
            fit = bisect_right(
                ends, max_tokens, key=lambda end: grown(page, buffered, cut(end)).tokens
            )
            return grown(page, buffered, cut(ends[fit - 1])) if fit else page
        page = whole
    return page


def _beginning(content: str, end: int) -> str:
    return f"{content[:end]}{MARK}"
