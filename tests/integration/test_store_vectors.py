"""Vector search through LangGraph's interface: scores, paths, pages and what is embedded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.embeddings import Embeddings
from langgraph.store.base import PutOp, SearchItem

from langmem_tiers import TieredStore
from langmem_tiers.core.errors import EmbeddingError
from langmem_tiers.testing import TrigramEmbeddings
from tests.support.opening import DIMS, Opener, text_index

NS = ("test",)
SHAPES = [
    (kind, metric) for kind in ("vector", "halfvec") for metric in ("cosine", "l2", "inner_product")
]


def shaped(kind: str, metric: str, **options: Any) -> dict[str, Any]:
    ann = {"vector_type": kind}
    return text_index(distance_type=metric, ann_index_config=ann, **options)


def score(metric: str, a: Sequence[float], b: Sequence[float]) -> float:
    if metric == "l2":
        return -math.dist(a, b)
    dot = sum(x * y for x, y in zip(a, b, strict=True))
    return dot if metric == "inner_product" else dot / (math.hypot(*a) * math.hypot(*b))


def scores(items: Sequence[SearchItem]) -> dict[str, float | None]:
    return {item.key: item.score for item in items}


async def test_scores_are_the_metric_itself(open_store: Opener) -> None:
    texts = ["aaa", "bbb", "abcd", "poisson", "a poisson process", "这是中文", "Это русский"]
    model = TrigramEmbeddings(DIMS)
    for kind, metric in SHAPES:
        async with open_store(index=shaped(kind, metric), setup=True) as driver:
            await driver.batch([PutOp(NS, text, {"text": text}) for text in texts])
            for query in ("aaa", "poisson ratio", "中文"):
                wanted = {
                    text: score(metric, model.embed_query(query), model.embed_query(text))
                    for text in texts
                }
                found = await driver.search((), query=query)
                close = 0.1 if (kind, metric) == ("halfvec", "inner_product") else 2e-3
                assert scores(found) == pytest.approx(wanted, rel=2e-3, abs=close)
                assert [item.key for item in found] == sorted(wanted, key=lambda t: -wanted[t])


async def test_the_index_of_a_store_is_kept_as_given() -> None:
    index = text_index()
    store = TieredStore("", index=index)
    assert store.index_config is index
    assert TieredStore("").index_config is None


async def test_a_function_can_embed(open_store: Opener, url: str) -> None:
    model = TrigramEmbeddings(DIMS)

    def embed(texts: Sequence[str]) -> list[list[float]]:
        return model.embed_documents(list(texts))

    async def aembed(texts: Sequence[str]) -> list[list[float]]:
        return embed(texts)

    functions: list[Any] = [embed]
    if (open_store.opened, open_store.mode) == ("async", "abatch"):
        functions.append(aembed)
    for function in functions:
        async with open_store(url=url, index=text_index(embed=function)) as driver:
            await driver.put(NS, "1", {"text": "one"})
            assert scores(await driver.search(NS, query="one")) == {"1": pytest.approx(1, abs=1e-3)}


async def test_unusable_vectors_are_refused_before_anything_is_written(
    open_store: Opener, url: str
) -> None:
    model, rest = Counting(), [1.0] * (DIMS - 1)
    async with open_store(url=url, index=text_index(embed=model)) as driver:
        await driver.put(NS, "old", {"text": "old"})
        for vectors in (
            *([rest], [[1.0, 1.0, *rest]], [[1.0, *rest]] * 2, [], [["x"] * DIMS], [None], None),
            *([[bad, *rest]] for bad in (math.nan, math.inf, 10**400)),
        ):
            model.answer = vectors
            with pytest.raises(EmbeddingError):
                await driver.batch([PutOp(NS, "old", None), PutOp(NS, "new", {"text": "new"})])
        assert await driver.keys(NS) == ["old"]


async def test_vectors_too_large_for_the_column_are_refused(open_store: Opener) -> None:
    for kind, large in (("halfvec", 65_600.0), ("vector", 1e39)):
        model = Counting()
        index = shaped(kind, "inner_product", embed=model)
        async with open_store(index=index, setup=True) as driver:
            model.answer = [[large] + [0.0] * (DIMS - 1)]
            with pytest.raises(EmbeddingError):
                await driver.put(NS, "1", {"text": "one"})
            assert await driver.search(NS) == []


class Counting(Embeddings):
    """Embeds like the kit, notes what it was asked, and answers what it is told."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.answer: Any = ...
        self._model = TrigramEmbeddings(DIMS)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.asked.append(texts)
        if self.answer is not ...:
            answer: list[list[float]] = self.answer
            return answer
        return self._model.embed_documents(texts)

    def embed_query(self, text: str) -> list[float]:
        return self._model.embed_query(text)

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        return self.embed_documents(texts)

    async def aembed_query(self, text: str) -> list[float]:
        return self.embed_query(text)
