"""Search without a vector index: what a page is."""

from langgraph.store.base import PutOp, SearchOp

from langmem_tiers.testing.check import check
from langmem_tiers.testing.driver import StoreDriver
from langmem_tiers.testing.expect import equal, refused

NS = ("search",)


async def _fill(store: StoreDriver, count: int) -> list[str]:
    keys = [f"k{n:02}" for n in range(count)]
    await store.batch([PutOp(NS, key, {"key": key}) for key in keys])
    return keys


async def _pages(store: StoreDriver, size: int, count: int) -> list[list[str]]:
    starts = range(0, count + size, size)
    return [await store.keys(NS, limit=size, offset=start) for start in starts]


@check()
async def an_empty_prefix_finds_everything(store: StoreDriver) -> None:
    """`search(())` searches every namespace."""
    await store.put(("a",), "1", {"n": 1})
    await store.put(("b", "c"), "2", {"n": 2})
    equal(sorted(await store.keys(())), ["1", "2"], "search(())")


@check()
async def a_prefix_may_be_a_list(store: StoreDriver) -> None:
    """A namespace prefix given as a list means the same as the tuple."""
    await store.put(("a", "b"), "k", {"n": 1})
    await store.put(("c",), "other", {"n": 1})
    equal(await store.keys(["a"]), ["k"], 'search(["a"])')


@check()
async def an_unknown_prefix_finds_nothing(store: StoreDriver) -> None:
    """Searching where nothing is gives an empty page."""
    await store.put(("a",), "k", {"n": 1})
    equal(await store.keys(("nowhere",)), [], "search")


@check()
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


@check()
async def search_without_a_query_has_no_scores(store: StoreDriver) -> None:
    """Without a query every score is None."""
    await _fill(store, 3)
    equal([item.score for item in await store.search(NS)], [None] * 3, "scores")
    equal([item.score for item in await store.search(NS, query="")], [None] * 3, 'of query ""')


@check()
async def a_query_without_an_index_is_ignored(store: StoreDriver) -> None:
    """A store with no index answers a query as if there were none, without scores."""
    keys = await _fill(store, 3)
    found = await store.search(NS, query="k01")
    equal(sorted(item.key for item in found), keys, "keys")
    equal([item.score for item in found], [None] * 3, "scores")


@check()
async def a_page_holds_ten_unless_told(store: StoreDriver) -> None:
    """The default limit is 10."""
    await _fill(store, 12)
    equal(len(await store.keys(NS)), 10, "number of results")


@check()
async def search_limit_zero_is_an_empty_page(store: StoreDriver) -> None:
    """A limit of 0 gives no results and no error."""
    await _fill(store, 3)
    equal(await store.keys(NS, limit=0), [], "search(limit=0)")


@check()
async def negative_pages_are_refused(store: StoreDriver) -> None:
    """A negative limit or offset is a ValueError, by method and by raw operation."""
    await _fill(store, 3)
    await refused(store.search(NS, limit=-1), ValueError, what="limit=-1")
    await refused(store.search(NS, offset=-1), ValueError, what="offset=-1")
    await refused(store.batch([SearchOp(NS, limit=-1)]), ValueError, what="SearchOp limit=-1")
    await refused(store.batch([SearchOp(NS, offset=-1)]), ValueError, what="SearchOp offset=-1")


@check()
async def an_offset_past_the_end_is_an_empty_page(store: StoreDriver) -> None:
    """An offset beyond the last result gives no results and no error."""
    await _fill(store, 3)
    equal(await store.keys(NS, offset=3), [], "search(offset=3)")


@check()
async def pages_cover_each_item_once(store: StoreDriver) -> None:
    """Pages over items of one batch, equal in time, hold each item exactly once."""
    keys = await _fill(store, 25)
    pages = await _pages(store, 4, 25)
    equal(sorted(key for page in pages for key in page), keys, "keys of all pages")


@check()
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
