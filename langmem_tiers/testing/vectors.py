"""Search with a query: scores, order and pages, and what is embedded of an item."""

import math

from langgraph.store.base import PutOp, SearchItem

from langmem_tiers.testing.kit import (
    DIMS,
    EXACT,
    NS,
    IndexNeeds,
    StoreDriver,
    TrigramEmbeddings,
    check,
    equal,
    refused,
    true,
)

# scoring

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


async def _fill_texts(store: StoreDriver) -> None:
    await store.batch([PutOp(NS, key, {"text": text}) for key, text in TEXTS.items()])


@check("scoring", index=IndexNeeds())
async def the_nearest_text_is_first(store: StoreDriver) -> None:
    """Results are in order of score, the best first, and every item of the prefix is scored."""
    await _fill_texts(store)
    query = "green tea with lemons"
    wanted = sorted(TEXTS, key=lambda key: -_cosine(query, TEXTS[key]))
    equal(await store.keys(NS, query=query), wanted, "keys in order")


@check("scoring", index=IndexNeeds())
async def scores_are_cosines(store: StoreDriver) -> None:
    """A score is a float, the cosine similarity to within 0.01, negative ones too."""
    await _fill_texts(store)
    query = "ships in the harbour"
    wanted = {key: _cosine(query, text) for key, text in TEXTS.items()}
    _close(await store.search(NS, query=query), wanted)


@check("scoring", index=IndexNeeds(distance_type="l2"))
async def l2_scores_are_minus_the_distance(store: StoreDriver) -> None:
    """With `distance_type` l2 a score is minus the Euclidean distance."""
    await _fill_texts(store)
    vector = _vector("green tea")
    wanted = {key: -math.dist(vector, _vector(text)) for key, text in TEXTS.items()}
    _close(await store.search(NS, query="green tea"), wanted)


@check("scoring", index=IndexNeeds(distance_type="inner_product"))
async def inner_product_scores_are_the_product(store: StoreDriver) -> None:
    """With `distance_type` inner_product a score is the inner product."""
    await _fill_texts(store)
    vector = _vector("green tea")
    wanted = {key: _dot(vector, _vector(text)) for key, text in TEXTS.items()}
    _close(await store.search(NS, query="green tea"), wanted)


@check("scoring", index=IndexNeeds())
async def no_query_means_no_scores_with_an_index(store: StoreDriver) -> None:
    """With an index too, a search without a query, or with the empty one, has score None."""
    await _fill_texts(store)
    for options in ({}, {"query": None}, {"query": ""}):
        scores = [item.score for item in await store.search(NS, **options)]
        equal(scores, [None] * len(TEXTS), f"scores of search({options})")


@check("scoring", index=IndexNeeds())
async def a_query_stays_under_its_prefix(store: StoreDriver) -> None:
    """A query finds nothing outside the namespace prefix, however near."""
    await store.put(NS, "in", {"text": "the borrow checker"})
    await store.put((*NS, "deep"), "deep", {"text": "ships in the harbour"})
    await store.put((NS[0], f"{NS[1]}2"), "out", {"text": "green tea"})
    equal(sorted(await store.keys(NS, query="green tea")), ["deep", "in"], "keys")


@check("scoring", index=IndexNeeds())
async def a_query_and_a_filter_both_hold(store: StoreDriver) -> None:
    """A filter leaves items out before the page is filled with the nearest of the rest."""
    texts = [f"green tea {n}" for n in range(30)] + ["rust", "ships"]
    kinds = ["drink"] * 30 + ["other"] * 2
    both = enumerate(zip(texts, kinds, strict=True))
    await store.batch([PutOp(NS, f"k{n}", {"text": t, "kind": kind}) for n, (t, kind) in both])
    found = await store.keys(NS, query="green tea 3", filter={"kind": "other"}, limit=2)
    equal(sorted(found), ["k30", "k31"], "keys")


@check("scoring", index=IndexNeeds())
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


@check("scoring", index=IndexNeeds())
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


@check("scoring", index=IndexNeeds(embed=_first_letters))
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


