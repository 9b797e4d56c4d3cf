"""An item: put, get and delete, what its value may be, and what its namespace."""

from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from langgraph.store.base import GetOp, ListNamespacesOp, MatchCondition, PutOp, SearchOp

from langmem_tiers.testing.kit import NS, StoreDriver, check, equal, refused, true

# basics


@check("basics")
async def put_then_get_returns_the_item(store: StoreDriver) -> None:
    """An item comes back with its namespace, key and value."""
    await store.put(NS, "k", {"text": "tea"})
    item = await store.get(NS, "k")
    found = None if item is None else (item.namespace, item.key, item.value)
    equal(found, (NS, "k", {"text": "tea"}), "get after put")


@check("basics")
async def missing_items_are_none(store: StoreDriver) -> None:
    """A key that was never put is None, in a known namespace or not."""
    await store.put(NS, "k", {"n": 1})
    equal(await store.get(NS, "other"), None, "another key")
    equal(await store.get(("nowhere",), "k"), None, "another namespace")
    equal(await store.get((), "k"), None, "the empty namespace")


@check("basics")
async def namespaces_keep_equal_keys_apart(store: StoreDriver) -> None:
    """One key in two namespaces is two items, a namespace and its parent included."""
    await store.put(("a",), "k", {"n": 1})
    await store.put(("a", "b"), "k", {"n": 2})
    found = [await store.value(("a",), "k"), await store.value(("a", "b"), "k")]
    equal(found, [{"n": 1}, {"n": 2}], "the two values")


@check("basics")
async def put_replaces_the_whole_value(store: StoreDriver) -> None:
    """A second put replaces the value; nothing of the first is merged in."""
    await store.put(NS, "k", {"old": 1, "both": 1})
    await store.put(NS, "k", {"both": 2})
    equal(await store.value(NS, "k"), {"both": 2}, "value after the second put")


@check("basics")
async def delete_removes_the_item(store: StoreDriver) -> None:
    """A deleted item is found by neither get nor search."""
    await store.put(NS, "k", {"n": 1})
    await store.delete(NS, "k")
    equal(await store.get(NS, "k"), None, "get after delete")
    equal(await store.keys(NS), [], "search after delete")


@check("basics")
async def deleting_what_is_missing_is_fine(store: StoreDriver) -> None:
    """Deleting a key that is not there does nothing and raises nothing."""
    await store.put(NS, "k", {"n": 1})
    await store.delete(NS, "other")
    await store.delete(("nowhere",), "k")
    equal(await store.value(NS, "k"), {"n": 1}, "the item beside it")


@check("basics")
async def created_at_survives_an_update(store: StoreDriver) -> None:
    """An update keeps `created_at`."""
    await store.put(NS, "k", {"n": 1})
    before = [item.created_at for item in await store.search(NS)]
    await store.put(NS, "k", {"n": 2})
    after = [item.created_at for item in await store.search(NS)]
    equal([len(after), after], [1, before], "number of items and their created_at")


@check("basics")
async def updated_at_moves_strictly_forward(store: StoreDriver) -> None:
    """Each put of a key has a later `updated_at` than the one before."""
    seen = []
    for n in range(5):
        await store.put(NS, "k", {"n": n})
        seen += [item.updated_at for item in await store.search(NS)]
    equal(len(seen), 5, "number of times")
    true(all(earlier < later for earlier, later in pairwise(seen)), f"times: {seen}")


@check("basics")
async def times_are_timezone_aware(store: StoreDriver) -> None:
    """`created_at` and `updated_at` carry a time zone, from get and from search."""
    await store.put(NS, "k", {"n": 1})
    items = [await store.get(NS, "k"), *await store.search(NS)]
    times = [time for item in items if item for time in (item.created_at, item.updated_at)]
    equal(len(times), 4, "number of times")
    true(all(time.utcoffset() is not None for time in times), f"times: {times}")


