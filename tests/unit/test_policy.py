"""Promotion and demotion: the specified thresholds, the stricter profile, and their reasons."""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langmem_tiers.core.errors import ConfigurationError
from langmem_tiers.learning.promotion_policy import (
    BETA,
    SPECIFIED,
    Criterion,
    PromotionCandidate,
    PromotionPolicy,
    decide,
    should_demote,
)

NOW = datetime(2026, 3, 1, tzinfo=UTC)
COUNTS = st.integers(0, 80)


NOTHING: dict[str, Any] = dict.fromkeys(PromotionCandidate._fields)


def seen(
    successes: int, failures: int, *, accesses: int = 20, days: float = 30, projects: int = 3
) -> PromotionCandidate:
    known = {
        "value": {},
        "outcomes": successes + failures,
        "access_count": accesses,
        "success_count": successes,
        "failure_count": failures,
        "projects": [f"p{one}" for one in range(projects)],
        "created_at": NOW - timedelta(days=days),
    }
    return PromotionCandidate(**{**NOTHING, **known})


def promoted(candidate: PromotionCandidate, policy: PromotionPolicy = SPECIFIED) -> bool:
    return decide(candidate, policy, NOW).promote


def ever(rate: float, looks: int, stops: Callable[[int, int], bool]) -> float:
    """How likely a rule is met at any of so many looks, one after each outcome; exact.

    `stops` is told the successes and failures so far.
    """
    going, met = {0: 1.0}, 0.0
    for tries in range(1, looks + 1):
        after = dict.fromkeys(range(tries + 1), 0.0)
        for successes, chance in going.items():
            after[successes + 1] += chance * rate
            after[successes] += chance * (1 - rate)
        going = {one: chance for one, chance in after.items() if not stops(one, tries - one)}
        met += math.fsum(chance for one, chance in after.items() if one not in going)
    return met


def promotes(policy: PromotionPolicy) -> Callable[[int, int], bool]:
    """A policy's promotion by outcomes alone: old enough, in many projects."""
    return lambda successes, failures: promoted(
        seen(successes, failures, accesses=successes + failures), policy
    )


# ---- as specified ---------------------------------------------------------------------------


def test_accesses_success_and_age_must_be_exceeded_and_projects_reached() -> None:
    for below, above in (
        (seen(9, 1, accesses=5), seen(9, 1, accesses=6)),
        (seen(8, 2), seen(81, 19)),
        (seen(9, 1, days=7), seen(9, 1, days=7.001)),
        (seen(9, 1, projects=1), seen(9, 1, projects=2)),
    ):
        assert not promoted(below)
        assert promoted(above)


def test_a_decision_gives_its_reasons() -> None:
    decision = decide(seen(3, 1, accesses=7, days=9, projects=2), SPECIFIED, NOW)

    assert str(decision) == (
        "accesses 7 > 5 yes; success 0.75 > 0.80 no; age 9.00 > 7 days yes; projects 2 >= 2 yes"
    )
    assert [one.name for one in decision.reasons if not one.met] == ["success"]
    assert decision.verdict == "stay"


# ---- the stricter profile -------------------------------------------------------------------


def test_thirteen_of_thirteen_are_the_fewest_that_prove_a_rate() -> None:
    surer = replace(BETA, confidence=0.98)

    assert next(one for one in range(30) if promoted(seen(one, 0), BETA)) == 13
    assert next(one for one in range(30) if promoted(seen(one, 0), surer)) == 17
    assert promoted(seen(1, 0))


def test_of_what_is_sure_five_in_a_hundred_at_most_are_not_worth_it_however_often_one_looks() -> (
    None
):
    """For rates spread evenly over 0…1, exactly, looked at after each of 60 outcomes."""
    stops = lru_cache(maxsize=None)(promotes(BETA))
    chances = {rate: ever(rate, 60, stops) for one in range(100) if (rate := (one + 0.5) / 100)}
    wrong = math.fsum(chance for rate, chance in chances.items() if rate <= 0.8)

    assert 0.03 < wrong / math.fsum(chances.values()) <= 0.05


