"""Removing expired memories in the background, on a thread or on an event loop."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future

from langmem_tiers.errors import InvalidInputError, TieredMemoryError

DEFAULT_INTERVAL_MINUTES = 5.0

_log = logging.getLogger(__name__)


def interval_seconds(minutes: float | None) -> float:
    """Seconds between two sweeps, from minutes that a caller may have left out."""
    chosen = DEFAULT_INTERVAL_MINUTES if minutes is None else minutes
    if not chosen > 0:
        raise InvalidInputError(f"the sweep interval is {chosen} minutes: use a positive number")
    return chosen * 60


class ThreadSweeper:
    """Sweeps on a daemon thread until stopped; a failed sweep is logged and tried again."""

    def __init__(self, sweep: Callable[[], int], seconds: float) -> None:
        """Start at once; the first sweep comes after one interval."""
        self.future: Future[None] = Future()
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=self._work, args=(sweep, seconds), daemon=True, name="langmem-tiers-sweeper"
        )
        self.future.set_running_or_notify_cancel()
        self._thread.start()

    def stop(self, timeout: float | None = None) -> bool:
        """Stop; True once the thread has ended, within `timeout` seconds if given."""
        self._stop.set()
        self._thread.join(timeout)
        return not self._thread.is_alive()

    @property
    def running(self) -> bool:
        """Whether the thread is at work."""
        return self._thread.is_alive()

    def _work(self, sweep: Callable[[], int], seconds: float) -> None:
        try:
            while not self._stop.wait(seconds):
                try:
                    sweep()
                except TieredMemoryError:
                    _log.exception("sweeping expired memories failed; again in %g s", seconds)
        except BaseException as error:
            self.future.set_exception(error)
            raise
        self.future.set_result(None)


async def sweep_forever(sweep: Callable[[], Awaitable[int]], seconds: float) -> None:
    """Sweep on this loop until cancelled; a failed sweep is logged and tried again."""
    while True:
        await asyncio.sleep(seconds)
        try:
            await sweep()
        except TieredMemoryError:
            _log.exception("sweeping expired memories failed; trying again in %g s", seconds)
