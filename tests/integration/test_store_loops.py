"""Which calls work from where: threads, event loops, cancelled callers, and first use."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

import psycopg
import pytest
from langgraph.store.base import GetOp, PutOp

from langmem_tiers import MemoryOrchestrator, TieredStore
from tests.support.coordinating import coordinator
from tests.support.opening import text_index
from tests.support.servers import blocked, sessions, wait_until

NS = ("acme", "loops")
T = TypeVar("T")


def on_another_loop(work: Callable[[], Coroutine[Any, Any, T]]) -> Awaitable[T]:
    """Run a coroutine in a thread, on an event loop of that thread's own."""
    return asyncio.to_thread(lambda: asyncio.run(work()))


async def test_blocking_calls_on_the_stores_own_loop_say_what_to_await(url: str) -> None:
    async with TieredStore(url, index=text_index()) as store:
        memory = coordinator(store)
        turn = MemoryOrchestrator(memory)
        turn.begin()
        calls: list[Callable[[], object]] = [
            lambda: store.put(NS, "k", {"v": 1}),
            lambda: store.batch([PutOp(NS, "k", {"v": 1})]),
            lambda: store.tier("working").batch([GetOp(NS, "k")]),
            store.stop_ttl_sweeper,
            store.close,
            lambda: memory.store("x"),
            memory.state.snapshot,
            lambda: turn.assemble_context("x"),
        ]
        for call in calls:
            with pytest.raises(asyncio.InvalidStateError, match=r"await the method .* an `a`"):
                call()
        assert await store.asearch(()) == []


async def test_blocking_calls_from_another_thread_work_on_a_store_opened_async(url: str) -> None:
    async with TieredStore(url, index=text_index()) as store:
        with ThreadPoolExecutor(max_workers=8) as executor:

            def submit(call: Callable[..., T], *args: Any) -> Awaitable[T]:
                return asyncio.wrap_future(executor.submit(call, *args))

            await asyncio.gather(*(submit(store.put, NS, f"{n}", {"n": n}) for n in range(40)))
            items = await asyncio.gather(*(submit(store.get, NS, f"{n}") for n in range(40)))
            assert [item.value["n"] for item in items if item] == list(range(40))
            assert await submit(store.list_namespaces) == [NS]
            await submit(store.setup)
            assert await store.aget(NS, "7") is not None


async def test_a_methods_from_another_loop_work_on_a_store_opened_async(url: str) -> None:
    async with TieredStore(url, index=text_index()) as store:

        async def elsewhere() -> Any:
            await store.aput(NS, "k", {"text": "from afar"})
            both = await asyncio.gather(store.aget(NS, "k"), store.asearch(NS, query="afar"))
            return both[0], len(both[1])

        item, found = await on_another_loop(elsewhere)
        assert item.value == {"text": "from afar"}
        assert found == 1


async def test_a_store_opened_blocking_serves_a_methods_on_any_loop(url: str) -> None:
    store = TieredStore(url, index=text_index())
    with store:

        async def both_ways() -> Any:
            await store.aput(NS, "k", {"text": "x"})
            store.put(NS, "here too", {"text": "x"})
            return await store.asearch(NS, query="x")

        assert len(await both_ways()) == 2
        assert len(await on_another_loop(both_ways)) == 2


async def test_the_errors_of_a_call_cross_threads_and_loops(url: str) -> None:
    async with TieredStore(url) as store:
        for call in (
            asyncio.to_thread(store.batch, [PutOp(NS, "k", {"v": {1}})]),
            on_another_loop(lambda: store.abatch([PutOp(NS, "k", {"v": {1}})])),
        ):
            with pytest.raises(TypeError, match="JSON"):
                await call


async def test_cancelled_callers_leave_the_store_and_its_one_connection_whole(url: str) -> None:
    config = {"min_size": 1, "max_size": 1}
    async with TieredStore(url, index=text_index(), pool_config=config) as store:
        for n in range(30):
            calls = [
                asyncio.create_task(store.aput(NS, f"{n}", {"text": f"{n}"})),
                asyncio.create_task(store.asearch(NS, query="7")),
                asyncio.create_task(store.aget(NS, "0")),
            ]
            await asyncio.sleep(n / 5000)
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)
        await store.aput(NS, "last", {"text": "last"})
        assert await store.aget(NS, "last") is not None
        assert len(await store.asearch(NS, query="last", limit=1)) == 1
    with psycopg.connect(url) as conn:
        counts = conn.execute(
            "SELECT (SELECT count(*) FROM memory.memories), (SELECT count(*) FROM memory.vectors)"
        ).fetchone()
    assert counts is not None
    assert counts[0] == counts[1]


