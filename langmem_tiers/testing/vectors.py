"""Rules for a search with a query: scores, order and pages, and the embeddings of an item."""

import math

from langgraph.store.base import PutOp, SearchItem

from langmem_tiers.testing.kit import (
    DIMS,
    EXACT,
    NS,
    IndexNeeds,
    Rules,
    TrigramEmbeddings,
    equal,
    refused,
    requires,
    true,
)

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


def _close(items: list[SearchItem], wanted: dict[str, float]) -> None:
    scores = {item.key: item.score for item in items}
    near = all(
        isinstance(scores.get(key), float)
        and math.isclose(scores[key] or 0.0, score, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
        for key, score in wanted.items()
    )
    true(near, f"scores: found {scores}, wanted {wanted}")


def _mixed_numbers(texts: list[str]) -> list[list[float]]:
    """Return vectors that begin with an int: `[1, 0.25, …]`, as some models' JSON does."""
    vectors = TrigramEmbeddings(DIMS).embed_documents(texts)
    return [[1, 0, *vector[2:]] for vector in vectors]


class Scoring(Rules, index=IndexNeeds()):
    """Scores, order and pages of a search with a query."""

    async def _fill_texts(self) -> None:
        await self.batch([PutOp(NS, key, {"text": text}) for key, text in TEXTS.items()])

    async def the_nearest_text_is_first(self) -> None:
        """Results are in order of score, the best first, and every item of the prefix is scored."""
        await self._fill_texts()
        query = "green tea with lemons"
        wanted = sorted(TEXTS, key=lambda key: -_cosine(query, TEXTS[key]))
        equal(await self.keys(NS, query=query), wanted, "keys in order")

    async def scores_are_cosines(self) -> None:
        """A score is a float, the cosine similarity to within 0.01, negative ones too."""
        await self._fill_texts()
        query = "ships in the harbour"
        wanted = {key: _cosine(query, text) for key, text in TEXTS.items()}
        _close(await self.search(NS, query=query), wanted)

    @requires(index=IndexNeeds(distance_type="l2"))
    async def l2_scores_are_minus_the_distance(self) -> None:
        """With `distance_type` l2 a score is minus the Euclidean distance."""
        await self._fill_texts()
        vector = _vector("green tea")
        wanted = {key: -math.dist(vector, _vector(text)) for key, text in TEXTS.items()}
        _close(await self.search(NS, query="green tea"), wanted)

    @requires(index=IndexNeeds(distance_type="inner_product"))
    async def inner_product_scores_are_the_product(self) -> None:
        """With `distance_type` inner_product a score is the inner product."""
        await self._fill_texts()
        vector = _vector("green tea")
        wanted = {key: _dot(vector, _vector(text)) for key, text in TEXTS.items()}
        _close(await self.search(NS, query="green tea"), wanted)

    async def no_query_means_no_scores_with_an_index(self) -> None:
        """With an index too, a search without a query, or with the empty one, has score None."""
        await self._fill_texts()
        for options in ({}, {"query": None}, {"query": ""}):
            scores = [item.score for item in await self.search(NS, **options)]
            equal(scores, [None] * len(TEXTS), f"scores of search({options})")

    async def a_query_stays_under_its_prefix(self) -> None:
        """A query finds nothing outside the namespace prefix, however near."""
        await self.put(NS, "in", {"text": "the borrow checker"})
        await self.put((*NS, "deep"), "deep", {"text": "ships in the harbour"})
        await self.put((NS[0], f"{NS[1]}2"), "out", {"text": "green tea"})
        equal(sorted(await self.keys(NS, query="green tea")), ["deep", "in"], "keys")

    async def a_query_and_a_filter_both_hold(self) -> None:
        """A filter leaves items out before the page is filled with the nearest of the rest."""
        texts = [f"green tea {n}" for n in range(30)] + ["rust", "ships"]
        kinds = ["drink"] * 30 + ["other"] * 2
        both = enumerate(zip(texts, kinds, strict=True))
        await self.batch([PutOp(NS, f"k{n}", {"text": t, "kind": kind}) for n, (t, kind) in both])
        keys = await self.keys(NS, query="green tea 3", filter={"kind": "other"}, limit=2)
        equal(sorted(keys), ["k30", "k31"], "keys")

    async def pages_under_a_query_lose_nothing(self) -> None:
        """Thirty hits, paged by two, are all found, each once."""
        keys = [f"k{n:02}" for n in range(30)]
        await self.batch([PutOp(NS, key, {"text": f"green tea {key}"}) for key in keys])
        pages = await self._pages(2, 30, query="green tea")
        equal(sorted(key for page in pages for key in page), keys, "keys of all pages")

    async def ties_under_a_query_lose_nothing(self) -> None:
        """Twelve items of one text, equal in score, paged by five, are all found, each once."""
        keys = [f"k{n:02}" for n in range(12)]
        for key in keys:
            await self.put(NS, key, {"text": "green tea"})
        pages = await self._pages(5, 12, query="green tea")
        equal(sorted(key for page in pages for key in page), keys, "keys of all pages")

    @requires(index=IndexNeeds(embed=_first_letters))
    async def items_equal_in_score_and_time_have_one_order(self) -> None:
        """Items of one score and one `updated_at` are in one order, however they were put."""
        await self._have_one_order("score and time", query="tea")

    async def items_without_a_vector_come_last(self) -> None:
        """Items that were not indexed fill the page after the scored ones, with score None."""
        await self.put(NS, "hidden", {"text": "green tea"}, index=False)
        await self.put(NS, "far", {"text": "ships in the harbour"})
        items = await self.search(NS, query="green tea")
        equal([item.key for item in items], ["far", "hidden"], "keys")
        equal([item.score is None for item in items], [False, True], "no score")

    async def items_without_a_vector_take_no_scored_place(self) -> None:
        """A page that scored items can fill holds no other."""
        for n in range(3):
            await self.put(NS, f"hidden{n}", {"text": "green tea"}, index=False)
            await self.put(NS, f"seen{n}", {"text": f"ships {n}"})
        keys = await self.keys(NS, query="green tea", limit=3)
        equal(sorted(keys), ["seen0", "seen1", "seen2"], "keys")

    async def pages_cover_items_with_and_without_vectors_once(self) -> None:
        """Pages over both kinds of item hold each once, the scored ones first."""
        for n in range(4):
            await self.put(NS, f"hidden{n}", {"text": "green tea"}, index=False)
            await self.put(NS, f"seen{n}", {"text": f"green tea {n}"})
        pages = [await self.keys(NS, query="green tea", limit=3, offset=at) for at in (0, 3, 6, 9)]
        equal([len(page) for page in pages], [3, 3, 2, 0], "sizes of pages")
        keys = [key for page in pages for key in page]
        equal(sorted(keys[:4]), [f"seen{n}" for n in range(4)], "the scored ones")
        equal(sorted(keys[4:]), [f"hidden{n}" for n in range(4)], "the others")

    async def a_query_may_ask_for_nothing(self) -> None:
        """With a query too, a limit of 0 gives no results."""
        await self._fill_texts()
        equal(await self.keys(NS, query="tea", limit=0), [], "search(limit=0)")


class Index(Rules, index=IndexNeeds()):
    """Embeddings of an item: which fields are embedded."""

    async def _scores(self, query: str) -> dict[str, float | None]:
        return {item.key: item.score for item in await self.search(NS, query=query, limit=100)}

    async def _exact(self, query: str, *keys: str) -> None:
        scores = await self._scores(query)
        hits = sorted(key for key, score in scores.items() if score is not None and score > EXACT)
        equal(hits, sorted(keys), f"exact hits of {query!r} in {scores}")

    @requires(index=IndexNeeds(fields=("title", "body")))
    async def every_field_of_the_configuration_is_embedded(self) -> None:
        """Each configured field is a vector of its own; other fields are not embedded."""
        await self.put(NS, "k", {"title": "green tea", "body": "ships at sea", "note": "hidden"})
        await self._exact("green tea", "k")
        await self._exact("ships at sea", "k")
        await self._exact("hidden")

    @requires(index=IndexNeeds(fields=("title", "body")))
    async def an_item_scores_by_its_best_vector(self) -> None:
        """An item with several vectors appears once, with the best of their scores."""
        await self.put(NS, "both", {"title": "green tea", "body": "ships at sea"})
        await self.put(NS, "one", {"title": "green teas", "body": "rust"})
        items = await self.search(NS, query="green tea")
        equal([item.key for item in items], ["both", "one"], "keys")
        true((items[0].score or 0) > EXACT, f"score {items[0].score}")

    @requires(index=IndexNeeds(fields=("parts[*]",)))
    async def many_vectors_of_one_item_crowd_out_nobody(self) -> None:
        """An item with sixty near vectors takes one place on a page of five, not five."""
        await self.put(NS, "long", {"parts": [f"green tea {n}" for n in range(60)]})
        for n in range(5):
            await self.put(NS, f"short{n}", {"parts": [f"ships at sea {n}"]})
        keys = await self.keys(NS, query="green tea", limit=5)
        equal([len(keys), len(set(keys)), keys[:1]], [5, 5, ["long"]], "size, distinct, first")

    @requires(index=IndexNeeds(fields=("a.b", "tags[*]", "list[-1]")))
    async def paths_reach_into_the_value(self) -> None:
        """Paths name nested fields, every element of a list, or one by its position."""
        await self.put(NS, "nested", {"a": {"b": "green tea", "c": "rust"}})
        await self.put(NS, "tags", {"tags": ["ships at sea", "harbour light"]})
        await self.put(NS, "list", {"list": ["borrow checker", "last words"]})
        await self._exact("green tea", "nested")
        await self._exact("rust")
        await self._exact("harbour light", "tags")
        await self._exact("ships at sea", "tags")
        await self._exact("last words", "list")
        await self._exact("borrow checker")

    @requires(index=IndexNeeds(fields=("$",)))
    async def the_root_path_is_the_whole_value(self) -> None:
        """`$` embeds the value as JSON with sorted keys and Unicode as it is."""
        await self.put(NS, "k", {"b": "é", "a": 1})
        await self._exact('{"a": 1, "b": "é"}', "k")

    async def missing_fields_are_skipped(self) -> None:
        """An item without the indexed field is stored, without a vector."""
        await self.put(NS, "k", {"other": "green tea"})
        equal(await self.value(NS, "k"), {"other": "green tea"}, "value")
        equal((await self._scores("green tea")).get("k"), None, "score")

    async def put_may_name_its_own_fields(self) -> None:
        """A list of paths in put replaces the configured fields for that item."""
        await self.put(NS, "k", {"text": "green tea", "title": "ships at sea"}, index=["title"])
        await self._exact("ships at sea", "k")
        await self._exact("green tea")

    async def put_with_no_fields_embeds_nothing(self) -> None:
        """`index=False` and `index=[]` store the item without a vector."""
        await self.put(NS, "false", {"text": "green tea"}, index=False)
        await self.put(NS, "empty", {"text": "green tea"}, index=[])
        equal(sorted(await self.keys(NS)), ["empty", "false"], "keys")
        await self._exact("green tea")

    async def an_index_that_is_no_list_is_refused(self) -> None:
        """`index="text"` and `index=True` are a ValueError and write nothing, raw or not."""
        for bad in ("text", True):
            put = self.put(NS, "k", {"text": "green tea"}, index=bad)
            await refused(put, ValueError, what=f"put(index={bad!r})")
            op = PutOp(NS, "k", {"text": "green tea"})._replace(index=bad)  # type: ignore[arg-type]
            await refused(self.batch([op]), ValueError, what=f"PutOp(index={bad!r})")
        equal(await self.keys(NS), [], "keys that were written")

    async def equal_texts_in_one_batch_are_all_indexed(self) -> None:
        """Items of one batch that share a text are all found by it."""
        await self.batch([PutOp(NS, f"k{n}", {"text": "green tea"}) for n in range(3)])
        await self._exact("green tea", "k0", "k1", "k2")

    @requires(index=IndexNeeds(fields=("parts[*]",)))
    async def equal_texts_in_one_item_are_indexed(self) -> None:
        """An item that repeats a text is found by it, and once."""
        await self.put(NS, "k", {"parts": ["green tea", "green tea", "rust"]})
        equal(await self.keys(NS, query="green tea"), ["k"], "keys")
        await self._exact("green tea", "k")

    async def blank_texts_never_score_nan(self) -> None:
        """A blank text, stored or asked for, is no error and its score is never NaN."""
        await self.put(NS, "empty", {"text": ""})
        await self.put(NS, "spaces", {"text": " \n"})
        await self.put(NS, "tea", {"text": "green tea"})
        for query in ("green tea", " "):
            scores = await self._scores(query)
            numbers = [score for score in scores.values() if score is not None]
            true(not any(map(math.isnan, numbers)), f"scores for {query!r}: {scores}")
        equal((await self.keys(NS, query="green tea"))[0], "tea", "first key")

    @requires(index=IndexNeeds(embed=_mixed_numbers))
    async def a_plain_function_may_embed_and_mix_int_with_float(self) -> None:
        """`embed` may be a function of texts, and its vectors may hold ints beside floats."""
        await self.put(NS, "tea", {"text": "green tea"})
        await self.put(NS, "sea", {"text": "ships at sea"})
        equal(await self.keys(NS, query="green tea"), ["tea", "sea"], "keys")
