"""Texts of one batch compete with each other for the room of a place with a capacity."""

from __future__ import annotations

from typing import Any

import pytest

from langmem_tiers import TieredStore
from langmem_tiers.remember.gate import GatePolicy
from tests.support.coordinating import beside, coordinator, keys

POINTS = [
    {"content": f"Gate {n} opens at {n}.", "key": f"gate{n}", "memory_type": "semantic"}
    for n in (1, 2)
]


@pytest.fixture
def memory(store: TieredStore) -> Any:
    return coordinator(store, project_id="p", session_id="s")


def test_a_batch_of_unrated_texts_evicts_nothing_that_is_rated_higher(memory: Any) -> None:
    small = beside(memory, gate=GatePolicy(capacity={"semantic": 2}))
    small.store("The vault's code is 4711.", "semantic", key="vault", importance=1.0)
    first, second = small.store_many(POINTS)
    assert (first.stored, second.stored, second.evicted) == (True, False, ())
    assert second.reason.startswith("full: the place holds 2")
    assert set(keys(memory.get_context("", limit=9))) == {"vault", "gate1"}


def test_an_important_text_takes_the_room_of_one_that_came_in_with_it(memory: Any) -> None:
    small = beside(memory, gate=GatePolicy(capacity={"semantic": 2}))
    small.store("The harbour opens at six.", "semantic", key="old", importance=0.1)
    small.store("The vault's code is 4711.", "semantic", key="vault", importance=1.0)
    alarm = {"content": "The alarm's code is 815.", "key": "alarm", "memory_type": "semantic"}
    first, second = small.store_many([POINTS[0], alarm | {"importance": 0.9}])
    assert (first.stored, "worth least" in first.reason) == (False, True)
    assert (second.stored, second.evicted) == (True, ("old",))
    assert set(keys(memory.get_context("", limit=9))) == {"vault", "alarm"}


def test_what_is_stored_again_in_a_batch_stays(memory: Any) -> None:
    small = beside(memory, gate=GatePolicy(capacity={"semantic": 2}))
    small.store_many(POINTS)
    other = {"content": "The alarm's code is 815.", "memory_type": "semantic", "importance": 1.0}
    again, _, refused = small.store_many([*POINTS, other])
    assert (again.stored, refused.stored) == (True, False)
    assert set(keys(memory.get_context("", limit=9))) == {"gate1", "gate2"}


def test_a_batch_fills_a_tier_as_its_texts_would_one_by_one(memory: Any) -> None:
    policy = GatePolicy(tier_capacity={"working": 3}, capacity={"semantic": 2})
    small = beside(memory, gate=policy)
    rated = (("a", 0.9), ("b", 0.2), ("c", 0.8), ("d", 0.7))
    told = [
        {"content": f"Desk {n} is taken.", "key": n, "memory_type": "semantic", "importance": much}
        for n, much in rated
    ]
    assert [one.stored for one in small.store_many(told)] == [True, False, True, False]
