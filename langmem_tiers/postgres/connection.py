"""Connections to Postgres: their deadlines, their sessions' settings, and how values are encoded.

No statement takes longer than the deadline of its call, even if the network is gone. At the
deadline, and if the caller is interrupted or cancelled, the connection asks the server to cancel
the statement. It waits a moment for the answer, so that the call knows whether it wrote something.
Then the connection is thrown away: a late cancellation would hit its next statement.
"""

from __future__ import annotations

import asyncio
import select
import struct
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from json import JSONDecoder
from typing import Any, Final, TypeVar

import psycopg
from psycopg import waiting
from psycopg.abc import PQGen
from psycopg.adapt import Buffer, Dumper, Loader
from psycopg.generators import fetch_many
from psycopg.pq import Format, TransactionStatus
from psycopg.pq.abc import PGconn
from psycopg.types.array import ListDumper
from psycopg.types.datetime import TimestamptzBinaryLoader

from langmem_tiers.core.concurrency import Work, run_async, run_sync
from langmem_tiers.core.errors import DatabaseError
from langmem_tiers.core.vectors import PackedVector, PackedVectors
from langmem_tiers.postgres.connection_config import CONNECTION_FACTS, Target
from langmem_tiers.postgres.driver import NEVER, Deadline
from langmem_tiers.postgres.errors import NOT_SET_UP, CancelUnanswered, StatementCut

T = TypeVar("T")

GRACE_SECONDS: Final = 0.5
"""The time that a server has to cancel a statement when it is asked to."""
_WAIT_SECONDS: Final = 0.1
_INTERRUPTED: Final = (KeyboardInterrupt, SystemExit, asyncio.CancelledError)
_KEPT_CURSORS: Final = 2
"""The number of cursors that a connection keeps: one for its settings, one for a statement."""


class _DeadlinePassedError(Exception):
    """The deadline has passed; waiting can go on."""


def _stop_at(work: PQGen[T], deadline: Deadline) -> PQGen[T]:
    ready: Any = None
    while True:
        try:
            waits_for = work.send(ready)
        except StopIteration as end:
            result: T = end.value
            return result
        if deadline.passed:
            raise _DeadlinePassedError
        ready = yield waits_for


