"""Counting reads disturbs no read, and what is counted is written once it can be."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest
from langgraph.store.base import GetOp, Op, PutOp

from langmem_tiers import TieredStore
from langmem_tiers.core.errors import DatabaseError
from langmem_tiers.postgres.flow import Query
from langmem_tiers.store import flows
from langmem_tiers.store.flows import FLUSH_ENTRIES, AccessBuffer
from langmem_tiers.store.read import ItemRow
from langmem_tiers.testing import Mode
from tests.support.coordinating import Caller, coordinator, verb_of
from tests.support.invariants import access_counts
from tests.support.opening import Clock, Opener, away, text_index, tiered
from tests.support.servers import blocked, held, wait_until

PATIENCE = 10.0
"""Seconds until a read is called stuck."""
NS = ("acme", "p")
KEYS = [f"{i:04}" for i in range(FLUSH_ENTRIES)]
"""As many as it takes to make their counts due at once."""
GETS: list[Op] = [GetOp(NS, key) for key in KEYS]
COUNTS = "LOCK TABLE memory.usage IN EXCLUSIVE MODE"
"""Lets nobody write a count."""


@pytest.fixture
def filled(store: TieredStore) -> TieredStore:
    store.batch([PutOp(NS, key, {"text": key}, index=False) for key in KEYS])
    return store


@pytest.fixture
def due(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every count is due at once, and nothing waits long to write it."""
    monkeypatch.setattr(flows, "FLUSH_SECONDS", 0.0)
    monkeypatch.setattr(flows, "PATIENCE_SECONDS", 0.3)


