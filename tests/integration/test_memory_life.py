"""How long memories live, how reads are counted, and how memories are forgotten."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any

import pytest
from langgraph.store.base import TTLConfig

from langmem_tiers import MemoryType, MemoryTypes, Tier, TieredStore
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.memory import TIERS
from tests.support.coordinating import Caller, calling, coordinator, keys
from tests.support.opening import Clock, Opener, tables

Open = Callable[..., AbstractAsyncContextManager[Caller]]
"""Opens an empty store and puts a coordinator on it."""


@pytest.fixture
def opening(open_store: Opener, url: str) -> Open:
    """Opens coordinators of (acme, billing, chat) each way."""
    return partial(calling, open_store, url, project_id="billing", session_id="chat")


@pytest.fixture
async def call(opening: Open) -> AsyncIterator[Caller]:
    """A coordinator of (acme, billing, chat)."""
    async with opening() as opened:
        yield opened


# Time to live


@pytest.mark.parametrize(
    ("kind", "tier", "ttl", "minutes"),
    [
        ("brief", "short_term", None, 7),
        ("brief", "working", {"default_ttl": 20}, 20),
        ("episodic", "short_term", {"default_ttl": 20}, 20),
    ],
)
async def test_the_default_ttl_comes_before_the_types_and_the_tiers(
    opening: Open, clock: Clock, kind: str, tier: str, ttl: TTLConfig | None, *, minutes: float
) -> None:
    types = MemoryTypes()
    types.register(MemoryType(name="brief", tier=Tier.WORKING, title="Brief", ttl=7))
    config: TTLConfig | None = {**ttl, "omit_expired": True} if ttl else None
    async with opening(types=types, ttl=config) as call:
        await call("store", "kiwi", kind, tier=tier)
        for found, later in ((1, minutes - 0.01), (0, 0.02)):
            clock.advance(minutes=later)
            assert (await call("stats")).total_count == found
        assert await call("get_context", "kiwi") == []


async def test_what_is_read_lives_on(call: Caller, clock: Clock) -> None:
    await call("store_many", [{"content": "kiwi", "key": "kiwi", "tier": "short_term"}])
    for verb in ("get", "get_context") * 2:
        clock.advance(minutes=50)
        assert await call(verb, "kiwi")
    clock.advance(minutes=61)
    assert not await call("get", "kiwi")


# Accesses


async def test_what_is_returned_is_counted_once_and_nothing_else(call: Caller) -> None:
    await call("store_many", [{"content": f"kiwi {n}", "key": f"{n}"} for n in range(6)])
    found = await call("get_context", "kiwi", limit=2)
    assert [one.access_count for one in found] == [0, 0]
    assert (await call("stats")).accesses == 2
    await call("get_context", "kiwi", limit=0)
    await call("get_context", "kiwi", max_tokens=0)
    assert (await call("stats")).accesses == 2
    again = await call("get", found[0].key)
    assert again.access_count == 1
    assert (await call("stats")).accesses == 3
    rest = {f"{n}" for n in range(6)} - set(keys(found))
    assert {(await call("get", key)).access_count for key in rest} == {0}


async def test_strength_halves_in_thirty_days_and_each_access_adds_one(
    call: Caller, clock: Clock
) -> None:
    key = (await call("store", "kiwi")).key
    expected = 0.0
    for days in (0, 30, 15, 60, 0.5):
        clock.advance(days=days)
        await call("get", key)
        expected = expected * 0.5 ** (days / 30) + 1
        await call("stats")  # which writes what was counted
        (found,) = await call("get_context", "", limit=1)
        assert found.strength == pytest.approx(expected)
        assert found.last_accessed_at == clock.now
        await call("stats")
        expected += 1


# Forgetting


async def test_a_memory_is_deleted_once(call: Caller, url: str) -> None:
    keep = (await call("store", "keep")).key
    for tier in TIERS:
        key = (await call("store", "gone", tier=tier)).key
        assert await call("delete_memory", key) is True
        assert await call("delete_memory", key) is False
        assert await call("get", key) is None
    assert keys(await call("get_context", "")) == [keep]
    assert len(tables(url)["vectors"]) == 1


async def test_clearing_a_session_removes_its_working_memories_alone(call: Caller) -> None:
    for tier in TIERS:
        await call("store", f"note in {tier}", "working", tier=tier, session_id="chat")
    for name, session in [("episodic", "chat"), ("working", "other"), ("pattern", "chat")]:
        await call("store", "stays", name, session_id=session)
        await call("store", "stays", name, tier="short_term", session_id=session)
    assert await call("clear_working_memory", "chat") == 3
    assert await call("clear_working_memory", "chat") == 0
    stats = await call("stats")
    assert (stats.total_count, stats.by_type["working"]) == (6, 2)


async def test_a_session_or_key_that_cannot_be_one_is_refused(call: Caller) -> None:
    wrong: Any
    for wrong in (5, None, "\0", "\ud800"):
        for verb in ("clear_working_memory", "delete_memory", "get"):
            with pytest.raises(InvalidInputError):
                await call(verb, wrong)


async def test_stats_count_by_type_and_tier_what_is_alive(call: Caller, clock: Clock) -> None:
    await call("store_many", ["one", "two", {"content": "three", "memory_type": "learning"}])
    await call("store", "brief", tier="short_term")
    for short_term, episodic in ((1, 3), (0, 2)):
        stats = await call("stats")
        assert dict(stats.by_tier) == {"short_term": short_term, "working": 2, "long_term": 1}
        assert dict(stats.by_type) == {"episodic": episodic, "learning": 1}
        assert stats.total_count == episodic + 1
        clock.advance(hours=2)


# Whose memory a key means


def test_a_key_is_the_projects_own_and_while_it_is_one_memorys_that_of_its_other_sessions(
    store: TieredStore,
) -> None:
    one, other = (coordinator(store, project_id=name) for name in ("one", "other"))
    one.store("of one", key="k")
    other.store("of the other", key="k")
    assert other.delete_memory("k")
    found = one.get("k")
    assert found is not None
    assert found.content == "of one"
    s, t = (coordinator(store, project_id="one", session_id=name) for name in ("s", "t"))
    for session in (s, t):
        session.store("of its session", "working", key="several")
    s.store("of s", "working", key="single")
    assert s.get("several") is not None
    assert t.delete_memory("single")
    for call in (one.get, one.delete_memory):
        with pytest.raises(InvalidInputError, match="several memories"):
            call("several")
