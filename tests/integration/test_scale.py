"""Search over many rows: the nearest are found, whatever share of them is in scope."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from langgraph.store.base import PutOp, SearchItem

from langmem_tiers import TieredStore
from tests.support.corpus import Corpus
from tests.support.servers import fresh_database

pytestmark = pytest.mark.slow

SCOPES = [
    (),
    ("large",),
    ("large", "rest"),
    ("tenth",),
    ("large", "tenth"),
    ("hundredth",),
    ("large", "hundredth"),
    ("thousandth",),
    ("large", "thousandth"),
]
EXACT_LIMIT = 1000
"""So small that HNSW answers for a tenth of the sample."""


class Loaded:
    """A corpus in a store, searched exactly or with HNSW indexes."""

    def __init__(self, corpus: Corpus, store: TieredStore) -> None:
        self.corpus = corpus
        self.store = store

    def recall(self, prefix: tuple[str, ...], count: int = 10) -> float:
        """Mean share of the exact nearest that a search finds; each answer is full."""
        within = self.corpus.within(prefix)
        hits = 0
        for query in range(len(self.corpus.queries)):
            found = self.store.search(prefix, query=f"query {query}", limit=count)
            assert len(found) == min(count, len(within))
            check_order(found)
            hits += len({hit.key for hit in found} & set(self.corpus.nearest(query, within, count)))
        return hits / (len(self.corpus.queries) * min(count, len(within)))


def check_order(found: list[SearchItem]) -> None:
    scores = [hit.score or 0 for hit in found]
    assert scores == sorted(scores, reverse=True)


def load(url: str, size: int) -> Iterator[Loaded]:
    corpus = Corpus(size)
    with TieredStore.from_conn_string(
        url, index=corpus.index, exact_limit=EXACT_LIMIT, short_term_ttl=None
    ) as store:
        store.setup()
        corpus.load(store)
        yield Loaded(corpus, store)


@pytest.fixture(scope="module")
def exact(server_url: str) -> Iterator[Loaded]:
    """20,000 rows without any HNSW index."""
    with fresh_database(server_url) as url:
        yield from load(url, 20_000)


@pytest.fixture(scope="module")
def indexed(exact: Loaded) -> Loaded:
    """The same rows with HNSW indexes; tests that need none come first."""
    assert exact.store.optimize() == ("short_term", "working", "long_term")
    return exact


@pytest.mark.parametrize("prefix", SCOPES[::2], ids="/".join)
def test_before_any_index_is_built_search_is_exact(exact: Loaded, prefix: tuple[str, ...]) -> None:
    assert exact.recall(prefix) >= 0.995


@pytest.mark.parametrize("prefix", SCOPES, ids="/".join)
def test_with_hnsw_recall_at_10_is_99_percent_in_every_scope(
    indexed: Loaded, prefix: tuple[str, ...]
) -> None:
    assert indexed.recall(prefix) >= 0.99


def test_with_hnsw_a_large_page_is_full_and_near(indexed: Loaded) -> None:
    assert indexed.recall(("large",), 50) >= 0.99
    assert indexed.recall((), 50) >= 0.99


def test_with_hnsw_a_filter_for_one_in_a_thousand_finds_them_all(indexed: Loaded) -> None:
    for prefix in [("large",), ()]:
        within = [i for i in indexed.corpus.within(prefix) if i % 1000 == 0]
        found = indexed.store.search(prefix, query="query 0", filter={"rare": True}, limit=10)
        nearest = indexed.corpus.nearest(0, within, 10)
        assert [hit.key for hit in found] == nearest


def test_with_hnsw_pages_lose_and_repeat_nothing(indexed: Loaded) -> None:
    for prefix in [("large",), ()]:
        found = [
            hit
            for offset in range(0, 200, 10)
            for hit in indexed.store.search(prefix, query="query 1", limit=10, offset=offset)
        ]
        check_order(found)
        keys = [hit.key for hit in found]
        assert len(keys) == len(set(keys)) == 200
        nearest = indexed.corpus.nearest(1, indexed.corpus.within(prefix), 200)
        assert len(set(keys) & set(nearest)) >= 198


def test_items_of_many_vectors_do_not_crowd_out_others(server_url: str) -> None:
    corpus = Corpus(2_500, queries=5)
    index: dict[str, Any] = {**corpus.index, "fields": ["text", "parts[*]"]}
    with (
        fresh_database(server_url) as url,
        TieredStore.from_conn_string(url, index=index, exact_limit=EXACT_LIMIT) as store,
    ):
        store.setup()
        near = corpus.nearest(0, range(2_500), 300)
        many = [near[start : start + 60] for start in range(0, 300, 60)]
        store.batch(
            PutOp(("large",), f"many{i}", {"parts": [f"row {row}" for row in rows]})
            for i, rows in enumerate(many)
        )
        others = [row for row in map(str, range(2_500)) if row not in near]
        store.batch(PutOp(("large",), row, {"text": f"row {row}"}) for row in others)
        nearest = corpus.nearest(0, [int(row) for row in others], 15)
        expected = [f"many{i}" for i in range(5)] + nearest
        assert keys(store.search(("large",), query="query 0", limit=20)) == expected
        assert store.optimize() == ("working",)
        assert keys(store.search(("large",), query="query 0", limit=20)) == expected
        assert keys(store.search(("large",), query="query 0", limit=10)) == expected[:10]


def keys(found: list[SearchItem]) -> list[str]:
    return [hit.key for hit in found]


@pytest.fixture(scope="module")
def large(server_url: str) -> Iterator[Loaded]:
    """100,000 rows (or LANGMEM_TIERS_TEST_ROWS) with HNSW indexes."""
    with fresh_database(server_url) as url:
        for loaded in load(url, int(os.environ.get("LANGMEM_TIERS_TEST_ROWS", "100000"))):
            loaded.store.optimize()
            yield loaded


@pytest.mark.proof
@pytest.mark.parametrize("prefix", SCOPES, ids="/".join)
def test_of_100_000_rows_recall_at_10_is_99_percent_in_every_scope(
    large: Loaded, prefix: tuple[str, ...]
) -> None:
    assert large.recall(prefix) >= 0.99