@check("basics")
async def keys_are_coerced_to_text(store: StoreDriver) -> None:
    """A key that is not a str is stored, read and deleted as `str(key)`."""
    await store.put(NS, 5, {"n": 1})
    equal(await store.value(NS, "5"), {"n": 1}, 'get("5")')
    equal(await store.value(NS, 5), {"n": 1}, "get(5)")
    await store.delete(NS, 5)
    equal(await store.value(NS, "5"), None, "after delete(5)")


@check("basics")
async def results_of_get_are_copies(store: StoreDriver) -> None:
    """Changing a value that get returned, deep inside too, changes nothing stored."""
    await store.put(NS, "k", {"tags": ["a"], "n": 1})
    value = await store.value(NS, "k") or {"tags": []}
    value["n"] = 2
    value["tags"].append("b")
    equal(await store.value(NS, "k"), {"tags": ["a"], "n": 1}, "the stored value")


@check("basics")
async def results_of_search_are_copies(store: StoreDriver) -> None:
    """Changing a value that search returned, deep inside too, changes nothing stored."""
    await store.put(NS, "k", {"tags": ["a"]})
    for item in await store.search(NS):
        item.value["tags"].append("b")
    equal([i.value for i in await store.search(NS)], [{"tags": ["a"]}], "the stored value")


@check("basics")
async def values_put_are_copied(store: StoreDriver) -> None:
    """Changing a dict after it was put changes nothing stored."""
    value = {"tags": ["a"]}
    await store.put(NS, "k", value)
    value["tags"].append("b")
    equal(await store.value(NS, "k"), {"tags": ["a"]}, "the stored value")


# values

MEGABYTE = 1_000_000


async def _survives(store: StoreDriver, value: dict[str, Any]) -> None:
    await store.put(NS, "k", value)
    found = [await store.value(NS, "k"), *(item.value for item in await store.search(NS))]
    equal(found, [value, value], "from get and from search")


async def _writes_nothing(store: StoreDriver, *values: Any) -> None:
    for value in values:
        what = f"put of {value!r:.80}"
        await refused(store.put(NS, "k", {"v": value}), ValueError, TypeError, what=what)
        await refused(store.put(NS, "k", {"a": [{"v": value}]}), ValueError, TypeError, what=what)
    equal(await store.keys(NS), [], "keys that were written")


@check("values")
async def nested_values_survive(store: StoreDriver) -> None:
    """Empty and nested lists and objects and null come back as they were."""
    await _survives(store, {"a": {}, "b": [], "c": [[{"d": [None, "", {"": {}}]}]], "e": None})


@check("values")
async def empty_values_survive(store: StoreDriver) -> None:
    """The empty object is a value, not a delete."""
    await _survives(store, {})


@check("values")
async def booleans_stay_booleans(store: StoreDriver) -> None:
    """True comes back as True and 1 as 1."""
    await store.put(NS, "k", {"v": [True, 1, False, 0]})
    value = await store.value(NS, "k")
    equal(repr(value), repr({"v": [True, 1, False, 0]}), "the value")


@check("values")
async def big_integers_survive(store: StoreDriver) -> None:
    """Integers of any size come back exactly."""
    await _survives(store, {"v": [2**53 + 1, 2**63, -(2**64) - 1, 10**30, -(10**300)]})


@check("values")
async def floats_survive(store: StoreDriver) -> None:
    """Floats come back as the same float, the largest and the smallest too."""
    await _survives(store, {"v": [0.1, -1.5, 1e23, 5e-324, 1.7976931348623157e308, 1 / 3]})


@check("values")
async def text_survives(store: StoreDriver) -> None:
    """Quotes, escapes, control characters, emoji and combining marks come back unchanged."""
    odd = "'\"\\ \\u0000 %s %(x)s {0} $1 \x01\x1f\x7f \r\n\t \u2028\ufeff é e\u0301 👩‍🚀 \U0010ffff"
    await _survives(store, {"v": odd, odd: 1})


