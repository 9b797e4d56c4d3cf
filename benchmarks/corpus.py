"""Memories to measure on: deterministic texts, and vectors that lie in clusters as real ones do.

Nothing here is timed. The vectors are made beforehand and looked up by text, so that every
contender pays the same for an embedding: the price of a dictionary.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from langchain_core.embeddings import Embeddings
from numpy.typing import NDArray

Matrix = NDArray[np.float32]

TENANTS = 100
TIER_SHARES = {"short_term": 1, "working": 6, "long_term": 3}
"""Of ten memories of a tenant, how many stand in each tier."""

_TOPICS, _SUBJECTS = 200, 20
_SPREAD, _NOISE, _QUERY_NOISE = 0.7, 0.6, 0.35
_TIER_OF_TEN = [tier for tier, share in TIER_SHARES.items() for _ in range(share)]
_SYLLABLES = ("ka", "lo", "mi", "ren", "ta", "su", "vel", "dor", "in", "pa", "che", "gra", "nu")
_KINDS = ("preference", "fact", "decision", "event")


@dataclass(frozen=True, slots=True)
class Memory:
    """One memory as every store takes it."""

    namespace: tuple[str, ...]
    key: str
    value: dict[str, Any]
    tier: str

    @property
    def text(self) -> str:
        return str(self.value["text"])


@dataclass(frozen=True, slots=True)
class Query:
    """A question that a tenant asks about all of its memories."""

    tenant: int
    text: str

    @property
    def prefix(self) -> tuple[str, ...]:
        return (tenant_label(self.tenant),)


class LookupEmbeddings(Embeddings):
    """Answers with vectors that were made beforehand."""

    def __init__(self) -> None:
        self.vectors: dict[str, list[float]] = {}

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.vectors[text] for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return self.vectors[text]

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        return self.embed_documents(texts)

    async def aembed_query(self, text: str) -> list[float]:
        return self.vectors[text]


class Corpus:
    """`size` stored memories of 100 tenants, spare ones to put besides, and queries.

    Memory `i` belongs to tenant `i % 100`. Every tenant has memories of every topic, so a
    namespace is a fair sample of all vectors, not a cluster of its own.
    """

    def __init__(self, size: int, dims: int, *, spare: int, queries: int, seed: int = 7) -> None:
        rng = np.random.default_rng([seed, size, dims])
        self.size, self.dims = size, dims
        self._matrix = _vectors(size + spare, dims, rng)
        memories = list(_memories(size + spare, rng))
        self.stored, self.spare = memories[:size], memories[size:]
        self.embeddings = LookupEmbeddings()
        self.embeddings.vectors.update(
            (memory.text, self.vector(size + row).tolist()) for row, memory in enumerate(self.spare)
        )
        self.queries = self._questions(queries, rng)

    def vector(self, row: int) -> Matrix:
        """The vector of a memory."""
        vector: Matrix = self._matrix[row]
        return vector

    def nearest(self, query: Query, limit: int) -> set[str]:
        """Keys of the stored memories of the query's tenant that are nearest by exact cosine."""
        rows = np.arange(query.tenant, self.size, TENANTS)
        scores = self._matrix[rows] @ np.array(self.embeddings.vectors[query.text], np.float32)
        return {self.stored[row].key for row in rows[np.argsort(-scores)[:limit]].tolist()}

    def _questions(self, count: int, rng: np.random.Generator) -> list[Query]:
        """Each query is a question near one of its tenant's memories."""
        targets = rng.integers(self.size, size=count)
        noise = _unit(rng.standard_normal((count, self.dims), dtype=np.float32))
        vectors = _unit(self._matrix[targets] + _QUERY_NOISE * noise).tolist()
        queries = [Query(int(row) % TENANTS, f"question {n}") for n, row in enumerate(targets)]
        for query, vector in zip(queries, vectors, strict=True):
            self.embeddings.vectors[query.text] = vector
        return queries


def _vectors(count: int, dims: int, rng: np.random.Generator) -> Matrix:
    """Topics, subjects within them, and noise whose spectrum falls off as in real models."""
    spectrum = (1.0 + np.arange(dims, dtype=np.float32)) ** -0.5
    topics = _unit(rng.standard_normal((_TOPICS, dims), dtype=np.float32) * spectrum)
    subjects = _unit(rng.standard_normal((_TOPICS, _SUBJECTS, dims), dtype=np.float32) * spectrum)
    noise = _unit(rng.standard_normal((count, dims), dtype=np.float32) * spectrum)
    topic = rng.integers(_TOPICS, size=count)
    subject = rng.integers(_SUBJECTS, size=count)
    return _unit(topics[topic] + _SPREAD * subjects[topic, subject] + _NOISE * noise)


def _unit(matrix: Matrix) -> Matrix:
    unit: Matrix = matrix / np.linalg.norm(matrix, axis=-1, keepdims=True)
    return unit.astype(np.float32)


def _memories(count: int, rng: np.random.Generator) -> Iterator[Memory]:
    words = _vocabulary()
    lengths = rng.integers(14, 30, size=count)
    ranks = np.minimum(rng.zipf(1.3, size=int(lengths.sum())), len(words)) - 1
    ends = np.cumsum(lengths)
    for row, (end, length) in enumerate(zip(ends.tolist(), lengths.tolist(), strict=True)):
        chosen = ranks[end - length : end].tolist()
        text = " ".join(words[rank] for rank in chosen)
        yield Memory(
            namespace=(tenant_label(row % TENANTS), "notes"),
            key=f"{row:08x}-memory",
            value={
                "text": f"{text} {row}",
                "kind": _KINDS[row % len(_KINDS)],
                "turn": row // TENANTS,
                "tags": [words[rank] for rank in chosen[:2]],
            },
            tier=_TIER_OF_TEN[row // TENANTS % 10],
        )


def tenant_label(number: int) -> str:
    """The first label of a tenant's namespaces."""
    return f"tenant-{number:03}"


def _vocabulary() -> list[str]:
    two = [a + b for a in _SYLLABLES for b in _SYLLABLES]
    return two + [a + b for a in two for b in _SYLLABLES]