async def test_a_caller_cancelled_as_it_gives_its_connection_back_does_so(url: str) -> None:
    config = {"min_size": 1, "max_size": 1, "timeout": 2}
    async with TieredStore(url, index=text_index(), pool_config=config) as store:
        database = store.runner._adatabase
        assert database is not None
        async with await psycopg.AsyncConnection.connect(url) as other:
            await other.execute("LOCK TABLE memory.memories")
            call = asyncio.create_task(store.asearch(NS))
            await asyncio.to_thread(wait_until, lambda: blocked(url))
            async with database.pool._lock:
                await other.rollback()
                while not database.pool._lock._waiters:  # noqa: ASYNC110 - a lock tells nobody
                    await asyncio.sleep(0.001)
                for _ in range(2):
                    call.cancel()
                    await asyncio.sleep(0)
            with pytest.raises(asyncio.CancelledError):
                await call
        assert database.pool.get_stats()["pool_available"] == 1
        assert await store.asearch(NS) == []


# What psycopg was about when it was cancelled while it cancelled is closed after its connection is.
@pytest.mark.filterwarnings(
    "ignore:.*BasePipeline._exit_gen:pytest.PytestUnraisableExceptionWarning"
)
async def test_callers_cancelled_twice_give_every_connection_back(url: str) -> None:
    config = {"min_size": 1, "max_size": 4, "timeout": 2}
    rng = random.Random(7)  # noqa: S311 - when they are cancelled is no secret
    async with TieredStore(url, index=text_index(), pool_config=config) as store:
        for _ in range(100):
            calls: list[asyncio.Task[Any]] = [
                asyncio.create_task(store.asearch(NS, limit=1)) for _ in range(3)
            ]
            calls += [asyncio.create_task(store.amove(NS, f"{i}", "long_term")) for i in range(3)]
            await asyncio.sleep(rng.random() / 200)
            for again in range(2):
                for call in calls:
                    if again or rng.random() < 0.9:
                        call.cancel()
                await asyncio.sleep(0)
            await asyncio.gather(*calls, return_exceptions=True)
        database = store.runner._adatabase
        assert database is not None
        await asyncio.gather(*(store.aput(NS, f"{n}", {"n": n}) for n in range(8)))
        stats = database.pool.get_stats()
        assert stats["pool_available"] == stats["pool_size"]
        assert len(await store.asearch(NS, limit=100)) == 8


async def test_the_first_calls_may_come_all_at_once(new_url: Callable[[], str]) -> None:
    url = new_url()  # no other test's connections are counted
    for count in (12, 24):
        store = TieredStore(url)
        if count == 12:
            await asyncio.gather(*(store.aput(NS, f"{n}", {"n": n}) for n in range(count)))
        else:
            with ThreadPoolExecutor(max_workers=8) as executor:
                list(executor.map(partial(put, store), range(count)))
        assert len(await store.asearch(NS, limit=100)) == count
        await store.aclose()
        assert await no_sessions(url)


def put(store: TieredStore, number: int) -> None:
    store.put(NS, f"{number}", {"n": number})


async def test_a_store_opens_again_after_it_was_closed(url: str) -> None:
    store = TieredStore(url)
    for n in range(2):
        with store:
            store.put(NS, f"s{n}", {})
        async with store:
            await store.aput(NS, f"a{n}", {})
    with store:
        assert sorted(item.key for item in store.search(NS)) == ["a0", "a1", "s0", "s1"]


async def test_postgres_stores_own_arguments_are_taken(url: str) -> None:
    options: dict[str, Any] = {"pipeline": True, "pool_config": {"min_size": 1, "max_size": 3}}
    with TieredStore.from_conn_string(url, **options) as store:
        store.put(NS, "k", {"v": 1})
        assert store.batch([GetOp(NS, "k")])[0] is not None
    async with TieredStore.from_conn_string(url, **options, index=text_index()) as store:
        assert await store.aget(NS, "k") is not None
    for config in ({}, {"min_size": 2, "max_size": None}, {"kwargs": {"application_name": "mine"}}):
        with TieredStore.from_conn_string(url, pool_config=config) as store:
            assert store.get(NS, "k") is not None
            if "kwargs" in config:
                assert sessions(url, "mine") > 0


async def no_sessions(url: str) -> bool:
    for _ in range(200):
        if sessions(url) == 0:
            return True
        await asyncio.sleep(0.02)
    return False
