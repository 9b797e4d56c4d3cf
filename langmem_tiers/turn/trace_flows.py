"""The trace of a turn as flows: written once, read, and forgotten after a while."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.memory import MemoryContext
from langmem_tiers.core.values import storable
from langmem_tiers.postgres.flow import Call, Flow, Query, Row
from langmem_tiers.turn.trace import (
    EndedTurn,
    Ending,
    TurnEvent,
    TurnTrace,
    bounds,
    event_names,
)


def record_call(
    context: MemoryContext,
    turn: str,
    events: Sequence[TurnEvent],
    names: Sequence[str] | None = None,
) -> Call:
    """The call that writes the trace of a turn, unless that has ended; it is to be locked."""
    details = [{**one.detail, "reasons": list(one.reasons), "turn": turn} for one in events]
    low, high = bounds(turn)
    params = {
        "tenant": context.root,
        "low": low,
        "high": high,
        "events": event_names(turn, events) if names is None else list(names),
        "kinds": [one.kind for one in events],
        "namespaces": [one.namespace for one in events],
        "keys": [one.key for one in events],
        "at": [one.at for one in events],
        "details": [json.dumps(one, ensure_ascii=False) for one in details],
    }
    return Call("record_turn", params)


def lock_name(context: MemoryContext, turn: str) -> tuple[str, str, str]:
    """What is locked by whoever ends a turn."""
    return context.root, "", f"\0{bounds(turn)[0]}"


def ended_call(context: MemoryContext, turn: str) -> Call:
    """The call that reads how a turn ended: a kind and its detail, if it did."""
    low, high = bounds(turn)
    return Call("turn_ended", {"tenant": context.root, "low": low, "high": high})


def history(turn: str, context: MemoryContext) -> Flow[TurnTrace]:
    """What was decided in a turn.

    Raises:
        InvalidInputError: if the context's project has no such turn.
    """
    low, high = bounds(turn)
    params = {"tenant": context.root, "low": low, "high": high}
    (rows,) = yield Query((Call("turn_events", params),), commit=True)
    if not rows or not all(is_of(context, row[2]) for row in rows if row[0] in get_args(Ending)):
        raise InvalidInputError(
            f"there is no turn {turn!r} in tenant {context.tenant!r}: one is written when it is "
            "committed, or left, and kept for as many days as the store's trace_days"
        )
    return TurnTrace(turn=turn, events=tuple(map(_event, rows)))


def is_of(context: MemoryContext, ended: Mapping[str, Any]) -> bool:
    """Whether a turn that ended so is one that the context looks after."""
    project = context.project_id
    return project is None or ended.get("project_id") == storable(project)


def turns(context: MemoryContext, limit: int, session_id: str | None) -> Flow[list[EndedTurn]]:
    """How the latest turns of the context's project ended, or of all, if it names none."""
    project = None if context.project_id is None else storable(context.project_id)
    params = {
        "tenant": context.root,
        "limit": limit,
        "session": session_id,
        "project": project,
    }
    (rows,) = yield Query((Call("turns_ended", params),), commit=True)
    return [_ended(row) for row in rows]


def _ended(row: Row) -> EndedTurn:
    _, at, kind, turn, began, reason, project, session, summary = row
    return EndedTurn(
        turn=turn,
        kind=kind,
        began=None if began is None else dt.datetime.fromisoformat(began),
        at=at,
        reason=reason,
        project_id=project,
        session_id=session,
        summary=dict(summary or {}),
    )


def _event(row: Row) -> TurnEvent:
    kind, at, detail, namespace, key = row
    told = dict(detail)
    reasons = tuple(told.pop("reasons", ()))
    told.pop("turn", None)
    return TurnEvent(kind=kind, at=at, reasons=reasons, detail=told, namespace=namespace, key=key)
