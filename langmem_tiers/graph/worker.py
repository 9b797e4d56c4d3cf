"""A worker that runs the due cycles of all tenants, beside any number of other workers."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue
from types import UnionType
from typing import Any, Final, NamedTuple, get_origin, get_type_hints
from uuid import uuid4

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.serde.jsonplus import EXT_CONSTRUCTOR_POS_ARGS, JsonPlusSerializer
from langgraph.types import Send, StateSnapshot

from langmem_tiers.consolidation import lease
from langmem_tiers.consolidation.lease import last_cycle_start
from langmem_tiers.consolidation.policy import (
    ConsolidationPolicy,
    ConsolidationSchedule,
    due_reason,
)
from langmem_tiers.consolidation.report import ConsolidationReport
from langmem_tiers.core import errors
from langmem_tiers.core.checks import checked_function, checked_instance, checked_number
from langmem_tiers.core.errors import short
from langmem_tiers.graph import consolidation
from langmem_tiers.graph.consolidation import NOT_OURS
from langmem_tiers.graph.runtime import DRIVER, checked_store, invoke
from langmem_tiers.postgres.errors import translate_checkpointer_errors
from langmem_tiers.postgres.flow import Ask, Flow, both, off_loop
from langmem_tiers.store.store import TieredStore

FENCE_KEY = "fence"
"""Key in the metadata of a checkpoint: the fence under which it was written."""
_FORMS: Final = ("null", "msgpack")
"""Forms in which a cycle's values are written."""
_SEND: Final = (EXT_CONSTRUCTOR_POS_ARGS, Send.__module__, Send.__name__)


class TenantThread(NamedTuple):
    """A tenant's thread, at the last checkpoint of the latest holder of its lease."""

    tenant: str
    snapshot: StateSnapshot | None
    is_newest: bool
    """True if no holder who had lost the lease wrote after it."""

    @classmethod
    def from_history(
        cls, tenant: str, history: Sequence[StateSnapshot], fence: int | None
    ) -> TenantThread:
        """Read the thread from its latest checkpoints, the newest first.

        `fence` is the reader's own, if it holds the lease: a higher one is of a lease that has been
        deleted since.

        Raises:
            CheckpointError: if what it holds is no state of a cycle.
        """

        def rank(snapshot: StateSnapshot) -> int:
            written: int = (snapshot.metadata or {}).get(FENCE_KEY, 0)  # type: ignore[assignment]  # ours
            return written if fence is None or written <= fence else -1

        if not history:
            return cls(tenant, None, is_newest=True)
        best = max(history, key=rank)
        for name, value in best.values.items():
            if not isinstance(value, _KINDS[name]):
                held = f"a checkpoint holds {short(value)} where {name} of a cycle is"
                raise errors.CheckpointError(f"{held}: {NOT_OURS}")
        return cls(tenant, best, is_newest=best is history[0])

    @property
    def is_at_work(self) -> bool:
        """Tell whether a cycle has begun and not ended."""
        return self.snapshot is not None and bool(self.snapshot.next)

    @property
    def report(self) -> ConsolidationReport | None:
        """Return the report of the last cycle, for people; None while a cycle is at work."""
        if self.snapshot is None or self.is_at_work:
            return None
        last = self.snapshot.values.get("consolidated")
        return None if last is None else ConsolidationReport.of(last)

    def graph_input(self, fence: int) -> tuple[dict[str, Any] | None, RunnableConfig]:
        """Return the input and config by which the graph goes on from here, or begins."""
        config = thread_config(self.tenant)
        config["metadata"] = {FENCE_KEY: fence}
        config["max_concurrency"] = 1  # recalls beside a cycle keep their pace
        config["configurable"][consolidation.LEASE_KEY] = consolidation.HeldTenant(
            self.tenant, fence
        )
        if self.snapshot is not None and not self.is_newest:
            config["configurable"] |= self.snapshot.config["configurable"]
        return None if self.is_at_work else {}, config


_KINDS = {
    name: kind if isinstance(kind, UnionType) else get_origin(kind) or kind
    for name, kind in get_type_hints(consolidation.ConsolidationState).items()
}
"""Type of each key of a cycle's state."""


def thread_config(tenant: str) -> RunnableConfig:
    """Return the config that names a tenant's thread."""
    return {"configurable": {"thread_id": lease.thread_name(tenant)}}


