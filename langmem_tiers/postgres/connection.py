"""Connections to Postgres, and pools of them that outlive their server.

What blocks is `connection_sync.py`, made of this file by `make sync`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import psycopg
from psycopg.pq.abc import PGconn
from psycopg.types import TypeInfo
from psycopg_pool import AsyncConnectionPool

from langmem_tiers.postgres.errors import translated
from langmem_tiers.postgres.flow import Rows
from langmem_tiers.postgres.target import CONNECTION_SETTINGS, POOL_TIMEOUT_SECONDS, Target
from langmem_tiers.postgres.wire import arrivals, learn_types, learn_vectors

T = TypeVar("T")

_TIMEOUT = "SHOW statement_timeout"
_NO_TIMEOUT = "SET statement_timeout = 0"
_TIMEOUT_AGAIN = "SELECT set_config('statement_timeout', %s, false)"
"""These stand here and not in queries.sql because no flow runs them, only a build."""


class AsyncConnection(psycopg.AsyncConnection[Any]):
    """A connection that keeps one cursor for calls of a single statement.

    Making a cursor costs a fifth of what a get does.
    """

    _knows_vectors = False
    _single: psycopg.AsyncRawCursor[Any] | None = None

    def __init__(self, pgconn: PGconn) -> None:
        """Wrap what libpq opened."""
        super().__init__(pgconn)
        learn_types(self)
        self._arrivals = arrivals(self)

    @property
    def single(self) -> psycopg.AsyncRawCursor[Any]:
        """The cursor kept."""
        if self._single is None:
            self._single = psycopg.AsyncRawCursor(self)
        return self._single

    async def is_ready(self, vector_type: str | None) -> bool:
        """Whether it stands, and knows vectors if it is to; False once it is closed.

        A server that goes away says so, or closes the socket: looking takes a microsecond, and
        the server is asked only if something came.
        """
        try:
            if self._arrivals.poll(0):
                await self.execute("")
            await self.learn_vectors(vector_type)
        except psycopg.OperationalError:
            if not self.closed:
                raise
        return not self.closed

    async def learn_vectors(self, vector_type: str | None) -> None:
        """Look the vector type up, as long as it is not known; setup may create it later."""
        if vector_type and not self._knows_vectors:
            self._single = None  # it would go on with what it learned before
            self._knows_vectors = learn_vectors(self, await TypeInfo.fetch(self, vector_type))

    @asynccontextmanager
    async def unhurried(self) -> AsyncIterator[None]:
        """Let statements outside a transaction take as long as they take."""
        cursor = await self.execute(_TIMEOUT, prepare=False)
        (before,) = await cursor.fetchall()
        await self.execute(_NO_TIMEOUT, prepare=False)
        yield
        await self.execute(_TIMEOUT_AGAIN, before, prepare=False)


async def rows_of(cursor: psycopg.AsyncCursor[Any]) -> Rows:
    """All rows of a result, none for a statement that returns none."""
    result = cursor.pgresult
    return await cursor.fetchall() if result is not None and result.nfields > 0 else []


async def whole(work: Callable[[T], Coroutine[Any, Any, None]], one: T) -> None:  # async only
    """Do what may not be left half done: who is cancelled meanwhile hears of it when it is done.

    A connection that is not given back to the end is lost to its pool, and so is a pool that is
    being replaced.
    """
    doing = asyncio.create_task(work(one))
    cancelled: asyncio.CancelledError | None = None
    while not doing.done():
        try:
            await asyncio.wait({doing})
        except asyncio.CancelledError as error:
            cancelled = error
    doing.result()
    if cancelled is not None:
        raise cancelled


class AsyncPool(AsyncConnectionPool[AsyncConnection]):
    """A pool that remembers when its server was found to be gone."""

    suspect = False
    """Whether a connection came back dead, so that the server may be gone."""

    async def putconn(self, conn: AsyncConnection) -> None:
        """Take a connection back, dead or alive."""
        self.suspect = self.suspect or conn.closed
        await super().putconn(conn)


class AsyncConnections:
    """The connections to a database: a pool, and another one once its server was gone."""

    def __init__(self, target: Target) -> None:
        """Describe the database; `open` connects."""
        self.target = target
        self._recovering = asyncio.Lock()
        self.pool = self._new_pool()

    async def open(self) -> None:
        """Connect once to see that a server answers, then open the pool.

        It is full when this returns: a caller who comes before that would let it grow.

        Raises:
            DatabaseUnavailableError: at once, if no server answers.
            PoolExhaustedError: if it does not give the connections of `min_size`.
        """
        try:
            await self._probe()
            await self.pool.open(wait=True, timeout=POOL_TIMEOUT_SECONDS)
        except psycopg.Error as error:
            raise translated(error) from error

    async def close(self) -> None:
        """Close every connection; nothing is left behind."""
        await self.pool.close()

    async def recover(self, lost: AsyncPool) -> None:
        """Replace a pool whose server went away, once the server answers again.

        The new one is not waited for: it fills while its first callers come.

        Raises:
            psycopg.OperationalError: at once, while no server answers.
            EmbeddedServerError: if it is our own and cannot be started again.
        """
        async with self._recovering:
            if self.pool is not lost:
                return
            lost.suspect = True
            await self._reach()
            fresh = self._new_pool()
            await fresh.open()
            self.pool = fresh
        await lost.close()

    async def _configure(self, conn: AsyncConnection) -> None:
        await conn.execute(CONNECTION_SETTINGS, self.target.connection_settings(), prepare=False)
        await conn.learn_vectors(self.target.vector_type)

    async def _reach(self) -> None:
        """See that the server answers; one of our own is started again if it does not."""
        try:
            await self._probe()
        except psycopg.OperationalError:
            if self.target.revive is None:
                raise
            await asyncio.to_thread(self.target.revive)
            await self._probe()

    async def _probe(self) -> None:
        conn = await psycopg.AsyncConnection.connect(
            self.target.conninfo, **self.target.connection_options()
        )
        await conn.close()

    def _new_pool(self) -> AsyncPool:
        return AsyncPool(
            self.target.conninfo,
            connection_class=AsyncConnection,
            configure=self._configure,
            **self.target.pool_options(),
        )
