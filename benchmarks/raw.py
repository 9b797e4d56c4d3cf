"""The floor: what the store's tables allow, in plain psycopg SQL without any library.

Same effects as the store's: a get counts the access, asynchronously committed; puts wait for
writers of the same keys, write the memory with its words and replace its vectors, and are on
disk when acknowledged; a search looks into three tiers and never returns what has expired.
What a library must carry and a script need not is left out: connections are held, namespaces
come as the columns keep them, nothing is checked, rows become plain dictionaries.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from typing import Any

import psycopg
from pgvector import HalfVector
from pgvector.psycopg import register_vector, register_vector_async

from benchmarks.corpus import LookupEmbeddings, Memory

_GET = """
WITH found AS MATERIALIZED (
    SELECT m.id, m.value, m.created_at, m.updated_at
    FROM memory.memories m
    WHERE m.tenant = %(tenant)s AND m.namespace = %(namespace)s AND m.key = %(key)s
      AND (m.expires_at IS NULL OR m.expires_at > now())
), counted AS (
    INSERT INTO memory.usage AS u (tenant, id, access_count, last_accessed_at)
    SELECT %(tenant)s, f.id, 1, now() FROM found f
    ON CONFLICT (tenant, id) DO UPDATE
    SET access_count = u.access_count + 1, last_accessed_at = excluded.last_accessed_at
)
SELECT value, created_at, updated_at FROM found
"""

_LEG = """(
    SELECT m.namespace, m.key, m.value, m.created_at, m.updated_at, near.distance
    FROM (
        SELECT v.id, v.embedding <=> %(query)b AS distance
        FROM {tier}.vectors v
        WHERE v.tenant = %(tenant)s AND v.namespace >= %(low)s AND v.namespace < %(high)s
        ORDER BY distance
    ) near
    JOIN {tier}.memories m ON m.tenant = %(tenant)s AND m.id = near.id
    WHERE m.expires_at IS NULL OR m.expires_at > now()
    ORDER BY near.distance
    LIMIT %(limit)s
)"""
_SEARCH = (
    " UNION ALL ".join(_LEG.format(tier=tier) for tier in ("short_term", "working", "long_term"))
    + " ORDER BY distance LIMIT %(limit)s"
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

_GET_COLUMNS = ("value", "created_at", "updated_at")
_SEARCH_COLUMNS = ("namespace", "key", "value", "created_at", "updated_at", "distance")
_OPTIONS: dict[str, Any] = {"autocommit": True, "prepare_threshold": 0}
_RELAXED = "-c synchronous_commit=off"


class RawClient:
    """One client of the floor: one connection for reads, one for writes that must last."""

    def __init__(self, url: str, embeddings: LookupEmbeddings) -> None:
        self._embeddings = embeddings
        relaxed = psycopg.connect(url, options=_RELAXED, **_OPTIONS)
        self._writes = psycopg.connect(url, **_OPTIONS)
        register_vector(relaxed)
        register_vector(self._writes)
        self._reads = relaxed.cursor(binary=True)

    def close(self) -> None:
        self._reads.connection.close()
        self._writes.close()

    def get(self, namespace: tuple[str, ...], key: str) -> dict[str, Any] | None:
        row = self._reads.execute(_GET, _get_params(namespace, key)).fetchone()
        return dict(zip(_GET_COLUMNS, row, strict=True)) if row else None

    def search(self, prefix: tuple[str, ...], query: str, limit: int) -> list[dict[str, Any]]:
        vector = self._embeddings.embed_query(query)
        rows = self._reads.execute(_SEARCH, _search_params(prefix, vector, limit)).fetchall()
        return [dict(zip(_SEARCH_COLUMNS, row, strict=True)) for row in rows]

    def put(self, memories: Sequence[Memory]) -> None:
        vectors = self._embeddings.embed_documents([memory.text for memory in memories])
        params = _put_params(memories, vectors)
        with self._writes.pipeline():
            self._writes.execute("BEGIN")
            self._writes.execute(_LOCK, (_buckets(memories),))
            self._writes.execute(_PUT, params)
            self._writes.execute(_FORGET_VECTORS, params)
            self._writes.execute(_PUT_VECTORS, params)
            self._writes.execute("COMMIT")


def _get_params(namespace: tuple[str, ...], key: str) -> dict[str, Any]:
    return {"tenant": namespace[0], "namespace": _path(namespace), "key": key}


def _search_params(prefix: tuple[str, ...], vector: list[float], limit: int) -> dict[str, Any]:
    path = _path(prefix)
    high = path[:-1] + "/" if path else "\U0010ffff"
    return {
        "tenant": prefix[0],
        "low": path,
        "high": high,
        "query": HalfVector(vector),
        "limit": limit,
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