class CycleSerializer(JsonPlusSerializer):
    """Serializer that writes as LangGraph's own does, and reads only values that a cycle writes.

    LangGraph's calls whatever a value names: any callable, unless it is told to be strict, and then
    it hands unknown values on as they are. This one refuses them.
    """

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Read a value.

        Raises:
            CheckpointError: for a value that no cycle writes, and for a damaged one.
        """
        form, blob = data
        if form not in _FORMS:
            raise errors.CheckpointError(f"a checkpoint holds a value as {short(form)}: {NOT_OURS}")
        refused: list[str] = []  # msgpack's reader hides errors that are raised while it reads

        def built(code: int, named: bytes) -> Send | None:
            match reader.loads_typed(("msgpack", named)):
                case [str(module), str(name), [str(node), arg]] if (code, module, name) == _SEND:
                    return Send(node, arg)
                case [str(module), str(name), *_]:
                    refused.append(short(f"{module}.{name}"))
                case _:
                    refused.append(f"a value of the kind {code}")
            return None

        reader = JsonPlusSerializer(__unpack_ext_hook__=built)
        try:
            value = reader.loads_typed((form, blob))
        except ValueError as error:
            damaged = f"a checkpoint is damaged ({error})"
            raise errors.CheckpointError(f"{damaged}: {NOT_OURS}") from error
        if refused:
            raise errors.CheckpointError(f"a checkpoint names {refused[0]}: {NOT_OURS}")
        return value


def read_strictly(checkpointer: BaseCheckpointSaver[Any]) -> BaseCheckpointSaver[Any]:
    """Return the checkpointer with a `CycleSerializer` in the place of LangGraph's serializer.

    A serializer of somebody's own, one that encrypts for instance, stays.
    """
    if type(checkpointer.serde) is not JsonPlusSerializer:
        return checkpointer
    strict = copy(checkpointer)
    strict.serde = CycleSerializer()
    return strict


RENEWALS = 3
"""Times that a lease is renewed before it would end."""
LEASE_SECONDS = 300.0
_MOST_SECONDS = 30 * 86_400
"""Seconds at most that a tenant stays with a worker that is silent."""
_LATEST_CHECKPOINTS = 8
"""Number of latest checkpoints that are read. The last valid one is among them: each holder that
stood still and lost its lease leaves two at most before it notices."""
_PRUNED_AFTER = 100
"""Steps of the graph after which a cycle at work drops its older checkpoints."""

_log = logging.getLogger(__name__)


class ConsolidationWorker:
    """Worker that runs the cycle of each tenant when it is due, one worker a tenant at a time.

    The store knows the time of a tenant's last cycle, whoever ran it. In the checkpointer each
    tenant has a thread of its own. A cycle that was broken off, by this worker or another, goes on
    from its checkpoint. Of a cycle that has ended only the last checkpoint is kept, if the
    checkpointer can prune.

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

    runner = DRIVER
    failures: dict[str, Exception]
    """Errors that broke off cycles of the latest pass, by tenant; the next pass resumes these."""

    def __init__(
        self,
        store: TieredStore,
        schedule: ConsolidationSchedule,
        *,
        checkpointer: BaseCheckpointSaver[Any],
        policy: ConsolidationPolicy | None = None,
        model: BaseChatModel | None = None,
        lease_seconds: float = LEASE_SECONDS,
        on_report: Callable[[ConsolidationReport], object] = lambda _: None,
    ) -> None:
        """Set up a worker on a store and a checkpointer, both open for as long as it works.

        Args:
            store: The store whose tenants are consolidated.
            schedule: When a tenant is due; `every` counts, as no agent's turns are seen here.
            checkpointer: A `PostgresSaver`, so that any worker goes on where another one broke
                off, an `AsyncPostgresSaver` for `arun` and `arun_due`. On a pool of connections it
                outlives a restart of the server. With one in memory, a cycle of a worker that has
                ended is lost. The worker reads only values that cycles write: it puts its own
                serializer in the place of LangGraph's.
            policy: The steps of a cycle; all but archival if not given.
            model: A chat model for the cycles; see `create_consolidation_graph`.
            lease_seconds: Seconds after its last renewal at which a worker counts as gone. The
                clocks of all workers have to agree much better than that.
            on_report: A function that is called with each report as its cycle ends.

        Raises:
            InvalidInputError: for a schedule without `every`, or a lease that is over at once.
            InvalidTypeError: for an object that is no checkpointer.
        """
        checked_instance(schedule, ConsolidationSchedule, "schedule")
        checked_store(store)
        checked_function(on_report, "on_report")
        if schedule.every is None:
            raise errors.InvalidInputError("a worker goes by time alone: give its schedule every=…")
        checked_instance(
            checkpointer, BaseCheckpointSaver, "checkpointer, such as a PostgresSaver,"
        )
        most = f"a number of seconds above zero, {_MOST_SECONDS:,} at most"
        checked_number(lease_seconds, "lease_seconds", 0, _MOST_SECONDS, but=(0,), use=most)
        self.failures = {}
        self.holder = str(uuid4())
        self._store = store
        self._schedule = schedule
        self._checkpointer = read_strictly(checkpointer)
        self._lease_seconds = lease_seconds
        self._on_report = on_report
        self._pass_lock = threading.Lock()
        self._stopping = False
        # Its put may interrupt itself, as a signal handler does; that of an Event would wait.
        self._woken: SimpleQueue[None] = SimpleQueue()
        self._graph = consolidation.create_consolidation_graph(
            model, policy=policy, store=store, checkpointer=self._checkpointer
        )

    def stop(self) -> None:
        """Hand over the running cycle after its current step, and start no other one.

        Safe from a signal handler and from any thread.
        """
        self._stopping = True
        self._woken.put(None)

    def _run(self, poll_seconds: float = 60.0) -> Flow[None]:
        """Run the due cycles, again and again, until `stop` is called.

        An error of the database is logged, and the pass tried again.
        """
        checked_number(
            poll_seconds,
            "poll_seconds",
            0,
            threading.TIMEOUT_MAX,
            but=(0,),
            use="seconds above zero",
        )
        while not self._stopping:
            try:
                yield from self._run_due()
            except errors.DatabaseError:
                _log.exception("the tenants could not be read; trying again in %g s", poll_seconds)
            if not self._stopping:
                yield from self._wait(poll_seconds)

    def _run_due(self) -> Flow[list[ConsolidationReport]]:
        """Run the cycle of each due tenant that no other worker has, and return the reports.

        An error that breaks one tenant's cycle off is logged and kept in `failures`; the others go
        on.

        Raises:
            DatabaseError: if the tenants cannot be read.
            InvalidInputError: if this worker is at work already, on another thread.
        """
        reports: list[ConsolidationReport] = []
        with self._only_pass():
            for tenant in (yield from invoke(self._store.run, lease.list_tenants())):
                report = None
                with self._contain_errors(tenant):
                    report = yield from self._visit(tenant)
                if report is not None:
                    self._on_report(report)
                    reports.append(report)
        return reports

    run, arun = both(_run)
    run_due, arun_due = both(_run_due)

    def _wait(self, seconds: float) -> Flow[None]:
        def wait() -> None:
            with suppress(Empty):
                self._woken.get(timeout=seconds)

        try:
            yield from off_loop(wait, sys.maxsize)
        except asyncio.CancelledError:
            self._woken.put(None)  # the thread that waits
            raise

    @contextmanager
    def _only_pass(self) -> Iterator[None]:
        """Refuse a second pass at once, which would share the worker's leases."""
        if not self._pass_lock.acquire(blocking=False):
            raise errors.InvalidInputError("this worker is at work already: make another one")
        try:
            self.failures = {}
            yield
        finally:
            self._pass_lock.release()

    @contextmanager
    def _contain_errors(self, tenant: str) -> Iterator[None]:
        """Log an error of one tenant's cycle, and let the others go on.

        It may be of any class: a state of another shape breaks a node, and a model's client raises
        what it likes. No other tenant may have to wait for it.
        """
        try:
            with translate_checkpointer_errors():
                yield
        except Exception as error:  # noqa: BLE001 - an outermost edge: one tenant's work ends here
            if errors.has_code(error, "lease_lost"):
                _log.warning("%s", error)
                return
            self.failures[tenant] = error
            _log.exception("the cycle of %s broke off; the next pass goes on with it", tenant)

    def _visit(self, tenant: str) -> Flow[ConsolidationReport | None]:
        if self._stopping or not (yield from self._is_due((yield from self._read_thread(tenant)))):
            return None
        held = yield from acquire_lease(self._store, tenant, self.holder, self._lease_seconds)
        if held is None:
            return None
        try:
            thread = yield from self._read_thread(
                tenant, held.fence
            )  # another worker may have written
            is_due = yield from self._is_due(thread)
            return (yield from self._run_cycle(held, thread)) if is_due else None
        finally:
            yield from held.end()

    def _run_cycle(self, held: Lease, thread: TenantThread) -> Flow[ConsolidationReport | None]:
        """Begin a cycle, or go on with one that was broken off."""
        state, config = thread.graph_input(held.fence)
        options: Any = {"stream_mode": "values", "durability": "sync"}
        steps: Any = self._graph.stream(state, config, **options)
        asteps: Any = self._graph.astream(state, config, **options)
        number = 0
        try:
            while (yield Ask(partial(next, steps, None), partial(anext, asteps, None))):
                number += 1
                yield from held.renew()
                if self._stopping:
                    break
                if number % _PRUNED_AFTER == 0:
                    yield from self._prune(held)
        finally:
            yield Ask(steps.close, asteps.aclose)
        thread = yield from self._read_thread(held.tenant, held.fence)
        if thread.snapshot is not None and not thread.is_at_work:
            yield from self._prune(held)
        return thread.report

    def _read_thread(self, tenant: str, fence: int | None = None) -> Flow[TenantThread]:
        """Read a tenant's thread."""
        graph, config = self._graph, thread_config(tenant)

        async def awaited() -> list[Any]:
            return [
                snapshot
                async for snapshot in graph.aget_state_history(config, limit=_LATEST_CHECKPOINTS)
            ]

        read_history = partial(graph.get_state_history, config, limit=_LATEST_CHECKPOINTS)
        history = yield Ask(lambda: list(read_history()), awaited)
        return TenantThread.from_history(tenant, history, fence)

    def _is_due(self, thread: TenantThread) -> Flow[bool]:
        if thread.is_at_work:
            return True
        last = yield from invoke(self._store.run, last_cycle_start(thread.tenant))
        return due_reason(self._schedule, last, now=self._store.flows.now) is not None

    def _prune(self, held: Lease) -> Flow[None]:
        """Drop the checkpoints before the last one, unless another holder wrote that."""
        saved, thread = self._checkpointer, lease.thread_name(held.tenant)
        try:
            with translate_checkpointer_errors():
                newest = yield from invoke(saved.get_tuple, thread_config(held.tenant))
                if newest is not None and newest.metadata.get(FENCE_KEY) == held.fence:
                    yield from invoke(saved.prune, [thread])
        except NotImplementedError:
            _log.debug("this checkpointer keeps every checkpoint: it cannot prune")
        except errors.DatabaseError:  # the next cycle drops them
            _log.warning("old checkpoints of %s could not be dropped", held.tenant, exc_info=True)


