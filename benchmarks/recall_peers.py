"""What the system is compared with: BM25, and LangGraph's PostgresStore."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import psycopg
from langgraph.store.base import PutOp
from langgraph.store.postgres import PostgresStore

from benchmarks.data import statements
from benchmarks.databases import create
from benchmarks.recall_data import History, Question
from langmem_tiers import LocalEmbeddings

_SATURATION, _LENGTH = 1.2, 0.75
_BATCH = 500


class Bm25:
    """BM25 on Postgres' English lexemes, names and all: what a plain lexical search gives."""

    def __init__(self, url: str, history: History) -> None:
        self._keys = [one.key for one in history.memories]
        told = _lexemes(url, [one.content for one in history.memories])
        self._words = [sum(one.values()) for one in told]
        self._postings: dict[str, dict[int, int]] = defaultdict(dict)
        for number, one in enumerate(told):
            for lexeme, times in one.items():
                self._postings[lexeme][number] = times
        asked = _lexemes(url, [one.text for one in history.answerable])
        self._asked = {
            one.text: list(lexemes) for one, lexemes in zip(history.answerable, asked, strict=True)
        }

    def ranked(self, question: Question, limit: int) -> list[str]:
        """The keys of what matches, best first."""
        total = len(self._keys)
        mean = sum(self._words) / total
        scores: dict[int, float] = defaultdict(float)
        for lexeme in self._asked[question.text]:
            postings = self._postings.get(lexeme, {})
            rarity = math.log(1 + (total - len(postings) + 0.5) / (len(postings) + 0.5))
            for number, times in postings.items():
                damped = 1 - _LENGTH + _LENGTH * self._words[number] / mean
                scores[number] += (
                    rarity * times * (_SATURATION + 1) / (times + _SATURATION * damped)
                )
        best = sorted(scores, key=lambda number: (-scores[number], self._keys[number]))
        return [self._keys[number] for number in best[:limit]]


def _lexemes(url: str, texts: Sequence[str]) -> list[Counter[str]]:
    found: list[Counter[str]] = [Counter() for _ in texts]
    with psycopg.connect(url) as conn:
        for number, lexeme, times in conn.execute(statements("recall")["lexemes"], [list(texts)]):
            found[number - 1][lexeme] = times
    return found


class Peer:
    """PostgresStore as its documentation opens it, with the same embeddings.

    Without its HNSW index, which loses most results of a small namespace (docs/benchmarks.md):
    what is compared here is ranking.
    """

    def __init__(self, store: PostgresStore) -> None:
        self._store = store

    def remember(self, history: History) -> None:
        """Store the contents of a history."""
        todo = [
            PutOp((history.name,), one.key, {"content": one.content}) for one in history.memories
        ]
        for start in range(0, len(todo), _BATCH):
            self._store.batch(todo[start : start + _BATCH])

    def ranked(self, history: History, question: Question, limit: int) -> list[str]:
        """The keys, best first."""
        found = self._store.search((history.name,), query=question.text, limit=limit)
        return [one.key for one in found]


@contextmanager
def peer(server_url: str) -> Iterator[Peer]:
    """An empty PostgresStore in a database of its own."""
    embeddings = LocalEmbeddings()
    with PostgresStore.from_conn_string(
        create(server_url, "recall_peer"),
        index={
            "dims": embeddings.dims,
            "embed": embeddings,
            "fields": ["content"],
            "ann_index_config": {"kind": "flat"},
        },
    ) as store:
        store.setup()
        yield Peer(store)
