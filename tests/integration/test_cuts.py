"""A connection that is cut writes all of a batch or none, and nobody is told what is not so."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from langgraph.store.base import GetOp, Op, PutOp

from langmem_tiers import TieredStore
from langmem_tiers.core.errors import DatabaseError, DatabaseUnavailableError, OutcomeUnknownError
from langmem_tiers.postgres.flow import Call, Flow, Query
from langmem_tiers.store import flows
from tests.support.invariants import broken_rows, values
from tests.support.opening import Opened, opened_store, text_index, tier_of
from tests.support.proxy import CuttingProxy
from tests.support.servers import held, sessions, terminate, terminate_blocked, wait_until

NAMESPACE = ("acme", "cuts")
SIZE = 20
POOL = {"min_size": 1, "max_size": 2}


def puts(turn: int) -> list[Op]:
    return [
        PutOp(NAMESPACE, str(i), {"text": f"turn {turn}, {i}", "turn": turn}) for i in range(SIZE)
    ]


def mixed(turn: int) -> list[Op]:
    return [GetOp(NAMESPACE, "0"), *puts(turn)]


def turn_of(url: str) -> int:
    """The one turn that all rows are of."""
    turns = [value["turn"] for value in values(url).values()]
    assert len(turns) == SIZE
    assert len(set(turns)) == 1
    return int(turns[0])


def attempt(store: TieredStore, ops: list[Op]) -> bool | None:
    """Run a batch; whether it was written, None if the store cannot know."""
    try:
        store.batch(ops)
    except OutcomeUnknownError:
        return None
    except DatabaseUnavailableError:
        return False
    return True


@pytest.fixture
def filled(database_url: str, index: dict[str, Any]) -> Iterator[TieredStore]:
    with TieredStore.from_conn_string(database_url, index=index, pool_config=POOL) as store:
        store.setup()
        store.batch(puts(0))
        yield store


@pytest.mark.parametrize("table", ["memories", "vectors"])
@pytest.mark.parametrize("kind", [puts, mixed])
def test_a_terminated_session_writes_all_or_nothing(
    filled: TieredStore, database_url: str, table: str, kind: Any
) -> None:
    lock = f"LOCK TABLE memory.{table}"
    with held(database_url, lock) as conn, ThreadPoolExecutor() as pool:
        running = pool.submit(attempt, filled, kind(1))
        wait_until(lambda: terminate_blocked(database_url) == 1)
        conn.rollback()
        written = running.result(timeout=20)
    assert turn_of(database_url) == (1 if written else 0)
    filled.batch(kind(2))
    assert turn_of(database_url) == 2
    assert broken_rows(database_url) == {}


def test_a_write_that_the_server_says_to_have_ended_is_repeated(
    filled: TieredStore, database_url: str
) -> None:
    filled.put(NAMESPACE, "expired", {"text": "soon"}, ttl=1e-9)
    with held(database_url, "LOCK TABLE memory.memories") as conn, ThreadPoolExecutor() as pool:
        running = pool.submit(filled.sweep_ttl)
        wait_until(lambda: terminate_blocked(database_url) == 1)
        conn.rollback()
        assert running.result(timeout=20) == 1


@pytest.mark.parametrize("cuts", [40, pytest.param(1000, marks=pytest.mark.proof)])
def test_a_cut_connection_writes_all_or_nothing(
    filled: TieredStore, database_url: str, index: dict[str, Any], cuts: int
) -> None:
    filled.close()
    rng, hits, now = random.Random(1), 0, 0  # noqa: S311 - seeded, not secret
    with (
        CuttingProxy(database_url) as proxy,
        TieredStore.from_conn_string(proxy.url, index=index, pool_config=POOL) as store,
    ):
        for turn in range(1, cuts + 1):
            upwards = rng.random() < 0.5
            proxy.cut_after(rng.randrange(12_000 if upwards else 1_200), upwards=upwards)
            written = attempt(store, rng.choice([puts, mixed])(turn))
            hits += proxy.disarm()
            before, now = now, turn_of(database_url)
            assert now in {True: (turn,), False: (before,), None: (before, turn)}[written]
    assert hits >= cuts // 4
    assert broken_rows(database_url) == {}


# Cut before the request arrived, or after Postgres had committed and before it answered

Act = Callable[[TieredStore], Awaitable[object]]

WRITES: dict[str, Act] = {
    "put": lambda store: store.aput(NAMESPACE, "a", {"text": "new"}),
    "batch": lambda store: store.abatch(
        [PutOp(NAMESPACE, key, {"text": "new"}) for key in ("a", "b")]
    ),
    "mixed batch": lambda store: store.abatch(
        [GetOp(NAMESPACE, "a"), PutOp(NAMESPACE, "a", {"text": "new"})]
    ),
    "tier put": lambda store: store.tier("working").aput(NAMESPACE, "a", {"text": "new"}),
    "delete": lambda store: store.adelete(NAMESPACE, "a"),
    "move": lambda store: store.amove(NAMESPACE, "a", "long_term"),
}
READS: dict[str, Act] = {
    "get": lambda store: store.aget(NAMESPACE, "a"),
    "gets": lambda store: store.abatch([GetOp(NAMESPACE, "a"), GetOp(NAMESPACE, "b")]),
    "search": lambda store: store.asearch(NAMESPACE, query="old"),
    "newest": lambda store: store.asearch(NAMESPACE),
    "namespaces": lambda store: store.alist_namespaces(),
}
SEVERAL_ROUND_TRIPS = {"mixed batch", "tier put"}
"""Writes that read first; their last round trip ends with a COMMIT."""
ONE_CONNECTION = {"min_size": 1, "max_size": 1}

Stored = tuple[dict[str, Any], list[str]]


def stored(url: str) -> Stored:
    """The values by key, and the tier of the one that is moved."""
    return values(url), tier_of(url, "a")


@pytest.fixture
def proxy(url: str) -> Iterator[CuttingProxy]:
    with CuttingProxy(url) as started:
        yield started


@pytest.fixture(params=["sync", "async"])
async def cuttable(
    request: pytest.FixtureRequest, proxy: CuttingProxy
) -> AsyncIterator[TieredStore]:
    """A store of one connection behind the proxy, with one memory, opened each way."""
    opened: Opened = request.param
    store = TieredStore.from_conn_string(proxy.url, index=text_index(), pool_config=ONE_CONNECTION)
    async with opened_store(store, opened):
        await store.aput(NAMESPACE, "a", {"text": "old"})
        await store.asearch(NAMESPACE, query="old")
        yield store


async def without_a_cut(store: TieredStore, url: str, name: str) -> tuple[Stored, Stored]:
    """What is stored before a write and after it; then it is as before again."""
    before = stored(url)
    await WRITES[name](store)
    after = stored(url)
    await as_before(store)
    assert stored(url) == before != after
    return before, after


async def as_before(store: TieredStore) -> None:
    """Undo whatever a write has done."""
    await store.adelete(NAMESPACE, "b")
    await store.adelete(NAMESPACE, "a")
    await store.aput(NAMESPACE, "a", {"text": "old"})


@pytest.mark.parametrize("upwards", [True, False], ids=["before it arrived", "before its answer"])
async def test_a_write_that_is_cut_is_said_to_be_unknown_and_is_there_once_or_not_at_all(
    cuttable: TieredStore, proxy: CuttingProxy, url: str, *, upwards: bool
) -> None:
    for name, write in WRITES.items():
        before, after = await without_a_cut(cuttable, url, name)
        proxy.cut_before(b"COMMIT" if name in SEVERAL_ROUND_TRIPS else b"", upwards=upwards)
        with pytest.raises(OutcomeUnknownError, match=r"may or may not be there.*read it") as told:
            await write(cuttable)
        assert proxy.disarm()
        assert isinstance(told.value, DatabaseUnavailableError)
        assert isinstance(told.value.__cause__, psycopg.OperationalError)
        assert stored(url) == (before if upwards else after)
        if upwards:
            await write(cuttable)
            assert stored(url) == after
        assert broken_rows(url) == {}
        await as_before(cuttable)


@pytest.mark.parametrize("upwards", [True, False])
async def test_what_is_cut_where_nothing_is_committed_is_repeated(
    cuttable: TieredStore, proxy: CuttingProxy, url: str, *, upwards: bool
) -> None:
    for name in sorted(SEVERAL_ROUND_TRIPS):  # a write cut in its first round trip
        _, after = await without_a_cut(cuttable, url, name)
        proxy.cut_after(0, upwards=upwards)
        await WRITES[name](cuttable)
        assert proxy.disarm()
        assert stored(url) == after
        await as_before(cuttable)
    for read in READS.values():
        uncut = await read(cuttable)
        proxy.cut_after(0, upwards=upwards)
        assert await read(cuttable) == uncut
        assert proxy.disarm()


async def test_counts_that_are_cut_are_repeated_and_may_count_twice(
    cuttable: TieredStore, proxy: CuttingProxy
) -> None:
    await cuttable.aget(NAMESPACE, "a")
    proxy.cut_after(0, upwards=False)
    assert sum(one.accesses for one in await cuttable.astats()) in (1, 2)
    assert proxy.disarm()


async def test_puts_that_share_a_cut_transaction_are_all_unknown(
    cuttable: TieredStore, proxy: CuttingProxy, url: str
) -> None:
    proxy.cut_before(b"INSERT", upwards=False)
    keys = [str(i) for i in range(16)]
    told = await asyncio.gather(
        *(cuttable.aput(NAMESPACE, key, {"text": key}) for key in keys), return_exceptions=True
    )
    assert proxy.disarm()
    assert {type(one) for one in told} <= {OutcomeUnknownError, type(None)}
    assert OutcomeUnknownError in {type(one) for one in told}
    assert set(values(url)) == {"a", *keys}


# Ended while nobody used them


async def test_a_connection_that_ended_while_idle_is_replaced_unnoticed(
    cuttable: TieredStore, proxy: CuttingProxy, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flows, "FLUSH_SECONDS", math.inf)  # nobody connects but this test
    for act in (*WRITES.values(), *READS.values()):
        assert terminate(url)
        wait_until(lambda: sessions(url) == proxy.passing() == 0)
        await act(cuttable)
        proxy.hang_up()
        wait_until(lambda: sessions(url) == proxy.passing() == 0)
        await act(cuttable)
    assert broken_rows(url) == {}


async def test_what_fails_on_our_side_in_the_middle_of_a_round_trip_commits_nothing(
    cuttable: TieredStore,
) -> None:
    def half_sendable() -> Flow[None]:
        first = Call("change_setting", {"name": "half", "value": "1"})
        second = Call("change_setting", {"name": object(), "value": "2"})
        yield Query((first, second), commit=True)

    def settings() -> Flow[list[Any]]:
        (rows,) = yield Query((Call("settings", {}),), commit=True)
        return list(rows)

    with pytest.raises(DatabaseError, match="adapt"):
        await cuttable.runner.arun(half_sendable())
    assert "half" not in dict(await cuttable.runner.arun(settings()))