@check("values")
async def long_text_survives(store: StoreDriver) -> None:
    """A text of one megabyte comes back whole."""
    text = "".join(chr(97 + n * n % 26) for n in range(MEGABYTE))
    await store.put(NS, "k", {"v": text})
    value = await store.value(NS, "k")
    equal(value == {"v": text}, True, "the same text")  # noqa: FBT003


@check("values")
async def unicode_keys_survive(store: StoreDriver) -> None:
    """Keys and labels may be any text: Unicode, spaces, quotes, percent signs, dots in keys."""
    keys = ["ключ", "鍵 👩‍🚀", "a.b", "a b", "50%_\\", "'; --", '"', "e\u0301", "\n"]
    for key in keys:
        await store.put((*NS, "метка 🏷"), key, {"k": key})
    found = [await store.value((*NS, "метка 🏷"), key) for key in keys]
    equal(found, [{"k": key} for key in keys], "values by key")


@check("values")
async def nul_characters_are_refused(store: StoreDriver) -> None:
    """A NUL character in a value is a ValueError or TypeError and writes nothing."""
    await _writes_nothing(store, "a\x00b", {"a\x00b": 1})


@check("values")
async def lone_surrogates_are_refused(store: StoreDriver) -> None:
    """A lone surrogate in a value is a ValueError or TypeError and writes nothing."""
    await _writes_nothing(store, "\ud800", "a\udfffb", {"\ud800": 1})


@check("values")
async def nan_and_infinity_are_refused(store: StoreDriver) -> None:
    """NaN and infinities in a value are a ValueError or TypeError and write nothing."""
    await _writes_nothing(store, float("nan"), float("inf"), float("-inf"))


@check("values")
async def values_outside_json_are_refused(store: StoreDriver) -> None:
    """A set, bytes or any other object is a ValueError or TypeError and writes nothing."""
    await _writes_nothing(store, {1}, b"x", object(), 1j, datetime(2024, 1, 1, tzinfo=UTC))


@check("values")
async def keys_with_nul_or_surrogates_are_refused(store: StoreDriver) -> None:
    """A key with a NUL character or a lone surrogate is a ValueError and writes nothing."""
    for key in ("a\x00b", "\ud800"):
        await refused(store.put(NS, key, {"n": 1}), ValueError, what=f"put at {key!r}")
    equal(await store.keys(NS), [], "keys that were written")


# labels

BAD_LABELS: tuple[Any, ...] = ("", ".", "a.b", "a\x00b", 5, None, b"x")
LITERAL = ("%", "_", "a_b", "\\", "*", "?", "[", "[a]", "+", "^$", "'", '"', "(", "{a,b}", "|")


@check("labels")
async def put_refuses_bad_labels(store: StoreDriver) -> None:
    """Labels that are empty, hold a dot or a NUL, or are not str are a ValueError in put."""
    for label in BAD_LABELS:
        await refused(store.put(("ok", label), "k", {"n": 1}), ValueError, what=f"{label!r}")
    equal(await store.keys(()), [], "keys that were written")


@check("labels")
async def reads_refuse_bad_labels(store: StoreDriver) -> None:
    """The same labels are a ValueError in get, search, delete and list_namespaces."""
    for label in BAD_LABELS:
        await refused(store.get(("ok", label), "k"), ValueError, what=f"get {label!r}")
        await refused(store.search(("ok", label)), ValueError, what=f"search {label!r}")
        await refused(store.delete(("ok", label), "k"), ValueError, what=f"delete {label!r}")
        listed = store.list_namespaces(prefix=("ok", label))
        await refused(listed, ValueError, what=f"list_namespaces {label!r}")


@check("labels")
async def raw_operations_refuse_bad_labels(store: StoreDriver) -> None:
    """The same labels are a ValueError in operations given to batch, which skip the methods."""
    for label in BAD_LABELS:
        path = ("ok", label)
        condition = MatchCondition("prefix", path)
        ops = (
            PutOp(path, "k", {"n": 1}),
            GetOp(path, "k"),
            SearchOp(path),
            ListNamespacesOp((condition,)),
        )
        for op in ops:
            await refused(store.batch([op]), ValueError, what=f"{op!r:.80}")
    equal(await store.keys(()), [], "keys that were written")


