"""Rules for an item, its value and its namespace, for batches, and for searches without a query."""

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, cast

from langgraph.store.base import (
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchOp,
)

from langmem_tiers.testing.kit import NS, Rules, equal, refused, true

MEGABYTE = 1_000_000


BAD_LABELS: tuple[Any, ...] = ("", ".", "a.b", "a\x00b", 5, None, b"x")
LITERAL = ("%", "_", "a_b", "\\", "*", "?", "[", "[a]", "+", "^$", "'", '"', "(", "{a,b}", "|")


class Basics(Rules):
    """Put, get and delete."""

    async def put_then_get_returns_the_item(self) -> None:
        """An item comes back with its namespace, key and value."""
        await self.put(NS, "k", {"text": "tea"})
        item = await self.get(NS, "k")
        stored = None if item is None else (item.namespace, item.key, item.value)
        equal(stored, (NS, "k", {"text": "tea"}), "get after put")

    async def missing_items_are_none(self) -> None:
        """A key that was never put is None, in a known namespace or not."""
        await self.put(NS, "k", {"n": 1})
        equal(await self.get(NS, "other"), None, "another key")
        equal(await self.get(("nowhere",), "k"), None, "another namespace")
        equal(await self.get((), "k"), None, "the empty namespace")

    async def namespaces_keep_equal_keys_apart(self) -> None:
        """One key in two namespaces is two items, a namespace and its parent included."""
        await self.put(("a",), "k", {"n": 1})
        await self.put(("a", "b"), "k", {"n": 2})
        values = [await self.value(("a",), "k"), await self.value(("a", "b"), "k")]
        equal(values, [{"n": 1}, {"n": 2}], "the two values")

    async def put_replaces_the_whole_value(self) -> None:
        """A second put replaces the value; nothing of the first is merged in."""
        await self.put(NS, "k", {"old": 1, "both": 1})
        await self.put(NS, "k", {"both": 2})
        equal(await self.value(NS, "k"), {"both": 2}, "value after the second put")

    async def delete_removes_the_item(self) -> None:
        """A deleted item is found by neither get nor search."""
        await self.put(NS, "k", {"n": 1})
        await self.delete(NS, "k")
        equal(await self.get(NS, "k"), None, "get after delete")
        equal(await self.keys(NS), [], "search after delete")

    async def deleting_what_is_missing_is_fine(self) -> None:
        """Deleting a key that is not there does nothing and raises nothing."""
        await self.put(NS, "k", {"n": 1})
        await self.delete(NS, "other")
        await self.delete(("nowhere",), "k")
        equal(await self.value(NS, "k"), {"n": 1}, "the item beside it")

    async def created_at_survives_an_update(self) -> None:
        """An update keeps `created_at`."""
        await self.put(NS, "k", {"n": 1})
        before = [item.created_at for item in await self.search(NS)]
        await self.put(NS, "k", {"n": 2})
        after = [item.created_at for item in await self.search(NS)]
        equal([len(after), after], [1, before], "number of items and their created_at")

    async def updated_at_moves_strictly_forward(self) -> None:
        """Each put of a key has a later `updated_at` than the one before."""
        seen = []
        for n in range(5):
            await self.put(NS, "k", {"n": n})
            seen += [item.updated_at for item in await self.search(NS)]
        equal(len(seen), 5, "number of times")
        true(all(earlier < later for earlier, later in pairwise(seen)), f"times: {seen}")

    async def times_are_timezone_aware(self) -> None:
        """`created_at` and `updated_at` carry a time zone, from get and from search."""
        await self.put(NS, "k", {"n": 1})
        items = [await self.get(NS, "k"), *await self.search(NS)]
        times = [time for item in items if item for time in (item.created_at, item.updated_at)]
        equal(len(times), 4, "number of times")
        true(all(time.utcoffset() is not None for time in times), f"times: {times}")

    async def keys_are_coerced_to_text(self) -> None:
        """A key that is not a str is stored, read and deleted as `str(key)`."""
        await self.put(NS, 5, {"n": 1})
        equal(await self.value(NS, "5"), {"n": 1}, 'get("5")')
        equal(await self.value(NS, 5), {"n": 1}, "get(5)")
        await self.delete(NS, 5)
        equal(await self.value(NS, "5"), None, "after delete(5)")

    async def results_of_get_are_copies(self) -> None:
        """Changing a value that get returned, deep inside too, changes nothing stored."""
        await self.put(NS, "k", {"tags": ["a"], "n": 1})
        value = await self.value(NS, "k") or {"tags": []}
        value["n"] = 2
        value["tags"].append("b")
        equal(await self.value(NS, "k"), {"tags": ["a"], "n": 1}, "the stored value")

    async def results_of_search_are_copies(self) -> None:
        """Changing a value that search returned, deep inside too, changes nothing stored."""
        await self.put(NS, "k", {"tags": ["a"]})
        for item in await self.search(NS):
            item.value["tags"].append("b")
        equal([i.value for i in await self.search(NS)], [{"tags": ["a"]}], "the stored value")

    async def values_put_are_copied(self) -> None:
        """Changing a dict after it was put changes nothing stored."""
        value = {"tags": ["a"]}
        await self.put(NS, "k", value)
        value["tags"].append("b")
        equal(await self.value(NS, "k"), {"tags": ["a"]}, "the stored value")


