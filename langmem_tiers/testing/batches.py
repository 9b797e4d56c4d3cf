"""`batch` is the contract: what one call with many operations means."""

from collections.abc import Iterator
from typing import Any, cast

from langgraph.store.base import GetOp, Item, ListNamespacesOp, Op, PutOp, Result, SearchOp

from langmem_tiers.testing.check import check
from langmem_tiers.testing.driver import StoreDriver
from langmem_tiers.testing.expect import equal, refused

NS = ("batch",)


def _value(result: Result) -> Any:
    return result.value if isinstance(result, Item) else result


def _keys(result: Result) -> list[str]:
    return sorted(item.key for item in cast("list[Item]", result))


@check()
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


@check()
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


@check()
async def the_last_put_to_a_key_wins(store: StoreDriver) -> None:
    """Of several puts to one key in one batch the last one is kept; all results are None."""
    got = await store.batch([PutOp(NS, "k", {"n": n}) for n in range(3)])
    equal(got, [None, None, None], "results")
    equal(await store.value(NS, "k"), {"n": 2}, "value")


@check()
async def put_then_delete_in_one_batch_deletes(store: StoreDriver) -> None:
    """A put and then a delete of one key leave nothing."""
    got = await store.batch([PutOp(NS, "k", {"n": 1}), PutOp(NS, "k", None)])
    equal(got, [None, None], "results")
    equal(await store.value(NS, "k"), None, "value")


@check()
async def delete_then_put_in_one_batch_puts(store: StoreDriver) -> None:
    """A delete and then a put of one key leave the put."""
    await store.put(NS, "k", {"old": True})
    got = await store.batch([PutOp(NS, "k", None), PutOp(NS, "k", {"n": 1})])
    equal(got, [None, None], "results")
    equal(await store.value(NS, "k"), {"n": 1}, "value")


@check()
async def equal_reads_are_each_answered(store: StoreDriver) -> None:
    """The same get or search, asked twice in a batch, is answered twice."""
    await store.put(NS, "k", {"n": 1})
    get, search = GetOp(NS, "k"), SearchOp(NS)
    got = await store.batch([get, search, get, search])
    found = [_value(got[0]), _keys(got[1]), _value(got[2]), _keys(got[3])]
    equal(found, [{"n": 1}, ["k"], {"n": 1}, ["k"]], "results")


@check()
async def one_key_in_many_namespaces_is_many_items(store: StoreDriver) -> None:
    """Puts of one key in different namespaces of one batch do not replace each other."""
    await store.batch([PutOp((*NS, str(n)), "k", {"n": n}) for n in range(5)])
    found = [await store.value((*NS, str(n)), "k") for n in range(5)]
    equal(found, [{"n": n} for n in range(5)], "values")


@check()
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


@check()
async def an_empty_batch_is_an_empty_list(store: StoreDriver) -> None:
    """No operations, no results, no error."""
    equal(await store.batch([]), [], "batch([])")
    equal(await store.batch(iter(())), [], "batch of an empty iterator")


@check()
async def large_batches_work(store: StoreDriver) -> None:
    """A batch of hundreds of operations keeps them all, in order."""
    await store.batch([PutOp(NS, f"k{n}", {"n": n}) for n in range(400)])
    got = await store.batch([GetOp(NS, f"k{n}") for n in range(400)])
    equal([_value(each) for each in got] == [{"n": n} for n in range(400)], True, "all there")  # noqa: FBT003


@check()
async def unknown_operations_are_refused(store: StoreDriver) -> None:
    """What is not an operation is a ValueError, not a silent None."""
    for op in (object(), None, ("put", "k")):
        call = store.batch([cast("Op", op)])
        await refused(call, ValueError, what=f"batch of {op!r:.60}")


@check()
async def a_bad_operation_keeps_nothing_of_its_batch(store: StoreDriver) -> None:
    """A bad label, an unknown operation or a value outside JSON leaves the others unwritten."""
    good = PutOp(NS, "good", {"n": 1})
    for bad in (PutOp(("a.b",), "k", {}), object(), PutOp(NS, "bad", {"v": object()})):
        ops = [good, cast("Op", bad), PutOp(NS, "after", {"n": 2})]
        await refused(store.batch(ops), Exception, what=f"batch with {bad!r:.80}")
        equal(await store.keys(()), [], f"kept of a batch with {bad!r:.80}")


@check()
async def a_bad_read_keeps_nothing_of_its_batch(store: StoreDriver) -> None:
    """An unknown filter operator in a search leaves the puts beside it unwritten."""
    await store.put(NS, "k", {"n": 1})
    ops: list[Op] = [PutOp(NS, "good", {"n": 1}), SearchOp(NS, filter={"n": {"$what": 1}})]
    await refused(store.batch(ops), ValueError, what="batch with an unknown operator")
    equal(await store.keys(NS), ["k"], "keys afterwards")
