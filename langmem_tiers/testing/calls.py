"""What one call means: many operations in a batch, and a page of a search without a query."""

from collections.abc import Iterator
from typing import Any, cast

from langgraph.store.base import GetOp, Item, ListNamespacesOp, Op, PutOp, Result, SearchOp

from langmem_tiers.testing.kit import NS, StoreDriver, check, equal, refused

# batches


def _value(result: Result) -> Any:
    return result.value if isinstance(result, Item) else result


def _keys(result: Result) -> list[str]:
    return sorted(item.key for item in cast("list[Item]", result))


@check("batches")
async def results_are_in_the_order_of_operations(store: StoreDriver) -> None:
    """Result i belongs to operation i, whatever is grouped inside."""
    for n in range(4):
        await store.put(NS, f"k{n}", {"n": n})
    ops: list[Op] = [
        GetOp(NS, "k3"),
        PutOp(NS, "new", {"n": 9}),
        SearchOp(NS, filter={"n": 2}),
        GetOp(NS, "missing"),
        ListNamespacesOp(),
        GetOp(NS, "k0"),
        SearchOp(NS, filter={"n": 1}),
    ]
    got = await store.batch(ops)
    equal(len(got), len(ops), "number of results")
    found = [_value(got[0]), got[1], _keys(got[2]), got[3], got[4], _value(got[5]), _keys(got[6])]
    equal(found, [{"n": 3}, None, ["k2"], None, [NS], {"n": 0}, ["k1"]], "results")


@check("batches")
async def reads_see_the_state_before_the_writes(store: StoreDriver) -> None:
    """Every read of a batch sees what was there before all of its writes, wherever it stands."""
    await store.put(NS, "old", {"n": 1})
    ops: list[Op] = [
        PutOp(NS, "old", None),
        PutOp((*NS, "new"), "new", {"n": 2}),
        GetOp(NS, "old"),
        GetOp((*NS, "new"), "new"),
        SearchOp(NS),
        ListNamespacesOp(),
    ]
    got = await store.batch(ops)
    found = [_value(got[2]), got[3], _keys(got[4]), got[5]]
    equal(found, [{"n": 1}, None, ["old"], [NS]], "what the reads saw")
    equal(await store.keys(NS), ["new"], "what is there afterwards")


@check("batches")
async def the_last_put_to_a_key_wins(store: StoreDriver) -> None:
    """Of several puts to one key in one batch the last one is kept; all results are None."""
    got = await store.batch([PutOp(NS, "k", {"n": n}) for n in range(3)])
    equal(got, [None, None, None], "results")
    equal(await store.value(NS, "k"), {"n": 2}, "value")


@check("batches")
async def put_then_delete_in_one_batch_deletes(store: StoreDriver) -> None:
    """A put and then a delete of one key leave nothing."""
    got = await store.batch([PutOp(NS, "k", {"n": 1}), PutOp(NS, "k", None)])
    equal(got, [None, None], "results")
    equal(await store.value(NS, "k"), None, "value")


@check("batches")
async def delete_then_put_in_one_batch_puts(store: StoreDriver) -> None:
    """A delete and then a put of one key leave the put."""
    await store.put(NS, "k", {"old": True})
    got = await store.batch([PutOp(NS, "k", None), PutOp(NS, "k", {"n": 1})])
    equal(got, [None, None], "results")
    equal(await store.value(NS, "k"), {"n": 1}, "value")


@check("batches")
async def equal_reads_are_each_answered(store: StoreDriver) -> None:
    """The same get or search, asked twice in a batch, is answered twice."""
    await store.put(NS, "k", {"n": 1})
    get, search = GetOp(NS, "k"), SearchOp(NS)
    got = await store.batch([get, search, get, search])
    found = [_value(got[0]), _keys(got[1]), _value(got[2]), _keys(got[3])]
    equal(found, [{"n": 1}, ["k"], {"n": 1}, ["k"]], "results")


