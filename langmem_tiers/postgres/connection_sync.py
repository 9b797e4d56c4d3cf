"""Generated from connection.py by `make sync`: what blocks. Change that file, not this one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import psycopg
from psycopg.pq.abc import PGconn
from psycopg.types import TypeInfo
from psycopg_pool import ConnectionPool

from langmem_tiers.postgres.errors import translated
from langmem_tiers.postgres.flow import Rows
from langmem_tiers.postgres.target import CONNECTION_SETTINGS, POOL_TIMEOUT_SECONDS, Target
from langmem_tiers.postgres.wire import arrivals, learn_types, learn_vectors

T = TypeVar("T")

_TIMEOUT = "SHOW statement_timeout"
_NO_TIMEOUT = "SET statement_timeout = 0"
_TIMEOUT_AGAIN = "SELECT set_config('statement_timeout', %s, false)"
"""These stand here and not in queries.sql because no flow runs them, only a build."""


class Connection(psycopg.Connection[Any]):
    """A connection that keeps one cursor for calls of a single statement.

    Making a cursor costs a fifth of what a get does.
    """

    _knows_vectors = False
    _single: psycopg.RawCursor[Any] | None = None

    def __init__(self, pgconn: PGconn) -> None:
        """Wrap what libpq opened."""
        super().__init__(pgconn)
        learn_types(self)
        self._arrivals = arrivals(self)

    @property
    def single(self) -> psycopg.RawCursor[Any]:
        """The cursor kept."""
        if self._single is None:
            self._single = psycopg.RawCursor(self)
        return self._single

    def is_ready(self, vector_type: str | None) -> bool:
        """Whether it stands, and knows vectors if it is to; False once it is closed.

        A server that goes away says so, or closes the socket: looking takes a microsecond, and
        the server is asked only if something came.
        """
        try:
            if self._arrivals.poll(0):
                self.execute("")
            self.learn_vectors(vector_type)
        except psycopg.OperationalError:
            if not self.closed:
                raise
        return not self.closed

    def learn_vectors(self, vector_type: str | None) -> None:
        """Look the vector type up, as long as it is not known; setup may create it later."""
        if vector_type and not self._knows_vectors:
            self._single = None  # it would go on with what it learned before
            self._knows_vectors = learn_vectors(self, TypeInfo.fetch(self, vector_type))

    @contextmanager
    def unhurried(self) -> Iterator[None]:
        """Let statements outside a transaction take as long as they take."""
        cursor = self.execute(_TIMEOUT, prepare=False)
        (before,) = cursor.fetchall()
        self.execute(_NO_TIMEOUT, prepare=False)
        yield
        self.execute(_TIMEOUT_AGAIN, before, prepare=False)


def rows_of(cursor: psycopg.Cursor[Any]) -> Rows:
    """All rows of a result, none for a statement that returns none."""
    result = cursor.pgresult
    return cursor.fetchall() if result is not None and result.nfields > 0 else []


class Pool(ConnectionPool[Connection]):
    """A pool that remembers when its server was found to be gone."""

    suspect = False
    """Whether a connection came back dead, so that the server may be gone."""

    def putconn(self, conn: Connection) -> None:
        """Take a connection back, dead or alive."""
        self.suspect = self.suspect or conn.closed
        super().putconn(conn)


class Connections:
    """The connections to a database: a pool, and another one once its server was gone."""

    def __init__(self, target: Target) -> None:
        """Describe the database; `open` connects."""
        self.target = target
        self._recovering = threading.Lock()
        self.pool = self._new_pool()

    def open(self) -> None:
        """Connect once to see that a server answers, then open the pool.

        It is full when this returns: a caller who comes before that would let it grow.

        Raises:
            DatabaseUnavailableError: at once, if no server answers.
            PoolExhaustedError: if it does not give the connections of `min_size`.
        """
        try:
            self._probe()
            self.pool.open(wait=True, timeout=POOL_TIMEOUT_SECONDS)
        except psycopg.Error as error:
            raise translated(error) from error

    def close(self) -> None:
        """Close every connection; nothing is left behind."""
        self.pool.close()

    def recover(self, lost: Pool) -> None:
        """Replace a pool whose server went away, once the server answers again.

        The new one is not waited for: it fills while its first callers come.

        Raises:
            psycopg.OperationalError: at once, while no server answers.
            EmbeddedServerError: if it is our own and cannot be started again.
        """
        with self._recovering:
            if self.pool is not lost:
                return
            lost.suspect = True
            self._reach()
            fresh = self._new_pool()
            fresh.open()
            self.pool = fresh
        lost.close()

    def _configure(self, conn: Connection) -> None:
        conn.execute(CONNECTION_SETTINGS, self.target.connection_settings(), prepare=False)
        conn.learn_vectors(self.target.vector_type)

    def _reach(self) -> None:
        """See that the server answers; one of our own is started again if it does not."""
        try:
            self._probe()
        except psycopg.OperationalError:
            if self.target.revive is None:
                raise
            self.target.revive()
            self._probe()

    def _probe(self) -> None:
        conn = psycopg.Connection.connect(self.target.conninfo, **self.target.connection_options())
        conn.close()

    def _new_pool(self) -> Pool:
        return Pool(
            self.target.conninfo,
            connection_class=Connection,
            configure=self._configure,
            **self.target.pool_options(),
        )
