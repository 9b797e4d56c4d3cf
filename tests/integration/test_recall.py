"""What get_context finds, in which order, within which bounds, and what it refuses."""

from __future__ import annotations

import math
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
from langmem_tiers.core.memory import TIERS, Recollection, Tier
from langmem_tiers.recall.ranking import PROFILES
from langmem_tiers.store import flows
from tests.support.coordinating import coordinator, keys
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


NAMES = ["p", "p.q", "p%2Eq", "%", "pq"]
PLACES = st.tuples(
    st.sampled_from(["", ".x", "%2Ex"]),
    st.none() | st.sampled_from([*NAMES, "_"]),
    st.none() | st.sampled_from([*NAMES, "_"]),
)


def sees(asking: tuple[Any, ...], owner: tuple[Any, ...], tier: Tier) -> bool:
    depth = {Tier.SHORT_TERM: 3, Tier.WORKING: 2, Tier.LONG_TERM: 1}[tier]
    return asking[:depth] == owner[:depth]


@pytest.mark.slow
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
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flows, "FLUSH_SECONDS", math.inf)  # who was read before scores higher
        _each_asks_its_own(store, stored, asking, query)


def _each_asks_its_own(
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
        found = at(place).get_context(query, limit=1000, min_match=0)
        expected = {f"{n}" for n, (owner, tier) in enumerate(stored) if sees(place, owner, tier)}
        assert set(keys(found)) == expected
        by_argument = coordinator(store, base + place[0]).get_context(
            query, limit=1000, min_match=0, project_id=place[1], session_id=place[2]
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


@pytest.fixture(scope="module")
def many(store: TieredStore, clock: Clock) -> MemoryCoordinator:
    """The memories k0 to k9, recorded one hour apart; they differ in what can be asked for."""
    memory = coordinator(store, next(_tenants), project_id="billing", session_id="chat")
    for n in range(10):
        clock.advance(hours=1)
        kiwi = {
            "key": f"k{n}",
            "content": f"kiwi number {n} of many",
            "memory_type": ["episodic", "semantic", "pattern"][n % 3],
            "tier": TIERS[n % 2 + 1],
            "tags": [["Red Fruit", "All"], ["green", "ALL"]][n % 2],
            "agent_id": "coder" if n < 5 else None,
            "importance": n / 10 if n else None,
            "occurred_at": clock.now - timedelta(days=9) if n == 9 else None,
            "metadata": {"n": n},
            "entities": [["Dana", "Ben"], ["Ben"], ["Dana"], []][n % 4],
        }
        memory.store_many([kiwi])
    return memory


ASKED: list[tuple[dict[str, Any], str]] = [
    ({}, "0123456789"),
    ({"tiers": ["working"]}, "02468"),
    ({"tiers": [Tier.LONG_TERM, "short_term"]}, "13579"),
    ({"memory_types": ["semantic", "pattern"]}, "124578"),
    ({"memory_types": []}, ""),
    ({"tags": ["RED  fruit"]}, "02468"),  # another spelling
    ({"tags": ["all", "Green"]}, "13579"),  # all of them
    ({"tags": ["green", "red fruit"]}, ""),
    ({"agent_id": "coder"}, "01234"),
    ({"min_importance": 0.7}, "789"),
    ({"min_importance": 0}, "123456789"),  # any that is known
    ({"filter": {"metadata": {"n": {"$gte": 4}}}}, "456789"),
    ({"filter": {"memory_type": "pattern"}}, "258"),
    ({"filter": {"entities": "Dana"}}, "02468"),
    ({"filter": {"entities": {"$contains": "Ben"}}}, "014589"),
    ({"filter": {"entities": {"$contains": ["Ben", "Dana"]}}}, "048"),
    ({"filter": {"entities": ["Dana"]}}, "26"),  # the whole list
    ({"filter": {"entities": {"$eq": "Dana"}}}, ""),
    ({"filter": {"tags": "red-fruit", "entities": "Ben"}}, "048"),
    (
        {
            "tiers": ["working"],
            "memory_types": ["episodic", "pattern"],
            "tags": ["all"],
            "min_importance": 0.2,
            "filter": {"metadata": {"n": {"$lt": 8}}},
        },
        "26",
    ),
]


@pytest.mark.parametrize("query", ["kiwi", "", "nothing alike"])
def test_only_what_was_asked_for_is_found(
    many: MemoryCoordinator, clock: Clock, query: str
) -> None:
    three_hours, ten_days = (
        {"since": clock.now - timedelta(hours=hours)} for hours in (3, 243)
    )  # what happened at another time than it was recorded is k9
    for options, expected in [*ASKED, (three_hours, "678"), (ten_days, "0123456789")]:
        found = many.get_context(query, limit=100, min_match=0, **options)
        assert sorted(keys(found)) == [f"k{n}" for n in expected]
        assert query or keys(found) == sorted(keys(found), reverse=True)  # the newest first
        budget = {"limit": 3, "max_tokens": 10_000, **options}
        assert keys(many.get_context(query, min_match=0, **budget)) == keys(found)[:3]


def test_who_wants_nothing_gets_nothing_and_nothing_is_asked(
    many: MemoryCoordinator, store: TieredStore, memory: MemoryCoordinator
) -> None:
    for query, wanted in product(("kiwi", ""), ("limit", "max_tokens")):
        ask = partial(many.get_context, query, **{wanted: 0})  # type: ignore[arg-type]
        assert ask() == []
        assert not any(one.name.startswith("recall") for one in calls_of(store, ask))
    for query in ("kiwi", "", "the of and"):
        assert memory.get_context(query) == []  # of an empty store


def test_a_budget_of_tokens_is_never_exceeded(store: TieredStore) -> None:
    memory = coordinator(store, next(_tenants), count_tokens=len)
    memory.store_many("kiwi" * n for n in range(1, 9))
    for query, budget, limit in product(("kiwi", ""), (0, 3, 25, 60), (2, 8)):
        found = memory.get_context(query, limit=limit, max_tokens=budget, min_match=0)
        assert [one.token_count for one in found] == [len(one.content) for one in found]
        assert sum(one.token_count for one in found) <= budget
        assert len(found) <= limit
        assert found or budget < 4 or limit < 8  # of all eight, the shortest fits


def unread(one: Recollection) -> dict[str, float]:
    """The terms of a score but for how often it was read."""
    return {name: term for name, term in one.explanation.items() if name != "access"}


@pytest.mark.parametrize("profile", [*PROFILES, None, lambda *_: {"a": 0.25, "b": -1}])
def test_the_terms_of_each_score_add_up_and_the_best_come_first(
    many: MemoryCoordinator, profile: Any
) -> None:
    ask = partial(many.get_context, "kiwi number 3", limit=100, min_match=0, profile=profile)
    found = ask()
    assert len(found) == 10
    for one in found:
        assert math.fsum(one.explanation.values()) == pytest.approx(one.score, abs=1e-12)
        assert 0 <= one.match <= 1
    scores = [one.score for one in found]
    assert scores == sorted(scores, reverse=True)
    # Whether the first has counted as an access by then is a matter of time.
    assert [(one.key, unread(one), one.evidence) for one in ask()] == [
        (one.key, unread(one), one.evidence) for one in found
    ]


def test_words_alone_are_recalled_by_words_and_a_query_of_a_megabyte_is_answered(
    shared_url: str,
) -> None:
    bounds = Bounds(query_characters=2_000_000)
    with TieredStore(shared_url, index={}, bounds=bounds) as opened:
        memory = coordinator(opened, next(_tenants))
        memory.store_many(["The keys rotate on Mondays", "Lunch is at noon"])
        for query, found in (
            ("rotating key", 1),
            ("submarine", 0),
            ("", 2),
            ("x" * 1_000_000, 0),
            ("key " + " ".join(f"w{n}" for n in range(150_000)), 1),
            ("'key' | & \\" * 90_000, 1),
        ):
            assert len(memory.get_context(query, min_match=0)) == found


@pytest.mark.parametrize("index", [None, False], ids=["indexed", "not indexed"])
def test_a_question_that_stands_in_a_talk_is_no_answer_though_it_was_not_indexed(
    shared_url: str, index: Any
) -> None:
    with TieredStore(shared_url, index=text_index()) as opened:
        memory = coordinator(opened, next(_tenants))
        said = {"session_id": "s", "memory_type": "episodic"}
        for turn, (speaker, text) in enumerate(
            [
                ("Ann", "The zebra is in the cellar"),
                ("Ben", "Where did the zebra go?"),
                ("Ann", "The zebra went to the cellar"),
            ]
        ):
            value = {**said, "text": text, "speaker": speaker, "turn": turn}
            place = memory.context.namespace(Tier.WORKING)
            opened.put(place, f"k{turn}", value, index if turn == 1 else None)
        found = memory.get_context("Where did the zebra go?", min_match=0)
        assert {one.key for one in found} == {"k0", "k2"}


WRONG: list[dict[str, Any]] = [
    *({"query": query} for query in (None, b"x", "a\0b", "\ud83e")),
    *({"tiers": tiers} for tiers in ("working", 5, ["warm"], [])),
    *({"memory_types": types} for types in (5, "pattern", ["pattrn"])),
    *({"tags": tags} for tags in ("red", [5], ["\0"])),
    *({"agent_id": agent} for agent in (5, "\0")),
    *({"project_id": project} for project in ("", 5)),
    {"session_id": "s" * 500},
    *({"limit": limit} for limit in (0.5, True, -1, 1001)),
    *({"max_tokens": budget} for budget in (-1, "10")),
    *({"since": since} for since in (Clock().now.replace(tzinfo=None), "2026-01-01")),
    *({"min_importance": least} for least in (1.1, math.nan)),
    *({"similarity_threshold": threshold} for threshold in (None, -0.1, 1.01, math.nan)),
    *({"filter": matching} for matching in ({"a": {"$in": [1]}}, [1])),
    *({"profile": profile} for profile in ("aurora2", 5)),
    {"deduplicate": "yes"},
    {"min_match": "no"},
    {"min_match": (0.1, 0.2, 0.3)},
    {"min_match": 2},
    {"exclude": "key"},
]


def test_what_makes_no_sense_is_refused_before_anything_is_asked(
    many: MemoryCoordinator, store: TieredStore
) -> None:
    def ask() -> None:
        for wrong in WRONG:
            for given_ in ({"query": "kiwi", **wrong}, {"query": "", **wrong}):
                with pytest.raises(InvalidInputError):
                    many.get_context(**given_)

    assert calls_of(store, ask) == []


HOSTILE = [
    "' | & ! ( ) : * <-> \\", "kiwi'; DROP TABLE memory.memories; --", "%s %(tenant)s {tier} $1",
    "<2>", "'" * 5000, "\\" * 999, "🧠👩🏽‍🚀", "the of and", "\u202eevil", "漢字" * 999, "a\x01b",
    " kiwi " * 999,
]  # fmt: skip


@SEEDED
@given(query=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_any_text_is_a_query(many: MemoryCoordinator, query: str) -> None:
    for text in (query, *HOSTILE[:: max(1, len(query))]):
        found = many.get_context(text, limit=100, min_match=0)
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
        unknown = "Is Zoltan married to Petra?"
        assert not memory.get_context(unknown, min_match=0.01)
        assert not memory.get_context(unknown)
        assert len(memory.get_context(unknown, min_match=0)) == 6
        assert memory.get_context("Is somebody allergic to peanuts?", min_match=0.01)


def test_a_question_in_one_language_finds_what_was_said_in_another(database_url: str) -> None:
    answers = {
        "Wie heißt mein Haustier?": "Mein Hund heißt Bello.",
        "What is my pet's name?": "Mein Hund heißt Bello.",
        "¿A qué tengo alergia?": "The user has a peanut allergy.",
        "Où est-ce que j'habite ?": "Mieszkam w Krakowie od trzech lat.",
        "我什么时候吃午饭？": "The user has lunch at half past twelve.",  # noqa: RUF001
    }
    with TieredStore(database_url, index=local_index("multilingual")) as store:
        store.setup()
        memory = coordinator(store)
        others = ["Ma sœur travaille dans une banque.", "The office closes at six on Fridays."]
        memory.store_many([*dict.fromkeys(answers.values()), *others])
        found = {one: memory.get_context(one)[0].content for one in answers}
    assert found == answers


def test_minilm_finds_what_was_said_in_other_words_and_refuses_what_nothing_answers(
    database_url: str,
) -> None:
    said = [
        "My back has been killing me since the move.",
        "The quarterly numbers are due on Friday.",
        "Zoltan flew to Lisbon with his two boys.",
        "We repainted the kitchen in pale green.",
        "Peter cannot stand anything with gluten in it.",
    ]
    with TieredStore(database_url, index=local_index("minilm")) as store:
        store.setup()
        memory = coordinator(store)
        memory.store_many(said)
        (pain,) = memory.get_context("Does any part of the body hurt?", limit=1)
        (diet,) = memory.get_context("Which guest needs a special meal?", limit=1)
        assert (pain.content, diet.content) == (said[0], said[4])
        for unknown in ("When was Ottokar born?", "What is the password of the router?"):
            assert memory.get_context(unknown) == []
            assert len(memory.get_context(unknown, min_match=0)) == len(said)


def test_what_a_value_holds_in_the_wrong_form_is_left_out(store: TieredStore) -> None:
    tenant = next(_tenants)
    values: list[dict[str, Any]] = [
        {"tags": "x", "importance": "high", "boost": None},
        {"importance": 1e300, "speaker": 5, "occurred_at": "soon", "session_id": []},
        {"tags": [1, "x"], "metadata": 5, "memory_type": {}},
    ]
    for n, value in enumerate(values):
        store.put((tenant, "_"), f"{n}", {"text": "kiwi", **value})
    memory = coordinator(store, tenant)
    found = memory.get_context("kiwi", profile="importance")
    assert len(found) == len(values)
    assert {(one.importance, one.boost, one.speaker, one.occurred_at) for one in found} == {
        (None, 1.0, None, None)
    }
    assert keys(memory.get_context("kiwi", tags=["x"])) == ["2"]
    assert keys(memory.get_context("kiwi", min_importance=0.1)) == ["1"]


def test_what_is_excluded_takes_no_place_and_a_floor_leaves_out_what_matches_less(
    many: MemoryCoordinator,
) -> None:
    query = "kiwi"
    every = many.get_context(query, limit=5, min_match=0)
    first, second, *_ = every

    assert (
        keys(many.get_context(query, limit=4, min_match=0, exclude=[first.key])) == keys(every)[1:]
    )
    assert min(one.match for one in many.get_context(query, min_match=second.match)) >= second.match
    least = first.match * 0.99
    assert all(one.match >= least for one in many.get_context(query, min_match=(0, 0.99)))


def test_small_talk_takes_no_place_where_there_is_a_floor(store: TieredStore) -> None:
    memory = coordinator(store, next(_tenants))
    memory.store("Thanks, you are the best!", speaker="user", key="talk")
    memory.store("The best bakery is in Mill Lane", speaker="user", key="fact")

    asked = "Which bakery did I say is the best?"
    assert set(keys(memory.get_context(asked, min_match=0))) == {"talk", "fact"}
    assert keys(memory.get_context(asked, min_match=0.001)) == ["fact"]
