"""Working memory of an agent in this process, and its rules."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from threading import Lock
from typing import Any

from langmem_tiers.coordinator.base import checked_limit
from langmem_tiers.coordinator.coordinator import MemoryCoordinator
from langmem_tiers.coordinator.recall import get_context
from langmem_tiers.core.checks import checked_instance, checked_list, checked_share
from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError, short
from langmem_tiers.core.memory import Recollection, Recollections
from langmem_tiers.core.types import MemoryTypes
from langmem_tiers.postgres.flow import Flow, both, map_result
from langmem_tiers.recall.budget import TokenCounter, checked_count, checked_tokens
from langmem_tiers.recall.prompt_text import titled_text

FADE_FACTOR = 0.5
"""Factor on the relevance of a memory that the next context does not call up: our own choice. After
three contexts an eighth is left."""
CUT_MARK = " …"
"""End of a text that was cut."""

_PIECE = re.compile(r"\S{1,20}")
"""Piece after which a text may be cut: a word, or 20 characters of a longer one."""
DEFAULT_CAPACITY = 20
"""Memories that a buffer holds: our own choice, four recalls of the default size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferedMemory:
    """Memory in a buffer, with its relevance in 0…1."""

    memory: Recollection
    relevance: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptMemory:
    """Memory as a prompt shows it."""

    memory: Recollection
    """Whole memory, as it was recalled."""
    content: str
    """Text in the prompt: the content, or its beginning with a mark."""
    relevance: float

    @property
    def truncated(self) -> bool:
        """True if the prompt shows only the beginning of the memory."""
        return self.content != self.memory.content


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptMemories:
    """Memories for a prompt, the most relevant first."""

    memories: tuple[PromptMemory, ...] = ()
    text: str = ""
    """Text of all, fenced and labelled; empty if there are none."""
    tokens: int = 0
    """Tokens of the text."""

    def __str__(self) -> str:
        """Return the text."""
        return self.text


def update_context(
    buffer: WorkingMemoryBuffer,
    text: str | None = None,
    *,
    embedding: Sequence[float] | None = None,
) -> Flow[list[BufferedMemory]]:
    """Turn to another context; return the memories in the buffer then, the most relevant first.

    Args:
        text: The context, which is searched for by words and by meaning.
        embedding: Its vector, by the store's own model, if there is one already. Without a text,
            the search is by meaning only.

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

    def replace_held(recollections: Recollections) -> list[BufferedMemory]:
        with buffer.changing:
            buffer.held = call_up(buffer.held, recollections, buffer.capacity)
            return buffer.items

    return map_result(recalling, replace_held)


def search(buffer: WorkingMemoryBuffer, /, query: str, **options: Any) -> Flow[Recollections]:
    """Recall as `get_context` does, with its options; add the results to the buffer."""

    def add_results(recollections: Recollections) -> Recollections:
        buffer.add_search_results(recollections)
        return recollections

    return map_result(get_context(buffer.memory, query, **options), add_results)


class WorkingMemoryBuffer:
    """Buffer of the memories that matter in the current context, by relevance, up to a capacity.

    A new context calls up memories of all three tiers: each has its match with the context as its
    relevance. A memory that is not called up again keeps half of its relevance, until a more
    relevant one takes its place. The buffer lives in this process, and may be shared by
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
        """Hold up to `capacity` memories, 1 to 1,000, that a coordinator recalls.

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
        """Memories in the buffer, the most relevant first."""
        return list(self.held)

    update_context, aupdate_context = both(update_context, "retriever")
    search, asearch = both(search, "retriever")

    def add_search_results(self, recollections: Iterable[Recollection]) -> list[BufferedMemory]:
        """Add memories that were found otherwise, each by its match; return the buffer's memories.

        The context stays the same: nothing fades, and a memory that was in the buffer keeps the
        higher of its two relevances.
        """
        listed = checked_list(recollections, "recollections", "what get_context returns")
        memories = [
            checked_instance(memory, Recollection, "one of recollections") for memory in listed
        ]
        with self.changing:
            self.held = merge_found(self.held, memories, self.capacity)
            return self.items

    def get_prompt_context_memories(
        self, max_memories: int = 5, max_tokens: int | None = None, min_relevance: float = 0.0
    ) -> PromptMemories:
        """Write the buffer's memories as text for a prompt, like `recalled_text`.

        Args:
            max_memories: Most memories in the text.
            max_tokens: Most tokens in the text, by the coordinator's counter; no limit if not
                given. The last memory is cut if it does not fit whole.
            min_relevance: Least relevance of each memory, in 0…1.

        Raises:
            InvalidInputError: for an argument that makes no sense.
        """
        return fit_prompt(
            self.held,
            max_memories=checked_limit(max_memories),
            max_tokens=checked_tokens(max_tokens),
            min_relevance=checked_share(min_relevance, "min_relevance") or 0.0,
            count_tokens=self.memory.count_tokens,
            types=self.memory.types,
        )

    def clear(self) -> None:
        """Empty the buffer."""
        with self.changing:
            self.held = ()


# Rules


def call_up(
    held: Iterable[BufferedMemory], recollections: Iterable[Recollection], capacity: int
) -> tuple[BufferedMemory, ...]:
    """Return a buffer's memories in a new context: those called up, and the faded others."""
    faded = (replace(buffered, relevance=buffered.relevance * FADE_FACTOR) for buffered in held)
    new = (BufferedMemory(memory=memory, relevance=memory.match) for memory in recollections)
    return _most_relevant([*faded, *new], capacity)


def merge_found(
    held: Iterable[BufferedMemory], recollections: Iterable[Recollection], capacity: int
) -> tuple[BufferedMemory, ...]:
    """Return a buffer's memories once others were found in the same context; nothing fades."""
    before = list(held)
    relevances = {buffered.memory.place: buffered.relevance for buffered in before}
    new = (
        BufferedMemory(
            memory=memory, relevance=max(memory.match, relevances.get(memory.place, 0.0))
        )
        for memory in recollections
    )
    return _most_relevant([*before, *new], capacity)


def _most_relevant(memories: Iterable[BufferedMemory], capacity: int) -> tuple[BufferedMemory, ...]:
    """Return the most relevant memories, each in its last form; ties by namespace and key."""
    last = {buffered.memory.place: buffered for buffered in memories}
    ordered = sorted(
        last.values(), key=lambda buffered: (-buffered.relevance, buffered.memory.place)
    )
    return tuple(ordered[:capacity])


def fit_prompt(
    held: Iterable[BufferedMemory],
    *,
    max_memories: int,
    max_tokens: int | None,
    min_relevance: float,
    count_tokens: TokenCounter,
    types: MemoryTypes,
) -> PromptMemories:
    """Return the most relevant memories that fit, in order; the last one may be cut.

    The counter never counts more than `max_tokens` in the text.

    Raises:
        InvalidInputError: if the counter returns no whole number of 0 or more.
    """

    def append(page: PromptMemories, buffered: BufferedMemory, content: str) -> PromptMemories:
        """Return the page with one more memory."""
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
        whole = append(page, buffered, content)
        if max_tokens is not None and whole.tokens > max_tokens:
            ends = [piece.end() for piece in _PIECE.finditer(content)][:-1]
            cut = partial(_cut_after, content)
            fit = bisect_right(
                ends, max_tokens, key=lambda end: append(page, buffered, cut(end)).tokens
            )
            return append(page, buffered, cut(ends[fit - 1])) if fit else page
        page = whole
    return page


def _cut_after(content: str, end: int) -> str:
    return f"{content[:end]}{CUT_MARK}"
