"""A long text holds nobody up: the loop runs on while it is judged."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from itertools import repeat
from typing import Any

import psycopg
import pytest

from langmem_tiers import (
    Bounds,
    LocalEmbeddings,
    MemoryContext,
    MemoryCoordinator,
    TieredStore,
    create_consolidation_graph,
)
from langmem_tiers.core.config import lexical_text
from langmem_tiers.core.errors import TooLargeError
from langmem_tiers.remember.private import detectors
from tests.support.heartbeats import beating_task

MOST = 0.5
"""Seconds for which nobody may be held up."""
TRIED = "abc"
"""The best of several counts."""
CONTEXT = MemoryContext(tenant="acme", project_id="p", session_id="s")
INDEX = {"fields": ["content"]}
TEXTS = {
    "one word": "a" * 40_000,
    "words joined": "a_" * 10_000,
    "labels": "note: " * 7_500,
    "words": "we keep ben " * 83_000,
    "names": "a." * 100_000,
    "quotation marks": '"' * 500_000,
}
SAID = ("remind me to call Bob ", "not ", "if Ada says ")


@pytest.mark.parametrize("name", TEXTS)
async def test_a_loop_runs_on_while_a_long_text_is_stored(url: str, name: str) -> None:
    async with TieredStore(url, index=INDEX) as store:
        memory = MemoryCoordinator(store, context=CONTEXT, detectors=detectors("email", "url"))
        await memory.astore("The stand-up is at nine.", source="web")  # what is loaded once
        boxes = iter(TRIED)

        async def store_one() -> None:
            text = f"we will keep box {next(boxes)} because ben likes it {TEXTS[name]}"
            assert (await memory.astore(text, source="web")).stored

        assert await _held(store_one) < MOST


async def _held(does: Callable[[], Awaitable[object]]) -> float:
    """Seconds for which a loop is held by this at best."""
    held = []
    for _ in TRIED:
        async with beating_task() as heart:
            await does()
        held.append(heart.longest)
        if min(held) < MOST:
            break
    return min(held)


async def test_a_loop_runs_on_while_an_interaction_is_read(url: str) -> None:
    interaction = {"content": "When I call Bob, I prefer tea. " * 30_000}
    async with TieredStore(url, index=INDEX) as store:
        memory = MemoryCoordinator(store, context=CONTEXT)
        await memory.aevolve({"content": "The stand-up is at nine."}, {"success": True})
        metrics = {"engagement_rate": 1.0}
        assert await _held(lambda: memory.aevolve(interaction, metrics)) < MOST
        assert (await memory.astats()).total_count == 1


async def test_a_loop_runs_on_while_much_that_was_recalled_is_compared(url: str) -> None:
    recalled = [f"Ada likes coffee {number} of the list." for number in range(12_000)]
    async with TieredStore(url, index=INDEX) as store:
        memory = MemoryCoordinator(store, context=CONTEXT)
        new = iter(TRIED)

        async def store_one() -> None:
            recalled.append(f"Ada took box {next(new)} along.")
            await memory.astore("Ada likes coffee a lot too.", recalled=recalled)

        assert await _held(store_one) < MOST


async def test_a_loop_runs_on_while_long_memories_are_consolidated(url: str) -> None:
    async with TieredStore(url, index=INDEX) as store:
        memory = MemoryCoordinator(store, context=CONTEXT)
        graph = create_consolidation_graph(store=store)

        async def consolidate() -> None:
            for said in SAID:
                long = said * (300_000 // len(said))
                await memory.aevolve({"content": long}, {"engagement_rate": 1.0})
            await graph.ainvoke({}, context=CONTEXT)

        assert await _held(consolidate) < MOST


async def test_a_loop_runs_on_while_a_value_of_many_fields_is_put(url: str) -> None:
    value = {str(number): "ab" for number in range(100_000)}
    async with TieredStore(url, index={"fields": ["$"]}) as store:
        assert await _held(lambda: store.aput(("acme", "p"), "many", value)) < MOST


async def test_a_loop_runs_on_while_a_long_text_is_embedded() -> None:
    model = LocalEmbeddings()
    await model.aembed_query("The stand-up is at nine.")
    text = "\N{ARABIC LIGATURE SALLALLAHOU ALAYHE WASALLAM}" * 600_000
    assert await _held(lambda: model.aembed_query(text)) < MOST


@pytest.mark.parametrize("name", ["tags", "entities", "derived_from", "recalled"])
def test_a_memory_lists_no_more_than_fits_a_batch(url: str, name: str) -> None:
    with TieredStore(url, index=INDEX, bounds=Bounds(batch=3)) as store:
        memory = MemoryCoordinator(store, context=CONTEXT)
        memory.store("Ada likes tea, as far as we know.", key="tea")
        some: dict[str, Any] = {name: ["tea"] * 3}
        assert memory.store("Ben likes coffee more than Cleo does.", **some).stored
        for many in (["tea"] * 4, repeat("tea")):
            some = {name: many}
            with pytest.raises(TooLargeError, match="batch"):
                memory.store("Dora likes water best of all.", **some)


def test_a_value_has_no_more_texts_than_fit_a_batch(url: str) -> None:
    with TieredStore(url, index={"fields": ["said[*]"]}, bounds=Bounds(batch=3)) as store:
        store.put(("acme",), "three", {"said": ["a", "b", "c"]})
        with pytest.raises(TooLargeError, match="batch"):
            store.put(("acme",), "four", {"said": ["a", "b", "c", "d"]})


def test_the_words_of_a_text_without_blanks_take_time_in_proportion_to_it(url: str) -> None:
    def seconds(text: str) -> float:
        began = time.perf_counter()
        conn.execute("SELECT to_tsvector('simple', %s)", [lexical_text(text)])
        return time.perf_counter() - began

    with psycopg.connect(url) as conn:
        ratios = [seconds("a_" * 6_000) / seconds("a_" * 3_000) for _ in TRIED]
    assert min(ratios) < 2.5
