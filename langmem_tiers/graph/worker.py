"""A worker that runs the cycles that are due, for every tenant, beside any number of others."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import aclosing, closing, contextmanager
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, cast
from uuid import uuid4

from langchain_core.language_models import BaseChatModel
from langgraph.checkpoint.base import BaseCheckpointSaver

from langmem_tiers.consolidate import lease
from langmem_tiers.consolidate.policy import ConsolidationPolicy
from langmem_tiers.consolidate.report import ConsolidationReport
from langmem_tiers.consolidate.schedule import ConsolidationSchedule, due
from langmem_tiers.core.errors import (
    DatabaseError,
    InvalidInputError,
    InvalidTypeError,
    LeaseLostError,
    short,
)
from langmem_tiers.graph.consolidation import create_consolidation_graph
from langmem_tiers.graph.leasing import Lease, aleased, leased
from langmem_tiers.graph.serializer import strictly
from langmem_tiers.graph.worker_thread import FENCE, Thread, config_of, thread_of
from langmem_tiers.postgres.connection import checkpointing
from langmem_tiers.store.store import TieredStore

LEASE_SECONDS = 300.0
"""How long a tenant stays with a worker that says nothing any more."""
_LOOKED_AT = 8
"""The latest checkpoints, among which is the last one that counts: each holder that stood still
and lost its lease leaves two at most before it notices."""
_PRUNED_AFTER = 100
"""Steps of the graph after which a cycle at work drops its older checkpoints."""

_log = logging.getLogger(__name__)


class ConsolidationWorker:
    """Runs the cycle of each tenant when it is due, one worker a tenant at a time.

    When a cycle was last run is read from the checkpointer, where each tenant has a thread of its
    own. A cycle that was broken off, by this worker or another, goes on from its checkpoint; of one
    that has ended the last checkpoint alone is kept, where the checkpointer can prune.

    Example:
        ```python
        from datetime import timedelta

        from langgraph.checkpoint.postgres import PostgresSaver
        from langmem_tiers import ConsolidationSchedule, ConsolidationWorker, TieredStore

        with (
            TieredStore.from_conn_string(url, index=index) as store,
            PostgresSaver.from_conn_string(url) as checkpointer,
        ):
            worker = ConsolidationWorker(
                store, ConsolidationSchedule(every=timedelta(hours=6)), checkpointer=checkpointer
            )
            for report in worker.run_due():
                print(report)
        ```
    """

    failures: dict[str, Exception]
    """By tenant, what broke its cycle off in the latest pass; the next one goes on with it."""

    def __init__(
        self,
        store: TieredStore,
        schedule: ConsolidationSchedule,
        *,
        checkpointer: BaseCheckpointSaver[Any],
        policy: ConsolidationPolicy | None = None,
        model: BaseChatModel | None = None,
        lease_seconds: float = LEASE_SECONDS,
        told: Callable[[ConsolidationReport], object] = lambda _: None,
    ) -> None:
        """Stand on a store and a checkpointer, both open for as long as the worker works.

        Args:
            store: The store whose tenants are consolidated.
            schedule: When a tenant is due; `every` counts, as no agent's turns are seen here.
            checkpointer: A `PostgresSaver`, so that any worker goes on where another one broke
                off, an `AsyncPostgresSaver` for `arun` and `arun_due`. On a pool of connections it
                outlives a restart of the server. With one in memory, every start of the worker is
                a new beginning. What is read of it is what cycles write, and nothing else: the
                worker puts its own serializer in the place of LangGraph's.
            policy: What a cycle does; everything but archival if not given.
            model: A chat model for the cycles; see `create_consolidation_graph`.
            lease_seconds: How long after its last word a worker counts as gone. The clocks of all
                workers agree much better than that.
            told: Called with each report as its cycle ends.

        Raises:
            InvalidInputError: for a schedule without `every`, or a lease that is over at once.
            InvalidTypeError: for what is no checkpointer.
        """
        if schedule.every is None:
            raise InvalidInputError("a worker goes by time alone: give its schedule every=…")
        if not isinstance(checkpointer, BaseCheckpointSaver):
            raise InvalidTypeError(f"checkpointer is a PostgresSaver, not {short(checkpointer)}")
        if not lease_seconds > 0:
            raise InvalidInputError(f"lease_seconds is above zero, not {short(lease_seconds)}")
        self.failures = {}
        self.holder = str(uuid4())
        self._store = store
        self._schedule = schedule
        self._checkpointer = strictly(checkpointer)
        self._lease_seconds = lease_seconds
        self._told = told
        self._at_work = threading.Lock()
        self._stopping = False
        # Its put may interrupt itself, as a signal handler does; that of an Event would wait.
        self._woken: SimpleQueue[None] = SimpleQueue()
        self._wake: Callable[[], object] = partial(self._woken.put, None)
        self._graph = create_consolidation_graph(
            model, policy=policy, store=store, checkpointer=self._checkpointer
        )

    def stop(self) -> None:
        """Hand over what is at work after the step it is at, and start nothing more.

        Safe from a signal handler and from any thread.
        """
        self._stopping = True
        self._wake()

    def run(self, poll_seconds: float = 60.0) -> None:
        """Run what is due, again and again, until `stop` is called.

        Where the database does not answer, it is logged and tried again.
        """
        while not self._stopping:
            with _minding_the_database(poll_seconds):
                self.run_due()
            if not self._stopping:
                self._wait(poll_seconds)

    async def arun(self, poll_seconds: float = 60.0) -> None:
        """Run what is due, again and again, until `stop` is called; see `run`."""
        woken, before = asyncio.Event(), self._wake
        self._wake = partial(asyncio.get_running_loop().call_soon_threadsafe, woken.set)
        try:
            while not self._stopping:
                with _minding_the_database(poll_seconds):
                    await self.arun_due()
                await _awaited(woken, poll_seconds)
        finally:
            self._wake = before

    def _wait(self, seconds: float) -> None:
        try:
            self._woken.get(timeout=seconds)
        except Empty:
            return

    def run_due(self) -> list[ConsolidationReport]:
        """Run the cycle of each tenant that is due and that no other worker is at; the reports.

        What breaks one tenant's cycle off is logged and kept in `failures`; the others go on.

        Raises:
            DatabaseError: if the tenants cannot be read.
            InvalidInputError: if this worker is at work already, on another thread.
        """
        reports: list[ConsolidationReport] = []
        with self._alone():
            for tenant in self._store.run(lease.tenants()):
                report = None
                with self._minding(tenant):
                    report = self._turn(tenant)
                reports += self._noted(report)
        return reports

    async def arun_due(self) -> list[ConsolidationReport]:
        """Run the cycle of each tenant that is due; see `run_due`."""
        reports: list[ConsolidationReport] = []
        with self._alone():
            for tenant in await self._store.arun(lease.tenants()):
                report = None
                with self._minding(tenant):
                    report = await self._aturn(tenant)
                reports += self._noted(report)
        return reports

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Two passes at once would share the worker's leases."""
        if not self._at_work.acquire(blocking=False):
            raise InvalidInputError("this worker is at work already: make another one")
        try:
            self.failures = {}
            yield
        finally:
            self._at_work.release()

    @contextmanager
    def _minding(self, tenant: str) -> Iterator[None]:
        """What goes wrong with one tenant is logged, and the others go on.

        Anything may: a state of another shape breaks a node, and a model's client raises what it
        likes. No other tenant can be made to wait for it.
        """
        try:
            with checkpointing():
                yield
        except LeaseLostError as error:
            _log.warning("%s", error)
        except Exception as error:  # noqa: BLE001 - an outermost edge: one tenant's work ends here
            self.failures[tenant] = error
            _log.exception("the cycle of %s broke off; the next pass goes on with it", tenant)

    def _noted(self, report: ConsolidationReport | None) -> list[ConsolidationReport]:
        if report is None:
            return []
        self._told(report)
        return [report]

    def _turn(self, tenant: str) -> ConsolidationReport | None:
        if self._stopping or not self._is_due(self._standing(tenant)):
            return None
        with leased(self._store, tenant, self.holder, self._lease_seconds) as mine:
            if mine is None:
                return None
            thread = self._standing(tenant, mine.fence)  # another worker may just have been here
            return self._cycle(mine, thread) if self._is_due(thread) else None

    async def _aturn(self, tenant: str) -> ConsolidationReport | None:
        if self._stopping or not self._is_due(await self._astanding(tenant)):
            return None
        async with aleased(self._store, tenant, self.holder, self._lease_seconds) as mine:
            if mine is None:
                return None
            thread = await self._astanding(tenant, mine.fence)
            return await self._acycle(mine, thread) if self._is_due(thread) else None

    def _cycle(self, mine: Lease, thread: Thread) -> ConsolidationReport | None:
        """Begin a cycle, or go on with the one that was broken off."""
        given, config = thread.ahead(mine)
        stream = self._graph.stream(given, config, stream_mode="values", durability="sync")
        with closing(cast("Generator[Any]", stream)) as steps:
            for number, _ in enumerate(steps, 1):
                mine.renew()
                if self._stopping:
                    break
                if number % _PRUNED_AFTER == 0:
                    self._prune(mine)
        thread = self._standing(mine.tenant, mine.fence)
        if thread.is_ended:
            self._prune(mine)
        return thread.report

    async def _acycle(self, mine: Lease, thread: Thread) -> ConsolidationReport | None:
        """Begin a cycle, or go on with the one that was broken off."""
        given, config = thread.ahead(mine)
        stream = self._graph.astream(given, config, stream_mode="values", durability="sync")
        number = 0
        async with aclosing(cast("AsyncGenerator[Any]", stream)) as steps:
            async for _ in steps:
                number += 1
                await mine.arenew()
                if self._stopping:
                    break
                if number % _PRUNED_AFTER == 0:
                    await self._aprune(mine)
        thread = await self._astanding(mine.tenant, mine.fence)
        if thread.is_ended:
            await self._aprune(mine)
        return thread.report

    def _standing(self, tenant: str, fence: int | None = None) -> Thread:
        history = self._graph.get_state_history(config_of(tenant), limit=_LOOKED_AT)
        return Thread.of(tenant, list(history), fence)

    async def _astanding(self, tenant: str, fence: int | None = None) -> Thread:
        history = self._graph.aget_state_history(config_of(tenant), limit=_LOOKED_AT)
        return Thread.of(tenant, [one async for one in history], fence)

    def _is_due(self, thread: Thread) -> bool:
        if thread.is_at_work:
            return True
        return due(self._schedule, thread.last, now=self._store.flows.now) is not None

    def _prune(self, mine: Lease) -> None:
        """Drop the checkpoints before the last one, unless that is another holder's."""
        with _pruning(mine.tenant):
            newest = self._checkpointer.get_tuple(config_of(mine.tenant))
            if newest is not None and newest.metadata.get(FENCE) == mine.fence:
                self._checkpointer.prune([thread_of(mine.tenant)])

    async def _aprune(self, mine: Lease) -> None:
        """Drop the checkpoints before the last one; see `_prune`."""
        with _pruning(mine.tenant):
            newest = await self._checkpointer.aget_tuple(config_of(mine.tenant))
            if newest is not None and newest.metadata.get(FENCE) == mine.fence:
                await self._checkpointer.aprune([thread_of(mine.tenant)])


@contextmanager
def _pruning(tenant: str) -> Iterator[None]:
    """What cannot be dropped now is dropped after the next cycle."""
    try:
        with checkpointing():
            yield
    except NotImplementedError:
        _log.debug("this checkpointer keeps every checkpoint: it cannot prune")
    except DatabaseError:
        _log.warning("old checkpoints of %s could not be dropped", tenant, exc_info=True)


@contextmanager
def _minding_the_database(seconds: float) -> Iterator[None]:
    try:
        yield
    except DatabaseError:
        _log.exception("the tenants could not be read; trying again in %g s", seconds)


async def _awaited(woken: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await woken.wait()
    except TimeoutError:
        return
