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
from collections.abc import Sequence
from typing import Any

import psycopg
from pgvector import HalfVector
from pgvector.psycopg import register_vector, register_vector_async

from benchmarks.corpus import LookupEmbeddings, Memory, Query

LIMIT = 10

_GET = """
SELECT m.id, m.value, m.created_at, m.updated_at
FROM memory.memories m
WHERE m.tenant = %s AND m.namespace = %s AND m.key = %s
  AND (m.expires_at IS NULL OR m.expires_at > now())
"""

_GET_AND_COUNT = """
WITH found AS MATERIALIZED (
    SELECT m.id, m.value, m.created_at, m.updated_at
    FROM memory.memories m
    WHERE m.tenant = %s AND m.namespace = %s AND m.key = %s
      AND (m.expires_at IS NULL OR m.expires_at > now())
), counted AS (
    INSERT INTO memory.usage AS u (tenant, id, access_count, last_accessed_at)
    SELECT %s, f.id, 1, now() FROM found f
    ON CONFLICT (tenant, id) DO UPDATE
    SET access_count = u.access_count + 1, last_accessed_at = excluded.last_accessed_at
)
SELECT id, value, created_at, updated_at FROM found
"""

_COUNT = """
INSERT INTO memory.usage AS u (tenant, id, access_count, last_accessed_at)
SELECT a.tenant, a.id, a.accesses, now()
FROM unnest(%s::text[], %s::bigint[], %s::int[]) AS a (tenant, id, accesses)
ORDER BY a.tenant, a.id
ON CONFLICT (tenant, id) DO UPDATE
SET access_count = u.access_count + excluded.access_count,
    last_accessed_at = excluded.last_accessed_at
"""

_LEG = """(
    SELECT m.namespace, m.key, m.value, m.created_at, m.updated_at, near.distance, m.id
    FROM (
        SELECT v.id, v.embedding <=> %(query)b AS distance
        FROM {tier}.vectors v
        WHERE v.tenant = %(tenant)s AND v.namespace >= %(low)s AND v.namespace < %(high)s
        ORDER BY distance, v.id
    ) near
    JOIN {tier}.memories m ON m.tenant = %(tenant)s AND m.id = near.id
    WHERE m.expires_at IS NULL OR m.expires_at > now()
    ORDER BY near.distance, near.id
    LIMIT %(limit)s
)"""
_SEARCH = (
    " UNION ALL ".join(_LEG.format(tier=tier) for tier in ("short_term", "working", "long_term"))
    + " ORDER BY distance, id LIMIT %(limit)s"
)

_LOCK = "SELECT pg_advisory_xact_lock(42, b) FROM unnest(%s::int[]) b"

_PUT = """
WITH input AS MATERIALIZED (
    SELECT i.tenant, i.namespace, i.key, i.value::jsonb,
           to_tsvector('english', i.text) || array_to_tsvector(ARRAY[chr(1) || i.tenant]) AS lexemes
    FROM unnest(%(tenants)s::text[], %(namespaces)s::text[], %(keys)s::text[],
                %(values)s::text[], %(texts)s::text[]) AS i (tenant, namespace, key, value, text)
), updated AS (
    UPDATE memory.memories m
    SET value = i.value, lexemes = i.lexemes, updated_at = now(), expires_at = NULL,
        ttl_minutes = NULL
    FROM input i
    WHERE m.tenant = i.tenant AND m.namespace = i.namespace AND m.key = i.key
    RETURNING m.tenant, m.namespace, m.key
)
INSERT INTO memory.memories (tenant, tier, namespace, key, value, lexemes, created_at, updated_at)
SELECT i.tenant, 'working', i.namespace, i.key, i.value, i.lexemes, now(), now()
FROM input i
WHERE NOT EXISTS (
    SELECT FROM updated u
    WHERE u.tenant = i.tenant AND u.namespace = i.namespace AND u.key = i.key
)
"""

_FORGET_VECTORS = """
DELETE FROM memory.vectors v
USING unnest(%(tenants)s::text[], %(namespaces)s::text[], %(keys)s::text[])
          AS i (tenant, namespace, key)
JOIN memory.memories m
  ON m.tenant = i.tenant AND m.namespace = i.namespace AND m.key = i.key
WHERE v.tenant = m.tenant AND v.tier = m.tier AND v.namespace = m.namespace AND v.id = m.id
"""

