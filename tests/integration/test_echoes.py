"""What was recalled is no new evidence when it is stored again."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from langmem_tiers import MemoryContext, MemoryCoordinator
from langmem_tiers.remember.gate import GatePolicy
from tests.support.coordinating import Caller, beside, keys, stored
from tests.support.opening import Clock, tables

FACT = "The API key rotates on Mondays."


@pytest.mark.parametrize("source", ["user", "agent", "web"])
async def test_what_was_recalled_is_no_new_evidence(call: Caller, url: str, source: str) -> None:
    first = await stored(call, FACT, "semantic")
    for number in range(20):
        (found,) = await call("get_context", "API key rotates")
        framed = found.content if number % 2 else f"As I recall, {found.content}"
        again = await stored(call, framed, "semantic", source=source)
        assert (again.stored, again.repeats) == (False, first.key)
    assert len(tables(url)["memories"]) == 1


async def test_what_was_recalled_elsewhere_in_the_run_is_no_new_evidence_either(
    call: Caller,
) -> None:
    first = await stored(call, FACT)
    found = await call("get_context", "API key")
    other = beside(call)
    for recalled in (found, [FACT], [{"content": FACT, "key": first.key, "namespace": None}]):
        again = await stored(other, FACT, recalled=recalled)
        assert not again.stored
        assert again.reason.startswith("echo:")


@pytest.mark.parametrize("verb", ["get", "remind"])
async def test_what_was_got_by_its_key_or_raised_is_no_new_evidence_either(
    call: Caller, verb: str
) -> None:
    await beside(call)("intend", "The certificate of the shop is renewed in May.", key="renew")
    assert await (call("get", "renew") if verb == "get" else call("remind"))
    again = await stored(call, "The certificate of the shop is renewed in May.", source="agent")
    assert (again.stored, again.repeats) == (False, "renew")


async def test_what_repeats_a_memory_that_ends_sooner_is_stored(call: Caller, clock: Clock) -> None:
    until = clock() + timedelta(seconds=2)
    first = await stored(call, FACT, valid_to=until)
    await call("get_context", "API key")
    assert not (await stored(call, FACT, valid_to=until)).stored
    assert (await stored(call, FACT)).stored
    clock.advance(seconds=3)
    found = await call("get_context", "API key")
    assert [one.content for one in found if one.key != first.key] == [FACT]


async def test_what_repeats_a_memory_of_a_shorter_life_is_stored(call: Caller) -> None:
    first = await stored(call, FACT)
    found = await call("get", first.key)
    store, value = call.memory.tiered_store, dict(found.value)
    if call.mode == "abatch":
        await store.aput(found.namespace, found.key, value, ttl=1)
    else:
        await asyncio.to_thread(store.put, found.namespace, found.key, value, ttl=1)
    await call("get_context", "API key")
    again = await stored(call, FACT)
    assert (again.stored, again.trust) == (True, 1.0)


async def test_what_one_call_replaces_and_tells_again_is_stored(call: Caller) -> None:
    await stored(call, FACT, key="vault")
    await call("get_context", "API key")
    other = {"content": "The vault is in the cellar.", "key": "vault"}
    assert all(one.stored for one in await call("store_many", [other, {"content": FACT}]))
    found = await call("get_context", "API key vault")
    assert {one.content for one in found} == {FACT, other["content"]}


async def test_what_a_call_tells_again_makes_no_room_for_the_rest(call: Caller) -> None:
    small = beside(call, gate=GatePolicy(capacity={"semantic": 1}))
    await stored(small, FACT, "semantic", key="fact")
    await small("get_context", "API key")
    other = {"content": "The vault is in the cellar.", "memory_type": "semantic", "key": "other"}
    again = {"content": FACT, "memory_type": "semantic"}
    results = await small("store_many", [again, other])
    assert [one.evicted for one in results] == [(), ()]
    assert "fact" in keys(await small("get_context", "", limit=9))


async def test_what_was_deleted_is_stored_again(call: Caller) -> None:
    first = await stored(call, FACT)
    await call("get_context", "API key")
    await call("delete_memory", first.key)
    again = await stored(call, FACT)
    assert (again.stored, again.repeats) == (True, None)


async def test_what_was_recalled_and_is_to_last_longer_is_kept_as_derived(call: Caller) -> None:
    page = await stored(call, FACT, tier="short_term", source="tool")
    await call("get_context", "API key")
    kept = await stored(call, FACT, tier="long_term")
    assert (kept.stored, kept.trust) == (True, 0.6)
    await call("retract", page.key, reason="it was wrong")
    assert await call("get_context", "API key") == []


async def test_a_memory_may_replace_itself_though_it_was_recalled(call: Caller) -> None:
    await stored(call, FACT, key="one")
    await call("get_context", "API key")
    assert (await stored(call, FACT, key="one", tags=["keys"])).stored
    assert (await call("get", "one")).tags == ("keys",)
    for _ in range(2):
        assert (await stored(call, "Cellar 2 is wet.", key="two", source="tool")).stored


async def test_raw_puts_are_not_judged(call: Caller) -> None:
    store = call.memory.tiered_store
    namespace = MemoryContext(tenant="acme", project_id="p").namespace
    await store.aput(namespace("working"), "raw", {"content": "Hello"})  # type: ignore[arg-type]
    assert keys(await call("get_context", "")) == ["raw"]
    assert isinstance(call.memory, MemoryCoordinator)
