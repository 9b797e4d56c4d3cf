"""Generated from group_commit.py by `make sync`: what blocks. Change that file, not this one."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from langmem_tiers.core.errors import (
    DatabaseUnavailableError,
    EmbeddedServerError,
    PoolExhaustedError,
)
from langmem_tiers.postgres.flow import Together

MAX_PASSENGERS = 256
"""Callers in one transaction; more only lengthen its locks."""

HOPELESS = (DatabaseUnavailableError, EmbeddedServerError, PoolExhaustedError)
"""What would befall each passenger alone as well."""


@dataclass(slots=True, eq=False)
class _Ticket:
    together: Together
    turn: threading.Event = field(default_factory=threading.Event)
    flown: bool = False
    gone: bool = False
    """Whether its caller waits no longer: it goes on no further flight."""
    error: BaseException | None = None


class GroupCommit:
    """Writes of several callers, one transaction after another."""

    def __init__(self, fly: Callable[[Sequence[Together]], None]) -> None:
        """`fly` does all of them in one transaction, or none."""
        self._fly = fly
        self._lock = threading.Lock()
        self._waiting: deque[_Ticket] = deque()
        self._in_flight = False

    def join(self, together: Together) -> None:
        """Return once it is committed, or raise what went wrong with it."""
        mine = _Ticket(together)
        with self._lock:
            self._waiting.append(mine)
            if not self._in_flight:
                self._in_flight = True
                mine.turn.set()
        try:
            mine.turn.wait()
        except BaseException:
            self._leave(mine)
            raise
        if not mine.flown:
            self._take_off()
        if mine.error is not None:
            raise mine.error

    def _take_off(self) -> None:
        """Fly everybody who waits, then give the turn to whoever waits longest."""
        with self._lock:
            count = min(len(self._waiting), MAX_PASSENGERS)
            passengers = [self._waiting.popleft() for _ in range(count)]
        try:
            self._fly_all(passengers)
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

    def _fly_all(self, passengers: Sequence[_Ticket]) -> None:
        try:
            self._fly([passenger.together for passenger in passengers])
        except Exception as error:  # noqa: BLE001 - each passenger raises it where it waits
            if len(passengers) == 1 or isinstance(error, HOPELESS):
                for passenger in passengers:
                    passenger.error = error
            else:
                for passenger in passengers:
                    self._fly_all([passenger])
