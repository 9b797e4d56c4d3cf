"""Counting what was read: in memory first, then in one statement for many reads.

Writing a counter on every read would cost more than the read. The counts of one process are
kept here and go to the database beside the next call once a second has passed, before they
are read, and when the store is closed; a crash loses the last of them, which is accepted.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from langmem_tiers.flow import Call
from langmem_tiers.recall.flow import Found

FLUSH_SECONDS = 1.0
FLUSH_ENTRIES = 1000


class AccessBuffer:
    """Accesses not yet written, one entry a memory; safe for threads."""

    def __init__(self) -> None:
        """Begin empty."""
        self._lock = threading.Lock()
        self._pending: dict[tuple[str, int], tuple[int, datetime]] = {}
        self._since = 0.0

    def add(self, found: Iterable[Found], now: datetime) -> None:
        """Note that these memories were read."""
        with self._lock:
            if not self._pending:
                self._since = time.monotonic()
            for one in found:
                count, _ = self._pending.get((one.tenant, one.id), (0, now))
                self._pending[one.tenant, one.id] = (count + 1, now)

    @property
    def due(self) -> bool:
        """Whether it is time to write them."""
        if not self._pending:
            return False
        waited = time.monotonic() - self._since
        return waited >= FLUSH_SECONDS or len(self._pending) >= FLUSH_ENTRIES

    def take(self) -> tuple[Call, ...]:
        """Hand over everything as a call to run, or nothing if there is nothing."""
        with self._lock:
            pending, self._pending = self._pending, {}
        if not pending:
            return ()
        keys = sorted(pending)
        params: dict[str, Any] = {
            "tenants": [tenant for tenant, _ in keys],
            "ids": [memory_id for _, memory_id in keys],
            "counts": [pending[key][0] for key in keys],
            "times": [pending[key][1] for key in keys],
        }
        return (Call("count_accesses", params),)