@check("batches")
async def one_key_in_many_namespaces_is_many_items(store: StoreDriver) -> None:
    """Puts of one key in different namespaces of one batch do not replace each other."""
    await store.batch([PutOp((*NS, str(n)), "k", {"n": n}) for n in range(5)])
    found = [await store.value((*NS, str(n)), "k") for n in range(5)]
    equal(found, [{"n": n} for n in range(5)], "values")


@check("batches")
async def operations_may_come_from_a_generator(store: StoreDriver) -> None:
    """The operations may be any iterable, which is iterated once."""
    await store.put(NS, "k", {"n": 1})

    def ops() -> Iterator[Op]:
        yield GetOp(NS, "k")
        yield PutOp(NS, "new", {"n": 2})
        yield GetOp(NS, "k")

    got = await store.batch(ops())
    equal([_value(each) for each in got], [{"n": 1}, None, {"n": 1}], "results")
    equal(await store.value(NS, "new"), {"n": 2}, "value")


@check("batches")
async def an_empty_batch_is_an_empty_list(store: StoreDriver) -> None:
    """No operations, no results, no error."""
    equal(await store.batch([]), [], "batch([])")
    equal(await store.batch(iter(())), [], "batch of an empty iterator")


@check("batches")
async def large_batches_work(store: StoreDriver) -> None:
    """A batch of hundreds of operations keeps them all, in order."""
    await store.batch([PutOp(NS, f"k{n}", {"n": n}) for n in range(400)])
    got = await store.batch([GetOp(NS, f"k{n}") for n in range(400)])
    equal([_value(each) for each in got] == [{"n": n} for n in range(400)], True, "all there")  # noqa: FBT003


@check("batches")
async def unknown_operations_are_refused(store: StoreDriver) -> None:
    """What is not an operation is a ValueError, not a silent None."""
    for op in (object(), None, ("put", "k")):
        call = store.batch([cast("Op", op)])
        await refused(call, ValueError, what=f"batch of {op!r:.60}")


@check("batches")
async def a_bad_operation_keeps_nothing_of_its_batch(store: StoreDriver) -> None:
    """A bad label, an unknown operation or a value outside JSON leaves the others unwritten."""
    good = PutOp(NS, "good", {"n": 1})
    for bad in (PutOp(("a.b",), "k", {}), object(), PutOp(NS, "bad", {"v": object()})):
        ops = [good, cast("Op", bad), PutOp(NS, "after", {"n": 2})]
        await refused(store.batch(ops), Exception, what=f"batch with {bad!r:.80}")
        equal(await store.keys(()), [], f"kept of a batch with {bad!r:.80}")


@check("batches")
async def a_bad_read_keeps_nothing_of_its_batch(store: StoreDriver) -> None:
    """An unknown filter operator in a search leaves the puts beside it unwritten."""
    await store.put(NS, "k", {"n": 1})
    ops: list[Op] = [PutOp(NS, "good", {"n": 1}), SearchOp(NS, filter={"n": {"$what": 1}})]
    await refused(store.batch(ops), ValueError, what="batch with an unknown operator")
    equal(await store.keys(NS), ["k"], "keys afterwards")


# search


async def _numbered(store: StoreDriver, count: int) -> list[str]:
    keys = [f"k{n:02}" for n in range(count)]
    await store.batch([PutOp(NS, key, {"key": key}) for key in keys])
    return keys


async def _pages(store: StoreDriver, size: int, count: int) -> list[list[str]]:
    starts = range(0, count + size, size)
    return [await store.keys(NS, limit=size, offset=start) for start in starts]


@check("search")
async def an_empty_prefix_finds_everything(store: StoreDriver) -> None:
    """`search(())` searches every namespace."""
    await store.put(("a",), "1", {"n": 1})
    await store.put(("b", "c"), "2", {"n": 2})
    equal(sorted(await store.keys(())), ["1", "2"], "search(())")


@check("search")
async def a_prefix_may_be_a_list(store: StoreDriver) -> None:
    """A namespace prefix given as a list means the same as the tuple."""
    await store.put(("a", "b"), "k", {"n": 1})
    await store.put(("c",), "other", {"n": 1})
    equal(await store.keys(["a"]), ["k"], 'search(["a"])')