@pytest.fixture
def stubborn(due: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits for a lock goes on waiting, however slow the machine is."""
    assert due is None
    monkeypatch.setattr(flows, "PATIENCE_SECONDS", 60.0)


def test_a_read_does_not_wait_for_a_put_of_what_it_counts(filled: TieredStore, url: str) -> None:
    assert all(filled.batch(GETS))
    with held(url, "LOCK TABLE memory.vectors") as holder, ThreadPoolExecutor(2) as pool:
        put = pool.submit(filled.put, NS, KEYS[0], {"text": "takes its time"})
        wait_until(lambda: blocked(url))
        item = pool.submit(filled.get, NS, KEYS[0]).result(timeout=PATIENCE)
        assert item is not None
        assert item.value == {"text": KEYS[0]}
        wait_until(lambda: access_counts(url) == dict.fromkeys(KEYS, 1))
        holder.rollback()
        put.result(timeout=PATIENCE)


@asynccontextmanager
async def patient(mode: Mode) -> AsyncIterator[Any]:
    """Calls verbs in one way, and gives up on what does not answer; the lock goes first then."""
    with ThreadPoolExecutor(1) as pool:

        async def call(whose: Any, verb: str, *args: Any, **options: Any) -> Any:
            if mode == "abatch":
                return await asyncio.wait_for(Caller(whose, mode)(verb, *args, **options), PATIENCE)
            done = pool.submit(lambda: verb_of(whose, verb)(*args, **options))
            return await asyncio.wait_for(asyncio.wrap_future(done), PATIENCE)

        yield call


@pytest.mark.slow
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
            with held(url, COUNTS):
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


@pytest.mark.usefixtures("stubborn")
@pytest.mark.parametrize("closed_meanwhile", [False, True])
def test_what_is_counted_arrives_once_the_lock_is_gone_and_closing_waits_for_it(
    url: str, *, closed_meanwhile: bool
) -> None:
    with TieredStore(url, index=text_index()) as store, ThreadPoolExecutor(1) as pool:
        store.put(NS, "vault", {})
        with held(url, COUNTS) as holder:
            for _ in range(3):
                pool.submit(store.get, NS, "vault").result(PATIENCE)
            wait_until(lambda: blocked(url))
            if closed_meanwhile:
                closing = pool.submit(store.close)
                holder.rollback()
                closing.result(PATIENCE)
    assert access_counts(url) == {"vault": 3}


async def test_a_server_that_is_read_only_answers_reads_and_is_logged_once(
    open_store: Opener, filled: TieredStore, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    filled.put(NS, "mortal", {"text": "lives on when it is read"}, ttl=5)
    read_only = psycopg.conninfo.make_conninfo(url, options="-c default_transaction_read_only=on")
    with caplog.at_level(logging.WARNING, logger="langmem_tiers"):
        async with open_store(url=read_only, index=text_index()) as driver:
            for _ in range(3):
                assert all(await driver.batch([*GETS, GetOp(NS, "mortal")]))
                assert await driver.get(NS, "mortal") is not None
                assert await driver.search(NS, query="lives on")
            stats = await tiered(driver).astats("acme")
            assert [one.memories for one in stats] == [0, FLUSH_ENTRIES + 1, 0]
    assert caplog.text.count("their count cannot be written") == 1
    assert caplog.text.count("do not extend the life") == 1
    assert "read-only transaction" in caplog.text
    assert access_counts(url) == {}


def test_counts_that_could_not_be_written_are_written_later(filled: TieredStore, url: str) -> None:
    with away(url, "usage"):
        for _ in range(3):
            assert all(filled.batch(GETS))
    filled.stats()
    assert access_counts(url) == dict.fromkeys(KEYS, 3)


def test_counts_that_cannot_be_written_rest_and_only_so_many_are_kept(clock: Clock) -> None:
    def add(*numbers: int) -> None:
        for n in numbers:
            one = ItemRow("acme", "p.", f"{n}", {}, clock(), clock(), "working", None, None, n)
            buffer.add([one], clock())

    buffer = AccessBuffer()
    add(*range(FLUSH_ENTRIES))
    buffer.pause(DatabaseError("read-only"))
    assert not buffer.is_due
    add(*range(2 * flows.MAX_ENTRIES))
    taken = buffer.take()
    assert taken is not None
    assert len(taken.counts) == flows.MAX_ENTRIES
    assert taken.counts["acme", 0] == 2
    buffer.give_back(taken)
    buffer.confirm(taken)
    assert buffer.is_due


def test_counts_of_a_flow_that_was_abandoned_are_kept(store: TieredStore, url: str) -> None:
    store.put(NS, "vault", {})
    store.get(NS, "vault")
    flushing = store.flows.flush()
    assert isinstance(next(flushing), Query)
    flushing.close()
    store.stats()
    assert access_counts(url) == {"vault": 1}


def test_a_counter_that_outlived_its_memory_goes_with_the_next_counts(
    store: TieredStore, url: str
) -> None:
    for key in ("gone", "stays"):
        store.put(NS, key, {})
        store.get(NS, key)
    deleted = "DELETE FROM memory.memories WHERE key = 'gone'"
    with psycopg.connect(url) as deleting:
        deleting.execute(deleted)
        store.stats()  # counts what was read, and does not see that one of them goes
    with psycopg.connect(url) as conn:
        counters = conn.execute("SELECT count(*) FROM memory.usage")
        assert counters.fetchone() == (2,)
        store.close()
        assert conn.execute("SELECT count(*) FROM memory.usage").fetchone() == (1,)
    assert access_counts(url) == {"stays": 1}


def test_a_counter_that_outlived_its_memory_is_removed_by_optimize(
    store: TieredStore, url: str
) -> None:
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("INSERT INTO memory.usage (tenant, id, access_count) VALUES ('acme', -1, 1)")
        store.optimize()
        assert conn.execute("SELECT count(*) FROM memory.usage").fetchall() == [(0,)]


async def test_stats_leave_out_what_has_expired_unless_reads_see_it(
    open_store: Opener, url: str, clock: Clock
) -> None:
    async with open_store(url=url, index=text_index()) as driver:
        await driver.put(NS, "stays", {"text": "for good"})
        await driver.put(NS, "longer", {"text": "an hour"}, ttl=60)
        await driver.put(("other",), "gone", {"text": "a minute"}, ttl=1)
        for namespace, key in ((NS, "stays"), (("other",), "gone")):
            await driver.get(namespace, key, refresh_ttl=False)
        _, before, _ = await tiered(driver).astats()
        clock.advance(minutes=2)
        _, after, _ = await tiered(driver).astats()
        _, alone, _ = await tiered(driver).astats("other")
    names = ("memories", "vectors", "tenants", "accesses", "expiring")
    assert [getattr(before, name) for name in names] == [3, 3, 2, 2, 2]
    assert [getattr(after, name) for name in names] == [2, 2, 1, 1, 1]
    assert [getattr(alone, name) for name in names] == [0, 0, 0, 0, 0]
    async with open_store(url=url, index=text_index(), ttl={"omit_expired": False}) as driver:
        assert [one.memories for one in await tiered(driver).astats()] == [0, 3, 0]
