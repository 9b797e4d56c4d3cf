"""Postgres and embedding models: the one module that does I/O.

A `Database` (or its twin `AsyncDatabase`) keeps a pool of connections, opened on first use,
and hands out sessions: the units of work that `run` and `arun` drive flows on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import psycopg
from langchain_core.embeddings import Embeddings
from psycopg.adapt import Buffer, Dumper
from psycopg.pq import Format, TransactionStatus
from psycopg.types import TypeInfo
from psycopg_pool import AsyncConnectionPool, ConnectionPool, PoolTimeout

from langmem_tiers.errors import (
    ConfigurationError,
    DatabaseError,
    DatabaseUnavailableError,
    NotSetUpError,
    PoolExhaustedError,
)
from langmem_tiers.flow import Call, Effect, Embed, Query, Rows, Script
from langmem_tiers.vectors import PackedVector

POOL_TIMEOUT_SECONDS = 5.0
"""How long a caller waits for a free connection before PoolExhaustedError."""

_TRANSIENT = (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected)
_ATTEMPTS = 5


class _VectorDumper(Dumper):
    """Sends a packed vector as it is; the type's OID is filled in for each database."""

    format = Format.BINARY

    def dump(self, obj: PackedVector) -> Buffer | None:
        return obj.data


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where a database is and how its statements read: what both twins share."""

    conninfo: str
    statements: Mapping[str, bytes]
    embeddings: Embeddings | None = None
    vector_type: str | None = None
    pool: Mapping[str, Any] = field(default_factory=dict)

    def pool_options(self) -> dict[str, Any]:
        """Arguments of the psycopg pool: the user's over our defaults."""
        options: dict[str, Any] = {"min_size": 1, "max_size": 10, "timeout": POOL_TIMEOUT_SECONDS}
        options.update(self.pool)
        if options.get("max_size") is None:
            options["max_size"] = options["min_size"]
        options["kwargs"] = {
            "autocommit": True,
            "prepare_threshold": 0,
            "application_name": "langmem-tiers",
            "connect_timeout": 5,
            **(options.get("kwargs") or {}),
        }
        return options

    def register(self, conn: psycopg.BaseConnection[Any], info: TypeInfo | None) -> None:
        """Let a connection send vectors in binary; without the extension there are none yet."""
        if info is not None and self.vector_type is not None:
            info.register(conn)
            dumper = type("_Dumper", (_VectorDumper,), {"oid": info.oid})
            conn.adapters.register_dumper(PackedVector, dumper)

    def embedder(self) -> Embeddings:
        """The embedding model, which a flow only asks for if one is configured."""
        if self.embeddings is None:
            raise ConfigurationError("this store has no embedding model; pass index={'embed': …}")
        return self.embeddings


def translated(error: psycopg.Error | PoolTimeout) -> DatabaseError:
    """Our error for one of the driver's; raise it from the original, which stays the cause."""
    if isinstance(error, PoolTimeout):
        return PoolExhaustedError(
            "no connection became free in time: raise pool_config['max_size'] or its 'timeout' "
            "(seconds), or check that the server still answers"
        )
    if isinstance(error, psycopg.errors.UndefinedTable | psycopg.errors.InvalidSchemaName):
        return NotSetUpError(
            "this database has no langmem-tiers tables: call store.setup() once, or run "
            "`langmem-tiers setup`"
        )
    if isinstance(error, psycopg.OperationalError):
        return DatabaseUnavailableError(
            f"Postgres does not answer or dropped the connection ({_first_line(error)}): check "
            "that it runs and that the connection string is right; nothing of this call is kept "
            "unless it was acknowledged"
        )
    return DatabaseError(f"Postgres refused the statement: {_first_line(error)}")


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _is_transient(error: psycopg.Error, conn: psycopg.BaseConnection[Any]) -> bool:
    """Whether running the same statements again, on another connection, may succeed.

    Every statement of this package can be repeated without harm, so a connection that turns
    out to be dead before a transaction is open is simply replaced once.
    """
    return isinstance(error, _TRANSIENT) or conn.closed


