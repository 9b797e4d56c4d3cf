"""The sweeper: a thread or a task that starts when told, stops when told, and outlives errors."""

from __future__ import annotations

import asyncio
import logging

import pytest
from langgraph.store.base import TTLConfig

from langmem_tiers import TieredStore
from langmem_tiers.core.errors import ConfigurationError, InvalidInputError
from tests.support.opening import Clock, away, tables, text_index
from tests.support.servers import blocked, held, wait_until

NS = ("acme", "sweep")
OFTEN = 0.02 / 60
"""Minutes: fifty sweeps a second."""


def rows(url: str) -> int:
    return len(tables(url)["memories"])


def expired(store: TieredStore, clock: Clock) -> None:
    store.put(NS, "k", {"text": "x"}, ttl=1)
    clock.advance(minutes=2)


def test_the_thread_sweeps_until_stopped_and_can_start_again(
    store: TieredStore, url: str, clock: Clock
) -> None:
    for _ in range(2):
        future = store.start_ttl_sweeper(OFTEN)
        assert store.start_ttl_sweeper(OFTEN) is future
        expired(store, clock)
        wait_until(lambda: rows(url) == 0)
        assert not future.done()
        assert store.stop_ttl_sweeper(timeout=5)
        assert future.result(0) is None
        assert store.stop_ttl_sweeper()
    expired(store, clock)
    assert rows(url) == 1


async def test_the_task_sweeps_until_stopped_and_can_start_again(url: str, clock: Clock) -> None:
    async with TieredStore(url, index=text_index(), clock=clock) as store:
        for _ in range(2):
            task = await store.astart_ttl_sweeper(OFTEN)
            assert await store.astart_ttl_sweeper(OFTEN) is task
            await asyncio.to_thread(expired, store, clock)
            await asyncio.to_thread(wait_until, lambda: rows(url) == 0)
            assert not task.done()
            assert await store.astop_ttl_sweeper(timeout=5)
            assert task.done()
            assert await store.astop_ttl_sweeper()


async def test_closing_a_store_stops_its_sweeper(url: str) -> None:
    with TieredStore(url, index=text_index()) as store:
        future = store.start_ttl_sweeper(OFTEN)
    assert future.done()
    async with TieredStore(url, index=text_index()) as store:
        task = await store.astart_ttl_sweeper(OFTEN)
        assert not task.done()
    assert task.done()


def test_a_failed_sweep_is_logged_and_tried_again(
    store: TieredStore, url: str, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    expired(store, clock)
    with away(url, "memories"), caplog.at_level(logging.ERROR):
        store.start_ttl_sweeper(OFTEN)
        wait_until(lambda: "sweeping expired memories failed" in caplog.text)
    wait_until(lambda: rows(url) == 0)


def test_an_interval_is_positive(url: str) -> None:
    with pytest.raises(ConfigurationError, match="-1"):
        TieredStore(url, ttl=TTLConfig(sweep_interval_minutes=-1))
    with TieredStore(url) as store:
        with pytest.raises(InvalidInputError, match="0"):
            store.start_ttl_sweeper(0)
        store.start_ttl_sweeper()
        assert store.stop_ttl_sweeper(5)


async def test_stopping_on_the_stores_own_loop_is_refused_and_never_waits(
    url: str, clock: Clock
) -> None:
    async with TieredStore(url, index=text_index(), clock=clock) as store:
        await asyncio.to_thread(expired, store, clock)
        with held(url, "LOCK TABLE memory.memories IN ACCESS EXCLUSIVE MODE"):
            future = store.start_ttl_sweeper(OFTEN)
            await asyncio.to_thread(wait_until, lambda: blocked(url))  # a sweep is under way
            for timeout in (None, 60):
                with pytest.raises(asyncio.InvalidStateError, match="opened async"):
                    store.stop_ttl_sweeper(timeout)
            assert not future.done()
            assert not await store.astop_ttl_sweeper(timeout=0.01)
        assert await store.astop_ttl_sweeper()
        assert future.done()
        assert rows(url) == 0
