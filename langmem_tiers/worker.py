"""A worker that runs the cycles that are due, for every tenant, beside any number of others."""

from __future__ import annotations

import logging
import threading
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from typing import Any, cast
from uuid import uuid4

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import RunnableConfig
from langgraph.types import Checkpointer

from langmem_tiers.consolidate import lease
from langmem_tiers.consolidate.policy import ConsolidationPolicy
from langmem_tiers.consolidate.report import ConsolidationReport
from langmem_tiers.consolidate.schedule import ConsolidationSchedule, due
from langmem_tiers.consolidation import LEASE, Held, create_consolidation_graph
from langmem_tiers.errors import InvalidInputError, LeaseLostError
from langmem_tiers.store import TieredStore

LEASE_SECONDS = 300.0
"""How long a tenant stays with a worker that says nothing any more."""
RENEWALS = 3
"""Times that a lease is renewed before it would end."""

_log = logging.getLogger(__name__)


class ConsolidationWorker:
    """Runs the cycle of each tenant when it is due, one worker a tenant at a time.

    When a cycle was last run is read from the checkpointer, where each tenant has a thread of its
    own. A cycle that was broken off, by this worker or another, goes on from its checkpoint.

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

    def __init__(
        self,
        store: TieredStore,
        schedule: ConsolidationSchedule,
        *,
        checkpointer: Checkpointer,
        policy: ConsolidationPolicy | None = None,
        model: BaseChatModel | None = None,
        lease_seconds: float = LEASE_SECONDS,
    ) -> None:
        """Stand on a store and a checkpointer, both open for as long as the worker works.

        Args:
            store: The store whose tenants are consolidated.
            schedule: When a tenant is due; `every` counts, as no agent's turns are seen here.
            checkpointer: A `PostgresSaver`, so that any worker goes on where another one broke
                off; with an in-memory one, every start of the worker is a new beginning.
            policy: What a cycle does; everything but archival if not given.
            model: A chat model for the cycles; see `create_consolidation_graph`.
            lease_seconds: How long after its last word a worker counts as gone.

        Raises:
            InvalidInputError: for a schedule without `every`.
        """
        if schedule.every is None:
            raise InvalidInputError("a worker goes by time alone: give its schedule every=…")
        self.holder = str(uuid4())
        self._store = store
        self._schedule = schedule
        self._lease_seconds = lease_seconds
        self._stopping = threading.Event()
        self._graph = create_consolidation_graph(
            model, policy=policy, store=store, checkpointer=checkpointer
        )

    def stop(self) -> None:
        """Hand over what is at work after the step it is at, and start nothing more."""
        self._stopping.set()

    def run(self, poll_seconds: float = 60.0) -> None:
        """Run what is due, again and again, until `stop` is called; safe from a signal handler."""
        while not self._stopping.is_set():
            self.run_due()
            self._stopping.wait(poll_seconds)

    def run_due(self) -> list[ConsolidationReport]:
        """Run the cycle of each tenant that is due and that no other worker is at; the reports."""
        reports = []
        for tenant in self._store.run(lease.tenants()):
            if self._stopping.is_set():
                break
            try:
                report = self._turn(tenant)
            except LeaseLostError:
                _log.warning("the lease of %s was taken over: its new holder goes on", tenant)
                continue
            if report is not None:
                reports.append(report)
        return reports

    def _turn(self, tenant: str) -> ConsolidationReport | None:
        config = _thread(tenant)
        if not self._is_due(self._graph.get_state(config)):
            return None
        with self._leased(tenant) as fence:
            if fence is None:
                return None
            snapshot = self._graph.get_state(config)  # another worker may just have been here
            return self._cycle(tenant, fence, snapshot) if self._is_due(snapshot) else None

    def _cycle(self, tenant: str, fence: int, snapshot: Any) -> ConsolidationReport | None:
        """Begin a cycle, or go on with the one that was broken off."""
        config = _thread(tenant)
        config["configurable"][LEASE] = Held(tenant, fence)
        given: dict[str, Any] | None = None if snapshot.next else {}
        stream = self._graph.stream(given, config, stream_mode="values", durability="sync")
        with closing(cast("Generator[Any]", stream)) as steps:
            for _ in steps:
                if self._stopping.is_set():
                    return None
        return ConsolidationReport.of(self._graph.get_state(config).values["consolidated"])

    def _is_due(self, snapshot: Any) -> bool:
        if snapshot.next:
            return True
        last = snapshot.values.get("consolidated")
        return due(self._schedule, last, now=self._store.flows.now) is not None

    @contextmanager
    def _leased(self, tenant: str) -> Iterator[int | None]:
        """The fence of a lease that is renewed until the end; None if another worker has it."""
        store, seconds = self._store, self._lease_seconds
        fence = store.run(lease.acquire(tenant, self.holder, store.flows.now, seconds))
        if fence is None:
            yield None
            return
        done = threading.Event()

        def renew() -> None:
            while not done.wait(seconds / RENEWALS):
                store.run(lease.renew(tenant, fence, store.flows.now, seconds))

        renewing = threading.Thread(target=renew, daemon=True, name="langmem-tiers-lease")
        renewing.start()
        try:
            yield fence
        finally:
            done.set()
            renewing.join()
            store.run(lease.release(tenant, fence))


def _thread(tenant: str) -> RunnableConfig:
    return {"configurable": {"thread_id": f"consolidation:{tenant}"}}
