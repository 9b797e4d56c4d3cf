"""The arguments by which reminders are asked for, checked at the door."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError, short
from langmem_tiers.core.namespaces import utf8_bytes
from langmem_tiers.remember.new import label, parsed_moment
from langmem_tiers.remind.intentions import OPEN, Priority, Reminder, Status
from langmem_tiers.remind.triggers import At, BeforeTool, If, ToolCall, Trigger, When

Predicates = Mapping[str, Callable[[Any], bool]]
"""What is true of a graph's state, each under the name that intentions know it by."""
Tools = str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]]
"""Tools about to run: a name, a LangChain tool call, or several."""

DEFAULT_LIMIT = 10
"""Reminders that one call raises at most: as many as the specification lists."""
KINDS = (At.kind, When.kind, BeforeTool.kind, If.kind)
MOST = 1000
"""Reminders or intentions that one call answers at most."""
_MOST_SECONDS = 30 * 86_400.0


def checked_priority(priority: object) -> Priority:
    """A priority by its name."""
    if priority not in tuple(Priority):
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
    return None if kinds is None else frozenset(_known(kinds, KINDS, "kind"))


def _known(given: Any, names: Sequence[str], what: str) -> list[str]:
    """One of these names, or several of them."""
    several = [given] if isinstance(given, str) else list(given)
    for one in several:
        if one not in names:
            raise InvalidInputError(f"there is no {what} {short(one)}: use {', '.join(names)}")
    return several


def checked_query(query: object) -> str | None:
    """What is asked or said, as Postgres can hold it."""
    if query is None:
        return None
    if not isinstance(query, str):
        raise InvalidTypeError(f"a query is a string, not {type(query).__name__}")
    return query.replace("\0", " ")


def tool_calls(tool: Any) -> tuple[ToolCall, ...]:
    """Tool calls of names, LangChain's tool calls, or several of either."""
    if tool is None:
        return ()
    if isinstance(tool, str | Mapping):
        return (_call(tool),)
    if not isinstance(tool, Iterable):
        raise InvalidTypeError(f"tool is a name, a tool call or several, not {short(tool)}")
    return tuple(_call(one) for one in tool)


def _call(tool: Any) -> ToolCall:
    if isinstance(tool, str):
        return ToolCall(_name(tool), {})
    if not isinstance(tool, Mapping) or not isinstance(tool.get("name"), str):
        raise InvalidTypeError(f"a tool call is a mapping with a name and args, not {short(tool)}")
    args = tool.get("args") or {}
    return ToolCall(_name(tool["name"]), args if isinstance(args, Mapping) else {})


def _name(tool: str) -> str:
    utf8_bytes(tool, "name of the tool")
    return tool


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


def checked_limit(limit: object) -> int:
    """How many at most."""
    if isinstance(limit, bool) or not isinstance(limit, int):
        raise InvalidTypeError(f"limit is a whole number, not {type(limit).__name__}")
    if not 0 <= limit <= MOST:
        raise InvalidInputError(f"limit is {limit}: use a number from 0 to {MOST:,}")
    return limit


def checked_seconds(seconds: object) -> float | None:
    """How long a lease is; None is no lease."""
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise InvalidTypeError(f"lease_seconds is a number, not {type(seconds).__name__}")
    if not 0 < seconds <= _MOST_SECONDS:
        raise InvalidInputError(
            f"lease_seconds is {seconds}: use a number above 0, at most {_MOST_SECONDS:,.0f}; or "
            "None to deliver at once"
        )
    return float(seconds)


def checked_token(reminder: object) -> tuple[int, int]:
    """The id and the fence of a reminder, or of its token."""
    token = reminder.token if isinstance(reminder, Reminder) else reminder
    if not isinstance(token, str):
        raise InvalidTypeError(f"acknowledge a Reminder or its token, not {short(token)}")
    one, dot, fence = token.partition(".")
    if not (dot and one.isascii() and one.isdigit() and fence.isascii() and fence.isdigit()):
        raise InvalidInputError(
            f"{short(token)} is no token of a reminder: pass what remind() gave"
        )
    return int(one), int(fence)
