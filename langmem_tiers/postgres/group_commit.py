"""Calls that go together: writes share a commit, and on an event loop lookups share a statement.

A write that finds another one in flight waits for it, and then all that wait go as one
transaction. A single writer notices nothing; sixteen share the wait for the disk. The rules:

- whoever waits longest takes off next, with everybody who waits by then;
- if a flight fails, unless for want of a server, its passengers go again one by one, and each gets
  its own error; where nobody knows whether it has committed, all are told so;
- a caller who is cancelled or interrupted leaves the flight alone once it has taken off, and takes
  none that has not;
- a write that waits for a lock keeps no other from the disk: a flight of several has a fourth of a
  call's time, and if that is too little each goes alone, all at once; so does whoever has waited as
  long for a flight.

Sixteen tasks that ask for one memory each would take sixteen round trips of Python's time. A
lookup that finds another one on its way waits, and then all that wait share one statement. A
single caller notices nothing. Whoever has waited a fourth of its time for a statement asks alone:
the one before it may be on a connection that says nothing.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from langmem_tiers.core import errors
from langmem_tiers.core.threads import Work, run_async
from langmem_tiers.postgres.driver import AWAITED, CallMode, Deadline
from langmem_tiers.postgres.flow import GroupWrite, Lookup, Rows

MAX_MEMBERS = 256
"""Callers in one transaction; more only lengthen its locks."""

SHORT_OF_TIME: tuple[errors.ErrorCode, ...] = ("query_timeout", "pool_exhausted")
"""What may not befall a passenger alone: it has more time than the flight of several."""

ANSWER_SECONDS = 5.0
"""The time after its deadline that a caller waits to hear of the flight it is on."""


@dataclass(slots=True, eq=False)
class _Member:
    together: GroupWrite
    turn: Any
    """An event of the mode's: the ticket has flown, or is to fly the others, or to fly alone."""
    deadline: Deadline
    lifted: bool = False
    """Whether the flight that it began is a task of its own."""
    flying: bool = False
    flown: bool = False
    alone: bool = False
    """True if it flies by itself, while the others fly too."""
    gone: bool = False
    """Whether its caller waits no longer: it goes on no further flight."""
    error: BaseException | None = None


