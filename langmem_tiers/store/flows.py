"""What a store does, as flows: LangGraph's operations in, rows and results out."""

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
from langmem_tiers.store import ops, read, upkeep, write
from langmem_tiers.store.read import ExpiringRow, ItemRow, ReadRequest, ReadScope
from langmem_tiers.store.write import WriteBatch

T = TypeVar("T")
_log = logging.getLogger(__name__)

_STATE_SECONDS = 60.0
"""How long a store believes what it last read about the database's vector indexes."""


# Counting what was read: in memory first, then in one statement for many reads.
#
# Writing a counter on every read would cost more than the read. The counts of one process are kept
# here and go to the database in the background once a second has passed, before they are read, and
# when the store is closed: no read waits for that. Counts that could not be written are kept for
# the next time. A crash loses the last of them; where only the answer was lost they count twice.

FLUSH_SECONDS = 1.0
FLUSH_ENTRIES = 1000

PATIENCE_SECONDS = 2.0
"""How long a statement that writes them may take while others may want its connection."""

LAST_PATIENCE_SECONDS = 10.0
"""The same of a store that is closed, which has no other time to write them."""

ABANDONED_SECONDS = 30.0
"""After how long nobody waits for what was begun: its event loop is gone."""

RETRY_SECONDS = 60.0
"""How long reads go without writing counts after Postgres has refused them."""

BUSY_SECONDS = 10.0
"""The same after somebody else's lock kept them from being written."""

MAX_ENTRIES = 10_000
"""The memories whose counts are kept while Postgres refuses them; further ones go uncounted."""

_Key: TypeAlias = tuple[str, int]


class AccessBatch(NamedTuple):
    """Accesses handed over to be written: how many by (tenant, id), and when the last was.

    `written` are the memories whose accesses were written before. One of them may have been deleted
    in that moment by somebody who did not see its counter, which goes now.
    """

    counts: Mapping[_Key, int]
    last: datetime
    written: Collection[_Key]

    @property
    def calls(self) -> tuple[Call, ...]:
        """The calls that write them; in order, so that two processes never wait in a ring."""
        keys = sorted(self.counts)
        counts = [self.counts[key] for key in keys]
        write = Call("count_accesses", {**_columns(keys), "counts": counts, "now": self.last})
        drop = Call("drop_counters", _columns(sorted(self.written)))
        return (*((drop,) if self.written else ()), *((write,) if keys else ()))


def _columns(keys: list[_Key]) -> dict[str, list[Any]]:
    return {"tenants": [tenant for tenant, _ in keys], "ids": [number for _, number in keys]}


class AccessBuffer:
    """Accesses not yet written, one entry a memory; safe for threads. A fork begins with none."""

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
        """Note that these memories were read."""
        with self._lock:
            if not self._pending:
                self._since = time.monotonic()
            self._last = now
            for row in rows:
                self._count((row.tenant, row.id), 1)

    @property
    def is_due(self) -> bool:
        """Whether it is time to write them."""
        if not self._pending:
            return False
        now = time.monotonic()
        if self._resting_until is not None and now < self._resting_until:
            return False
        return now - self._since >= FLUSH_SECONDS or len(self._pending) >= FLUSH_ENTRIES

    def begin_writing(self, write: Callable[[], Future[None]]) -> None:
        """Begin to write them in the background, unless that goes on already."""
        with self._lock:
            if not self.is_writing:
                self._begun_at = time.monotonic()
                self._writing = write()

    @property
    def is_writing(self) -> bool:
        """Whether some are being written in the background."""
        if self._writing is None or self._writing.done():
            return False
        return time.monotonic() - self._begun_at <= ABANDONED_SECONDS

    def wait(self) -> None:
        """Wait for what is being written in the background."""
        if self._writing is not None and self.is_writing:
            wait([self._writing], timeout=ABANDONED_SECONDS)

    def take(self, *, last: bool = False) -> AccessBatch | None:
        """Hand over everything there is, to be written or given back.

        The `last` time that is also what was written before, where nothing is left to count.
        """
        with self._lock:
            if self._last is None or not (self._pending or (last and self._written)):
                return None
            pending, self._pending = self._pending, {}
            return AccessBatch(pending, self._last, self._written)

    def give_back(self, taken: AccessBatch) -> None:
        """Keep what was not written for the next time."""
        with self._lock:
            if not self._pending:
                self._since = time.monotonic()
            self._last = max(taken.last, self._last or taken.last)
            for key, count in taken.counts.items():
                self._count(key, count)

    def confirm(self, taken: AccessBatch) -> None:
        """Writing went well (again)."""
        self._written = taken.counts.keys()
        self._resting_until = None

    def pause(self, error: DatabaseError) -> None:
        """Write nothing for a while, after Postgres refused to; said once in the log."""
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
    """Leave to a parent process the counts that it writes, in a fork."""
    for buffer in _buffers:
        buffer._reset()  # noqa: SLF001 - the class's own module


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_forget_parent_counts)


