"""What a namespace may be made of."""

from typing import Any

from langgraph.store.base import GetOp, ListNamespacesOp, MatchCondition, PutOp, SearchOp

from langmem_tiers.testing.check import check
from langmem_tiers.testing.driver import StoreDriver
from langmem_tiers.testing.expect import equal, refused

BAD_LABELS: tuple[Any, ...] = ("", ".", "a.b", "a\x00b", 5, None, b"x")
LITERAL = ("%", "_", "a_b", "\\", "*", "?", "[", "[a]", "+", "^$", "'", '"', "(", "{a,b}", "|")


@check()
async def put_refuses_bad_labels(store: StoreDriver) -> None:
    """Labels that are empty, hold a dot or a NUL, or are not str are a ValueError in put."""
    for label in BAD_LABELS:
        await refused(store.put(("ok", label), "k", {"n": 1}), ValueError, what=f"{label!r}")
    equal(await store.keys(()), [], "keys that were written")


@check()
async def reads_refuse_bad_labels(store: StoreDriver) -> None:
    """The same labels are a ValueError in get, search, delete and list_namespaces."""
    for label in BAD_LABELS:
        await refused(store.get(("ok", label), "k"), ValueError, what=f"get {label!r}")
        await refused(store.search(("ok", label)), ValueError, what=f"search {label!r}")
        await refused(store.delete(("ok", label), "k"), ValueError, what=f"delete {label!r}")
        listed = store.list_namespaces(prefix=("ok", label))
        await refused(listed, ValueError, what=f"list_namespaces {label!r}")


@check()
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


@check()
async def put_refuses_the_empty_namespace(store: StoreDriver) -> None:
    """Nothing can be put at `()`."""
    await refused(store.put((), "k", {"n": 1}), ValueError, what="put at ()")
    equal(await store.keys(()), [], "keys that were written")


@check()
async def raw_put_refuses_the_empty_namespace(store: StoreDriver) -> None:
    """Nothing can be put at `()` through batch either."""
    await refused(store.batch([PutOp((), "k", {"n": 1})]), ValueError, what="PutOp at ()")
    equal(await store.list_namespaces(), [], "namespaces that were written")


@check()
async def the_langgraph_root_is_for_raw_operations(store: StoreDriver) -> None:
    """The root label "langgraph" is a ValueError in put and accepted through batch."""
    await refused(store.put(("langgraph", "x"), "k", {"n": 1}), ValueError, what="put")
    await store.batch([PutOp(("langgraph", "x"), "k", {"n": 1})])
    equal(await store.value(("langgraph", "x"), "k"), {"n": 1}, "value put through batch")


@check()
async def search_prefix_matches_whole_labels(store: StoreDriver) -> None:
    """A prefix finds its own namespace and those below, not names that begin alike."""
    for path in ("foo", "foo/a", "foo/a/b", "foobar", "fo", "x/foo"):
        await store.put(tuple(path.split("/")), path, {"n": 1})
    equal(sorted(await store.keys(("foo",))), ["foo", "foo/a", "foo/a/b"], "under foo")
    equal(sorted(await store.keys(("foo", "a"))), ["foo/a", "foo/a/b"], "under foo, a")


@check()
async def special_characters_in_labels_are_literal(store: StoreDriver) -> None:
    """Characters that mean something to SQL, globs or regular expressions match themselves."""
    for label in LITERAL:
        await store.put(("t", label), label, {"n": 1})
        await store.put(("t", f"{label}x"), "other", {"n": 1})
    await store.put(("t", "plain"), "other", {"n": 1})
    for label in LITERAL:
        equal(await store.keys(("t", label)), [label], f"search under {label!r}")


@check()
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


@check()
async def labels_are_case_sensitive(store: StoreDriver) -> None:
    """Labels that differ in case are different."""
    await store.put(("Team",), "upper", {"n": 1})
    await store.put(("team",), "lower", {"n": 1})
    equal(await store.keys(("team",)), ["lower"], "search")
    equal(await store.list_namespaces(prefix=("Team",)), [("Team",)], "list_namespaces")


@check()
async def trailing_whitespace_in_labels_counts(store: StoreDriver) -> None:
    """A label and the same label with a newline or a space after it are different."""
    for label in ("a", "a\n", "a "):
        await store.put((label,), repr(label), {"n": 1})
    for label in ("a", "a\n", "a "):
        equal(await store.keys((label,)), [repr(label)], f"search {label!r}")
        equal(await store.list_namespaces(suffix=(label,)), [(label,)], f"list {label!r}")
