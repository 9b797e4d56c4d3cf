"""The flows of a store: they take LangGraph's operations, and return rows and results."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias, TypeVar

from langgraph.store.base import GetOp, Item, Op, PutOp, Result, TTLConfig

from langmem_tiers.core.config import Role, StoreOptions
from langmem_tiers.core.errors import DatabaseError, cross_tenant_error
from langmem_tiers.core.memory import TIERS, Moment, Tier
from langmem_tiers.core.vectors import Distance, PackedVector
from langmem_tiers.postgres import flow, migrate
from langmem_tiers.postgres.flow import Ask, Call, Flow, GroupWrite, Query, Row, without_deadline
from langmem_tiers.postgres.group_commit import is_hopeless
from langmem_tiers.postgres.runner import Runner
from langmem_tiers.store import operations, read, upkeep, write
from langmem_tiers.store.read import ExpiringRow, ItemRow, ReadRequest, ReadScope
from langmem_tiers.store.write import WriteBatch

T = TypeVar("T")
_log = logging.getLogger(__name__)

_STATE_SECONDS = 60.0
"""The time after which a store reads again which vector indexes the database has."""


# Counts of reads: first in memory, then one statement for many reads.
#
# To write a counter on every read would cost more than the read. A process keeps its counts here.
# They go to the database in the background after a second, before they are read, and when the
# store is closed. No read waits for that. Counts that could not be written are kept for the next
# time. A crash loses the last of them. If only the answer was lost, they count twice.

FLUSH_SECONDS = 1.0
FLUSH_ENTRIES = 1000

PATIENCE_SECONDS = 2.0
"""The time-out of a statement that writes counts, while other calls may want its connection."""

LAST_PATIENCE_SECONDS = 10.0
"""The time-out of the statement that writes the last counts when the store is closed."""

ABANDONED_SECONDS = 30.0
"""The time after which a background write counts as abandoned: its event loop is gone."""

RETRY_SECONDS = 60.0
"""The pause of writes of counts after Postgres has refused one."""

BUSY_SECONDS = 10.0
"""The pause of writes of counts after one timed out, as on another's lock."""

MAX_ENTRIES = 10_000
"""The memories whose counts are kept while Postgres refuses them; reads of others go uncounted."""

_Key: TypeAlias = tuple[str, int]


class AccessBatch(NamedTuple):
    """Accesses to be written: their number by (tenant, id), and the time of the last.

    `written` are the memories whose accesses were written before. If one of them was deleted in
    that moment, the deletion did not see its counter. So the counter is dropped now.
    """

    counts: Mapping[_Key, int]
    last: datetime
    written: Collection[_Key]

    @property
    def calls(self) -> tuple[Call, ...]:
        """The calls that write them, sorted, so that two processes never deadlock."""
        keys = sorted(self.counts)
        counts = [self.counts[key] for key in keys]
        write = Call("count_accesses", {**_columns(keys), "counts": counts, "now": self.last})
        drop = Call("drop_counters", _columns(sorted(self.written)))
        return (*((drop,) if self.written else ()), *((write,) if keys else ()))


def _columns(keys: list[_Key]) -> dict[str, list[Any]]:
    return {"tenants": [tenant for tenant, _ in keys], "ids": [number for _, number in keys]}