@check("labels")
async def put_refuses_the_empty_namespace(store: StoreDriver) -> None:
    """Nothing can be put at `()`."""
    await refused(store.put((), "k", {"n": 1}), ValueError, what="put at ()")
    equal(await store.keys(()), [], "keys that were written")


@check("labels")
async def raw_put_refuses_the_empty_namespace(store: StoreDriver) -> None:
    """Nothing can be put at `()` through batch either."""
    await refused(store.batch([PutOp((), "k", {"n": 1})]), ValueError, what="PutOp at ()")
    equal(await store.list_namespaces(), [], "namespaces that were written")


@check("labels")
async def the_langgraph_root_is_for_raw_operations(store: StoreDriver) -> None:
    """The root label "langgraph" is a ValueError in put and accepted through batch."""
    await refused(store.put(("langgraph", "x"), "k", {"n": 1}), ValueError, what="put")
    await store.batch([PutOp(("langgraph", "x"), "k", {"n": 1})])
    equal(await store.value(("langgraph", "x"), "k"), {"n": 1}, "value put through batch")


@check("labels")
async def search_prefix_matches_whole_labels(store: StoreDriver) -> None:
    """A prefix finds its own namespace and those below, not names that begin alike."""
    for path in ("foo", "foo/a", "foo/a/b", "foobar", "fo", "x/foo"):
        await store.put(tuple(path.split("/")), path, {"n": 1})
    equal(sorted(await store.keys(("foo",))), ["foo", "foo/a", "foo/a/b"], "under foo")
    equal(sorted(await store.keys(("foo", "a"))), ["foo/a", "foo/a/b"], "under foo, a")


@check("labels")
async def special_characters_in_labels_are_literal(store: StoreDriver) -> None:
    """Characters that mean something to SQL, globs or regular expressions match themselves."""
    for label in LITERAL:
        await store.put(("t", label), label, {"n": 1})
        await store.put(("t", f"{label}x"), "other", {"n": 1})
    await store.put(("t", "plain"), "other", {"n": 1})
    for label in LITERAL:
        equal(await store.keys(("t", label)), [label], f"search under {label!r}")


@check("labels")
async def special_characters_in_listed_prefixes_are_literal(store: StoreDriver) -> None:
    """The same holds for prefixes and suffixes of list_namespaces, where only `*` matches any."""
    literal = [label for label in LITERAL if label != "*"]
    for label in literal:
        await store.put((label, "m", label), "k", {"n": 1})
    await store.put(("plain", "m", "plain"), "k", {"n": 1})
    for label in literal:
        wanted = [(label, "m", label)]
        equal(await store.list_namespaces(prefix=(label,)), wanted, f"prefix {label!r}")
        equal(await store.list_namespaces(suffix=(label,)), wanted, f"suffix {label!r}")


@check("labels")
async def labels_are_case_sensitive(store: StoreDriver) -> None:
    """Labels that differ in case are different."""
    await store.put(("Team",), "upper", {"n": 1})
    await store.put(("team",), "lower", {"n": 1})
    equal(await store.keys(("team",)), ["lower"], "search")
    equal(await store.list_namespaces(prefix=("Team",)), [("Team",)], "list_namespaces")


@check("labels")
async def trailing_whitespace_in_labels_counts(store: StoreDriver) -> None:
    """A label and the same label with a newline or a space after it are different."""
    for label in ("a", "a\n", "a "):
        await store.put((label,), repr(label), {"n": 1})
    for label in ("a", "a\n", "a "):
        equal(await store.keys((label,)), [repr(label)], f"search {label!r}")
        equal(await store.list_namespaces(suffix=(label,)), [(label,)], f"list {label!r}")
