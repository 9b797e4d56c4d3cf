"""Connections that know pgvector's types, and what the driver's errors mean."""

from __future__ import annotations

import struct
from typing import Any

import psycopg
from psycopg.adapt import Buffer, Dumper
from psycopg.pq import Format, TransactionStatus
from psycopg.types import TypeInfo
from psycopg_pool import PoolTimeout

from langmem_tiers.errors import (
    DatabaseError,
    DatabaseUnavailableError,
    NotSetUpError,
    PoolExhaustedError,
)
from langmem_tiers.flow import Rows
from langmem_tiers.vectors import PackedVector, PackedVectors

_NOT_SET_UP = (
    "this database has no langmem-tiers tables: call store.setup() once, or run "
    "`langmem-tiers setup`"
)
_TRANSIENT = (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected)


class _VectorDumper(Dumper):
    """Sends a packed vector as it is; the type's OID is filled in for each database."""

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


class Connection(psycopg.Connection[Any]):
    """A connection that keeps one cursor for calls of a single statement.

    Making a cursor costs a fifth of what a get does.
    """

    knows_vectors = False
    _single: psycopg.RawCursor[Any] | None = None

    @property
    def single(self) -> psycopg.RawCursor[Any]:
        """The cursor kept."""
        if self._single is None:
            self._single = psycopg.RawCursor(self)
        return self._single

    def learn_vectors(self, vector_type: str) -> None:
        """Look the vector type up, as long as it is not known; setup may create it later."""
        self._single = None  # it would go on with what it learned before
        register(self, TypeInfo.fetch(self, vector_type))


class AsyncConnection(psycopg.AsyncConnection[Any]):
    """The same, asynchronous."""

    knows_vectors = False
    _single: psycopg.AsyncRawCursor[Any] | None = None

    @property
    def single(self) -> psycopg.AsyncRawCursor[Any]:
        """The cursor kept."""
        if self._single is None:
            self._single = psycopg.AsyncRawCursor(self)
        return self._single

    async def learn_vectors(self, vector_type: str) -> None:
        """Look the vector type up, as long as it is not known; setup may create it later."""
        self._single = None  # it would go on with what it learned before
        register(self, await TypeInfo.fetch(self, vector_type))


class _NoVectorDumper(_VectorDumper):
    """Stands in where the database has no vector type yet."""

    def dump(self, obj: PackedVector) -> Buffer | None:  # noqa: ARG002 - nothing to send it to
        raise NotSetUpError(_NOT_SET_UP)


def register(conn: Connection | AsyncConnection, info: TypeInfo | None) -> None:
    """Let a connection send vectors in binary."""
    if info is None:
        conn.adapters.register_dumper(PackedVector, _NoVectorDumper)
        conn.adapters.register_dumper(PackedVectors, _NoVectorDumper)
        return
    one = type("_OneVector", (_VectorDumper,), {"oid": info.oid})
    many_oids = {"oid": info.array_oid, "element_oid": info.oid}
    many = type("_ManyVectors", (_VectorsDumper,), many_oids)
    conn.adapters.register_dumper(PackedVector, one)
    conn.adapters.register_dumper(PackedVectors, many)
    conn.knows_vectors = True


def translated(error: psycopg.Error | PoolTimeout) -> DatabaseError:
    """Our error for one of the driver's; raise it from the original, which stays the cause."""
    if isinstance(error, PoolTimeout):
        return PoolExhaustedError(
            "no connection became free in time: raise pool_config['max_size'] or its 'timeout' "
            "(seconds), or look for what holds connections so long"
        )
    if isinstance(error, psycopg.errors.UndefinedTable | psycopg.errors.InvalidSchemaName):
        return NotSetUpError(_NOT_SET_UP)
    if isinstance(error, psycopg.OperationalError) and _is_about_the_connection(error):
        return DatabaseUnavailableError(
            f"Postgres does not answer or dropped the connection ({_first_line(error)}): check "
            "that it runs and that the connection string is right, then repeat the call"
        )
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        return DatabaseError(
            f"this role lacks a right ({_first_line(error)}): setup needs CREATE on the database, "
            "and a superuser to run `CREATE EXTENSION vector` once if it is not there"
        )
    return DatabaseError(f"Postgres refused the statement: {_first_line(error)}")


def _is_about_the_connection(error: psycopg.Error) -> bool:
    """Connection exceptions (class 08), shutdowns (57P0x), too many connections, or no state."""
    state = error.sqlstate
    return state is None or state.startswith(("08", "57P")) or state == "53300"


def is_transient(error: psycopg.Error, conn: psycopg.BaseConnection[Any]) -> bool:
    """Whether running the same statements again may succeed.

    A connection that turns out to be dead is replaced and its statements are run again, which
    is what a caller would do next. If only the answer had been lost, a put or a deletion is so
    applied twice, and wins over one that came between.
    """
    return isinstance(error, _TRANSIENT) or conn.closed


def can_roll_back(conn: psycopg.BaseConnection[Any]) -> bool:
    """Whether a transaction is open on a connection that still works."""
    return conn.info.transaction_status in (TransactionStatus.INTRANS, TransactionStatus.INERROR)


def rows_of(cursor: psycopg.Cursor[Any]) -> Rows:
    """All rows of a result, none for a statement that returns none."""
    return cursor.fetchall() if _has_rows(cursor) else []


async def arows_of(cursor: psycopg.AsyncCursor[Any]) -> Rows:
    """All rows of a result, none for a statement that returns none."""
    return await cursor.fetchall() if _has_rows(cursor) else []


def _has_rows(cursor: psycopg.Cursor[Any] | psycopg.AsyncCursor[Any]) -> bool:
    return cursor.pgresult is not None and cursor.pgresult.nfields > 0


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