class AccessBuffer:
    """Accesses not yet written, one entry a memory; safe for threads. A forked child has none."""

    def __init__(self) -> None:
        """Begin empty."""
        self._reset()
        _buffers.add(self)

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._pending: dict[_Key, int] = {}
        self._written: Collection[_Key] = ()
        self._last: datetime | None = None
        self._since = 0.0
        self._resting_until: float | None = None
        self._writing: Future[None] | None = None
        self._begun_at = 0.0

    def add(self, rows: Iterable[ExpiringRow], now: datetime) -> None:
        """Count an access of each memory."""
        with self._lock:
            if not self._pending:
                self._since = time.monotonic()
            self._last = now
            for row in rows:
                self._count((row.tenant, row.id), 1)

    @property
    def is_due(self) -> bool:
        """True if it is time to write them."""
        if not self._pending:
            return False
        now = time.monotonic()
        if self._resting_until is not None and now < self._resting_until:
            return False
        return now - self._since >= FLUSH_SECONDS or len(self._pending) >= FLUSH_ENTRIES

    def begin_writing(self, write: Callable[[], Future[None]]) -> None:
        """Begin to write them in the background, unless such a write is running."""
        with self._lock:
            if not self.is_writing:
                self._begun_at = time.monotonic()
                self._writing = write()

    @property
    def is_writing(self) -> bool:
        """True if a background write is running."""
        if self._writing is None or self._writing.done():
            return False
        return time.monotonic() - self._begun_at <= ABANDONED_SECONDS

    def wait(self) -> None:
        """Wait for the background write."""
        if self._writing is not None and self.is_writing:
            wait([self._writing], timeout=ABANDONED_SECONDS)

    def take(self, *, last: bool = False) -> AccessBatch | None:
        """Take all accesses out, to be written or given back.

        The `last` time, return also a batch without counts, if it has `written` memories.
        """
        with self._lock:
            if self._last is None or not (self._pending or (last and self._written)):
                return None
            pending, self._pending = self._pending, {}
            return AccessBatch(pending, self._last, self._written)

    def give_back(self, taken: AccessBatch) -> None:
        """Put back a batch that was not written."""
        with self._lock:
            if not self._pending:
                self._since = time.monotonic()
            self._last = max(taken.last, self._last or taken.last)
            for key, count in taken.counts.items():
                self._count(key, count)

    def confirm(self, taken: AccessBatch) -> None:
        """Note that a batch was written, and end a pause."""
        self._written = taken.counts.keys()
        self._resting_until = None

    def pause(self, error: DatabaseError) -> None:
        """Pause writes after Postgres refused one; the log says so once."""
        seconds = BUSY_SECONDS if error.code == "query_timeout" else RETRY_SECONDS
        if self._resting_until is None:
            _log.warning(
                "reads go on, but their count cannot be written: %s. It is tried again every "
                "%g seconds, and the counts of up to %d memories are kept until then",
                error,
                seconds,
                MAX_ENTRIES,
            )
        self._resting_until = time.monotonic() + seconds

    def _count(self, key: _Key, count: int) -> None:
        counted = self._pending.get(key)
        if counted is not None:
            self._pending[key] = counted + count
        elif self._resting_until is None or len(self._pending) < MAX_ENTRIES:
            self._pending[key] = count


_buffers: weakref.WeakSet[AccessBuffer] = weakref.WeakSet()


def _forget_parent_counts() -> None:
    """Drop the parent's counts in a forked child: the parent writes them."""
    for buffer in _buffers:
        buffer._reset()  # noqa: SLF001 - the class's own module


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_forget_parent_counts)


# The flows


class SharedObjects:
    """One object of each kind, made at its first use; safe for threads.

    A graph makes a coordinator for each of its nodes. They share these objects.
    """

    def __init__(self) -> None:
        """Begin without objects."""
        self._objects: dict[Callable[[], Any], Any] = {}

    def get(self, kind: Callable[[], T]) -> T:
        """Return the object of that kind, one for the store."""
        if kind not in self._objects:
            self._objects.setdefault(kind, kind())  # the first of several threads wins
        shared: T = self._objects[kind]
        return shared


