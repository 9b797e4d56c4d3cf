"""list_namespaces: which namespaces there are."""

from typing import Any, cast

from langgraph.store.base import ListNamespacesOp, MatchCondition, PutOp

from langmem_tiers.testing.check import check
from langmem_tiers.testing.driver import Namespace, StoreDriver
from langmem_tiers.testing.expect import equal, refused

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


@check()
async def namespaces_are_sorted_and_listed_once(store: StoreDriver) -> None:
    """Each namespace that holds items is listed once, as a tuple, in order."""
    await _plant(store)
    await _lists(store, TREE)


@check()
async def namespaces_sort_label_by_label(store: StoreDriver) -> None:
    """The order is that of Python's tuples of text: by label, by code point."""
    labels: list[Namespace] = [("B",), ("a", "z"), ("a!",), ("a-b",), ("ab",), ("é",)]
    await _plant(store, labels)
    await _lists(store, labels)


@check()
async def prefixes_and_suffixes_match_whole_labels(store: StoreDriver) -> None:
    """A prefix is the first labels, a suffix the last, both as whole labels, both at once."""
    await _plant(store, [*TREE, ("users1",), ("x", "af")])
    await _lists(store, TREE[:4], prefix=("a", "b"))
    await _lists(store, [TREE[3], TREE[4], TREE[5]], suffix=("f",))
    await _lists(store, [TREE[3], TREE[4]], prefix=("a",), suffix=("f",))
    await _lists(store, TREE[6:], prefix=("users",))


@check()
async def a_wildcard_is_exactly_one_label(store: StoreDriver) -> None:
    """`*` stands for one label, no fewer and no more, in a prefix and in a suffix."""
    await _plant(store)
    await _lists(store, [TREE[3], TREE[4]], prefix=("a", "*", "f"))
    await _lists(store, [TREE[7]], prefix=("users", "*", "settings"))
    await _lists(store, TREE[6:], prefix=("users", "*"))
    await _lists(store, [TREE[3], TREE[4]], suffix=("a", "*", "f"))
    await _lists(store, [TREE[7]], suffix=("users", "*", "settings"))


@check()
async def patterns_longer_than_a_namespace_do_not_match(store: StoreDriver) -> None:
    """A prefix or suffix with more labels than a namespace does not match it."""
    await _plant(store, [("a",), ("a", "b")])
    await _lists(store, [("a", "b")], prefix=("a", "*"))
    await _lists(store, [("a", "b")], suffix=("*", "b"))
    await _lists(store, [], prefix=("*", "*", "*"))


@check()
async def conditions_of_one_kind_are_anded(store: StoreDriver) -> None:
    """Two prefixes in one raw operation must both match."""
    await _plant(store)
    conditions = (MatchCondition("prefix", ("a", "*")), MatchCondition("prefix", ("*", "c")))
    got = await store.batch([ListNamespacesOp(match_conditions=conditions)])
    equal(got, [[("a", "c", "f")]], "namespaces")


@check()
async def max_depth_cuts_and_merges(store: StoreDriver) -> None:
    """`max_depth` cuts namespaces to that many labels and lists equal ones once."""
    await _plant(store)
    cut: list[Namespace] = [("a", "b"), ("a", "c"), ("b", "a"), ("users", "123"), ("users", "456")]
    await _lists(store, cut, max_depth=2)
    await _lists(store, [("a", "b", "c"), ("a", "b", "d"), ("a", "b", "f")], max_depth=3, limit=3)
    await _lists(store, [("a", "b"), ("a", "c")], max_depth=2, suffix=("f",), prefix=("a",))


@check()
async def max_depth_zero_is_the_empty_namespace(store: StoreDriver) -> None:
    """A `max_depth` of 0 cuts every namespace to `()`, and an empty store lists nothing."""
    await _lists(store, [], max_depth=0)
    await _plant(store)
    await _lists(store, [()], max_depth=0)


@check()
async def namespace_pages_come_after_cutting(store: StoreDriver) -> None:
    """`limit` and `offset` count the namespaces that are left after cutting and merging."""
    await _plant(store)
    pages = [await store.list_namespaces(max_depth=2, limit=2, offset=at) for at in (0, 2, 4, 6)]
    wanted = [[("a", "b"), ("a", "c")], [("b", "a"), ("users", "123")], [("users", "456")], []]
    equal(pages, wanted, "pages of 2")
    await _lists(store, [], limit=0)


@check()
async def negative_namespace_pages_are_refused(store: StoreDriver) -> None:
    """A negative limit or offset is a ValueError."""
    await _plant(store)
    await refused(store.list_namespaces(limit=-1), ValueError, what="limit=-1")
    await refused(store.list_namespaces(offset=-1), ValueError, what="offset=-1")


@check()
async def emptied_namespaces_are_not_listed(store: StoreDriver) -> None:
    """A namespace whose last item was deleted is not listed."""
    await store.put(("a",), "k", {"n": 1})
    await store.put(("b",), "k", {"n": 1})
    await store.delete(("a",), "k")
    await _lists(store, [("b",)])


@check()
async def namespaces_merely_read_are_not_listed(store: StoreDriver) -> None:
    """Reading or deleting in a namespace that holds nothing does not list it."""
    await store.put(("a",), "k", {"n": 1})
    await store.get(("read",), "k")
    await store.search(("searched",))
    await store.delete(("deleted",), "k")
    await _lists(store, [("a",)])


@check()
async def unknown_match_types_are_refused(store: StoreDriver) -> None:
    """A match type other than prefix and suffix is a ValueError."""
    await _plant(store)
    condition = MatchCondition(cast("Any", "infix"), ("a",))
    call = store.batch([ListNamespacesOp(match_conditions=(condition,))])
    await refused(call, ValueError, what="match type infix")