@check("scoring", index=IndexNeeds())
async def items_without_a_vector_come_last(store: StoreDriver) -> None:
    """Items that were not indexed fill the page after the scored ones, with score None."""
    await store.put(NS, "hidden", {"text": "green tea"}, index=False)
    await store.put(NS, "far", {"text": "ships in the harbour"})
    found = await store.search(NS, query="green tea")
    equal([item.key for item in found], ["far", "hidden"], "keys")
    equal([item.score is None for item in found], [False, True], "no score")


@check("scoring", index=IndexNeeds())
async def items_without_a_vector_take_no_scored_place(store: StoreDriver) -> None:
    """A page that scored items can fill holds no other."""
    for n in range(3):
        await store.put(NS, f"hidden{n}", {"text": "green tea"}, index=False)
        await store.put(NS, f"seen{n}", {"text": f"ships {n}"})
    found = await store.keys(NS, query="green tea", limit=3)
    equal(sorted(found), ["seen0", "seen1", "seen2"], "keys")


@check("scoring", index=IndexNeeds())
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


@check("scoring", index=IndexNeeds())
async def a_query_may_ask_for_nothing(store: StoreDriver) -> None:
    """With a query too, a limit of 0 gives no results."""
    await _fill_texts(store)
    equal(await store.keys(NS, query="tea", limit=0), [], "search(limit=0)")


# index


def _mixed_numbers(texts: list[str]) -> list[list[float]]:
    """Return vectors that begin with an int: `[1, 0.25, …]`, as some models' JSON does."""
    vectors = TrigramEmbeddings(DIMS).embed_documents(texts)
    return [[1, 0, *vector[2:]] for vector in vectors]


async def _scores(store: StoreDriver, query: str) -> dict[str, float | None]:
    return {item.key: item.score for item in await store.search(NS, query=query, limit=100)}


async def _exact(store: StoreDriver, query: str, *keys: str) -> None:
    scores = await _scores(store, query)
    found = sorted(key for key, score in scores.items() if score is not None and score > EXACT)
    equal(found, sorted(keys), f"exact hits of {query!r} in {scores}")


@check("index", index=IndexNeeds(fields=("title", "body")))
async def every_field_of_the_configuration_is_embedded(store: StoreDriver) -> None:
    """Each configured field is a vector of its own; other fields are not embedded."""
    await store.put(NS, "k", {"title": "green tea", "body": "ships at sea", "note": "hidden"})
    await _exact(store, "green tea", "k")
    await _exact(store, "ships at sea", "k")
    await _exact(store, "hidden")


@check("index", index=IndexNeeds(fields=("title", "body")))
async def an_item_scores_by_its_best_vector(store: StoreDriver) -> None:
    """An item with several vectors appears once, with the best of their scores."""
    await store.put(NS, "both", {"title": "green tea", "body": "ships at sea"})
    await store.put(NS, "one", {"title": "green teas", "body": "rust"})
    found = await store.search(NS, query="green tea")
    equal([item.key for item in found], ["both", "one"], "keys")
    true((found[0].score or 0) > EXACT, f"score {found[0].score}")


@check("index", index=IndexNeeds(fields=("parts[*]",)))
async def many_vectors_of_one_item_crowd_out_nobody(store: StoreDriver) -> None:
    """An item with sixty near vectors takes one place on a page of five, not five."""
    await store.put(NS, "long", {"parts": [f"green tea {n}" for n in range(60)]})
    for n in range(5):
        await store.put(NS, f"short{n}", {"parts": [f"ships at sea {n}"]})
    found = await store.keys(NS, query="green tea", limit=5)
    equal([len(found), len(set(found)), found[:1]], [5, 5, ["long"]], "size, distinct, first")


@check("index", index=IndexNeeds(fields=("a.b", "tags[*]", "list[-1]")))
async def paths_reach_into_the_value(store: StoreDriver) -> None:
    """Paths name nested fields, every element of a list, or one by its position."""
    await store.put(NS, "nested", {"a": {"b": "green tea", "c": "rust"}})
    await store.put(NS, "tags", {"tags": ["ships at sea", "harbour light"]})
    await store.put(NS, "list", {"list": ["borrow checker", "last words"]})
    await _exact(store, "green tea", "nested")
    await _exact(store, "rust")
    await _exact(store, "harbour light", "tags")
    await _exact(store, "ships at sea", "tags")
    await _exact(store, "last words", "list")
    await _exact(store, "borrow checker")


