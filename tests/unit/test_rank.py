"""Ranking: what each profile makes of a memory, and that every score explains itself."""

from __future__ import annotations

import math
from datetime import timedelta
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.memory import Recollection
from langmem_tiers.recall.ranking import (
    CREDIT,
    PROFILES,
    Profile,
    RankingQuery,
    rank,
    time_weighted,
)
from tests.support.recollections import NOW, recollection

ASKED = RankingQuery(NOW, project_id="billing", query="how are cards declined?")
UNIT = st.floats(0, 1)


@st.composite
def memories(draw: st.DrawFn) -> list[Recollection]:
    keys = draw(st.lists(st.sampled_from("abcdefgh"), unique=True, max_size=8))
    return [
        recollection(
            key,
            memory_type=draw(st.sampled_from(["fact", "reflexion"])),
            match=draw(UNIT),
            boost=draw(st.sampled_from([1.0, 1.5])),
            importance=draw(st.none() | UNIT),
            created_at=NOW - timedelta(hours=draw(st.integers(-100, 2000))),
            access_count=draw(st.integers(0, 20)),
            success_count=draw(st.integers(0, 5)),
            failure_count=draw(st.integers(0, 5)),
            project_id=draw(st.sampled_from([None, "billing", "shop"])),
        )
        for key in keys
    ]


def only(profile: str | Profile, asked: RankingQuery = ASKED, **facts: Any) -> Recollection:
    (ranked,) = rank([recollection("a", **facts)], profile, asked)
    return ranked


def keys(ranked: list[Recollection]) -> str:
    return "".join(one.key for one in ranked)


@pytest.mark.parametrize("name", PROFILES)
@settings(derandomize=True, max_examples=20)
@given(some=memories(), rng=st.randoms(use_true_random=False), limit=st.integers(0, 9))
def test_in_every_profile_terms_sum_to_the_score_and_the_inputs_order_does_not_matter(
    name: str, some: list[Recollection], rng: Any, limit: int
) -> None:
    ranked = rank(some, name, ASKED)
    assert all(one.score == math.fsum(one.explanation.values()) for one in ranked)
    by_score = sorted(ranked, key=lambda one: (-one.score, -one.match, one.namespace, one.key))
    assert ranked == by_score
    assert sorted(keys(ranked)) == sorted(keys(some))
    assert rank(some, name, ASKED, limit) == ranked[:limit]
    rng.shuffle(some)
    assert rank(some, name, ASKED) == ranked


def test_calibrated_lets_the_small_terms_decide_between_near_equals_only() -> None:
    old: dict[str, Any] = {"created_at": NOW - timedelta(days=365)}
    fresh: dict[str, Any] = {"access_count": 10, "project_id": "billing"}
    near = [recollection("o", match=0.60, **old), recollection("f", match=0.58, **fresh)]
    far = [recollection("o", match=0.70, **old), recollection("f", match=0.58, **fresh)]
    assert keys(rank(near, "calibrated", ASKED)) == "fo"
    assert keys(rank(far, "calibrated", ASKED)) == "of"
    assert keys(rank(far, "aurora", ASKED)) == "fo"


def test_calibrated_lets_outcomes_decide_between_near_equals_and_aurora_knows_none() -> None:
    bad: dict[str, Any] = {"success_count": 0, "failure_count": 30}
    good: dict[str, Any] = {"success_count": 30, "failure_count": 0}
    near = [recollection("b", match=0.60, **bad), recollection("g", match=0.59, **good)]
    far = [recollection("b", match=0.70, **bad), recollection("g", match=0.59, **good)]
    ranked = rank(near, "calibrated", ASKED)
    assert keys(ranked) == "gb"
    terms = [one.explanation["success"] for one in ranked]
    assert CREDIT > terms[0] > 0 > terms[1] > -CREDIT
    assert keys(rank(far, "calibrated", ASKED)) == "bg"
    assert keys(rank(near, "aurora", ASKED)) == "bg"
    untried = rank([recollection("u", match=0.6)], "calibrated", ASKED)
    assert "success" not in untried[0].explanation


