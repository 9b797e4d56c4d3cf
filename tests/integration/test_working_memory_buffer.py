"""The buffer: a context calls memories of all tiers to mind, and a prompt gets what fits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

from langmem_tiers import MemoryCoordinator, TieredStore, WorkingMemoryBuffer
from langmem_tiers.core import tracing
from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError
from langmem_tiers.core.memory import Recollection
from langmem_tiers.memory.buffer import BufferedMemory
from langmem_tiers.testing import Mode, TrigramEmbeddings
from tests.support.coordinating import coordinator
from tests.support.opening import DIMS, Opener, text_index, tiered
from tests.support.recollections import recollection

KEYS = "When does the API key rotate"


@dataclass(frozen=True, slots=True)
class World:
    """A coordinator with a memory of the same thing in each tier, and others."""

    memory: MemoryCoordinator
    mode: Mode

    async def turn(self, buffer: WorkingMemoryBuffer, *text: Any, **options: Any) -> list[str]:
        """Turn to another context; the keys of what is in mind then."""
        if self.mode == "abatch":
            return keys(await buffer.aupdate_context(*text, **options))
        return keys(await asyncio.to_thread(buffer.update_context, *text, **options))


def keys(held: Sequence[BufferedMemory]) -> list[str]:
    return [one.memory.key for one in held]


MEMORIES = [
    ("short", "short_term", "The API key rotates today"),
    ("working", "working", "The API key rotates on Mondays"),
    ("long", "long_term", "API keys rotate once a week"),
    ("tea", "working", "Ada drinks green tea with honey"),
    ("lunch", "long_term", "Lunch is served at noon"),
]


@pytest.fixture
async def world(open_store: Opener, url: str) -> AsyncIterator[World]:
    async with open_store(url=url, index=text_index()) as driver:
        memory = coordinator(tiered(driver), project_id="billing", session_id="chat")
        await memory.astore_many(
            [{"key": key, "tier": tier, "content": content} for key, tier, content in MEMORIES]
        )
        yield World(memory, driver.mode)


async def test_what_the_next_context_does_not_call_up_fades_and_stays_while_there_is_room(
    world: World,
) -> None:
    buffer = WorkingMemoryBuffer(world.memory, capacity=2)
    buffer.add_search_results([rare("rare", 0.8)])
    await world.turn(buffer, "green tea with honey")
    assert keys(buffer.items) == ["tea", "rare"]
    assert buffer.items[1].relevance == 0.4
    buffer.clear()
    assert buffer.items == []


def rare(key: str, match: float) -> Recollection:
    return recollection(key, "Found by a search of its own", match=match)


async def test_a_ready_embedding_asks_no_model(world: World, monkeypatch: Any) -> None:
    vector = TrigramEmbeddings(DIMS).embed_query("green tea with honey")

    def refuse(*_: Any) -> Any:
        raise AssertionError("a model was asked")

    for name in ("embed_query", "aembed_query", "embed_documents", "aembed_documents"):
        monkeypatch.setattr(TrigramEmbeddings, name, refuse)
    buffer = WorkingMemoryBuffer(world.memory)
    assert (await world.turn(buffer, "green tea", embedding=vector))[0] == "tea"
    with pytest.raises(AssertionError, match="asked"):
        await world.turn(buffer, "green tea")


async def test_a_context_that_says_nothing_is_refused(world: World) -> None:
    buffer = WorkingMemoryBuffer(world.memory)
    both, numbers = "give a text, an embedding, or both", "finite numbers"
    cases: list[tuple[dict[str, Any], str]] = [
        ({"text": "  "}, both),
        ({"embedding": [1.0]}, f"a list of {DIMS} finite numbers"),
        ({"embedding": [float("nan")] * DIMS}, numbers),
        ({"embedding": "text"}, numbers),
        ({"embedding": [0.0] * DIMS}, "near to nothing"),
    ]
    for given, says in cases:
        with pytest.raises(InvalidInputError, match=says):
            await world.turn(buffer, **given)
    assert buffer.items == []
    with pytest.raises(InvalidTypeError, match="of one query"):
        await world.memory.aget_context_batch(["a", "b"], embedding=[0.0] * DIMS)


def test_no_trace_holds_a_ready_embedding() -> None:
    assert tracing._inputs({"query": "x", "embedding": [0.1], "limit": 5}) == {
        "query": "x",
        "limit": 5,
    }


def test_a_store_of_words_alone_takes_no_embedding(url: str, clock: Any) -> None:
    with TieredStore.from_conn_string(url, index={"fields": ["text"]}, clock=clock) as store:
        buffer = WorkingMemoryBuffer(coordinator(store))
        with pytest.raises(InvalidInputError, match="by words alone"):
            buffer.update_context(embedding=[1.0])


async def search(world: World, buffer: WorkingMemoryBuffer, *text: str, **options: Any) -> Any:
    if world.mode == "abatch":
        return await buffer.asearch(*text, **options)
    return await asyncio.to_thread(buffer.search, *text, **options)


async def test_search_memories_optionally_updates_working_memory_with_its_results(
    world: World,
) -> None:
    buffer = WorkingMemoryBuffer(world.memory)
    await world.turn(buffer, "green tea")
    before = {one.memory.key: one.relevance for one in buffer.items}
    await world.memory.aget_context(KEYS)  # a search that updates nothing
    assert {one.memory.key: one.relevance for one in buffer.items} == before
    found = await search(world, buffer, KEYS, tiers=["working", "long_term"], limit=2)
    assert {one.key for one in found} == {"working", "long"}
    after = {one.memory.key: one.relevance for one in buffer.items}
    for one in found:  # rank_results_by_relevance, update_with_search_results
        assert after[one.key] == max(one.match, before.get(one.key, 0.0))
    assert all(after[key] >= relevance for key, relevance in before.items())
    assert list(after.values()) == sorted(after.values(), reverse=True)  # sort_by_relevance


async def test_a_buffer_needs_a_coordinator_and_room_and_a_prompt_a_size(world: World) -> None:
    with pytest.raises(InvalidInputError, match="use 1 to 1,000"):
        WorkingMemoryBuffer(world.memory, capacity=0)
    with pytest.raises(InvalidTypeError, match="a MemoryCoordinator"):
        WorkingMemoryBuffer(world.memory.tiered_store)  # type: ignore[arg-type]
    wrong: dict[str, Any]
    for wrong in ({"max_memories": -1}, {"max_tokens": -1}, {"min_relevance": 2}):
        with pytest.raises(InvalidInputError):
            WorkingMemoryBuffer(world.memory).get_prompt_context_memories(**wrong)


async def test_many_at_once_lose_nothing_of_what_they_feed(world: World) -> None:
    buffer = WorkingMemoryBuffer(world.memory, capacity=1000)
    several = [[rare(f"{worker}-{n}", 0.5) for n in range(5)] for worker in range(16)]
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(buffer.add_search_results, several))
    assert len(buffer.items) == 80


async def test_the_embedding_of_a_text_recalls_what_the_text_does(world: World) -> None:
    vector = TrigramEmbeddings(DIMS).embed_query(KEYS)
    with_text = await world.memory.aget_context(KEYS, profile="match")
    with_both = await world.memory.aget_context(KEYS, embedding=vector, profile="match")
    assert [(one.key, one.match) for one in with_both] == [
        (one.key, one.match) for one in with_text
    ]