# What a store does


class SharedObjects:
    """One object of each kind, made when it is first asked for; several threads may use it.

    A graph makes a coordinator for each of its nodes, which find here what the earlier ones know.
    """

    def __init__(self) -> None:
        """Begin with none."""
        self._of: dict[Callable[[], Any], Any] = {}

    def get(self, kind: Callable[[], T]) -> T:
        """Return the object of that kind, one for the store."""
        if kind not in self._of:
            self._of.setdefault(kind, kind())  # whoever comes first of several threads
        kept: T = self._of[kind]
        return kept


class StoreFlows:
    """The flows of one store, and what it remembers between them.

    It remembers little: which tiers have an HNSW index, the accesses not yet written, and the
    objects `kept` for those who stand on the store.
    """

    def __init__(
        self,
        options: StoreOptions,
        *,
        clock: Callable[[], datetime],
        ttl: Callable[[], TTLConfig | None],
    ) -> None:
        """Hold the options; `ttl` is asked at each call, as users may change the mapping."""
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
        """Begins what no call waits for; without it, that is done when it has to be."""
        self._warned_of_lives = False
        self._upkeep = upkeep.Upkeep(options)

    @property
    def acting(self) -> Role:
        """Whose rights the store has."""
        return "owner" if self.runner is None else self.runner.acting

    def batch(self, operations: Iterable[Op], tier: Tier | None) -> Flow[list[Result]]:
        """Run operations: all reads, then all writes; in `tier` alone if one is given."""
        todo = self.options.bounds.batched(operations)
        if len(todo) == 1 and isinstance(todo[0], GetOp):
            return [(yield from self._get(todo[0], tier))]
        yield from flow.extend_deadline(len(todo))
        puts = {i: op for i, op in enumerate(todo) if isinstance(op, PutOp)}
        reads = {i: self._parse_read(op) for i, op in enumerate(todo) if i not in puts}
        writing = (yield from self._writing(puts.values())) if puts else None
        if writing is not None and not reads and tier is None:
            yield GroupWrite(writing, self.carry_out)
            return [None] * len(todo)
        asked = list(reads.values())
        lock = None if writing is None else write.lock_writes(writing.writes, self.options)
        answers = yield from self.read(asked, tier, lock)
        if writing is not None and lock is not None:
            own = () if reads else (lock,)
            yield from write.carry_out(writing, options=self.options, tier=tier, lock=own)
        yield from self.finish_reads(asked, answers)
        results: list[Result] = [None] * len(todo)
        for i, answer in zip(reads, answers, strict=True):
            results[i] = self._result(answer)
        return results

    def _writing(self, puts: Collection[PutOp]) -> Flow[WriteBatch]:
        """What a batch writes: checked, one write a key, with the vectors of its texts."""
        long = flow.reading_size([op.value for op in puts])
        writes = yield from flow.off_loop(
            lambda: [ops.to_write(op, self.options) for op in puts], long
        )
        last = write.last_writes(writes)
        yield from self.refresh_state()
        return WriteBatch(last, (yield from write.embed_writes(last, self.options)), self.moment())

    def _parse_read(self, op: Op) -> ReadRequest:
        """A read, checked at the door: an application's is about one tenant."""
        asked = ops.to_read(op, self.options.bounds)
        if not asked.tenant:
            self.refuse_application(f"a {type(op).__name__} without a tenant")
        return asked

    def refuse_application(self, what: str) -> None:
        """Refuse a call across tenants where this store sees one tenant at a time."""
        if self.acting == "application":
            raise cross_tenant_error(what)

    def carry_out(self, writings: Sequence[WriteBatch]) -> Flow[None]:
        """Write for several calls, which waited for it together, in one transaction."""
        merged = write.merge_batches(writings)
        lock = write.lock_writes(merged.writes, self.options)
        yield from write.carry_out(merged, options=self.options, lock=(lock,))

    def _get(self, op: GetOp, tier: Tier | None) -> Flow[Item | None]:
        """One get alone: the commonest call, on the shortest way."""
        asked = ops.to_get(op)
        if not asked.tenant:
            self.refuse_application("a GetOp without a tenant")
        self.begin_to_flush()
        rows = yield read.lookup(asked)
        if not rows:
            return None
        row, reading = ItemRow(*rows[0]), self._read_scope(tier)
        if not reading.includes(row):
            return None
        yield from self.mark_read((row,), reading.moment, (row,) if asked.refresh else ())
        return ops.to_item(row)

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
        """What a read leaves behind, once it has succeeded."""
        got = [answer for answer in answers if isinstance(answer, ItemRow)]
        listed = (item for each in answers if isinstance(each, list) for item in each)
        rows = [item for item in listed if isinstance(item, ItemRow)]
        if rows and self.options.audit.reads:
            yield from self._log_read(rows)
        yield from self.mark_read(got, self.moment(), read.rows_to_refresh(reads, answers))

    def _result(self, answer: Any) -> Result:
        if isinstance(answer, ItemRow):
            return ops.to_item(answer)
        if isinstance(answer, list) and answer and isinstance(answer[0], ItemRow):
            return list(ops.to_search_items(answer, self.distance))
        return [tuple(labels) for labels in answer] if isinstance(answer, list) else None

    def _read_scope(self, tier: Tier | None) -> ReadScope:
        tiers = TIERS if tier is None else (tier,)
        return ReadScope(self.options, self.moment(), tiers, self.ann_tiers)

    def moment(self) -> Moment:
        """When a call happens, and what it is to see."""
        ttl = self._ttl()
        return Moment(self._clock(), ttl is None or ttl.get("omit_expired", False))

    def flush(self, seconds: float | None = None, *, last: bool = False) -> Flow[None]:
        """Write the accesses counted so far, within so many seconds; what is refused is kept."""
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
        except BaseException:  # also where a caller was cancelled meanwhile
            self._accesses.give_back(taken)
            raise
        self._accesses.confirm(taken)

    def flush_before_read(self) -> Flow[None]:
        """Write them before they are read, which they are though Postgres refuses to write."""
        try:
            yield from self.flush(PATIENCE_SECONDS)
        except DatabaseError as error:
            if is_hopeless(error):
                raise  # there is nothing that could answer the read either
            self._accesses.pause(error)

    def flush_last(self) -> Flow[None]:
        """Write them as the store is closed; the log says if they are lost."""
        try:
            yield from self.flush(LAST_PATIENCE_SECONDS, last=True)
        except DatabaseError as error:  # they are not worth an error here
            _log.warning("the last reads were not counted: %s", error)

    def begin_to_flush(self) -> None:
        """Write them in the background if it is time: no read waits for a lock on them."""
        runner = self.runner
        if runner is not None and self._accesses.is_due:
            self._accesses.begin_writing(
                lambda: runner.run_short_in_background(self._flush_in_background())
            )

    def _flush_in_background(self) -> Flow[None]:
        try:
            yield from self._flush(PATIENCE_SECONDS)
        except DatabaseError as error:
            if not is_hopeless(error):  # else the reads themselves say so
                self._accesses.pause(error)

    def type_stats(self, scope: Mapping[str, str | None]) -> Flow[list[Row]]:
        """Tier, memory type, memories and accesses of a tenant, accesses counted so far too."""
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
        """Count what was read, and begin its life again, or that of the `refreshed`.

        The answer of the call is known by then, and stands if Postgres refuses; but where reads
        are to be logged, none is answered that is not.
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
        """Minutes that the TTL mapping gives to what has no TTL of its own."""
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
        """Learn once a minute which tiers have an HNSW index, and that the index fits."""
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
        """Tidy up, count large tenants, and build HNSW indexes where they pay; the tiers built."""
        self.refuse_application("optimize")
        built = yield from upkeep.optimize(self.options, build=self.acting == "owner")
        self._state_expires = -math.inf
        return built

    @without_deadline
    def sweep(self) -> Flow[int]:
        """Remove what has expired, and what waits in vain for an outcome; how many memories."""
        self.refuse_application("a sweep")
        return (yield from upkeep.sweep(self._clock(), self.options))

    @without_deadline
    def tend(self) -> Flow[int]:
        """What a sweeper does each time: sweep, then optimize; how many were removed."""
        removed = yield from self.sweep()
        yield from self.optimize()
        return removed


def _limit_time(seconds: float) -> Call:
    return Call("limit_time", {"milliseconds": str(round(seconds * 1000))})
