"""Tiers: where a memory goes, who sees it, and what a move keeps."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg
import pytest
from langgraph.store.base import GetOp, ListNamespacesOp, PutOp, SearchOp

from langmem_tiers import Tier
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.testing import StoreDriver
from tests.support.coded import coded
from tests.support.invariants import access_counts
from tests.support.opening import Clock, Opener, in_tier, tables, text_index, tiered

NS = ("acme", "notes")
TIERS = ["short_term", "working", "long_term"]


async def put_in_each(driver: StoreDriver) -> None:
    for tier in TIERS:
        await in_tier(driver, tier).put(NS, tier, {"text": f"a note of {tier}"})


def life(url: str, key: str) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """What a move keeps, and what it changes."""
    query = """SELECT id, value, created_at, updated_at, tier::text, expires_at, ttl_minutes
               FROM memory.memories WHERE key = %s"""
    with psycopg.connect(url) as conn:
        (found,) = conn.execute(query, [key]).fetchall()
    return found[:4], found[4:]


async def test_a_view_reads_writes_and_deletes_in_its_tier_alone(driver: StoreDriver) -> None:
    await put_in_each(driver)
    for tier in TIERS:
        view = in_tier(driver, tier)
        for each in TIERS:
            assert (await view.value(NS, each) is not None) == (each == tier)
            if each != tier:
                await view.delete(NS, each)
        assert await view.keys(NS) == [tier]
        assert await view.keys((), query="note") == [tier]
        await view.put((tier, "own"), "k", {})
        assert await view.list_namespaces() == sorted([NS, (tier, "own")])
    assert sorted(await driver.keys(NS)) == sorted(TIERS)


async def test_a_put_through_another_tier_is_a_conflict_and_writes_nothing(
    driver: StoreDriver, url: str
) -> None:
    await put_in_each(driver)
    before = tables(url)
    view = in_tier(driver, "working")
    for batch in (
        [PutOp(NS, "long_term", {"v": 1})],
        [PutOp(NS, "new", {"v": 1}), PutOp(NS, "short_term", {"v": 1}), PutOp(NS, "working", None)],
    ):
        with coded("tier_conflict", match="lives in"):
            await view.batch(batch)
        assert tables(url) == before


async def test_a_view_deletes_and_puts_one_key_in_one_batch(driver: StoreDriver) -> None:
    view = in_tier(driver, "long_term")
    await view.put(NS, "k", {"v": 1})
    writes = [PutOp(NS, "k", None), PutOp(NS, "k", {"v": 2})]
    got, found, listed, *_ = await view.batch(
        [GetOp(NS, "k"), SearchOp(NS), ListNamespacesOp(), *writes]
    )
    assert got is not None
    assert isinstance(found, list)
    assert len(found) == 1
    assert listed == [NS]
    assert await view.value(NS, "k") == {"v": 2}


@pytest.mark.parametrize("source", TIERS)
async def test_a_move_keeps_everything_and_takes_the_tiers_life(
    driver: StoreDriver, url: str, clock: Clock, source: str
) -> None:
    await in_tier(driver, source).put(NS, "k", {"text": "what it says"})
    for _ in range(3):
        await driver.get(NS, "k", refresh_ttl=False)
    await tiered(driver).astats()
    (score,) = [item.score for item in await driver.search(NS, query="what it says")]
    (kept, _), counted = life(url, "k"), tables(url)["usage"]
    clock.advance(minutes=5)
    hour = (clock.now + timedelta(hours=1), 60)
    for target in (each for each in TIERS if each != source):
        assert await tiered(driver).amove(NS, "k", target)
        assert not await tiered(driver).amove(NS, "k", target)
        new = hour if target == "short_term" else (None, None)
        assert life(url, "k") == (kept, (target, *new))
        assert tables(url)["usage"] == counted
        view = in_tier(driver, target)
        (item,) = await view.search(NS, query="what it says", refresh_ttl=False)
        assert item.score == score
        with psycopg.connect(url) as conn:
            query = "SELECT tier::text, count(*) FROM memory.vectors GROUP BY 1"
            assert conn.execute(query).fetchall() == [(target, 1)]


async def test_there_are_three_tiers_and_no_others(driver: StoreDriver) -> None:
    await driver.put(NS, "k", {})
    for name in ("Working", "", "memory", "long-term"):
        with pytest.raises(InvalidInputError, match="short_term, working, long_term"):
            tiered(driver).tier(name)
        with pytest.raises(InvalidInputError, match="short_term, working, long_term"):
            await tiered(driver).amove(NS, "k", name)
    assert tiered(driver).tier(Tier.WORKING).name == "working"
    assert not await tiered(driver).amove(NS, "nothing", "working")


async def test_get_looks_through_all_tiers_and_each_read_is_counted_at_the_latest_at_closing(
    open_store: Opener, url: str
) -> None:
    async with open_store(url=url, index=text_index()) as driver:
        await put_in_each(driver)
        for times, tier in enumerate(TIERS, start=1):
            for _ in range(times):
                assert await driver.get(NS, tier) is not None
        await driver.search(NS)
        stats = {one.tier.value: one.accesses for one in await tiered(driver).astats()}
        assert stats == {"short_term": 1, "working": 2, "long_term": 3}
        await driver.batch([GetOp(NS, tier) for tier in (*TIERS, "nothing")])
    assert access_counts(url) == {tier: count + 1 for tier, count in stats.items()}


async def test_deleting_a_memory_deletes_its_vectors_and_counters(
    driver: StoreDriver, url: str
) -> None:
    await put_in_each(driver)
    await driver.batch([GetOp(NS, tier) for tier in TIERS])
    await tiered(driver).astats()
    await driver.batch([PutOp(NS, tier, None) for tier in TIERS])
    assert not any(tables(url).values())


async def test_one_search_ranks_the_memories_of_all_tiers(
    driver: StoreDriver, clock: Clock
) -> None:
    words = ["alpha alpha", "alpha beta", "alpha gamma beta", "delta", "alpha", "beta gamma"]
    for n, text in enumerate(words):
        clock.advance(seconds=1)
        await in_tier(driver, TIERS[n % 3]).put(NS, str(n), {"text": text})
    found = await driver.search(NS, query="alpha", limit=100)
    scores = [item.score or -1 for item in found]
    assert len(found) == 6
    assert found[0].key == "4"
    assert scores == sorted(scores, reverse=True)
    paged = [await driver.keys(NS, query="alpha", limit=2, offset=at) for at in (0, 2, 4)]
    assert [key for page in paged for key in page] == [item.key for item in found]
    assert await driver.keys(NS, limit=100) == ["5", "4", "3", "2", "1", "0"]
