"""What somebody deleted stays deleted, and with it what was merged with it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from langmem_tiers import (
    InvalidInputError,
    MemoryCoordinator,
    RollbackError,
    TieredStore,
    create_consolidation_graph,
)
from langmem_tiers.config import PromotionSettings
from tests.support.coordinating import Caller, coordinator
from tests.support.learning import broken
from tests.support.opening import Clock, text_index

FACT = "The deployment port is 8080."
QUESTION = "Which port is the deployment on?"
KEYS = ("first", "second", "third")
PROVEN = PromotionSettings(min_access_count=0, min_age_days=0, min_projects=1)


@pytest.fixture
def store(url: str, clock: Clock) -> Iterator[TieredStore]:
    with TieredStore(url, index=text_index(), clock=clock) as opened:
        yield opened


@pytest.fixture
def memory(store: TieredStore) -> MemoryCoordinator:
    return coordinator(store, project_id="billing", policy=PROVEN)


def told(memory: MemoryCoordinator, clock: Clock, *keys: str) -> None:
    """Say the fact once under each key."""
    for key in keys:
        memory.store(FACT, "pattern", key=key)
        clock.advance(minutes=1)


def consolidate(memory: MemoryCoordinator) -> None:
    create_consolidation_graph(store=memory.tiered_store).invoke({}, context=memory.context)


def promoted(memory: MemoryCoordinator, key: str) -> str:
    """Promote a memory that has proven itself; its successor."""
    (one,) = [each for each in memory.get_context(QUESTION, limit=50) if each.key == key]
    memory.record_outcome([one], success=True)
    promotion = memory.promote_to_long_term(key)
    assert promotion.promoted, promotion
    return str(promotion.successor)


def recalled(memory: MemoryCoordinator) -> list[str]:
    """The keys of what is found, asked for or not."""
    found = [*memory.get_context(QUESTION, limit=50), *memory.get_context("", limit=50)]
    return sorted({one.key for one in found})


def stored(url: str) -> list[str]:
    with psycopg.connect(url) as conn:
        return [row[0] for row in conn.execute("SELECT key FROM memory.memories ORDER BY key")]


@pytest.mark.parametrize("mode", ["batch", "abatch"])
@pytest.mark.parametrize("key", KEYS)
async def test_whichever_twin_is_deleted_none_is_recalled_again(
    memory: MemoryCoordinator, clock: Clock, url: str, key: str, mode: Any
) -> None:
    await asyncio.to_thread(told, memory, clock, *KEYS)
    await asyncio.to_thread(consolidate, memory)
    assert await asyncio.to_thread(recalled, memory) == ["first"]

    assert await Caller(memory, mode)("delete_memory", key)
    assert await asyncio.to_thread(recalled, memory) == []
    assert stored(url) == []
    assert broken(url) == {}


@pytest.mark.parametrize("key", KEYS)
def test_what_was_merged_and_promoted_stays_deleted(
    memory: MemoryCoordinator, clock: Clock, url: str, key: str
) -> None:
    told(memory, clock, *KEYS)
    consolidate(memory)
    successor = promoted(memory, "first")
    assert recalled(memory) == [successor]

    assert memory.delete_memory(key)
    assert recalled(memory) == stored(url) == [successor]
    assert memory.delete_memory(successor)
    assert recalled(memory) == stored(url) == []


def test_what_was_promoted_comes_back_with_its_twins_merged_until_it_is_deleted(
    memory: MemoryCoordinator, clock: Clock, url: str
) -> None:
    told(memory, clock, *KEYS)
    consolidate(memory)
    assert memory.delete_memory(promoted(memory, "first"))
    assert recalled(memory) == ["first"]
    assert memory.delete_memory("second")
    assert recalled(memory) == stored(url) == []


def test_what_was_said_again_after_the_promotion_goes_with_what_it_repeats(
    memory: MemoryCoordinator, clock: Clock, url: str
) -> None:
    told(memory, clock, "first")
    successor = promoted(memory, "first")
    told(memory, clock, "second")
    assert promoted(memory, "second") == successor

    assert memory.delete_memory("first")
    assert memory.delete_memory(successor)
    assert recalled(memory) == stored(url) == []


def test_what_another_project_said_stays_when_this_one_deletes_its_own(
    memory: MemoryCoordinator, store: TieredStore, clock: Clock
) -> None:
    shipping = coordinator(store, project_id="shipping", policy=PROVEN)
    told(memory, clock, "first")
    told(shipping, clock, "theirs")
    successor = promoted(memory, "first")
    assert memory.delete_memory("first")
    assert memory.delete_memory(successor)
    assert recalled(memory) == []
    assert recalled(shipping) == ["theirs"]


async def test_a_deletion_in_the_store_removes_its_row_and_brings_no_twin_back(
    memory: MemoryCoordinator, store: TieredStore, clock: Clock, url: str
) -> None:
    await asyncio.to_thread(told, memory, clock, *KEYS)
    await asyncio.to_thread(consolidate, memory)
    await store.adelete(("acme", "billing"), "first")
    assert await asyncio.to_thread(recalled, memory) == []
    assert stored(url) == ["second", "third"]
    assert "lived on in first, which was deleted" in str(await memory.ahistory("second"))
    assert broken(url) == {}

    await asyncio.to_thread(told, memory, clock, "second")
    assert await asyncio.to_thread(recalled, memory) == ["second"]
    assert broken(url) == {}


def test_a_twin_stays_out_of_recall_when_what_it_came_from_is_retracted_and_restored(
    memory: MemoryCoordinator, store: TieredStore, clock: Clock
) -> None:
    memory.store("The manual names ports.", "semantic", key="manual")
    told(memory, clock, "first")
    memory.store(FACT, "pattern", key="second", derived_from=["manual"])
    consolidate(memory)
    assert recalled(memory) == ["first", "manual"]
    store.delete(("acme", "billing"), "first")
    memory.retract("manual", reason="it is of another product")
    memory.restore("manual")
    assert recalled(memory) == ["manual"]


def test_a_merge_that_was_taken_back_leaves_memories_of_their_own(
    memory: MemoryCoordinator, clock: Clock
) -> None:
    told(memory, clock, "first", "second")
    consolidate(memory)
    (move,) = [one.move for one in memory.explain("first").history if one.kind == "merged"]
    memory.rollback(move)
    assert memory.delete_memory("first")
    assert recalled(memory) == ["second"]


def test_a_twin_that_says_something_else_by_now_stays(
    memory: MemoryCoordinator, clock: Clock
) -> None:
    told(memory, clock, "first", "second")
    consolidate(memory)
    memory.store("Invoices are sent on Fridays.", "pattern", key="second")
    assert memory.delete_memory("first")
    assert recalled(memory) == ["second"]


def test_what_was_deleted_with_its_twins_can_be_told_again(
    memory: MemoryCoordinator, clock: Clock
) -> None:
    told(memory, clock, "first", "second")
    consolidate(memory)
    assert memory.delete_memory("first")
    told(memory, clock, "second")
    assert recalled(memory) == ["second"]


def test_a_merge_whose_memories_were_deleted_leaves_nothing_to_undo(
    memory: MemoryCoordinator, clock: Clock
) -> None:
    told(memory, clock, "first", "second")
    consolidate(memory)
    (move,) = [one.move for one in memory.explain("first").history if one.kind == "merged"]
    assert memory.delete_memory("second")
    with pytest.raises(RollbackError, match="was deleted"):
        memory.rollback(move)
    with pytest.raises(InvalidInputError, match="no memory"):
        memory.history("first")


def test_a_twin_lives_on_when_the_oldest_expires(
    memory: MemoryCoordinator, store: TieredStore, clock: Clock
) -> None:
    memory.store(FACT, "pattern", key="first")
    store.put(
        ("acme", "billing"),
        "first",
        {"content": FACT, "memory_type": "pattern", "project_id": "billing"},
        ["content"],
        ttl=120,
    )
    clock.advance(hours=1)
    told(memory, clock, "second")
    consolidate(memory)
    clock.now += timedelta(days=1)
    store.sweep_ttl()
    assert recalled(memory) == ["second"]