@pytest.mark.parametrize(
    ("profile", "facts", "score"),
    [
        ("match", {"match": 0.4, "boost": 1.5}, 0.4),
        ("importance", {"match": 0.5, "importance": 1.0}, 0.65),
        ("importance", {"match": 0.5}, 0.5),
        ("time", {"match": 0.5, "created_at": NOW - timedelta(days=10)}, 0.35 + 0.3 / 2),
        ("success", {"match": 0.5, "success_count": 3, "failure_count": 1}, 0.35 + 0.3 * 4 / 6),
        ("success", {"match": 0.5}, 0.5),
        (time_weighted(1.0), {"match": 0.0}, 1.0),
        (lambda memory, _: len(memory.tags), {"tags": ("x", "y")}, 2.0),
        (lambda _, asked: {"x": 0.25, "q": float(len(asked.query))}, {}, 0.25 + len(ASKED.query)),
    ],
)
def test_the_other_profiles_worked_by_hand(
    profile: str | Profile, facts: dict[str, Any], score: float
) -> None:
    assert only(profile, **facts).score == pytest.approx(score)


def test_project_balanced_alternates_the_sides_among_near_equals_only() -> None:
    own = [recollection(key, match=0.8, project_id="billing") for key in "abc"]
    others = [recollection("x", match=0.79), recollection("y", match=0.79, project_id="shop")]
    irrelevant = recollection("z", match=0.1)
    ranked = rank([*own, *others, irrelevant], "project_balanced", ASKED)
    assert keys(ranked) == "axbycz"
    assert [one.explanation["balance"] for one in ranked] == pytest.approx(
        [0, 0, -0.05, -0.05, -0.1, -0.1]
    )
    unasked = rank([*own, *others], "project_balanced", RankingQuery(NOW))
    assert keys(unasked) == "abcxy"


@pytest.mark.parametrize(
    ("profile", "told"),
    [
        *(
            (lambda *_, found=found: found, "returned .* for memory 'a': return")
            for found in (math.nan, 10**400, Fraction(10**400), True, None, "0.5", {"x": math.nan})
        ),
        (lambda *_: {1: 1.0}, "name terms by text"),
        (7, "a name or a function, not int"),
        ("arora", r"'arora'. Did you mean 'aurora'\?"),
    ],
)
def test_a_profile_is_a_known_name_or_a_function_of_named_terms_or_a_number(
    profile: Any, told: str
) -> None:
    with pytest.raises(InvalidInputError, match=told):
        only(profile)
    with pytest.raises(InvalidInputError, match=r"recency_weight is .*0…1"):
        time_weighted(math.nan)


def test_a_line_says_what_a_score_is_made_of() -> None:
    text = "Retry\nwith \x1b[31mbackoff"
    assert str(only("aurora", content=text, match=0.5, project_id="shop")) == (
        "Retry with \N{REPLACEMENT CHARACTER}[31mbackoff "
        "(working fact a, score 0.40 = 0.20 match + 0.20 recency)"
    )
    docked = recollection("k", score=-0.05, explanation={"balance": -0.05})
    assert str(docked) == "memory k (working fact k, score −0.05 = − 0.05 balance)"
    assert "…" in str(recollection("k", "long " * 100))


def test_aurora_is_the_specified_formula() -> None:
    recorded = NOW - timedelta(days=15, hours=23)
    ranked = only("aurora", match=0.5, created_at=recorded, access_count=4, project_id="billing")
    assert ranked.explanation == pytest.approx(
        {"match": 0.2, "recency": 0.1, "access": 0.06, "project": 0.15}
    )
    assert ranked.score == pytest.approx(0.51)
    later = only("aurora", created_at=NOW + timedelta(days=400))
    assert later.explanation["recency"] == 0.2
    for project, asked in (("shop", ASKED), (None, ASKED), ("billing", RankingQuery(NOW))):
        assert "project" not in only("aurora", asked, project_id=project).explanation
    lesson = only("aurora", memory_type="reflexion", match=0.8, boost=1.5)
    assert lesson.explanation == pytest.approx(
        {"match": 0.32, "boost": 0.08, "recency": 0.2, "access": 0, "reflexion": 0.2 * (0.4 + 0.2)}
    )
