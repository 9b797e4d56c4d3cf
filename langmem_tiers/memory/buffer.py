"""WorkingMemoryBuffer: the memories that an agent has in mind, in this process."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from threading import Lock
from typing import Any

from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError
from langmem_tiers.core.memory import MemoryContext, Recollection, Recollections
from langmem_tiers.memory.asking import checked_limit, checked_tokens
from langmem_tiers.memory.coordinator import MemoryCoordinator
from langmem_tiers.memory.recalling import get_context
from langmem_tiers.postgres.flow import Flow, both, then
from langmem_tiers.recall.fence import recalled_text
from langmem_tiers.remember.new import share
from langmem_tiers.state.buffer import BufferedMemory, PromptMemories, called_up, fed, fitting
from langmem_tiers.store.store import TieredStore

DEFAULT_CAPACITY = 20
"""Memories in mind: our own choice, four recalls of the default size."""


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
    if embedding is None and not (isinstance(text, str) and text.strip()):
        raise InvalidInputError("there is no context: give a text, an embedding, or both")
    recalling = get_context(
        buffer.memory, text or "", embedding=embedding, limit=buffer.capacity, profile="match"
    )

    def turned(found: Recollections) -> list[BufferedMemory]:
        with buffer.changing:
            buffer.held = called_up(buffer.held, found, buffer.capacity)
            return buffer.items

    return then(recalling, turned)


def search(buffer: WorkingMemoryBuffer, /, query: str, **options: Any) -> Flow[Recollections]:
    """Recall as `get_context` does, with its options, and bear in mind what is found."""

    def borne(found: Recollections) -> Recollections:
        buffer.add_search_results(found)
        return found

    return then(get_context(buffer.memory, query, **options), borne)


class WorkingMemoryBuffer:
    """The memories that matter in the current context, by relevance, up to a capacity.

    A new context calls up memories of all three tiers: each has its match with the context as its
    relevance. What was in mind before and is not called up again keeps half of its relevance, until
    something more relevant takes its place. The buffer lives in this process, and may be shared by
    threads and tasks; a memory in it stays as it was when it was found last.

    Example:
        ```python
        from langmem_tiers import MemoryContext, MemoryCoordinator, TieredStore, WorkingMemoryBuffer

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
        self.memory = memory
        self.capacity = capacity
        self.held: tuple[BufferedMemory, ...] = ()
        self.changing = Lock()

    @property
    def context(self) -> MemoryContext:
        """Who remembers and who asks."""
        return self.memory.context

    @property
    def runner(self) -> TieredStore:
        """What runs its flows."""
        return self.memory.runner

    @property
    def items(self) -> list[BufferedMemory]:
        """What is in mind, the most relevant first."""
        return list(self.held)

    update_context, aupdate_context = both(update_context, "retriever")
    search, asearch = both(search, "retriever")

    def add_search_results(self, recollections: Iterable[Recollection]) -> list[BufferedMemory]:
        """Bear in mind what was found otherwise, each by its match; what is in mind then.

        The context stays the same: nothing fades, and what is in mind already keeps the higher of
        its two relevances.
        """
        found = list(recollections)
        for one in found:
            if not isinstance(one, Recollection):
                raise InvalidTypeError(
                    f"what was found are recollections, not {type(one).__name__}: pass what "
                    "get_context returns"
                )
        with self.changing:
            self.held = fed(self.held, found, self.capacity)
            return self.items

    def get_prompt_context_memories(
        self, max_memories: int = 5, max_tokens: int | None = None, min_relevance: float = 0.0
    ) -> PromptMemories:
        """What is in mind as a text for a prompt, the most relevant first.

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
            min_relevance=share(min_relevance, "min_relevance") or 0.0,
            count_tokens=self.memory.count_tokens,
            render=_rendered,
        )

    def clear(self) -> None:
        """Have nothing in mind."""
        with self.changing:
            self.held = ()


def _rendered(memories: Sequence[Recollection]) -> str:
    """Fenced and labelled, in this order."""
    return recalled_text((), lessons=memories)
