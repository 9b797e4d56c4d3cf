"""The nouns: tiers, and what is found in them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, NamedTuple


class Tier(StrEnum):
    """Where a memory stands in its life. Namespace is identity; the tier is lifecycle."""

    SHORT_TERM = "short_term"
    """A session's: expires an hour after it was last read."""
    WORKING = "working"
    """A project's: where a plain `put` goes."""
    LONG_TERM = "long_term"
    """Proven, and shared across projects."""


TIERS: tuple[Tier, ...] = tuple(Tier)
"""All tiers in the order in which `get` looks."""


_BEGINNING = datetime.min.replace(tzinfo=UTC)


class Moment(NamedTuple):
    """When a call happens, and whether what has expired by then is still to be seen."""

    now: datetime
    omit_expired: bool = True

    @property
    def alive_at(self) -> datetime:
        """Memories that expire later than this are visible."""
        return self.now if self.omit_expired else _BEGINNING


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """One memory found by hybrid search, and why it was found.

    `score` is in 0…1, higher is nearer. `dense_score` is the vector metric's own score (None
    if the memory has no vector), `lexical_score` the text rank (0 if no word matched).
    """

    namespace: tuple[str, ...]
    key: str
    tier: Tier
    value: dict[str, Any]
    score: float
    dense_score: float | None
    lexical_score: float
    created_at: datetime
    updated_at: datetime
    access_count: int = 0
    explanation: dict[str, float] = field(default_factory=dict)
    """Each term's share of `score`; the shares add up to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TierStats:
    """What one tier holds. Sizes are in bytes and include indexes."""

    tier: Tier
    memories: int
    vectors: int
    tenants: int
    accesses: int
    expiring: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RelationSize:
    """The size on disk of one table or index, in bytes."""

    relation: str
    kind: str
    bytes: int
