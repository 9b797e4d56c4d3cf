"""What outcomes tell of a memory: exact posteriors, differences, uplifts, and who is held out."""

from __future__ import annotations

import math
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langmem_tiers.learning.outcome import (
    HoldoutCounts,
    beta_interval,
    chance_at_most,
    difference_interval,
    is_held_out,
    uplifts,
)


def integrated(successes: int, failures: int, rate: float, steps: int = 4000) -> float:
    """P(true rate <= rate) by Simpson's rule over the density, which knows no binomial."""

    def density(at: float) -> float:
        return at**successes * (1 - at) ** failures

    def area(to: float) -> float:
        width = to / steps
        inner = (density(one * width) * (4 if one % 2 else 2) for one in range(1, steps))
        return (density(0.0) + density(to) + math.fsum(inner)) * width / 3

    return area(rate) / area(1.0)


# ---- one rate -------------------------------------------------------------------------------


def test_the_posterior_agrees_with_brute_force() -> None:
    grid = product((0, 1, 7, 40), (0, 1, 9), (0.05, 0.5, 0.8, 0.99))
    for successes, failures, rate in (*grid, (300, 60, 0.8), (60, 300, 0.2)):
        found = chance_at_most(successes, failures, rate)
        assert found == pytest.approx(integrated(successes, failures, rate), abs=1e-9)
    for successes in (0, 1, 5, 13, 17, 400):  # without a failure it is a power
        power = 0.8 ** (successes + 1)
        assert chance_at_most(successes, 0, 0.8) == pytest.approx(power, rel=1e-12)
        assert beta_interval(successes, 0, 0.9).low == pytest.approx(0.05 ** (1 / (successes + 1)))


# ---- two rates ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("counts", "low", "high"),
    [
        ((56, 70, 48, 80), 0.0524, 0.3339),
        ((9, 10, 3, 10), 0.1705, 0.8090),
        ((10, 10, 0, 10), 0.6075, 1.0000),
        ((5, 56, 0, 29), -0.0381, 0.1926),
        ((0, 10, 0, 20), -0.1611, 0.2775),
        ((0, 10, 0, 10), -0.2775, 0.2775),
    ],
)
def test_differences_are_those_that_newcombe_published(
    counts: tuple[int, int, int, int], low: float, high: float
) -> None:
    """Table II of his paper, method 10, at 95 %."""
    found = difference_interval(HoldoutCounts(*counts), 0.95)

    assert (round(found.low, 4), round(found.high, 4)) == (low, high)


@pytest.mark.parametrize(("shown", "held"), [(0.3, 0.3), (0.5, 0.8), (0.8, 0.5), (0.95, 0.8)])
def test_a_difference_is_covered_as_often_as_it_says(shown: float, held: float) -> None:
    """Exactly, over all outcomes of 60 runs with a memory and 15 without."""

    def chance(successes: int, of: int, rate: float) -> float:
        return math.comb(of, successes) * rate**successes * (1 - rate) ** (of - successes)

    covered = math.fsum(
        chance(one, 60, shown) * chance(other, 15, held)
        for one, other in product(range(61), range(16))
        if (found := difference_interval(HoldoutCounts(one, 60, other, 15), 0.95)).low
        <= shown - held
        <= found.high
    )

    assert 0.93 < covered < 0.985


# ---- uplifts --------------------------------------------------------------------------------


@given(memories=st.integers(1, 30), confidence=st.floats(0.5, 0.99))
def test_intervals_hold_all_at_once(memories: int, confidence: float) -> None:
    """What is left to chance is divided by the memories compared."""
    found = uplifts(dict.fromkeys(range(memories), HoldoutCounts(30, 40, 5, 10)), confidence)
    each = 1 - (1 - confidence) / memories

    assert {(one.low, one.high) for one in found.values()} == {
        difference_interval(HoldoutCounts(30, 40, 5, 10), each)
    }


def test_what_was_never_held_out_has_no_effect_and_costs_the_others_nothing() -> None:
    counts = {"never": HoldoutCounts(5, 9, 0, 0), "unseen": HoldoutCounts(0, 0, 1, 2)}
    compared = HoldoutCounts(9, 10, 3, 10)
    found = uplifts({**counts, "both": compared})

    for key in counts:
        assert (found[key].effect, found[key].low, found[key].high) == (None, -1, 1)
    assert str(found["never"]) == "unknown (−1.00…+1.00), shown 9, held out 0"
    assert found["both"] == uplifts({"both": compared})["both"]
    assert uplifts({}) == {}


# ---- who is held out ------------------------------------------------------------------------


@given(run=st.text(), place=st.text(), share=st.floats(0, 1), more=st.floats(0, 1))
def test_holding_out_is_settled_and_grows_with_the_share(
    run: str, place: str, share: float, more: float
) -> None:
    low, high = sorted((share, more))

    assert is_held_out(run, place, share) == is_held_out(run, place, share)
    assert is_held_out(run, place, high) >= is_held_out(run, place, low)
    assert not is_held_out(run, place, 0)
    assert is_held_out(run, place, 1)


def test_the_share_is_kept_over_runs_and_over_memories_the_same_in_every_process() -> None:
    """Were it to change, the runs that are under way would lose their memories, and find others."""
    trials = 5_000
    for share in (0.05, 0.2, 0.5):
        reach = 4 * math.sqrt(share * (1 - share) / trials)
        runs = sum(is_held_out(f"run-{one}", "m", share) for one in range(trials))
        memories = sum(is_held_out("r", f"memory-{one}", share) for one in range(trials))
        assert runs / trials == pytest.approx(share, abs=reach)
        assert memories / trials == pytest.approx(share, abs=reach)
    answers = {
        (run, place): tuple(is_held_out(f"{n}{run}", place, 0.5) for n in range(64))
        for run, place in (("ab", "c"), ("a", "bc"), ("", "abc"), ("abc", ""))
    }
    assert len(set(answers.values())) == 4  # names that run together are told apart
    found = [one for one in range(40) if is_held_out(f"run-{one}", "acme.billing/retry", 0.2)]
    assert found == [7, 10, 11, 20, 22, 23, 33, 35, 38]
