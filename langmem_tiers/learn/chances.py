"""What outcomes tell: how likely a rate is, what a memory does to it, and whether it harms."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final, NamedTuple, TypeVar

_NEGLIGIBLE = 1e-18
"""The terms fall faster and faster, so that what is left is no more than a rounding error."""
_HALVINGS = 60
"""So often is 0…1 halved for a quantile: beyond what a float tells apart."""

K = TypeVar("K", bound=Hashable)
ENOUGH: Final = 12
"""Outcomes from which on it counts that a memory seems to harm: our own choice (docs/learning.md
shows what comes of it)."""
_PRIOR: Final = 4
"""Runs that what is usual counts for: our own choice."""
LIKELY_HARM: Final = 0.6
"""The chance of harm from which on a memory seems to harm: our own choice."""
_DOUBTFUL: Final = 0.55
_STEEP: Final = 15
_USUAL_RUNS: Final = 2
_FAILED_WITHOUT: Final = 3
"""By these the share of runs without a memory is found: our own choice, on made-up runs like those
of benchmarks/harm.py. Few lessons that harm are shown at last, and few runs of hard tasks, of which
one in fifty may succeed without help, go without a lesson that helps."""
_MOST_HELD: Final = 0.98
"""The largest share of runs that a memory is held out of by itself: the others may clear it."""


class Interval(NamedTuple):
    """Where a number lies, with the confidence that was asked for."""

    low: float
    high: float


def chance_at_most(successes: int, failures: int, rate: float) -> float:
    """How likely the true rate of success is at most `rate`, over a uniform prior.

    It is exact: the posterior is Beta(successes + 1, failures + 1), and with whole numbers its
    distribution is a tail of the binomial (DLMF 8.17.5), of which the shorter one is summed.
    """
    if rate in {0, 1}:
        return float(rate)
    tries = successes + failures + 1
    if successes + 1 > tries * rate:
        return _tail(successes + 1, tries, rate)
    return 1 - _tail(tries - successes, tries, 1 - rate)


def _tail(least: int, tries: int, rate: float) -> float:
    """P(X >= least) for a binomial X whose mean is below `least`."""
    log_ways = math.lgamma(tries + 1) - math.lgamma(least + 1) - math.lgamma(tries - least + 1)
    term = math.exp(log_ways + least * math.log(rate) + (tries - least) * math.log1p(-rate))
    odds, total = rate / (1 - rate), 0.0
    for hits in range(least, tries + 1):
        total += term
        term *= (tries - hits) / (hits + 1) * odds
        if term <= total * _NEGLIGIBLE:
            break
    return min(total, 1.0)


def beta_interval(successes: int, failures: int, confidence: float) -> Interval:
    """Where the true rate lies, over a uniform prior, with equal chances on both sides."""
    low = _exceeded(successes, failures, (1 - confidence) / 2)
    return Interval(low, 1 - _exceeded(failures, successes, (1 - confidence) / 2))


def _exceeded(successes: int, failures: int, chance: float) -> float:
    """The rate that the true one is at most with this chance."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if chance_at_most(successes, failures, middle) <= chance:
            low = middle
        else:
            high = middle
    return low


class HoldoutCounts(NamedTuple):
    """How the runs ended that were given a memory, and those it was held out of."""

    shown_successes: int
    shown_tries: int
    held_successes: int
    held_tries: int

    @property
    def tries(self) -> int:
        """Runs in all."""
        return self.shown_tries + self.held_tries

    @property
    def comparable(self) -> bool:
        """Whether there is an outcome on both sides."""
        return self.shown_tries > 0 and self.held_tries > 0

    def __str__(self) -> str:
        """Such as `with it 9 of 12 succeeded, without it 1 of 4`."""
        shown = f"with it {self.shown_successes} of {self.shown_tries} succeeded"
        return f"{shown}, without it {self.held_successes} of {self.held_tries}"


def chance_of_harm(counts: HoldoutCounts, usual: float) -> float:
    """Tell how likely runs succeed less with a memory than without it, in 0…1.

    Both rates have Beta posteriors over a prior that is worth `_PRIOR` runs of what is usual of the
    task: a hard one fails with the best lesson. That is the rate of all runs that the memory was
    shown to or held out of, begun with as many of the `usual` rate of whatever runs there are. The
    difference is taken as normal.
    """
    own = _expected(counts.shown_successes + counts.held_successes, counts.tries, usual)
    shown = _posterior(counts.shown_successes, counts.shown_tries, own)
    return _less(shown, _posterior(counts.held_successes, counts.held_tries, own))


