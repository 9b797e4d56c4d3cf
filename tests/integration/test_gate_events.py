"""What was done to a memory is told in the table of events, after the memory is gone as well."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest

from tests.support.coordinating import Caller, calling
from tests.support.opening import Clock, Opener
from tests.support.reviewing import model_of, scoring
from tests.support.wayward_chat import minded

FACT = "The API key of billing rotates on Mondays at 9:00."


def kinds(url: str) -> list[str]:
    """What was done, in order."""
    with psycopg.connect(url) as conn:
        rows = conn.execute("SELECT kind FROM memory.events ORDER BY number").fetchall()
    return [row[0] for row in rows]


async def swept(call: Caller) -> int:
    """Have the store sweep; how many memories went."""
    store = call.memory.tiered_store
    if call.mode == "abatch":
        return await store.asweep_ttl()
    return await asyncio.to_thread(store.sweep_ttl)


@pytest.mark.parametrize("goes", ["deleted", "expired"])
async def test_a_review_stays_as_all_that_was_done_to_a_memory_that_is_gone(
    open_store: Opener, url: str, clock: Clock, goes: str
) -> None:
    with minded(scoring()) as server:
        options: dict[str, Any] = {"review_model": model_of(server), "review_storage": "background"}
        async with calling(open_store, url, session_id="s", **options) as call:
            await call("store", FACT, source="tool", key="key", tier="short_term")
            assert await call("finish_reviews")
            await call("retract", "key", reason="it was wrong")
            done = ["quarantined", "reviewed", "released", "retracted"]
            assert kinds(url) == done
            if goes == "deleted":
                assert await call("delete_memory", "key")
            else:
                clock.advance(days=1)
                assert await swept(call) == 1
            assert await call("get", "key") is None

    assert kinds(url) == done


async def test_a_review_of_what_was_rejected_is_forgotten_with_its_history(
    open_store: Opener, url: str, clock: Clock
) -> None:
    with minded(scoring(injection=0)) as server:
        options: dict[str, Any] = {"review_model": model_of(server), "review_storage": "background"}
        async with calling(open_store, url, **options) as call:
            await call("store", FACT, key="key")
            assert await call("finish_reviews")
            await call("reject", "key", reason="it is an attack")
            assert kinds(url) == ["reviewed", "quarantined", "rejected"]
            clock.advance(days=1000)
            await swept(call)

    assert kinds(url) == []
