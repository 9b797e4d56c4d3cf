"""Where something that a turn memorizes goes, and what came of a call."""

from __future__ import annotations

from dataclasses import dataclass, fields

from langmem_tiers.core.memory import Destination, StoreResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Which memory types receive an item, each with the reason, and what makes room for it."""

    destinations: tuple[Destination, ...]
    """None if it is not to be kept."""
    evicted: tuple[str, ...] = ()
    """Keys of memories that are deleted when the turn is committed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memorized(StoreResult):
    """What became of something that a turn memorizes; nothing is stored before the commit."""

    stored: bool = False
    pending: bool = False
    """Whether the commit will write it."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The key that it will have in each memory type."""
        return tuple(one.key for one in self.destinations if one.key is not None)

    def __str__(self) -> str:
        """What becomes of it, where, and why."""
        if not self.pending:
            return f"not kept: {self.reason}"
        where = ", ".join(one.memory_type for one in self.destinations)
        return f"pending in {where} as {', '.join(self.keys)}: {self.reason}"

    @classmethod
    def of(cls, result: StoreResult) -> Memorized:
        """What the gate answered; pending if it let it pass."""
        told = {one.name: getattr(result, one.name) for one in fields(StoreResult)}
        return cls(**{**told, "stored": False}, pending=result.stored)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracked:
    """What became of a tool call that a turn tracks: pending until the turn is committed."""

    tracked: bool
    key: str | None
    """The key that its episodic memory will have; None if it gets none."""
    reason: str
    quarantined: bool = False
    """Whether that memory will not be recalled until somebody releases it."""
