"""States as JSON, and back."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import fields
from decimal import Decimal
from typing import Any, TypeVar

from langmem_tiers.state.state import (
    DailySpend,
    EmotionalState,
    Goal,
    Message,
    ProgressDelta,
    Task,
)

State = Task | EmotionalState | Goal | DailySpend
S = TypeVar("S", Message, Task, EmotionalState, Goal, DailySpend, ProgressDelta)


def to_value(one: State | ProgressDelta) -> dict[str, Any]:
    """A state as JSON; its class takes it as keyword arguments."""
    return {each.name: _plain(getattr(one, each.name)) for each in fields(one)}


def stored(kind: type[S], value: Mapping[str, Any]) -> S:
    """A state as it was stored.

    It was checked then: checking it again would cost more than all else of a read.
    """
    parsers = _PARSERS[kind]
    if value.keys() != parsers.keys():
        return kind(**value)
    one = object.__new__(kind)
    for name, parse in parsers.items():
        found = value[name]
        object.__setattr__(one, name, found if parse is None or found is None else parse(found))
    return one


def _plain(found: Any) -> Any:
    if isinstance(found, dt.date):
        return found.isoformat()
    if isinstance(found, Decimal):
        return f"{found:f}"
    if isinstance(found, ProgressDelta):
        return to_value(found)
    return [_plain(one) for one in found] if isinstance(found, tuple) else found


def _moment(found: str | dt.datetime) -> dt.datetime:
    return found if isinstance(found, dt.datetime) else dt.datetime.fromisoformat(found)


def _deltas(found: list[dict[str, Any]]) -> tuple[ProgressDelta, ...]:
    return tuple(stored(ProgressDelta, one) for one in found)


_PARSER: Mapping[str, Callable[[Any], Any]] = {
    "at": _moment,
    "created_at": _moment,
    "estimated_completion": _moment,
    "last_updated": _moment,
    "last_transaction_time": _moment,
    "date": dt.date.fromisoformat,
    "total_spent": Decimal,
    "constraints": tuple,
    "deltas": _deltas,
}
_PARSERS: Mapping[type, Mapping[str, Callable[[Any], Any] | None]] = {
    kind: {one.name: _PARSER.get(one.name) for one in fields(kind)}
    for kind in (Message, Task, EmotionalState, Goal, DailySpend, ProgressDelta)
}
"""How each field of a state is read from JSON; None as it is."""
