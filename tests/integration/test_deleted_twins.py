"""What somebody deleted stays deleted, and with it what was merged with it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from langgraph.store.base import PutOp

from langmem_tiers import MemoryCoordinator, TieredStore, create_consolidation_graph
from langmem_tiers.core.errors import InvalidInputError, RollbackError
from langmem_tiers.learning.promotion_policy import PromotionPolicy
from tests.support.coordinating import Caller, coordinator
from tests.support.learning import broken
from tests.support.opening import Clock

FACT = "The deployment port is 8080."
QUESTION = "Which port is the deployment on?"
MILK = "Buy milk on Friday."
KEYS = ("first", "second", "third")
PROVEN = PromotionPolicy(min_access_count=0, min_age_days=0, min_projects=1)


@pytest.fixture
def memory(store: TieredStore, url: str) -> Iterator[MemoryCoordinator]:
    yield coordinator(store, project_id="billing", policy=PROVEN)
    assert broken(url) == {}


@pytest.fixture
def merged(memory: MemoryCoordinator, clock: Clock) -> str:
    """The move by which three memories of one fact have become one, the first."""
    told(memory, clock, *KEYS)
    consolidate(memory)
    (move,) = [one.move for one in memory.learning.explain("first").history if one.kind == "merged"]
    assert recalled(memory) == ["first"]
    return move


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
    memory.learning.record_outcome([one], success=True)
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
@pytest.mark.usefixtures("merged")
async def test_whichever_twin_is_deleted_none_is_recalled_again(
    memory: MemoryCoordinator, url: str, key: str, mode: Any
) -> None:
    assert await Caller(memory, mode)("delete_memory", key)
    assert await asyncio.to_thread(recalled, memory) == []
    assert stored(url) == []


@pytest.mark.usefixtures("merged")
def test_what_was_promoted_stays_in_its_project_when_its_successor_is_deleted(
    memory: MemoryCoordinator, url: str
) -> None:
    successor = promoted(memory, "first")
    assert memory.delete_memory(successor)
    assert recalled(memory) == ["first"]
    assert memory.delete_memory("first")
    assert stored(url) == []


@pytest.mark.usefixtures("merged")
def test_a_rollback_brings_back_what_was_promoted_and_its_twins_stay_with_it(
    memory: MemoryCoordinator,
) -> None:
    promoted(memory, "first")
    move = memory.learning.explain("first").history[-1]
    assert (move.kind, memory.learning.rollback(move.move)) == ("promoted", True)
    assert recalled(memory) == ["first"]


async def overwritten(memory: MemoryCoordinator, key: str, how: str) -> None:
    """Say something else under a key."""
    value = {"content": MILK, "memory_type": "pattern", "project_id": "billing"}
    store, place = memory.tiered_store, ("acme", "billing")
    if how == "store":
        await asyncio.to_thread(memory.store, MILK, "pattern", key=key)
    elif how == "put":
        await asyncio.to_thread(store.put, place, key, value)
    else:
        await store.abatch([PutOp(place, key, value), PutOp(place, "beside", value)])


@pytest.mark.parametrize("how", ["store", "put", "abatch"])
@pytest.mark.usefixtures("merged")
async def test_a_twin_lives_on_when_the_oldest_says_something_else(
    memory: MemoryCoordinator, url: str, how: str
) -> None:
    await overwritten(memory, "first", how)
    found = await asyncio.to_thread(recalled, memory)
    assert [one for one in found if one != "beside"] == ["first", "second"]
    assert [str(one) for one in (await memory.learning.aexplain("third")).successors] != []

    assert await memory.adelete_memory("first")
    assert "second" in await asyncio.to_thread(recalled, memory)
    assert set(stored(url)) >= {"second", "third"}
    assert await memory.adelete_memory("third")
    assert [one for one in await asyncio.to_thread(recalled, memory) if one != "beside"] == []
    assert [one for one in stored(url) if one != "beside"] == []


def test_a_merge_is_taken_back_after_the_oldest_says_something_else(
    memory: MemoryCoordinator, merged: str
) -> None:
    memory.store(MILK, "pattern", key="first")
    assert memory.learning.rollback(merged)
    assert recalled(memory) == ["first", "second", "third"]


@pytest.mark.usefixtures("merged")
def test_a_twin_is_recalled_when_the_oldest_was_promoted_and_says_something_else(
    memory: MemoryCoordinator, url: str
) -> None:
    successor = promoted(memory, "first")
    memory.store(MILK, "pattern", key="first")
    assert set(recalled(memory)) == {"first", "second", successor}
    assert memory.delete_memory(successor)
    assert recalled(memory) == ["first", "second"]
    assert stored(url) == ["first", "second", "third"]


@pytest.mark.parametrize("how", ["superseded", "retracted"])
@pytest.mark.usefixtures("merged")
def test_what_is_true_no_longer_does_not_come_back_when_it_is_put_over(
    memory: MemoryCoordinator, url: str, how: str
) -> None:
    if how == "superseded":
        memory.store("The deployment port is 80 by now.", "pattern", key="newer")
        memory.truth.supersede("first", by="newer")
    else:
        memory.truth.retract("first", reason="it is of another product")
    memory.store(MILK, "pattern", key="first")
    assert "second" not in recalled(memory)
    assert "lived on in first, which says something else now" in str(memory.truth.history("second"))
    assert memory.delete_memory("first")
    assert "second" in stored(url)
    assert "second" not in recalled(memory)


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


@pytest.mark.usefixtures("merged")
def test_a_deletion_in_the_store_removes_its_row_and_brings_no_twin_back(
    memory: MemoryCoordinator, store: TieredStore, clock: Clock, url: str
) -> None:
    store.delete(("acme", "billing"), "first")
    assert recalled(memory) == []
    assert stored(url) == ["second", "third"]
    assert "lived on in first, which was deleted" in str(memory.truth.history("second"))
    told(memory, clock, "second")
    assert recalled(memory) == ["second"]


def test_a_twin_stays_out_of_recall_when_what_it_came_from_is_retracted_and_restored(
    memory: MemoryCoordinator, store: TieredStore, clock: Clock
) -> None:
    memory.store("The manual names ports.", "semantic", key="manual")
    told(memory, clock, "first")
    memory.store(FACT, "pattern", key="second", derived_from=["manual"])
    consolidate(memory)
    assert recalled(memory) == ["first", "manual"]
    store.delete(("acme", "billing"), "first")
    memory.truth.retract("manual", reason="it is of another product")
    memory.truth.restore("manual")
    assert recalled(memory) == ["manual"]


def test_a_merge_whose_memories_were_deleted_leaves_nothing_to_undo(
    memory: MemoryCoordinator, merged: str
) -> None:
    assert memory.delete_memory("second")
    with pytest.raises(RollbackError, match="was deleted"):
        memory.learning.rollback(merged)
    with pytest.raises(InvalidInputError, match="no memory"):
        memory.truth.history("first")


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
