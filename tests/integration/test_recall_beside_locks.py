"""Reads answer while the counts of reads cannot be written, and no count is lost for that."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import psycopg
import pytest

from langmem_tiers import TieredStore
from langmem_tiers.store import accesses
from langmem_tiers.store import flows as store_flows
from langmem_tiers.testing import Mode
from tests.support.coordinating import Caller, coordinator
from tests.support.invariants import access_counts
from tests.support.opening import Opener, text_index, tiered
from tests.support.servers import blocked, wait_until

PATIENCE = 10.0
"""Seconds until a read is called stuck."""
NS = ("acme", "p")


@contextmanager
def locked(url: str) -> Iterator[None]:
    """Let nobody write a count."""
    with psycopg.connect(url) as holder:
        holder.execute("LOCK TABLE memory.usage IN EXCLUSIVE MODE")
        try:
            yield
        finally:
            holder.rollback()


@asynccontextmanager
async def patient(mode: Mode) -> AsyncIterator[Any]:
    """Calls verbs in one way, and gives up on what does not answer; the lock goes first then."""
    with ThreadPoolExecutor(1) as pool:

        async def call(whose: Any, verb: str, *args: Any, **options: Any) -> Any:
            if mode == "abatch":
                return await asyncio.wait_for(Caller(whose, mode)(verb, *args, **options), PATIENCE)
            done = pool.submit(lambda: getattr(whose, verb)(*args, **options))
            return await asyncio.wait_for(asyncio.wrap_future(done), PATIENCE)

        yield call


@pytest.fixture
def due(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every count is due at once, and nothing waits long to write it."""
    monkeypatch.setattr(accesses, "FLUSH_SECONDS", 0.0)
    monkeypatch.setattr(store_flows, "PATIENCE_SECONDS", 0.3)


@pytest.mark.usefixtures("due")
@pytest.mark.parametrize("size", [1, 10], ids=["one connection", "ten connections"])
async def test_no_read_waits_for_a_lock_on_the_counts_and_none_is_lost(
    open_store: Opener, url: str, size: int
) -> None:
    pool = {"min_size": 1, "max_size": size}
    async with open_store(url=url, index=text_index(), pool_config=pool) as driver:
        store = tiered(driver)
        memory = coordinator(store, project_id="p")
        await Caller(memory, driver.mode)("store", "The vault is in the cellar", key="vault")
        async with patient(driver.mode) as call:
            await call(memory, "get", "vault")
            with locked(url):
                for _ in range(2):
                    assert await call(memory, "get_context", "Where is the vault?")
                    assert await call(memory, "get", "vault")
                    assert await call(store, "search", NS, query="vault")
                    assert await call(store, "get", NS, "vault")
                    assert await call(store, "stats")
            await call(memory, "get", "vault")
        await Caller(memory, driver.mode)("stats")
        counted = access_counts(url)
    assert counted == {"vault": 8}


@pytest.fixture
def stubborn(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits for a lock goes on waiting, however slow the machine is."""
    monkeypatch.setattr(store_flows, "PATIENCE_SECONDS", 60.0)


@pytest.mark.usefixtures("due", "stubborn")
def test_what_is_counted_arrives_once_the_lock_is_gone(url: str) -> None:
    with TieredStore(url, index=text_index()) as store, ThreadPoolExecutor(1) as pool:
        memory = coordinator(store, project_id="p")
        memory.store("The vault is in the cellar", key="vault")
        with locked(url):
            for _ in range(3):
                pool.submit(memory.get, "vault").result(PATIENCE)
            wait_until(lambda: blocked(url))
        memory.get("vault")
    assert access_counts(url) == {"vault": 4}


@pytest.mark.usefixtures("due", "stubborn")
def test_a_store_that_is_closed_waits_for_the_counts_that_are_under_way(url: str) -> None:
    with psycopg.connect(url) as holder:
        with TieredStore(url, index=text_index()) as store, ThreadPoolExecutor(1) as pool:
            memory = coordinator(store, project_id="p")
            memory.store("The vault is in the cellar", key="vault")
            holder.execute("LOCK TABLE memory.usage IN EXCLUSIVE MODE")
            for _ in range(2):
                pool.submit(memory.get, "vault").result(PATIENCE)
            wait_until(lambda: blocked(url))
            closing = pool.submit(store.close)
            holder.rollback()
            closing.result(PATIENCE)
        assert access_counts(url) == {"vault": 2}
