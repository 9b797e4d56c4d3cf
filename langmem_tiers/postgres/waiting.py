"""Waiting for Postgres until a call's deadline and no longer, even where the network is gone.

At the deadline, and where the caller is interrupted or cancelled, the server is asked to break the
statement off. The call waits a moment more for it, so that it knows whether it wrote something.
After that the connection is used no more: a late cancelling would hit the next statement.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, Final, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.generators import fetch_many
from psycopg.pq import TransactionStatus

from langmem_tiers.core.threads import Work
from langmem_tiers.postgres.deadline import NEVER, Deadline
from langmem_tiers.postgres.work import within

T = TypeVar("T")

GRACE_SECONDS: Final = 0.5
"""The time that a server has to hear that it is to break a statement off, and to do it."""
_INTERVAL: Final = 0.1
_INTERRUPTED: Final = (KeyboardInterrupt, SystemExit, asyncio.CancelledError)


class Overdue(psycopg.errors.QueryCanceled):
    """A statement was broken off at its call's deadline, and left nothing."""


class Unanswered(psycopg.OperationalError):
    """A server answered neither by a call's deadline nor to its cancelling."""


class _LateError(Exception):
    """The deadline has passed; one can still go on waiting."""


def _until(work: PQGen[T], deadline: Deadline) -> PQGen[T]:
    ready: Any = None
    while True:
        try:
            waits_for = work.send(ready)
        except StopIteration as end:
            result: T = end.value
            return result
        if deadline.passed:
            raise _LateError
        ready = yield waits_for


class Timed(psycopg.BaseConnection[Any]):
    """A connection on which nothing takes longer than the call that uses it."""

    deadline: Deadline = NEVER
    cut = False
    """True if something was broken off on it, so that it is to be thrown away."""
    _waits: Any

    def waited(
        self: Any, work: PQGen[T], interval: float = _INTERVAL, timeout: float | None = None
    ) -> Work[T]:
        """Wait as the driver does, until the deadline."""
        options: dict[str, float] = {} if timeout is None else {"timeout": timeout}
        if (left := self.deadline.left) is not None:
            interval = min(interval, left)
        timed = work if left is None else _until(work, self.deadline)
        try:
            result = yield self._waits(timed, self.pgconn.socket, interval=interval, **options)
        except _LateError:
            result = yield from self._break_off(work)
        except _INTERRUPTED:
            if self.pgconn.transaction_status == TransactionStatus.ACTIVE:
                with suppress(Unanswered):
                    try:
                        yield from self._break_off(work)
                    except Overdue:  # the cancelling has come
                        self.cut = False
            raise
        return result  # type: ignore[no-any-return]

    def _break_off(self: Any, work: PQGen[T]) -> Work[T]:
        """Break work off; return what comes of it all the same, or raise that nothing does."""
        self.cut = True
        if self.pgconn.transaction_status == TransactionStatus.ACTIVE:
            with suppress(psycopg.Error):
                yield self.cancel_safe(timeout=GRACE_SECONDS)
        try:
            rest = _until(work, Deadline(GRACE_SECONDS))
            return (yield self._waits(rest, self.pgconn.socket, interval=_INTERVAL))  # type: ignore[no-any-return]
        except psycopg.errors.QueryCanceled as error:
            raise Overdue(_said(self.deadline)) from error
        except _LateError:
            yield self.close()
            raise Unanswered(_said(self.deadline)) from None


def in_pipeline(conn: Any, work: Work[T]) -> Work[T]:
    """Do work whose statements are answered together; raise what Postgres said, also at its end.

    Where a transaction fails as it commits, the driver finds the rest of the answer unread as it
    leaves the pipeline, and says only that.
    """
    try:
        return (yield from within(conn.pipeline(), work))
    except psycopg.OperationalError as error:
        said = error.__context__
        if error.sqlstate is not None or not isinstance(said, psycopg.Error):
            raise
        if conn.pgconn.pipeline_status and not conn.cut:
            try:
                yield conn.wait(fetch_many(conn.pgconn))
                conn.pgconn.exit_pipeline_mode()
            except psycopg.OperationalError:  # nothing more comes, or not in time
                yield conn.close()
        raise said from said.__cause__


def _said(deadline: Deadline) -> str:
    if deadline.seconds is None:
        return "the call was interrupted"
    return f"the call was not done within {deadline.seconds:g} seconds"