def doubted(counts: HoldoutCounts, usual: float) -> float:
    """Return the share of runs that a memory is to be held out of, as far as it seems to harm.

    What was learned came from a failure, so its task is taken for harder than the `usual` one until
    runs without it say otherwise: these begin with three that failed beside two of the usual rate.
    So a lesson of a hard task is held out of a run or two. From a chance of harm of 0.55 on the
    share grows evenly, and what harms is shown less and less while the runs without it tell.
    """
    shown = _posterior(counts.shown_successes, counts.shown_tries, usual, _USUAL_RUNS)
    tries = counts.held_tries + _FAILED_WITHOUT
    harm = _less(shown, _posterior(counts.held_successes, tries, usual, _USUAL_RUNS))
    return min(_MOST_HELD, max(0.0, _STEEP * (harm - _DOUBTFUL)))


def _less(one: NormalDist, other: NormalDist) -> float:
    """Tell how likely one rate is less than another."""
    return NormalDist(one.mean - other.mean, math.hypot(one.stdev, other.stdev)).cdf(0)


def _posterior(successes: int, tries: int, usual: float, prior: float = _PRIOR) -> NormalDist:
    mean = _expected(successes, tries, usual, prior)
    return NormalDist(mean, math.sqrt(mean * (1 - mean) / (tries + prior + 1)))


def _expected(successes: int, tries: int, usual: float, prior: float = _PRIOR) -> float:
    return (successes + prior * usual) / (tries + prior)


@dataclass(frozen=True, slots=True, kw_only=True)
class Uplift:
    """What a memory does to the rate of success: by how much it is higher with it than without.

    `effect` is None while one side has no outcome; the interval then is everything, −1…1.
    """

    effect: float | None
    low: float
    high: float
    counts: HoldoutCounts

    def __str__(self) -> str:
        """The effect, its interval, and how many runs it comes from."""
        effect = "unknown" if self.effect is None else f"{self.effect:+.2f}"
        found = f"{effect} ({self.low:+.2f}…{self.high:+.2f})".replace("-", "−")
        return f"{found}, shown {self.counts.shown_tries}, held out {self.counts.held_tries}"


def difference_interval(counts: HoldoutCounts, confidence: float) -> Interval:
    """Where the difference of two rates lies: shown less held out.

    It is the hybrid of two score intervals, method 10 of R. G. Newcombe, "Interval estimation for
    the difference between independent proportions", Statistics in Medicine 17 (1998) 873–890.
    It keeps its coverage where few were tried or all succeeded, as the textbook's does not.
    """
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    shown = counts.shown_successes / counts.shown_tries
    held = counts.held_successes / counts.held_tries
    of_shown, of_held = _wilson(shown, counts.shown_tries, z), _wilson(held, counts.held_tries, z)
    below = math.hypot(shown - of_shown.low, of_held.high - held)
    above = math.hypot(of_shown.high - shown, held - of_held.low)
    return Interval(max(shown - held - below, -1.0), min(shown - held + above, 1.0))


def _wilson(rate: float, tries: int, z: float) -> Interval:
    """The score interval of one rate; it always holds the rate itself."""
    middle = rate + z * z / (2 * tries)
    reach = z * math.sqrt(rate * (1 - rate) / tries + (z / (2 * tries)) ** 2)
    scale = 1 + z * z / tries
    return Interval(min((middle - reach) / scale, rate), max((middle + reach) / scale, rate))


def uplifts(counts: Mapping[K, HoldoutCounts], confidence: float = 0.95) -> dict[K, Uplift]:
    """The uplift of each memory, with intervals that hold all at once.

    With this confidence *every* interval holds its true effect: each one's is raised by the
    number of memories compared (Bonferroni). Ten intervals of 95 % each would in 40 % of all
    comparisons have one that excludes 0 by chance. So compare what there is a question about
    rather than everything, and do so once, after a number of runs settled beforehand: who looks
    after each run, and stops when one excludes 0, is wrong more often.
    """
    compared = sum(one.comparable for one in counts.values())
    each = 1 - (1 - confidence) / max(compared, 1)
    return {key: _uplift(one, each) for key, one in counts.items()}


def _uplift(counts: HoldoutCounts, confidence: float) -> Uplift:
    if not counts.comparable:
        return Uplift(effect=None, low=-1.0, high=1.0, counts=counts)
    low, high = difference_interval(counts, confidence)
    shown = counts.shown_successes / counts.shown_tries
    held = counts.held_successes / counts.held_tries
    return Uplift(effect=shown - held, low=low, high=high, counts=counts)
