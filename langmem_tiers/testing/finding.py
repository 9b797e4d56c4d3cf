"""Rules for filters on values, and for lists of namespaces."""

from typing import Any, cast

from langgraph.store.base import ListNamespacesOp, MatchCondition, PutOp

from langmem_tiers.testing.kit import NS, Namespace, Rules, equal, refused

MISSING = object()


TREE: list[Namespace] = [
    ("a", "b", "c"),
    ("a", "b", "d", "e"),
    ("a", "b", "d", "i"),
    ("a", "b", "f"),
    ("a", "c", "f"),
    ("b", "a", "f"),
    ("users", "123"),
    ("users", "456", "settings"),
]


class Filters(Rules):
    """Filters: conditions on the value."""

    async def _fill(self, **values: Any) -> None:
        ops = [PutOp(NS, key, {} if v is MISSING else {"v": v}) for key, v in values.items()]
        await self.batch(ops)

    async def _finds(self, condition: Any, *keys: str) -> None:
        hits = await self.keys(NS, filter={"v": condition}, limit=100)
        equal(sorted(hits), sorted(keys), f"filter {condition!r}")

    async def a_scalar_filter_is_equality(self) -> None:
        """A plain value and `$eq` find equal values and nothing else."""
        await self._fill(a="red", b="Red", c="red ", d=3, e="3", f=True, g=MISSING)
        for condition, key in (("red", "a"), (3, "d"), ("3", "e"), (True, "f")):
            await self._finds(condition, key)
            await self._finds({"$eq": condition}, key)

    async def several_filter_keys_are_anded(self) -> None:
        """Every key of a filter must match; an empty filter matches all."""
        await self.put(NS, "both", {"a": 1, "b": 2})
        await self.put(NS, "one", {"a": 1, "b": 3})
        equal(await self.keys(NS, filter={"a": 1, "b": 2}), ["both"], "two keys")
        equal(sorted(await self.keys(NS, filter={})), ["both", "one"], "the empty filter")

    async def true_is_not_one(self) -> None:
        """A boolean equals only a boolean, also inside lists and objects."""
        await self._fill(t=True, one=1, f=False, zero=0, list_t=[True], list_one=[1])
        await self._finds({"$eq": True}, "t")
        await self._finds(1, "one")
        await self._finds({"$eq": False}, "f")
        await self._finds([1], "list_one")
        await self._finds({"$ne": 1}, "t", "f", "zero", "list_t", "list_one")

    async def equal_numbers_match_whatever_their_type(self) -> None:
        """9 and 9.0 are equal."""
        await self._fill(int=9, float=9.0, other=9.5)
        await self._finds(9, "int", "float")
        await self._finds({"$eq": 9.0}, "int", "float")

    async def a_null_filter_matches_only_null(self) -> None:
        """A null filter, None or `$eq: None`, finds a JSON null, not a missing key."""
        await self._fill(null=None, missing=MISSING, zero=0, empty="")
        await self._finds(None, "null")
        await self._finds({"$eq": None}, "null")

    async def not_equal_includes_items_without_the_key(self) -> None:
        """`$ne` finds what differs, items without the key and null included."""
        await self._fill(a="x", b="y", null=None, missing=MISSING)
        await self._finds({"$ne": "x"}, "b", "null", "missing")

    async def numbers_compare_as_numbers(self) -> None:
        """`$gt`, `$gte`, `$lt`, `$lte` compare numbers as numbers: 9 < 10 < 100."""
        await self._fill(minus=-20, tenth=0.1, nine=9, ten=10, tenf=10.0, hundred=100, big=10**20)
        await self._finds({"$gt": 10}, "hundred", "big")
        await self._finds({"$gte": 10}, "ten", "tenf", "hundred", "big")
        await self._finds({"$lt": 9.5}, "minus", "tenth", "nine")
        await self._finds({"$lte": 9}, "minus", "tenth", "nine")

    async def operators_of_one_key_are_anded(self) -> None:
        """A range is two operators on one key."""
        await self._fill(a=4, b=5, c=9, d=10, e=49, f=50)
        await self._finds({"$gte": 5, "$lt": 50}, "b", "c", "d", "e")
        await self._finds({"$gt": 4, "$ne": 10, "$lte": 49}, "b", "c", "e")

    async def comparing_other_kinds_matches_nothing(self) -> None:
        """A number compares with numbers alone: text, null, lists and missing keys never match."""
        await self._fill(
            n=5, text="7", word="abc", null=None, yes=True, list=[9], obj={"a": 9}, no=MISSING
        )
        await self._finds({"$gt": 1}, "n")
        await self._finds({"$lte": 1000}, "n")
        await self._finds({"$gt": "1"}, "text", "word")
        await self._finds({"$gt": None})
        await self._finds({"$lt": [10]})

    async def texts_compare_as_texts(self) -> None:
        """Two texts are compared as texts, so ISO dates are in order of time."""
        await self._fill(a="2023-12-31", b="2024-01-01", c="2024-06-30T12:00:00Z", d="2025-01-01")
        await self._finds({"$gte": "2024-01-01", "$lt": "2025-01-01"}, "b", "c")
        await self._finds({"$gt": "2024-06"}, "c", "d")

    async def infinity_and_nan_are_bounds_without_error(self) -> None:
        """Nothing is greater than infinity, nothing compares with NaN, and neither raises."""
        await self._fill(a=1, b=10**300)
        await self._finds({"$gt": float("inf")})
        await self._finds({"$gt": float("nan")})
        await self._finds({"$lte": float("nan")})

    async def a_nested_filter_matches_a_subset(self) -> None:
        """An object without operators matches objects that hold at least it, at any depth."""
        await self._fill(
            whole={"a": {"b": 1, "c": 2}, "d": 3},
            other={"a": {"b": 9}},
            flat={"a": 1},
            text="a",
            missing=MISSING,
        )
        await self._finds({"a": {"b": 1}}, "whole")
        await self._finds({"a": {"c": 2}, "d": 3}, "whole")
        await self._finds({"a": 1}, "flat")

    async def operators_work_inside_nested_filters(self) -> None:
        """An operator may stand at any depth of a nested filter."""
        await self._fill(nine={"a": {"n": 9}}, ten={"a": {"n": 10}}, none={"a": {}})
        await self._finds({"a": {"n": {"$gt": 9}}}, "ten")
        await self._finds({"a": {"n": {"$ne": 9}}}, "ten", "none")

    async def a_list_filter_is_the_whole_list(self) -> None:
        """A list matches the equal list: same elements, same order, same length."""
        await self._fill(ab=["a", "b"], ba=["b", "a"], a=["a"], abc=["a", "b", "c"], text="a")
        await self._finds(["a", "b"], "ab")
        await self._finds({"$eq": ["a"]}, "a")

    async def dotted_filter_keys_are_literal(self) -> None:
        """A dot in a filter key is a character, not a path."""
        await self.put(NS, "literal", {"a.b": 1})
        await self.put(NS, "nested", {"a": {"b": 1}})
        equal(await self.keys(NS, filter={"a.b": 1}), ["literal"], "filter on a.b")

    async def filter_keys_are_not_code(self) -> None:
        """Quotes, percent signs, braces and comments in filter keys and values match themselves."""
        odd = ["it's", '"', "'; DROP TABLE store; --", "%s", "{a,b}", "\\", "a->>'b'"]
        for key in odd:
            await self.put(NS, key, {key: key})
        for key in odd:
            equal(await self.keys(NS, filter={key: key}), [key], f"filter on {key!r}")

    async def unknown_operators_are_refused(self) -> None:
        """An operator that does not exist is a ValueError, beside a known one and nested too."""
        await self._fill(k=1, nested={"a": 1})
        for condition in ({"$what": 1}, {"$gt": 0, "$what": 1}, {"$in": [1]}, {"$regex": "a"}):
            call = self.search(NS, filter={"v": condition})
            await refused(call, ValueError, what=f"filter {condition!r}")
        nested = self.search(NS, filter={"v": {"a": {"$what": 1}}})
        await refused(nested, ValueError, what="nested unknown operator")

    async def filters_apply_before_pages(self) -> None:
        """A page is filled from the items that match, and its offset counts only them."""
        await self.batch([PutOp(NS, f"k{n:02}", {"v": n % 5}) for n in range(40)])
        pages = [await self.keys(NS, filter={"v": 3}, limit=3, offset=at) for at in (0, 3, 6, 9)]
        equal([len(page) for page in pages], [3, 3, 2, 0], "sizes of pages")
        wanted = [f"k{n:02}" for n in range(3, 40, 5)]
        equal(sorted(key for page in pages for key in page), wanted, "keys")


