"""Removing expired memories in the background, on a thread or on an event loop."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future

from langgraph.store.base import BaseStore, TTLConfig

from langmem_tiers.core.checks import checked_number
from langmem_tiers.core.errors import TieredMemoryError
from langmem_tiers.postgres.runner import Runner
from langmem_tiers.store.flows import StoreFlows

DEFAULT_INTERVAL_MINUTES = 5.0

_FAILED = "sweeping expired memories failed; again in %g s"
_log = logging.getLogger(__name__)


class ThreadSweeper(threading.Thread):
    """Sweeps until stopped; a failed sweep is logged and tried again."""

    def __init__(self, sweep: Callable[[], object], seconds: float) -> None:
        """The first sweep comes one interval after the start."""
        super().__init__(daemon=True, name="langmem-tiers-sweeper")
        self.future: Future[None] = Future()
        self.future.set_running_or_notify_cancel()
        self._sweep, self._seconds = sweep, seconds
        self._stopping = threading.Event()

    def stop(self, timeout: float | None) -> bool:
        """Stop; True once the thread has ended, within `timeout` seconds if given."""
        self._stopping.set()
        self.join(timeout)
        return not self.is_alive()

    def run(self) -> None:
        """What the thread does."""
        try:
            while not self._stopping.wait(self._seconds):
                try:
                    self._sweep()
                except TieredMemoryError:
                    _log.exception(_FAILED, self._seconds)
        except BaseException as error:
            self.future.set_exception(error)
            raise
        self.future.set_result(None)


class SweepingStore(BaseStore):
    """What a store has for starting and stopping its sweeper: one thread and one task at most."""

    runner: Runner
    flows: StoreFlows
    ttl_config: TTLConfig | None
    _sweeper: ThreadSweeper | None = None
    _sweeping: asyncio.Task[None] | None = None

    def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> Future[None]:
        """Sweep every few minutes on a thread; the future is done once it was stopped.

        The interval is the argument's, else `ttl["sweep_interval_minutes"]`, else 5 minutes. A
        sweep that fails is logged and tried again.

        Raises:
            NotSetUpError: if the database has no tables yet. On the loop that the store was
                opened on, where a call must not block, the sweeps log it instead.
        """
        if self._sweeper is None or not self._sweeper.is_alive():
            seconds = self._sweep_seconds(sweep_interval_minutes)
            if not self.runner.on_own_loop:
                self.runner.run(self.flows.check_set_up())
            self._sweeper = ThreadSweeper(lambda: self.runner.run(self.flows.tend()), seconds)
            self._sweeper.start()
        return self._sweeper.future

    def stop_ttl_sweeper(self, timeout: float | None = None) -> bool:
        """Stop the sweeper; True once it has ended, within `timeout` seconds if given.

        Raises:
            asyncio.InvalidStateError: on the loop that the store was opened on, where it would
                wait for a sweep that waits for the loop: await `astop_ttl_sweeper` there.
        """
        if timeout is not None:
            use = "seconds, 0 or more, or None to wait to the end"
            checked_number(timeout, "timeout", 0, threading.TIMEOUT_MAX, use=use)
        self.runner.refuse_own_loop()
        return self._sweeper is None or self._sweeper.stop(timeout)

    async def astart_ttl_sweeper(
        self, sweep_interval_minutes: float | None = None
    ) -> asyncio.Task[None]:
        """Sweep every few minutes on this loop; see `start_ttl_sweeper`."""
        if self._sweeping is None or self._sweeping.done():
            seconds = self._sweep_seconds(sweep_interval_minutes)
            await self.runner.arun(self.flows.check_set_up())
            if self._sweeping is None or self._sweeping.done():  # nobody else came first meanwhile
                self._sweeping = asyncio.create_task(self._sweep_on(seconds))
        return self._sweeping

    async def astop_ttl_sweeper(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109
        """Stop the sweeper; True once it has ended, within `timeout` seconds if given."""
        stopped = await asyncio.to_thread(self.stop_ttl_sweeper, timeout)
        if self._sweeping is None:
            return stopped
        self._sweeping.cancel()
        done, _ = await asyncio.wait({self._sweeping}, timeout=timeout)
        return stopped and bool(done)

    async def _sweep_on(self, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            try:
                await self.runner.arun(self.flows.tend())
            except TieredMemoryError:
                _log.exception(_FAILED, seconds)

    def _sweep_seconds(self, minutes: float | None) -> float:
        """Seconds between two sweeps: as told, else by the mapping, else our own choice."""
        if minutes is None:
            minutes = (self.ttl_config or {}).get("sweep_interval_minutes")
        chosen = DEFAULT_INTERVAL_MINUTES if minutes is None else minutes
        use, most = "minutes, more than 0", threading.TIMEOUT_MAX / 60
        return 60 * checked_number(chosen, "the sweep interval", 0, most, but=(0,), use=use)
