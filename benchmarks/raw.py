"""The floor: what the store's tables allow, in plain psycopg SQL without any library.

Same effects as the store's: a get counts the access (gathered, written once a second, committed
asynchronously); puts wait for writers of the same keys, write the memory with its words and
replace its vectors, and are on disk when acknowledged; a search looks into three tiers, never
returns what has expired, and breaks ties by id. What a library must carry and a script need
not is left out: connections are held, not pooled; nothing is checked; rows become plain
dictionaries.
"""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
from pgvector import HalfVector
from pgvector.psycopg import register_vector, register_vector_async

from benchmarks.corpus import LookupEmbeddings, Memory, Query
from benchmarks.data import statements

LIMIT = 10

_SQL = statements("raw")
_TIERS = (b"short_term", b"working", b"long_term")
_SEARCH = b" UNION ALL ".join(_SQL["search_tier"].replace(b"{tier}", one) for one in _TIERS)
_SEARCH += b" ORDER BY distance, id LIMIT %(limit)s"
_GET_COLUMNS = ("id", "value", "created_at", "updated_at")
_SEARCH_COLUMNS = ("namespace", "key", "value", "created_at", "updated_at", "distance", "id")
_OPTIONS: dict[str, Any] = {"autocommit": True, "prepare_threshold": 0}
_DURABLE = "-c plan_cache_mode=force_generic_plan"
_RELAXED = f"{_DURABLE} -c synchronous_commit=off"
_COUNT_EVERY_SECONDS = 1.0

Row = dict[str, Any]


class Accesses:
    """Accesses not yet written."""

    def __init__(self) -> None:
        self._pending: dict[tuple[str, int], int] = {}
        self._due = time.monotonic() + _COUNT_EVERY_SECONDS

    def add(self, tenant: str, memory_id: int) -> None:
        self._pending[tenant, memory_id] = self._pending.get((tenant, memory_id), 0) + 1

    def take_due(self) -> tuple[list[str], list[int], list[int]] | None:
        """What to write now, if it is time."""
        if time.monotonic() < self._due or not self._pending:
            return None
        pending, self._pending = self._pending, {}
        self._due = time.monotonic() + _COUNT_EVERY_SECONDS
        return [key[0] for key in pending], [key[1] for key in pending], list(pending.values())


class RawClient:
    """One client: a connection for reads, and one for writes that must last."""

    def __init__(self, url: str, embeddings: LookupEmbeddings) -> None:
        self._embeddings = embeddings
        self._accesses = Accesses()
        relaxed = psycopg.connect(url, options=_RELAXED, **_OPTIONS)
        self._writes = psycopg.connect(url, options=_DURABLE, **_OPTIONS)
        register_vector(relaxed)
        register_vector(self._writes)
        self._reads = relaxed.cursor(binary=True)

    def close(self) -> None:
        self._reads.connection.close()
        self._writes.close()

    def get(self, memory: Memory) -> Row | None:
        row = self._reads.execute(_SQL["get"], _place(memory)).fetchone()
        if row is None:
            return None
        self._accesses.add(memory.namespace[0], row[0])
        if due := self._accesses.take_due():
            self._reads.execute(_SQL["count"], due)
        return dict(zip(_GET_COLUMNS, row, strict=True))

    def search(self, query: Query) -> list[Row]:
        rows = self._reads.execute(_SEARCH, _sought(query, self._embeddings)).fetchall()
        return [dict(zip(_SEARCH_COLUMNS, row, strict=True)) for row in rows]

    def put(self, memories: Sequence[Memory]) -> None:
        with self._writes.pipeline():
            for statement, params, binary in _put(memories, self._embeddings):
                self._writes.execute(statement, params, binary=binary)


class AsyncRawClient:
    """The same client on an event loop; made by `connect`."""

    def __init__(
        self,
        reads: psycopg.AsyncConnection[Any],
        writes: psycopg.AsyncConnection[Any],
        embeddings: LookupEmbeddings,
    ) -> None:
        self._embeddings = embeddings
        self._accesses = Accesses()
        self._reads = reads.cursor(binary=True)
        self._writes = writes

    @classmethod
    async def connect(cls, url: str, embeddings: LookupEmbeddings) -> AsyncRawClient:
        connect = psycopg.AsyncConnection.connect
        reads = await connect(url, options=_RELAXED, **_OPTIONS)
        writes = await connect(url, options=_DURABLE, **_OPTIONS)
        await register_vector_async(reads)
        await register_vector_async(writes)
        return cls(reads, writes, embeddings)

    async def close(self) -> None:
        await self._reads.connection.close()
        await self._writes.close()

    async def get(self, memory: Memory) -> Row | None:
        await self._reads.execute(_SQL["get"], _place(memory))
        row = await self._reads.fetchone()
        if row is None:
            return None
        self._accesses.add(memory.namespace[0], row[0])
        if due := self._accesses.take_due():
            await self._reads.execute(_SQL["count"], due)
        return dict(zip(_GET_COLUMNS, row, strict=True))

    async def search(self, query: Query) -> list[Row]:
        await self._reads.execute(_SEARCH, _sought(query, self._embeddings))
        rows = await self._reads.fetchall()
        return [dict(zip(_SEARCH_COLUMNS, row, strict=True)) for row in rows]

    async def put(self, memories: Sequence[Memory]) -> None:
        async with self._writes.pipeline():
            for statement, params, binary in _put(memories, self._embeddings):
                await self._writes.execute(statement, params, binary=binary)


def _place(memory: Memory) -> tuple[str, str, str]:
    return memory.namespace[0], _path(memory.namespace), memory.key


def _sought(query: Query, embeddings: LookupEmbeddings) -> dict[str, Any]:
    path = _path(query.prefix)
    return {
        "tenant": query.prefix[0],
        "low": path,
        "high": path[:-1] + "/" if path else "\U0010ffff",
        "query": HalfVector(embeddings.embed_query(query.text)),
        "limit": LIMIT,
    }


def _put(
    memories: Sequence[Memory], embeddings: LookupEmbeddings
) -> Iterator[tuple[bytes, Any, bool]]:
    """Each statement of a put, what it is given, and whether it answers in binary."""
    vectors = embeddings.embed_documents([memory.text for memory in memories])
    params = {
        "tenants": [memory.namespace[0] for memory in memories],
        "namespaces": [_path(memory.namespace) for memory in memories],
        "keys": [memory.key for memory in memories],
        "values": [json.dumps(memory.value) for memory in memories],
        "texts": [memory.text for memory in memories],
        "embeddings": [HalfVector(vector) for vector in vectors],
    }
    yield b"BEGIN", None, False
    yield _SQL["lock"], (_buckets(memories),), False
    yield _SQL["put"], params, False
    yield _SQL["forget_vectors"], params, False
    yield _SQL["put_vectors"], params, True
    yield b"COMMIT", None, False


def _path(namespace: tuple[str, ...]) -> str:
    return "".join(f"{label}." for label in namespace[1:])


def _buckets(memories: Sequence[Memory]) -> list[int]:
    names = ("\0".join((*memory.namespace, memory.key)) for memory in memories)
    return sorted({zlib.crc32(name.encode()) % 1024 for name in names})
