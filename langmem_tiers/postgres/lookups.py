"""Lookups by key that wait for each other go together, on an event loop.

Sixteen tasks that ask for one memory each would take sixteen round trips of Python's time. A
lookup that finds another one on its way waits, and then all that wait share one statement. A
single caller notices nothing. Whoever has waited a fourth of its time for a statement asks alone:
the one before it may be on a connection that says nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from langmem_tiers.postgres.deadline import Deadline
from langmem_tiers.postgres.flow import Lookup, Rows

MAX_LOOKUPS = 256
"""Keys in one statement."""


class Lookups:
    """Shares statements between the lookups of one event loop's tasks."""

    def __init__(
        self, read: Callable[[Sequence[Lookup], Deadline | None], Awaitable[Rows]]
    ) -> None:
        """Set up; `read` answers the rows of keys by a deadline; for None it has one of its own."""
        self._read = read
        self._waiting: list[tuple[Lookup, asyncio.Future[Rows]]] = []
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
        found: asyncio.Future[Rows] = asyncio.get_running_loop().create_future()
        mine = (lookup, found)
        self._waiting.append(mine)
        try:
            await asyncio.wait({found}, timeout=deadline.part)
        except asyncio.CancelledError:
            found.cancel()
            raise
        if not found.done() and mine in self._waiting:
            self._waiting.remove(mine)
            return await self._read([lookup], deadline)
        try:
            async with asyncio.timeout(deadline.left):
                return await found
        except TimeoutError:
            raise deadline.late("reads that came before it had no answer") from None

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
        passengers, self._waiting = self._waiting[:MAX_LOOKUPS], self._waiting[MAX_LOOKUPS:]
        try:
            rows = await self._read([lookup for lookup, _ in passengers], None)
        except BaseException as error:
            for _, found in passengers:
                if not found.done():
                    found.set_exception(error)
            if not isinstance(error, Exception):
                raise
        else:
            _hand_out(passengers, rows)
        finally:
            self._go_on()


def _hand_out(passengers: Sequence[tuple[Lookup, asyncio.Future[Rows]]], rows: Rows) -> None:
    """Give everybody a row of their own, also those who asked for the same key."""
    by_key: dict[Lookup, Rows] = {}
    for row in rows:
        by_key.setdefault(Lookup(*row[:3]), []).append(row)
    for lookup, found in passengers:
        mine = by_key.get(lookup)
        if not found.done():
            found.set_result([mine.pop()] if mine else [])
