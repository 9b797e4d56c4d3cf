"""Removing expired memories in the background, on a thread or on an event loop.

`SweepingStore` is the part of a store that users start and stop the sweeper with, `Sweepers` is
what a store keeps for it.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

from langmem_tiers.core.errors import InvalidInputError, TieredMemoryError

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


@dataclass(slots=True, kw_only=True)
class Sweepers:
    """A store's sweeper thread and its sweeper task, each started once and stopped together."""

    check: Callable[[], None]
    """Raises what would make every sweep fail; called before a thread is started."""
    acheck: Callable[[], Awaitable[None]]
    sweep: Callable[[], int]
    asweep: Callable[[], Awaitable[int]]
    minutes: Callable[[], float | None]
    """The interval where a caller gives none; asked at each start."""
    refuse: Callable[[], None]
    """Raises on the loop that the store was opened on, which waiting would block."""
    thread: ThreadSweeper | None = field(default=None, init=False)
    task: asyncio.Task[None] | None = field(default=None, init=False)

    def seconds(self, minutes: float | None) -> float:
        """Seconds between two sweeps."""
        return interval_seconds(self.minutes() if minutes is None else minutes)


class SweepingStore:
    """What a store has for starting and stopping its sweeper."""

    __slots__ = ()
    _sweepers: Sweepers

    def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> Future[None]:
        """Sweep every few minutes on a thread; the future is done once it was stopped.

        The interval is the argument's, else `ttl["sweep_interval_minutes"]`, else 5 minutes. A
        sweep that fails is logged and tried again.

        Raises:
            NotSetUpError: if the database has no tables yet. On the loop that the store was
                opened on, where a call must not block, the sweeps log it instead.
        """
        mine = self._sweepers
        if mine.thread is None or not mine.thread.running:
            seconds = mine.seconds(sweep_interval_minutes)
            mine.check()
            mine.thread = ThreadSweeper(mine.sweep, seconds)
        return mine.thread.future

    def stop_ttl_sweeper(self, timeout: float | None = None) -> bool:
        """Stop the sweeper; True once it has ended, within `timeout` seconds if given.

        Raises:
            asyncio.InvalidStateError: on the loop that the store was opened on, where it would
                wait for a sweep that waits for the loop: await `astop_ttl_sweeper` there.
        """
        self._sweepers.refuse()
        thread = self._sweepers.thread
        return thread is None or thread.stop(timeout)

    async def astart_ttl_sweeper(
        self, sweep_interval_minutes: float | None = None
    ) -> asyncio.Task[None]:
        """Sweep every few minutes on this loop; see `start_ttl_sweeper`."""
        mine = self._sweepers
        if mine.task is None or mine.task.done():
            seconds = mine.seconds(sweep_interval_minutes)
            await mine.acheck()
            if mine.task is None or mine.task.done():  # nobody else came first meanwhile
                mine.task = asyncio.create_task(sweep_forever(mine.asweep, seconds))
        return mine.task

    async def astop_ttl_sweeper(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109
        """Stop the sweeper; True once it has ended, within `timeout` seconds if given."""
        stopped = await asyncio.to_thread(self.stop_ttl_sweeper, timeout)
        task = self._sweepers.task
        if task is None:
            return stopped
        task.cancel()
        done, _ = await asyncio.wait({task}, timeout=timeout)
        return stopped and bool(done)