class Values(Rules):
    """Values: those that survive, and those that are refused."""

    async def _survives(self, value: dict[str, Any]) -> None:
        await self.put(NS, "k", value)
        values = [await self.value(NS, "k"), *(item.value for item in await self.search(NS))]
        equal(values, [value, value], "from get and from search")

    async def _writes_nothing(self, *values: Any) -> None:
        for value in values:
            what = f"put of {value!r:.80}"
            await refused(self.put(NS, "k", {"v": value}), ValueError, TypeError, what=what)
            await refused(
                self.put(NS, "k", {"a": [{"v": value}]}), ValueError, TypeError, what=what
            )
        equal(await self.keys(NS), [], "keys that were written")

    async def nested_values_survive(self) -> None:
        """Empty and nested lists and objects and null come back as they were."""
        await self._survives({"a": {}, "b": [], "c": [[{"d": [None, "", {"": {}}]}]], "e": None})

    async def empty_values_survive(self) -> None:
        """The empty object is a value, not a delete."""
        await self._survives({})

    async def booleans_stay_booleans(self) -> None:
        """True comes back as True and 1 as 1."""
        await self.put(NS, "k", {"v": [True, 1, False, 0]})
        value = await self.value(NS, "k")
        equal(repr(value), repr({"v": [True, 1, False, 0]}), "the value")

    async def big_integers_survive(self) -> None:
        """Integers of any size come back exactly."""
        await self._survives({"v": [2**53 + 1, 2**63, -(2**64) - 1, 10**30, -(10**300)]})

    async def floats_survive(self) -> None:
        """Floats come back as the same float, the largest and the smallest too."""
        await self._survives({"v": [0.1, -1.5, 1e23, 5e-324, 1.7976931348623157e308, 1 / 3]})

    async def text_survives(self) -> None:
        """Quotes, escapes, control characters, emoji and combining marks come back unchanged."""
        odd = "'\"\\ \\u0000 %s %(x)s {0} $1 "
        odd += "\x01\x1f\x7f \r\n\t \u2028\ufeff é e\u0301 👩‍🚀 \U0010ffff"
        await self._survives({"v": odd, odd: 1})

    async def long_text_survives(self) -> None:
        """A text of one megabyte comes back whole."""
        text = "".join(chr(97 + n * n % 26) for n in range(MEGABYTE))
        await self.put(NS, "k", {"v": text})
        value = await self.value(NS, "k")
        equal(value == {"v": text}, True, "the same text")  # noqa: FBT003

    async def unicode_keys_survive(self) -> None:
        """Keys and labels may be any text: Unicode, spaces, quotes, percent signs, dots in keys."""
        keys = ["ключ", "鍵 👩‍🚀", "a.b", "a b", "50%_\\", "'; --", '"', "e\u0301", "\n"]
        for key in keys:
            await self.put((*NS, "метка 🏷"), key, {"k": key})
        values = [await self.value((*NS, "метка 🏷"), key) for key in keys]
        equal(values, [{"k": key} for key in keys], "values by key")

    async def nul_characters_are_refused(self) -> None:
        """A NUL character in a value is a ValueError or TypeError and writes nothing."""
        await self._writes_nothing("a\x00b", {"a\x00b": 1})

    async def lone_surrogates_are_refused(self) -> None:
        """A lone surrogate in a value is a ValueError or TypeError and writes nothing."""
        await self._writes_nothing("\ud800", "a\udfffb", {"\ud800": 1})

    async def nan_and_infinity_are_refused(self) -> None:
        """NaN and infinities in a value are a ValueError or TypeError and write nothing."""
        await self._writes_nothing(float("nan"), float("inf"), float("-inf"))

    async def values_outside_json_are_refused(self) -> None:
        """A set, bytes or any other object is a ValueError or TypeError and writes nothing."""
        await self._writes_nothing({1}, b"x", object(), 1j, datetime(2024, 1, 1, tzinfo=UTC))

    async def keys_with_nul_or_surrogates_are_refused(self) -> None:
        """A key with a NUL character or a lone surrogate is a ValueError and writes nothing."""
        for key in ("a\x00b", "\ud800"):
            await refused(self.put(NS, key, {"n": 1}), ValueError, what=f"put at {key!r}")
        equal(await self.keys(NS), [], "keys that were written")


