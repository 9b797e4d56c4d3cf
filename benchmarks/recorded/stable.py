"""Names that are the same in each run: uuids are counted, LangGraph's checkpoints go by a count."""

from __future__ import annotations

import sys
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from random import Random
from types import SimpleNamespace
from unittest.mock import patch

from langgraph.checkpoint.base import id as checkpoint_ids

from benchmarks.recorded.adapter import PACKAGE


class Clock:
    """Tells the time that the scenario has set."""

    def __init__(self) -> None:
        self.now = datetime(2026, 3, 1, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def advance(self, **delta: float) -> None:
        self.now += timedelta(**delta)


@contextmanager
def stable_names() -> Iterator[None]:
    """Count the random names that are made meanwhile: those of the package apart from others."""
    counts: Counter[str] = Counter()

    def urandom(size: int) -> bytes:
        asks = sys._getframe(2).f_globals.get("__name__", "")  # noqa: SLF001 - who calls uuid4
        whose = "00" if asks.startswith(f"{PACKAGE}.") else "ff"
        counts[whose] += 1
        return bytes.fromhex(whose) + counts[whose].to_bytes(size - 1, "big")

    seconds = iter(range(10**12))
    tick = SimpleNamespace(time_ns=lambda: 10**18 + 10**6 * next(seconds))
    with (
        patch.object(uuid, "os", SimpleNamespace(urandom=urandom)),
        patch.object(checkpoint_ids, "time", tick),
        patch.object(checkpoint_ids, "random", Random(7)),
        patch.object(checkpoint_ids, "_last_v6_timestamp", None),
    ):
        yield
