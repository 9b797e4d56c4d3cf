"""Thousands of clustered vectors and a model that looks them up: recall against brute force."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from langchain_core.embeddings import Embeddings
from langgraph.store.base import PutOp

from langmem_tiers import TieredStore
from langmem_tiers.core.memory import TIERS

DIMS = 64
CLUSTERS = 100
BATCH = 500

Matrix = np.ndarray[tuple[int, int], np.dtype[np.float32]]


class LookupEmbeddings(Embeddings):
    """Answers "row 17" with the 17th vector of a corpus and "query 3" with its 3rd query."""

    def __init__(self, rows: Matrix, queries: Matrix) -> None:
        self._tables = {"row": rows, "query": queries}

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        table, number = text.split()
        vector: list[float] = self._tables[table][int(number)].tolist()
        return vector


class Corpus:
    """Rows of one large tenant and of small ones; places of 0.1, 1, 10 and 100 %.

    A tenth of the rows are the tenant ("tenth",), a hundredth ("hundredth",), a thousandth
    ("thousandth",); the rest are ("large", …), which has namespaces of the same sizes.
    Each tier holds some of every place.
    """

    def __init__(self, size: int, queries: int = 20, seed: int = 7) -> None:
        rng = np.random.default_rng(seed)
        centres = rng.normal(size=(CLUSTERS, DIMS))
        self.rows = _around(centres, size, rng)
        self.queries = _around(centres, queries, rng)
        self.embeddings = LookupEmbeddings(self.rows, self.queries)
        self.places = _places(size, rng)

    @property
    def index(self) -> dict[str, Any]:
        """An index over the text alone."""
        return {"dims": DIMS, "embed": self.embeddings, "fields": ["text"]}

    def load(self, store: TieredStore) -> None:
        """Put every row, in large batches, some into each tier."""
        working = store.tier("working")
        for tier, share in zip(TIERS, (range(1), range(1, 9), range(9, 10)), strict=True):
            view = working if tier == "working" else store.tier(tier)
            ops = [self._put(i) for i in range(len(self.rows)) if i % 10 in share]
            for start in range(0, len(ops), BATCH):
                view.batch(ops[start : start + BATCH])

    def nearest(self, query: int, within: Sequence[int], count: int) -> list[str]:
        """Keys of the exact nearest rows of some."""
        chosen = np.asarray(within)
        near = self.rows[chosen]
        scores = near @ self.queries[query] / np.linalg.norm(near, axis=1)
        return [str(chosen[i]) for i in np.argsort(-scores)[:count]]

    def within(self, prefix: tuple[str, ...]) -> list[int]:
        """Numbers of the rows under a prefix."""
        return [i for i, place in enumerate(self.places) if place[: len(prefix)] == prefix]

    def _put(self, number: int) -> PutOp:
        value = {"text": f"row {number}", "rare": number % 1000 == 0, "number": number}
        return PutOp(self.places[number], str(number), value)


def _around(centres: np.ndarray[Any, Any], count: int, rng: np.random.Generator) -> Matrix:
    chosen = centres[rng.integers(len(centres), size=count)]
    points = chosen + rng.normal(scale=0.6, size=chosen.shape)
    unit = points / np.linalg.norm(points, axis=1, keepdims=True)
    as_stored: Matrix = unit.astype(np.float16).astype(np.float32)
    return as_stored


def _places(size: int, rng: np.random.Generator) -> list[tuple[str, ...]]:
    shares = {"tenth": size // 10, "hundredth": size // 100, "thousandth": size // 1000}
    places: list[tuple[str, ...]] = []
    for name, count in shares.items():
        places += [(name, "notes")] * count + [("large", name)] * count
    places += [("large", "rest", f"part{i % 7}") for i in range(size - len(places))]
    return [places[i] for i in rng.permutation(size)]
