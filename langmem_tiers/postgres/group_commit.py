"""Group commit: writes that wait for the same disk go there together.

A write that finds another one in flight waits for it, and then all that wait go as one
transaction. A single writer notices nothing; sixteen share the wait for the disk. The rules:

- whoever waits longest takes off next, with everybody who waits by then;
- if a flight fails, unless for want of a server or a connection, its passengers go again one by
  one, and each gets its own error; where nobody knows whether it has committed, all are told so;
- a caller who is cancelled or interrupted leaves the flight alone, and goes on none if it has not
  taken off yet.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from langmem_tiers.core.errors import (
    DatabaseUnavailableError,
    EmbeddedServerError,
    PoolExhaustedError,
)
from langmem_tiers.core.threads import Work, adone
from langmem_tiers.postgres.flow import Together
from langmem_tiers.postgres.work import AWAITED, Side

MAX_PASSENGERS = 256
"""Callers in one transaction; more only lengthen its locks."""

HOPELESS = (DatabaseUnavailableError, EmbeddedServerError, PoolExhaustedError)
"""What would befall each passenger alone as well."""


@dataclass(slots=True, eq=False)
class _Ticket:
    together: Together
    turn: Any
    """An event of the side's."""
    flown: bool = False
    gone: bool = False
    """Whether its caller waits no longer: it goes on no further flight."""
    error: BaseException | None = None


class GroupCommit:
    """Writes of several callers, one transaction after another."""

    def __init__(self, fly: Callable[[Sequence[Together]], Work[None]], side: Side) -> None:
        """`fly` does all of them in one transaction, or none."""
        self._fly = fly
        self._side = side
        self._lock = threading.Lock()
        self._waiting: deque[_Ticket] = deque()
        self._in_flight = False
        self._flights: set[asyncio.Task[None]] = set()

    def join(self, together: Together) -> Work[None]:
        """Return once it is committed, or raise what went wrong with it."""
        mine = _Ticket(together, self._side.event())
        with self._lock:
            self._waiting.append(mine)
            if not self._in_flight:
                self._in_flight = True
                mine.turn.set()
        try:
            yield mine.turn.wait()
        except BaseException:
            self._leave(mine)
            raise
        if not mine.flown:
            yield from self._lift(mine) if self._side is AWAITED else self._take_off()
        if mine.error is not None:
            raise mine.error

    def drain(self) -> Work[None]:
        """Wait until no task is in flight; a thread that flies has a caller who waits for it."""
        while self._side is AWAITED and self._in_flight:
            yield asyncio.wait(self._flights) if self._flights else asyncio.sleep(0)

    def _lift(self, mine: _Ticket) -> Work[None]:
        """Take off in a task of its own, which goes on without a caller who is cancelled.

        Its first caller wakes with the others: whoever writes again at once flies with them again.
        """
        mine.turn.clear()
        flight = asyncio.create_task(adone(self._take_off()))
        self._flights.add(flight)
        flight.add_done_callback(self._flights.discard)
        try:
            yield mine.turn.wait()
        except BaseException:
            mine.gone = True
            raise

    def _take_off(self) -> Work[None]:
        """Fly everybody who waits, then give the turn to whoever waits longest."""
        with self._lock:
            count = min(len(self._waiting), MAX_PASSENGERS)
            passengers = [self._waiting.popleft() for _ in range(count)]
        try:
            yield from self._fly_all(passengers)
        except BaseException as error:  # an interrupt is its thread's own: the others go again
            with self._lock:
                again = [one for one in passengers[1:] if not one.gone]
                self._waiting.extendleft(reversed(again))
            passengers = passengers[:1]
            passengers[0].error = error
            raise
        finally:
            self._land(passengers)

    def _leave(self, mine: _Ticket) -> None:
        """Stop waiting; a turn that has come already goes to whoever waits next."""
        with self._lock:
            mine.gone = True
            if mine in self._waiting:
                self._waiting.remove(mine)
        if mine.turn.is_set() and not mine.flown:
            self._land(())

    def _land(self, passengers: Sequence[_Ticket]) -> None:
        with self._lock:
            self._in_flight = bool(self._waiting)
            heir = self._waiting[0] if self._waiting else None
        for passenger in passengers:
            passenger.flown = True
            passenger.turn.set()
        if heir is not None:
            heir.turn.set()

    def _fly_all(self, passengers: Sequence[_Ticket]) -> Work[None]:
        try:
            yield from self._fly([passenger.together for passenger in passengers])
        except Exception as error:  # noqa: BLE001 - each passenger raises it where it waits
            if len(passengers) == 1 or isinstance(error, HOPELESS):
                for passenger in passengers:
                    passenger.error = error
            else:
                for passenger in passengers:
                    yield from self._fly_all([passenger])
