"""How well a candidate answers a question: the features, the match and the cut-off."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langmem_tiers.recall.matching import (
    FEATURES,
    Candidate,
    ScoredCandidate,
    SearchFacts,
    candidate_features,
    names_time,
    score_candidates,
    weights_for_model,
)
from langmem_tiers.recall.question import Question, read_question
from langmem_tiers.recall.ranking import HELPS, probability_memory_helps

NOW = datetime(2023, 6, 14, 9, tzinfo=UTC)
SCOPE = SearchFacts(memories=400, query_idf=10, known_idf=9, best_cosine=0.5)

_PLAIN = Candidate(
    tenant="acme",
    namespace="billing.",
    key="plain",
    value={},
    created_at=NOW,
    updated_at=NOW,
    tier="working",
    expires_at=None,
    ttl_minutes=None,
    id=1,
    cosine=None,
    around=None,
    own=None,
    window=None,
    before=None,
    words_around=None,
    speaker=None,
    occurred_at=None,
    access_count=0,
    success_count=0,
    failure_count=0,
    last_accessed_at=None,
    strength=0.0,
)


def candidate(content: str = "some words", **facts: Any) -> Candidate:
    return _PLAIN._replace(**{"value": {"content": content}, **facts})


def asked(text: str) -> Question:
    return read_question(text, NOW.date())


def measured(one: Candidate, question: str, scope: SearchFacts = SCOPE) -> dict[str, float]:
    return dict(zip(FEATURES, candidate_features([one], asked(question), scope)[0], strict=True))


def judged(
    *some: Candidate, question: str = "Where is it?", scope: SearchFacts = SCOPE
) -> list[ScoredCandidate]:
    return score_candidates(some, asked(question), scope, weights_for_model("local"))


candidates = st.builds(
    candidate,
    st.sampled_from(["a few words", "When? Yesterday!", "I ran on Monday", "Do you? Really?"]),
    key=st.uuids().map(str),
    cosine=st.none() | st.floats(-1, 1),
    around=st.none() | st.floats(-1, 1),
    own=st.none() | st.floats(0, 30),
    window=st.none() | st.floats(0, 60),
    before=st.none() | st.floats(0, 30),
    words_around=st.none() | st.integers(0, 1000),
    speaker=st.sampled_from([None, "user", "assistant", "Caroline", "Mel"]),
    occurred_at=st.none() | st.datetimes(timezones=st.just(UTC)),
)
questions = st.sampled_from(
    ["Where do I keep my bees?", "When did Caroline run in May?", "What did you suggest?", "bees"]
)


def test_neighbours_count_the_less_the_longer_they_are() -> None:
    short = measured(candidate(window=22.0, before=11.0, words_around=0), "?")
    long = measured(candidate(window=22.0, before=11.0, words_around=100), "?")

    assert [short["window"], short["previous"]] == pytest.approx([1, 0.5])
    assert [long["window"], long["previous"]] == pytest.approx([0.5, 0.25])


def test_neighbours_are_as_near_as_they_are_beside_the_nearest_of_all() -> None:
    assert measured(candidate(around=0.25), "?")["around"] == pytest.approx(0.5)
    assert measured(candidate(), "?")["around"] == 0


@pytest.mark.parametrize(
    ("content", "named", "of_the_day"),
    [
        ("Caroline: I kept bees", True, False),
        ("[8 May 2023] Caroline Mills: I kept bees", True, True),
        ("8 May 2023 - Caroline kept bees", False, True),
        ("https://caroline.example has the bees", False, False),
        ("She kept bees on the roof of our office until 8 May 2023", False, False),
    ],
)
def test_who_said_it_and_when_are_read_off_the_beginning_where_nobody_told(
    content: str, *, named: bool, of_the_day: bool
) -> None:
    one = measured(candidate(content), "What did Caroline keep on 8 May 2023?")
    assert one["named"] == named
    assert one["date"] == of_the_day
    assert one["unspoken"] == 1
    told = measured(candidate(content, speaker="Ben"), "What did Caroline keep?")
    assert (told["named"], told["unspoken"]) == (0, 0)


@pytest.mark.parametrize(
    ("speaker", "talk", "tells"),
    [
        ("user", 0.01, 1),
        ("user", 0.5, 0),
        ("user", 0.99, -1),
        ("assistant", None, 0),
        ("user", None, 1),
        (None, None, 1),
        (None, True, 1),
    ],
)
def test_what_tells_something_is_preferred_to_small_talk(
    speaker: str | None, talk: float | None, tells: float
) -> None:
    value = {"content": "some words"} | ({} if talk is None else {"small_talk": talk})
    assert measured(candidate(value=value, speaker=speaker), "?")["tells"] == pytest.approx(tells)


def test_a_session_is_as_near_as_its_three_nearest_and_what_has_none_as_itself() -> None:
    def said(session: str | None, cosine: float) -> Candidate:
        value = {"content": "words"} | ({"session_id": session} if session else {})
        return candidate(value=value, cosine=cosine)

    some = [*(said("a", one) for one in (0.4, 0.1, 0.5, 0.3)), said(None, 0.2), said(None, 0.5)]
    rows = candidate_features(some, asked("?"), replace(SCOPE, best_cosine=0.5))
    near = [row[FEATURES.index("session")] for row in rows]
    assert near == pytest.approx([0.8, 0.8, 0.8, 0.8, 0.4, 1.0])


def test_a_named_speaker_is_preferred() -> None:
    question = "What does Caroline like?"

    assert measured(candidate(speaker="Caroline Mills"), question)["named"] == 1
    assert measured(candidate(speaker="Mel"), question)["named"] == 0


@pytest.mark.parametrize(
    ("question", "role", "preferred"),
    [
        ("What did you tell me about bees?", "ai", 1),
        ("Where do I keep my bees?", "assistant", 0),
        ("What did you tell me about bees?", "user", 0),
    ],
)
def test_an_assistant_is_preferred_where_it_is_asked_what_it_said(
    question: str,
    role: str,
    preferred: float,
) -> None:
    assert measured(candidate(speaker=role), question)["assistant"] == preferred


def test_words_of_time_are_recognised_but_no_modal_verb_or_plain_number() -> None:
    told = "yesterday|in May|two days, I think|since 2019|on the 3rd!|Sunday's cake"
    assert all(map(names_time, told.split("|")))
    assert not names_time("I may take 12 apples")


def test_a_date_in_the_question_prefers_the_days_after_it() -> None:
    def date(question: str, *day: int) -> float:
        at = datetime(2023, *day, tzinfo=UTC) if day else None  # type: ignore[misc, arg-type]
        return measured(candidate(occurred_at=at), question)["date"]

    on_8_may = "What happened on 8 May 2023?"
    assert date(on_8_may, 5, 8, 23) == pytest.approx(1)
    assert date(on_8_may, 5, 18) == date(on_8_may, 5, 4) == pytest.approx(math.exp(-1))
    assert date(on_8_may) == date("What happened?", 5, 8) == 0
    assert date("And last week?", 6, 7) == 1
    assert date("And last week?", 5, 7) < 0.01


@pytest.mark.slow
@given(
    some=st.lists(candidates, max_size=8),
    near=st.none() | st.floats(-1, 1),
    session=st.sampled_from([{}, {"session_id": "a"}]),
    question=questions,
)
def test_the_match_is_a_chance_and_of_what_is_equally_near_keeps_the_order_of_the_score(
    some: list[Candidate], near: float | None, session: dict[str, str], question: str
) -> None:
    alike = [one._replace(cosine=near, around=near, value={**one.value, **session}) for one in some]
    found = judged(*alike, question=question)
    scores = [math.fsum(one.evidence.values()) for one in found]

    assert all(0 <= one.match <= 1 for one in [*judged(*some, question=question), *found])
    for one, score in zip(found, scores, strict=True):
        for other, less in zip(found, scores, strict=True):
            assert score <= less + 1e-9 or one.match >= other.match


@pytest.mark.slow
@given(some=st.lists(candidates, max_size=8), question=questions)
def test_the_evidence_is_the_features_times_their_weights(
    some: list[Candidate], question: str
) -> None:
    weights = weights_for_model("local").features
    for one in judged(*some, question=question):
        found = measured(one.candidate, question)

        assert one.evidence == {name: weights[name] * found[name] for name in found if found[name]}


def scope_of(*speakers: str, **facts: Any) -> SearchFacts:
    return replace(SCOPE, speakers=speakers, **facts)


def can_answer(question: str, scope: SearchFacts, cosine: float = 0.5) -> bool:
    found = [candidate(cosine=cosine, speaker="user")] * 5
    chance = probability_memory_helps(
        asked(question), found, scope, weights_for_model("local"), needs=0.0, meant=0.0
    )
    return bool(chance >= HELPS)


def test_a_question_can_be_answered_where_its_names_or_words_are_known() -> None:
    paint = "When did Caroline paint?"
    unknown = scope_of("Ida", "Bo", known_idf=2.0)

    assert can_answer(paint, scope_of("Caroline", "Mel"))
    assert can_answer(paint, scope_of("Ida", known_names=frozenset(["caroline"])))
    assert can_answer("Where do I keep my bees?", replace(SCOPE, known_idf=5.0), 0.4)
    assert not can_answer("When did Caroline go to the gallery?", unknown, 0.25)
    assert not can_answer("Where is Caroline?", SearchFacts(query_idf=3.0), 0.0)


@given(known=st.floats(0, 10), cosine=st.floats(0, 1), more=st.floats(0, 0.5), question=questions)
def test_more_known_words_and_nearer_memories_never_make_a_question_unanswerable(
    known: float, cosine: float, more: float, question: str
) -> None:
    less = scope_of("Caroline", known_idf=known)
    better = scope_of("Caroline", known_idf=known + more)

    assert can_answer(question, better, cosine + more) or not can_answer(question, less, cosine)
