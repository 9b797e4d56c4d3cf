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
    """An event of the side's: it has flown, or is to fly the others."""
    lifted: bool = False
    """Whether the flight that it began is a task of its own."""
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
        self._waiting: list[_Ticket] = []
        """Those in flight as well, until they have landed."""
        self._pilot: _Ticket | None = None
        """Whose turn it is."""
        self._flights: set[asyncio.Task[None]] = set()

    def join(self, together: Together) -> Work[None]:
        """Return once it is committed, or raise what went wrong with it."""
        mine = _Ticket(together, self._side.event())
        try:
            with self._lock:
                self._waiting.append(mine)
                if self._pilot is None:
                    self._pilot = mine
                    mine.turn.set()
            yield mine.turn.wait()
            if not mine.flown:
                yield from self._lift(mine) if self._side is AWAITED else self._take_off(mine)
        except BaseException:
            mine.gone = True
            if not mine.lifted:
                self._land(mine)
            raise
        if mine.error is not None:
            raise mine.error

    def drain(self) -> Work[None]:
        """Wait until no task is in flight; a thread that flies has a caller who waits for it."""
        while self._side is AWAITED and self._pilot is not None:
            yield asyncio.wait(self._flights) if self._flights else asyncio.sleep(0)

    def _lift(self, mine: _Ticket) -> Work[None]:
        """Take off in a task of its own, which goes on without a caller who is cancelled.

        Its first caller wakes with the others: whoever writes again at once flies with them again.
        """
        mine.lifted = True
        mine.turn.clear()
        flight = asyncio.create_task(adone(self._take_off(mine)))
        self._flights.add(flight)
        flight.add_done_callback(self._flights.discard)
        yield mine.turn.wait()

    def _take_off(self, pilot: _Ticket) -> Work[None]:
        """Fly everybody who waits, then give the turn to whoever waits longest."""
        with self._lock:
            passengers = [one for one in self._waiting if not one.gone][:MAX_PASSENGERS]
        try:
            yield from self._fly_all(passengers)
        except BaseException as error:  # an interrupt is its thread's own: the others go again
            pilot.error, pilot.flown = error, True
            raise
        else:
            for passenger in passengers:
                passenger.flown = True
        finally:
            self._land(pilot)

    def _land(self, pilot: _Ticket) -> None:
        """Wake who has flown, and give the turn on; done again, it does what is left to do.

        So whoever is interrupted at any point of it does it again on the way out.
        """
        with self._lock:
            for one in self._waiting:
                if one.flown:
                    one.turn.set()
            self._waiting = [one for one in self._waiting if not (one.flown or one.gone)]
            if self._pilot is pilot:
                self._pilot = self._waiting[0] if self._waiting else None
            if self._pilot is not None and not self._pilot.lifted:
                self._pilot.turn.set()

    def _fly_all(self, passengers: Sequence[_Ticket]) -> Work[None]:
        if not passengers:
            return
        try:
            yield from self._fly([passenger.together for passenger in passengers])
        except Exception as error:  # noqa: BLE001 - each passenger raises it where it waits
            if len(passengers) == 1 or isinstance(error, HOPELESS):
                for passenger in passengers:
                    passenger.error = error
            else:
                for passenger in passengers:
                    yield from self._fly_all([passenger])