class GroupCommit:
    """Writes of several callers, one transaction after another."""

    def __init__(
        self, fly: Callable[[Sequence[GroupWrite], Deadline], Work[None]], mode: CallMode
    ) -> None:
        """Set up; `fly` does all writes in one transaction by a deadline, or none."""
        self._fly = fly
        self._mode = mode
        self._lock = threading.Lock()
        self._waiting: list[_Member] = []
        """Those in flight as well, until they have landed."""
        self._pilot: _Member | None = None
        """Whose turn it is."""
        self._flights: set[asyncio.Task[None]] = set()

    def join(self, together: GroupWrite, deadline: Deadline) -> Work[None]:
        """Return once it is committed, or raise what went wrong with it."""
        mine = _Member(together, self._mode.event(), deadline)
        try:
            with self._lock:
                self._waiting.append(mine)
                if self._pilot is None:
                    self._pilot = mine
                    mine.turn.set()
            yield from self._come_to_turn(mine)
            if not (mine.flown or mine.alone):
                yield from self._lift(mine) if self._mode is AWAITED else self._take_off(mine)
            if mine.alone:
                yield from self._fly([together], deadline)
        except BaseException:
            mine.gone = True
            if not mine.lifted:
                self._land(mine)
            raise
        if mine.error is not None:
            raise mine.error

    def _come_to_turn(self, mine: _Member) -> Work[None]:
        """Wait until a ticket has flown, is to fly the others, or goes alone."""
        if (yield self._mode.wait_for_event(mine.turn, mine.deadline.first_share)):
            return
        with self._lock:
            if not mine.flying:
                mine.alone = self._pilot is not mine
                self._waiting = [ticket for ticket in self._waiting if not ticket.alone]
                return
        yield from self._landed(mine)

    def _landed(self, mine: _Member) -> Work[None]:
        """Wait for the flight of a ticket, which has a deadline itself."""
        left = mine.deadline.left
        if not (
            yield self._mode.wait_for_event(
                mine.turn, None if left is None else left + ANSWER_SECONDS
            )
        ):
            raise errors.OutcomeUnknownError(
                "the writes that this one went with had no answer in time: it may be there or not; "
                "read it, then repeat the call if it is not"
            )

    def drain(self) -> Work[None]:
        """Wait until no task is in flight; a thread that flies has a caller who waits for it."""
        while self._mode is AWAITED and self._pilot is not None:
            yield asyncio.wait(self._flights) if self._flights else asyncio.sleep(0)

    def _lift(self, mine: _Member) -> Work[None]:
        """Take off in a task of its own, which goes on without a caller who is cancelled.

        Its first caller wakes with the others: whoever writes again at once flies with them again.
        """
        mine.lifted = True
        mine.turn.clear()
        flight = asyncio.create_task(run_async(self._take_off(mine)))
        self._flights.add(flight)
        flight.add_done_callback(self._flights.discard)
        yield from self._landed(mine)

    def _take_off(self, pilot: _Member) -> Work[None]:
        """Fly everybody who waits, then give the turn to whoever waits longest."""
        with self._lock:
            passengers = [ticket for ticket in self._waiting if not ticket.gone][:MAX_MEMBERS]
            for passenger in passengers:
                passenger.flying = True
        try:
            yield from self._fly_all(passengers)
        except BaseException as error:  # an interrupt is its thread's own: the others go again
            pilot.error, pilot.flown = error, True
            for passenger in passengers:
                passenger.flying = False
            raise
        else:
            for passenger in passengers:
                passenger.flown = not passenger.alone
        finally:
            self._land(pilot)

    def _land(self, pilot: _Member) -> None:
        """Wake who has flown, and give the turn on; done again, it does what is left to do.

        So whoever is interrupted at any point of it does it again on the way out.
        """
        with self._lock:
            for ticket in self._waiting:
                if ticket.flown or ticket.alone:
                    ticket.turn.set()
            self._waiting = [
                ticket
                for ticket in self._waiting
                if not (ticket.flown or ticket.alone or ticket.gone)
            ]
            if self._pilot is pilot:
                self._pilot = self._waiting[0] if self._waiting else None
            if self._pilot is not None and not self._pilot.lifted:
                self._pilot.turn.set()

    def _fly_all(self, passengers: Sequence[_Member]) -> Work[None]:
        if not passengers:
            return
        limit = _group_deadline(passengers)
        try:
            yield from self._fly([passenger.together for passenger in passengers], limit)
        except Exception as error:  # noqa: BLE001 - each passenger raises it where it waits
            shared = len(passengers) > 1
            if shared and errors.has_code(error, *SHORT_OF_TIME):
                for passenger in passengers:
                    passenger.alone = True
            elif not shared or is_hopeless(error):
                for passenger in passengers:
                    passenger.error = error
            else:
                for passenger in passengers:
                    yield from self._fly_again(passenger, limit)

    def _fly_again(self, passenger: _Member, limit: Deadline) -> Work[None]:
        """Fly one passenger of a failed flight; alone if there is no time left for all."""
        if limit.passed:
            passenger.alone = True
            return
        try:
            yield from self._fly([passenger.together], limit)
        except Exception as error:  # noqa: BLE001 - its waiting caller raises it
            if errors.has_code(error, *SHORT_OF_TIME):
                passenger.alone = True
            else:
                passenger.error = error


def is_hopeless(error: Exception) -> bool:
    """Whether an error would befall each passenger alone as well."""
    gone = isinstance(error, errors.DatabaseUnavailableError)
    return gone or errors.has_code(error, "embedded_server")


def _group_deadline(passengers: Sequence[_Member]) -> Deadline:
    """Return the deadline of a flight: its only passenger's, or a part of the shortest one."""
    if len(passengers) == 1:
        return passengers[0].deadline
    parts = [passenger.deadline.first_share for passenger in passengers]
    return Deadline(min((part for part in parts if part is not None), default=None))


