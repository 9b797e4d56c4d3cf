"""What get_context finds, in which order, within which bounds, and what it refuses."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from itertools import count, product
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from langmem_tiers import Bounds, MemoryCoordinator, TieredStore, local_index
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.memory import TIERS, Tier
from langmem_tiers.recall.ranking import PROFILES
from tests.support.coordinating import Many, coordinator, keys, remember_many
from tests.support.opening import Clock, text_index
from tests.support.plans import calls_of

SEEDED = settings(
    max_examples=15,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
_tenants = (f"recalled-{n}" for n in count())


@pytest.fixture(scope="module")
def clock() -> Clock:
    """The time of this module's store."""
    return Clock()


@pytest.fixture(scope="module")
def store(shared_url: str, clock: Clock) -> Iterator[TieredStore]:
    """A store whose tests keep to tenants of their own."""
    with TieredStore(shared_url, index=text_index(), clock=clock) as opened:
        yield opened


@pytest.fixture
def memory(store: TieredStore) -> MemoryCoordinator:
    """A coordinator of a tenant of its own, in a project and a session."""
    return coordinator(store, next(_tenants), project_id="billing", session_id="chat")


# Places

NAMES = ["p", "p.q", "p%2Eq", "%", "pq"]
PLACES = st.tuples(
    st.sampled_from(["", ".x", "%2Ex"]),
    st.none() | st.sampled_from([*NAMES, "_"]),
    st.none() | st.sampled_from([*NAMES, "_"]),
)


def sees(asking: tuple[Any, ...], owner: tuple[Any, ...], tier: Tier) -> bool:
    depth = {Tier.SHORT_TERM: 3, Tier.WORKING: 2, Tier.LONG_TERM: 1}[tier]
    return asking[:depth] == owner[:depth]


@SEEDED
@given(
    stored=st.lists(st.tuples(PLACES, st.sampled_from(TIERS)), min_size=1, max_size=10),
    asking=st.lists(PLACES, min_size=1, max_size=4),
    query=st.sampled_from(["", "kiwi", "what was it?"]),
)
def test_each_asks_its_session_its_project_and_its_tenant_and_no_other(
    store: TieredStore,
    stored: list[tuple[tuple[str, str | None, str | None], Tier]],
    asking: list[tuple[str, str | None, str | None]],
    query: str,
) -> None:
    base = next(_tenants)

    def at(place: tuple[str, str | None, str | None]) -> MemoryCoordinator:
        return coordinator(store, base + place[0], project_id=place[1], session_id=place[2])

    for n, (owner, tier) in enumerate(stored):
        at(owner).store_many([{"content": f"kiwi {n}", "key": f"{n}", "tier": tier}])
    for place in [*asking, *(owner for owner, _ in stored)]:
        found = at(place).get_context(query, limit=1000, cutoff=False)
        expected = {f"{n}" for n, (owner, tier) in enumerate(stored) if sees(place, owner, tier)}
        assert set(keys(found)) == expected
        by_argument = coordinator(store, base + place[0]).get_context(
            query, limit=1000, cutoff=False, project_id=place[1], session_id=place[2]
        )
        assert keys(by_argument) == keys(found)


def test_a_recall_over_three_tiers_is_one_statement(
    memory: MemoryCoordinator, store: TieredStore
) -> None:
    for tier in TIERS:
        memory.store(f"kiwi in {tier}", tier=tier)
    for query, name in (("kiwi", "recall"), ("", "recall_newest")):
        calls = calls_of(store, partial(memory.get_context, query))
        assert [one.name for one in calls] == ["limit_time", name]
        assert {one.tier for one in memory.get_context(query)} == set(TIERS)


# Arguments


@pytest.fixture(scope="module")
def many(store: TieredStore, clock: Clock) -> Many:
    """The memories k0 to k9, recorded one hour apart."""
    return remember_many(store, next(_tenants), clock)


ASKED: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({}, "0123456789"),
    "one tier": ({"tiers": ["working"]}, "02468"),
    "two tiers": ({"tiers": [Tier.LONG_TERM, "short_term"]}, "13579"),
    "types": ({"memory_types": ["semantic", "pattern"]}, "124578"),
    "no type": ({"memory_types": []}, ""),
    "a tag in another spelling": ({"tags": ["RED  fruit"]}, "02468"),
    "a tag as it is stored": ({"tags": ["red-fruit"]}, "02468"),
    "several tags, all of them": ({"tags": ["all", "Green"]}, "13579"),
    "tags that no memory has together": ({"tags": ["green", "red fruit"]}, ""),
    "an agent": ({"agent_id": "coder"}, "01234"),
    "importance": ({"min_importance": 0.7}, "789"),
    "any known importance": ({"min_importance": 0}, "123456789"),
    "a filter": ({"filter": {"metadata": {"n": {"$gte": 4}}}}, "456789"),
    "a filter of the type": ({"filter": {"memory_type": "pattern"}}, "258"),
    "all at once": (
        {
            "tiers": ["working"],
            "memory_types": ["episodic", "pattern"],
            "tags": ["all"],
            "min_importance": 0.2,
            "filter": {"metadata": {"n": {"$lt": 8}}},
        },
        "26",
    ),
}


@pytest.mark.parametrize("query", ["kiwi", "", "nothing alike"])
def test_only_what_was_asked_for_is_found(many: Many, query: str) -> None:
    for options, expected in ASKED.values():
        found = many.memory.get_context(query, limit=100, cutoff=False, **options)
        assert sorted(keys(found)) == [f"k{n}" for n in expected]
        some = many.memory.get_context(query, limit=3, cutoff=False, **options)
        assert keys(some) == keys(found)[:3]