@check("index", index=IndexNeeds(fields=("$",)))
async def the_root_path_is_the_whole_value(store: StoreDriver) -> None:
    """`$` embeds the value as JSON with sorted keys and Unicode as it is."""
    await store.put(NS, "k", {"b": "é", "a": 1})
    await _exact(store, '{"a": 1, "b": "é"}', "k")


@check("index", index=IndexNeeds())
async def missing_fields_are_skipped(store: StoreDriver) -> None:
    """An item without the indexed field is stored, without a vector."""
    await store.put(NS, "k", {"other": "green tea"})
    equal(await store.value(NS, "k"), {"other": "green tea"}, "value")
    equal((await _scores(store, "green tea")).get("k"), None, "score")


@check("index", index=IndexNeeds())
async def put_may_name_its_own_fields(store: StoreDriver) -> None:
    """A list of paths in put replaces the configured fields for that item."""
    await store.put(NS, "k", {"text": "green tea", "title": "ships at sea"}, index=["title"])
    await _exact(store, "ships at sea", "k")
    await _exact(store, "green tea")


@check("index", index=IndexNeeds())
async def put_with_no_fields_embeds_nothing(store: StoreDriver) -> None:
    """`index=False` and `index=[]` store the item without a vector."""
    await store.put(NS, "false", {"text": "green tea"}, index=False)
    await store.put(NS, "empty", {"text": "green tea"}, index=[])
    equal(sorted(await store.keys(NS)), ["empty", "false"], "keys")
    await _exact(store, "green tea")


@check("index", index=IndexNeeds())
async def an_index_that_is_no_list_is_refused(store: StoreDriver) -> None:
    """`index="text"` and `index=True` are a ValueError and write nothing, raw or not."""
    for bad in ("text", True):
        put = store.put(NS, "k", {"text": "green tea"}, index=bad)
        await refused(put, ValueError, what=f"put(index={bad!r})")
        op = PutOp(NS, "k", {"text": "green tea"})._replace(index=bad)  # type: ignore[arg-type]
        await refused(store.batch([op]), ValueError, what=f"PutOp(index={bad!r})")
    equal(await store.keys(NS), [], "keys that were written")


@check("index", index=IndexNeeds())
async def equal_texts_in_one_batch_are_all_indexed(store: StoreDriver) -> None:
    """Items of one batch that share a text are all found by it."""
    await store.batch([PutOp(NS, f"k{n}", {"text": "green tea"}) for n in range(3)])
    await _exact(store, "green tea", "k0", "k1", "k2")


@check("index", index=IndexNeeds(fields=("parts[*]",)))
async def equal_texts_in_one_item_are_indexed(store: StoreDriver) -> None:
    """An item that repeats a text is found by it, and once."""
    await store.put(NS, "k", {"parts": ["green tea", "green tea", "rust"]})
    equal(await store.keys(NS, query="green tea"), ["k"], "keys")
    await _exact(store, "green tea", "k")


@check("index", index=IndexNeeds())
async def blank_texts_never_score_nan(store: StoreDriver) -> None:
    """A blank text, stored or asked for, is no error and its score is never NaN."""
    await store.put(NS, "empty", {"text": ""})
    await store.put(NS, "spaces", {"text": " \n"})
    await store.put(NS, "tea", {"text": "green tea"})
    for query in ("green tea", " "):
        scores = await _scores(store, query)
        numbers = [score for score in scores.values() if score is not None]
        true(not any(map(math.isnan, numbers)), f"scores for {query!r}: {scores}")
    equal((await store.keys(NS, query="green tea"))[0], "tea", "first key")


@check("index", index=IndexNeeds(embed=_mixed_numbers))
async def a_plain_function_may_embed_and_mix_int_with_float(store: StoreDriver) -> None:
    """`embed` may be a function of texts, and its vectors may hold ints beside floats."""
    await store.put(NS, "tea", {"text": "green tea"})
    await store.put(NS, "sea", {"text": "ships at sea"})
    equal(await store.keys(NS, query="green tea"), ["tea", "sea"], "keys")
