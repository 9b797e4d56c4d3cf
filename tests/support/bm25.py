"""BM25 as a textbook has it: of documents, of the turns around them, of the turn before."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from langmem_tiers import TieredStore
from langmem_tiers.core.vectors import Distance
from langmem_tiers.postgres.flow import Flow, Query, Row
from langmem_tiers.recall.matching import read_candidates_and_facts
from tests.support.coordinating import recall_call

K1, B, REACH = 1.2, 0.75, 2


@dataclass(frozen=True)
class Document:
    """A text as its words and how often each occurs; `turn` is its place in a session."""

    counts: Mapping[str, int]
    session: str | None = None
    turn: int | None = None


class Scores(NamedTuple):
    """What a document scores for a query."""

    own: float
    window: float
    before: float


def of_postgres(store: TieredStore, ask: Callable[[], object]) -> list[tuple[str, Scores]]:
    """What Postgres says of words to the recall statement that a call sends, by key."""
    call = recall_call(store, ask)

    def again() -> Flow[list[Row]]:
        (rows,) = yield Query((call,), commit=True)
        return list(rows)

    found, _ = read_candidates_and_facts(store.run(again()), Distance.COSINE)
    return sorted(
        (str(one.key), Scores(one.own or 0.0, one.window or 0.0, one.before or 0.0))
        for one in found
    )


def bm25(documents: Sequence[Document], query: Sequence[str]) -> list[Scores]:
    """Score every document; lengths are in distinct words, their mean is that of the hits."""
    words = sorted(set(query))
    idf = {word: _idf(documents, word) for word in words}
    hits = [one for one in documents if any(word in one.counts for word in words)]
    mean = math.fsum(len(one.counts) for one in hits) / len(hits) if hits else 1.0
    own = [_own(one, idf, mean) for one in documents]
    return [
        Scores(own[i], _around(one, documents, idf), _before(one, documents, own))
        for i, one in enumerate(documents)
    ]


def _idf(documents: Sequence[Document], word: str) -> float:
    holding = sum(word in one.counts for one in documents)
    return math.log(1 + (len(documents) - holding + 0.5) / (holding + 0.5))


def _own(one: Document, idf: Mapping[str, float], mean: float) -> float:
    norm = K1 * (1 - B + B * len(one.counts) / mean)
    return math.fsum(
        weight * count * (K1 + 1) / (count + norm)
        for word, weight in idf.items()
        if (count := one.counts.get(word, 0))
    )


def _around(one: Document, documents: Sequence[Document], idf: Mapping[str, float]) -> float:
    near = [each for each, gap in _session(one, documents) if abs(gap) <= REACH] or [one]
    total = 0.0
    for word, weight in idf.items():
        count = sum(each.counts.get(word, 0) for each in near)
        total += weight * count * (K1 + 1) / (count + K1)
    return total


def _before(one: Document, documents: Sequence[Document], own: Sequence[float]) -> float:
    scores = dict(zip(map(id, documents), own, strict=True))
    return math.fsum(scores[id(each)] for each, gap in _session(one, documents) if gap == -1)


def _session(one: Document, documents: Sequence[Document]) -> Iterator[tuple[Document, int]]:
    """The documents of its session that have a turn, each with how far it is away."""
    if one.session is None or one.turn is None:
        return
    for each in documents:
        if each.session == one.session and each.turn is not None:
            yield each, each.turn - one.turn