@check("search")
async def an_unknown_prefix_finds_nothing(store: StoreDriver) -> None:
    """Searching where nothing is gives an empty page."""
    await store.put(("a",), "k", {"n": 1})
    equal(await store.keys(("nowhere",)), [], "search")


@check("search")
async def search_results_carry_their_item(store: StoreDriver) -> None:
    """A result has its own namespace, a tuple, and key, value and times of the item."""
    await store.put(("a", "b"), "k", {"n": 1})
    item = await store.get(("a", "b"), "k")
    found = await store.search(("a",))
    equal([each.dict() | {"score": None} for each in found], [_as_result(item)], "results")
    equal([each.namespace for each in found], [("a", "b")], "namespaces")


def _as_result(item: object) -> dict[str, object]:
    fields = ("namespace", "key", "value", "created_at", "updated_at")
    shown: dict[str, object] = {name: getattr(item, name) for name in fields}
    iso = {name: getattr(item, name).isoformat() for name in fields[3:]}
    return shown | iso | {"namespace": list(getattr(item, "namespace")), "score": None}  # noqa: B009


@check("search")
async def search_without_a_query_has_no_scores(store: StoreDriver) -> None:
    """Without a query every score is None."""
    await _numbered(store, 3)
    equal([item.score for item in await store.search(NS)], [None] * 3, "scores")
    equal([item.score for item in await store.search(NS, query="")], [None] * 3, 'of query ""')


@check("search")
async def a_query_without_an_index_is_ignored(store: StoreDriver) -> None:
    """A store with no index answers a query as if there were none, without scores."""
    keys = await _numbered(store, 3)
    found = await store.search(NS, query="k01")
    equal(sorted(item.key for item in found), keys, "keys")
    equal([item.score for item in found], [None] * 3, "scores")


@check("search")
async def a_page_holds_ten_unless_told(store: StoreDriver) -> None:
    """The default limit is 10."""
    await _numbered(store, 12)
    equal(len(await store.keys(NS)), 10, "number of results")


@check("search")
async def search_limit_zero_is_an_empty_page(store: StoreDriver) -> None:
    """A limit of 0 gives no results and no error."""
    await _numbered(store, 3)
    equal(await store.keys(NS, limit=0), [], "search(limit=0)")


@check("search")
async def negative_pages_are_refused(store: StoreDriver) -> None:
    """A negative limit or offset is a ValueError, by method and by raw operation."""
    await _numbered(store, 3)
    await refused(store.search(NS, limit=-1), ValueError, what="limit=-1")
    await refused(store.search(NS, offset=-1), ValueError, what="offset=-1")
    await refused(store.batch([SearchOp(NS, limit=-1)]), ValueError, what="SearchOp limit=-1")
    await refused(store.batch([SearchOp(NS, offset=-1)]), ValueError, what="SearchOp offset=-1")


@check("search")
async def an_offset_past_the_end_is_an_empty_page(store: StoreDriver) -> None:
    """An offset beyond the last result gives no results and no error."""
    await _numbered(store, 3)
    equal(await store.keys(NS, offset=3), [], "search(offset=3)")


@check("search")
async def pages_cover_each_item_once(store: StoreDriver) -> None:
    """Pages over items of one batch, equal in time, hold each item exactly once."""
    keys = await _numbered(store, 25)
    pages = await _pages(store, 4, 25)
    equal(sorted(key for page in pages for key in page), keys, "keys of all pages")


@check("search")
async def items_equal_in_time_have_one_order(store: StoreDriver) -> None:
    """Items with one `updated_at` are in the same order, whatever order they were put in."""
    keys = [f"k{n:02}" for n in range(12)]
    orders = []
    for batch in (keys, keys[::-1], keys[6:] + keys[:6]):
        await store.batch([PutOp(NS, key, None) for key in keys])
        await store.batch([PutOp(NS, key, {"key": key}) for key in batch])
        found = await store.search(NS, limit=20)
        if len({item.updated_at for item in found}) == 1:
            orders.append([item.key for item in found])
    equal(orders, orders[:1] * len(orders), "orders of items equal in time")
