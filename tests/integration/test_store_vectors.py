"""Vector search through LangGraph's interface: scores, paths, pages and what is embedded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest
from langgraph.store.base import PutOp, SearchItem

from langmem_tiers import TieredStore
from langmem_tiers.core.errors import EmbeddingError
from langmem_tiers.testing import TrigramEmbeddings
from tests.support.opening import DIMS, Opener, text_index

NS = ("test",)


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
    texts = ["aaa", "abcd", "poisson", "a poisson process", "这是中文", "Это русский"]
    model = TrigramEmbeddings(DIMS)
    for kind, metric in product(("vector", "halfvec"), ("cosine", "l2", "inner_product")):
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
    store = TieredStore("dbname=app", index=index)
    assert store.index_config is index
    assert TieredStore("dbname=app").index_config is None


async def test_a_coroutine_function_can_embed(url: str) -> None:
    async def embed(texts: Sequence[str]) -> list[list[float]]:
        return TrigramEmbeddings(DIMS).embed_documents(list(texts))

    async with TieredStore(url, index=text_index(embed=embed)) as store:
        await store.aput(NS, "1", {"text": "one"})
        found = await store.asearch(NS, query="one")
        assert scores(found) == {"1": pytest.approx(1, abs=1e-3)}


async def test_unusable_vectors_are_refused_before_anything_is_written(
    open_store: Opener, url: str
) -> None:
    model, rest = Told(DIMS), [1.0] * (DIMS - 1)
    async with open_store(url=url, index=text_index(embed=model)) as driver:
        await driver.put(NS, "old", {"text": "old"})
        for model.answer in (
            *([rest], [[1.0, *rest]] * 2, [], [["x"] * DIMS], [None], None),
            *([[bad, *rest]] for bad in (math.nan, 10**400)),
        ):
            with pytest.raises(EmbeddingError):
                await driver.batch([PutOp(NS, "old", None), PutOp(NS, "new", {"text": "new"})])
        assert await driver.keys(NS) == ["old"]
    for kind, large in (("halfvec", 65_600.0), ("vector", 1e39)):
        model.answer = [[large] + [0.0] * (DIMS - 1)]
        index = shaped(kind, "inner_product", embed=model)
        async with open_store(index=index, setup=True) as driver:
            with pytest.raises(EmbeddingError):
                await driver.put(NS, "1", {"text": "one"})
            assert await driver.search(NS) == []


class Told(TrigramEmbeddings):
    """Embeds like the kit, or answers what it is told."""

    answer: Any = ...

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return super().embed_documents(texts) if self.answer is ... else self.answer

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        return self.embed_documents(texts)
