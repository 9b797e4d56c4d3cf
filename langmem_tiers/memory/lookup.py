"""One memory by its key, and what there is."""

from __future__ import annotations

from dataclasses import fields

from langmem_tiers.core.memory import Recollection, Tier
from langmem_tiers.learn.outcome import LearningStats, uplift_of
from langmem_tiers.memory.base import Memory
from langmem_tiers.postgres.flow import Flow
from langmem_tiers.store.ops import to_tier


def get(memory: Memory, key: str, *, tier: Tier | str | None = None) -> Flow[Recollection | None]:
    """A memory by its key: short_term, then working, then long_term.

    The context's own memory comes first, then the only one of that key in the project's other
    sessions or in long_term; what another project keeps is not there. It counts as accessed.
    With `tier`, only that tier is looked in.

    Raises:
        InvalidInputError: if several memories beside the context's own have the key.
    """
    return memory.flows.get(key, (None if tier is None else to_tier(tier)), memory.context)


def delete_memory(memory: Memory, key: str) -> Flow[bool]:
    """Delete the memory that `get` would return, or an archived one; False if none is.

    What was merged with it says the same, and goes as well; so does what was promoted with it
    and says the same in the same place. What it was promoted to is everybody's, and stays.
    """
    return memory.flows.delete(key, memory.context)


def clear_working_memory(memory: Memory, session_id: str) -> Flow[int]:
    """Delete a session's memories of type `working`, in whatever tier; how many.

    Of the context's project, or of all if it names none. The working tier is not touched
    otherwise.
    """
    return memory.flows.clear_session(session_id, "working", memory.context)


def stats(memory: Memory) -> Flow[LearningStats]:
    """What the tenant has stored, and what memories that were held out do to runs."""
    stored = yield from memory.flows.stats(memory.context)
    uplift = yield from uplift_of(memory.context.root)
    known = {one.name: getattr(stored, one.name) for one in fields(stored)}
    return LearningStats(**known, uplift=uplift)
