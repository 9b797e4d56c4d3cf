"""What a condition on the value finds, and which namespaces are listed."""

from typing import Any, cast

from langgraph.store.base import ListNamespacesOp, MatchCondition, PutOp

from langmem_tiers.testing.kit import NS, Namespace, StoreDriver, check, equal, refused

# filters

MISSING = object()


async def _fill(store: StoreDriver, **values: Any) -> None:
    ops = [PutOp(NS, key, {} if v is MISSING else {"v": v}) for key, v in values.items()]
    await store.batch(ops)


async def _finds(store: StoreDriver, condition: Any, *keys: str) -> None:
    found = await store.keys(NS, filter={"v": condition}, limit=100)
    equal(sorted(found), sorted(keys), f"filter {condition!r}")


@check("filters")
async def a_scalar_filter_is_equality(store: StoreDriver) -> None:
    """A plain value and `$eq` find equal values and nothing else."""
    await _fill(store, a="red", b="Red", c="red ", d=3, e="3", f=True, g=MISSING)
    for condition, key in (("red", "a"), (3, "d"), ("3", "e"), (True, "f")):
        await _finds(store, condition, key)
        await _finds(store, {"$eq": condition}, key)


@check("filters")
async def several_filter_keys_are_anded(store: StoreDriver) -> None:
    """Every key of a filter must match; an empty filter matches all."""
    await store.put(NS, "both", {"a": 1, "b": 2})
    await store.put(NS, "one", {"a": 1, "b": 3})
    equal(await store.keys(NS, filter={"a": 1, "b": 2}), ["both"], "two keys")
    equal(sorted(await store.keys(NS, filter={})), ["both", "one"], "the empty filter")


@check("filters")
async def true_is_not_one(store: StoreDriver) -> None:
    """A boolean equals only a boolean, also inside lists and objects."""
    await _fill(store, t=True, one=1, f=False, zero=0, list_t=[True], list_one=[1])
    await _finds(store, {"$eq": True}, "t")
    await _finds(store, 1, "one")
    await _finds(store, {"$eq": False}, "f")
    await _finds(store, [1], "list_one")
    await _finds(store, {"$ne": 1}, "t", "f", "zero", "list_t", "list_one")


@check("filters")
async def equal_numbers_match_whatever_their_type(store: StoreDriver) -> None:
    """9 and 9.0 are equal."""
    await _fill(store, int=9, float=9.0, other=9.5)
    await _finds(store, 9, "int", "float")
    await _finds(store, {"$eq": 9.0}, "int", "float")


@check("filters")
async def a_null_filter_matches_only_null(store: StoreDriver) -> None:
    """None and `$eq: None` find a JSON null, not a missing key."""
    await _fill(store, null=None, missing=MISSING, zero=0, empty="")
    await _finds(store, None, "null")
    await _finds(store, {"$eq": None}, "null")


@check("filters")
async def not_equal_includes_items_without_the_key(store: StoreDriver) -> None:
    """`$ne` finds what differs, items without the key and null included."""
    await _fill(store, a="x", b="y", null=None, missing=MISSING)
    await _finds(store, {"$ne": "x"}, "b", "null", "missing")


@check("filters")
async def numbers_compare_as_numbers(store: StoreDriver) -> None:
    """`$gt`, `$gte`, `$lt`, `$lte` compare numbers as numbers: 9 < 10 < 100."""
    await _fill(store, minus=-20, tenth=0.1, nine=9, ten=10, tenf=10.0, hundred=100, big=10**20)
    await _finds(store, {"$gt": 10}, "hundred", "big")
    await _finds(store, {"$gte": 10}, "ten", "tenf", "hundred", "big")
    await _finds(store, {"$lt": 9.5}, "minus", "tenth", "nine")
    await _finds(store, {"$lte": 9}, "minus", "tenth", "nine")


@check("filters")
async def operators_of_one_key_are_anded(store: StoreDriver) -> None:
    """A range is two operators on one key."""
    await _fill(store, a=4, b=5, c=9, d=10, e=49, f=50)
    await _finds(store, {"$gte": 5, "$lt": 50}, "b", "c", "d", "e")
    await _finds(store, {"$gt": 4, "$ne": 10, "$lte": 49}, "b", "c", "e")


@check("filters")
async def comparing_other_kinds_matches_nothing(store: StoreDriver) -> None:
    """A number is compared with numbers alone: text, null, lists and missing keys never match."""
    await _fill(
        store, n=5, text="7", word="abc", null=None, yes=True, list=[9], obj={"a": 9}, no=MISSING
    )
    await _finds(store, {"$gt": 1}, "n")
    await _finds(store, {"$lte": 1000}, "n")
    await _finds(store, {"$gt": "1"}, "text", "word")
    await _finds(store, {"$gt": None})
    await _finds(store, {"$lt": [10]})


