"""Counting what was read: in memory first, then in one statement for many reads.

Writing a counter on every read would cost more than the read. The counts of one process are
kept here and go to the database beside the next call once a second has passed, before they
are read, and when the store is closed. A crash, or a write of them that fails, loses the last
of them, which is accepted.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from langmem_tiers.config import StoreOptions
from langmem_tiers.flow import Call
from langmem_tiers.recall.flow import Found
from langmem_tiers.remember.flow import lock_call

FLUSH_SECONDS = 1.0
FLUSH_ENTRIES = 1000


class AccessBuffer:
    """Accesses not yet written, one entry a memory; safe for threads."""

    def __init__(self) -> None:
        """Begin empty."""
        self._lock = threading.Lock()
        self._pending: dict[tuple[str, int], tuple[int, Found]] = {}
        self._last: datetime | None = None
        self._since = 0.0

    def add(self, found: Iterable[Found], now: datetime) -> None:
        """Note that these memories were read."""
        with self._lock:
            if not self._pending:
                self._since = time.monotonic()
            self._last = now
            for one in found:
                count, _ = self._pending.get((one.tenant, one.id), (0, one))
                self._pending[one.tenant, one.id] = (count + 1, one)

    @property
    def due(self) -> bool:
        """Whether it is time to write them."""
        if not self._pending:
            return False
        waited = time.monotonic() - self._since
        return waited >= FLUSH_SECONDS or len(self._pending) >= FLUSH_ENTRIES

    def take(self, options: StoreOptions) -> tuple[Call, ...]:
        """Hand over everything as calls to run, or nothing if there is nothing.

        The keys are locked as writers lock them: no counter outlives a deletion meanwhile.
        """
        with self._lock:
            pending, self._pending = self._pending, {}
            last = self._last
        if not pending:
            return ()
        read = [pending[key] for key in sorted(pending)]
        params: dict[str, Any] = {
            "tenants": [one.tenant for _, one in read],
            "ids": [one.id for _, one in read],
            "counts": [count for count, _ in read],
            "now": last,
        }
        keys = ((one.tenant, one.namespace, one.key) for _, one in read)
        return lock_call(keys, options), Call("count_accesses", params)
