"""The nouns: priorities, intentions and reminders, and the order they are raised in."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.memory import Tier
from langmem_tiers.remind.triggers import Trigger


class Priority(StrEnum):
    """How much an intention matters; what matters more is raised first."""

    HIGH = "high"
    MEDIUM = "medium"
    """Where nobody says otherwise."""
    LOW = "low"

    @property
    def rank(self) -> int:
        """Its place, from 0; a lower one comes first."""
        return PRIORITIES.index(self)


PRIORITIES: tuple[Priority, ...] = tuple(Priority)


class Status(StrEnum):
    """What became of an intention so far."""

    PENDING = "pending"
    """It was not raised yet, or put off, or whoever held it let go."""
    LEASED = "leased"
    """It was raised, and not acknowledged so far."""
    DELIVERED = "delivered"
    """It was raised for good, and is neither closed nor expired."""
    DONE = "done"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    """Its time ran out before it was closed; `delivered_at` says whether it had been raised."""


OPEN: tuple[Status, ...] = (Status.PENDING, Status.LEASED, Status.DELIVERED)
"""What is neither closed nor expired."""
STORED_AS: Mapping[Status, tuple[Status, ...]] = {
    **{one: (one,) for one in Status},
    Status.LEASED: (Status.PENDING,),
    Status.EXPIRED: (Status.EXPIRED, Status.PENDING, Status.DELIVERED),
}
"""Which statuses a row may have: leases and ends that came by themselves need no write."""


class Place(NamedTuple):
    """A place in the order in which intentions are raised: priority, then time, then id."""

    rank: int
    due_at: datetime
    id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Intention:
    """A prospective memory, and what became of it."""

    key: str
    namespace: tuple[str, ...]
    tier: Tier
    content: str
    value: Mapping[str, Any]
    """The whole stored value."""
    priority: Priority
    trigger: Trigger
    due_at: datetime
    """It is not raised before."""
    status: Status
    expires_at: datetime | None = None
    delivered_at: datetime | None = None
    closed_at: datetime | None = None
    waits_for: tuple[str, ...] = ()
    """The keys of those that must be done first."""

    def __str__(self) -> str:
        """In one line, with its priority."""
        return f"[{self.priority.upper()}] {self.content}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reminder:
    """An intention that is raised."""

    key: str
    namespace: tuple[str, ...]
    tier: Tier
    content: str
    value: Mapping[str, Any]
    """The whole stored value."""
    priority: Priority
    trigger: Trigger
    """Why it is raised."""
    due_at: datetime
    token: str
    """What `acknowledge` knows it by."""
    leased_until: datetime | None = None
    """Until when it waits to be acknowledged; None is delivered already."""

    def __str__(self) -> str:
        """In one line, with its priority."""
        return f"[{self.priority.upper()}] {self.content}"


def facts(one: Reminder) -> dict[str, Any]:
    """A reminder as JSON, for a graph's state."""
    return {
        "key": one.key,
        "content": one.content,
        "priority": str(one.priority),
        "trigger": str(one.trigger),
        "due_at": one.due_at.isoformat(),
        "token": one.token,
    }


def refuse_cycles(
    one: int | None, needs: Collection[int], known: Mapping[int, Collection[int]]
) -> None:
    """Refuse what would have to be done before itself.

    Args:
        one: The intention; None if it is new, and nothing can need it yet.
        needs: What it is to need.
        known: What others need, as far as can be reached from there.

    Raises:
        InvalidInputError: if that leads back to it.
    """
    todo, seen = list(needs), set(needs)
    while todo:
        further = set(known.get(todo.pop(), ())) - seen
        seen |= further
        todo.extend(further)
    if one in seen:
        raise InvalidInputError(
            "an intention would have to be done before itself: what it comes after comes, "
            "directly or not, after it; leave that out of `after`"
        )
