"""Where something that a turn memorizes goes, and what came of a call."""

from __future__ import annotations

from dataclasses import dataclass

from langmem_tiers.memory import Tier


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Which memory types receive an item, why, and what makes room for it."""

    stores: tuple[str, ...]
    """Memory types; none if it is not to be kept."""
    reason: str
    evicted: tuple[str, ...] = ()
    """Keys of memories that are deleted when the turn is committed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memorized:
    """What became of something that a turn memorizes: pending until the turn is committed."""

    pending: bool
    keys: tuple[str, ...]
    """The key that it will have, in each store."""
    stores: tuple[str, ...]
    """The memory types that receive it."""
    tiers: tuple[Tier, ...]
    reason: str
    evicted: tuple[str, ...] = ()
    """Keys of memories that make room for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracked:
    """What became of a tool call that a turn tracks: pending until the turn is committed."""

    tracked: bool
    key: str | None
    """The key that its episodic memory will have."""
    reason: str
