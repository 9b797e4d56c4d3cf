"""LangGraph's contract for stores: batches, keys, namespaces, listings and pages."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    Item,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchItem,
    SearchOp,
)

from langmem_tiers.testing import StoreDriver
from tests.support.opening import Clock, Opener, text_index
from tests.support.servers import sessions

A, B = ("acme", "a"), ("acme", "b")
TREE = [
    ("acme", "papers", "open"),
    ("acme", "papers", "secret"),
    ("acme", "photos", "open"),
    ("beta", "papers", "open"),
    ("beta", "papers", "secret", "old"),
]

LISTINGS: list[tuple[dict[str, Any], list[tuple[str, ...]]]] = [
    ({}, TREE),
    ({"prefix": ("acme",)}, TREE[:3]),
    ({"prefix": ["acme", "papers"]}, TREE[:2]),
    ({"suffix": ("open",)}, [TREE[0], TREE[2], TREE[3]]),
    ({"prefix": ("acme",), "suffix": ("open",)}, [TREE[0], TREE[2]]),
    ({"prefix": ("*", "papers")}, [TREE[0], TREE[1], TREE[3], TREE[4]]),
    ({"prefix": ("*",), "suffix": ("*", "open")}, [TREE[0], TREE[2], TREE[3]]),
    ({"suffix": ("secret", "*")}, [TREE[4]]),
    ({"prefix": ("acme", "papers", "open", "*")}, []),
    ({"prefix": ("nobody",)}, []),
    ({"max_depth": 2}, [("acme", "papers"), ("acme", "photos"), ("beta", "papers")]),
    ({"max_depth": 1}, [("acme",), ("beta",)]),
    ({"max_depth": 0}, [()]),
    ({"max_depth": 2, "limit": 1, "offset": 1}, [("acme", "photos")]),
    ({"max_depth": 3, "suffix": ("old",)}, [TREE[4][:3]]),
    ({"limit": 2}, TREE[:2]),
    ({"limit": 2, "offset": 4}, TREE[4:]),
    ({"limit": 0}, []),
]


async def fill(store: StoreDriver, *namespaces: tuple[str, ...]) -> None:
    await store.batch([PutOp(each, "k", {"n": i}) for i, each in enumerate(namespaces)])


async def test_result_i_answers_operation_i(driver: StoreDriver) -> None:
    await driver.put(A, "1", {"data": "one"})
    await driver.put(B, "2", {"data": "two"})
    got, put, found, listed, missing = await driver.batch(
        [
            GetOp(A, "1"),
            PutOp(B, "2", {"data": "new"}),
            SearchOp(("acme",), filter={"data": "one"}),
            ListNamespacesOp(limit=10),
            GetOp(("acme",), "3"),
        ]
    )
    assert isinstance(got, Item)
    assert (got.namespace, got.key, got.value) == (A, "1", {"data": "one"})
    assert put is None
    assert isinstance(found, list)
    assert [item.key for item in found if isinstance(item, SearchItem)] == ["1"]
    assert listed == [A, B]
    assert missing is None


async def test_reads_of_a_batch_see_the_state_before_its_writes(driver: StoreDriver) -> None:
    await driver.put(A, "1", {"v": 0})
    _, got, found, listed, _ = await driver.batch(
        [
            PutOp(A, "1", {"v": 1}),
            GetOp(A, "1"),
            SearchOp(A),
            ListNamespacesOp(),
            PutOp(B, "2", {}),
        ]
    )
    assert isinstance(got, Item)
    assert got.value == {"v": 0}
    assert isinstance(found, list)
    assert [item.value for item in found if isinstance(item, Item)] == [{"v": 0}]
    assert listed == [A]
    assert await driver.value(A, "1") == {"v": 1}


async def test_the_last_write_of_a_batch_wins(driver: StoreDriver) -> None:
    await driver.put(A, "gone", {})
    results = await driver.batch(
        [
            PutOp(A, "twice", {"v": 1}),
            PutOp(A, "twice", {"v": 2}),
            PutOp(A, "gone", {"v": 1}),
            PutOp(A, "gone", None),
            PutOp(A, "back", None),
            PutOp(A, "back", {"v": 3}),
        ]
    )
    assert results == [None] * 6
    assert await driver.value(A, "twice") == {"v": 2}
    assert await driver.value(A, "gone") is None
    assert await driver.value(A, "back") == {"v": 3}


async def test_put_over_a_batch_of_delete_and_put_keeps_created_at(
    driver: StoreDriver, clock: Clock
) -> None:
    await driver.put(A, "k", {"v": 1})
    first = await driver.get(A, "k")
    clock.advance(seconds=5)
    await driver.batch([PutOp(A, "k", None), PutOp(A, "k", {"v": 2})])
    second = await driver.get(A, "k")
    assert first is not None
    assert second is not None
    assert second.created_at == first.created_at
    assert second.updated_at > first.updated_at


async def test_updated_at_moves_strictly_forward_while_the_clock_stands(
    driver: StoreDriver,
) -> None:
    times = []
    for n in range(3):
        await driver.put(A, "k", {"n": n})
        item = await driver.get(A, "k")
        assert item is not None
        times.append(item.updated_at)
    assert times == sorted(set(times))


async def test_deleted_items_are_gone_and_missing_ones_can_be_deleted(driver: StoreDriver) -> None:
    await driver.put(A, "k", {"v": 1})
    await driver.delete(A, "k")
    await driver.delete(A, "never")
    assert await driver.get(A, "k") is None
    assert await driver.search(A) == []
    assert await driver.list_namespaces() == []


async def test_the_empty_namespace_reads_as_nothing_and_cannot_be_written(
    driver: StoreDriver,
) -> None:
    assert await driver.get((), "k") is None
    assert await driver.search(()) == []
    with pytest.raises(InvalidNamespaceError):
        await driver.put((), "k", {})
    with pytest.raises(ValueError, match="namespace"):
        await driver.batch([PutOp((), "k", {})])


async def test_the_langgraph_root_is_open_to_raw_operations_alone(driver: StoreDriver) -> None:
    with pytest.raises(InvalidNamespaceError):
        await driver.put(("langgraph", "x"), "k", {})
    await driver.batch([PutOp(("langgraph", "x"), "k", {"v": 1})])
    assert await driver.value(("langgraph", "x"), "k") == {"v": 1}
    assert await driver.keys(("langgraph",)) == ["k"]
    await driver.delete(("langgraph", "x"), "k")
    assert await driver.get(("langgraph", "x"), "k") is None


async def test_a_bad_label_fails_the_whole_batch_before_anything_is_written(
    driver: StoreDriver,
) -> None:
    await driver.put(("a", "b"), "k", {"v": "original"})
    bad: list[Any] = [("a.b",), ("a", ""), ("a", 1)]
    for labels in bad:
        for op in (
            GetOp(labels, "k"),
            PutOp(labels, "k", {"v": "changed"}),
            PutOp(labels, "k", None),
            SearchOp(labels),
            ListNamespacesOp((MatchCondition("prefix", labels),)),
            ListNamespacesOp((MatchCondition("suffix", labels),)),
        ):
            with pytest.raises(InvalidNamespaceError):
                await driver.batch([PutOp(("fine",), "k", {}), op])
    assert await driver.value(("a", "b"), "k") == {"v": "original"}
    assert await driver.get(("fine",), "k") is None


async def test_a_bad_label_fails_its_own_call_and_not_those_beside_it(driver: StoreDriver) -> None:
    await driver.put(A, "k", {"v": 1})
    good, bad = await asyncio.gather(
        driver.get(A, "k"), driver.get(("a.b",), "k"), return_exceptions=True
    )
    assert isinstance(good, Item)
    assert isinstance(bad, InvalidNamespaceError)


async def test_prefixes_stop_at_whole_labels_and_hold_no_wildcards(driver: StoreDriver) -> None:
    odd = [("foo",), ("foo", "x"), ("foobar",), ("foo2",), ("a_c",), ("abc",), ("a%",), ("a*", "x")]
    await fill(driver, *odd, ("acme", "\U0010ffff"), ("acme", "\n"))

    async def under(*prefix: str) -> set[tuple[str, ...]]:
        return {item.namespace for item in await driver.search(prefix, limit=100)}

    assert await under("foo") == {("foo",), ("foo", "x")}
    assert await under("fo") == set()
    assert await under("a_c") == {("a_c",)}
    assert await under("a%") == {("a%",)}
    assert await under("a*") == {("a*", "x")}
    assert await under("*") == set()
    assert await under("acme") == {("acme", "\U0010ffff"), ("acme", "\n")}
    assert len(await under()) == len(odd) + 2


async def test_a_trailing_newline_makes_another_label(driver: StoreDriver) -> None:
    await fill(driver, ("users", "ann"), ("users", "ann\n"))
    assert await driver.list_namespaces(suffix=["ann"]) == [("users", "ann")]
    assert await driver.list_namespaces(prefix=["users", "ann"]) == [("users", "ann")]
    assert [item.namespace for item in await driver.search(("users", "ann"))] == [("users", "ann")]


async def test_namespaces_are_listed_sorted_cut_and_paged(driver: StoreDriver) -> None:
    await fill(driver, *reversed(TREE))
    for options, wanted in LISTINGS:
        assert await driver.list_namespaces(**options) == wanted, options


async def test_conditions_of_one_kind_must_all_hold(driver: StoreDriver) -> None:
    await fill(driver, *TREE)
    both = (MatchCondition("prefix", ("acme",)), MatchCondition("prefix", ("*", "papers")))
    never = (MatchCondition("prefix", ("acme",)), MatchCondition("prefix", ("beta",)))
    assert await driver.batch([ListNamespacesOp(both), ListNamespacesOp(never)]) == [TREE[:2], []]


async def test_a_condition_may_be_one_label(driver: StoreDriver) -> None:
    await fill(driver, *TREE)
    label: Any = "open"
    listed = await driver.batch([ListNamespacesOp((MatchCondition("suffix", label),))])
    assert listed == [[TREE[0], TREE[2], TREE[3]]]


async def test_twenty_namespaces_are_paged_in_order(driver: StoreDriver) -> None:
    namespaces = [("ns", f"sub_{n:02d}") for n in range(20)]
    await fill(driver, *namespaces)
    for offset in (0, 5, 15):
        page = await driver.list_namespaces(prefix=("ns",), limit=5, offset=offset)
        assert page == namespaces[offset : offset + 5]


async def test_newest_comes_first_and_pages_hold_each_item_once(
    driver: StoreDriver, clock: Clock
) -> None:
    for n in range(4):
        clock.advance(seconds=1)
        await driver.batch([PutOp(A, f"{n}{letter}", {"n": n}) for letter in "abc"])
    wanted = [f"{n}{letter}" for n in (3, 2, 1, 0) for letter in "abc"]
    assert await driver.keys(("acme",), limit=100) == wanted
    pages = [await driver.keys(("acme",), limit=5, offset=at) for at in (0, 5, 10, 15)]
    assert [key for page in pages for key in page] == wanted


async def test_filters_prefixes_and_pages_combine(driver: StoreDriver) -> None:
    values = {"x": {"author": "Ann"}, "y": {"author": "Bob"}, "z": {"author": "Ann"}}
    for key, value in values.items():
        await driver.put(A if key != "z" else B, key, value)
    assert len(await driver.search(["acme"])) == 3
    assert len(await driver.search(["acme", "a"])) == 2
    assert sorted(await driver.keys(("acme",), filter={"author": "Ann"})) == ["x", "z"]
    assert len(await driver.search(("acme",), limit=2)) == 2
    assert len(await driver.search(("acme",), offset=2)) == 1
    assert len(await driver.search(("acme",), filter={"author": "Ann"}, limit=1, offset=1)) == 1


async def test_numbers_compare_as_numbers_and_texts_as_texts(driver: StoreDriver) -> None:
    await driver.batch([PutOp(A, str(n), {"n": n, "s": f"{n:06.1f}"}) for n in (2, 9, 9.5, 10, 11)])

    async def found(condition: dict[str, Any]) -> list[float]:
        return sorted(item.value["n"] for item in await driver.search(A, filter=condition))

    assert await found({"n": {"$gte": 10}}) == [10, 11]
    assert await found({"n": {"$gt": 9}}) == [9.5, 10, 11]
    assert await found({"n": {"$lt": 10, "$ne": 2}}) == [9, 9.5]
    assert await found({"s": {"$gt": "0009.5"}}) == [10, 11]


async def test_fifty_items_put_deleted_and_put_at_once_are_found_by_their_filters(
    driver: StoreDriver,
) -> None:
    colors, docs = ["red", "blue", "green"], range(50)

    async def put(n: int) -> None:
        await driver.put(
            A, f"{n}", {"text": f"{colors[n % 3]} car", "color": colors[n % 3], "n": n}
        )

    await asyncio.gather(*(put(n) for n in docs))
    await asyncio.gather(*(driver.delete(A, f"{n}") for n in docs))
    await asyncio.gather(*(put(n) for n in docs))
    conditions: list[dict[str, Any]] = [
        {"color": "red"},
        {"n": {"$gt": 25}},
        {"n": {"$lte": 10}, "color": "blue"},
    ]
    pages = await asyncio.gather(
        *(driver.search(A, query="car", filter=each, limit=100) for each in conditions)
    )
    assert [len(page) for page in pages] == [17, 24, 4]
    assert all(item.score is not None for page in pages for item in page)


async def test_many_mixed_calls_at_once_are_all_answered(driver: StoreDriver) -> None:
    calls = []
    for n in range(60):
        namespace = ("test", "deep", str(n % 2))
        calls += [
            driver.put(namespace, f"{n}", {"n": n}),
            driver.get(namespace, f"{n}"),
            driver.search(("test",)),
            driver.list_namespaces(max_depth=n % 4 + 1),
            driver.delete(namespace, f"{n}"),
        ]
    results = await asyncio.gather(*calls)
    assert len(results) == 300


async def test_a_store_that_is_used_as_soon_as_it_is_open_needs_one_connection(
    open_store: Opener,
) -> None:
    url = open_store.new_url()
    async with open_store(url=url, index=text_index()) as driver:
        await driver.put(A, "k", {"text": "x"})
        assert sessions(url) == 1
