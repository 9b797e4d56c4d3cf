"""The verbs by which a coordinator remembers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from operator import itemgetter
from typing import Any

from langmem_tiers.core.memory import StoreResult, Tier
from langmem_tiers.memory.asking import new_memories, new_memory
from langmem_tiers.memory.base import Memory
from langmem_tiers.memory.reviews import begin_reviews
from langmem_tiers.postgres.flow import Flow, then
from langmem_tiers.remember.new import NewMemory


def store(
    memory: Memory,
    content: str,
    memory_type: str | None = "episodic",
    *,
    source: str = "user",
    tier: Tier | str | None = None,
    tags: Iterable[str] = (),
    project_id: str | None = None,
    session_id: str | None = None,
    agent_id: str | None = None,
    speaker: str | None = None,
    turn: int | None = None,
    occurred_at: datetime | str | None = None,
    valid_from: datetime | str | None = None,
    valid_to: datetime | str | None = None,
    derived_from: Iterable[str] = (),
    importance: float | None = None,
    entities: Iterable[str] = (),
    context: str | Mapping[str, Any] | None = None,
    emotional_valence: str | None = None,
    platform_source: str | None = None,
    success_metrics: Mapping[str, Any] | None = None,
    source_task: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    key: str | None = None,
    recalled: Iterable[object] = (),
) -> Flow[StoreResult]:
    """Remember something, verbatim, unless the gate refuses it (docs/gate.md).

    What says nothing, repeats what was recalled or is given a low score is not stored; what
    instructs its reader is quarantined: stored, and not recalled until it is released. The
    result says what became of it and why.

    Args:
        content: What is remembered.
        memory_type: One of the registry's: `episodic`, `semantic`, `pattern`, …; with None it
            goes to each type that it is of by what it says.
        source: Who says so: `user`, `system`, `agent`, `tool`, `web`, or a name of one's own,
            which is trusted as `unknown` is unless the gate's policy says otherwise.
        tier: Where it goes; the type's own tier if not given.
        tags: Stored in lower case, words joined by hyphens.
        project_id: The context's if not given; so `session_id` and `agent_id`.
        session_id: The turns of a session are neighbours in the order they are stored in.
        agent_id: Which agent remembers.
        speaker: Who said it: a name, or a role such as `user` and `assistant`.
        turn: Its place in the session, from 0; it follows the last one if not given.
        occurred_at: When it happened, with a time zone; not when it was recorded.
        valid_from: When it began to be true, with a time zone. If not given, it is true from
            when it happened or was recorded, whichever is earlier.
        valid_to: When it ceases to be true; not at all, if not given.
        derived_from: Keys of the memories that it was concluded from. Where one of
            them is retracted, it becomes suspect.
        importance: From 0 to 1.
        entities: Who and what it is about.
        context: The circumstances, as text or a mapping.
        emotional_valence: The mood it was in.
        platform_source: Where it comes from.
        success_metrics: What came of it, as numbers.
        source_task: The task it comes from.
        metadata: Anything else that is JSON.
        key: A key of one's own, under which storing again replaces it; else a new UUID.
        recalled: What was recalled in this run, as texts or recollections, beside what this
            coordinator recalled in the last hour: what repeats it is no new evidence.

    Raises:
        InvalidInputError: for what cannot be stored; nothing was.
    """
    one = new_memory(
        content,
        memory_type=memory_type,
        source=source,
        tier=tier,
        tags=tags,
        project_id=project_id,
        session_id=session_id,
        agent_id=agent_id,
        speaker=speaker,
        turn=turn,
        occurred_at=occurred_at,
        valid_from=valid_from,
        valid_to=valid_to,
        derived_from=derived_from,
        importance=importance,
        entities=entities,
        context=context,
        emotional_valence=emotional_valence,
        platform_source=platform_source,
        success_metrics=success_metrics,
        source_task=source_task,
        metadata=metadata,
        key=key,
        recalled=recalled,
    )
    return then(admitted(memory, [one]), itemgetter(0))


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
    """Put what was checked to the gate and store it; models review it afterwards, if they may."""
    results = yield from memory.flows.admit(memories, memory.context)
    begin_reviews(memory, _stored(results))
    return results


def _stored(results: Sequence[StoreResult]) -> list[str]:
    return [each.key for one in results for each in one.destinations if each.key is not None]
