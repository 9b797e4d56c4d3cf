"""Counting what was read: in memory first, then in one statement for many reads.

Writing a counter on every read would cost more than the read. The counts of one process are
kept here and go to the database in the background once a second has passed, before they are read,
and when the store is closed: no read waits for that. Counts that could not be written are kept for
the next time; a crash loses the last of them, and where only the answer was lost they count twice.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future, wait
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias

from langmem_tiers.core.errors import DatabaseError, QueryTimeoutError
from langmem_tiers.postgres.flow import Call
from langmem_tiers.store.read import Mortal

FLUSH_SECONDS = 1.0
FLUSH_ENTRIES = 1000

PATIENCE_SECONDS = 2.0
"""How long a statement that writes them may take while others may want its connection."""

LAST_PATIENCE_SECONDS = 10.0
"""The same of a store that is closed, which has no other time to write them."""

LOST_SECONDS = 30.0
"""After how long nobody waits for what was begun: its event loop is gone."""

RETRY_SECONDS = 60.0
"""How long reads go without writing counts after Postgres has refused them."""

BUSY_SECONDS = 10.0
"""The same after somebody else's lock kept them from being written."""

KEPT_ENTRIES = 10_000
"""The memories whose counts are kept while Postgres refuses them; further ones go uncounted."""

_Key: TypeAlias = tuple[str, int]

_log = logging.getLogger(__name__)


class Taken(NamedTuple):
    """Accesses handed over to be written: how many by (tenant, id), and when the last was.

    `written` are the memories whose accesses were written before. One of them may have been deleted
    in that moment by somebody who did not see its counter, which goes now.
    """

    counts: Mapping[_Key, int]
    last: datetime
    written: Collection[_Key]

    @property
    def calls(self) -> tuple[Call, ...]:
        """The calls that write them; in order, so that two processes never wait in a ring."""
        keys = sorted(self.counts)
        counts = [self.counts[key] for key in keys]
        write = Call("count_accesses", {**_columns(keys), "counts": counts, "now": self.last})
        drop = Call("drop_counters", _columns(sorted(self.written)))
        return (*((drop,) if self.written else ()), *((write,) if keys else ()))


def _columns(keys: list[_Key]) -> dict[str, list[Any]]:
    return {"tenants": [tenant for tenant, _ in keys], "ids": [number for _, number in keys]}


class AccessBuffer:
    """Accesses not yet written, one entry a memory; safe for threads."""

    def __init__(self) -> None:
        """Begin empty."""
        self._lock = threading.Lock()
        self._pending: dict[_Key, int] = {}
        self._written: Collection[_Key] = ()
        self._last: datetime | None = None
        self._since = 0.0
        self._resting_until: float | None = None
        self._writing: Future[None] | None = None
        self._begun_at = 0.0
        self._process = 0

    def add(self, found: Iterable[Mortal], now: datetime) -> None:
        """Note that these memories were read."""
        with self._lock:
            if not self._pending:
                self._since = time.monotonic()
            self._last = now
            for one in found:
                self._count((one.tenant, one.id), 1)

    @property
    def due(self) -> bool:
        """Whether it is time to write them."""
        if not self._pending:
            return False
        now = time.monotonic()
        if self._resting_until is not None and now < self._resting_until:
            return False
        return now - self._since >= FLUSH_SECONDS or len(self._pending) >= FLUSH_ENTRIES

    def begin(self, write: Callable[[], Future[None]]) -> None:
        """Begin to write them in the background, unless that goes on already."""
        with self._lock:
            if not self.under_way:
                self._begun_at, self._process = time.monotonic(), os.getpid()
                self._writing = write()

    @property
    def under_way(self) -> bool:
        """Whether some are being written in the background; in a fork nobody does."""
        if self._writing is None or self._writing.done() or self._process != os.getpid():
            return False
        return time.monotonic() - self._begun_at <= LOST_SECONDS

    def wait(self) -> None:
        """Wait for what is being written in the background."""
        if self._writing is not None and self.under_way:
            wait([self._writing], timeout=LOST_SECONDS)

    def take(self, *, last: bool = False) -> Taken | None:
        """Hand over everything there is, to be written or given back.

        The `last` time that is also what was written before, where nothing is left to count.
        """
        with self._lock:
            if self._last is None or not (self._pending or (last and self._written)):
                return None
            pending, self._pending = self._pending, {}
            return Taken(pending, self._last, self._written)

    def give_back(self, taken: Taken) -> None:
        """Keep what was not written for the next time."""
        with self._lock:
            if not self._pending:
                self._since = time.monotonic()
            self._last = max(taken.last, self._last or taken.last)
            for key, count in taken.counts.items():
                self._count(key, count)

    def wrote(self, taken: Taken) -> None:
        """Writing went well (again)."""
        self._written = taken.counts.keys()
        self._resting_until = None

    def rest(self, error: DatabaseError) -> None:
        """Write nothing for a while, after Postgres refused to; said once in the log."""
        seconds = BUSY_SECONDS if isinstance(error, QueryTimeoutError) else RETRY_SECONDS
        if self._resting_until is None:
            _log.warning(
                "reads go on, but their count cannot be written: %s. It is tried again every "
                "%g seconds, and the counts of up to %d memories are kept until then",
                error,
                seconds,
                KEPT_ENTRIES,
            )
        self._resting_until = time.monotonic() + seconds

    def _count(self, key: _Key, count: int) -> None:
        known = self._pending.get(key)
        if known is not None:
            self._pending[key] = known + count
        elif self._resting_until is None or len(self._pending) < KEPT_ENTRIES:
            self._pending[key] = count