def test_since_goes_by_when_it_happened_else_by_when_it_was_recorded(many: Many) -> None:
    for query in ("kiwi", ""):
        since = many.clock.now - timedelta(hours=3)
        found = many.memory.get_context(query, limit=100, since=since)
        assert sorted(keys(found)) == ["k6", "k7", "k8"]
        earlier = many.memory.get_context(query, limit=100, since=since - timedelta(days=10))
        assert len(earlier) == 10


def test_a_blank_query_gets_the_newest_first_within_any_budget(many: Many) -> None:
    newest = [f"k{n}" for n in reversed(range(10))]
    for query, budget in product(["", " \n\t "], [None, 10_000]):
        assert keys(many.memory.get_context(query, limit=10, max_tokens=budget)) == newest
    assert keys(many.memory.get_context("", limit=3)) == newest[:3]


def test_who_wants_nothing_gets_nothing_and_nothing_is_asked(
    many: Many, store: TieredStore, memory: MemoryCoordinator
) -> None:
    nothing: list[dict[str, Any]] = [{"limit": 0}, {"max_tokens": 0}]
    for query, options in product(("kiwi", ""), nothing):
        calls = calls_of(store, partial(many.memory.get_context, query, **options))
        assert [one.name for one in calls if one.name.startswith("recall")] == []
        assert many.memory.get_context(query, **options) == []
    for query, cutoff in product(("kiwi", "", "the of and"), (True, False, None)):
        assert memory.get_context(query, cutoff=cutoff) == []  # of an empty store


def test_the_cut_off_leaves_a_question_about_the_unknown_without_an_answer(
    memory: MemoryCoordinator,
) -> None:
    memory.store_many(["Ines keeps bees in Lisbon", "The keys rotate on Mondays"])
    unknown = "Where did Zacharias buy his submarine?"
    found = [len(memory.get_context(unknown, cutoff=cutoff)) for cutoff in (True, False, None)]
    assert found == [0, 2, 2]
    assert memory.get_context("Where does Ines keep her bees?", cutoff=True)


def test_a_store_of_words_alone_recalls_by_words(shared_url: str) -> None:
    with TieredStore(shared_url, index={}) as opened:
        memory = coordinator(opened, next(_tenants))
        memory.store_many(["The keys rotate on Mondays", "Lunch is at noon"])
        assert [one.content for one in memory.get_context("rotating key")] == [
            "The keys rotate on Mondays"
        ]
        assert memory.get_context("submarine") == []
        assert len(memory.get_context("")) == 2


# Budget, score and order


@SEEDED
@given(
    contents=st.lists(
        st.text("abc \n漢🧠", min_size=1, max_size=30).filter(str.strip), min_size=1, max_size=8
    ),
    bounds=st.tuples(st.integers(0, 60), st.integers(0, 8)),
    salt=st.integers(0, 99),
    query=st.sampled_from(["abc", "", "a b c"]),
)
def test_a_budget_is_never_exceeded_whatever_the_counter(
    store: TieredStore, contents: list[str], bounds: tuple[int, int], salt: int, query: str
) -> None:
    def count_tokens(text: str) -> int:
        return zlib.crc32(text.encode()) % (salt + 1) if salt % 2 else len(text) // (salt + 1) + 1

    max_tokens, limit = bounds
    memory = coordinator(store, next(_tenants), count_tokens=count_tokens)
    memory.store_many(contents)
    found = memory.get_context(query, limit=limit, max_tokens=max_tokens, cutoff=False)
    assert [one.token_count for one in found] == [count_tokens(one.content) for one in found]
    assert sum(one.token_count for one in found) <= max_tokens
    assert len(found) <= limit


@pytest.mark.parametrize("profile", [*PROFILES, None, lambda *_: {"a": 0.25, "b": -1}])
def test_the_terms_of_each_score_add_up_and_the_best_come_first(many: Many, profile: Any) -> None:
    found = many.memory.get_context("kiwi number 3", limit=100, profile=profile)
    assert len(found) == 10
    for one in found:
        assert math.fsum(one.explanation.values()) == pytest.approx(one.score, abs=1e-12)
        assert 0 <= one.match <= 1
    scores = [one.score for one in found]
    assert scores == sorted(scores, reverse=True)
    again = many.memory.get_context("kiwi number 3", limit=100, profile=profile)
    assert [(one.key, one.score, one.evidence) for one in again] == [
        (one.key, one.score, one.evidence) for one in found
    ]


# Any text, and wrong arguments


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
        "x" * 1_000_000,
        "kiwi " + " ".join(f"w{n}" for n in range(150_000)),
        "漢字 kiwi " * 100_000,
        "'kiwi' | & \\" * 90_000,
    ):
        found = words_alone.get_context(query, cutoff=False)
        assert len(found) == (1 if "kiwi " in query or "'kiwi'" in query else 0)


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


def test_a_question_about_strangers_gets_nothing_and_a_request_what_is_near(
    database_url: str,
) -> None:
    with TieredStore(database_url, index=local_index()) as store:
        store.setup()
        memory = coordinator(store)
        memory.store_many(
            [
                "The user has a peanut allergy",
                "The office closes at six on Fridays",
                "The quarterly report is due on the 15th",
                "The user prefers Python over Java",
                "Their favourite restaurant is Fenix",
                "Bosch complained about late deliveries",
            ]
        )
        assert memory.get_context("Plan a dinner for Peter and Zoltan, mind allergies")
        assert not memory.get_context("Is Zoltan married to Petra?")
        assert memory.get_context("Is somebody allergic to peanuts?")


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