class Labels(Rules):
    """Labels of namespaces: those that are refused, and how prefixes match them."""

    async def put_refuses_bad_labels(self) -> None:
        """Labels that are empty, hold a dot or a NUL, or are not str are a ValueError in put."""
        for label in BAD_LABELS:
            await refused(self.put(("ok", label), "k", {"n": 1}), ValueError, what=f"{label!r}")
        equal(await self.keys(()), [], "keys that were written")

    async def reads_refuse_bad_labels(self) -> None:
        """The same labels are a ValueError in get, search, delete and list_namespaces."""
        for label in BAD_LABELS:
            await refused(self.get(("ok", label), "k"), ValueError, what=f"get {label!r}")
            await refused(self.search(("ok", label)), ValueError, what=f"search {label!r}")
            await refused(self.delete(("ok", label), "k"), ValueError, what=f"delete {label!r}")
            listed = self.list_namespaces(prefix=("ok", label))
            await refused(listed, ValueError, what=f"list_namespaces {label!r}")

    async def raw_operations_refuse_bad_labels(self) -> None:
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
                await refused(self.batch([op]), ValueError, what=f"{op!r:.80}")
        equal(await self.keys(()), [], "keys that were written")

    async def put_refuses_the_empty_namespace(self) -> None:
        """Nothing can be put at `()`."""
        await refused(self.put((), "k", {"n": 1}), ValueError, what="put at ()")
        equal(await self.keys(()), [], "keys that were written")

    async def raw_put_refuses_the_empty_namespace(self) -> None:
        """Nothing can be put at `()` through batch either."""
        await refused(self.batch([PutOp((), "k", {"n": 1})]), ValueError, what="PutOp at ()")
        equal(await self.list_namespaces(), [], "namespaces that were written")

    async def the_langgraph_root_is_for_raw_operations(self) -> None:
        """The root label "langgraph" is a ValueError in put and accepted through batch."""
        await refused(self.put(("langgraph", "x"), "k", {"n": 1}), ValueError, what="put")
        await self.batch([PutOp(("langgraph", "x"), "k", {"n": 1})])
        equal(await self.value(("langgraph", "x"), "k"), {"n": 1}, "value put through batch")

    async def search_prefix_matches_whole_labels(self) -> None:
        """A prefix finds its own namespace and those below, not names that begin alike."""
        for path in ("foo", "foo/a", "foo/a/b", "foobar", "fo", "x/foo"):
            await self.put(tuple(path.split("/")), path, {"n": 1})
        equal(sorted(await self.keys(("foo",))), ["foo", "foo/a", "foo/a/b"], "under foo")
        equal(sorted(await self.keys(("foo", "a"))), ["foo/a", "foo/a/b"], "under foo, a")

    async def special_characters_in_labels_are_literal(self) -> None:
        """Characters that mean something to SQL, globs or regular expressions match themselves."""
        for label in LITERAL:
            await self.put(("t", label), label, {"n": 1})
            await self.put(("t", f"{label}x"), "other", {"n": 1})
        await self.put(("t", "plain"), "other", {"n": 1})
        for label in LITERAL:
            equal(await self.keys(("t", label)), [label], f"search under {label!r}")

    async def special_characters_in_listed_prefixes_are_literal(self) -> None:
        """The same holds for prefixes and suffixes of list_namespaces; only `*` matches any."""
        literal = [label for label in LITERAL if label != "*"]
        for label in literal:
            await self.put((label, "m", label), "k", {"n": 1})
        await self.put(("plain", "m", "plain"), "k", {"n": 1})
        for label in literal:
            wanted = [(label, "m", label)]
            equal(await self.list_namespaces(prefix=(label,)), wanted, f"prefix {label!r}")
            equal(await self.list_namespaces(suffix=(label,)), wanted, f"suffix {label!r}")

    async def labels_are_case_sensitive(self) -> None:
        """Labels that differ in case are different."""
        await self.put(("Team",), "upper", {"n": 1})
        await self.put(("team",), "lower", {"n": 1})
        equal(await self.keys(("team",)), ["lower"], "search")
        equal(await self.list_namespaces(prefix=("Team",)), [("Team",)], "list_namespaces")

    async def trailing_whitespace_in_labels_counts(self) -> None:
        """A label and the same label with a newline or a space after it are different."""
        for label in ("a", "a\n", "a "):
            await self.put((label,), repr(label), {"n": 1})
        for label in ("a", "a\n", "a "):
            equal(await self.keys((label,)), [repr(label)], f"search {label!r}")
            equal(await self.list_namespaces(suffix=(label,)), [(label,)], f"list {label!r}")


