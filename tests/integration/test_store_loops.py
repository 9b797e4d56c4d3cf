"""Which calls work from where: threads, event loops, cancelled callers, and first use."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import psycopg
import pytest
from langgraph.store.base import GetOp, InvalidNamespaceError, PutOp

from langmem_tiers import MemoryOrchestrator, TieredStore
from langmem_tiers.core.errors import DatabaseUnavailableError
from langmem_tiers.postgres.flow import Call, Flow, Query
from langmem_tiers.testing import Mode, StoreDriver
from tests.support.coordinating import coordinator
from tests.support.invariants import broken_rows
from tests.support.opening import Opened, Opener, opened_store, text_index, tiered
from tests.support.servers import blocked, held, sessions, wait_until

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


@pytest.mark.parametrize("opened", ["sync", "async"])
async def test_a_store_serves_a_methods_on_any_loop(url: str, opened: Opened) -> None:
    store = TieredStore(url, index=text_index())

    async def both_ways() -> Any:
        await store.aput(NS, "k", {"text": "from afar"})
        if opened == "sync":
            store.put(NS, "here too", {"text": "x"})
        return await asyncio.gather(store.aget(NS, "k"), store.asearch(NS, query="afar"))

    async with opened_store(store, opened):
        for item, found in (await on_another_loop(both_ways), await both_ways()):
            assert item.value == {"text": "from afar"}
            assert len(found) == (2 if opened == "sync" else 1)


async def test_the_errors_of_a_call_cross_threads_and_loops(url: str) -> None:
    async with TieredStore(url) as store:
        bad = [PutOp(NS, "k", {"v": {1}})]
        for call in (
            asyncio.to_thread(store.batch, bad),
            on_another_loop(lambda: store.abatch(bad)),
        ):
            with pytest.raises(TypeError, match="JSON"):
                await call
        stored, absent, refused = await asyncio.gather(
            *(store.aput(NS, "k", {}), store.aget(NS, "none"), store.aget(("a.b",), "k")),
            return_exceptions=True,
        )
        assert stored is absent is None
        assert isinstance(refused, InvalidNamespaceError)


async def test_a_caller_cancelled_as_it_gives_its_connection_back_does_so(url: str) -> None:
    config = {"min_size": 1, "max_size": 1, "timeout": 2}
    async with TieredStore(url, index=text_index(), pool_config=config) as store:
        database = store.runner._database
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


async def test_a_caller_cancelled_as_it_enters_a_pipeline_leaves_no_connection_in_it(
    url: str,
) -> None:
    """Else whoever takes the connection next reads no rows where there are some."""
    config = {"min_size": 1, "max_size": 1, "timeout": 2}
    settings = Call("settings", {})

    def flow() -> Flow[None]:
        yield Query((settings,))
        busy = time.monotonic() + 0.02  # after 5 ms psycopg lets others run as it begins
        while time.monotonic() < busy:
            pass
        call.cancel()
        yield Query((settings, settings))

    async with TieredStore(url, index=text_index(), pool_config=config) as store:
        await store.aput(NS, "k", {"text": "x"})
        for _ in range(3):
            call = asyncio.create_task(store.runner.arun(flow()))
            with pytest.raises(asyncio.CancelledError):
                await call
            assert await store.aget(NS, "k") is not None


# What psycopg was about when it was cancelled while it cancelled is closed after its connection is.
@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore:.*BasePipeline._exit_gen:pytest.PytestUnraisableExceptionWarning"
)
async def test_callers_cancelled_once_or_twice_leave_the_store_whole_and_give_connections_back(
    url: str,
) -> None:
    config = {"min_size": 1, "max_size": 4, "timeout": 2}
    rng = random.Random(7)  # noqa: S311 - when they are cancelled is no secret
    async with TieredStore(url, index=text_index(), pool_config=config) as store:
        for n in range(100):
            calls: list[asyncio.Task[Any]] = [
                asyncio.create_task(call)
                for i in range(3)
                for call in (
                    store.asearch(NS, limit=1),
                    store.amove(NS, f"{i}", "long_term"),
                    store.aput(NS, f"{n % 30}", {"text": f"{n}"}),
                )
            ]
            await asyncio.sleep(rng.random() / 200)
            for again in range(1 + n % 2):
                for call in calls:
                    if again or rng.random() < 0.9:
                        call.cancel()
                await asyncio.sleep(0)
            await asyncio.gather(*calls, return_exceptions=True)
        database = store.runner._database
        assert database is not None
        await asyncio.gather(*(store.aput(NS, f"{n}", {"text": f"{n}"}) for n in range(30)))
        stats = database.pool.get_stats()
        assert stats["pool_available"] == stats["pool_size"]
        assert len(await store.asearch(NS, limit=100)) == 30
    assert broken_rows(url) == {}


@pytest.mark.parametrize("mode", ["batch", "abatch"])
async def test_the_first_calls_may_come_all_at_once(new_url: Callable[[], str], mode: Mode) -> None:
    url = new_url()  # no other test's connections are counted
    driver = StoreDriver(TieredStore(url), mode)
    await asyncio.gather(*(driver.put(NS, f"{n}", {"n": n}) for n in range(12)))
    assert len(await driver.search(NS, limit=100)) == 12
    await tiered(driver).aclose()
    await asyncio.to_thread(wait_until, lambda: sessions(url) == 0)


async def test_first_calls_that_block_and_that_are_awaited_open_one_database(
    new_url: Callable[[], str],
) -> None:
    url = new_url()
    store = TieredStore(url)
    with held(url, "LOCK TABLE pg_catalog.pg_extension"):
        calls = [asyncio.create_task(store.aput(NS, "own", {}))]
        await asyncio.to_thread(wait_until, lambda: blocked(url))
        calls.append(asyncio.create_task(asyncio.to_thread(store.put, NS, "thread", {})))
        far = on_another_loop(lambda: store.aput(NS, "loop", {}))
        calls.append(asyncio.ensure_future(far))
        opening = store.runner._opening
        await asyncio.to_thread(wait_until, opening.locked)
        with pytest.raises(asyncio.InvalidStateError, match=r"await the method .* an `a`"):
            store.get(NS, "own")
    await asyncio.gather(*calls)
    assert len(await store.asearch(NS)) == 3
    await store.aclose()
    await asyncio.to_thread(wait_until, lambda: sessions(url) == 0)


def test_calls_of_one_loop_after_another_hear_that_no_server_answers() -> None:
    store = TieredStore("postgresql://127.0.0.1:1/none")

    async def errors() -> list[Any]:
        calls = (store.aget(NS, "k") for _ in range(3))
        return await asyncio.gather(*calls, return_exceptions=True)

    for _ in range(2):
        assert {type(error) for error in asyncio.run(errors())} == {DatabaseUnavailableError}


async def test_who_is_cancelled_as_they_close_a_store_leave_no_connection(
    new_url: Callable[[], str],
) -> None:
    url = new_url()
    store = TieredStore(url)
    await store.aput(NS, "k", {})
    database = store.runner._database
    assert database is not None
    async with database.pool._lock:
        closing = asyncio.create_task(store.aclose())
        while not database.pool._lock._waiters:  # noqa: ASYNC110 - a lock tells nobody
            await asyncio.sleep(0.001)
        closing.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert database.pool.closed
    await asyncio.to_thread(wait_until, lambda: sessions(url) == 0)


async def test_a_store_that_is_used_as_soon_as_it_is_open_needs_one_connection(
    open_store: Opener,
) -> None:
    url = open_store.new_url()
    async with open_store(url=url, index=text_index()) as driver:
        await driver.put(NS, "k", {"text": "x"})
        assert sessions(url) == 1


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
    named = {"application_name": "mine"}
    for config in ({"min_size": 1, "max_size": 3}, {}, {"max_size": None}, {"kwargs": named}):
        options: dict[str, Any] = {"pipeline": True, "pool_config": config}
        with TieredStore.from_conn_string(url, **options) as store:
            store.put(NS, "k", {"v": 1})
            assert ("kwargs" in config) == (sessions(url, "mine") > 0)
        async with TieredStore.from_conn_string(url, **options, index=text_index()) as store:
            assert await store.aget(NS, "k") is not None
