"""The verbs by which a coordinator remembers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Unpack

from langmem_tiers.core.memory import StoreResult
from langmem_tiers.core.options import STORING_DEFAULTS, StoringOptions, spelt_out
from langmem_tiers.memory.asking import new_memories, new_memory
from langmem_tiers.memory.base import Memory
from langmem_tiers.memory.pinning import check_room
from langmem_tiers.postgres.flow import Flow, only
from langmem_tiers.remember.new import NewMemory


@spelt_out(StoringOptions, STORING_DEFAULTS)
def store(
    memory: Memory,
    content: str,
    memory_type: str | None = "episodic",
    **options: Unpack[StoringOptions],
) -> Flow[StoreResult]:
    """Remember something, verbatim, unless the gate refuses it (docs/gate.md).

    What says nothing, repeats what was recalled or is given a low score is not stored; what a
    tool, a page or a file brings and instructs its reader is quarantined: stored, and not recalled
    until it is released. The result says what became of it and why.

    Args:
        content: What is remembered.
        memory_type: One of the registry's: `episodic`, `semantic`, `pattern`, …; with None it
            is `episodic`.
        options: What is known of it; see `StoringOptions`.

    Raises:
        InvalidInputError: for what cannot be stored; nothing was.
    """
    one = new_memory(content, memory_type=memory_type, **options)
    return only(admitted(memory, [one]))


def store_many(
    memory: Memory, memories: Iterable[Mapping[str, Any] | str]
) -> Flow[list[StoreResult]]:
    """Remember several things in one transaction; each is a text, or `store`'s arguments.

    A mapping may name its own `key`: storing it again then replaces it. What the gate refuses
    is not stored, and its result says why; the others are.

    Raises:
        InvalidInputError: if one of them cannot be stored; nothing was.
    """
    return admitted(memory, new_memories(memories, memory.tiered_store.options.bounds))


def admitted(memory: Memory, memories: Sequence[NewMemory]) -> Flow[list[StoreResult]]:
    """Put what was checked to the gate and store it."""
    if pins := [one.content for one in memories if one.pinned is True]:
        yield from check_room(memory, "\n".join(pins))
    return (yield from memory.flows.admit(memories, memory.context))
