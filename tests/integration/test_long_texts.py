"""A long text holds nobody up: other threads run on while it is judged, and so does the loop."""

from __future__ import annotations

import time

import psycopg
import pytest

from langmem_tiers import MemoryContext, MemoryCoordinator, TieredStore
from langmem_tiers.config import lexical_text
from langmem_tiers.detecting import detectors
from tests.support.heartbeats import beating_task, beating_thread

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
    "names": "a." * 499_000,
}


@pytest.mark.parametrize("name", TEXTS)
def test_no_thread_is_held_up_while_a_long_text_is_stored(url: str, name: str) -> None:
    with TieredStore(url, index=INDEX) as store:
        memory = MemoryCoordinator(store, context=CONTEXT, detectors=detectors("email", "url"))
        memory.store("The stand-up is at nine.", source="web")  # what is loaded once
        held = []
        for box in TRIED:
            text = f"we will keep box {box} because ben likes it {TEXTS[name]}"
            with beating_thread() as heart:
                result = memory.store(text, source="web")
            assert result.stored
            held.append(heart.longest)
            if min(held) < MOST:
                break
    assert min(held) < MOST


@pytest.mark.parametrize("name", TEXTS)
async def test_a_loop_runs_on_while_a_long_text_is_stored(url: str, name: str) -> None:
    async with TieredStore(url, index=INDEX) as store:
        memory = MemoryCoordinator(store, context=CONTEXT, detectors=detectors("email", "url"))
        await memory.astore("The stand-up is at nine.", source="web")
        held = []
        for box in TRIED:
            text = f"we will keep box {box} because ben likes it {TEXTS[name]}"
            async with beating_task() as heart:
                result = await memory.astore(text, source="web")
            assert result.stored
            held.append(heart.longest)
            if min(held) < MOST:
                break
    assert min(held) < MOST


def test_the_words_of_a_text_without_blanks_take_time_in_proportion_to_it(url: str) -> None:
    def seconds(text: str) -> float:
        began = time.perf_counter()
        conn.execute("SELECT to_tsvector('simple', %s)", [lexical_text(text)])
        return time.perf_counter() - began

    with psycopg.connect(url) as conn:
        ratios = [seconds("a_" * 6_000) / seconds("a_" * 3_000) for _ in TRIED]
    assert min(ratios) < 2.5
