"""Put, get, delete: what an item is and how it ages."""

from itertools import pairwise

from langmem_tiers.testing.check import check
from langmem_tiers.testing.driver import StoreDriver
from langmem_tiers.testing.expect import equal, true

NS = ("users", "ada")


@check()
async def put_then_get_returns_the_item(store: StoreDriver) -> None:
    """An item comes back with its namespace, key and value."""
    await store.put(NS, "k", {"text": "tea"})
    item = await store.get(NS, "k")
    found = None if item is None else (item.namespace, item.key, item.value)
    equal(found, (NS, "k", {"text": "tea"}), "get after put")


@check()
async def missing_items_are_none(store: StoreDriver) -> None:
    """A key that was never put is None, in a known namespace or not."""
    await store.put(NS, "k", {"n": 1})
    equal(await store.get(NS, "other"), None, "another key")
    equal(await store.get(("nowhere",), "k"), None, "another namespace")
    equal(await store.get((), "k"), None, "the empty namespace")


@check()
async def namespaces_keep_equal_keys_apart(store: StoreDriver) -> None:
    """One key in two namespaces is two items, a namespace and its parent included."""
    await store.put(("a",), "k", {"n": 1})
    await store.put(("a", "b"), "k", {"n": 2})
    found = [await store.value(("a",), "k"), await store.value(("a", "b"), "k")]
    equal(found, [{"n": 1}, {"n": 2}], "the two values")


@check()
async def put_replaces_the_whole_value(store: StoreDriver) -> None:
    """A second put replaces the value; nothing of the first is merged in."""
    await store.put(NS, "k", {"old": 1, "both": 1})
    await store.put(NS, "k", {"both": 2})
    equal(await store.value(NS, "k"), {"both": 2}, "value after the second put")


@check()
async def delete_removes_the_item(store: StoreDriver) -> None:
    """A deleted item is found by neither get nor search."""
    await store.put(NS, "k", {"n": 1})
    await store.delete(NS, "k")
    equal(await store.get(NS, "k"), None, "get after delete")
    equal(await store.keys(NS), [], "search after delete")


@check()
async def deleting_what_is_missing_is_fine(store: StoreDriver) -> None:
    """Deleting a key that is not there does nothing and raises nothing."""
    await store.put(NS, "k", {"n": 1})
    await store.delete(NS, "other")
    await store.delete(("nowhere",), "k")
    equal(await store.value(NS, "k"), {"n": 1}, "the item beside it")


@check()
async def created_at_survives_an_update(store: StoreDriver) -> None:
    """An update keeps `created_at`."""
    await store.put(NS, "k", {"n": 1})
    before = [item.created_at for item in await store.search(NS)]
    await store.put(NS, "k", {"n": 2})
    after = [item.created_at for item in await store.search(NS)]
    equal([len(after), after], [1, before], "number of items and their created_at")


@check()
async def updated_at_moves_strictly_forward(store: StoreDriver) -> None:
    """Each put of a key has a later `updated_at` than the one before."""
    seen = []
    for n in range(5):
        await store.put(NS, "k", {"n": n})
        seen += [item.updated_at for item in await store.search(NS)]
    equal(len(seen), 5, "number of times")
    true(all(earlier < later for earlier, later in pairwise(seen)), f"times: {seen}")


@check()
async def times_are_timezone_aware(store: StoreDriver) -> None:
    """`created_at` and `updated_at` carry a time zone, from get and from search."""
    await store.put(NS, "k", {"n": 1})
    items = [await store.get(NS, "k"), *await store.search(NS)]
    times = [time for item in items if item for time in (item.created_at, item.updated_at)]
    equal(len(times), 4, "number of times")
    true(all(time.utcoffset() is not None for time in times), f"times: {times}")


@check()
async def keys_are_coerced_to_text(store: StoreDriver) -> None:
    """A key that is not a str is stored, read and deleted as `str(key)`."""
    await store.put(NS, 5, {"n": 1})
    equal(await store.value(NS, "5"), {"n": 1}, 'get("5")')
    equal(await store.value(NS, 5), {"n": 1}, "get(5)")
    await store.delete(NS, 5)
    equal(await store.value(NS, "5"), None, "after delete(5)")


@check()
async def results_of_get_are_copies(store: StoreDriver) -> None:
    """Changing a value that get returned, deep inside too, changes nothing stored."""
    await store.put(NS, "k", {"tags": ["a"], "n": 1})
    value = await store.value(NS, "k") or {"tags": []}
    value["n"] = 2
    value["tags"].append("b")
    equal(await store.value(NS, "k"), {"tags": ["a"], "n": 1}, "the stored value")


@check()
async def results_of_search_are_copies(store: StoreDriver) -> None:
    """Changing a value that search returned, deep inside too, changes nothing stored."""
    await store.put(NS, "k", {"tags": ["a"]})
    for item in await store.search(NS):
        item.value["tags"].append("b")
    equal([i.value for i in await store.search(NS)], [{"tags": ["a"]}], "the stored value")


@check()
async def values_put_are_copied(store: StoreDriver) -> None:
    """Changing a dict after it was put changes nothing stored."""
    value = {"tags": ["a"]}
    await store.put(NS, "k", value)
    value["tags"].append("b")
    equal(await store.value(NS, "k"), {"tags": ["a"]}, "the stored value")
