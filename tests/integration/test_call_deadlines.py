"""A call ends by its deadline, whatever it waits for, and says what it waited for."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from langgraph.store.base import GetOp, ListNamespacesOp, PutOp, SearchOp
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from langmem_tiers import Bounds, MemoryCoordinator, TieredStore
from langmem_tiers.core.errors import (
    DatabaseError,
    DatabaseUnavailableError,
    OutcomeUnknownError,
    TieredMemoryError,
)
from langmem_tiers.postgres.connection import AsyncConnection
from langmem_tiers.postgres.driver import Deadline
from langmem_tiers.testing import TrigramEmbeddings
from tests.support.coded import coded
from tests.support.coordinating import PATIENT, coordinator
from tests.support.opening import DIMS, Opener, tables, text_index, tiered
from tests.support.proxy import CuttingProxy
from tests.support.servers import blocked, held, wait_until

NS = ("acme", "deadlines")
QUICK = Bounds(call_timeout_ms=300)
SOON = 8.0
"""The seconds in which a call of `QUICK` ends on a busy machine. Without a deadline a statement has
a minute, and all else as long as it takes."""
ROW = "SELECT FROM working.memories WHERE key = 'old' FOR UPDATE"
TABLE = "LOCK TABLE working.memories IN ACCESS EXCLUSIVE MODE"


@contextmanager
def soon() -> Iterator[None]:
    began = time.monotonic()
    yield
    assert time.monotonic() - began < SOON


def stored(url: str) -> dict[str, list[tuple[Any, ...]]]:
    """Return all that is stored, but for the counts of reads, which come a second later."""
    return {name: rows for name, rows in tables(url).items() if name != "usage"}


BLOCKED: list[tuple[str, list[Any]]] = [
    (TABLE, [GetOp(NS, "old")]),
    (TABLE, [SearchOp(NS, query="old")]),
    (TABLE, [ListNamespacesOp()]),
    (ROW, [PutOp(NS, "old", {"text": "new"})]),
    (ROW, [PutOp(NS, "beside", {"text": "x"}), PutOp(NS, "old", None)]),
    (TABLE, [GetOp(NS, "old"), PutOp(NS, "k", {"text": "new"})]),
]


async def test_a_call_that_waits_for_a_lock_ends_at_its_deadline_and_nothing_is_written(
    open_store: Opener, url: str
) -> None:
    async with open_store(url=url, index=text_index(), bounds=QUICK) as driver:
        for lock, ops in BLOCKED:
            await driver.batch([PutOp(NS, "old", {"text": "old"})])
            before = stored(url)
            with (
                held(url, lock),
                soon(),
                coded("query_timeout", match=r"0\.3 seconds.*Bounds\(call_timeout_ms=…"),
            ):
                await driver.batch(ops)
            assert stored(url) == before
            await driver.batch(ops)


def verbs(memory: MemoryCoordinator) -> dict[str, Callable[[], Any]]:
    return {
        "store": lambda: memory.store("The office moves to Turin in May."),
        "get_context": lambda: memory.get_context("Where is the office?"),
        "get": lambda: memory.get("old"),
        "history": lambda: memory.truth.history("old"),
        "delete_memory": lambda: memory.delete_memory("old"),
        "stats": memory.stats,
        "intentions": memory.reminders.list,
        "list_quarantined": memory.admin.list_quarantined,
    }


def test_every_verb_of_a_coordinator_ends_at_its_deadline(url: str) -> None:
    tables_of_verbs = "memory.memories, memory.states, memory.events, memory.intentions"
    with TieredStore(url, index=text_index(), bounds=QUICK) as store:
        memory = coordinator(store, settings=PATIENT)
        memory.store("The office is in Turin.", key="old")
        for verb in verbs(memory).values():
            with (
                held(url, f"LOCK TABLE {tables_of_verbs} IN ACCESS EXCLUSIVE MODE"),
                soon(),
                coded("query_timeout", match="call_timeout_ms"),
            ):
                verb()
        for verb in verbs(memory).values():
            verb()


@pytest.mark.slow
async def test_one_row_that_is_locked_keeps_no_other_write_from_the_disk(
    open_store: Opener, url: str
) -> None:
    bounds = Bounds(call_timeout_ms=6_000)
    async with open_store(url=url, index=text_index(), bounds=bounds) as driver:
        await driver.put(NS, "old", {"text": "old"})
        with held(url, ROW):
            stuck = asyncio.ensure_future(driver.put(NS, "old", {"text": "new"}))
            await asyncio.to_thread(wait_until, lambda: blocked(url))
            others = [driver.put(NS, f"{n}", {"text": f"note {n}"}) for n in range(4)]
            again = driver.put(NS, "old", {"text": "newer"})
            results = await asyncio.gather(*others, again, return_exceptions=True)
            assert results[:-1] == [None] * 4
            assert isinstance(results[-1], DatabaseError)
            assert results[-1].code == "query_timeout"
            with coded("query_timeout"):
                await stuck
        assert {one.key for one in await driver.search(NS)} == {"old", "0", "1", "2", "3"}


async def test_a_call_waits_for_a_connection_until_its_deadline(
    open_store: Opener, url: str
) -> None:
    pool = {"min_size": 1, "max_size": 1}
    async with open_store(url=url, index=text_index(), bounds=QUICK, pool_config=pool) as driver:
        runner = tiered(driver).runner
        database = runner._database
        assert database is not None
        taken = database.pool.getconn()
        conn = await taken if asyncio.iscoroutine(taken) else taken
        with soon(), coded("pool_exhausted", match="call_timeout_ms"):
            await driver.get(NS, "k")
        given = database.pool.putconn(conn)
        if asyncio.iscoroutine(given):
            await given
        assert await driver.get(NS, "k") is None


class Hanging(TrigramEmbeddings):
    """A model that never answers, until it is let go."""

    def __init__(self) -> None:
        super().__init__(DIMS)
        self.hangs = threading.Event()
        self.free = threading.Event()

    def embed_query(self, text: str) -> list[float]:
        if self.hangs.is_set():
            self.free.wait(60)
        return super().embed_query(text)

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        return [await self.aembed_query(text) for text in texts]

    async def aembed_query(self, text: str) -> list[float]:
        if self.hangs.is_set():
            await asyncio.Event().wait()
        return super().embed_query(text)


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    model = Hanging()
    yield model
    model.free.set()


@pytest.mark.slow
async def test_a_model_that_never_answers_ends_a_write_and_leaves_a_recall_its_words(
    open_store: Opener, url: str, hanging: Hanging
) -> None:
    index = text_index() | {"embed": hanging}
    async with open_store(url=url, index=index, bounds=Bounds(call_timeout_ms=2_000)) as driver:
        memory = coordinator(tiered(driver))
        await memory.astore("The office is in Turin.", key="old")
        hanging.hangs.set()
        with soon(), coded("model_failed", match=r"no answer.*call_timeout_ms"):
            await driver.put(NS, "k", {"text": "new"})
        with soon(), coded("model_failed", match="call_timeout_ms"):
            await memory.astore("Lunch is at noon.")
        with soon():
            found = await memory.aget_context("Where is the office?")
        assert [one.key for one in found] == ["old"]
        assert "call_timeout_ms" in str(found.by_words)
        assert await driver.get(NS, "k") is None
        hanging.hangs.clear()
        await driver.put(NS, "k", {"text": "new"})


class Slow(TrigramEmbeddings):
    """A model that is slow to answer each question."""

    def embed_query(self, text: str) -> list[float]:
        threading.Event().wait(0.05)
        return super().embed_query(text)

    async def aembed_query(self, text: str) -> list[float]:
        await asyncio.sleep(0.05)
        return super().embed_query(text)


async def test_a_batch_has_one_deadline_for_all_that_it_asks(open_store: Opener, url: str) -> None:
    index = text_index() | {"embed": Slow(DIMS)}
    async with open_store(url=url, index=index, bounds=QUICK) as driver:
        began = time.monotonic()
        with coded("model_failed", match="call_timeout_ms"):
            await driver.batch([SearchOp(NS, query=f"question {n}") for n in range(120)])
        assert time.monotonic() - began < 5  # the questions alone take six seconds


async def test_what_tends_all_of_a_store_takes_as_long_as_it_takes(
    open_store: Opener, url: str
) -> None:
    bounds = Bounds(call_timeout_ms=100)
    async with open_store(url=url, index=text_index(), bounds=bounds) as driver:
        others = f"SELECT pg_advisory_xact_lock({0x6C616E676D656D})"
        with held(url, others):
            waiting = asyncio.ensure_future(tiered(driver).asetup())
            await asyncio.to_thread(wait_until, lambda: blocked(url))
            with held(url, TABLE), coded("query_timeout"):
                await driver.get(NS, "k")
            assert not waiting.done()
        await waiting


# A network that says nothing


@contextmanager
def through(url: str) -> Iterator[CuttingProxy]:
    with CuttingProxy(url) as proxy:
        yield proxy
        proxy.silent = False


@pytest.mark.slow
async def test_a_connection_that_is_silently_dropped_holds_no_call_beyond_its_deadline(
    open_store: Opener, url: str
) -> None:
    with through(url) as proxy:
        there = f"{proxy.url} connect_timeout=2"
        async with open_store(url=there, index=text_index(), bounds=QUICK) as driver:
            await driver.put(NS, "old", {"text": "old"})
            proxy.silent = True
            with soon(), coded("query_timeout", match="call_timeout_ms"):
                await driver.get(NS, "old")
            with soon(), pytest.raises(TieredMemoryError):  # nor does the server answer
                await driver.get(NS, "old")
            proxy.silent = False
            await recovered(lambda: driver.get(NS, "old"))
            proxy.silent = True
            with soon(), pytest.raises(OutcomeUnknownError):
                await driver.put(NS, "old", {"text": "new"})
            proxy.silent = False
            found = await recovered(lambda: driver.get(NS, "old"))
            assert found is not None
            assert found.value == {"text": "old"}


async def recovered(call: Callable[[], Any]) -> Any:
    """Return the answer of a call once the store has connected again."""
    for _ in range(20):
        try:
            return await call()
        except DatabaseError as error:
            if not (isinstance(error, DatabaseUnavailableError) or error.code == "query_timeout"):
                raise
            await asyncio.sleep(0)
    return await call()


async def test_whoever_waits_for_less_than_the_deadline_goes_on_in_time(url: str) -> None:
    with through(url) as proxy:
        there = f"{proxy.url} connect_timeout=2"
        async with TieredStore(there, index=text_index()) as store:
            await store.aput(NS, "old", {"text": "old"})
            proxy.silent = True
            for call in (
                lambda: store.aget(NS, "old"),
                lambda: store.asearch(NS, query="old"),
                lambda: store.aput(NS, "old", {"text": "new"}),
            ):
                with soon(), pytest.raises(TimeoutError):
                    await asyncio.wait_for(call(), 0.2)
            proxy.silent = False
            assert (await recovered(lambda: store.aget(NS, "old"))) is not None
        with held(url, TABLE):
            async with TieredStore(url, index=text_index()) as store:
                with soon(), pytest.raises(TimeoutError):
                    await asyncio.wait_for(store.aget(NS, "old"), 0.2)


def test_threads_that_come_while_a_network_is_silent_all_end_in_time(url: str) -> None:
    with through(url) as proxy:
        there = f"{proxy.url} connect_timeout=2"
        with TieredStore(there, index=text_index(), bounds=Bounds(call_timeout_ms=1_000)) as store:
            store.put(NS, "old", {"text": "old"})
            proxy.silent = True

            def ask(_: int) -> str:
                with soon():
                    try:
                        store.get(NS, "old")
                    except TieredMemoryError as error:
                        return type(error).__name__
                return "answered"

            with ThreadPoolExecutor(16) as pool:
                assert "answered" not in list(pool.map(ask, range(16)))
            proxy.silent = False


@pytest.mark.parametrize(
    ("said", "holds"),
    [
        ("", {"keepalives_idle": 10, "tcp_user_timeout": 15_000, "connect_timeout": 5}),
        ("tcp_user_timeout=1 connect_timeout=7 application_name=own", {"keepalives_idle": 10}),
    ],
)
def test_connections_are_kept_alive_unless_the_connection_string_says_otherwise(
    said: str, holds: dict[str, int]
) -> None:
    target = TieredStore(f"host=db {said}").runner._target
    options = target.connection_options()
    known = {name: options[name] for name in holds}
    assert known == holds
    assert not {one.split("=")[0] for one in said.split()} & options.keys()


# The commit of a write waits for the audit log of its tenant

COMMIT = "SELECT pg_advisory_xact_lock(hashtext('memory.audit'), hashtext('acme') & 4095)"


async def test_a_write_whose_commit_waits_for_a_lock_ends_at_its_deadline_and_leaves_nothing(
    open_store: Opener, url: str
) -> None:
    async with open_store(url=url, index=text_index(), bounds=QUICK) as driver:
        with held(url, COMMIT), soon(), coded("query_timeout", match="call_timeout_ms"):
            await driver.put(NS, "k", {"text": "new"})
        assert await driver.get(NS, "k") is None
        await driver.put(NS, "k", {"text": "new"})


async def test_writes_that_wait_together_at_their_commit_go_alone_and_are_there_once_it_is_free(
    open_store: Opener, url: str
) -> None:
    bounds = Bounds(call_timeout_ms=8_000)
    async with open_store(url=url, index=text_index(), bounds=bounds) as driver:
        with held(url, COMMIT):
            puts = [driver.put(NS, f"{n}", {"text": f"note {n}"}) for n in range(4)]
            going = asyncio.gather(*puts)
            await asyncio.to_thread(wait_until, lambda: blocked(url, 4))
        await going
        assert {one.key for one in await driver.search(NS)} == {"0", "1", "2", "3"}


async def test_a_write_that_a_deadlock_undoes_at_its_commit_goes_again(
    open_store: Opener, url: str
) -> None:
    async with open_store(url=url, index=text_index()) as driver:
        await driver.put(NS, "old", {"text": "old"})
        with held(url, COMMIT) as conn:
            conn.execute("SET LOCAL deadlock_timeout = '60s'")
            going = asyncio.ensure_future(driver.put(NS, "old", {"text": "new"}))
            await asyncio.to_thread(wait_until, lambda: blocked(url))
            waiting = asyncio.to_thread(conn.execute, ROW.encode())  # the put has the row
            await asyncio.gather(waiting, return_exceptions=True)
            conn.rollback()
            await going
        found = await driver.get(NS, "old")
        assert found is not None
        assert found.value == {"text": "new"}


async def test_a_connection_that_has_rested_is_checked_within_a_time_of_its_own(
    open_store: Opener, url: str
) -> None:
    awaited = open_store.opened == "async"
    check = (AsyncConnectionPool if awaited else ConnectionPool).check_connection
    pool = {"min_size": 1, "max_size": 1, "check": check}
    async with open_store(url=url, index=text_index(), pool_config=pool) as driver:
        runner = tiered(driver).runner
        database = runner._database
        assert database is not None
        assert await driver.get(NS, "k") is None
        (resting,) = database.pool._pool
        resting.deadline = Deadline(0)  # as if it had rested for long
        assert await driver.get(NS, "k") is None
        assert list(database.pool._pool) == [resting]


async def test_who_is_cancelled_hears_that_also_where_the_server_answers_with_an_error(
    url: str,
) -> None:
    """Else an error after which a call is tried again keeps it from ending."""
    conflicts = """DO $$ BEGIN
        PERFORM pg_advisory_xact_lock(11);
        EXCEPTION WHEN query_canceled THEN RAISE SQLSTATE '40001';
        END $$"""
    with held(url, "SELECT pg_advisory_xact_lock(11)"):
        async with await AsyncConnection.connect(
            url, autocommit=True, application_name="langmem-tiers"
        ) as conn:
            call = asyncio.create_task(conn.execute(conflicts))
            await asyncio.to_thread(wait_until, lambda: blocked(url))
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            assert conn.is_broken_off