def _can_roll_back(conn: psycopg.BaseConnection[Any]) -> bool:
    return conn.info.transaction_status in (TransactionStatus.INTRANS, TransactionStatus.INERROR)


class Connection(psycopg.Connection[Any]):
    """A connection that keeps one cursor for calls of a single statement.

    Making a cursor costs a fifth of what a get does.
    """

    _single: psycopg.Cursor[Any] | None = None

    @property
    def single(self) -> psycopg.Cursor[Any]:
        """The cursor kept."""
        if self._single is None:
            self._single = self.cursor(binary=True)
        return self._single


class AsyncConnection(psycopg.AsyncConnection[Any]):
    """The same, asynchronous."""

    _single: psycopg.AsyncCursor[Any] | None = None

    @property
    def single(self) -> psycopg.AsyncCursor[Any]:
        """The cursor kept."""
        if self._single is None:
            self._single = self.cursor(binary=True)
        return self._single


class Session:
    """A unit of work on a blocking connection, taken when the first query needs it."""

    def __init__(self, database: Database) -> None:
        """Hold the database; nothing is opened yet."""
        self._database = database
        self._conn: Connection | None = None
        self._open = False

    def __enter__(self) -> Self:
        """Begin; no connection is taken yet."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None:
        """Commit, or roll back after an error, and give the connection back."""
        if self._conn is None:
            return
        try:
            if kind is None and self._open:
                self._conn.commit()
            elif kind is not None and _can_roll_back(self._conn):
                self._conn.rollback()
        except psycopg.Error as failure:
            raise translated(failure) from failure
        finally:
            self._release()

    def perform(self, effect: Effect, /) -> Any:
        """Do what a flow asked for."""
        if isinstance(effect, Embed):
            _refuse_open(self._open)
            model = self._database.target.embedder()
            if effect.purpose == "documents":
                return model.embed_documents(list(effect.texts))
            return [model.embed_query(text) for text in effect.texts]
        try:
            if isinstance(effect, Script):
                return self._script(effect)
            return self._query(effect)
        except (psycopg.Error, PoolTimeout) as error:
            raise translated(error) from error

    def _script(self, script: Script) -> None:
        conn = self._connection()
        if script.transactional:
            self._begin(conn)
        conn.execute(script.text.encode(), prepare=False)

    def _query(self, query: Query) -> list[Rows]:
        for attempt in range(1, _ATTEMPTS + 1):
            conn, began_before = self._connection(), self._open
            try:
                rows = self._execute(conn, query)
            except psycopg.Error as error:
                if began_before or attempt == _ATTEMPTS or not _is_transient(error, conn):
                    raise
                self._start_over(conn)
            else:
                self._open = not query.commit
                return rows
        raise AssertionError("unreachable")

    def _start_over(self, conn: Connection) -> None:
        """Undo a first query that may be tried again; replace dead connections."""
        if conn.closed:
            self._release()
            self._database.pool.check()
        else:
            conn.rollback()
            self._open = False

    def _execute(self, conn: Connection, query: Query) -> list[Rows]:
        if len(query.calls) == 1 and query.commit and not self._open:
            return [self._call_alone(conn, query.calls[0])]
        with conn.pipeline():
            if not query.commit:
                self._begin(conn)
            cursors = [self._call(conn, call) for call in query.calls]
            if query.commit and self._open:
                conn.commit()
        return [_rows(cursor) for cursor in cursors]

    def _begin(self, conn: Connection) -> None:
        if not self._open:
            conn.execute("BEGIN")
            self._open = True

    def _call_alone(self, conn: Connection, call: Call) -> Rows:
        statement = self._database.target.statements[call.name]
        return _rows(conn.single.execute(statement, call.params))

    def _call(self, conn: Connection, call: Call) -> psycopg.Cursor[Any]:
        statement = self._database.target.statements[call.name]
        return conn.execute(statement, call.params, binary=True)

    def _connection(self) -> Connection:
        if self._conn is None:
            self._conn = self._database.pool.getconn()
        return self._conn

    def _release(self) -> None:
        if self._conn is not None:
            self._database.pool.putconn(self._conn)
        self._conn, self._open = None, False


class AsyncSession:
    """The same unit of work on an asynchronous connection."""

    def __init__(self, database: AsyncDatabase) -> None:
        """Hold the database; nothing is opened yet."""
        self._database = database
        self._conn: AsyncConnection | None = None
        self._open = False

    async def __aenter__(self) -> Self:
        """Begin; no connection is taken yet."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None:
        """Commit, or roll back after an error, and give the connection back."""
        if self._conn is None:
            return
        try:
            if kind is None and self._open:
                await self._conn.commit()
            elif kind is not None and _can_roll_back(self._conn):
                await self._conn.rollback()
        except psycopg.Error as failure:
            raise translated(failure) from failure
        finally:
            await self._release()

    async def perform(self, effect: Effect, /) -> Any:
        """Do what a flow asked for."""
        if isinstance(effect, Embed):
            _refuse_open(self._open)
            model = self._database.target.embedder()
            if effect.purpose == "documents":
                return await model.aembed_documents(list(effect.texts))
            return [await model.aembed_query(text) for text in effect.texts]
        try:
            if isinstance(effect, Script):
                return await self._script(effect)
            return await self._query(effect)
        except (psycopg.Error, PoolTimeout) as error:
            raise translated(error) from error

    async def _script(self, script: Script) -> None:
        conn = await self._connection()
        if script.transactional:
            await self._begin(conn)
        await conn.execute(script.text.encode(), prepare=False)

    async def _query(self, query: Query) -> list[Rows]:
        for attempt in range(1, _ATTEMPTS + 1):
            conn, began_before = await self._connection(), self._open
            try:
                rows = await self._execute(conn, query)
            except psycopg.Error as error:
                if began_before or attempt == _ATTEMPTS or not _is_transient(error, conn):
                    raise
                await self._start_over(conn)
            else:
                self._open = not query.commit
                return rows
        raise AssertionError("unreachable")

    async def _start_over(self, conn: AsyncConnection) -> None:
        """Undo a first query that may be tried again; replace dead connections."""
        if conn.closed:
            await self._release()
            await self._database.pool.check()
        else:
            await conn.rollback()
            self._open = False

    async def _execute(self, conn: AsyncConnection, query: Query) -> list[Rows]:
        if len(query.calls) == 1 and query.commit and not self._open:
            return [await self._call_alone(conn, query.calls[0])]
        async with conn.pipeline():
            if not query.commit:
                await self._begin(conn)
            cursors = [await self._call(conn, call) for call in query.calls]
            if query.commit and self._open:
                await conn.commit()
        return [await _arows(cursor) for cursor in cursors]

    async def _begin(self, conn: AsyncConnection) -> None:
        if not self._open:
            await conn.execute("BEGIN")
            self._open = True

    async def _call_alone(self, conn: AsyncConnection, call: Call) -> Rows:
        statement = self._database.target.statements[call.name]
        return await _arows(await conn.single.execute(statement, call.params))

    async def _call(self, conn: AsyncConnection, call: Call) -> psycopg.AsyncCursor[Any]:
        statement = self._database.target.statements[call.name]
        return await conn.execute(statement, call.params, binary=True)

    async def _connection(self) -> AsyncConnection:
        if self._conn is None:
            self._conn = await self._database.pool.getconn()
        return self._conn

    async def _release(self) -> None:
        if self._conn is not None:
            await self._database.pool.putconn(self._conn)
        self._conn, self._open = None, False


