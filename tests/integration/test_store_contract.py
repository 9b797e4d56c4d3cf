"""LangGraph's contract for stores: batches, keys, namespaces, listings and pages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from langgraph.store.base import (
    BaseStore,
    InvalidNamespaceError,
    Item,
)

from langmem_tiers import TieredStore
from langmem_tiers.testing import Mode, StoreDriver, check_names, run_check
from tests.support.opening import Opened, Opener, empty, leave, opened_store, text_index
from tests.support.servers import sessions

A = ("acme", "a")


async def test_a_bad_label_fails_its_own_call_and_not_those_beside_it(driver: StoreDriver) -> None:
    await driver.put(A, "k", {"v": 1})
    good, bad = await asyncio.gather(
        driver.get(A, "k"), driver.get(("a.b",), "k"), return_exceptions=True
    )
    assert isinstance(good, Item)
    assert isinstance(bad, InvalidNamespaceError)


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
