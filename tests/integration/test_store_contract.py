"""LangGraph's contract for stores: batches, keys, namespaces, listings and pages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from langgraph.store.base import (
    BaseStore,
    GetOp,
    InvalidNamespaceError,
    Item,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
)

from langmem_tiers import TieredStore
from langmem_tiers.testing import Mode, StoreDriver, check_names, run_check
from tests.support.opening import Clock, Opened, Opener, empty, leave, opened_store, text_index
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


async def test_namespaces_are_listed_sorted_cut_and_paged(driver: StoreDriver) -> None:
    await fill(driver, *reversed(TREE))
    for options, wanted in LISTINGS:
        assert await driver.list_namespaces(**options) == wanted, options


async def test_a_condition_may_be_one_label(driver: StoreDriver) -> None:
    await fill(driver, *TREE)
    label: Any = "open"
    listed = await driver.batch([ListNamespacesOp((MatchCondition("suffix", label),))])
    assert listed == [[TREE[0], TREE[2], TREE[3]]]


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


@pytest.mark.parametrize(("opened", "mode"), [("sync", "abatch"), ("async", "batch")])
def test_a_store_called_in_the_way_it_was_not_opened_keeps_every_rule_of_the_kit(
    new_url: Callable[[], str], opened: Opened, mode: Mode
) -> None:
    """Called in the way it was opened, the kit is run beside other stores."""
    url = new_url()

    @asynccontextmanager
    async def make_store(*, index: Any, ttl: Any) -> AsyncIterator[BaseStore]:
        store = TieredStore(url, index=index, ttl=ttl)
        async with opened_store(store, opened):
            await store.asetup()
            empty(url)
            yield store

    results = [run_check(name, make_store, mode) for name in check_names()]
    leave(url)
    assert [one.message for one in results if not one.passed] == []
