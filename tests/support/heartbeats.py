"""How long an event loop is held up by what others do meanwhile.

By the processor's time: what else the machine does holds nobody up here.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

_BEAT = 0.005


class Heartbeat:
    """What it has felt so far."""

    def __init__(self) -> None:
        self.longest = 0.0
        """Seconds of work between two beats, at most."""
        self._last = time.process_time()

    def beat(self) -> None:
        """It is its turn."""
        now = time.process_time()
        self.longest = max(self.longest, now - self._last)
        self._last = now


@asynccontextmanager
async def beating_task() -> AsyncIterator[Heartbeat]:
    """A task of the running loop that wants to run all the time."""
    heart = Heartbeat()

    async def beat() -> None:
        while True:
            await asyncio.sleep(_BEAT)
            heart.beat()

    task = asyncio.create_task(beat())
    try:
        yield heart
    finally:
        heart.beat()
        task.cancel()
