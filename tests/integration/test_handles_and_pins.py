"""Memories by their handles, and pins: what is named, what is shown first, and how much."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from itertools import count
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from langmem_tiers import GatePolicy, MemoryContext, MemoryCoordinator, TieredStore
from langmem_tiers.coordinator.remember import PINNED_TOKENS
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.memory import Recollection, handle_of, parse_handle
from tests.support.opening import Clock

ACME = MemoryContext(tenant="acme", user_id="ada", session_id="monday")
OTHER = MemoryContext(tenant="acme", user_id="ada", session_id="friday")
BEN = MemoryContext(tenant="acme", user_id="ben")

labels = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0."), min_size=1, max_size=8
)
keys = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)


@pytest.fixture
def memory(store: TieredStore) -> MemoryCoordinator:
    return MemoryCoordinator(store, context=ACME)


def kept(memory: MemoryCoordinator, content: str, key: str, **options: Any) -> Recollection:
    memory.store(content, memory_type="semantic", key=key, **options)
    found = memory.get(key)
    assert found is not None
    return found


def handle(one: Recollection) -> str:
    return handle_of(one.namespace, one.key)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(labels, min_size=1, max_size=4), keys)
def test_the_database_computes_the_same_handles(url: str, namespace: list[str], key: str) -> None:
    place = "".join(f"{one}." for one in namespace[1:])
    with psycopg.connect(url) as conn:
        row = conn.execute(
            "SELECT memory.handle(%s, %s, %s)", [namespace[0], place, key]
        ).fetchone()
    assert row == (handle_of(namespace, key),)
    assert len(handle_of(namespace, key)) == 6
    assert parse_handle(f"[{handle_of(namespace, key)}]") == handle_of(namespace, key)


VERBS: dict[str, Callable[[MemoryCoordinator, str], object]] = {
    "retract": lambda memory, named: memory.truth.retract(named, reason="it was a joke"),
    "history": lambda memory, named: memory.truth.history(named),
    "explain": lambda memory, named: memory.learning.explain(named),
    "pin": lambda memory, named: memory.pin(named),
    "unpin": lambda memory, named: memory.unpin(named),
    "delete_memory": lambda memory, named: memory.delete_memory(named),
    "forget": lambda memory, named: memory.forget(key=named),
    "get": lambda memory, named: memory.get(named),
    "derived_from": lambda memory, named: memory.store("So she eats none", derived_from=[named]),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("written", ["{}", "[{}]"])
def test_every_verb_that_takes_a_key_takes_a_handle(
    memory: MemoryCoordinator, verb: str, written: str
) -> None:
    one = kept(memory, "Ada is allergic to peanuts", "peanuts")
    by_handle = VERBS[verb](memory, written.format(handle(one)))
    again = kept(memory, "Ada is allergic to peanuts", "nuts")
    by_key = VERBS[verb](memory, again.key)
    assert type(by_handle) is type(by_key)
    if verb == "delete_memory":
        assert (by_handle, memory.get("peanuts")) == (True, None)


def test_reminders_and_truth_are_told_by_handles(memory: MemoryCoordinator) -> None:
    old, new = kept(memory, "Lives in Turin", "turin"), kept(memory, "Lives in Genoa", "genoa")
    memory.truth.supersede(handle(old), by=handle(new))
    (found,) = memory.get_context("Where does she live?", min_match=0)
    assert found.content == "Lives in Genoa"
    assert found.replaces is not None
    assert found.replaces.handle == handle(old)
    key = str(memory.reminders.add("Call the dentist").key)
    (one,) = memory.reminders.list()
    later = memory.now + timedelta(days=1)
    memory.reminders.snooze(handle_of(one.namespace, key), later)
    assert memory.reminders.complete(handle_of(one.namespace, key))
    assert not memory.reminders.list()


def test_an_unknown_handle_is_said_to_be_unknown(memory: MemoryCoordinator) -> None:
    with pytest.raises(InvalidInputError, match="no memory 'zzzzzz'"):
        memory.truth.retract("zzzzzz", reason="it was a joke")
    assert memory.get("zzzzzz") is None


def test_a_key_that_looks_like_a_handle_is_a_key_first(memory: MemoryCoordinator) -> None:
    one = kept(memory, "Ada is allergic to peanuts", "peanuts")
    kept(memory, "Ada drinks tea", handle(one))
    found = memory.get(handle(one))
    assert found is not None
    assert found.content == "Ada drinks tea"


def test_two_memories_of_one_handle_are_both_named(memory: MemoryCoordinator) -> None:
    namespace = kept(memory, "The first", "first").namespace
    known: dict[str, str] = {}
    pairs = ((known.setdefault(handle_of(namespace, key), key), key) for key in map(str, count()))
    twin, key = next(pair for pair in pairs if pair[0] != pair[1])
    kept(memory, "Tea is green", twin)
    kept(memory, "Coffee is black", key)
    with pytest.raises(InvalidInputError, match="2 memories have the handle") as refused:
        memory.truth.retract(handle_of(namespace, twin), reason="it was a joke")
    assert "Tea is green" in str(refused.value)
    assert "Coffee is black" in str(refused.value)


def test_nobody_names_what_another_user_keeps(
    store: TieredStore, memory: MemoryCoordinator
) -> None:
    one = kept(memory, "Ada is allergic to peanuts", "peanuts")
    ben = MemoryCoordinator(store, context=BEN)
    assert ben.get(handle(one)) is None
    with pytest.raises(InvalidInputError, match="no memory"):
        ben.truth.retract(handle(one), reason="it was a joke")


# Pins


def test_a_pin_is_of_every_session_of_its_user_and_of_nobody_else(
    store: TieredStore, memory: MemoryCoordinator
) -> None:
    one = kept(memory, "Allergic to peanuts", "peanuts")
    assert memory.pin(one.key)
    assert not memory.pin(one.key)
    elsewhere = MemoryCoordinator(store, context=OTHER)
    assert [each.content for each in elsewhere.pinned()] == ["Allergic to peanuts"]
    assert MemoryCoordinator(store, context=BEN).pinned() == []
    assert elsewhere.unpin(one.key)
    assert not elsewhere.unpin(one.key)
    assert memory.pinned() == []


def test_a_pin_does_not_expire_and_expires_again_once_unpinned(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock
) -> None:
    memory.store("Allergic to peanuts", key="peanuts", memory_type="semantic", tier="short_term")
    memory.pin("peanuts")
    clock.now += timedelta(days=365)
    store.sweep_ttl()
    assert [one.content for one in memory.pinned()] == ["Allergic to peanuts"]
    memory.get("peanuts")  # to be read does not let it expire either
    clock.now += timedelta(days=365)
    memory.unpin("peanuts")
    assert memory.get("peanuts") is not None
    clock.now += timedelta(days=365)
    assert memory.get("peanuts") is None


def test_a_context_holds_so_many_tokens_of_pins(memory: MemoryCoordinator) -> None:
    long = " ".join(f"word{number}" for number in range(95))
    first = kept(memory, long, "first", pinned=True)
    taken = memory.count_tokens(long)
    assert taken < PINNED_TOKENS < 2 * taken
    with pytest.raises(InvalidInputError, match="unpin one of these first") as refused:
        memory.store(f"{long} again", memory_type="semantic", key="second", pinned=True)
    assert f"[{handle(first)}]" in str(refused.value)
    assert memory.get("second") is None
    kept(memory, f"{long} again", "second")
    with pytest.raises(InvalidInputError, match="unpin one of these first"):
        memory.pin("second")
    memory.unpin("first")
    assert memory.pin("second")


def test_what_was_taken_back_is_not_pinned(memory: MemoryCoordinator) -> None:
    kept(memory, "Allergic to peanuts", "peanuts", pinned=True)
    memory.truth.retract("peanuts", reason="it was a joke")
    assert memory.pinned() == []
    kept(memory, "Lives in Turin", "turin")
    memory.truth.retract("turin", reason="it was a joke")
    with pytest.raises(InvalidInputError, match="not current"):
        memory.pin("turin")


def test_a_full_place_spares_what_is_pinned(store: TieredStore) -> None:
    memory = MemoryCoordinator(store, context=ACME, gate=GatePolicy(capacity={"semantic": 2}))
    memory.store("Allergic to peanuts", memory_type="semantic", key="p", importance=0, pinned=True)
    for number in range(4):
        memory.store(f"Fact number {number}", memory_type="semantic", importance=0.9)
    assert memory.get("p") is not None
    assert memory.stats().by_type["semantic"] == 3
