"""Writes that share a transaction, reads that share a statement: who goes with whom."""

from __future__ import annotations

import asyncio
import itertools
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import Any

import pytest

from langmem_tiers.core.concurrency import Work, run_async, run_sync
from langmem_tiers.core.errors import (
    DatabaseError,
    DatabaseUnavailableError,
    ErrorCode,
    OutcomeUnknownError,
)
from langmem_tiers.postgres import driver, group_commit
from langmem_tiers.postgres.driver import AWAITED, BLOCKING, NEVER, Deadline
from langmem_tiers.postgres.flow import GroupWrite, Lookup, Rows
from langmem_tiers.postgres.group_commit import GroupCommit, Lookups


def wanted(item: object) -> GroupWrite:
    return GroupWrite(item, iter)  # type: ignore[arg-type]


class Airline:
    """Notes who flew with whom; the first flight waits until the others have come."""

    def __init__(self, refuses: Callable[[list[Any]], BaseException | None]) -> None:
        self.flights: list[list[Any]] = []
        self.others_wait = threading.Event()
        self._refuses = refuses

    def fly(self, together: Sequence[GroupWrite], _: Deadline) -> Work[None]:
        yield from ()
        items = [one.item for one in together]
        self.flights.append(items)
        if len(self.flights) == 1:
            self.others_wait.wait(10)
        error = self._refuses(items)
        if error is not None:
            raise error


def join_all(airline: Airline, count: int) -> list[type]:
    """What each of so many threads was told."""
    group = GroupCommit(airline.fly, BLOCKING)

    def join(item: object) -> type:
        try:
            run_sync(group.join(wanted(item), NEVER))
        except DatabaseError as error:
            return type(error)
        return type(None)

    with ThreadPoolExecutor(count) as pool:
        first = pool.submit(join, 0)
        while not airline.flights:
            threading.Event().wait(0.001)
        rest = [pool.submit(join, item) for item in range(1, count)]
        while len(group._waiting) < count:
            threading.Event().wait(0.001)
        airline.others_wait.set()
        return [one.result(10) for one in (first, *rest)]


def test_who_comes_during_a_flight_goes_with_the_next_one_together() -> None:
    airline = Airline(lambda _items: None)
    assert join_all(airline, 8) == [type(None)] * 8
    assert [sorted(flight) for flight in airline.flights] == [[0], [1, 2, 3, 4, 5, 6, 7]]


def test_a_bad_item_fails_alone_and_the_others_go_through() -> None:
    airline = Airline(lambda items: DatabaseError("bad") if 3 in items else None)
    none = type(None)
    assert join_all(airline, 6) == [none, none, none, DatabaseError, none, none]


@pytest.mark.parametrize("kind", [OutcomeUnknownError, DatabaseUnavailableError])
def test_what_would_befall_each_alone_reaches_everybody_and_nobody_goes_again(
    kind: type[DatabaseError],
) -> None:
    airline = Airline(lambda items: kind("lost") if items != [0] else None)
    assert join_all(airline, 5) == [type(None), *[kind] * 4]
    assert len(airline.flights) == 2


@pytest.mark.parametrize("code", ["pool_exhausted", "query_timeout"])
def test_who_had_too_little_time_together_goes_alone(code: ErrorCode) -> None:
    airline = Airline(lambda items: DatabaseError("late", code=code) if len(items) > 1 else None)
    assert join_all(airline, 5) == [type(None)] * 5
    assert sorted(map(len, airline.flights)) == [1, 1, 1, 1, 1, 4]


@pytest.mark.parametrize("code", ["pool_exhausted", "query_timeout"])
def test_who_had_too_little_time_again_goes_alone(code: ErrorCode) -> None:
    late = [1, 2]

    def refuses(items: list[Any]) -> BaseException | None:
        if len(items) > 1:
            return DatabaseError("bad")
        if items[0] not in late:
            return None
        late.remove(items[0])
        return DatabaseError("late", code=code)

    assert join_all(Airline(refuses), 4) == [type(None)] * 4


def test_an_interrupt_stays_with_its_thread_and_the_others_go_again() -> None:
    interrupted: list[list[Any]] = []

    def refuses(items: list[Any]) -> BaseException | None:
        if len(items) > 1 and not interrupted:
            interrupted.append(items)
            return KeyboardInterrupt()
        return None

    airline = Airline(refuses)
    with pytest.raises(KeyboardInterrupt):
        join_all(airline, 4)
    flown = {item for flight in airline.flights[2:] for item in flight}
    assert flown == set(interrupted[0][1:])


def interrupted_at(point: int, call: Callable[[], object]) -> bool:
    """Interrupt a call at the so-manieth point where Python hears of signals; whether it came."""
    points = itertools.count()
    ours = (group_commit.__file__, driver.__file__)

    def profile(frame: FrameType, event: str, _: object) -> None:
        heard = event in ("call", "c_return") and frame.f_code.co_filename in ours
        if heard and next(points) == point:
            raise KeyboardInterrupt

    sys.setprofile(profile)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.setprofile(None)
    return False


class Noting:
    """Writes that blocking callers share, and what has flown."""

    def __init__(self) -> None:
        self.flown: set[object] = set()
        self._group = GroupCommit(self._fly, BLOCKING)

    def join(self, item: int) -> None:
        run_sync(self._group.join(wanted(item), NEVER))

    def _fly(self, together: Sequence[GroupWrite], _: Deadline) -> Work[None]:
        yield from ()
        self.flown |= {one.item for one in together}