class _TimedConnection(psycopg.BaseConnection[Any]):
    """A connection with a deadline, which keeps its cursors for calls of a single statement.

    To make a cursor costs a fifth of a get.
    """

    new_cursor: Any
    deadline: Deadline = NEVER
    is_broken_off = False
    """True if a statement was broken off on it, so that it must be thrown away."""
    is_pooled = False
    """True if its next transaction may run in another session of the server."""
    settings: Mapping[str, Any]
    """The settings with which each transaction begins if it is pooled; see `Target.settings`."""
    _wait_on: Any
    _knows_vectors = False
    _cursors: tuple[Any, ...] = ()

    def __init__(self, pgconn: PGconn) -> None:
        """Wrap a connection of libpq."""
        super().__init__(pgconn)
        self.planned: set[str] = set()
        self.adapters.register_loader("jsonb", _JsonbLoader)
        self.adapters.register_dumper(list, _ListDumper)
        self._incoming = select.poll()
        self._incoming.register(pgconn.socket, select.POLLIN)

    def wait_until_deadline(
        self: Any, work: PQGen[T], interval: float = _WAIT_SECONDS, timeout: float | None = None
    ) -> Work[T]:
        """Wait like psycopg, but only until the deadline."""
        options: dict[str, float] = {} if timeout is None else {"timeout": timeout}
        if (left := self.deadline.left) is not None:
            interval = min(interval, left)
        timed = work if left is None else _stop_at(work, self.deadline)
        try:
            result = yield self._wait_on(timed, self.pgconn.socket, interval=interval, **options)
        except _DeadlinePassedError:
            result = yield from self._break_off(work)
        except _INTERRUPTED:
            if self.pgconn.transaction_status == TransactionStatus.ACTIVE:
                with suppress(psycopg.Error):  # the caller gets the interrupt alone
                    try:
                        yield from self._break_off(work)
                    except StatementCut:  # the server has cancelled it
                        self.is_broken_off = False
            raise
        return result  # type: ignore[no-any-return]

    def _break_off(self: Any, work: PQGen[T]) -> Work[T]:
        """Break work off; return its result if it ends all the same, else raise."""
        self.is_broken_off = True
        seconds = self.deadline.seconds
        reason = "the call was interrupted"
        if seconds is not None:
            reason = f"the call was not done within {seconds:g} seconds"
        if self.pgconn.transaction_status == TransactionStatus.ACTIVE:
            with suppress(psycopg.Error):
                yield self.cancel_safe(timeout=GRACE_SECONDS)
        try:
            rest = _stop_at(work, Deadline(GRACE_SECONDS))
            return (yield self._wait_on(rest, self.pgconn.socket, interval=_WAIT_SECONDS))  # type: ignore[no-any-return]
        except psycopg.errors.QueryCanceled as error:
            raise StatementCut(reason) from error
        except _DeadlinePassedError:
            yield self.close()
            raise CancelUnanswered(reason) from None

    def cursor_at(self, place: int) -> Any:
        """Return the cursor for the statement at a place of a round trip."""
        if place >= _KEPT_CURSORS:
            return self.new_cursor(self)
        if not self._cursors:
            self._cursors = tuple(self.new_cursor(self) for _ in range(_KEPT_CURSORS))
        return self._cursors[place]

    def is_ready(self: Any, target: Target) -> Work[bool]:
        """Return True if it is open, passes the target's check, and its session is set up.

        A server that goes away says so, or closes the socket. To look at the socket takes a
        microsecond; the server is asked only if something came.
        """
        try:
            if self._incoming.poll(0):
                yield self.execute("")
            if target.check is not None and not (yield from self._passes(target.check)):
                return False
            if not self._knows_vectors:
                yield from self.set_up_session(target)
        except psycopg.OperationalError:
            if not self.closed:
                raise
        return not self.closed

    def _passes(self: Any, check: Callable[[Any], Any]) -> Work[bool]:
        try:
            yield check(self)
        except Exception:  # noqa: BLE001 - a caller's check may raise anything
            self.is_broken_off = True  # the next one may pass
            return False
        return True

    def set_up_session(self: Any, target: Target) -> Work[None]:
        """Learn where pgvector is, and apply the settings; repeated until setup has made pgvector.

        The connection is a pooler's if another process answers than the one that it was given. A
        pooler shares settings and prepared statements with others. So each transaction on it
        begins with its settings, and prepares nothing. A session of our own gets them once.
        """
        vector_type = target.vector.vector_type if target.vector else None
        cursor = yield self.execute(CONNECTION_FACTS, {"type": vector_type}, prepare=False)
        ((process, timeout, vectors_in, *oids),) = yield cursor.fetchall()
        self.settings = target.settings(timeout, vectors_in)
        if self.is_pooled or process != self.info.backend_pid:
            self.treat_as_pooled(target)
        else:
            enter = target.statements["enter"]
            params = {**self.settings, "local": False, "role": None, "tenant": ""}
            values = [params[name] for name in enter.names]
            yield self.new_cursor(self).execute(enter.text, values, prepare=False)
        self._cursors = ()  # the old ones keep the old adapters
        learned = self._register_vectors(*oids)
        self._knows_vectors = learned or (vectors_in is not None and vector_type is None)

    def treat_as_pooled(self: Any, target: Target | None = None) -> None:
        """Rely no longer on the session's settings and prepared statements."""
        self.is_pooled = True
        self.adapters.register_loader("timestamptz", _TimeLoader)
        if target is None or not target.sets_prepare_threshold:
            self.prepare_threshold = None

    def _register_vectors(self, oid: int | None, array_oid: int | None) -> bool:
        """Send vectors in binary from now on; False if the database has no vector type yet."""
        vector_dumper: type[Dumper] = _NoVectorDumper
        many: type[Dumper] = _NoVectorDumper
        if oid is not None:
            vector_dumper = type("_OneVector", (_VectorDumper,), {"oid": oid})
            many = type("_ManyVectors", (_VectorsDumper,), {"oid": array_oid, "element_oid": oid})
        self.adapters.register_dumper(PackedVector, vector_dumper)
        self.adapters.register_dumper(PackedVectors, many)
        return oid is not None


class Connection(_TimedConnection, psycopg.Connection[Any]):
    """A blocking connection."""

    new_cursor = psycopg.RawCursor
    _wait_on = staticmethod(waiting.wait)

    def wait(self, *args: Any, **options: Any) -> Any:
        """Wait like psycopg, but only until the deadline."""
        return run_sync(self.wait_until_deadline(*args, **options))


