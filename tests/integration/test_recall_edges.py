"""Wrong arguments are refused at the door, and any text is a query."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from langmem_tiers import Bounds, InvalidInputError, MemoryCoordinator, TieredStore
from tests.support.coordinating import Many, coordinator, keys, remember_many
from tests.support.opening import Clock, text_index
from tests.support.plans import calls_of

SEEDED = settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
_tenants = (f"edge-{n}" for n in count())


@pytest.fixture(scope="module")
def clock() -> Clock:
    """The time of this module's store."""
    return Clock()


@pytest.fixture(scope="module")
def store(shared_url: str, clock: Clock) -> Iterator[TieredStore]:
    """A store whose tests keep to tenants of their own."""
    with TieredStore(shared_url, index=text_index(), clock=clock) as opened:
        yield opened


@pytest.fixture(scope="module")
def many(store: TieredStore, clock: Clock) -> Many:
    """The memories k0 to k9, recorded one hour apart."""
    return remember_many(store, next(_tenants), clock)


@pytest.fixture(scope="module")
def words_alone(shared_url: str) -> Iterator[MemoryCoordinator]:
    """A coordinator of one memory on a store that has no vectors."""
    bounds = Bounds(query_characters=2_000_000)
    with TieredStore(shared_url, index={}, bounds=bounds) as opened:
        memory = coordinator(opened, next(_tenants))
        memory.store("a kiwi")
        yield memory


def test_a_query_of_a_megabyte_is_answered(words_alone: MemoryCoordinator) -> None:
    for query in (
        "kiwi " * 200_000,
        "x" * 1_000_000,
        "kiwi " + " ".join(f"w{n}" for n in range(150_000)),
        "漢字 kiwi " * 100_000,
        "kiwi" + " " * 1_000_000,
        "'kiwi' | & \\" * 90_000,
    ):
        found = words_alone.get_context(query, cutoff=False)
        assert len(found) == (1 if "kiwi " in query or "'kiwi'" in query else 0)


# Wrong arguments

WRONG: list[dict[str, Any]] = [
    *({"query": query} for query in (None, b"x", "a\0b", "\ud83e")),
    *({"tiers": tiers} for tiers in ("working", 5, ["warm"], [])),
    *({"memory_types": types} for types in (5, "pattern", ["pattrn"])),
    *({"tags": tags} for tags in ("red", [5], ["\0"], ["\ud800"])),
    *({"agent_id": agent} for agent in (5, "\0")),
    *({"project_id": project} for project in ("", 5)),
    *({"session_id": session} for session in ("\0", "s" * 500)),
    *({"limit": limit} for limit in (0.5, True, -1, 1001)),
    *({"max_tokens": budget} for budget in (-1, "10")),
    *({"since": since} for since in (Clock().now.replace(tzinfo=None), "2026-01-01")),
    *({"min_importance": least} for least in (1.1, math.nan)),
    *({"similarity_threshold": threshold} for threshold in (None, 2)),
    *({"filter": matching} for matching in ({"a": {"$in": [1]}}, [1])),
    *({"profile": profile} for profile in ("aurora2", 5)),
    {"deduplicate": "yes"},
    {"cutoff": "no"},
]


def test_what_makes_no_sense_is_refused_before_anything_is_asked(
    many: Many, store: TieredStore
) -> None:
    def ask() -> None:
        for wrong in WRONG:
            for given_ in ({"query": "kiwi", **wrong}, {"query": "", **wrong}):
                with pytest.raises(InvalidInputError):
                    many.memory.get_context(**given_)

    assert calls_of(store, ask) == []


def test_a_profile_that_answers_no_number_is_refused(many: Many) -> None:
    for returned in (math.nan, "high", {"a": None}, 1e300, True, {5: 1.0}):
        profile: Any = partial(lambda told, *_: told, returned)
        with pytest.raises(InvalidInputError, match="profile"):
            many.memory.get_context("kiwi", profile=profile)


HOSTILE = [
    "' | & ! ( ) : * <-> \\", "kiwi'; DROP TABLE memory.memories; --", "%s %(tenant)s {tier} $1",
    "a:*", "<2>", "!!!(((", "'" * 5000, "\\" * 999, "🧠👩🏽‍🚀", "the of and", "e\u0301",
    "\u202eevil", "漢字" * 999, "a\x01b", "kiwi\x01" * 99, "?" * 9999, " kiwi " * 999, "x" * 9999,
]  # fmt: skip


@SEEDED
@given(query=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_any_text_is_a_query(many: Many, query: str) -> None:
    for text in (query, *HOSTILE[:: max(1, len(query))]):
        found = many.memory.get_context(text, limit=100, cutoff=False)
        assert len({one.key for one in found}) == len(found) == 10


def test_what_a_value_holds_in_the_wrong_form_is_left_out(store: TieredStore) -> None:
    tenant = next(_tenants)
    values: list[dict[str, Any]] = [
        {"text": "kiwi"},
        {"text": "kiwi", "tags": "x", "importance": "high", "boost": None},
        {
            "text": "kiwi",
            "importance": 1e300,
            "speaker": 5,
            "occurred_at": "soon",
            "session_id": [],
        },
        {"text": "kiwi", "tags": [1, "x"], "metadata": 5, "memory_type": {}},
    ]
    for n, value in enumerate(values):
        store.put((tenant, "_"), f"{n}", value)
    memory = coordinator(store, tenant)
    found = memory.get_context("kiwi", limit=100, profile="importance")
    assert len(found) == len(values)
    assert {(one.importance, one.boost, one.speaker, one.occurred_at) for one in found} == {
        (None, 1.0, None, None)
    }
    assert keys(memory.get_context("kiwi", tags=["x"])) == ["3"]
    assert keys(memory.get_context("kiwi", min_importance=0.1)) == ["2"]