@pytest.mark.parametrize(
    ("confidence", "rate", "chance"),
    [
        (0.95, 0.75, 0.051),
        (0.95, 0.8, 0.184),
        (0.98, 0.8, 0.081),
    ],
)
def test_looking_after_each_outcome_promotes_by_chance_as_often_as_documented(
    confidence: float, rate: float, chance: float
) -> None:
    stops = lru_cache(maxsize=None)(promotes(replace(BETA, confidence=confidence)))

    assert ever(rate, 100, stops) == pytest.approx(chance, abs=5e-4)


# ---- demotion -------------------------------------------------------------------------------


def test_a_memory_is_demoted_when_its_outcomes_turn() -> None:
    decision = should_demote(4, 8, SPECIFIED)

    assert decision.demote
    assert not decision.promote
    assert str(decision) == "outcomes 12 >= 10 yes; success 0.33 <= 0.50 yes"
    assert str(should_demote(9, 6, BETA)) == (
        "outcomes 15 >= 10 yes; chance of success at most 0.80 0.97 >= 0.99 no"
    )


@given(
    policy=st.builds(
        PromotionPolicy,
        rule=st.sampled_from(["thresholds", "beta"]),
        min_access_count=st.just(0),
        min_success_rate=st.floats(0, 1),
        confidence=st.floats(0.501, 0.999),
        demote_confidence=st.floats(0.501, 0.999),
        demote_below=st.floats(0, 1),
        demote_after=st.integers(1, 10),
    ),
    successes=COUNTS,
    failures=COUNTS,
)
def test_no_evidence_both_promotes_and_demotes(
    policy: PromotionPolicy, successes: int, failures: int
) -> None:
    promotes = promoted(seen(successes, failures), policy)

    assert not (promotes and should_demote(successes, failures, policy).demote)


@pytest.mark.parametrize(
    ("policy", "rate", "chance"),
    [(SPECIFIED, 0.9, 0.002), (BETA, 0.85, 0.018)],
)
def test_a_good_memory_has_as_few_bad_spells_as_documented(
    policy: PromotionPolicy, rate: float, chance: float
) -> None:
    """Of 3,000 drawn, looked at after each of 100 outcomes; within four standard errors."""
    drawn = random.Random(f"demoted {rate}")  # noqa: S311 - seeded, not secret
    turned = lru_cache(maxsize=None)(lambda good, bad: should_demote(good, bad, policy).demote)

    def undone() -> bool:
        latest: deque[bool] = deque(maxlen=policy.demote_within)
        for _ in range(100):
            latest.append(drawn.random() < rate)
            if turned(sum(latest), len(latest) - sum(latest)):
                return True
        return False

    reach = 4 * math.sqrt(chance * (1 - chance) / 3000)
    assert sum(undone() for _ in range(3000)) / 3000 == pytest.approx(chance, abs=reach)


# ---- what a policy may be -------------------------------------------------------------------


def test_a_value_that_cannot_work_is_refused_by_its_name() -> None:
    wrong: dict[str, list[Any]] = {
        "rule": ["guess", None],
        "confidence": [0.5, 1, "0.9", math.nan],
        "demote_confidence": [95],
        "demote_below": [-0.1, True],
        "demote_after": [0, 2.5, True],
        "demote_within": [9],
        "near_duplicate": [0],
        "memory_types": ["semantic", (1,)],
        "min_success_rate": [1.1],
        "min_access_count": [-1],
        "min_projects": [0],
        "min_age_days": [-1],
    }
    for name, value in ((name, value) for name, several in wrong.items() for value in several):
        with pytest.raises(ConfigurationError, match=f"^{name} is "):
            PromotionPolicy(**{name: value})


def test_a_value_next_to_its_threshold_is_shown_with_the_digits_that_tell_them_apart() -> None:
    assert str(Criterion("success", 0.8004, ">", 0.8)) == "success 0.8004 > 0.8000 yes"
    assert str(Criterion("success", 0.8, ">", 0.8)) == "success 0.80 > 0.80 no"
    assert str(Criterion("age", 7 + 1e-12, ">", 7, " days")) == "age 7.000000000 > 7 days yes"
