"""Workers of consolidation in this process, on tenants whose memory has something to merge."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from typing import Any, Literal

import psycopg
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver

from langmem_tiers import TieredStore
from langmem_tiers.consolidation.policy import ConsolidationSchedule
from langmem_tiers.graph.worker import ConsolidationWorker
from tests.support.coordinating import coordinator

SCHEDULE = ConsolidationSchedule(every=timedelta(hours=6))
How = Literal["run_due", "arun_due"]


class Workers:
    """Makes workers on one database, and runs what is due either way.

    Each tenant has a memory that says the same as another one.
    """

    def __init__(self, store: TieredStore, url: str, *tenants: str) -> None:
        self.store = store
        self.url = url
        self.failures: dict[str, Exception] = {}
        """Those of the last pass."""
        with PostgresSaver.from_conn_string(url) as saver:
            saver.setup()
        with psycopg.connect(url) as conn:
            for name in ("checkpoints", "checkpoint_blobs", "checkpoint_writes"):
                conn.execute(f"DELETE FROM {name}".encode())  # noqa: S608 - names of LangGraph's
        for tenant in tenants:
            for key in ("one", "two"):
                coordinator(store, tenant).store("The lamp is red.", "semantic", key=key)

    @contextmanager
    def blocking(self, **options: Any) -> Iterator[ConsolidationWorker]:
        """A worker on a checkpointer that blocks."""
        with PostgresSaver.from_conn_string(self.url) as saver:
            yield ConsolidationWorker(self.store, SCHEDULE, checkpointer=saver, **options)

    @asynccontextmanager
    async def awaiting(self, **options: Any) -> AsyncIterator[ConsolidationWorker]:
        """A worker on one that is awaited."""
        async with AsyncPostgresSaver.from_conn_string(self.url) as saver:
            yield ConsolidationWorker(self.store, SCHEDULE, checkpointer=saver, **options)

    async def due(self, how: How, stops: list[ConsolidationWorker] | None = None) -> list[Any]:
        """The reports of what a new worker runs, which `stops` is told."""
        stops = [] if stops is None else stops
        if how == "arun_due":
            async with self.awaiting() as worker:
                stops.append(worker)
                reports = await worker.arun_due()
        else:
            with self.blocking() as worker:
                stops.append(worker)
                reports = await asyncio.to_thread(worker.run_due)
        self.failures = worker.failures
        return reports

    def merged(self) -> dict[str, int]:
        """How many memories of each tenant live on in another one."""
        query = """SELECT tenant, count(*) FILTER (WHERE state = 'consolidated')
                   FROM memory.memories GROUP BY tenant"""
        with psycopg.connect(self.url) as conn:
            return dict(conn.execute(query).fetchall())


def tenants(reports: list[Any]) -> list[str]:
    """Whose cycles ended."""
    return [one.tenant for one in reports]
