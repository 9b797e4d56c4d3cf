"""Priorities, intentions and reminders, the order they are raised in, and how they are asked for.

Every argument of a verb is checked here, at the door.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from langmem_tiers.core.checks import checked_list, checked_number, label, parsed_moment
from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError, short
from langmem_tiers.core.handles import handle_of
from langmem_tiers.core.memory import Tier
from langmem_tiers.core.namespaces import utf8_bytes
from langmem_tiers.remind.triggers import TRIGGERS, At, NextCall, Trigger


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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prospective:
    """What an intention and a reminder both say."""

    key: str
    namespace: tuple[str, ...]
    tier: Tier
    content: str
    value: Mapping[str, Any]
    """The whole stored value."""
    priority: Priority
    trigger: Trigger
    """When, or why, it is raised."""
    due_at: datetime
    """It is not raised before."""

    @property
    def place(self) -> tuple[tuple[str, ...], str]:
        """Return where it is: its namespace and key."""
        return self.namespace, self.key

    @property
    def handle(self) -> str:
        """Return the short name that every verb takes in place of its key."""
        return handle_of(self.namespace, self.key)

    def __str__(self) -> str:
        """In one line, with its priority."""
        return f"[{self.priority.upper()}] {self.content}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Intention(_Prospective):
    """A prospective memory, and what became of it."""

    status: Status
    expires_at: datetime | None = None
    delivered_at: datetime | None = None
    closed_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reminder(_Prospective):
    """An intention that is raised."""

    token: str
    """What `acknowledge` knows it by."""
    leased_until: datetime | None = None
    """Until when it waits to be acknowledged; None is delivered already."""


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


Predicates = Mapping[str, Callable[[Any], bool]]
"""What is true of a graph's state, each under the name that intentions know it by."""
NextTools = str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]]
"""Tools about to run: a name, a LangChain tool call, or several."""

DEFAULT_REMINDERS = 10
"""Reminders that one call raises at most: as many as the specification lists."""
TRIGGER_KINDS = tuple(one.kind for one in TRIGGERS.values())
_MOST_SECONDS = 30 * 86_400.0
_TOKEN = re.compile(r"([0-9]+)\.([0-9]+)")
"""The id and the fence."""


def checked_priority(priority: object) -> Priority:
    """A priority by its name."""
    if not isinstance(priority, str) or priority not in tuple(Priority):
        raise InvalidInputError(f"priority is high, medium or low, not {short(priority)}")
    return Priority(str(priority))


def checked_end(expires_at: datetime | str | None, trigger: Trigger) -> datetime | None:
    """When an intention expires: after it can be raised, or never."""
    if expires_at is None:
        return None
    end = parsed_moment(expires_at, "expires_at")
    if isinstance(trigger, At) and trigger.moment is not None and end <= trigger.moment:
        raise InvalidInputError(
            f"it would expire at {end.isoformat()}, before it could be raised: leave "
            "`expires_at` out, or give a later one"
        )
    return end


def checked_statuses(status: Any) -> list[Status]:
    """Statuses by their names; what is open if None."""
    if status is None:
        return list(OPEN)
    return [Status(one) for one in _known(status, tuple(Status), "status")]


def checked_kinds(kinds: Any) -> frozenset[str] | None:
    """The kinds of triggers that are asked for; None is all."""
    return None if kinds is None else frozenset(_known(kinds, TRIGGER_KINDS, "kind"))


def _known(given: Any, names: Sequence[str], what: str) -> list[str]:
    """One of these names, or several of them."""
    several = [given] if isinstance(given, str) else list(checked_list(given, what, "names"))
    for one in several:
        if not isinstance(one, str) or one not in names:
            raise InvalidInputError(f"there is no {what} {short(one)}: use {', '.join(names)}")
    return several


def checked_query(query: object) -> str | None:
    """What is asked or said, as Postgres can hold it."""
    if query is None:
        return None
    if not isinstance(query, str):
        raise InvalidTypeError(f"a query is a string, not {type(query).__name__}")
    return query.replace("\0", " ")


def tool_calls(tool: Any) -> tuple[NextCall, ...]:
    """Tool calls of names, LangChain's tool calls, or several of either."""
    if tool is None:
        return ()
    several = [tool] if isinstance(tool, str | Mapping) else tool
    if not isinstance(several, Iterable):
        raise InvalidTypeError(f"tool is a name, a tool call or several, not {short(tool)}")
    return tuple(_call(one) for one in several)


def _call(tool: Any) -> NextCall:
    told = {"name": tool} if isinstance(tool, str) else tool
    if not isinstance(told, Mapping) or not isinstance(told.get("name"), str):
        raise InvalidTypeError(f"a tool call is a mapping with a name and args, not {short(tool)}")
    utf8_bytes(told["name"], "name of the tool")
    args = told.get("args") or {}
    return NextCall(told["name"], args if isinstance(args, Mapping) else {})


def checked_predicates(predicates: object) -> Predicates:
    """Functions of a graph's state by name.

    Raises:
        InvalidTypeError: for anything else.
    """
    if predicates is None:
        return {}
    if not isinstance(predicates, Mapping):
        raise InvalidTypeError(f"predicates maps names to functions, not {short(predicates)}")
    for name, predicate in predicates.items():
        if label(name, "the name of a predicate") is None or not callable(predicate):
            raise InvalidTypeError(f"predicates maps names to functions; see {short(name)}")
    return predicates


def true_of(state: Any, predicates: Predicates | None) -> frozenset[str]:
    """The names of the predicates that hold of a state."""
    if predicates is None and state is not None:
        raise InvalidInputError(
            "a state is judged by predicates: give predicates={'name': function of the state}"
        )
    found = {name: one(state) for name, one in checked_predicates(predicates).items()}
    for name, holds in found.items():
        if not isinstance(holds, bool):
            raise InvalidTypeError(
                f"the predicate {name!r} returns True or False, not {short(holds)}"
            )
    return frozenset(name for name, holds in found.items() if holds)


def checked_seconds(seconds: object) -> float | None:
    """How long a lease is; None is no lease."""
    if seconds is None:
        return None
    use = f"a number above 0, {_MOST_SECONDS:,.0f} at most, or None to deliver at once"
    return float(checked_number(seconds, "lease_seconds", 0, _MOST_SECONDS, but=(0,), use=use))


def checked_token(reminder: object) -> tuple[int, int]:
    """The id and the fence of a reminder, or of its token."""
    token = reminder.token if isinstance(reminder, Reminder) else reminder
    if not isinstance(token, str):
        raise InvalidTypeError(f"acknowledge a Reminder or its token, not {short(token)}")
    found = _TOKEN.fullmatch(token)
    if found is None:
        raise InvalidInputError(
            f"{short(token)} is no token of a reminder: pass what remind() gave"
        )
    return int(found[1]), int(found[2])
