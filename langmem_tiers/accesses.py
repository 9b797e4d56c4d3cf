"""Counting what was read: in memory first, then in one statement for many reads.

Writing a counter on every read would cost more than the read. The counts of one process are
kept here and go to the database beside the next call once a second has passed, before they
are read, and when the store is closed. Counts that could not be written are kept for the next
time; a crash loses the last of them, and where only the answer was lost they count twice.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple, TypeAlias

from langmem_tiers.errors import DatabaseError
from langmem_tiers.flow import Call
from langmem_tiers.recall.flow import Mortal

FLUSH_SECONDS = 1.0
FLUSH_ENTRIES = 1000

RETRY_SECONDS = 60.0
"""How long reads go without writing counts after Postgres has refused them."""

KEPT_ENTRIES = 10_000
"""The memories whose counts are kept while Postgres refuses them; further ones go uncounted."""

_Key: TypeAlias = tuple[str, int]

_log = logging.getLogger(__name__)


class Taken(NamedTuple):
    """Accesses handed over to be written: how many by (tenant, id), and when the last was."""

    counts: Mapping[_Key, int]
    last: datetime

    @property
    def call(self) -> Call:
        """The call that writes them; in order, so that two processes never wait in a ring."""
        keys = sorted(self.counts)
        params = {
            "tenants": [tenant for tenant, _ in keys],
            "ids": [number for _, number in keys],
            "counts": [self.counts[key] for key in keys],
            "now": self.last,
        }
        return Call("count_accesses", params)


class AccessBuffer:
    """Accesses not yet written, one entry a memory; safe for threads."""

    def __init__(self) -> None:
        """Begin empty."""
        self._lock = threading.Lock()
        self._pending: dict[_Key, int] = {}
        self._last: datetime | None = None
        self._since = 0.0
        self._resting_until: float | None = None

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

    def take(self) -> Taken | None:
        """Hand over everything there is, to be written or given back."""
        with self._lock:
            pending, self._pending = self._pending, {}
            return Taken(pending, self._last) if pending and self._last else None

    def give_back(self, taken: Taken) -> None:
        """Keep what was not written for the next time."""
        with self._lock:
            self._last = max(taken.last, self._last or taken.last)
            for key, count in taken.counts.items():
                self._count(key, count)

    def wrote(self) -> None:
        """Writing went well (again)."""
        self._resting_until = None

    def rest(self, error: DatabaseError) -> None:
        """Write nothing for a while, after Postgres refused to; said once in the log."""
        if self._resting_until is None:
            _log.warning(
                "reads go on, but their count cannot be written: %s. It is tried again every "
                "%g seconds, and the counts of up to %d memories are kept until then",
                error,
                RETRY_SECONDS,
                KEPT_ENTRIES,
            )
        self._resting_until = time.monotonic() + RETRY_SECONDS

    def _count(self, key: _Key, count: int) -> None:
        known = self._pending.get(key)
        if known is not None:
            self._pending[key] = known + count
        elif self._resting_until is None or len(self._pending) < KEPT_ENTRIES:
            self._pending[key] = count
