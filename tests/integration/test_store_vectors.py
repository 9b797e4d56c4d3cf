"""Vector search through LangGraph's interface: scores, paths, pages and what is embedded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.embeddings import Embeddings
from langgraph.store.base import PutOp, SearchItem, SearchOp

from langmem_tiers import ConfigurationError, DimensionMismatchError, EmbeddingError, TieredStore
from langmem_tiers.testing import StoreDriver, TrigramEmbeddings
from tests.support.opening import DIMS, Opener, text_index, tiered

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


@pytest.mark.parametrize(("kind", "metric"), SHAPES)
async def test_scores_are_the_metric_itself(open_store: Opener, kind: str, metric: str) -> None:
    texts = ["aaa", "bbb", "abcd", "poisson", "a poisson process", "这是中文", "Это русский"]
    model = TrigramEmbeddings(DIMS)
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


@pytest.mark.parametrize(("kind", "metric"), SHAPES)
async def test_an_item_scores_by_its_best_field(open_store: Opener, kind: str, metric: str) -> None:
    fields = ["key0", "key1", "key3"]
    async with open_store(index=shaped(kind, metric, fields=fields), setup=True) as driver:
        await driver.put(NS, "1", {"key1": "xxx", "key2": "yyy", "key3": "zzz"})
        await driver.put(NS, "2", {"key0": "uuu", "key1": "vvv", "key2": "www", "key3": "xxx"})
        one, two = await driver.search(NS, query="xxx")
        assert {one.key, two.key} == {"1", "2"}
        assert one.score == pytest.approx(two.score)
        assert await driver.keys(NS, query="uuu") == ["2", "1"]
        assert await driver.keys(NS, query="zzz") == ["1", "2"]
        best = one.score
        assert best is not None
        for item in await driver.search(NS, query="www"):
            assert item.score is not None
            assert item.score < best


async def test_a_put_can_name_its_own_fields(driver: StoreDriver) -> None:
    await driver.put(NS, "1", {"a": "aaa", "b": "bbb", "c": "ccc"}, index=["a", "b"])
    await driver.put(NS, "2", {"a": "eee", "b": "bbb", "d": "ggg"}, index=["b", "d"])
    await driver.put(NS, "3", {"text": "hhh"}, index=False)
    assert (await driver.keys(NS, query="aaa"))[0] == "1"
    assert (await driver.keys(NS, query="ggg"))[0] == "2"
    found = scores(await driver.search(NS, query="bbb"))
    assert found == {"1": pytest.approx(1, abs=1e-3), "2": pytest.approx(1, abs=1e-3), "3": None}
    assert all(
        one is None or one < 0.9 for one in scores(await driver.search(NS, query="ccc")).values()
    )
    assert scores(await driver.search(NS, query="hhh"))["3"] is None
    assert set(scores(await driver.search(NS)).values()) == {None}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("a.b", {"a": {"b": "needle"}}),
        ("a[0]", {"a": ["needle", "x"]}),
        ("a[-1]", {"a": ["x", "needle"]}),
        ("a[*].b", {"a": [{"b": "x"}, {"b": "needle"}]}),
        ("*", {"p": "x", "q": "needle"}),
        ("{x,y.z}", {"x": "hay", "y": {"z": "needle"}}),
        ("a", {"a": "needle"}),
    ],
)
async def test_paths_reach_into_values(driver: StoreDriver, path: str, value: Any) -> None:
    await driver.put(NS, "there", value, index=[path])
    await driver.put(NS, "other", {"text": "something else"})
    found = await driver.search(NS, query="needle")
    assert found[0].key == "there"
    assert found[0].score == pytest.approx(1, abs=1e-3)


async def test_missing_paths_and_blank_texts_are_not_indexed(driver: StoreDriver) -> None:
    await driver.put(NS, "missing", {"other": "x"})
    await driver.put(NS, "blank", {"text": " \n\t"})
    await driver.put(NS, "null", {"text": None})
    await driver.put(NS, "word", {"text": "word"})
    found = await driver.search(NS, query="word")
    assert found[0].key == "word"
    assert [item.score for item in found][1:] == [None] * 3


async def test_a_blank_query_is_no_query(driver: StoreDriver) -> None:
    await driver.put(NS, "1", {"text": "test document"})
    for query in ("", None, "   ", "\n"):
        assert scores(await driver.search(NS, query=query)) == {"1": None}
    assert (await driver.search(NS, query="test!@#$%^&*()"))[0].score is not None
    assert (await driver.search(NS, query="test " * 100))[0].score is not None


async def test_a_new_put_replaces_every_vector(driver: StoreDriver) -> None:
    await driver.put(NS, "1", {"text": ["zany zebra", "xerxes"]}, index=["text[*]"])
    for value, index in (
        ({"text": ["new"]}, ["text[*]"]),
        ({"text": "zany zebra"}, False),
        ({"other": "zany zebra"}, None),
    ):
        await driver.put(NS, "1", value, index=index)
        (item,) = await driver.search(NS, query="zany zebra")
        assert item.score is None or item.score < 0.5


async def test_updates_change_scores_and_filters_hold_beside_queries(driver: StoreDriver) -> None:
    docs: dict[str, dict[str, Any]] = {
        "1": {"text": "red apple", "color": "red", "score": 4.5},
        "2": {"text": "red car", "color": "red", "score": 3.0},
        "3": {"text": "green apple", "color": "green", "score": 4.0},
        "4": {"text": "blue car", "color": "blue", "score": 3.5},
    }
    await driver.batch([PutOp(NS, key, value) for key, value in docs.items()])
    for refresh in (True, False):
        found = await driver.search(NS, query="apple", filter={"color": "red"}, refresh_ttl=refresh)
        assert [item.key for item in found] == ["1", "2"]
    assert await driver.keys(NS, query="car", filter={"color": "red"}) == ["2", "1"]
    assert (await driver.keys(NS, query="blue", filter={"score": {"$gt": 3.2}}))[0] == "4"
    both = {"score": {"$gte": 4.0}, "color": "green"}
    assert await driver.keys(NS, query="apple", filter=both) == ["3"]
    before = scores(await driver.search(NS, query="red apple"))
    await driver.put(NS, "1", {"text": "something else"})
    after = scores(await driver.search(NS, query="red apple"))
    assert (after["1"] or 0) < (before["1"] or 0)


async def test_pages_of_a_query_hold_every_item_once_in_order(driver: StoreDriver) -> None:
    await driver.batch([PutOp(NS, f"{n:02}", {"text": f"document {n % 7}"}) for n in range(30)])
    await driver.batch([PutOp(NS, f"plain{n}", {"n": n}) for n in range(5)])
    whole = await driver.search(NS, query="document 3", limit=100)
    assert len(whole) == 35
    pages = [
        await driver.search(NS, query="document 3", limit=4, offset=at) for at in range(0, 40, 4)
    ]
    assert [item.key for page in pages for item in page] == [item.key for item in whole]
    ranked = [item.score for item in whole[:30]]
    assert ranked == sorted(ranked, key=lambda one: -(one or 0))
    assert [item.score for item in whole[30:]] == [None] * 5


async def test_one_near_item_among_two_hundred_equal_ones_is_first(driver: StoreDriver) -> None:
    await driver.put(("test", "M"), "M", {"text": "mmm"})
    for letter in "AZ":
        await driver.batch(
            [PutOp(("test", letter), f"{letter}{n}", {"text": "no"}) for n in range(100)]
        )
    found = await driver.search(NS, query="mmm", limit=10)
    assert len({item.key for item in found}) == 10
    assert found[0].key == "M"
    assert (found[0].score or 0) > (found[1].score or 0)


async def test_an_item_with_many_vectors_leaves_the_others_found(driver: StoreDriver) -> None:
    await driver.put(NS, "many", {"text": [f"word {n}" for n in range(60)]}, index=["text[*]"])
    await driver.batch([PutOp(NS, f"{n}", {"text": f"other {n}"}) for n in range(4)])
    assert sorted(await driver.keys(NS, query="word 7", limit=5)) == ["0", "1", "2", "3", "many"]


async def test_equal_texts_are_embedded_once_a_batch(open_store: Opener, url: str) -> None:
    model = Counting()
    async with open_store(url=url, index=text_index(embed=model)) as driver:
        await driver.batch([PutOp(NS, f"{n}", {"text": f"text {n % 2}"}) for n in range(10)])
        assert model.asked == [["text 0", "text 1"]]
        assert len(await driver.search(NS, query="text 0")) == 10


async def test_queries_and_writes_share_a_batch(driver: StoreDriver) -> None:
    await driver.put(NS, "old", {"text": "old"})
    found, _, _ = await driver.batch(
        [SearchOp(NS, query="old"), PutOp(NS, "new", {"text": "new"}), PutOp(NS, "old", None)]
    )
    assert isinstance(found, list)
    items = [item for item in found if isinstance(item, SearchItem)]
    assert scores(items) == {"old": pytest.approx(1, abs=1e-3)}
    assert await driver.keys(NS, query="new") == ["new"]


async def test_the_index_of_a_store_is_kept_as_given() -> None:
    index = text_index()
    store = TieredStore("", index=index)
    assert store.index_config is index
    assert TieredStore("").index_config is None


async def test_without_an_index_a_query_is_ignored(open_store: Opener, url: str) -> None:
    async with open_store(url=url) as driver:
        await driver.put(NS, "1", {"text": "x"})
        assert scores(await driver.search(NS, query="x")) == {"1": None}


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


@pytest.mark.parametrize(
    "vectors",
    [
        pytest.param([[1.0] * (DIMS - 1)], id="too few dimensions"),
        pytest.param([[1.0] * (DIMS + 1)], id="too many dimensions"),
        pytest.param([[1.0] * DIMS] * 2, id="too many vectors"),
        pytest.param([], id="no vectors"),
        pytest.param([[math.nan] + [1.0] * (DIMS - 1)], id="NaN"),
        pytest.param([[math.inf] + [1.0] * (DIMS - 1)], id="infinite"),
        pytest.param([["x"] * DIMS], id="words"),
        pytest.param([None], id="no vector"),
        pytest.param([[10**400] + [1.0] * (DIMS - 1)], id="a huge integer"),
        pytest.param(None, id="nothing"),
    ],
)
async def test_unusable_vectors_are_refused_before_anything_is_written(
    open_store: Opener, url: str, vectors: Any
) -> None:
    model = Counting()
    async with open_store(url=url, index=text_index(embed=model)) as driver:
        await driver.put(NS, "old", {"text": "old"})
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


async def test_a_database_of_other_dimensions_says_so(open_store: Opener, url: str) -> None:
    async with open_store(url=url, index=text_index()) as driver:
        await driver.put(NS, "1", {"text": "one"})
    index = {"dims": 32, "embed": TrigramEmbeddings(32), "fields": ["text"]}
    async with open_store(url=url, index=index) as driver:
        with pytest.raises(DimensionMismatchError, match="64"):
            await driver.search(NS, query="one")
        with pytest.raises(DimensionMismatchError, match="64"):
            await driver.put(NS, "2", {"text": "two"})
        with pytest.raises(DimensionMismatchError, match="64"):
            await tiered(driver).asetup()


def test_options_that_cannot_work_are_refused_at_the_door() -> None:
    with pytest.raises(ConfigurationError, match="hnsw, flat"):
        TieredStore("", index=text_index(ann_index_config={"kind": "ivfflat"}))
    with pytest.raises(ConfigurationError, match="hamming"):
        TieredStore("", index=text_index(distance_type="hamming"))


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
