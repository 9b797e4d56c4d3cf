"""Runs in which lessons are held out, and who finds the one that helps."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

from benchmarks.streams_worlds import EFFECTS, Family, Share, chance_of_success
from langmem_tiers.learn.evidence import HoldoutCounts, difference_interval, uplifts
from langmem_tiers.learn.outcome import held_out

LESSONS = 10
"""In a hold-out trial; the first helps, the others are noise."""
SHARE = 0.2
CONFIDENCE = 0.95


def trial(seed: int, runs: int = 300, effect: float = EFFECTS[Family.HELPS]) -> list[HoldoutCounts]:
    """The counts of ten lessons that are all recalled in each run; the first has the effect."""
    drawn = random.Random(f"hold-out {seed}")
    counts = [[0, 0, 0, 0] for _ in range(LESSONS)]
    for run in range(runs):
        held = [held_out(f"{seed}-{run}", f"lesson-{one}", SHARE) for one in range(LESSONS)]
        success = drawn.random() < chance_of_success(0.5, () if held[0] else (effect,))
        for one, out in zip(counts, held, strict=True):
            one[2 * out] += success
            one[2 * out + 1] += 1
    return [HoldoutCounts(*one) for one in counts]


class Found(NamedTuple):
    """Over many trials: where only the helping lesson stood out, and where any noise did."""

    exactly: Share
    noise: Share


Method = Callable[[Sequence[HoldoutCounts]], list[bool]]


def simultaneous(counts: Sequence[HoldoutCounts]) -> list[bool]:
    """Whether each lesson's interval excludes zero, all of them taken together."""
    return [one.helps or one.harms for one in uplifts(dict(enumerate(counts)), CONFIDENCE).values()]


def one_by_one(counts: Sequence[HoldoutCounts]) -> list[bool]:
    """The same with an interval of 95 % each, as if there were no others."""
    intervals = [difference_interval(*one, CONFIDENCE) for one in counts]
    return [one.low > 0 or one.high < 0 for one in intervals]


def counter(counts: Sequence[HoldoutCounts]) -> list[bool]:
    """Whatever was shown and succeeded more than half of the time is said to help."""
    return [2 * one.shown_successes > one.shown_tries for one in counts]


METHODS: dict[str, Method] = {
    "uplifts, simultaneous": simultaneous,
    "ten intervals of 95 %": one_by_one,
    "counter: success rate > 0.5": counter,
}


def found(trials: Sequence[Sequence[HoldoutCounts]], method: Method) -> Found:
    answers = [method(one) for one in trials]
    return Found(
        exactly=Share.of(one[0] and not any(one[1:]) for one in answers),
        noise=Share.of(any(one[1:]) for one in answers),
    )


def watched(seed: int) -> bool:
    """Whether noise stands out at any of twelve looks, one after every 25 of 300 runs."""
    return any(any(simultaneous(trial(seed, runs))[1:]) for runs in range(25, 301, 25))