def _refuse_open(transaction_open: bool) -> None:  # noqa: FBT001 - the one fact it looks at
    if transaction_open:
        raise RuntimeError("a flow must embed before its first query: no connection waits")


def _has_rows(cursor: psycopg.Cursor[Any] | psycopg.AsyncCursor[Any]) -> bool:
    return cursor.pgresult is not None and cursor.pgresult.nfields > 0


def _rows(cursor: psycopg.Cursor[Any]) -> Rows:
    return cursor.fetchall() if _has_rows(cursor) else []


async def _arows(cursor: psycopg.AsyncCursor[Any]) -> Rows:
    return await cursor.fetchall() if _has_rows(cursor) else []


class Database:
    """A Postgres database used from blocking code."""

    def __init__(self, target: Target) -> None:
        """Describe the database; `open` connects."""
        self.target = target
        self._info: TypeInfo | None = None
        self.pool = self._new_pool()

    def open(self) -> None:
        """Connect once to see that a server answers, then open the pool.

        Raises:
            DatabaseUnavailableError: at once, if no server answers.
        """
        try:
            with psycopg.connect(self.target.conninfo, **self.pool_kwargs()) as conn:
                self._learn(conn)
            self.pool.open()
        except psycopg.Error as error:
            raise translated(error) from error

    def close(self) -> None:
        """Close every connection; no thread is left behind."""
        self.pool.close()

    def reopen(self) -> None:
        """Start over with fresh connections, which know types that setup has created."""
        self.close()
        self.pool = self._new_pool()
        self.open()

    def session(self) -> Session:
        """A new unit of work."""
        return Session(self)

    def pool_kwargs(self) -> dict[str, Any]:
        """Arguments of each connection."""
        kwargs: dict[str, Any] = self.target.pool_options()["kwargs"]
        return kwargs

    def _new_pool(self) -> ConnectionPool[Connection]:
        return ConnectionPool(
            self.target.conninfo,
            open=False,
            connection_class=Connection,
            configure=lambda conn: self.target.register(conn, self._info),
            **self.target.pool_options(),
        )

    def _learn(self, conn: psycopg.Connection[Any]) -> None:
        if self.target.vector_type is not None:
            self._info = TypeInfo.fetch(conn, self.target.vector_type)