@pytest.mark.parametrize("_", range(10))  # who flies whom differs
def test_wherever_a_caller_is_interrupted_nobody_else_waits_for_ever(_: int) -> None:
    with ThreadPoolExecutor(2) as pool:
        for point in itertools.count():
            noting = Noting()
            others = [pool.submit(noting.join, item) for item in (1, 2)]
            was = interrupted_at(point, lambda noting=noting: noting.join(0))  # type: ignore[misc]
            later = pool.submit(noting.join, 3)
            for one in (*others, later):
                one.result(10)
            assert noting.flown >= {1, 2, 3}
            if not was:
                assert point > 15
                return


class Awaited:
    """The same for tasks; each flight takes its time."""

    def __init__(self, seconds: float) -> None:
        self.flights: list[list[Any]] = []
        self.group = GroupCommit(self.fly, AWAITED)
        self._seconds = seconds

    def fly(self, together: Sequence[GroupWrite], _: Deadline) -> Work[None]:
        self.flights.append([one.item for one in together])
        yield asyncio.sleep(self._seconds)

    async def write(self, item: int, times: int = 1) -> None:
        for _ in range(times):
            await run_async(self.group.join(wanted(item), NEVER))


async def test_tasks_share_flights_again_and_again_and_a_cancelled_caller_spoils_none() -> None:
    airline = Awaited(0)
    tasks = [asyncio.create_task(airline.write(item, 3)) for item in range(5)]
    await asyncio.sleep(0)
    tasks[2].cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(one) for one in results].count(asyncio.CancelledError) == 1
    assert airline.flights == [[0, 1, 2, 3, 4], [0, 1, 3, 4], [0, 1, 3, 4]]
    await run_async(airline.group.drain())


@pytest.mark.parametrize("with_callers", [False, True])
async def test_a_flight_that_is_cancelled_is_its_first_callers_and_the_others_go_again(
    *, with_callers: bool
) -> None:
    airline = Awaited(0.01)
    tasks = [asyncio.create_task(airline.write(item)) for item in range(3)]
    await asyncio.sleep(0.005)
    (flight,) = airline.group._tasks
    for one in (*tasks, flight) if with_callers else (flight,):
        one.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    cancelled = [isinstance(one, asyncio.CancelledError) for one in results]
    assert cancelled == [True, with_callers, with_callers]
    assert airline.flights == ([[0, 1, 2]] if with_callers else [[0, 1, 2], [1, 2]])
    await asyncio.wait_for(run_async(airline.group.drain()), 10)


# Reads that share a statement


def lookups_of(asked: list[list[Lookup]], fails_with_several: list[bool]) -> Lookups:
    async def fetch(lookups: Sequence[Lookup], _: Deadline | None) -> Rows:
        asked.append(list(lookups))
        await asyncio.sleep(0.001)
        if fails_with_several and len(lookups) > 1:
            raise DatabaseError("refused")
        return [(*one, {"value": one.key}) for one in lookups if one.key != "absent"]

    return Lookups(fetch)


def named(key: str) -> Lookup:
    return Lookup("t", "", key)


async def test_tasks_that_wait_share_one_statement_and_each_gets_its_own_row() -> None:
    asked: list[list[Lookup]] = []
    lookups = lookups_of(asked, [])
    found = await asyncio.gather(
        *(lookups.find(named(key), NEVER) for key in "abb"), lookups.find(named("absent"), NEVER)
    )
    assert [[one[2] for one in rows] for rows in found] == [["a"], ["b"], ["b"], []]
    assert found[1][0][3] is not found[2][0][3]
    assert [len(statement) for statement in asked] == [1, 3]
    await lookups.drain()


async def test_an_error_reaches_everybody_who_waited_and_nobody_after() -> None:
    failing = [True]
    lookups = lookups_of([], failing)
    results = await asyncio.gather(
        *(lookups.find(named(key), NEVER) for key in "abcd"), return_exceptions=True
    )
    assert [type(one) for one in results] == [list, DatabaseError, DatabaseError, DatabaseError]
    failing.clear()
    assert await lookups.find(named("x"), NEVER)


async def test_a_cancelled_caller_leaves_the_others_their_rows() -> None:
    lookups = lookups_of([], [])
    tasks = [asyncio.create_task(lookups.find(named(key), NEVER)) for key in "abcd"]
    await asyncio.sleep(0)
    tasks[0].cancel()
    tasks[2].cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [isinstance(one, asyncio.CancelledError) for one in results] == [True, False] * 2
    assert results[1]
    assert results[3]
    await lookups.drain()


async def test_who_waits_behind_a_silent_statement_asks_alone() -> None:
    silent = asyncio.Event()

    async def fetch(lookups: Sequence[Lookup], _: Deadline | None) -> Rows:
        if lookups[0].key == "silent":
            await silent.wait()
        return [(*one, {"value": one.key}) for one in lookups]

    lookups = Lookups(fetch)
    first = asyncio.create_task(lookups.find(named("silent"), NEVER))
    await asyncio.sleep(0)
    async with asyncio.timeout(30):
        several = (lookups.find(named(key), Deadline(1)) for key in "ab")
        assert [rows[0][2] for rows in await asyncio.gather(*several)] == ["a", "b"]
    assert not first.done()
    silent.set()
    assert (await first)[0][2] == "silent"
    assert (await lookups.find(named("c"), NEVER))[0][2] == "c"
    await lookups.drain()