def _value(result: Result) -> Any:
    return result.value if isinstance(result, Item) else result


def _keys(result: Result) -> list[str]:
    return sorted(item.key for item in cast("list[Item]", result))


def _as_result(item: object) -> dict[str, object]:
    fields = ("namespace", "key", "value", "created_at", "updated_at")
    shown: dict[str, object] = {name: getattr(item, name) for name in fields}
    iso = {name: getattr(item, name).isoformat() for name in fields[3:]}
    return shown | iso | {"namespace": list(getattr(item, "namespace")), "score": None}  # noqa: B009


class Batches(Rules):
    """Many operations in one call."""

    async def results_are_in_the_order_of_operations(self) -> None:
        """Result i belongs to operation i, whatever is grouped inside."""
        for n in range(4):
            await self.put(NS, f"k{n}", {"n": n})
        ops: list[Op] = [
            GetOp(NS, "k3"),
            PutOp(NS, "new", {"n": 9}),
            SearchOp(NS, filter={"n": 2}),
            GetOp(NS, "missing"),
            ListNamespacesOp(),
            GetOp(NS, "k0"),
            SearchOp(NS, filter={"n": 1}),
        ]
        got = await self.batch(ops)
        equal(len(got), len(ops), "number of results")
        results = [_value(got[0]), got[1], _keys(got[2]), *got[3:5], _value(got[5]), _keys(got[6])]
        equal(results, [{"n": 3}, None, ["k2"], None, [NS], {"n": 0}, ["k1"]], "results")

    async def reads_see_the_state_before_the_writes(self) -> None:
        """Every read of a batch sees what was there before all its writes, wherever it stands."""
        await self.put(NS, "old", {"n": 1})
        ops: list[Op] = [
            PutOp(NS, "old", None),
            PutOp((*NS, "new"), "new", {"n": 2}),
            GetOp(NS, "old"),
            GetOp((*NS, "new"), "new"),
            SearchOp(NS),
            ListNamespacesOp(),
        ]
        got = await self.batch(ops)
        results = [_value(got[2]), got[3], _keys(got[4]), got[5]]
        equal(results, [{"n": 1}, None, ["old"], [NS]], "what the reads saw")
        equal(await self.keys(NS), ["new"], "what is there afterwards")

    async def the_last_put_to_a_key_wins(self) -> None:
        """The last of several puts to one key in one batch is kept; all results are None."""
        got = await self.batch([PutOp(NS, "k", {"n": n}) for n in range(3)])
        equal(got, [None, None, None], "results")
        equal(await self.value(NS, "k"), {"n": 2}, "value")

    async def put_then_delete_in_one_batch_deletes(self) -> None:
        """A put and then a delete of one key leave nothing."""
        got = await self.batch([PutOp(NS, "k", {"n": 1}), PutOp(NS, "k", None)])
        equal(got, [None, None], "results")
        equal(await self.value(NS, "k"), None, "value")

    async def delete_then_put_in_one_batch_puts(self) -> None:
        """A delete and then a put of one key leave the put."""
        await self.put(NS, "k", {"old": True})
        got = await self.batch([PutOp(NS, "k", None), PutOp(NS, "k", {"n": 1})])
        equal(got, [None, None], "results")
        equal(await self.value(NS, "k"), {"n": 1}, "value")

    async def equal_reads_are_each_answered(self) -> None:
        """The same get or search, asked twice in a batch, is answered twice."""
        await self.put(NS, "k", {"n": 1})
        get, search = GetOp(NS, "k"), SearchOp(NS)
        got = await self.batch([get, search, get, search])
        results = [_value(got[0]), _keys(got[1]), _value(got[2]), _keys(got[3])]
        equal(results, [{"n": 1}, ["k"], {"n": 1}, ["k"]], "results")

    async def one_key_in_many_namespaces_is_many_items(self) -> None:
        """Puts of one key in different namespaces of one batch do not replace each other."""
        await self.batch([PutOp((*NS, str(n)), "k", {"n": n}) for n in range(5)])
        values = [await self.value((*NS, str(n)), "k") for n in range(5)]
        equal(values, [{"n": n} for n in range(5)], "values")

    async def operations_may_come_from_a_generator(self) -> None:
        """The operations may be any iterable, which is iterated once."""
        await self.put(NS, "k", {"n": 1})

        def ops() -> Iterator[Op]:
            yield GetOp(NS, "k")
            yield PutOp(NS, "new", {"n": 2})
            yield GetOp(NS, "k")

        got = await self.batch(ops())
        equal([_value(each) for each in got], [{"n": 1}, None, {"n": 1}], "results")
        equal(await self.value(NS, "new"), {"n": 2}, "value")

    async def an_empty_batch_is_an_empty_list(self) -> None:
        """No operations, no results, no error."""
        equal(await self.batch([]), [], "batch([])")
        equal(await self.batch(iter(())), [], "batch of an empty iterator")

    async def large_batches_work(self) -> None:
        """A batch of hundreds of operations keeps them all, in order."""
        await self.batch([PutOp(NS, f"k{n}", {"n": n}) for n in range(400)])
        got = await self.batch([GetOp(NS, f"k{n}") for n in range(400)])
        equal([_value(each) for each in got] == [{"n": n} for n in range(400)], True, "all there")  # noqa: FBT003

    async def unknown_operations_are_refused(self) -> None:
        """An object that is no operation is a ValueError, not a silent None."""
        for op in (object(), None, ("put", "k")):
            call = self.batch([cast("Op", op)])
            await refused(call, ValueError, what=f"batch of {op!r:.60}")

    async def a_bad_operation_keeps_nothing_of_its_batch(self) -> None:
        """A bad label, an unknown operation or a value outside JSON leaves the others unwritten."""
        good = PutOp(NS, "good", {"n": 1})
        for bad in (PutOp(("a.b",), "k", {}), object(), PutOp(NS, "bad", {"v": object()})):
            ops = [good, cast("Op", bad), PutOp(NS, "after", {"n": 2})]
            await refused(self.batch(ops), Exception, what=f"batch with {bad!r:.80}")
            equal(await self.keys(()), [], f"kept of a batch with {bad!r:.80}")

    async def a_bad_read_keeps_nothing_of_its_batch(self) -> None:
        """An unknown filter operator in a search leaves the puts beside it unwritten."""
        await self.put(NS, "k", {"n": 1})
        ops: list[Op] = [PutOp(NS, "good", {"n": 1}), SearchOp(NS, filter={"n": {"$what": 1}})]
        await refused(self.batch(ops), ValueError, what="batch with an unknown operator")
        equal(await self.keys(NS), ["k"], "keys afterwards")


