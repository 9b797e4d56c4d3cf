"""The buffer: a context calls memories of all tiers to mind, and a prompt gets what fits."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from langmem_tiers import TieredStore, WorkingMemoryBuffer
from langmem_tiers.coordinator.buffer import BufferedMemory
from langmem_tiers.core import tracing
from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError
from langmem_tiers.core.memory import Recollection
from langmem_tiers.testing import TrigramEmbeddings
from tests.support.coordinating import Verbs, coordinator
from tests.support.opening import DIMS, Opener, text_index, tiered
from tests.support.recollections import recollection

KEYS = "When does the API key rotate"


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
async def mind(open_store: Opener, url: str) -> AsyncIterator[Verbs]:
    """A buffer over a memory of the same thing in each tier, and others."""
    async with open_store(url=url, index=text_index()) as driver:
        memory = coordinator(tiered(driver), project_id="billing", session_id="chat")
        await memory.astore_many(
            [{"key": key, "tier": tier, "content": content} for key, tier, content in MEMORIES]
        )
        yield Verbs(WorkingMemoryBuffer(memory, capacity=3), driver.mode)


def rare(key: str, match: float) -> Recollection:
    return recollection(key, "Found by a search of its own", match=match)


async def test_what_the_next_context_does_not_call_up_fades_and_stays_while_there_is_room(
    mind: Verbs,
) -> None:
    mind.of.add_search_results([rare("rare", 0.4)])
    await mind("update_context", "green tea with honey")
    held = mind.of.items
    assert keys(held)[0] == "tea"
    assert {one.memory.key: one.relevance for one in held}["rare"] == 0.2
    assert "lunch" not in keys(held)
    mind.of.clear()
    assert mind.of.items == []


async def test_an_embedding_recalls_what_its_text_does_and_asks_no_model(
    mind: Verbs, monkeypatch: Any, caplog: pytest.LogCaptureFixture
) -> None:
    embedding, memory = TrigramEmbeddings(DIMS).embed_query(KEYS), mind.of.memory
    with_text = await memory.aget_context(KEYS, profile="match")

    def refuse(*_: Any) -> Any:
        raise AssertionError("a model was asked")

    for name in ("embed_query", "aembed_query", "embed_documents", "aembed_documents"):
        monkeypatch.setattr(TrigramEmbeddings, name, refuse)
    with_both = await memory.aget_context(KEYS, embedding=embedding, profile="match")
    assert [(one.key, one.match) for one in with_both] == [
        (one.key, one.match) for one in with_text
    ]
    held = await mind("update_context", KEYS, embedding=embedding)
    assert set(keys(held)) == {"short", "working", "long"}
    assert "a model was asked" not in caplog.text
    await mind("update_context", KEYS)
    assert "a model was asked" in caplog.text  # and recall went by words


async def test_a_context_that_says_nothing_is_refused(mind: Verbs) -> None:
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
            await mind("update_context", **given)
    assert mind.of.items == []
    with pytest.raises(InvalidTypeError, match="of one query"):
        await mind.of.memory.aget_context_batch(["a", "b"], embedding=[0.0] * DIMS)


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


async def test_search_memories_optionally_updates_working_memory_with_its_results(
    mind: Verbs,
) -> None:
    mind = Verbs(WorkingMemoryBuffer(mind.of.memory), mind.mode)
    await mind("update_context", "green tea")
    before = {one.memory.key: one.relevance for one in mind.of.items}
    await mind.of.memory.aget_context(KEYS)  # a search that updates nothing
    assert {one.memory.key: one.relevance for one in mind.of.items} == before
    found = await mind("search", KEYS, tiers=["working", "long_term"], limit=2)
    assert {one.key for one in found} == {"working", "long"}
    after = {one.memory.key: one.relevance for one in mind.of.items}
    for one in found:  # rank_results_by_relevance, update_with_search_results
        assert after[one.key] == max(one.match, before.get(one.key, 0.0))
    assert all(after[key] >= relevance for key, relevance in before.items())
    assert list(after.values()) == sorted(after.values(), reverse=True)  # sort_by_relevance


def test_a_buffer_needs_a_coordinator_and_room_and_a_prompt_a_size(store: TieredStore) -> None:
    buffer = WorkingMemoryBuffer(coordinator(store))
    with pytest.raises(InvalidInputError, match="use 1 to 1,000"):
        WorkingMemoryBuffer(coordinator(store), capacity=0)
    with pytest.raises(InvalidTypeError, match="a MemoryCoordinator"):
        WorkingMemoryBuffer(store)  # type: ignore[arg-type]
    wrong: list[dict[str, Any]] = [{"max_memories": -1}, {"max_tokens": -1}, {"min_relevance": 2}]
    for given in wrong:
        with pytest.raises(InvalidInputError):
            buffer.get_prompt_context_memories(**given)


def test_many_at_once_lose_nothing_of_what_they_feed(store: TieredStore) -> None:
    buffer = WorkingMemoryBuffer(coordinator(store), capacity=1000)
    several = [[rare(f"{worker}-{n}", 0.5) for n in range(5)] for worker in range(16)]
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(buffer.add_search_results, several))
    assert len(buffer.items) == 80


def test_a_prompt_has_a_section_with_the_title_of_each_type(store: TieredStore) -> None:
    memory = coordinator(store, project_id="billing")
    memory.store("The API key rotates on Mondays.", "semantic", key="when")
    memory.store("Rotate the API key with the console.", "procedural", key="how")
    buffer = WorkingMemoryBuffer(memory)
    buffer.update_context("When does the API key rotate?")
    lines = buffer.get_prompt_context_memories().text.splitlines()
    best, other = (
        ("Semantic Memory:", "Mondays"),
        ("Procedures:", "console"),
    )[:: 1 if keys(buffer.items)[0] == "when" else -1]
    assert (lines[2], best[1] in lines[3]) == (best[0], True)
    assert (lines[4], other[1] in lines[5]) == (other[0], True)
    assert "Lessons:" not in lines
