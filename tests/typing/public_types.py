"""What a type checker must accept and refuse; checked by `make types`, never run."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import assert_type

from langgraph.store.base import BaseStore, Item, Result, SearchItem

from langmem_tiers import Match, RelationSize, Tier, TieredStore, TierStats, TierView


def blocking(url: str) -> None:
    with TieredStore.from_conn_string(url, index={"dims": 3, "embed": len}) as store:
        assert_type(store, TieredStore)
        base: BaseStore = store
        assert_type(base.get(("a",), "k"), Item | None)
        assert_type(store.search(("a",), query="x"), list[SearchItem])
        assert_type(store.batch([]), list[Result])
        assert_type(store.tier("working"), TierView)
        assert_type(store.tier(Tier.WORKING).search(("a",)), list[SearchItem])
        assert_type(store.move(("a",), "k", Tier.LONG_TERM), bool)
        assert_type(store.hybrid_search(("a",), query="x"), list[Match])
        assert_type(store.stats(), list[TierStats])
        assert_type(store.sizes(), list[RelationSize])
        assert_type(store.sweep_ttl(), int)
        assert_type(store.start_ttl_sweeper(), Future[None])
        store.put(("a",), "k", {"v": 1}, index=False, ttl=None)
        store.tier("working").put(("a",), "k", {"v": 1}, index=["v"], ttl=5)
        store.put(("a",), "k", 5)  # type: ignore[arg-type]
        store.get("a", "k")  # type: ignore[arg-type]
        store.hybrid_search(("a",))  # type: ignore[call-arg]


async def asynchronous(url: str) -> None:
    async with TieredStore.embedded(url, version=18) as store:
        assert_type(store, TieredStore)
        assert_type(await store.aget(("a",), "k"), Item | None)
        assert_type(await store.asearch(("a",)), list[SearchItem])
        assert_type(await store.amove(("a",), "k", "long_term"), bool)
        assert_type(await store.ahybrid_search(("a",), query="x"), list[Match])
        assert_type(await store.astart_ttl_sweeper(), asyncio.Task[None])
        await store.tier("working").aput(("a",), "k", {"v": 1}, ttl=0.5)
        TieredStore.embedded(url, version=17)  # type: ignore[arg-type]
        TieredStore.embedded(url, index="remote")  # type: ignore[arg-type]
