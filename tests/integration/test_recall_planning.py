"""Postgres plans a recall once a connection: no recall is broken off for that."""

from __future__ import annotations

from langmem_tiers.core.settings import CoordinatorSettings
from tests.support.coded import coded
from tests.support.coordinating import coordinator
from tests.support.opening import Opener, text_index, tiered
from tests.support.servers import held

# Planning takes the server fifty milliseconds and more, and the recall itself five.
QUICK = CoordinatorSettings(query_timeout_ms=25)
TABLE = "LOCK TABLE working.memories IN ACCESS EXCLUSIVE MODE"


async def test_the_first_recall_of_a_connection_is_not_broken_off_as_it_is_planned(
    open_store: Opener, url: str
) -> None:
    async with open_store(url=url, index=text_index(), pool_config={"max_size": 1}) as driver:
        memory = coordinator(tiered(driver), settings=QUICK)
        await memory.astore_many([f"The vault {n} is in the cellar." for n in range(5)])
        assert len(await memory.aget_context("the vault")) == 5


async def test_a_recall_that_waits_for_a_lock_is_broken_off_all_the_same(
    open_store: Opener, url: str
) -> None:
    async with open_store(url=url, index=text_index()) as driver:
        memory = coordinator(tiered(driver), settings=QUICK)
        for _ in range(2):
            with held(url, TABLE), coded("query_timeout", match="query_timeout_ms"):
                await memory.aget_context("the vault")