@check("filters")
async def texts_compare_as_texts(store: StoreDriver) -> None:
    """Two texts are compared as texts, so ISO dates are in order of time."""
    await _fill(store, a="2023-12-31", b="2024-01-01", c="2024-06-30T12:00:00Z", d="2025-01-01")
    await _finds(store, {"$gte": "2024-01-01", "$lt": "2025-01-01"}, "b", "c")
    await _finds(store, {"$gt": "2024-06"}, "c", "d")


@check("filters")
async def infinity_and_nan_are_bounds_without_error(store: StoreDriver) -> None:
    """Nothing is greater than infinity, nothing compares with NaN, and neither raises."""
    await _fill(store, a=1, b=10**300)
    await _finds(store, {"$gt": float("inf")})
    await _finds(store, {"$gt": float("nan")})
    await _finds(store, {"$lte": float("nan")})


@check("filters")
async def a_nested_filter_matches_a_subset(store: StoreDriver) -> None:
    """An object without operators matches objects that hold at least it, at any depth."""
    await _fill(
        store,
        whole={"a": {"b": 1, "c": 2}, "d": 3},
        other={"a": {"b": 9}},
        flat={"a": 1},
        text="a",
        missing=MISSING,
    )
    await _finds(store, {"a": {"b": 1}}, "whole")
    await _finds(store, {"a": {"c": 2}, "d": 3}, "whole")
    await _finds(store, {"a": 1}, "flat")


@check("filters")
async def operators_work_inside_nested_filters(store: StoreDriver) -> None:
    """An operator may stand at any depth of a nested filter."""
    await _fill(store, nine={"a": {"n": 9}}, ten={"a": {"n": 10}}, none={"a": {}})
    await _finds(store, {"a": {"n": {"$gt": 9}}}, "ten")
    await _finds(store, {"a": {"n": {"$ne": 9}}}, "ten", "none")


@check("filters")
async def a_list_filter_is_the_whole_list(store: StoreDriver) -> None:
    """A list matches the equal list: same elements, same order, same length."""
    await _fill(store, ab=["a", "b"], ba=["b", "a"], a=["a"], abc=["a", "b", "c"], text="a")
    await _finds(store, ["a", "b"], "ab")
    await _finds(store, {"$eq": ["a"]}, "a")


@check("filters")
async def dotted_filter_keys_are_literal(store: StoreDriver) -> None:
    """A dot in a filter key is a character, not a path."""
    await store.put(NS, "literal", {"a.b": 1})
    await store.put(NS, "nested", {"a": {"b": 1}})
    equal(await store.keys(NS, filter={"a.b": 1}), ["literal"], "filter on a.b")


@check("filters")
async def filter_keys_are_not_code(store: StoreDriver) -> None:
    """Quotes, percent signs, braces and comments in filter keys and values match themselves."""
    odd = ["it's", '"', "'; DROP TABLE store; --", "%s", "{a,b}", "\\", "a->>'b'"]
    for key in odd:
        await store.put(NS, key, {key: key})
    for key in odd:
        equal(await store.keys(NS, filter={key: key}), [key], f"filter on {key!r}")


@check("filters")
async def unknown_operators_are_refused(store: StoreDriver) -> None:
    """An operator that does not exist is a ValueError, beside a known one and nested too."""
    await _fill(store, k=1, nested={"a": 1})
    for condition in ({"$what": 1}, {"$gt": 0, "$what": 1}, {"$in": [1]}, {"$regex": "a"}):
        call = store.search(NS, filter={"v": condition})
        await refused(call, ValueError, what=f"filter {condition!r}")
    nested = store.search(NS, filter={"v": {"a": {"$what": 1}}})
    await refused(nested, ValueError, what="nested unknown operator")


@check("filters")
async def filters_apply_before_pages(store: StoreDriver) -> None:
    """A page is filled from the items that match, and its offset counts only them."""
    await store.batch([PutOp(NS, f"k{n:02}", {"v": n % 5}) for n in range(40)])
    pages = [await store.keys(NS, filter={"v": 3}, limit=3, offset=at) for at in (0, 3, 6, 9)]
    equal([len(page) for page in pages], [3, 3, 2, 0], "sizes of pages")
    wanted = [f"k{n:02}" for n in range(3, 40, 5)]
    equal(sorted(key for page in pages for key in page), wanted, "keys")


# listing

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


async def _plant(store: StoreDriver, namespaces: list[Namespace] = TREE) -> None:
    ops = [PutOp(ns, key, {"n": 1}) for ns in reversed(namespaces) for key in ("1", "2")]
    await store.batch(ops)


async def _lists(store: StoreDriver, wanted: list[Namespace], **options: Any) -> None:
    equal(await store.list_namespaces(**options), wanted, f"list_namespaces({options})")


@check("listing")
async def namespaces_are_sorted_and_listed_once(store: StoreDriver) -> None:
    """Each namespace that holds items is listed once, as a tuple, in order."""
    await _plant(store)
    await _lists(store, TREE)


@check("listing")
async def namespaces_sort_label_by_label(store: StoreDriver) -> None:
    """The order is that of Python's tuples of text: by label, by code point."""
    labels: list[Namespace] = [("B",), ("a", "z"), ("a!",), ("a-b",), ("ab",), ("é",)]
    await _plant(store, labels)
    await _lists(store, labels)


