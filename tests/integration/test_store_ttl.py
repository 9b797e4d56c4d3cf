"""Lifetimes: what expires when, what a read extends, and who sees what has expired."""

from __future__ import annotations

import math
from typing import Any

import psycopg
import pytest
from langgraph.store.base import PutOp, TTLConfig

from langmem_tiers.testing import StoreDriver
from tests.support.opening import Clock, Opener, in_tier, text_index, tier_of, tiered

NS = ("acme", "ttl")


def minutes_left(url: str, key: str, clock: Clock) -> float | None:
    query = "SELECT expires_at FROM memory.memories WHERE key = %s"
    with psycopg.connect(url) as conn:
        ((expires_at,),) = conn.execute(query, [key]).fetchall()
    return None if expires_at is None else (expires_at - clock.now).total_seconds() / 60


async def test_the_ttl_of_an_operation_beats_the_default_and_the_default_the_tier(
    open_store: Opener, url: str, clock: Clock
) -> None:
    async with open_store(url=url, ttl=TTLConfig(default_ttl=7)) as driver:
        for tier in ("short_term", "working"):
            view = in_tier(driver, tier)
            await view.put(NS, tier, {})
            await view.put(NS, f"{tier} op", {}, ttl=2)
            await view.put(NS, f"{tier} never", {}, ttl=None)
            left = [minutes_left(url, f"{tier}{one}", clock) for one in ("", " op", " never")]
            assert left == [7, 2, None]


async def test_a_plain_put_on_a_short_term_memory_starts_the_tiers_life_again(
    driver: StoreDriver, url: str, clock: Clock
) -> None:
    await in_tier(driver, "short_term").put(NS, "k", {}, ttl=5)
    await driver.put(NS, "k", {"v": 2})
    assert tier_of(url, "k") == ["short_term"]
    assert minutes_left(url, "k", clock) == 60


async def test_a_tier_has_the_life_of_its_option_and_others_none(
    open_store: Opener, url: str, clock: Clock
) -> None:
    for short_term in (60, 5.5, None):
        async with open_store(url=url, short_term_ttl=short_term) as driver:
            for tier in ("short_term", "working", "long_term"):
                await in_tier(driver, tier).put(NS, f"{tier}{short_term}", {})
                left = minutes_left(url, f"{tier}{short_term}", clock)
                assert left == (short_term if tier == "short_term" else None)


async def test_short_term_slides_an_hour_at_each_read_and_then_is_gone(
    driver: StoreDriver, clock: Clock
) -> None:
    view = in_tier(driver, "short_term")
    await view.put(NS, "k", {"text": "still here"})
    for _ in range(3):
        clock.advance(minutes=59)
        assert await driver.get(NS, "k") is not None
        clock.advance(minutes=59)
        assert await driver.keys(NS, query="still here") == ["k"]
    clock.advance(minutes=60)
    assert await driver.get(NS, "k") is None
    assert await driver.search(NS) == []
    assert await driver.search(NS, query="still here") == []
    assert await driver.list_namespaces() == []
    assert await tiered(driver).asweep_ttl() == 1


async def test_expired_items_stay_visible_until_swept_where_omit_expired_is_off(
    open_store: Opener, url: str, clock: Clock
) -> None:
    ttl = TTLConfig(omit_expired=False, default_ttl=1)
    async with open_store(url=url, index=text_index(), ttl=ttl) as driver:
        await driver.put(NS, "k", {"text": "here"}, ttl=1)
        clock.advance(minutes=2)
        assert await driver.keys(NS, refresh_ttl=False) == ["k"]
        assert await driver.keys(NS, query="here", refresh_ttl=False) == ["k"]
        assert await driver.list_namespaces() == [NS]
        assert await driver.get(NS, "k", refresh_ttl=True) is not None
        assert minutes_left(url, "k", clock) == 1
        clock.advance(minutes=2)
        assert await tiered(driver).asweep_ttl() == 1
        assert await driver.get(NS, "k") is None


async def test_the_ttl_mapping_is_kept_and_read_at_each_call(
    open_store: Opener, url: str, clock: Clock
) -> None:
    ttl = TTLConfig(default_ttl=1)
    async with open_store(url=url, ttl=ttl) as driver:
        assert driver.store.ttl_config is ttl
        assert tiered(driver).tier("working").ttl_config is ttl
        ttl["default_ttl"] = 9
        await driver.put(NS, "k", {})
        assert minutes_left(url, "k", clock) == 9
        ttl["refresh_on_read"] = False
        clock.advance(minutes=5)
        await driver.get(NS, "k")
        assert minutes_left(url, "k", clock) == 4


async def test_what_has_expired_does_not_stand_in_the_way(
    driver: StoreDriver, url: str, clock: Clock
) -> None:
    for key in ("plain", "view", "moved"):
        await in_tier(driver, "short_term").put(NS, key, {"v": "old"})
    await driver.get(NS, "plain")
    clock.advance(hours=2)
    assert not await tiered(driver).amove(NS, "moved", "long_term")
    await driver.put(NS, "plain", {"v": "new"})
    await in_tier(driver, "long_term").put(NS, "view", {"v": "new"})
    assert (tier_of(url, "plain"), tier_of(url, "view")) == (["working"], ["long_term"])
    for key in ("plain", "view"):
        item = await driver.get(NS, key)
        assert item is not None
        assert item.created_at == item.updated_at == clock.now
    assert await driver.get(NS, "moved") is None


async def test_a_sweep_removes_all_that_has_expired_and_nothing_else(
    driver: StoreDriver, clock: Clock
) -> None:
    await driver.batch([PutOp(NS, f"old{n}", {"text": f"old {n}"}, ttl=1) for n in range(1203)])
    await driver.batch([PutOp(NS, f"new{n}", {"text": f"new {n}"}, ttl=9) for n in range(3)])
    await driver.put(NS, "never", {})
    clock.advance(minutes=1)
    assert await tiered(driver).asweep_ttl() == 1203
    assert await tiered(driver).asweep_ttl() == 0
    assert sorted(await driver.keys(NS)) == ["never", "new0", "new1", "new2"]


async def test_a_lifetime_of_zero_is_over_at_once_and_what_makes_no_sense_is_refused(
    driver: StoreDriver,
) -> None:
    wrong: Any
    for wrong in (-1, math.nan, math.inf, 1e300, True, "5", [5]):
        with pytest.raises(ValueError, match="TTL"):
            await driver.put(NS, "k", {}, ttl=wrong)
    assert await driver.search(NS) == []
    await driver.put(NS, "k", {}, ttl=0)
    assert await driver.get(NS, "k") is None
    assert await tiered(driver).asweep_ttl() == 1
