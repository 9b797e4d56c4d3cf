"""What is known of a memory's worth: its outcomes, and how sure they make us.

A success rate is observed, an uplift is caused: only runs that a memory was held out of tell how
they would have ended without it.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from datetime import datetime
from statistics import NormalDist
from typing import NamedTuple, TypeVar

from langmem_tiers.core.errors import InvalidInputError

K = TypeVar("K", bound=Hashable)


class Interval(NamedTuple):
    """Where a number lies, with the confidence that was asked for."""

    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What a memory's life has shown so far.

    `projects` are the ids of those it was used in; `recorded_at` is UTC. Accesses are counted by
    the store and may lag behind the outcomes.

    Raises:
        InvalidInputError: for a negative count, or a time without a zone.
    """

    access_count: int
    success_count: int
    failure_count: int
    projects: frozenset[str]
    recorded_at: datetime

    def __post_init__(self) -> None:
        """Refuse what cannot have been counted."""
        for name in ("access_count", "success_count", "failure_count"):
            if getattr(self, name) < 0:
                raise InvalidInputError(f"{name} is {getattr(self, name)}: counts begin at 0")
        if self.recorded_at.tzinfo is None:
            raise InvalidInputError("recorded_at has no time zone: give it in UTC")

    @property
    def tries(self) -> int:
        """Runs with an outcome."""
        return self.success_count + self.failure_count

    @property
    def success_rate(self) -> float | None:
        """The share of its runs that succeeded; None if it was never tried."""
        return self.success_count / self.tries if self.tries else None


def chance_at_most(successes: int, failures: int, rate: float) -> float:
    """How likely the true rate of success is at most `rate`, over a uniform prior.

    It is exact: the posterior is Beta(successes + 1, failures + 1), and with whole numbers its
    distribution is a tail of the binomial (DLMF 8.17.5), of which the shorter one is summed.

    Raises:
        InvalidInputError: for a negative count, or a rate outside 0…1.
    """
    if min(successes, failures) < 0 or not 0 <= rate <= 1:
        raise InvalidInputError(
            f"{successes} successes, {failures} failures and a rate of {rate}: "
            "counts begin at 0, and a rate is in 0…1"
        )
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


_NEGLIGIBLE = 1e-18
"""The terms fall faster and faster, so that what is left is no more than a rounding error."""
_HALVINGS = 60
"""So often is 0…1 halved for a quantile: beyond what a float tells apart."""


def beta_lower(successes: int, failures: int, confidence: float) -> float:
    """The rate which the true one exceeds with this confidence, over a uniform prior.

    Raises:
        InvalidInputError: for a negative count, or a confidence that is not between 0 and 1.
    """
    check_confidence(confidence)
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if chance_at_most(successes, failures, middle) <= 1 - confidence:
            low = middle
        else:
            high = middle
    return low


def beta_interval(successes: int, failures: int, confidence: float) -> Interval:
    """Where the true rate lies, over a uniform prior, with equal chances on both sides.

    Raises:
        InvalidInputError: for a negative count, or a confidence that is not between 0 and 1.
    """
    check_confidence(confidence)
    one_sided = (1 + confidence) / 2
    return Interval(
        beta_lower(successes, failures, one_sided), 1 - beta_lower(failures, successes, one_sided)
    )


def check_confidence(confidence: float) -> None:
    """Refuse what is not between 0 and 1."""
    if not 0 < confidence < 1:
        raise InvalidInputError(f"confidence is {confidence}: give one such as 0.95")


def difference_interval(
    shown_successes: int, shown_tries: int, held_successes: int, held_tries: int, confidence: float
) -> Interval:
    """Where the difference of two rates lies: shown less held out.

    It is the hybrid of two score intervals, method 10 of R. G. Newcombe, "Interval estimation for
    the difference between independent proportions", Statistics in Medicine 17 (1998) 873–890.
    It keeps its coverage where few were tried or all succeeded, as the textbook's does not.

    Raises:
        InvalidInputError: if a side was never tried, for more successes than tries, or for a
            confidence that is not between 0 and 1.
    """
    check_confidence(confidence)
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    shown, held = _rate(shown_successes, shown_tries), _rate(held_successes, held_tries)
    of_shown, of_held = _wilson(shown, shown_tries, z), _wilson(held, held_tries, z)
    below = math.hypot(shown - of_shown.low, of_held.high - held)
    above = math.hypot(of_shown.high - shown, held - of_held.low)
    return Interval(max(shown - held - below, -1.0), min(shown - held + above, 1.0))


def _rate(successes: int, tries: int) -> float:
    if not 0 <= successes <= tries or tries == 0:
        raise InvalidInputError(f"{successes} of {tries} is no rate: count one try at least")
    return successes / tries


def _wilson(rate: float, tries: int, z: float) -> Interval:
    """The score interval of one rate; it always holds the rate itself."""
    middle = rate + z * z / (2 * tries)
    reach = z * math.sqrt(rate * (1 - rate) / tries + (z / (2 * tries)) ** 2)
    scale = 1 + z * z / tries
    return Interval(min((middle - reach) / scale, rate), max((middle + reach) / scale, rate))


class HoldoutCounts(NamedTuple):
    """How the runs ended that were given a memory, and those it was held out of."""

    shown_successes: int
    shown_tries: int
    held_successes: int
    held_tries: int

    @property
    def comparable(self) -> bool:
        """Whether there is an outcome on both sides."""
        return self.shown_tries > 0 and self.held_tries > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Uplift:
    """What a memory does to the rate of success: by how much it is higher with it than without.

    `effect` is None while one side has no outcome; the interval then is everything, −1…1.
    """

    effect: float | None
    low: float
    high: float
    counts: HoldoutCounts

    @property
    def helps(self) -> bool:
        """Whether the whole interval is above 0."""
        return self.low > 0

    @property
    def harms(self) -> bool:
        """Whether the whole interval is below 0."""
        return self.high < 0

    def __str__(self) -> str:
        """The effect, its interval, and how many runs it comes from."""
        effect = "unknown" if self.effect is None else f"{self.effect:+.2f}"
        found = f"{effect} ({self.low:+.2f}…{self.high:+.2f})".replace("-", "−")
        return f"{found}, shown {self.counts.shown_tries}, held out {self.counts.held_tries}"


def uplifts(counts: Mapping[K, HoldoutCounts], confidence: float = 0.95) -> dict[K, Uplift]:
    """The uplift of each memory, with intervals that hold all at once.

    With this confidence *every* interval holds its true effect: each one's is raised by the
    number of memories compared (Bonferroni). Ten intervals of 95 % each would in 40 % of all
    comparisons have one that excludes 0 by chance. So compare what there is a question about
    rather than everything, and do so once, after a number of runs settled beforehand: who looks
    after each run, and stops when one excludes 0, is wrong more often.

    Raises:
        InvalidInputError: for more successes than tries, or a confidence not between 0 and 1.
    """
    check_confidence(confidence)
    compared = sum(one.comparable for one in counts.values())
    each = 1 - (1 - confidence) / max(compared, 1)
    return {key: _uplift(one, each) for key, one in counts.items()}


def _uplift(counts: HoldoutCounts, confidence: float) -> Uplift:
    if not counts.comparable:
        return Uplift(effect=None, low=-1.0, high=1.0, counts=counts)
    low, high = difference_interval(*counts, confidence)
    shown = counts.shown_successes / counts.shown_tries
    held = counts.held_successes / counts.held_tries
    return Uplift(effect=shown - held, low=low, high=high, counts=counts)
