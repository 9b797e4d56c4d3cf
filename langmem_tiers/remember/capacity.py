"""Which memories make room where a place holds only so many."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from langmem_tiers.core.errors import InvalidInputError

HALF_LIFE: Final = timedelta(days=30)
"""After this an accessless memory's freshness counts half, as its strength does."""
_IMPORTANCE, _STRENGTH, _FRESH = 0.5, 0.3, 0.2
_UNSAID: Final = 0.5


@dataclass(frozen=True, slots=True)
class Standing:
    """What is known of a memory that may have to go."""

    key: str
    created_at: datetime
    importance: float | None = None
    """In 0…1; one half if nobody said."""
    strength: float = 0.0
    """Accesses, each counting half after 30 days."""
    trust: float = 1.0
    """In 0…1: it makes room for nothing that is trusted less."""


class Eviction(NamedTuple):
    """A memory that makes room, and why it and not another."""

    key: str
    reason: str


def worth(one: Standing, now: datetime) -> float:
    """What a memory is worth keeping, in 0…1: half importance, then strength, then freshness."""
    importance = _UNSAID if one.importance is None else one.importance
    age = max(timedelta(), now - one.created_at) / HALF_LIFE
    used = one.strength / (one.strength + 1)
    return _IMPORTANCE * importance + _STRENGTH * used + _FRESH * math.exp2(-age)


def evictions(
    standing: Sequence[Standing], capacity: int, now: datetime, *, incoming: int = 1
) -> list[Eviction]:
    """The memories that have to go so that those which come in fit, the least worth first.

    Of equal worth the older goes first, then the lower key: the same memories in any order give
    the same answer. No more go than are there.

    Raises:
        InvalidInputError: for a capacity below one.
    """
    if capacity < 1:
        raise InvalidInputError(f"capacity is {capacity}: use 1 or more, or None for no limit")
    surplus = len(standing) + incoming - capacity
    if surplus <= 0:
        return []
    ranked = sorted(standing, key=lambda one: (worth(one, now), one.created_at, one.key))
    return [
        Eviction(
            one.key,
            f"the place holds {capacity}, and this was worth least: {worth(one, now):.2f} "
            f"(importance {_UNSAID if one.importance is None else one.importance:g}, strength "
            f"{one.strength:g}, since {one.created_at:%Y-%m-%d})",
        )
        for one in ranked[:surplus]
    ]