class Listing(Rules):
    """Lists of namespaces."""

    async def _plant(self, namespaces: list[Namespace] = TREE) -> None:
        ops = [PutOp(ns, key, {"n": 1}) for ns in reversed(namespaces) for key in ("1", "2")]
        await self.batch(ops)

    async def _lists(self, wanted: list[Namespace], **options: Any) -> None:
        equal(await self.list_namespaces(**options), wanted, f"list_namespaces({options})")

    async def namespaces_are_sorted_and_listed_once(self) -> None:
        """Each namespace that holds items is listed once, as a tuple, in order."""
        await self._plant()
        await self._lists(TREE)

    async def namespaces_sort_label_by_label(self) -> None:
        """The order is that of Python's tuples of text: by label, by code point."""
        labels: list[Namespace] = [("B",), ("a", "z"), ("a!",), ("a-b",), ("ab",), ("é",)]
        await self._plant(labels)
        await self._lists(labels)

    async def prefixes_and_suffixes_match_whole_labels(self) -> None:
        """A prefix is the first labels, a suffix the last, both as whole labels, both at once."""
        await self._plant([*TREE, ("users1",), ("x", "af")])
        await self._lists(TREE[:4], prefix=("a", "b"))
        await self._lists([TREE[3], TREE[4], TREE[5]], suffix=("f",))
        await self._lists([TREE[3], TREE[4]], prefix=("a",), suffix=("f",))
        await self._lists(TREE[6:], prefix=("users",))

    async def a_wildcard_is_exactly_one_label(self) -> None:
        """`*` stands for one label, no fewer and no more, in a prefix and in a suffix."""
        await self._plant()
        await self._lists([TREE[3], TREE[4]], prefix=("a", "*", "f"))
        await self._lists([TREE[7]], prefix=("users", "*", "settings"))
        await self._lists(TREE[6:], prefix=("users", "*"))
        await self._lists([TREE[3], TREE[4]], suffix=("a", "*", "f"))
        await self._lists([TREE[7]], suffix=("users", "*", "settings"))

    async def patterns_longer_than_a_namespace_do_not_match(self) -> None:
        """A prefix or suffix with more labels than a namespace does not match it."""
        await self._plant([("a",), ("a", "b")])
        await self._lists([("a", "b")], prefix=("a", "*"))
        await self._lists([("a", "b")], suffix=("*", "b"))
        await self._lists([], prefix=("*", "*", "*"))

    async def conditions_of_one_kind_are_anded(self) -> None:
        """Two prefixes in one raw operation must both match."""
        await self._plant()
        conditions = (MatchCondition("prefix", ("a", "*")), MatchCondition("prefix", ("*", "c")))
        got = await self.batch([ListNamespacesOp(match_conditions=conditions)])
        equal(got, [[("a", "c", "f")]], "namespaces")

    async def max_depth_cuts_and_merges(self) -> None:
        """`max_depth` cuts namespaces to that many labels and lists equal ones once."""
        await self._plant()
        cut: list[Namespace] = [
            ("a", "b"),
            ("a", "c"),
            ("b", "a"),
            ("users", "123"),
            ("users", "456"),
        ]
        await self._lists(cut, max_depth=2)
        await self._lists([("a", "b", "c"), ("a", "b", "d"), ("a", "b", "f")], max_depth=3, limit=3)
        await self._lists([("a", "b"), ("a", "c")], max_depth=2, suffix=("f",), prefix=("a",))

    async def max_depth_zero_is_the_empty_namespace(self) -> None:
        """A `max_depth` of 0 cuts every namespace to `()`, and an empty store lists nothing."""
        await self._lists([], max_depth=0)
        await self._plant()
        await self._lists([()], max_depth=0)

    async def namespace_pages_come_after_cutting(self) -> None:
        """`limit` and `offset` count the namespaces that are left after cutting and merging."""
        await self._plant()
        pages = [await self.list_namespaces(max_depth=2, limit=2, offset=at) for at in (0, 2, 4, 6)]
        wanted = [[("a", "b"), ("a", "c")], [("b", "a"), ("users", "123")], [("users", "456")], []]
        equal(pages, wanted, "pages of 2")
        await self._lists([], limit=0)

    async def negative_namespace_pages_are_refused(self) -> None:
        """A negative limit or offset is a ValueError."""
        await self._plant()
        await refused(self.list_namespaces(limit=-1), ValueError, what="limit=-1")
        await refused(self.list_namespaces(offset=-1), ValueError, what="offset=-1")

    async def emptied_namespaces_are_not_listed(self) -> None:
        """A namespace whose last item was deleted is not listed."""
        await self.put(("a",), "k", {"n": 1})
        await self.put(("b",), "k", {"n": 1})
        await self.delete(("a",), "k")
        await self._lists([("b",)])

    async def namespaces_merely_read_are_not_listed(self) -> None:
        """Reading or deleting in a namespace that holds nothing does not list it."""
        await self.put(("a",), "k", {"n": 1})
        await self.get(("read",), "k")
        await self.search(("searched",))
        await self.delete(("deleted",), "k")
        await self._lists([("a",)])

    async def unknown_match_types_are_refused(self) -> None:
        """A match type other than prefix and suffix is a ValueError."""
        await self._plant()
        condition = MatchCondition(cast("Any", "infix"), ("a",))
        call = self.batch([ListNamespacesOp(match_conditions=(condition,))])
        await refused(call, ValueError, what="match type infix")
