"""LangGraph's contract for stores holds, also of a store called in the way it was not opened."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from langgraph.store.base import BaseStore

from langmem_tiers import TieredStore
from langmem_tiers.testing import Mode, check_names, run_check
from tests.support.opening import Opened, empty, leave, opened_store

NAMES = check_names()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("opened", "mode", "names"),
    [("sync", "abatch", NAMES[::2]), ("async", "batch", NAMES[1::2])],
    ids=["opened-sync-abatch", "opened-async-batch"],
)
def test_a_store_called_in_the_way_it_was_not_opened_keeps_the_rules_of_the_kit(
    new_url: Callable[[], str], opened: Opened, mode: Mode, names: list[str]
) -> None:
    """Called in the way it was opened, all of the kit is run beside other stores.

    Here each way runs half of it: what is sent is the same, and only who waits for it differs.
    """
    url = new_url()

    @asynccontextmanager
    async def make_store(*, index: Any, ttl: Any) -> AsyncIterator[BaseStore]:
        store = TieredStore(url, index=index, ttl=ttl)
        async with opened_store(store, opened):
            await store.asetup()
            empty(url)
            yield store

    results = [run_check(name, make_store, mode) for name in names]
    leave(url)
    assert [one.message for one in results if not one.passed] == []