_PUT_VECTORS = """
INSERT INTO memory.vectors (tenant, tier, namespace, id, field, embedding)
SELECT m.tenant, m.tier, m.namespace, m.id, 'text', i.embedding
FROM unnest(%(tenants)s::text[], %(namespaces)s::text[], %(keys)s::text[],
            %(embeddings)b::halfvec[]) AS i (tenant, namespace, key, embedding)
JOIN memory.memories m
  ON m.tenant = i.tenant AND m.namespace = i.namespace AND m.key = i.key
"""

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
        tenant = memory.namespace[0]
        row = self._reads.execute(_GET, (tenant, _path(memory.namespace), memory.key)).fetchone()
        if row is None:
            return None
        self._accesses.add(tenant, row[0])
        if due := self._accesses.take_due():
            self._reads.execute(_COUNT, due)
        return dict(zip(_GET_COLUMNS, row, strict=True))

    def get_and_count(self, memory: Memory) -> Row | None:
        """Count at once instead."""
        tenant = memory.namespace[0]
        params = (tenant, _path(memory.namespace), memory.key, tenant)
        row = self._reads.execute(_GET_AND_COUNT, params).fetchone()
        return dict(zip(_GET_COLUMNS, row, strict=True)) if row else None

    def search(self, query: Query) -> list[Row]:
        vector = self._embeddings.embed_query(query.text)
        rows = self._reads.execute(_SEARCH, _search_params(query.prefix, vector)).fetchall()
        return [dict(zip(_SEARCH_COLUMNS, row, strict=True)) for row in rows]

    def put(self, memories: Sequence[Memory]) -> None:
        vectors = self._embeddings.embed_documents([memory.text for memory in memories])
        params = _put_params(memories, vectors)
        with self._writes.pipeline():
            self._writes.execute("BEGIN")
            self._writes.execute(_LOCK, (_buckets(memories),))
            self._writes.execute(_PUT, params)
            self._writes.execute(_FORGET_VECTORS, params)
            self._writes.execute(_PUT_VECTORS, params, binary=True)
            self._writes.execute("COMMIT")


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
        tenant = memory.namespace[0]
        await self._reads.execute(_GET, (tenant, _path(memory.namespace), memory.key))
        row = await self._reads.fetchone()
        if row is None:
            return None
        self._accesses.add(tenant, row[0])
        if due := self._accesses.take_due():
            await self._reads.execute(_COUNT, due)
        return dict(zip(_GET_COLUMNS, row, strict=True))

    async def search(self, query: Query) -> list[Row]:
        vector = self._embeddings.embed_query(query.text)
        await self._reads.execute(_SEARCH, _search_params(query.prefix, vector))
        rows = await self._reads.fetchall()
        return [dict(zip(_SEARCH_COLUMNS, row, strict=True)) for row in rows]

    async def put(self, memories: Sequence[Memory]) -> None:
        vectors = self._embeddings.embed_documents([memory.text for memory in memories])
        params = _put_params(memories, vectors)
        async with self._writes.pipeline():
            await self._writes.execute("BEGIN")
            await self._writes.execute(_LOCK, (_buckets(memories),))
            await self._writes.execute(_PUT, params)
            await self._writes.execute(_FORGET_VECTORS, params)
            await self._writes.execute(_PUT_VECTORS, params, binary=True)
            await self._writes.execute("COMMIT")


def _search_params(prefix: tuple[str, ...], vector: list[float]) -> dict[str, Any]:
    path = _path(prefix)
    return {
        "tenant": prefix[0],
        "low": path,
        "high": path[:-1] + "/" if path else "\U0010ffff",
        "query": HalfVector(vector),
        "limit": LIMIT,
    }


def _put_params(memories: Sequence[Memory], vectors: list[list[float]]) -> dict[str, Any]:
    return {
        "tenants": [memory.namespace[0] for memory in memories],
        "namespaces": [_path(memory.namespace) for memory in memories],
        "keys": [memory.key for memory in memories],
        "values": [json.dumps(memory.value) for memory in memories],
        "texts": [memory.text for memory in memories],
        "embeddings": [HalfVector(vector) for vector in vectors],
    }


def _path(namespace: tuple[str, ...]) -> str:
    return "".join(f"{label}." for label in namespace[1:])


def _buckets(memories: Sequence[Memory]) -> list[int]:
    names = ("\0".join((*memory.namespace, memory.key)) for memory in memories)
    return sorted({zlib.crc32(name.encode()) % 1024 for name in names})
