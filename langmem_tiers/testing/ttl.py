"""Time to live, in fractional minutes."""

import asyncio
from typing import cast

from langgraph.store.base import PutOp, TTLConfig

from langmem_tiers.testing.check import check
from langmem_tiers.testing.driver import StoreDriver
from langmem_tiers.testing.expect import equal, true

NS = ("ttl",)
BLINK = 0.0005
SHORT = 0.015
OMIT = TTLConfig(omit_expired=True)


async def _minutes(share: float, ttl: float = SHORT) -> None:
    await asyncio.sleep(share * ttl * 60)


async def _until_expired(ttl: float = BLINK) -> None:
    await asyncio.sleep(ttl * 60 + 0.02)


async def _put_and_expire(store: StoreDriver) -> None:
    await store.put(NS, "gone", {"n": 1}, ttl=BLINK)
    await store.put(NS, "kept", {"n": 1}, ttl=None)
    await _until_expired()


@check(ttl=OMIT)
async def ttl_support_is_declared(store: StoreDriver) -> None:
    """`supports_ttl` is True and `ttl_config` is the configuration that was given."""
    equal(store.store.supports_ttl, True, "supports_ttl")  # noqa: FBT003
    equal((store.store.ttl_config or {}).get("omit_expired"), True, "omit_expired")  # noqa: FBT003


@check(ttl=OMIT)
async def a_fraction_of_a_minute_is_a_lifetime(store: StoreDriver) -> None:
    """An item put for 0.015 minutes is read as often as one likes until then, and then gone."""
    await store.put(NS, "k", {"n": 1}, ttl=SHORT)
    for _ in range(2):
        equal(await store.value(NS, "k"), {"n": 1}, "get while alive")
        equal(await store.keys(NS), ["k"], "search while alive")
    await _minutes(1.1)
    equal(await store.value(NS, "k"), None, "get when expired")


@check(ttl=OMIT)
async def expired_items_are_not_found(store: StoreDriver) -> None:
    """With `omit_expired`, neither get, search nor list_namespaces shows what has expired."""
    await _put_and_expire(store)
    await store.put(("other",), "gone", {"n": 1}, ttl=BLINK)
    await _until_expired()
    equal(await store.value(NS, "gone"), None, "get")
    equal(await store.keys(NS), ["kept"], "search")
    equal(await store.list_namespaces(), [NS], "list_namespaces")


@check(ttl=OMIT)
async def expired_items_take_no_place_on_a_page(store: StoreDriver) -> None:
    """With `omit_expired`, a page is filled with living items."""
    for n in range(6):
        await store.put(NS, f"k{n}", {"n": n}, ttl=BLINK if n % 2 else None)
    await _until_expired()
    pages = [await store.keys(NS, limit=2, offset=at) for at in (0, 2)]
    equal(sorted(key for page in pages for key in page), ["k0", "k2", "k4"], "keys")


@check(ttl=OMIT)
async def reading_an_expired_item_does_not_revive_it(store: StoreDriver) -> None:
    """With `omit_expired`, a read that refreshes leaves the dead dead."""
    await _put_and_expire(store)
    for _ in range(2):
        equal(await store.get(NS, "gone", refresh_ttl=True), None, "get")
        equal(await store.keys(NS, refresh_ttl=True), ["kept"], "search")


@check(ttl=TTLConfig())
async def omit_expired_is_read_at_each_call(store: StoreDriver) -> None:
    """Setting `omit_expired` in the store's configuration works from the next call on."""
    await _put_and_expire(store)
    cast("TTLConfig", store.store.ttl_config)["omit_expired"] = True
    equal(await store.keys(NS), ["kept"], "search")
    equal(await store.value(NS, "gone"), None, "get")


@check(ttl=TTLConfig(omit_expired=True, default_ttl=BLINK))
async def put_uses_the_default_ttl(store: StoreDriver) -> None:
    """A put that says nothing of a TTL takes the configuration's `default_ttl`."""
    await store.put(NS, "k", {"n": 1})
    await _until_expired()
    equal(await store.value(NS, "k"), None, "get")


@check(ttl=TTLConfig(omit_expired=True, default_ttl=BLINK))
async def no_ttl_beats_the_default_ttl(store: StoreDriver) -> None:
    """`ttl=None` and a TTL of its own are kept against `default_ttl`."""
    await store.put(NS, "none", {"n": 1}, ttl=None)
    await store.put(NS, "hour", {"n": 1}, ttl=60)
    await _until_expired()
    equal(sorted(await store.keys(NS)), ["hour", "none"], "keys")


@check(ttl=TTLConfig(omit_expired=True, default_ttl=BLINK))
async def raw_puts_have_no_default_ttl(store: StoreDriver) -> None:
    """`default_ttl` is for put: an operation given to batch means what it says."""
    await store.batch([PutOp(NS, "k", {"n": 1}), PutOp(NS, "gone", {"n": 1}, ttl=BLINK)])
    await _until_expired()
    equal(await store.keys(NS), ["k"], "keys")


@check(ttl=OMIT)
async def a_put_without_ttl_clears_an_earlier_one(store: StoreDriver) -> None:
    """The TTL belongs to the last put."""
    await store.put(NS, "k", {"n": 1}, ttl=BLINK)
    await store.put(NS, "k", {"n": 2})
    await _until_expired()
    equal(await store.value(NS, "k"), {"n": 2}, "get")


@check(ttl=OMIT)
async def reading_extends_the_lifetime(store: StoreDriver) -> None:
    """A get or a search gives an item its whole TTL again."""
    for key in ("got", "found"):
        await store.put((*NS, key), key, {"n": 1}, ttl=SHORT)
    await _minutes(0.55)
    await store.get((*NS, "got"), "got")
    await store.search((*NS, "found"))
    await _minutes(0.65)
    equal(sorted(await store.keys(NS)), ["found", "got"], "keys after 1.2 lifetimes")


@check(ttl=OMIT)
async def reading_without_refresh_does_not_extend(store: StoreDriver) -> None:
    """`refresh_ttl=False` reads and leaves the end where it was."""
    await store.put(NS, "k", {"n": 1}, ttl=SHORT)
    await _minutes(0.55)
    item = await store.get(NS, "k", refresh_ttl=False)
    true(item is not None, "the item is gone before its time")
    equal(await store.keys(NS, refresh_ttl=False), ["k"], "search while alive")
    await _minutes(0.55)
    equal(await store.keys(NS), [], "keys after 1.1 lifetimes")


@check(ttl=TTLConfig(omit_expired=True, refresh_on_read=False))
async def refresh_on_read_may_be_off(store: StoreDriver) -> None:
    """With `refresh_on_read` False, reads extend nothing unless they ask for it."""
    for key in ("got", "asked"):
        await store.put((*NS, key), key, {"n": 1}, ttl=SHORT)
    await _minutes(0.55)
    true(await store.get((*NS, "got"), "got") is not None, "the item is gone before its time")
    await store.get((*NS, "asked"), "asked", refresh_ttl=True)
    await _minutes(0.65)
    equal(await store.keys(NS), ["asked"], "keys after 1.2 lifetimes")


@check(ttl=OMIT)
async def only_the_page_is_refreshed(store: StoreDriver) -> None:
    """A search extends the lifetime of the items it returns, not of others that match."""
    for n in range(3):
        await store.put(NS, f"k{n}", {"n": n}, ttl=SHORT)
    await _minutes(0.55)
    page = await store.keys(NS, limit=1)
    equal(len(page), 1, "size of the page")
    await _minutes(0.65)
    equal(await store.keys(NS), page, "keys after 1.2 lifetimes")
