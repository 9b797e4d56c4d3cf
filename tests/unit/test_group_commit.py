from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from langmem_tiers.core.errors import DatabaseError, DatabaseUnavailableError, OutcomeUnknownError
from langmem_tiers.postgres.flow import Flow, Together
from langmem_tiers.postgres.group_commit import GroupCommit
from langmem_tiers.postgres.work import AWAITED, BLOCKING, Work, adone, done


def nothing(items: Sequence[Any]) -> Flow[None]:
    return iter(items)  # type: ignore[return-value]


def wanted(item: object) -> Together:
    return Together(item, nothing)


class Airline:
    """Notes who flew with whom; the first flight waits until the others have come."""

    def __init__(self, refuses: Callable[[list[Any]], BaseException | None]) -> None:
        self.flights: list[list[Any]] = []
        self.others_wait = threading.Event()
        self._refuses = refuses

    def fly(self, together: Sequence[Together]) -> Work[None]:
        yield from ()
        items = [one.item for one in together]
        if not self.flights:
            self.flights.append(items)
            self.others_wait.wait(10)
        else:
            self.flights.append(items)
        error = self._refuses(items)
        if error is not None:
            raise error


def join_all(airline: Airline, items: Sequence[Any]) -> list[BaseException | None]:
    group = GroupCommit(airline.fly, BLOCKING)

    def join(item: object) -> BaseException | None:
        try:
            done(group.join(wanted(item)))
        except DatabaseError as error:
            return error
        return None

    with ThreadPoolExecutor(len(items)) as pool:
        first = pool.submit(join, items[0])
        while not airline.flights:
            threading.Event().wait(0.001)
        rest = [pool.submit(join, item) for item in items[1:]]
        while len(group._waiting) < len(items) - 1:
            threading.Event().wait(0.001)
        airline.others_wait.set()
        return [one.result(10) for one in (first, *rest)]


def test_who_comes_during_a_flight_goes_with_the_next_one_together() -> None:
    airline = Airline(lambda _items: None)
    assert join_all(airline, range(8)) == [None] * 8
    assert airline.flights[0] == [0]
    assert sorted(airline.flights[1]) == [1, 2, 3, 4, 5, 6, 7]
    assert len(airline.flights) == 2


def test_a_bad_item_fails_alone_and_the_others_go_through() -> None:
    airline = Airline(lambda items: DatabaseError("bad") if 3 in items else None)
    results = join_all(airline, range(6))
    assert [type(one) for one in results] == [
        DatabaseError if item == 3 else type(None) for item in range(6)
    ]


@pytest.mark.parametrize("kind", [OutcomeUnknownError, DatabaseUnavailableError])
def test_what_would_befall_each_alone_reaches_everybody_and_nobody_goes_again(
    kind: type[DatabaseError],
) -> None:
    airline = Airline(lambda items: kind("lost") if items != [0] else None)
    results = join_all(airline, range(5))
    assert [type(one) for one in results] == [type(None), *[kind] * 4]
    assert len(airline.flights) == 2


def test_an_interrupt_stays_with_its_thread_and_the_others_go_again() -> None:
    interrupted: list[list[Any]] = []

    def refuses(items: list[Any]) -> BaseException | None:
        if len(items) > 1 and not interrupted:
            interrupted.append(items)
            return KeyboardInterrupt()
        return None

    airline = Airline(refuses)
    with pytest.raises(KeyboardInterrupt):
        join_all(airline, range(4))
    flown = {item for flight in airline.flights[2:] for item in flight}
    assert flown == set(interrupted[0][1:])


async def test_tasks_share_flights_again_and_again_and_a_cancelled_caller_spoils_none() -> None:
    flights: list[list[Any]] = []

    def fly(together: Sequence[Together]) -> Work[None]:
        flights.append([one.item for one in together])
        yield asyncio.sleep(0)

    group = GroupCommit(fly, AWAITED)

    async def write(item: int) -> None:
        for _ in range(3):
            await adone(group.join(wanted(item)))

    tasks = [asyncio.create_task(write(item)) for item in range(5)]
    await asyncio.sleep(0)
    tasks[2].cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(one) for one in results].count(asyncio.CancelledError) == 1
    assert flights == [[0, 1, 2, 3, 4], [0, 1, 3, 4], [0, 1, 3, 4]]
    await adone(group.drain())


async def test_a_flight_that_is_cancelled_is_its_first_callers_and_the_others_go_again() -> None:
    flights: list[list[Any]] = []

    def fly(together: Sequence[Together]) -> Work[None]:
        flights.append([one.item for one in together])
        yield asyncio.sleep(0.01)

    group = GroupCommit(fly, AWAITED)
    tasks = [asyncio.create_task(adone(group.join(wanted(item)))) for item in range(3)]
    await asyncio.sleep(0.005)
    (flight,) = group._flights
    flight.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(one) for one in results] == [asyncio.CancelledError, type(None), type(None)]
    assert flights == [[0, 1, 2], [1, 2]]
    await adone(group.drain())


async def test_a_flight_that_is_cancelled_with_its_callers_leaves_nothing_in_flight() -> None:
    flights: list[list[Any]] = []

    def fly(together: Sequence[Together]) -> Work[None]:
        flights.append([one.item for one in together])
        yield asyncio.sleep(60)

    group = GroupCommit(fly, AWAITED)
    tasks = [asyncio.create_task(adone(group.join(wanted(item)))) for item in range(3)]
    await asyncio.sleep(0.005)
    for one in (*tasks, *group._flights):
        one.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)

    assert {type(one) for one in results} == {asyncio.CancelledError}
    await asyncio.wait_for(adone(group.drain()), 10)
    assert flights == [[0, 1, 2]]