@dataclass(frozen=True, slots=True)
class Lease:
    """Lease of a tenant that a worker holds."""

    store: TieredStore
    tenant: str
    fence: int
    seconds: float
    threads: list[threading.Thread] = field(default_factory=list)
    """Threads that renew it until its end."""
    ending: threading.Event = field(default_factory=threading.Event)

    def renew(self) -> Flow[None]:
        """Renew the lease.

        Raises:
            ConflictError (lease_lost): if somebody else holds it by now.
        """
        terms = self.tenant, self.fence, self.store.flows.now, self.seconds
        if not (yield from invoke(self.store.run, lease.renew_lease(*terms))):
            raise errors.ConflictError(
                f"the lease of {self.tenant!r} has another holder by now", code="lease_lost"
            )

    def renew_until_end(self) -> None:
        """Renew the lease until its end; after a loss the cycle fails at its next step."""
        pause = self.seconds / RENEWALS
        while not self.ending.wait(pause):
            try:
                DRIVER.run(self.renew())
            except errors.DatabaseError as error:
                if error.code == "lease_lost":
                    return
                text = "the lease of %s could not be renewed: trying again in %g s"
                _log.warning(text, self.tenant, pause, exc_info=True)

    def end(self) -> Flow[None]:
        """Release the lease."""
        self.ending.set()
        for thread in self.threads:
            yield from off_loop(thread.join, sys.maxsize)
        try:
            yield from invoke(self.store.run, lease.release_lease(self.tenant, self.fence))
        except errors.DatabaseError:
            text = "the lease of %s could not be released: it ends by itself within %g s"
            _log.warning(text, self.tenant, self.seconds, exc_info=True)


def acquire_lease(
    store: TieredStore, tenant: str, holder: str, seconds: float
) -> Flow[Lease | None]:
    """Acquire a tenant's lease, renewed on a thread to its end; None if another worker has it."""
    acquiring = lease.acquire_lease(tenant, holder, store.flows.now, seconds)
    fence = yield from invoke(store.run, acquiring)
    if fence is None:
        return None
    held = Lease(store, tenant, fence, seconds)
    keeping = threading.Thread(target=held.renew_until_end, daemon=True, name="langmem-tiers-lease")
    held.threads.append(keeping)
    keeping.start()
    return held