class AsyncDatabase:
    """A Postgres database used from a running event loop."""

    def __init__(self, target: Target) -> None:
        """Describe the database; `open` connects."""
        self.target = target
        self._info: TypeInfo | None = None
        self.pool = self._new_pool()

    async def open(self) -> None:
        """Connect once to see that a server answers, then open the pool.

        Raises:
            DatabaseUnavailableError: at once, if no server answers.
        """
        try:
            async with await psycopg.AsyncConnection.connect(
                self.target.conninfo, **self.target.pool_options()["kwargs"]
            ) as conn:
                await self._learn(conn)
            await self.pool.open()
        except psycopg.Error as error:
            raise translated(error) from error

    async def close(self) -> None:
        """Close every connection; no task is left behind."""
        await self.pool.close()

    async def reopen(self) -> None:
        """Start over with fresh connections, which know types that setup has created."""
        await self.close()
        self.pool = self._new_pool()
        await self.open()

    def session(self) -> AsyncSession:
        """A new unit of work."""
        return AsyncSession(self)

    def _new_pool(self) -> AsyncConnectionPool[AsyncConnection]:
        return AsyncConnectionPool(
            self.target.conninfo,
            open=False,
            connection_class=AsyncConnection,
            configure=self._configure,
            **self.target.pool_options(),
        )

    async def _configure(self, conn: psycopg.AsyncConnection[Any]) -> None:
        self.target.register(conn, self._info)

    async def _learn(self, conn: psycopg.AsyncConnection[Any]) -> None:
        if self.target.vector_type is not None:
            self._info = await TypeInfo.fetch(conn, self.target.vector_type)
