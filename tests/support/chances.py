"""How likely a policy is ever met by a memory of a given rate, looked at after each outcome."""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from langmem_tiers.learn.promotion_rules import Evidence, PromotionPolicy, decide, should_demote

START = datetime(2026, 1, 1, tzinfo=UTC)
_LATER = START + timedelta(days=100)


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
    return lambda successes, failures: decide(_plain(successes, failures), policy, _LATER).promote


def demotes(policy: PromotionPolicy) -> Callable[[int, int], bool]:
    """A policy's demotion by the outcomes since the promotion."""
    return lambda successes, failures: should_demote(successes, failures, policy).demote


def _plain(successes: int, failures: int) -> Evidence:
    return Evidence(
        access_count=successes + failures,
        success_count=successes,
        failure_count=failures,
        projects=frozenset({"p1", "p2", "p3", "p4"}),
        recorded_at=START,
    )


def ever_demoted(rate: float, looks: int, policy: PromotionPolicy, memories: int) -> float:
    """What share of so many memories is demoted at any look, by their latest outcomes; drawn."""
    drawn = random.Random(f"demoted {rate}")  # noqa: S311 - seeded, so that it is the same each time
    stops = lru_cache(maxsize=None)(demotes(policy))

    def undone() -> bool:
        latest: deque[bool] = deque(maxlen=policy.demote_within)
        for _ in range(looks):
            latest.append(drawn.random() < rate)
            if stops(sum(latest), len(latest) - sum(latest)):
                return True
        return False

    return sum(undone() for _ in range(memories)) / memories