class Search(Rules):
    """A page of a search without a query."""

    async def _numbered(self, count: int) -> list[str]:
        keys = [f"k{n:02}" for n in range(count)]
        await self.batch([PutOp(NS, key, {"key": key}) for key in keys])
        return keys

    async def an_empty_prefix_finds_everything(self) -> None:
        """`search(())` searches every namespace."""
        await self.put(("a",), "1", {"n": 1})
        await self.put(("b", "c"), "2", {"n": 2})
        equal(sorted(await self.keys(())), ["1", "2"], "search(())")

    async def a_prefix_may_be_a_list(self) -> None:
        """A namespace prefix given as a list means the same as the tuple."""
        await self.put(("a", "b"), "k", {"n": 1})
        await self.put(("c",), "other", {"n": 1})
        equal(await self.keys(["a"]), ["k"], 'search(["a"])')

    async def an_unknown_prefix_finds_nothing(self) -> None:
        """Searching where nothing is gives an empty page."""
        await self.put(("a",), "k", {"n": 1})
        equal(await self.keys(("nowhere",)), [], "search")

    async def search_results_carry_their_item(self) -> None:
        """A result has its own namespace, a tuple, and key, value and times of the item."""
        await self.put(("a", "b"), "k", {"n": 1})
        item = await self.get(("a", "b"), "k")
        results = await self.search(("a",))
        equal([each.dict() | {"score": None} for each in results], [_as_result(item)], "results")
        equal([each.namespace for each in results], [("a", "b")], "namespaces")

    async def search_without_a_query_has_no_scores(self) -> None:
        """Without a query every score is None."""
        await self._numbered(3)
        equal([item.score for item in await self.search(NS)], [None] * 3, "scores")
        equal([item.score for item in await self.search(NS, query="")], [None] * 3, 'of query ""')

    async def a_query_without_an_index_is_ignored(self) -> None:
        """A store with no index answers a query as if there were none, without scores."""
        keys = await self._numbered(3)
        results = await self.search(NS, query="k01")
        equal(sorted(item.key for item in results), keys, "keys")
        equal([item.score for item in results], [None] * 3, "scores")

    async def a_page_holds_ten_unless_told(self) -> None:
        """The default limit is 10."""
        await self._numbered(12)
        equal(len(await self.keys(NS)), 10, "number of results")

    async def search_limit_zero_is_an_empty_page(self) -> None:
        """A limit of 0 gives no results and no error."""
        await self._numbered(3)
        equal(await self.keys(NS, limit=0), [], "search(limit=0)")

    async def negative_pages_are_refused(self) -> None:
        """A negative limit or offset is a ValueError, by method and by raw operation."""
        await self._numbered(3)
        await refused(self.search(NS, limit=-1), ValueError, what="limit=-1")
        await refused(self.search(NS, offset=-1), ValueError, what="offset=-1")
        await refused(self.batch([SearchOp(NS, limit=-1)]), ValueError, what="SearchOp limit=-1")
        await refused(self.batch([SearchOp(NS, offset=-1)]), ValueError, what="SearchOp offset=-1")

    async def an_offset_past_the_end_is_an_empty_page(self) -> None:
        """An offset beyond the last result gives no results and no error."""
        await self._numbered(3)
        equal(await self.keys(NS, offset=3), [], "search(offset=3)")

    async def pages_cover_each_item_once(self) -> None:
        """Pages over items of one batch, equal in time, hold each item exactly once."""
        keys = await self._numbered(25)
        pages = await self._pages(4, 25)
        equal(sorted(key for page in pages for key in page), keys, "keys of all pages")

    async def items_equal_in_time_have_one_order(self) -> None:
        """Items with one `updated_at` are in the same order, whatever order they were put in."""
        await self._have_one_order("time")