MAX_LOOKUPS = 256
"""Keys in one statement."""

_WATCH_SECONDS = 0.02
"""How often the lookups are asked whether they wait for too long: our own choice. A timer for each
would cost a tenth of a lookup."""


class _WaitingLookup(NamedTuple):
    """A lookup that waits, and where its rows will be; None tells it to ask alone."""

    lookup: Lookup
    found: asyncio.Future[Rows | None]
    deadline: Deadline


class Lookups:
    """Shares statements between the lookups of one event loop's tasks."""

    def __init__(
        self, read: Callable[[Sequence[Lookup], Deadline | None], Awaitable[Rows]]
    ) -> None:
        """Set up; `read` answers the rows of keys by a deadline; for None it has one of its own."""
        self._read = read
        self._waiting: list[_WaitingLookup] = []
        self._flying: list[_WaitingLookup] = []
        self._watched = False
        self._busy = False
        self._flight: asyncio.Task[None] | None = None

    async def find(self, lookup: Lookup, deadline: Deadline) -> Rows:
        """Return the rows of one key.

        Raises:
            DatabaseError (query_timeout): if they are not there by the deadline.
        """
        if self._busy:
            return await self._wait(lookup, deadline)
        self._busy = True
        try:
            return await self._read([lookup], deadline)
        finally:
            self._go_on()

    async def _wait(self, lookup: Lookup, deadline: Deadline) -> Rows:
        """Wait for the next statement to bring the rows; ask alone where it does not set out."""
        answer: asyncio.Future[Rows | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(_WaitingLookup(lookup, answer, deadline))
        if not self._watched:
            self._watch()
        rows = await answer
        return await self._read([lookup], deadline) if rows is None else rows

    def _watch(self) -> None:
        """Let who has waited for too long ask alone, and whose time has passed give up."""
        late = [passenger for passenger in self._waiting if passenger.deadline.first_share_passed]
        for passenger in late:
            self._waiting.remove(passenger)
            _set_rows(passenger, None)
        for passenger in self._flying:
            if passenger.deadline.passed and not passenger.found.done():
                error = passenger.deadline.timeout_error("reads that came before it had no answer")
                passenger.found.set_exception(error)
        self._watched = bool(self._waiting or self._flying)
        if self._watched:
            asyncio.get_running_loop().call_later(_WATCH_SECONDS, self._watch)

    async def drain(self) -> None:
        """Wait until nothing is on its way."""
        while self._flight is not None and not self._flight.done():
            await asyncio.wait({self._flight})

    def _go_on(self) -> None:
        """Whoever waits goes next, in a task of its own: no caller waits for others' rows."""
        if self._waiting:
            self._flight = asyncio.create_task(self._fly())
        else:
            self._busy = False

    async def _fly(self) -> None:
        flying, self._waiting = self._waiting[:MAX_LOOKUPS], self._waiting[MAX_LOOKUPS:]
        self._flying = flying
        try:
            rows = await self._read([passenger.lookup for passenger in flying], None)
        except BaseException as error:
            for passenger in flying:
                if not passenger.found.done():
                    passenger.found.set_exception(error)
            if not isinstance(error, Exception):
                raise
        else:
            _distribute(flying, rows)
        finally:
            self._flying = []
            self._go_on()


def _distribute(flying: Sequence[_WaitingLookup], rows: Rows) -> None:
    """Give everybody a row of their own, also those who asked for the same key."""
    by_key: dict[Lookup, Rows] = {}
    for row in rows:
        by_key.setdefault(Lookup(*row[:3]), []).append(row)
    for passenger in flying:
        mine = by_key.get(passenger.lookup)
        _set_rows(passenger, [mine.pop()] if mine else [])


def _set_rows(passenger: _WaitingLookup, rows: Rows | None) -> None:
    if not passenger.found.done():
        passenger.found.set_result(rows)
