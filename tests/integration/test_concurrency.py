"""Many writers at the same keys: nothing is lost, doubled, half written or deadlocked."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import count, pairwise
from typing import Any

import psycopg
import pytest
from langgraph.store.base import GetOp, PutOp

from langmem_tiers import TieredStore
from tests.support.invariants import access_counts, broken_rows, values
from tests.support.servers import blocked, held, wait_until
from tests.support.traffic import COUNTED, NAMESPACE, Worker, prepare, run_process

_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload(["tests.support.traffic"])
WORKERS = 16
NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def workers(steps: int) -> list[Worker]:
    return [Worker(f"w{i}", steps) for i in range(WORKERS)]


def broken_for_good(url: str) -> dict[str, list[tuple[Any, ...]]]:
    """Broken rows, but for counters written beside a deletion, which go at the next tidying."""
    with TieredStore(url) as store:
        store.optimize()
    return broken_rows(url)


def check(url: str, done: Sequence[Worker]) -> None:
    assert broken_for_good(url) == {}
    stored = values(url)
    for one in done:
        assert one.own == 0 or stored[one.own_key]["number"] == one.own
    expected: Counter[str] = sum((one.gets for one in done), Counter())
    counts = access_counts(url)
    assert {key: counts.get(key, 0) for key in COUNTED} == {key: expected[key] for key in COUNTED}


SOME_STEPS = pytest.mark.parametrize("steps", [40, pytest.param(1000, marks=pytest.mark.proof)])


@SOME_STEPS
def test_sixteen_threads_at_ten_keys_lose_nothing(
    own_store: TieredStore, database_url: str, steps: int
) -> None:
    prepare(own_store)
    with ThreadPoolExecutor(WORKERS) as pool:
        done = list(pool.map(lambda one: one.run(own_store), workers(steps)))
    own_store.stats()
    check(database_url, done)


@SOME_STEPS
async def test_sixteen_tasks_at_ten_keys_lose_nothing(
    database_url: str, index: dict[str, Any], steps: int
) -> None:
    async with TieredStore.from_conn_string(database_url, index=index) as store:
        await store.asetup()
        await asyncio.to_thread(prepare, store)
        done = await asyncio.gather(*(one.arun(store) for one in workers(steps)))
    check(database_url, done)


@pytest.mark.parametrize("steps", [20, pytest.param(1000, marks=pytest.mark.proof)])
def test_four_processes_at_ten_keys_lose_nothing(
    own_store: TieredStore, database_url: str, steps: int
) -> None:
    prepare(own_store)
    names = [[f"w{i}" for i in range(first, WORKERS, 4)] for first in range(4)]
    with ProcessPoolExecutor(4, mp_context=_PROCESSES) as pool:
        done = pool.map(run_process, [database_url] * 4, names, [steps] * 4)
        check(database_url, [one for several in done for one in several])


def test_what_is_put_again_while_it_is_swept_leaves_no_vector_behind(
    own_store: TieredStore, database_url: str
) -> None:
    def put(name: int) -> None:
        for i in range(60):
            own_store.put(NAMESPACE, f"{name % 3}", {"text": f"{name} {i}"}, ttl=0.0001)

    def sweep() -> None:
        while not all(one.done() for one in putting):
            own_store.sweep_ttl()

    with ThreadPoolExecutor(WORKERS) as pool:
        putting = [pool.submit(put, name) for name in range(6)]
        for one in (*putting, *(pool.submit(sweep) for _ in range(4))):
            one.result()
    assert broken_for_good(database_url) == {}


def test_updates_of_a_key_get_strictly_later_times_even_if_the_clock_stands_still(
    database_url: str, index: dict[str, Any]
) -> None:
    times = 10
    with TieredStore.from_conn_string(database_url, index=index, clock=lambda: NOON) as store:
        store.setup()

        def write(name: int) -> bool:
            seen = [NOON - timedelta(microseconds=1)]
            for i in range(times):
                store.put(NAMESPACE, "one", {"text": f"{name} {i}"})
                item = store.get(NAMESPACE, "one")
                assert item is not None
                seen.append(item.updated_at)
            return all(earlier < later for earlier, later in pairwise(seen))

        with ThreadPoolExecutor(WORKERS) as pool:
            assert all(pool.map(write, range(WORKERS)))
        item = store.get(NAMESPACE, "one")
    assert item is not None
    assert item.created_at == NOON
    assert item.updated_at < NOON + timedelta(microseconds=WORKERS * times)


def test_a_batch_that_reads_what_another_writes_is_never_a_deadlock(
    database_url: str, index: dict[str, Any]
) -> None:
    seconds = count()

    def work(mine: str, other: str) -> None:
        for i in range(30):
            store.batch([GetOp(NAMESPACE, mine), PutOp(NAMESPACE, other, {"text": f"{i}"}, ttl=1)])
            store.batch([PutOp(NAMESPACE, key, {"text": f"{i}"}, ttl=1) for key in (mine, other)])
            store.batch([GetOp(NAMESPACE, other), PutOp(NAMESPACE, mine, None)])

    pairs = [("a", "b"), ("b", "a"), ("a", "c"), ("c", "b")] * 2
    with TieredStore.from_conn_string(
        database_url, index=index, clock=lambda: NOON + timedelta(seconds=10 * next(seconds))
    ) as store:
        store.setup()
        with ThreadPoolExecutor(len(pairs)) as pool:
            list(pool.map(lambda pair: work(*pair), pairs))
    assert broken_for_good(database_url) == {}


def test_counting_does_not_hold_up_a_deletion_and_leaves_no_counter_for_good(
    own_store: TieredStore, database_url: str
) -> None:
    own_store.batch([PutOp(NAMESPACE, key, {"text": key}) for key in ("first", "second")])
    own_store.batch([GetOp(NAMESPACE, key) for key in ("first", "second")])
    row = """INSERT INTO memory.usage (tenant, id)
             SELECT tenant, id FROM memory.memories WHERE key = 'first'"""
    with held(database_url, row) as conn, ThreadPoolExecutor() as pool:
        flush = pool.submit(own_store.stats)
        wait_until(lambda: blocked(database_url))
        pool.submit(own_store.delete, NAMESPACE, "second").result(timeout=10)
        conn.rollback()
        flush.result()
    assert values(database_url).keys() == {"first"}
    assert broken_for_good(database_url) == {}


# Setup


def at_once(work: Callable[[int], None], count: int = WORKERS) -> None:
    barrier = threading.Barrier(count)

    def meet_and_work(number: int) -> None:
        barrier.wait()
        work(number)

    with ThreadPoolExecutor(count) as pool:
        list(pool.map(meet_and_work, range(count)))


def test_sixteen_setups_of_an_empty_database_all_succeed(
    database_url: str, index: dict[str, Any]
) -> None:
    def set_up(number: int) -> None:
        with TieredStore.from_conn_string(
            database_url, index=index, pool_config={"max_size": 1}
        ) as store:
            store.setup()
            store.put(NAMESPACE, str(number), {"text": "set up"})

    at_once(set_up)
    assert len(values(database_url)) == WORKERS
    assert broken_rows(database_url) == {}


def test_setup_beside_running_traffic_disturbs_nobody(
    own_store: TieredStore, database_url: str
) -> None:
    prepare(own_store)
    with ThreadPoolExecutor(4) as pool:
        running = [pool.submit(one.run, own_store) for one in workers(30)[:4]]
        while not all(one.done() for one in running):
            own_store.setup()
        own_store.stats()
        check(database_url, [one.result() for one in running])


def test_two_index_builds_at_once_leave_one_valid_index(
    own_store: TieredStore, database_url: str, index: dict[str, Any]
) -> None:
    own_store.batch([PutOp(NAMESPACE, str(i), {"text": f"number {i}"}) for i in range(600)])

    def build(_: int) -> None:
        with TieredStore.from_conn_string(database_url, index=index, exact_limit=500) as other:
            other.optimize()

    at_once(build, 4)
    query = """SELECT i.indisvalid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
               WHERE c.relname LIKE 'vectors_hnsw%' AND c.relkind = 'i'"""
    with psycopg.connect(database_url) as conn:
        assert conn.execute(query).fetchall() == [(True,)]


# Processes that fork


def reads_right(store: TieredStore, key: str, times: int = 300) -> bool:
    items = [store.get(NAMESPACE, key) for _ in range(times)]
    return all(item is not None and item.value == {"key": key} for item in items)


def test_a_forked_process_gets_connections_of_its_own(own_store: TieredStore) -> None:
    for key in ("parent", "child"):
        own_store.put(NAMESPACE, key, {"key": key}, index=False)
    assert reads_right(own_store, "parent", 1)
    child = os.fork()
    if not child:
        try:
            os._exit(0 if reads_right(own_store, "child") else 1)
        finally:  # it is no second run of the tests, whatever was raised
            os._exit(1)
    right = reads_right(own_store, "parent")
    _, status = os.waitpid(child, 0)
    assert right
    assert os.waitstatus_to_exitcode(status) == 0
    assert reads_right(own_store, "parent", 1)


def test_what_was_read_before_a_fork_is_counted_once(
    own_store: TieredStore, database_url: str
) -> None:
    own_store.put(NAMESPACE, "k", {}, index=False)
    own_store.get(NAMESPACE, "k")
    child = os.fork()
    if not child:
        try:
            own_store.get(NAMESPACE, "k")
            own_store.close()
            os._exit(0)
        finally:  # it is no second run of the tests, whatever was raised
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    own_store.close()
    assert access_counts(database_url) == {"k": 2}
