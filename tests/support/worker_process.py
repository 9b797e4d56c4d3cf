"""Workers in processes of their own, which end, or stand still, at a point that a test names."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import count
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, Literal

import psycopg
from langgraph.checkpoint.postgres import PostgresSaver

from benchmarks.ruling import Ruling
from langmem_tiers import ArchivalPolicy, TieredStore
from langmem_tiers.consolidation.policy import ConsolidationSchedule
from langmem_tiers.consolidation.report import ConsolidationReport
from langmem_tiers.core.errors import DatabaseError
from langmem_tiers.graph import consolidation
from langmem_tiers.graph.worker import ConsolidationWorker
from langmem_tiers.postgres import connection
from langmem_tiers.postgres.connection_config import checkpointer_pool
from tests.support.cycles import POLICY
from tests.support.opening import Clock, text_index

DAILY = ConsolidationSchedule(every=timedelta(days=1))
BEFALLEN = "befallen"
BATCH = 3
"""Memories a batch, so that few memories make several."""

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload([__name__, "langmem_tiers.consolidation.archive_files"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a worker does, and what befalls it."""

    url: str
    archives: str
    """The directory that it archives to."""
    name: str = "langmem-tiers"
    """As which it is known to the server."""
    later: float = 0.0
    """Seconds by which its clock is ahead."""
    waits_for: Literal["server", "disk"] = "server"
    at: int = 0
    """At which of its waits for that something befalls it; never if 0."""
    sent: bool = False
    """Whether that is after it has sent what it waits for the answer to."""
    befalls: Literal["kill", "stop", "kill server", "kill session"] = "kill"
    """`kill session` is about the server's process that it waits for: all others end with it."""
    server: int = 0
    """The process id of the server's postmaster."""


@dataclass(frozen=True, slots=True)
class Done:
    """What a worker did before it ended."""

    waits: dict[str, int]
    """How often it waited for what."""
    reports: list[ConsolidationReport] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    """What it logged."""

    @property
    def cycles(self) -> list[str]:
        """The tenants whose cycles ended."""
        return [one.tenant for one in self.reports]


class Worker:
    """A process that runs what is due until nothing is."""

    def __init__(self, plan: Plan) -> None:
        """Start it."""
        self._hears, tells = _context.Pipe(duplex=False)
        self.process: BaseProcess = _context.Process(target=_work, args=(plan, tells), daemon=True)
        self.process.start()
        tells.close()

    def ended(self, seconds: float = 120) -> Done | None:
        """Wait for its end; None if it was killed."""
        done = self._heard(seconds)
        self.process.join(seconds)
        assert self.process.exitcode in (0, -signal.SIGKILL)
        return done if isinstance(done, Done) else None

    def befallen(self, seconds: float = 120) -> bool:
        """Wait until what was planned befalls it; False if it came to its end instead."""
        return bool(self._heard(seconds) == BEFALLEN)

    def go_on(self) -> None:
        """Let it go on."""
        assert self.process.pid is not None
        os.kill(self.process.pid, signal.SIGCONT)

    def kill(self) -> None:
        """End it, wherever it is."""
        self.process.kill()
        self.process.join()

    def _heard(self, seconds: float) -> Any:
        assert self._hears.poll(seconds), "waited in vain"
        try:
            return self._hears.recv()
        except EOFError:
            return None


def _work(plan: Plan, tells: Connection) -> None:
    """What the process does."""
    consolidation.BATCH = BATCH  # type: ignore[misc,unused-ignore]
    said, waits = _Said(), _Waits(plan, tells)
    reports: list[ConsolidationReport] = []
    logging.getLogger("langmem_tiers").addHandler(said)
    logging.getLogger("psycopg.pool").addHandler(logging.NullHandler())
    waits.count()
    clock = Clock()
    clock.advance(seconds=plan.later)
    pool = {"kwargs": {"application_name": plan.name}}
    with (
        TieredStore.from_conn_string(
            plan.url, index=text_index(), clock=clock, pool_config=pool
        ) as store,
        checkpointer_pool(plan.url) as connections,
    ):
        worker = ConsolidationWorker(
            store,
            DAILY,
            checkpointer=PostgresSaver(connections),
            policy=replace(
                POLICY, archive=ArchivalPolicy(url=plan.archives, default_importance=0.5)
            ),
            model=Ruling(),
            on_report=reports.append,
        )
        while _is_more(worker):
            pass
    tells.send(Done(waits.numbers, reports, said.lines))


def _is_more(worker: ConsolidationWorker) -> bool:
    """Run what is due; whether there may be more of it."""
    try:
        found = worker.run_due()
    except DatabaseError:
        time.sleep(0.05)
        return True
    if worker.failures:
        time.sleep(0.05)
    return bool(found or worker.failures)


class _Said(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


class _Waits:
    """Counts how often connections wait for the server, and archives for the disk."""

    def __init__(self, plan: Plan, tells: Connection) -> None:
        self.numbers = {"server": 0, "disk": 0}
        self._counted = {name: count(1) for name in self.numbers}
        self._plan = plan
        self._tells = tells

    def count(self) -> None:
        """From now on."""
        sync = os.fsync

        def counting(wait: Callable[..., Any]) -> Callable[..., Any]:
            def waited(conn: Any, waiting: Any, *args: Any, **options: Any) -> Any:
                if self._is_due("server"):
                    if self._plan.sent:
                        waiting = self._sent(conn, waiting)
                    else:
                        self._befall(conn)
                return wait(conn, waiting, *args, **options)

            return waited

        def synced(handle: int) -> None:
            if self._is_due("disk"):
                self._befall()
            sync(handle)

        for kind in (
            psycopg.Connection,
            connection.Connection,
        ):  # a checkpointer's, and the store's own
            kind.wait = counting(kind.wait)  # type: ignore[method-assign]
        os.fsync = synced  # type: ignore[assignment]

    def _is_due(self, waits_for: str) -> bool:
        number = self.numbers[waits_for] = next(self._counted[waits_for])
        return (waits_for, number) == (self._plan.waits_for, self._plan.at)

    def _sent(self, conn: Any, waiting: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        """Send, and meet one's fate before the answer."""
        befallen, ready = False, None
        while True:
            try:
                state = waiting.send(ready)
            except StopIteration as end:
                return end.value
            finally:
                if not befallen:
                    befallen = True
                    self._befall(conn)
            ready = yield state

    def _befall(self, conn: Any = None) -> None:
        if self._plan.befalls == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self._plan.befalls == "kill server":
            os.kill(self._plan.server, signal.SIGKILL)
        if self._plan.befalls == "kill session":
            os.kill(conn.pgconn.backend_pid, signal.SIGKILL)
        self._tells.send(BEFALLEN)
        if self._plan.befalls == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