class AsyncConnection(_TimedConnection, psycopg.AsyncConnection[Any]):
    """An awaited connection."""

    new_cursor = psycopg.AsyncRawCursor
    _wait_on = staticmethod(waiting.wait_async)

    async def wait(self, *args: Any, **options: Any) -> Any:
        """Wait like psycopg, but only until the deadline."""
        return await run_async(self.wait_until_deadline(*args, **options))


def in_pipeline(conn: Any, work: Work[T]) -> Work[T]:
    """Do work in a pipeline, whose statements are answered together; raise Postgres' own error.

    If a transaction fails as it commits, psycopg leaves the pipeline with the rest of the answer
    unread, and raises an error about that alone.
    """
    try:
        pipeline = conn.pipeline()
        if not hasattr(pipeline, "__aenter__"):
            with pipeline:  # no signal can come between its entry and the `try`
                return (yield from work)
        yield pipeline.__aenter__()
        try:
            result = yield from work
        except BaseException as error:
            yield pipeline.__aexit__(type(error), error, error.__traceback__)
            raise
        yield pipeline.__aexit__(None, None, None)
    except psycopg.OperationalError as error:
        cause = error.__context__
        if error.sqlstate is not None or not isinstance(cause, psycopg.Error):
            raise
        if conn.pgconn.pipeline_status and not conn.is_broken_off:
            try:
                yield conn.wait(fetch_many(conn.pgconn))
                conn.pgconn.exit_pipeline_mode()
            except psycopg.OperationalError:  # nothing more comes, or not in time
                yield conn.close()
        raise cause from cause.__cause__
    return result


# Encodings of values: vectors and arrays out, jsonb and times in


class _VectorDumper(Dumper):
    """Sends a packed vector as it is; a subclass for each database has the type's OID."""

    format = Format.BINARY

    def dump(self, obj: PackedVector) -> Buffer | None:
        return obj.data


class _VectorsDumper(_VectorDumper):
    """Sends vectors as a one-dimensional array in Postgres' binary form."""

    element_oid = 0

    def dump(self, obj: PackedVectors) -> Buffer | None:  # type: ignore[override]
        parts = [struct.pack(">iiIii", 1, 0, self.element_oid, len(obj), 1)]
        for vector in obj:
            parts += (struct.pack(">i", len(vector.data)), vector.data)
        return b"".join(parts)


class _NoVectorDumper(_VectorDumper):
    """Refuses vectors while the database has no vector type."""

    def dump(self, obj: PackedVector) -> Buffer | None:  # noqa: ARG002 - nothing to send it to
        raise DatabaseError(NOT_SET_UP, code="not_set_up")


class _ElementEscape:
    """Escapes an array's element by `replace`: psycopg's pattern calls Python for each quote."""

    def sub(self, _: bytes, element: bytes) -> bytes:
        return element.replace(b"\\", b"\\\\").replace(b'"', b'\\"')


class _ListDumper(ListDumper):
    """Sends arrays like psycopg, but a value of a million quotation marks in a moment."""

    # psycopg's own name for its pattern, of which it calls only `sub`. If psycopg renamed it,
    # arrays would be sent psycopg's way.
    _re_esc = _ElementEscape()  # type: ignore[assignment]


_parse = JSONDecoder().raw_decode


class _JsonbLoader(Loader):
    """Reads jsonb without looking for space around it, as Postgres writes none."""

    format = Format.BINARY

    def load(self, data: Buffer) -> Any:
        """Parse the text behind the byte of the format's version."""
        return _parse(str(data[1:], "utf-8"))[0]


_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


class _TimeLoader(TimestamptzBinaryLoader):
    """Reads times in UTC, whatever the session's time zone is."""

    def __init__(self, oid: int, context: Any = None) -> None:  # noqa: ARG002
        """Set up without looking at a connection."""
        super().__init__(oid, None)

    def load(self, data: Buffer) -> datetime:
        """Return the epoch plus the microseconds."""
        try:
            return _EPOCH + timedelta(microseconds=int.from_bytes(data, signed=True))
        except OverflowError:  # psycopg explains the error
            return super().load(data)
