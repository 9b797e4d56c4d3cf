"""Search with a query on a store with an index: scores, order and pages."""

import math

from langgraph.store.base import PutOp, SearchItem

from langmem_tiers.testing.check import DIMS, IndexNeeds, check
from langmem_tiers.testing.driver import StoreDriver
from langmem_tiers.testing.embeddings import TrigramEmbeddings
from langmem_tiers.testing.expect import equal, true

NS = ("scores",)
TEXTS = {
    "tea": "green tea with lemon",
    "tea2": "green tea with honey",
    "rust": "the borrow checker says no",
    "sea": "ships in the harbour",
}
TOLERANCE = 0.01


def _vector(text: str) -> list[float]:
    return TrigramEmbeddings(DIMS).embed_query(text)


def _first_letters(texts: list[str]) -> list[list[float]]:
    """Return vectors that depend on the first three letters alone: distinct texts, equal scores."""
    return [_vector(text[:3]) for text in texts]


def _dot(a: list[float], b: list[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def _cosine(a: str, b: str) -> float:
    x, y = _vector(a), _vector(b)
    return _dot(x, y) / math.sqrt(_dot(x, x) * _dot(y, y))


def _close(found: list[SearchItem], wanted: dict[str, float]) -> None:
    scores = {item.key: item.score for item in found}
    near = all(
        isinstance(scores.get(key), float)
        and math.isclose(scores[key] or 0.0, score, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
        for key, score in wanted.items()
    )
    true(near, f"scores: found {scores}, wanted {wanted}")


async def _fill(store: StoreDriver) -> None:
    await store.batch([PutOp(NS, key, {"text": text}) for key, text in TEXTS.items()])


@check(index=IndexNeeds())
async def the_nearest_text_is_first(store: StoreDriver) -> None:
    """Results are in order of score, the best first, and every item of the prefix is scored."""
    await _fill(store)
    query = "green tea with lemons"
    wanted = sorted(TEXTS, key=lambda key: -_cosine(query, TEXTS[key]))
    equal(await store.keys(NS, query=query), wanted, "keys in order")


@check(index=IndexNeeds())
async def scores_are_cosines(store: StoreDriver) -> None:
    """A score is a float, the cosine similarity to within 0.01, negative ones too."""
    await _fill(store)
    query = "ships in the harbour"
    wanted = {key: _cosine(query, text) for key, text in TEXTS.items()}
    _close(await store.search(NS, query=query), wanted)


@check(index=IndexNeeds(distance_type="l2"))
async def l2_scores_are_minus_the_distance(store: StoreDriver) -> None:
    """With `distance_type` l2 a score is minus the Euclidean distance."""
    await _fill(store)
    vector = _vector("green tea")
    wanted = {key: -math.dist(vector, _vector(text)) for key, text in TEXTS.items()}
    _close(await store.search(NS, query="green tea"), wanted)


@check(index=IndexNeeds(distance_type="inner_product"))
async def inner_product_scores_are_the_product(store: StoreDriver) -> None:
    """With `distance_type` inner_product a score is the inner product."""
    await _fill(store)
    vector = _vector("green tea")
    wanted = {key: _dot(vector, _vector(text)) for key, text in TEXTS.items()}
    _close(await store.search(NS, query="green tea"), wanted)


@check(index=IndexNeeds())
async def no_query_means_no_scores_with_an_index(store: StoreDriver) -> None:
    """With an index too, a search without a query, or with the empty one, has score None."""
    await _fill(store)
    for options in ({}, {"query": None}, {"query": ""}):
        scores = [item.score for item in await store.search(NS, **options)]
        equal(scores, [None] * len(TEXTS), f"scores of search({options})")


@check(index=IndexNeeds())
async def a_query_stays_under_its_prefix(store: StoreDriver) -> None:
    """A query finds nothing outside the namespace prefix, however near."""
    await store.put(("scores",), "in", {"text": "the borrow checker"})
    await store.put(("scores", "deep"), "deep", {"text": "ships in the harbour"})
    await store.put(("scores2",), "out", {"text": "green tea"})
    equal(sorted(await store.keys(NS, query="green tea")), ["deep", "in"], "keys")


@check(index=IndexNeeds())
async def a_query_and_a_filter_both_hold(store: StoreDriver) -> None:
    """A filter leaves items out before the page is filled with the nearest of the rest."""
    texts = [f"green tea {n}" for n in range(30)] + ["rust", "ships"]
    kinds = ["drink"] * 30 + ["other"] * 2
    both = enumerate(zip(texts, kinds, strict=True))
    await store.batch([PutOp(NS, f"k{n}", {"text": t, "kind": kind}) for n, (t, kind) in both])
    found = await store.keys(NS, query="green tea 3", filter={"kind": "other"}, limit=2)
    equal(sorted(found), ["k30", "k31"], "keys")


@check(index=IndexNeeds())
async def pages_under_a_query_lose_nothing(store: StoreDriver) -> None:
    """Thirty hits, paged by two, are all found, each once."""
    keys = [f"k{n:02}" for n in range(30)]
    await store.batch([PutOp(NS, key, {"text": f"green tea {key}"}) for key in keys])
    found = [
        key
        for at in range(0, 32, 2)
        for key in await store.keys(NS, query="green tea", limit=2, offset=at)
    ]
    equal(sorted(found), keys, "keys of all pages")


@check(index=IndexNeeds())
async def ties_under_a_query_lose_nothing(store: StoreDriver) -> None:
    """Twelve items of one text, equal in score, paged by five, are all found, each once."""
    keys = [f"k{n:02}" for n in range(12)]
    for key in keys:
        await store.put(NS, key, {"text": "green tea"})
    found = [
        key
        for at in (0, 5, 10)
        for key in await store.keys(NS, query="green tea", limit=5, offset=at)
    ]
    equal(sorted(found), keys, "keys of all pages")


@check(index=IndexNeeds(embed=_first_letters))
async def items_equal_in_score_and_time_have_one_order(store: StoreDriver) -> None:
    """Items with one score and one `updated_at` are in the same order, however they were put."""
    keys = [f"k{n:02}" for n in range(12)]
    orders = []
    for batch in (keys, keys[::-1], keys[6:] + keys[:6]):
        await store.batch([PutOp(NS, key, None) for key in keys])
        await store.batch([PutOp(NS, key, {"text": f"tea {key}"}) for key in batch])
        found = await store.search(NS, query="tea", limit=20)
        if len({item.updated_at for item in found}) == 1:
            orders.append([item.key for item in found])
    equal(orders, orders[:1] * len(orders), "orders of items equal in score and time")


@check(index=IndexNeeds())
async def items_without_a_vector_come_last(store: StoreDriver) -> None:
    """Items that were not indexed fill the page after the scored ones, with score None."""
    await store.put(NS, "hidden", {"text": "green tea"}, index=False)
    await store.put(NS, "far", {"text": "ships in the harbour"})
    found = await store.search(NS, query="green tea")
    equal([item.key for item in found], ["far", "hidden"], "keys")
    equal([item.score is None for item in found], [False, True], "no score")


@check(index=IndexNeeds())
async def items_without_a_vector_take_no_scored_place(store: StoreDriver) -> None:
    """A page that scored items can fill holds no other."""
    for n in range(3):
        await store.put(NS, f"hidden{n}", {"text": "green tea"}, index=False)
        await store.put(NS, f"seen{n}", {"text": f"ships {n}"})
    found = await store.keys(NS, query="green tea", limit=3)
    equal(sorted(found), ["seen0", "seen1", "seen2"], "keys")


@check(index=IndexNeeds())
async def pages_cover_items_with_and_without_vectors_once(store: StoreDriver) -> None:
    """Pages over both kinds of item hold each once, the scored ones first."""
    for n in range(4):
        await store.put(NS, f"hidden{n}", {"text": "green tea"}, index=False)
        await store.put(NS, f"seen{n}", {"text": f"green tea {n}"})
    pages = [await store.keys(NS, query="green tea", limit=3, offset=at) for at in (0, 3, 6, 9)]
    equal([len(page) for page in pages], [3, 3, 2, 0], "sizes of pages")
    found = [key for page in pages for key in page]
    equal(sorted(found[:4]), [f"seen{n}" for n in range(4)], "the scored ones")
    equal(sorted(found[4:]), [f"hidden{n}" for n in range(4)], "the others")


@check(index=IndexNeeds())
async def a_query_may_ask_for_nothing(store: StoreDriver) -> None:
    """With a query too, a limit of 0 gives no results."""
    await _fill(store)
    equal(await store.keys(NS, query="tea", limit=0), [], "search(limit=0)")
