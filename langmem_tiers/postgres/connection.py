"""Connections to Postgres, and pools of them that outlive their server."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from functools import partial
from typing import Any, TypeVar

import psycopg
from psycopg.pq.abc import PGconn
from psycopg.types import TypeInfo
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from langmem_tiers.core.threads import Work
from langmem_tiers.postgres.deadline import Deadline
from langmem_tiers.postgres.errors import translated
from langmem_tiers.postgres.sql import Statement
from langmem_tiers.postgres.target import CONNECTION_SETTINGS, POOL_TIMEOUT_SECONDS, Target
from langmem_tiers.postgres.waiting import Awaits, Timed, Waits
from langmem_tiers.postgres.walls import ACTING, Wall
from langmem_tiers.postgres.wire import arrivals, learn_types, learn_vectors
from langmem_tiers.postgres.work import AWAITED, Side

T = TypeVar("T")

_TIMEOUT = "SHOW statement_timeout"
_NO_TIMEOUT = "SET statement_timeout = 0"
_TIMEOUT_AGAIN = "SELECT set_config('statement_timeout', %s, false)"
"""These stand here and not in queries.sql because no flow runs them, only a build."""


class _Kept(Timed):
    """A connection that keeps one cursor for calls of a single statement.

    Making a cursor costs a fifth of what a get does.
    """

    new_cursor: Any
    _knows_vectors = False
    _single: Any = None

    def __init__(self, pgconn: PGconn) -> None:
        """Wrap what libpq opened."""
        super().__init__(pgconn)
        self.planned: set[str] = set()
        learn_types(self)
        self._arrivals = arrivals(self)

    @property
    def single(self) -> Any:
        """The cursor kept."""
        if self._single is None:
            self._single = self.new_cursor(self)
        return self._single

    def is_ready(self: Any, vector_type: str | None) -> Work[bool]:
        """Whether it stands, and knows vectors if it is to; False once it is closed.

        A server that goes away says so, or closes the socket: looking takes a microsecond, and
        the server is asked only if something came.
        """
        try:
            if self._arrivals.poll(0):
                yield self.execute("")
            yield from self.learn_vectors(vector_type)
        except psycopg.OperationalError:
            if not self.closed:
                raise
        return not self.closed

    def learn_vectors(self: Any, vector_type: str | None) -> Work[None]:
        """Look the vector type up, as long as it is not known; setup may create it later."""
        if vector_type and not self._knows_vectors:
            self._single = None  # it would go on with what it learned before
            self._knows_vectors = learn_vectors(self, (yield TypeInfo.fetch(self, vector_type)))

    def unhurried(self: Any, work: Work[T]) -> Work[T]:
        """Let statements outside a transaction take as long as they take."""
        cursor = yield self.execute(_TIMEOUT, prepare=False)
        (before,) = yield cursor.fetchall()
        yield self.execute(_NO_TIMEOUT, prepare=False)
        result = yield from work
        yield self.execute(_TIMEOUT_AGAIN, before, prepare=False)
        return result


class Connection(_Kept, Waits, psycopg.Connection[Any]):
    """One that blocks."""

    new_cursor = psycopg.RawCursor


class AsyncConnection(_Kept, Awaits, psycopg.AsyncConnection[Any]):
    """One that is awaited."""

    new_cursor = psycopg.AsyncRawCursor


class Connections:
    """The connections to a database: a pool, and another one once its server was gone."""

    def __init__(self, target: Target, side: Side) -> None:
        """Describe the database; `open` connects."""
        self.target = target
        self.side = side
        self.wall = Wall()
        self._lock = threading.Lock()
        self._recovery: Any = None
        """What replaces the pool just now, for all who wait for it."""
        self.pool = self._new_pool()

    @property
    def statements(self) -> Mapping[str, Statement]:
        """Every statement, as it reads for whoever connects."""
        return self.target.walled() if self.wall.acting == "application" else self.target.statements

    def open(self) -> Work[None]:
        """Connect once to see that a server answers, then open the pool.

        It is full when this returns: a caller who comes before that would let it grow.

        Raises:
            DatabaseUnavailableError: at once, if no server answers.
            PoolExhaustedError: if it does not give the connections of `min_size`.
        """
        try:
            yield from self._probe()
            limit = Deadline(self.target.call_seconds).within(POOL_TIMEOUT_SECONDS)
            yield self.pool.open(wait=True, timeout=limit)
        except psycopg.Error as error:
            raise translated(error) from error

    def close(self) -> Work[None]:
        """Close every connection; nothing is left behind."""
        if self._recovery is not None:
            yield self.side.ended(self._recovery, POOL_TIMEOUT_SECONDS)
        yield self.pool.close()

    def recover(self, lost: Any, deadline: Deadline) -> Work[None]:
        """Replace a pool whose server went away, once the server answers again.

        The new one is not waited for: it fills while its first callers come. It is replaced by one
        for all who come, and goes on without whoever waits no longer.

        Raises:
            psycopg.OperationalError: at once, while no server answers.
            QueryTimeoutError: if it is not known by the deadline.
            EmbeddedServerError: if it is our own and cannot be started again.
        """
        with self._lock:
            if self._recovery is None or self._recovery.done():
                self._recovery = self.side.begin(partial(self._recovered, lost))
            recovery = self._recovery
        if not (yield self.side.ended(recovery, deadline.left)):
            raise deadline.late("a server whose connection was lost does not answer")
        recovery.result()

    def give_back(self, conn: Any, pool: Any) -> Work[None]:
        """Return a connection to its pool, dead or alive."""
        conn.deadline = Deadline(POOL_TIMEOUT_SECONDS)
        if conn.closed:
            pool.suspect = True  # its server may be gone
        elif conn.cut:
            yield conn.close()
        elif conn.pgconn.pipeline_status:
            yield conn.close()  # who was cancelled as it entered a pipeline left it so
        yield self.side.whole(pool.putconn(conn))

    def _recovered(self, lost: Any) -> Work[None]:
        if (yield from self._replaced(lost)):
            yield lost.close()

    def _replaced(self, lost: Any) -> Work[bool]:
        """Whether it was this caller who replaced the pool."""
        if self.pool is not lost:
            return False
        lost.suspect = True
        yield from self._reach()
        fresh = self._new_pool()
        yield fresh.open()
        self.pool = fresh
        return True

    def _configure(self, conn: Any) -> Work[None]:
        conn.deadline = Deadline(POOL_TIMEOUT_SECONDS)
        yield conn.execute(CONNECTION_SETTINGS, self.target.connection_settings(), prepare=False)
        yield from conn.learn_vectors(self.target.vector_type)

    def _reach(self) -> Work[None]:
        """See that the server answers; one of our own is started again if it does not."""
        try:
            yield from self._probe()
        except psycopg.OperationalError:
            if self.target.revive is None:
                raise
            yield self.side.aside(self.target.revive)
            yield from self._probe()

    def _probe(self) -> Work[None]:
        kind: Any = AsyncConnection if self.side is AWAITED else Connection
        conn = yield kind.connect(self.target.conninfo, **self.target.connection_options())
        conn.deadline = Deadline(POOL_TIMEOUT_SECONDS)
        try:
            roles = self.target.roles
            acting = roles.taken
            if acting is None:
                cursor = yield conn.execute(ACTING, self.target.acting(), prepare=False)
                ((acting,),) = yield cursor.fetchall()
            self.wall = Wall(acting, roles.name_taken)
        finally:
            yield conn.close()

    def _new_pool(self) -> Any:
        awaited = self.side is AWAITED
        made: Any = (AsyncConnectionPool if awaited else ConnectionPool)(
            self.target.conninfo,
            connection_class=AsyncConnection if awaited else Connection,
            configure=lambda conn: self.side.do(self._configure(conn)),
            **self.target.pool_options(),
        )
        made.suspect = False
        return made
