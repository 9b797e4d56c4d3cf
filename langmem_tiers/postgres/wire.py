"""How values of ours go over the wire: vectors and arrays out, jsonb in."""

from __future__ import annotations

import select
import struct
from datetime import UTC, datetime, timedelta
from json import JSONDecoder
from typing import Any

import psycopg
from psycopg.abc import AdaptContext
from psycopg.adapt import Buffer, Dumper, Loader
from psycopg.pq import Format
from psycopg.types.array import ListDumper
from psycopg.types.datetime import TimestamptzBinaryLoader

from langmem_tiers.core.errors import NotSetUpError
from langmem_tiers.core.vectors import PackedVector, PackedVectors
from langmem_tiers.postgres.errors import NOT_SET_UP


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


class _Escaping:
    """Escapes an element by replacing: a pattern calls Python for each of its quotation marks."""

    def sub(self, _: bytes, element: bytes) -> bytes:
        return element.replace(b"\\", b"\\\\").replace(b'"', b'\\"')


class _ListDumper(ListDumper):
    """Sends arrays as the driver does, and a value of a million quotation marks in a moment."""

    # The driver's own name for what escapes, of which it calls `sub` alone; were it another, arrays
    # would be sent as the driver sends them.
    _re_esc = _Escaping()  # type: ignore[assignment]


_parse = JSONDecoder().raw_decode


class _JsonbLoader(Loader):
    """Reads jsonb, which Postgres writes without the surrounding space that `json` looks for."""

    format = Format.BINARY

    def load(self, data: Buffer) -> Any:
        """Parse what follows the byte that tells the format's version."""
        return _parse(str(data[1:], "utf-8"))[0]


_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


class _TimeLoader(TimestamptzBinaryLoader):
    """Reads times in UTC, whatever the time zone of the session is."""

    def __init__(self, oid: int, context: AdaptContext | None = None) -> None:  # noqa: ARG002
        """Load without looking at a connection."""
        super().__init__(oid, None)

    def load(self, data: Buffer) -> datetime:
        """Return the epoch plus the microseconds."""
        try:
            return _EPOCH + timedelta(microseconds=int.from_bytes(data, signed=True))
        except OverflowError:  # the driver says what is wrong
            return super().load(data)


class _NoVectorDumper(_VectorDumper):
    """Stands in where the database has no vector type yet."""

    def dump(self, obj: PackedVector) -> Buffer | None:  # noqa: ARG002 - nothing to send it to
        raise NotSetUpError(NOT_SET_UP)


def learn_types(conn: psycopg.BaseConnection[Any]) -> None:
    """Let a connection read and send what any of ours does."""
    conn.adapters.register_loader("jsonb", _JsonbLoader)
    conn.adapters.register_dumper(list, _ListDumper)


def learn_times(conn: psycopg.BaseConnection[Any]) -> None:
    """Let a connection read times in UTC, also if only its transactions are told to."""
    conn.adapters.register_loader("timestamptz", _TimeLoader)


def learn_vectors(
    conn: psycopg.BaseConnection[Any], oid: int | None, array_oid: int | None
) -> bool:
    """Let a connection send vectors in binary; False where the database has no type for them."""
    if oid is None:
        conn.adapters.register_dumper(PackedVector, _NoVectorDumper)
        conn.adapters.register_dumper(PackedVectors, _NoVectorDumper)
        return False
    one = type("_OneVector", (_VectorDumper,), {"oid": oid})
    many_oids = {"oid": array_oid, "element_oid": oid}
    conn.adapters.register_dumper(PackedVector, one)
    many = type("_ManyVectors", (_VectorsDumper,), many_oids)
    conn.adapters.register_dumper(PackedVectors, many)
    return True


def arrivals(conn: psycopg.BaseConnection[Any]) -> select.poll:
    """What tells at once whether anything came from the server, be it the end."""
    found = select.poll()
    found.register(conn.pgconn.socket, select.POLLIN)
    return found
