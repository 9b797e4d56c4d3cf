"""The rules of learning find what helps, on streams of runs whose lessons have known effects.

docs/learning-streams.md says what the streams are. The samples here use the same seeds as the
proofs, and the same bars where a sample can tell.
"""

from __future__ import annotations

from functools import lru_cache

import pytest

from benchmarks.streams import FIRST_WORLD, SEEDS, WORLDS, Results, bars, sheets
from benchmarks.streams_holdout import LESSONS, counter, found, one_by_one, simultaneous, trial
from benchmarks.streams_worlds import (
    ALL,
    CLOSED,
    COUNTER,
    EASY,
    LATEST,
    PROMOTION,
    TURNING,
    WORLD,
    Lesson,
    Stream,
    demoted,
    first_five,
    live,
    promoted,
    ranked_out,
)
from langmem_tiers.learn.evidence import HoldoutCounts

SAMPLE = 8


@lru_cache
def worlds(stream: Stream) -> list[Lesson]:
    return [one for seed in range(SAMPLE) for one in live(stream, FIRST_WORLD + seed)]


@lru_cache
def trials() -> list[list[HoldoutCounts]]:
    return [trial(seed) for seed in range(60)]


def test_a_world_is_always_the_same() -> None:
    assert live(PROMOTION, 7) == live(PROMOTION, 7)
    assert live(PROMOTION, 7) != live(PROMOTION, 8)
    assert trial(3) == trial(3)
    assert len(live(PROMOTION, 7)) == sum(WORLD.values()) == 20


def test_the_sure_profile_promotes_what_helps_and_little_else() -> None:
    beta = promoted(worlds(PROMOTION), "BETA")

    assert beta.precision.value >= 0.95
    assert beta.recall.value >= 0.9
    assert beta.false.value <= 0.01


def test_the_thresholds_and_a_counter_promote_noise() -> None:
    thresholds, counted = (promoted(worlds(PROMOTION), one) for one in ("SPECIFIED", COUNTER))

    assert thresholds.recall.value == counted.recall.value == 1
    assert thresholds.precision.value < 0.8
    assert counted.precision.value < 0.4


def test_where_everything_succeeds_no_success_rate_tells_who_caused_it() -> None:
    assert promoted(worlds(EASY), "BETA").precision.value < 0.6


def test_what_turns_is_demoted_and_what_keeps_helping_is_not() -> None:
    for policy in ("BETA", "SPECIFIED"):
        undone = demoted(worlds(TURNING), policy, LATEST)
        assert undone.turned.value >= 0.95
        assert undone.steady.value <= 0.1  # one of ten to twenty may have a bad spell


def test_a_long_good_past_hides_from_the_thresholds_that_a_lesson_has_turned() -> None:
    assert demoted(worlds(TURNING), "SPECIFIED", ALL).turned.value < 0.7


def test_what_harms_is_out_of_the_first_five_within_ten_outcomes() -> None:
    assert ranked_out(worlds(PROMOTION)).value >= 0.95


def test_what_harms_may_stay_where_the_same_five_are_always_shown() -> None:
    """They share every outcome, so nothing tells them apart: the ranking needs varied company."""
    lessons = [
        one for seed in range(SAMPLE) for one in live(CLOSED, FIRST_WORLD + seed, first_five)
    ]

    assert ranked_out(lessons).value < 0.8


def test_holding_out_finds_the_one_that_helps_and_no_other() -> None:
    only = found(trials(), simultaneous)

    assert only.exactly.value >= 0.9
    assert only.noise.value <= 0.05 + 0.03


def test_intervals_one_by_one_find_effects_where_there_are_none() -> None:
    assert found(trials(), one_by_one).noise.value > 0.2


def test_a_counter_takes_all_that_was_there_for_the_cause() -> None:
    assert found(trials(), counter).exactly.value == 0
    assert all(sum(counter(one)) == LESSONS for one in trials())


@pytest.mark.proof
def test_every_bar_is_met_at_full_size() -> None:
    results = Results.run(range(FIRST_WORLD, FIRST_WORLD + WORLDS), SEEDS)

    assert [one.row for one in bars(results) if not one.passed] == []
    counted = found(results.trials, counter)
    assert counted.exactly.part == 0
    assert counted.noise.part == SEEDS
    assert promoted(results.lessons[PROMOTION.name], "SPECIFIED").precision.value < 0.8


def test_every_table_can_be_printed() -> None:
    results = Results.run(range(FIRST_WORLD, FIRST_WORLD + 1), 2)

    assert [len(one.columns) for one in sheets(results)] == [
        len(row) for one in sheets(results) for row in one.rows[:1]
    ]
