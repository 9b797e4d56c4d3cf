"""What is embedded of an item: fields, paths, several vectors, odd texts, odd models."""

import math

from langgraph.store.base import PutOp

from langmem_tiers.testing.check import DIMS, IndexNeeds, check
from langmem_tiers.testing.driver import StoreDriver
from langmem_tiers.testing.embeddings import TrigramEmbeddings
from langmem_tiers.testing.expect import equal, refused, true

NS = ("index",)
EXACT = 0.99


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


@check(index=IndexNeeds(fields=("title", "body")))
async def every_field_of_the_configuration_is_embedded(store: StoreDriver) -> None:
    """Each configured field is a vector of its own; other fields are not embedded."""
    await store.put(NS, "k", {"title": "green tea", "body": "ships at sea", "note": "hidden"})
    await _exact(store, "green tea", "k")
    await _exact(store, "ships at sea", "k")
    await _exact(store, "hidden")


@check(index=IndexNeeds(fields=("title", "body")))
async def an_item_scores_by_its_best_vector(store: StoreDriver) -> None:
    """An item with several vectors appears once, with the best of their scores."""
    await store.put(NS, "both", {"title": "green tea", "body": "ships at sea"})
    await store.put(NS, "one", {"title": "green teas", "body": "rust"})
    found = await store.search(NS, query="green tea")
    equal([item.key for item in found], ["both", "one"], "keys")
    true((found[0].score or 0) > EXACT, f"score {found[0].score}")


@check(index=IndexNeeds(fields=("parts[*]",)))
async def many_vectors_of_one_item_crowd_out_nobody(store: StoreDriver) -> None:
    """An item with sixty near vectors takes one place on a page of five, not five."""
    await store.put(NS, "long", {"parts": [f"green tea {n}" for n in range(60)]})
    for n in range(5):
        await store.put(NS, f"short{n}", {"parts": [f"ships at sea {n}"]})
    found = await store.keys(NS, query="green tea", limit=5)
    equal([len(found), len(set(found)), found[:1]], [5, 5, ["long"]], "size, distinct, first")


@check(index=IndexNeeds(fields=("a.b", "tags[*]", "list[-1]")))
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


@check(index=IndexNeeds(fields=("$",)))
async def the_root_path_is_the_whole_value(store: StoreDriver) -> None:
    """`$` embeds the value as JSON with sorted keys and Unicode as it is."""
    await store.put(NS, "k", {"b": "é", "a": 1})
    await _exact(store, '{"a": 1, "b": "é"}', "k")


@check(index=IndexNeeds())
async def missing_fields_are_skipped(store: StoreDriver) -> None:
    """An item without the indexed field is stored, without a vector."""
    await store.put(NS, "k", {"other": "green tea"})
    equal(await store.value(NS, "k"), {"other": "green tea"}, "value")
    equal((await _scores(store, "green tea")).get("k"), None, "score")


@check(index=IndexNeeds())
async def put_may_name_its_own_fields(store: StoreDriver) -> None:
    """A list of paths in put replaces the configured fields for that item."""
    await store.put(NS, "k", {"text": "green tea", "title": "ships at sea"}, index=["title"])
    await _exact(store, "ships at sea", "k")
    await _exact(store, "green tea")


@check(index=IndexNeeds())
async def put_with_no_fields_embeds_nothing(store: StoreDriver) -> None:
    """`index=False` and `index=[]` store the item without a vector."""
    await store.put(NS, "false", {"text": "green tea"}, index=False)
    await store.put(NS, "empty", {"text": "green tea"}, index=[])
    equal(sorted(await store.keys(NS)), ["empty", "false"], "keys")
    await _exact(store, "green tea")


@check(index=IndexNeeds())
async def an_index_that_is_no_list_is_refused(store: StoreDriver) -> None:
    """`index="text"` and `index=True` are a ValueError and write nothing, raw or not."""
    for bad in ("text", True):
        put = store.put(NS, "k", {"text": "green tea"}, index=bad)
        await refused(put, ValueError, what=f"put(index={bad!r})")
        op = PutOp(NS, "k", {"text": "green tea"})._replace(index=bad)  # type: ignore[arg-type]
        await refused(store.batch([op]), ValueError, what=f"PutOp(index={bad!r})")
    equal(await store.keys(NS), [], "keys that were written")


@check(index=IndexNeeds())
async def equal_texts_in_one_batch_are_all_indexed(store: StoreDriver) -> None:
    """Items of one batch that share a text are all found by it."""
    await store.batch([PutOp(NS, f"k{n}", {"text": "green tea"}) for n in range(3)])
    await _exact(store, "green tea", "k0", "k1", "k2")


@check(index=IndexNeeds(fields=("parts[*]",)))
async def equal_texts_in_one_item_are_indexed(store: StoreDriver) -> None:
    """An item that repeats a text is found by it, and once."""
    await store.put(NS, "k", {"parts": ["green tea", "green tea", "rust"]})
    equal(await store.keys(NS, query="green tea"), ["k"], "keys")
    await _exact(store, "green tea", "k")


@check(index=IndexNeeds())
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


@check(index=IndexNeeds(embed=_mixed_numbers))
async def a_plain_function_may_embed_and_mix_int_with_float(store: StoreDriver) -> None:
    """`embed` may be a function of texts, and its vectors may hold ints beside floats."""
    await store.put(NS, "tea", {"text": "green tea"})
    await store.put(NS, "sea", {"text": "ships at sea"})
    equal(await store.keys(NS, query="green tea"), ["tea", "sea"], "keys")
