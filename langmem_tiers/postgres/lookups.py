"""Lookups by key that wait for each other go together, on an event loop.

Sixteen tasks that ask for one memory each would take sixteen round trips of Python's time. A
lookup that finds another one on its way waits, and then all that wait share one statement. A
single caller notices nothing. Whoever has waited a fourth of its time for a statement asks alone:
the one before it may be on a connection that says nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from langmem_tiers.postgres.deadline import Deadline
from langmem_tiers.postgres.flow import Lookup, Rows

MAX_LOOKUPS = 256
"""Keys in one statement."""

_TICK_SECONDS = 0.02
"""How often the lookups are asked whether they wait for too long: our own choice. A timer for each
would cost a tenth of a lookup."""


class _Passenger(NamedTuple):
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
        self._waiting: list[_Passenger] = []
        self._flying: list[_Passenger] = []
        self._watched = False
        self._busy = False
        self._flight: asyncio.Task[None] | None = None

    async def find(self, lookup: Lookup, deadline: Deadline) -> Rows:
        """Return the rows of one key.

        Raises:
            QueryTimeoutError: if they are not there by the deadline.
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
        found: asyncio.Future[Rows | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Passenger(lookup, found, deadline))
        if not self._watched:
            self._watch()
        rows = await found
        return await self._read([lookup], deadline) if rows is None else rows

    def _watch(self) -> None:
        """Let who has waited for too long ask alone, and whose time has passed give up."""
        for one in [one for one in self._waiting if one.deadline.part_passed]:
            self._waiting.remove(one)
            _answer(one, None)
        for one in self._flying:
            if one.deadline.passed and not one.found.done():
                late = one.deadline.late("reads that came before it had no answer")
                one.found.set_exception(late)
        self._watched = bool(self._waiting or self._flying)
        if self._watched:
            asyncio.get_running_loop().call_later(_TICK_SECONDS, self._watch)

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
            rows = await self._read([one.lookup for one in flying], None)
        except BaseException as error:
            for one in flying:
                if not one.found.done():
                    one.found.set_exception(error)
            if not isinstance(error, Exception):
                raise
        else:
            _hand_out(flying, rows)
        finally:
            self._flying = []
            self._go_on()


def _hand_out(flying: Sequence[_Passenger], rows: Rows) -> None:
    """Give everybody a row of their own, also those who asked for the same key."""
    by_key: dict[Lookup, Rows] = {}
    for row in rows:
        by_key.setdefault(Lookup(*row[:3]), []).append(row)
    for one in flying:
        mine = by_key.get(one.lookup)
        _answer(one, [mine.pop()] if mine else [])


def _answer(one: _Passenger, rows: Rows | None) -> None:
    if not one.found.done():
        one.found.set_result(rows)
