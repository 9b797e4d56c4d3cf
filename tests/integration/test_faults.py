"""What a caller is told when Postgres, the pool or the embedding model fails."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest
from langgraph.store.base import GetOp, Op, PutOp, SearchOp
from psycopg.conninfo import make_conninfo
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from langmem_tiers import MemoryOrchestrator, TieredStore
from langmem_tiers.core.concurrency import Work
from langmem_tiers.core.errors import DatabaseError, DatabaseUnavailableError, EmbeddingError
from langmem_tiers.graph.recall import TieredMemoryRetriever
from langmem_tiers.postgres.driver import drive
from langmem_tiers.postgres.flow import BuildIndex, Call, Flow, Query
from langmem_tiers.testing import Mode, TrigramEmbeddings
from tests.support.coded import coded
from tests.support.coordinating import Verbs, coordinator
from tests.support.invariants import values
from tests.support.opening import DIMS, FailingEmbeddings, Opened, opened_store, text_index
from tests.support.servers import blocked, held, own_server, sessions, wait_until

NAMESPACE = ("acme", "faults")
ONE_CONNECTION = {"min_size": 1, "max_size": 1, "timeout": 0.2}


def puts(turn: int) -> list[Op]:
    value = {"text": f"turn {turn}", "turn": turn}
    return [PutOp(NAMESPACE, str(i), value) for i in range(20)]


@pytest.fixture
def small(database_url: str, index: dict[str, Any]) -> Iterator[TieredStore]:
    """A store with a pool of one connection."""
    with TieredStore.from_conn_string(
        database_url, index=index, pool_config=ONE_CONNECTION
    ) as store:
        store.setup()
        store.put(NAMESPACE, "old", {"text": "was here before"})
        yield store


# A pool that is busy


def test_a_busy_pool_is_reported_quickly_with_what_to_do(
    small: TieredStore, database_url: str
) -> None:
    with held(database_url, "LOCK TABLE memory.memories") as conn, ThreadPoolExecutor() as pool:
        slow = pool.submit(small.get, NAMESPACE, "old")
        wait_until(lambda: blocked(database_url))
        start = time.monotonic()
        with coded("pool_exhausted", match="max_size") as caught:
            small.put(NAMESPACE, "new", {"text": "finds no connection"})
        assert time.monotonic() - start < 1.5
        assert caught.value.__cause__ is not None
        conn.rollback()
        item = slow.result(timeout=10)
    assert item is not None
    small.put(NAMESPACE, "new", {"text": "finds one again"})
    assert set(values(database_url)) == {"old", "new"}


# A server that is not there, or not for us


def test_an_absent_server_or_database_is_reported_at_open_in_two_seconds(
    tmp_path: Path, server_url: str
) -> None:
    before = set(threading.enumerate())
    with socket.create_server(("127.0.0.1", 0)) as listener:
        free_port = listener.getsockname()[1]
    away, runs = (DatabaseUnavailableError, None), "check that it runs"
    missing = DatabaseError, "not_set_up"
    for url, error, said in (
        (f"postgresql://postgres@127.0.0.1:{free_port}/postgres", away, runs),
        (f"host={tmp_path} dbname=postgres user=postgres", away, runs),
        (make_conninfo(server_url, dbname="no_such"), missing, r"no_such.*connection string"),
    ):
        start = time.monotonic()
        with pytest.raises(DatabaseError, match=said) as refused, TieredStore(url):
            pass
        assert (type(refused.value), refused.value.code) == error
        assert time.monotonic() - start < 2
        store = TieredStore(url)
        with pytest.raises(DatabaseError) as refused:
            store.get(NAMESPACE, "a")
        assert (type(refused.value), refused.value.code) == error
        store.close()
    assert set(threading.enumerate()) - before == set()


def test_a_wrong_password_is_reported_and_not_repeated(tmp_path: Path) -> None:
    with own_server(tmp_path) as server, psycopg.connect(server.url, autocommit=True) as conn:
        conn.execute("CREATE ROLE locked LOGIN PASSWORD 'right'")
        rules = server.path / "data" / "pg_hba.conf"
        rules.write_text("local all locked scram-sha-256\n" + rules.read_text())
        conn.execute("SELECT pg_reload_conf()")
        url = partial(make_conninfo, server.url, user="locked")

        def asks_for_password() -> bool:
            with suppress(psycopg.OperationalError):
                psycopg.connect(url(password="none")).close()
                return False
            return True

        wait_until(asks_for_password)
        with TieredStore.from_conn_string(url(password="right")):
            pass
        with pytest.raises(DatabaseUnavailableError, match="connection string") as caught:
            TieredStore.from_conn_string(url(password="wrong-secret")).get(NAMESPACE, "a")
        assert "wrong-secret" not in str(caught.value)


@pytest.mark.parametrize("opened", ["sync", "async"])
async def test_who_waits_for_a_connection_of_a_server_that_goes_away_is_told_so_at_once(
    tmp_path: Path, index: dict[str, Any], opened: Opened
) -> None:
    with own_server(tmp_path) as server, psycopg.connect(server.url) as conn:
        made = TieredStore.from_conn_string(server.url, index=index, pool_config={"max_size": 1})
        async with opened_store(made, opened) as store:
            await store.asetup()
            conn.execute("LOCK TABLE memory.memories")
            calls = [asyncio.ensure_future(store.aget(NAMESPACE, "a")) for _ in range(2)]
            await asyncio.to_thread(wait_until, lambda: blocked(server.url))
            calls.append(asyncio.ensure_future(store.aput(NAMESPACE, "b", {"text": "waits"})))
            database = made.runner._database
            assert database is not None
            await asyncio.to_thread(
                wait_until, lambda: database.pool.get_stats().get("requests_waiting")
            )
            await asyncio.to_thread(server.stop)
            start = time.monotonic()
            told = await asyncio.gather(*calls, return_exceptions=True)
            assert {type(one) for one in told} == {DatabaseUnavailableError}
            assert time.monotonic() - start < 5
            conn.close()
            await asyncio.to_thread(server.start)
            assert await store.aget(NAMESPACE, "a") is None


@pytest.mark.parametrize("opened", ["sync", "async"])
async def test_a_pool_that_checks_its_connections_says_at_once_that_the_server_is_gone(
    tmp_path: Path, opened: Opened
) -> None:
    kind = AsyncConnectionPool if opened == "async" else ConnectionPool
    with own_server(tmp_path) as server:
        made = TieredStore.from_conn_string(
            server.url, pool_config={"check": kind.check_connection}
        )
        async with opened_store(made, opened) as store:
            await store.asetup()
            await asyncio.to_thread(server.stop)
            start = time.monotonic()
            for _ in range(2):
                with pytest.raises(DatabaseUnavailableError):
                    await store.aget(NAMESPACE, "a")
            await asyncio.to_thread(server.start)
            assert await store.aget(NAMESPACE, "a") is None
            assert time.monotonic() - start < 5


# A database without tables

CALLS: list[Callable[[TieredStore], object]] = [
    lambda store: store.batch([GetOp(NAMESPACE, "a"), GetOp(NAMESPACE, "b")]),
    lambda store: store.put(NAMESPACE, "a", {"text": "x"}),
    lambda store: store.put(NAMESPACE, "a", {"text": "x"}, index=False),
    lambda store: store.delete(NAMESPACE, "a"),
    lambda store: store.search((), query="x"),
    lambda store: store.list_namespaces(),
    lambda store: coordinator(store).get_context("x"),
    lambda store: coordinator(store).clear_working_memory("x"),
    lambda store: coordinator(store).stats(),
    lambda store: store.move(NAMESPACE, "a", "long_term"),
    lambda store: store.tier("long_term").put(NAMESPACE, "a", {"text": "x"}),
    lambda store: store.sweep_ttl(),
    lambda store: store.sizes(),
    lambda store: store.start_ttl_sweeper(),
    lambda store: store.optimize(),
]


def test_every_call_on_an_empty_database_says_to_set_it_up_and_works_once_another_store_did(
    database_url: str, index: dict[str, Any]
) -> None:
    with TieredStore.from_conn_string(database_url, index=index) as store:
        for call in CALLS:
            with coded("not_set_up", match=r"setup\(\)"):
                call(store)
        with TieredStore.from_conn_string(database_url, index=index) as other:
            other.setup()
        for call in CALLS:
            call(store)


# Embeddings that fail


async def test_a_failing_model_is_visible_and_nothing_is_written(database_url: str) -> None:
    poisoned = [GetOp(NAMESPACE, "0"), *puts(1), PutOp(NAMESPACE, "x", {"text": "poison"})]
    async with TieredStore(database_url, index=text_index(embed=FailingEmbeddings(DIMS))) as store:
        await store.asetup()
        with coded("model_failed", match=REFUSED) as caught:
            await store.abatch(poisoned)
        assert isinstance(caught.value.__cause__, LookupError)
        with coded("model_failed", match=REFUSED):
            await store.asearch(NAMESPACE, query="poison")
        with coded("model_failed", match=REFUSED):
            await coordinator(store).astore_many(["a cure", "poison"])
        assert values(database_url) == {}
    with TieredStore(database_url, index=text_index(embed=FailingEmbeddings(DIMS))) as store:
        store.batch(puts(2))
        with coded("model_failed", match=REFUSED):
            store.batch(poisoned)
        assert {value["turn"] for value in values(database_url).values()} == {2}
        assert len(store.search(NAMESPACE, query="turn")) == 10


REFUSED = "refuses this text.* nothing was written: check its key"
ANTIDOTE, LUNCH = "The antidote is in the cellar", "Lunch is at noon"
POISONED = "Where is the antidote for the poison?"


@pytest.mark.parametrize("opened", ["sync", "async"])
async def test_where_the_model_fails_recall_goes_by_words_and_says_so(
    url: str, opened: Opened, caplog: pytest.LogCaptureFixture
) -> None:
    model = FailingEmbeddings(DIMS)
    mode: Mode = "batch" if opened == "sync" else "abatch"
    async with opened_store(TieredStore(url, index=text_index(embed=model)), opened) as store:
        memory = coordinator(store)
        call, retriever = Verbs(memory, mode), TieredMemoryRetriever(memory=memory)
        await call("store_many", [ANTIDOTE, LUNCH])
        found = await call("get_context", POISONED, min_match=0.01)
        none = await call("get_context", "poison?", min_match=0)
        noon, again, newest = await call("get_context_batch", ["noon", POISONED, ""])
        near = await call("get_context", "antidote", min_match=0)
        (document,) = await Verbs(retriever, mode)("invoke", POISONED)
        assert caplog.text.count("by words alone") == model.failures == 4

        turn = MemoryOrchestrator(memory).begin()
        context = await Verbs(turn, mode)("assemble_context", POISONED)
        assert model.failures == 5  # once for all sources
        (event,) = turn.trace.of_kind("assembled")

    failed = "LookupError: the model refuses this text"
    assert [one.content for one in found] == [one.content for one in again] == [ANTIDOTE]
    assert none == []
    assert [one.by_words for one in (found, none, again, noon)] == [failed] * 4
    assert str(none) == f"No memories.\nBy words alone: {failed}"
    assert [(len(one), one.by_words) for one in (near, newest)] == [(2, None)] * 2
    assert (document.page_content, document.metadata["by_words"]) == (ANTIDOTE, failed)
    assert ANTIDOTE in context.text
    assert context.by_words == failed
    assert failed in event.reasons[0]


async def test_a_model_that_does_not_fit_the_store_fails_every_recall(url: str) -> None:
    with TieredStore(url, index=text_index(embed=TrigramEmbeddings(DIMS + 1))) as store:
        memory = coordinator(store)
        with pytest.raises(EmbeddingError, match="dimensions"):
            memory.get_context("antidote")
        with (
            pytest.raises(EmbeddingError, match="dimensions"),
            MemoryOrchestrator(memory) as turn,
        ):
            turn.assemble_context("antidote")


class AskingEmbeddings(TrigramEmbeddings):
    """Looks its settings up in the store that it embeds for."""

    store: TieredStore

    def embed_query(self, text: str) -> list[float]:
        self.store.get(("settings",), "model")
        return super().embed_query(text)

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        await self.store.aget(("settings",), "model")
        return TrigramEmbeddings(self.dims).embed_documents(texts)

    async def aembed_query(self, text: str) -> list[float]:
        return (await self.aembed_documents([text]))[0]


async def test_embedding_holds_no_connection(database_url: str) -> None:
    embeddings = AskingEmbeddings(DIMS)
    options: dict[str, Any] = {"index": text_index(embed=embeddings), "pool_config": ONE_CONNECTION}
    with TieredStore.from_conn_string(database_url, **options) as store:
        embeddings.store = store
        store.setup()
        store.put(NAMESPACE, "a", {"text": "one connection is enough"})
        assert coordinator(store, NAMESPACE[0], project_id=NAMESPACE[1]).get_context("one")
        read, _ = store.batch(
            [SearchOp(NAMESPACE, query="one"), PutOp(NAMESPACE, "b", {"text": "and another"})]
        )
        assert [item.key for item in read] == ["a"]  # type: ignore[union-attr]
    async with TieredStore.from_conn_string(database_url, **options) as store:
        embeddings.store = store
        await store.aput(NAMESPACE, "c", {"text": "a third"})
        assert (await store.asearch(NAMESPACE, query="a third"))[0].key == "c"


# Nothing is left behind


def signalled(work: Work[Any], step: int) -> bool:
    """Do blocking work to its end as `done` does, with a signal after a step; whether it came."""
    resume: Callable[[Any], Any] = work.send
    answer: Any = None
    for now in count():
        try:
            answer, resume = resume(answer), work.send
        except StopIteration:
            return False
        except KeyboardInterrupt:
            return True
        if now == step:
            resume, answer = work.throw, KeyboardInterrupt()
    raise AssertionError("unreachable")


def test_a_signal_between_any_two_steps_gives_its_connection_back_whole(
    database_url: str, index: dict[str, Any]
) -> None:
    def reads() -> Flow[None]:
        yield Query((Call("settings", {}),), commit=True)
        yield Query((Call("settings", {}),))
        yield Query((Call("settings", {}), Call("settings", {})), commit=True)

    def builds() -> Flow[None]:
        yield BuildIndex(("SELECT 1",), lock=7)

    pool = {"min_size": 1, "max_size": 1, "timeout": 2}

    def lock_is_free(other: psycopg.Connection[Any]) -> bool:
        """Tell whether nobody holds the lock: a server process ends a moment after its client."""
        free = other.execute("SELECT pg_try_advisory_xact_lock(7)").fetchone()
        return free == (True,)

    with (
        psycopg.connect(database_url, autocommit=True) as other,
        TieredStore.from_conn_string(database_url, index=index, pool_config=pool) as store,
    ):
        store.setup()
        database = store.runner._database
        assert database is not None
        for flow in (reads, builds):
            steps = 0
            while signalled(drive(flow(), database.session()), steps):
                steps += 1
                wait_until(lambda: database.pool.get_stats()["pool_available"] == 1)
                assert not signalled(drive(reads(), database.session()), -1)
                wait_until(partial(lock_is_free, other))
            assert steps > 2


@pytest.mark.parametrize("opened", ["sync", "async"])
async def test_a_store_that_is_closed_leaves_no_thread_no_task_and_no_connection(
    database_url: str, index: dict[str, Any], opened: Opened
) -> None:
    before = set(threading.enumerate())
    store = TieredStore.from_conn_string(database_url, index=index)
    async with opened_store(store, opened):
        await store.asetup()
        await asyncio.to_thread(store.start_ttl_sweeper)
        await asyncio.gather(*(asyncio.to_thread(store.batch, puts(turn)) for turn in range(8)))
        await asyncio.gather(*(store.abatch(puts(turn)) for turn in range(8)))
        assert sessions(database_url) > 0
    assert asyncio.all_tasks() == {asyncio.current_task()}
    await asyncio.to_thread(wait_until, lambda: sessions(database_url) == 0)
    left = set(threading.enumerate()) - before
    assert [one.name for one in left if not one.name.startswith("asyncio")] == []
