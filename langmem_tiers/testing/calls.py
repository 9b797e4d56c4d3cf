"""What one call means: many operations in a batch, and a page of a search without a query."""

from collections.abc import Iterator
from typing import Any, cast

from langgraph.store.base import GetOp, Item, ListNamespacesOp, Op, PutOp, Result, SearchOp

from langmem_tiers.testing.kit import NS, Rules, equal, refused


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
        found = [
            _value(got[0]),
            got[1],
            _keys(got[2]),
            got[3],
            got[4],
            _value(got[5]),
            _keys(got[6]),
        ]
        equal(found, [{"n": 3}, None, ["k2"], None, [NS], {"n": 0}, ["k1"]], "results")

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
        found = [_value(got[2]), got[3], _keys(got[4]), got[5]]
        equal(found, [{"n": 1}, None, ["old"], [NS]], "what the reads saw")
        equal(await self.keys(NS), ["new"], "what is there afterwards")

    async def the_last_put_to_a_key_wins(self) -> None:
        """Of several puts to one key in one batch the last one is kept; all results are None."""
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
        found = [_value(got[0]), _keys(got[1]), _value(got[2]), _keys(got[3])]
        equal(found, [{"n": 1}, ["k"], {"n": 1}, ["k"]], "results")

    async def one_key_in_many_namespaces_is_many_items(self) -> None:
        """Puts of one key in different namespaces of one batch do not replace each other."""
        await self.batch([PutOp((*NS, str(n)), "k", {"n": n}) for n in range(5)])
        found = [await self.value((*NS, str(n)), "k") for n in range(5)]
        equal(found, [{"n": n} for n in range(5)], "values")

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
        """What is not an operation is a ValueError, not a silent None."""
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
        found = await self.search(("a",))
        equal([each.dict() | {"score": None} for each in found], [_as_result(item)], "results")
        equal([each.namespace for each in found], [("a", "b")], "namespaces")

    async def search_without_a_query_has_no_scores(self) -> None:
        """Without a query every score is None."""
        await self._numbered(3)
        equal([item.score for item in await self.search(NS)], [None] * 3, "scores")
        equal([item.score for item in await self.search(NS, query="")], [None] * 3, 'of query ""')

    async def a_query_without_an_index_is_ignored(self) -> None:
        """A store with no index answers a query as if there were none, without scores."""
        keys = await self._numbered(3)
        found = await self.search(NS, query="k01")
        equal(sorted(item.key for item in found), keys, "keys")
        equal([item.score for item in found], [None] * 3, "scores")

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
