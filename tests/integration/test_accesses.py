"""Counting reads disturbs no read: not beside a writer, and not where nothing can be written."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psycopg
import pytest
from langgraph.store.base import GetOp, Op, PutOp

from langmem_tiers import TieredStore
from langmem_tiers.store.accesses import FLUSH_ENTRIES
from tests.support.invariants import access_counts
from tests.support.opening import Clock, Opener, empty, text_index, tiered
from tests.support.servers import blocked, wait_until

NS = ("acme", "read")
KEYS = [f"{i:04}" for i in range(FLUSH_ENTRIES)]


def fill(store: TieredStore) -> None:
    """Put as many memories as it takes to make their counts due at once."""
    puts: list[Op] = [PutOp(NS, key, {"text": key}, index=False) for key in KEYS]
    store.batch(puts)


def read_all(store: TieredStore) -> None:
    gets: list[Op] = [GetOp(NS, key) for key in KEYS]
    assert all(store.batch(gets))


def test_a_read_does_not_wait_for_a_put_of_what_it_counts(url: str) -> None:
    with (
        TieredStore(url, index=text_index()) as store,
        psycopg.connect(url) as holder,
        ThreadPoolExecutor(2) as pool,
    ):
        fill(store)
        read_all(store)
        holder.execute("LOCK TABLE memory.vectors")
        put = pool.submit(store.put, NS, KEYS[0], {"text": "takes its time"})
        wait_until(lambda: blocked(url))
        item = pool.submit(store.get, NS, KEYS[0]).result(timeout=10)
        assert item is not None
        assert item.value == {"text": KEYS[0]}
        wait_until(lambda: access_counts(url) == dict.fromkeys(KEYS, 1))
        holder.rollback()
        put.result(timeout=10)


async def test_a_server_that_is_read_only_answers_reads_and_is_logged_once(
    open_store: Opener, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with TieredStore(url, index=text_index()) as store:
        fill(store)
        store.put(NS, "mortal", {"text": "lives on when it is read"}, ttl=5)
    read_only = psycopg.conninfo.make_conninfo(url, options="-c default_transaction_read_only=on")
    with caplog.at_level(logging.WARNING, logger="langmem_tiers"):
        async with open_store(url=read_only, index=text_index()) as driver:
            gets: list[Op] = [GetOp(NS, key) for key in (*KEYS, "mortal")]
            for _ in range(3):
                assert all(await driver.batch(gets))
                assert await driver.get(NS, "mortal") is not None
                assert await driver.search(NS, query="lives on")
            stats = await tiered(driver).astats("acme")
            assert [one.memories for one in stats] == [0, FLUSH_ENTRIES + 1, 0]
    assert caplog.text.count("their count cannot be written") == 1
    assert caplog.text.count("do not extend the life") == 1
    assert "read-only transaction" in caplog.text
    assert access_counts(url) == {}


@contextmanager
def usage_away(url: str) -> Iterator[None]:
    """Let counts have nowhere to go for a while."""
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("ALTER TABLE memory.usage RENAME TO away")
        try:
            yield
        finally:
            conn.execute("ALTER TABLE memory.away RENAME TO usage")


def test_counts_that_could_not_be_written_are_written_later(url: str) -> None:
    with TieredStore(url, index=text_index()) as store:
        fill(store)
        with usage_away(url):
            for _ in range(3):
                read_all(store)
        store.stats()
        assert access_counts(url) == dict.fromkeys(KEYS, 3)


def test_a_counter_that_outlived_its_memory_is_removed_by_optimize(url: str) -> None:
    with TieredStore(url, index=text_index()) as store, psycopg.connect(url) as conn:
        conn.execute("INSERT INTO memory.usage (tenant, id, access_count) VALUES ('acme', -1, 1)")
        conn.commit()
        store.optimize()
        assert conn.execute("SELECT count(*) FROM memory.usage").fetchall() == [(0,)]


async def test_stats_leave_out_what_has_expired(open_store: Opener, url: str, clock: Clock) -> None:
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
    empty(url)


async def test_stats_count_what_has_expired_where_reads_see_it(
    open_store: Opener, url: str, clock: Clock
) -> None:
    async with open_store(url=url, index=text_index(), ttl={"omit_expired": False}) as driver:
        await driver.put(NS, "late", {"text": "a minute"}, ttl=1)
        clock.advance(minutes=2)
        assert [one.memories for one in await tiered(driver).astats()] == [0, 1, 0]