@check("listing")
async def prefixes_and_suffixes_match_whole_labels(store: StoreDriver) -> None:
    """A prefix is the first labels, a suffix the last, both as whole labels, both at once."""
    await _plant(store, [*TREE, ("users1",), ("x", "af")])
    await _lists(store, TREE[:4], prefix=("a", "b"))
    await _lists(store, [TREE[3], TREE[4], TREE[5]], suffix=("f",))
    await _lists(store, [TREE[3], TREE[4]], prefix=("a",), suffix=("f",))
    await _lists(store, TREE[6:], prefix=("users",))


@check("listing")
async def a_wildcard_is_exactly_one_label(store: StoreDriver) -> None:
    """`*` stands for one label, no fewer and no more, in a prefix and in a suffix."""
    await _plant(store)
    await _lists(store, [TREE[3], TREE[4]], prefix=("a", "*", "f"))
    await _lists(store, [TREE[7]], prefix=("users", "*", "settings"))
    await _lists(store, TREE[6:], prefix=("users", "*"))
    await _lists(store, [TREE[3], TREE[4]], suffix=("a", "*", "f"))
    await _lists(store, [TREE[7]], suffix=("users", "*", "settings"))


@check("listing")
async def patterns_longer_than_a_namespace_do_not_match(store: StoreDriver) -> None:
    """A prefix or suffix with more labels than a namespace does not match it."""
    await _plant(store, [("a",), ("a", "b")])
    await _lists(store, [("a", "b")], prefix=("a", "*"))
    await _lists(store, [("a", "b")], suffix=("*", "b"))
    await _lists(store, [], prefix=("*", "*", "*"))


@check("listing")
async def conditions_of_one_kind_are_anded(store: StoreDriver) -> None:
    """Two prefixes in one raw operation must both match."""
    await _plant(store)
    conditions = (MatchCondition("prefix", ("a", "*")), MatchCondition("prefix", ("*", "c")))
    got = await store.batch([ListNamespacesOp(match_conditions=conditions)])
    equal(got, [[("a", "c", "f")]], "namespaces")


@check("listing")
async def max_depth_cuts_and_merges(store: StoreDriver) -> None:
    """`max_depth` cuts namespaces to that many labels and lists equal ones once."""
    await _plant(store)
    cut: list[Namespace] = [("a", "b"), ("a", "c"), ("b", "a"), ("users", "123"), ("users", "456")]
    await _lists(store, cut, max_depth=2)
    await _lists(store, [("a", "b", "c"), ("a", "b", "d"), ("a", "b", "f")], max_depth=3, limit=3)
    await _lists(store, [("a", "b"), ("a", "c")], max_depth=2, suffix=("f",), prefix=("a",))


@check("listing")
async def max_depth_zero_is_the_empty_namespace(store: StoreDriver) -> None:
    """A `max_depth` of 0 cuts every namespace to `()`, and an empty store lists nothing."""
    await _lists(store, [], max_depth=0)
    await _plant(store)
    await _lists(store, [()], max_depth=0)


@check("listing")
async def namespace_pages_come_after_cutting(store: StoreDriver) -> None:
    """`limit` and `offset` count the namespaces that are left after cutting and merging."""
    await _plant(store)
    pages = [await store.list_namespaces(max_depth=2, limit=2, offset=at) for at in (0, 2, 4, 6)]
    wanted = [[("a", "b"), ("a", "c")], [("b", "a"), ("users", "123")], [("users", "456")], []]
    equal(pages, wanted, "pages of 2")
    await _lists(store, [], limit=0)


@check("listing")
async def negative_namespace_pages_are_refused(store: StoreDriver) -> None:
    """A negative limit or offset is a ValueError."""
    await _plant(store)
    await refused(store.list_namespaces(limit=-1), ValueError, what="limit=-1")
    await refused(store.list_namespaces(offset=-1), ValueError, what="offset=-1")


@check("listing")
async def emptied_namespaces_are_not_listed(store: StoreDriver) -> None:
    """A namespace whose last item was deleted is not listed."""
    await store.put(("a",), "k", {"n": 1})
    await store.put(("b",), "k", {"n": 1})
    await store.delete(("a",), "k")
    await _lists(store, [("b",)])


@check("listing")
async def namespaces_merely_read_are_not_listed(store: StoreDriver) -> None:
    """Reading or deleting in a namespace that holds nothing does not list it."""
    await store.put(("a",), "k", {"n": 1})
    await store.get(("read",), "k")
    await store.search(("searched",))
    await store.delete(("deleted",), "k")
    await _lists(store, [("a",)])


@check("listing")
async def unknown_match_types_are_refused(store: StoreDriver) -> None:
    """A match type other than prefix and suffix is a ValueError."""
    await _plant(store)
    condition = MatchCondition(cast("Any", "infix"), ("a",))
    call = store.batch([ListNamespacesOp(match_conditions=(condition,))])
    await refused(call, ValueError, what="match type infix")
