"""Wrong arguments are refused at the door, and any text is a query."""

from __future__ import annotations

import math
from collections.abc import Iterator
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


@pytest.mark.parametrize(
    "query",
    [
        pytest.param("kiwi " * 200_000, id="one word again and again"),
        pytest.param("x" * 1_000_000, id="one letter"),
        pytest.param("kiwi " + " ".join(f"w{n}" for n in range(150_000)), id="different words"),
        pytest.param("漢字 kiwi " * 100_000, id="another script"),
        pytest.param("kiwi" + " " * 1_000_000, id="spaces"),
        pytest.param("'kiwi' | & \\" * 90_000, id="operators"),
    ],
)
def test_a_query_of_a_megabyte_is_answered(words_alone: MemoryCoordinator, query: str) -> None:
    found = words_alone.get_context(query, cutoff=False)
    assert len(found) == (1 if "kiwi " in query or "'kiwi'" in query else 0)


# Wrong arguments

WRONG: dict[str, dict[str, Any]] = {
    "a query of None": {"query": None},
    "a query of bytes": {"query": b"x"},
    "a query with NUL": {"query": "a\0b"},
    "half a character": {"query": "\ud83e"},
    "a tier as text": {"tiers": "working"},
    "tiers of a number": {"tiers": 5},
    "an unknown tier": {"tiers": ["warm"]},
    "no tier": {"tiers": []},
    "types of a number": {"memory_types": 5},
    "types as text": {"memory_types": "pattern"},
    "an unknown type": {"memory_types": ["pattrn"]},
    "tags as text": {"tags": "red"},
    "a tag of a number": {"tags": [5]},
    "a tag with NUL": {"tags": ["\0"]},
    "half a tag": {"tags": ["\ud800"]},
    "an agent of a number": {"agent_id": 5},
    "an agent with NUL": {"agent_id": "\0"},
    "an empty project": {"project_id": ""},
    "a project of a number": {"project_id": 5},
    "a session with NUL": {"session_id": "\0"},
    "an endless session": {"session_id": "s" * 500},
    "a limit of a half": {"limit": 0.5},
    "a limit of True": {"limit": True},
    "a negative limit": {"limit": -1},
    "a limit above 1,000": {"limit": 1001},
    "a negative budget": {"max_tokens": -1},
    "a budget of text": {"max_tokens": "10"},
    "since without a zone": {"since": Clock().now.replace(tzinfo=None)},
    "since as text": {"since": "2026-01-01"},
    "importance above 1": {"min_importance": 1.1},
    "importance of NaN": {"min_importance": math.nan},
    "a threshold of None": {"similarity_threshold": None},
    "a threshold above 1": {"similarity_threshold": 2},
    "an unknown operator": {"filter": {"a": {"$in": [1]}}},
    "a filter that is a list": {"filter": [1]},
    "an unknown profile": {"profile": "aurora2"},
    "a profile of a number": {"profile": 5},
    "deduplicate as text": {"deduplicate": "yes"},
    "a cut-off as text": {"cutoff": "no"},
}


@pytest.mark.parametrize("what", WRONG)
def test_what_makes_no_sense_is_refused_before_anything_is_asked(
    many: Many, store: TieredStore, what: str
) -> None:
    arguments = {"query": "kiwi", **WRONG[what]}

    def ask() -> None:
        for given_ in (arguments, {"query": "", **WRONG[what]}):
            with pytest.raises(InvalidInputError):
                many.memory.get_context(**given_)

    assert calls_of(store, ask) == []


@pytest.mark.parametrize("returned", [math.nan, "high", {"a": None}, 1e300, True, {5: 1.0}])
def test_a_profile_that_answers_no_number_is_refused(many: Many, returned: Any) -> None:
    with pytest.raises(InvalidInputError, match="profile"):
        many.memory.get_context("kiwi", profile=lambda *_: returned)


HOSTILE = [
    "' | & ! ( ) : * <-> \\", "kiwi'; DROP TABLE memory.memories; --", "%s %(tenant)s {tier} $1",
    "a:*", "<2>", "!!!(((", "'" * 5000, "\\" * 999, "🧠👩🏽‍🚀", "the of and", "e\u0301",
    "\u202eevil", "漢字" * 999, "a\x01b", "kiwi\x01" * 99, "?" * 9999, " kiwi " * 999, "x" * 9999,
]  # fmt: skip


@pytest.mark.parametrize("query", HOSTILE, ids=lambda query: query[:12])
def test_any_text_is_a_query(many: Many, query: str) -> None:
    found = many.memory.get_context(query, limit=100, cutoff=False)
    assert len(found) == 10
    assert len({one.key for one in found}) == 10


@SEEDED
@given(query=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_whatever_is_asked_is_answered(many: Many, query: str) -> None:
    assert len(many.memory.get_context(query, limit=100, cutoff=False)) == 10


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