class StoreFlows:
    """The flows of one store, and the little state between them.

    The state is: the tiers with an HNSW index, the accesses not yet written, and the objects
    `shared` by the coordinators of the store.
    """

    def __init__(
        self,
        options: StoreOptions,
        *,
        clock: Callable[[], datetime],
        ttl: Callable[[], TTLConfig | None],
    ) -> None:
        """Hold the options; `ttl` is called each time, as users may change the mapping."""
        self.options = options
        vector = options.index.vector if options.index else None
        self.distance = vector.distance if vector else Distance.COSINE
        self._clock = clock
        self._ttl = ttl
        self.ann_tiers: Sequence[Tier] = ()
        self._state_expires = -math.inf
        self._accesses = AccessBuffer()
        self.shared = SharedObjects()
        self.runner: Runner | None = None
        """The runner of background flows; without it, their work waits until a call needs it."""
        self._warned_of_lives = False
        self._upkeep = upkeep.Upkeep(options)

    @property
    def acting(self) -> Role:
        """The role whose rights the store has."""
        return "owner" if self.runner is None else self.runner.acting

    def batch(self, operations: Iterable[Op], tier: Tier | None) -> Flow[list[Result]]:
        """Run operations: all reads, then all writes; in `tier` alone if one is given."""
        todo = self.options.bounds.checked_batch(operations)
        if len(todo) == 1 and isinstance(todo[0], GetOp):
            return [(yield from self._get(todo[0], tier))]
        yield from flow.extend_deadline(len(todo))
        puts = {i: op for i, op in enumerate(todo) if isinstance(op, PutOp)}
        reads = {i: self._parse_read(op) for i, op in enumerate(todo) if i not in puts}
        batch = (yield from self._write_batch(puts.values())) if puts else None
        if batch is not None and not reads and tier is None:
            yield GroupWrite(batch, self.carry_out)
            return [None] * len(todo)
        requests = list(reads.values())
        lock = None if batch is None else write.lock_writes(batch.writes, self.options)
        answers = yield from self.read(requests, tier, lock)
        if batch is not None and lock is not None:
            own = () if reads else (lock,)
            yield from write.carry_out(batch, options=self.options, tier=tier, lock=own)
        yield from self.finish_reads(requests, answers)
        results: list[Result] = [None] * len(todo)
        for i, answer in zip(reads, answers, strict=True):
            results[i] = self._result(answer)
        return results

    def _write_batch(self, puts: Collection[PutOp]) -> Flow[WriteBatch]:
        """Check a batch's puts, and return one write a key, with the vectors of the texts."""
        long = flow.reading_size([op.value for op in puts])
        writes = yield from flow.off_loop(
            lambda: [operations.to_write(op, self.options) for op in puts], long
        )
        last = write.last_writes(writes)
        yield from self.refresh_state()
        return WriteBatch(last, (yield from write.embed_writes(last, self.options)), self.moment())

    def _parse_read(self, op: Op) -> ReadRequest:
        """Check and translate a read; an application's must name a tenant."""
        request = operations.to_read(op, self.options.bounds)
        if not request.tenant:
            self.refuse_application(f"a {type(op).__name__} without a tenant")
        return request

    def refuse_application(self, what: str) -> None:
        """Refuse a call across tenants if this store sees one tenant at a time."""
        if self.acting == "application":
            raise cross_tenant_error(what)

    def carry_out(self, writings: Sequence[WriteBatch]) -> Flow[None]:
        """Write for several calls, which waited together, in one transaction."""
        merged = write.merge_batches(writings)
        lock = write.lock_writes(merged.writes, self.options)
        yield from write.carry_out(merged, options=self.options, lock=(lock,))

    def _get(self, op: GetOp, tier: Tier | None) -> Flow[Item | None]:
        """Run a single get, the most frequent call, on the shortest way."""
        request = operations.to_get(op)
        if not request.tenant:
            self.refuse_application("a GetOp without a tenant")
        self.begin_to_flush()
        rows = yield read.lookup(request)
        if not rows:
            return None
        row, reading = ItemRow(*rows[0]), self._read_scope(tier)
        if not reading.includes(row):
            return None
        yield from self.mark_read((row,), reading.moment, (row,) if request.refresh else ())
        return operations.to_item(row)

    def read(
        self, reads: Sequence[ReadRequest], tier: Tier | None, lock: Call | None = None
    ) -> Flow[list[Any]]:
        """Answer reads; with a lock, take it first and leave the transaction open."""
        if not reads:
            return []
        self.begin_to_flush()
        vectors: Mapping[str, PackedVector | None] = {}
        if searches := [request for request in reads if isinstance(request, read.SearchRequest)]:
            yield from self.refresh_state()
            vectors = yield from flow.embed_texts(
                [search.text or "" for search in searches], self.options
            )
        if lock is not None:
            yield Query((lock,))
        reading = self._read_scope(tier)
        return (yield from read.answer_reads(reads, vectors, reading=reading, commit=lock is None))

    def finish_reads(self, reads: Sequence[ReadRequest], answers: Sequence[Any]) -> Flow[None]:
        """Log and count reads that have succeeded, and extend the lives of their memories."""
        got = [answer for answer in answers if isinstance(answer, ItemRow)]
        listed = (item for each in answers if isinstance(each, list) for item in each)
        rows = [item for item in listed if isinstance(item, ItemRow)]
        if rows and self.options.audit.reads:
            yield from self._log_read(rows)
        yield from self.mark_read(got, self.moment(), read.rows_to_refresh(reads, answers))

    def _result(self, answer: Any) -> Result:
        if isinstance(answer, ItemRow):
            return operations.to_item(answer)
        if isinstance(answer, list) and answer and isinstance(answer[0], ItemRow):
            return list(operations.to_search_items(answer, self.distance))
        return [tuple(labels) for labels in answer] if isinstance(answer, list) else None

    def _read_scope(self, tier: Tier | None) -> ReadScope:
        tiers = TIERS if tier is None else (tier,)
        return ReadScope(self.options, self.moment(), tiers, self.ann_tiers)

    def moment(self) -> Moment:
        """Return the moment of a call, which says what the call sees."""
        ttl = self._ttl()
        return Moment(self._clock(), ttl is None or ttl.get("omit_expired", False))

    def flush(self, seconds: float | None = None, *, last: bool = False) -> Flow[None]:
        """Write the accesses counted so far, within so many seconds; keep them if that fails."""
        if self._accesses.is_writing:
            wait_for = self._accesses.wait
            yield Ask(wait_for, lambda: asyncio.to_thread(wait_for))
        return (yield from self._flush(seconds, last=last))

    def _flush(self, seconds: float | None, *, last: bool = False) -> Flow[None]:
        taken = self._accesses.take(last=last)
        if taken is None:
            return
        limit = () if seconds is None else (_limit_time(seconds),)
        try:
            yield Query((*limit, *taken.calls), commit=True)
        except BaseException:  # a cancelled caller gives them back too
            self._accesses.give_back(taken)
            raise
        self._accesses.confirm(taken)

    def flush_before_read(self) -> Flow[None]:
        """Write the accesses before counters are read; the read goes on if Postgres refuses."""
        try:
            yield from self.flush(PATIENCE_SECONDS)
        except DatabaseError as error:
            if is_hopeless(error):
                raise  # the read would fail as well
            self._accesses.pause(error)

    def flush_last(self) -> Flow[None]:
        """Write the last accesses as the store is closed; the log says if they are lost."""
        try:
            yield from self.flush(LAST_PATIENCE_SECONDS, last=True)
        except DatabaseError as error:  # closing must not fail for that
            _log.warning("the last reads were not counted: %s", error)

    def begin_to_flush(self) -> None:
        """Begin to write the accesses in the background if it is time, so that no read waits."""
        runner = self.runner
        if runner is not None and self._accesses.is_due:
            self._accesses.begin_writing(
                lambda: runner.run_short_in_background(self._flush_in_background())
            )

    def _flush_in_background(self) -> Flow[None]:
        try:
            yield from self._flush(PATIENCE_SECONDS)
        except DatabaseError as error:
            if not is_hopeless(error):  # else the reads themselves fail and say so
                self._accesses.pause(error)

    def type_stats(self, scope: Mapping[str, str | None]) -> Flow[list[Row]]:
        """Return tier, memory type, memories and accesses of a tenant, also unwritten accesses."""
        yield from self.flush_before_read()
        params = {**scope, "alive_at": self.moment().alive_at}
        (rows,) = yield Query((Call("type_stats", params),), commit=True)
        return list(rows)

    def mark_read(
        self,
        rows: Sequence[ExpiringRow],
        moment: Moment,
        refreshed: Sequence[ExpiringRow] | None = None,
    ) -> Flow[None]:
        """Count reads of memories, and restart their lives, or only those of the `refreshed`.

        The call has its answer by then, and keeps it if Postgres refuses. But if reads are to be
        logged, a read that cannot be logged fails.
        """
        if rows:
            self._accesses.add(rows, moment.now)
            if self.options.audit.reads:
                yield from self._log_read(rows)
        lives = rows if refreshed is None else refreshed
        mortal = [row for row in lives if row.ttl_minutes is not None]
        try:
            if mortal:
                yield from read.extend_lives(mortal, moment)
        except DatabaseError as error:
            if not self._warned_of_lives:
                _log.warning("reads go on, but do not extend the life of what they read: %s", error)
            self._warned_of_lives = True

    def _log_read(self, rows: Sequence[ExpiringRow]) -> Flow[None]:
        ids: dict[str, list[int]] = {}
        for row in rows:
            ids.setdefault(row.tenant, []).append(row.id)
        calls = (Call("audit_read", {"tenant": t, "ids": some}) for t, some in ids.items())
        yield Query(tuple(calls), commit=True)

    @property
    def now(self) -> datetime:
        """The store's time."""
        return self._clock()

    @property
    def default_ttl(self) -> float | None:
        """The TTL mapping's minutes for memories without a TTL of their own."""
        ttl = self._ttl()
        return ttl.get("default_ttl") if ttl else None

    @without_deadline
    def set_up(self) -> Flow[None]:
        """Create or migrate the schema."""
        yield from migrate.set_up(self.options, self._clock())
        self._state_expires = -math.inf

    def check_set_up(self) -> Flow[None]:
        """Raise `not_set_up` if the database was not set up yet."""
        self.refuse_application("a sweep")
        yield from flow.rows_of("applied_migrations")

    def refresh_state(self) -> Flow[None]:
        """Read once a minute which tiers have an HNSW index, and check the database's settings."""
        index = self.options.index
        if index is None or time.monotonic() < self._state_expires:
            return
        state = yield from migrate.read_state(self.options)
        self.ann_tiers = state.ann_tiers
        self._state_expires = time.monotonic() + _STATE_SECONDS
        if self.runner is not None and self.acting == "owner":
            for begin in self._upkeep.due(state):
                self.runner.run_long_in_background(self._run_upkeep(begin))

    @without_deadline
    def _run_upkeep(self, begin: Callable[[], Flow[bool]]) -> Flow[None]:
        if (yield from begin()):
            self._state_expires = -math.inf

    @without_deadline
    def optimize(self) -> Flow[tuple[Tier, ...]]:
        """Tidy up, count large tenants, and build HNSW indexes where they pay; return the tiers."""
        self.refuse_application("optimize")
        built = yield from upkeep.optimize(self.options, build=self.acting == "owner")
        self._state_expires = -math.inf
        return built

    @without_deadline
    def sweep(self) -> Flow[int]:
        """Remove expired rows, and exposures without an outcome; return the number of memories."""
        self.refuse_application("a sweep")
        return (yield from upkeep.sweep(self._clock(), self.options))

    @without_deadline
    def tend(self) -> Flow[int]:
        """Sweep, then optimize, as a sweeper does each time; return how many memories went."""
        removed = yield from self.sweep()
        yield from self.optimize()
        return removed


def _limit_time(seconds: float) -> Call:
    return Call("limit_time", {"milliseconds": str(round(seconds * 1000))})
