"""What was recalled is no new evidence when it is stored again."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from langmem_tiers import MemoryContext, TieredStore
from langmem_tiers.remember.gate import GatePolicy
from tests.support.coordinating import beside, coordinator, keys
from tests.support.opening import Clock, tables

FACT = "The API key rotates on Mondays."


@pytest.fixture
def memory(store: TieredStore) -> Any:
    return coordinator(store, project_id="p", session_id="s")


@pytest.mark.parametrize("source", ["user", "agent", "web"])
def test_what_was_recalled_is_no_new_evidence(memory: Any, url: str, source: str) -> None:
    first = memory.store(FACT, "semantic")
    for number in range(20):
        (found,) = memory.get_context("API key rotates")
        framed = found.content if number % 2 else f"As I recall, {found.content}"
        again = memory.store(framed, "semantic", source=source)
        assert (again.stored, again.repeats) == (False, first.key)
    assert len(tables(url)["memories"]) == 1


def test_what_was_recalled_elsewhere_in_the_run_is_no_new_evidence_either(memory: Any) -> None:
    first = memory.store(FACT)
    found = memory.get_context("API key")
    other = beside(memory)
    for recalled in (found, [FACT], [{"content": FACT, "key": first.key, "namespace": None}]):
        again = other.store(FACT, recalled=recalled)
        assert not again.stored
        assert again.reason.startswith("echo:")


@pytest.mark.parametrize("verb", ["get", "due"])
def test_what_was_got_by_its_key_or_raised_is_no_new_evidence_either(
    memory: Any, verb: str
) -> None:
    beside(memory).reminders.add("The certificate of the shop is renewed in May.", key="renew")
    assert memory.get("renew") if verb == "get" else memory.reminders.due()
    again = memory.store("The certificate of the shop is renewed in May.", source="agent")
    assert (again.stored, again.repeats) == (False, "renew")


def test_what_repeats_a_memory_that_ends_sooner_is_stored(memory: Any, clock: Clock) -> None:
    until = clock() + timedelta(seconds=2)
    first = memory.store(FACT, valid_to=until)
    memory.get_context("API key")
    assert not memory.store(FACT, valid_to=until).stored
    assert memory.store(FACT).stored
    clock.advance(seconds=3)
    found = memory.get_context("API key")
    assert [one.content for one in found if one.key != first.key] == [FACT]


def test_what_repeats_a_memory_of_a_shorter_life_is_stored(memory: Any) -> None:
    first = memory.store(FACT)
    found = memory.get(first.key)
    store, value = memory.tiered_store, dict(found.value)
    store.put(found.namespace, found.key, value, ttl=1)
    memory.get_context("API key")
    again = memory.store(FACT)
    assert (again.stored, again.trust) == (True, 1.0)


def test_what_one_call_replaces_and_tells_again_is_stored(memory: Any) -> None:
    memory.store(FACT, key="vault")
    memory.get_context("API key")
    other = {"content": "The vault is in the cellar.", "key": "vault"}
    assert all(one.stored for one in memory.store_many([other, {"content": FACT}]))
    found = memory.get_context("API key vault")
    assert {one.content for one in found} == {FACT, other["content"]}


def test_what_a_call_tells_again_makes_no_room_for_the_rest(memory: Any) -> None:
    small = beside(memory, gate=GatePolicy(capacity={"semantic": 1}))
    small.store(FACT, "semantic", key="fact")
    small.get_context("API key")
    other = {"content": "The vault is in the cellar.", "memory_type": "semantic", "key": "other"}
    again = {"content": FACT, "memory_type": "semantic"}
    results = small.store_many([again, other])
    assert [one.evicted for one in results] == [(), ()]
    assert "fact" in keys(small.get_context("", limit=9))


def test_what_was_deleted_is_stored_again(memory: Any) -> None:
    first = memory.store(FACT)
    memory.get_context("API key")
    memory.delete_memory(first.key)
    again = memory.store(FACT)
    assert (again.stored, again.repeats) == (True, None)


def test_what_was_recalled_and_is_to_last_longer_is_kept_as_derived(memory: Any) -> None:
    page = memory.store(FACT, tier="short_term", source="tool")
    memory.get_context("API key")
    kept = memory.store(FACT, tier="long_term")
    assert (kept.stored, kept.trust) == (True, 0.6)
    memory.truth.retract(page.key, reason="it was wrong")
    assert memory.get_context("API key") == []


def test_a_memory_may_replace_itself_though_it_was_recalled(memory: Any) -> None:
    memory.store(FACT, key="one")
    memory.get_context("API key")
    assert memory.store(FACT, key="one", tags=["keys"]).stored
    assert memory.get("one").tags == ("keys",)
    for _ in range(2):
        assert memory.store("Cellar 2 is wet.", key="two", source="tool").stored


def test_raw_puts_are_not_judged(memory: Any) -> None:
    store = memory.tiered_store
    namespace = MemoryContext(tenant="acme", project_id="p").namespace
    store.put(namespace("working"), "raw", {"content": "Hello"})  # type: ignore[arg-type]
    assert keys(memory.get_context("")) == ["raw"]
