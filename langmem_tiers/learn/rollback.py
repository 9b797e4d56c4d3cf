"""Demotion, and the way back from every move."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import uuid4

from langmem_tiers.config import StoreOptions
from langmem_tiers.errors import InvalidInputError, RollbackError
from langmem_tiers.flow import Call, Flow, Query
from langmem_tiers.learn.evidence import Evidence
from langmem_tiers.learn.policy import Decision, PromotionPolicy, should_demote
from langmem_tiers.learn.promote import LOCK, PAGE
from langmem_tiers.memory import TIERS, Moment
from langmem_tiers.namespaces import Place
from langmem_tiers.remember.flow import Write, delete_calls, lock_call

_UNDO = {
    "promoted": "undo_promotion",
    "reinforced": "undo_reinforcement",
    "demoted": "undo_demotion",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Demotion:
    """A promoted memory that was judged by what came of it since."""

    demoted: bool
    key: str
    move: str | None = None
    """What `rollback` takes."""
    decision: Decision

    def __str__(self) -> str:
        """What was decided, and why."""
        return f"{self.key} {'demoted' if self.demoted else 'stays'} ({self.decision})"


class _Event(NamedTuple):
    """A row of event; the columns are in this order."""

    event: str
    kind: str
    id: int
    target: int | None
    at: datetime
    detail: dict[str, Any]
    undone_at: datetime | None
    later: str | None
    key: str | None
    updated_at: datetime | None
    source_left: bool


class _Promoted(NamedTuple):
    """A row of demotion_candidates; the columns are in this order."""

    id: int
    namespace: str
    key: str
    value: dict[str, Any]
    created_at: datetime
    updated_at: datetime
    successes: int
    failures: int


def demote_all(
    tenant: str, policy: PromotionPolicy, options: StoreOptions, moment: Moment
) -> Flow[list[Demotion]]:
    """Demote every promoted memory against which later outcomes have turned; all judged."""
    judged: list[Demotion] = []
    after = 0
    while True:
        latest = policy.demote_within
        params = {"tenant": tenant, "after": after, "limit": PAGE, "latest": latest}
        (rows,) = yield Query((Call("demotion_candidates", params),), commit=True)
        if not rows:
            return judged
        for one in map(_Promoted._make, rows):
            judgement = yield from _demote(one, tenant, policy, options, moment)
            judged.append(judgement)
        after = rows[-1][0]


def _demote(
    one: _Promoted, tenant: str, policy: PromotionPolicy, options: StoreOptions, moment: Moment
) -> Flow[Demotion]:
    since = Evidence(
        access_count=0,
        success_count=one.successes,
        failure_count=one.failures,
        projects=frozenset(),
        recorded_at=one.created_at,
    )
    decision = should_demote(since, policy)
    if not decision.demote:
        return Demotion(demoted=False, key=one.key, decision=decision)
    move = str(uuid4())
    record = {
        "tenant": tenant,
        "id": one.id,
        "event": move,
        "now": moment.now,
        "detail": json.dumps({"reasons": list(map(str, decision.reasons))}),
    }
    lock = lock_call(_keys(tenant, one.key), options)
    _, done = yield Query((lock, Call("record_demotion", record)), commit=True)
    return Demotion(demoted=bool(done), key=one.key, move=move if done else None, decision=decision)


def rollback(tenant: str, move: str, options: StoreOptions, moment: Moment) -> Flow[bool]:
    """Undo a move; False if it was undone before.

    Raises:
        InvalidInputError: if the tenant has no such move.
        RollbackError: if a later move stands on it, what it made was changed since, or nothing
            that it promoted is left.
    """
    params = {"tenant": tenant, "event": move, "alive_at": moment.alive_at}
    (rows,) = yield Query((Call("event", params),), commit=True)
    known = _event(rows, move)
    lock = lock_call(_keys(tenant, known.key or ""), options)
    _, rows = yield Query((lock, Call("event", params)))
    event = _event(rows, move)
    if event.undone_at is not None:
        return False
    _check(event)
    undo = Call(_UNDO[event.kind], {**params, "now": moment.now})
    gone = [Write(place=Place(tenant, ""), key=event.key or "", value=None)]
    removed = delete_calls(gone, TIERS) if event.kind == "promoted" else ()
    yield Query((undo, *removed), commit=True)
    return True


def _event(rows: Sequence[tuple[Any, ...]], move: str) -> _Event:
    if not rows:
        raise InvalidInputError(
            f"there is no move {move!r}: take the `move` of a promotion or a demotion"
        )
    return _Event(*rows[0])


def _check(event: _Event) -> None:
    if event.kind not in _UNDO:
        raise RollbackError(f"{event.event!r} is no move: delete the lesson instead")
    if event.updated_at is None:
        raise RollbackError(
            "the memory that this move made or changed was deleted: nothing is left to undo"
        )
    if event.later is not None:
        raise RollbackError(f"a later move stands on this one: roll back {event.later!r} first")
    if event.kind != "promoted":
        return
    if event.updated_at != datetime.fromisoformat(event.detail["updated_at"]):
        raise RollbackError(
            f"the memory that this move made, {event.key!r}, was changed since: a rollback would "
            "lose that change. Keep it, or delete the memory, which brings its sources back"
        )
    if not event.source_left:
        raise RollbackError(
            f"nothing that this move promoted is left: {event.key!r} is the last copy. Keep it, "
            "or delete it as a memory of its own"
        )


def _keys(tenant: str, key: str) -> list[tuple[str, str, str]]:
    return [(tenant, "", LOCK), (tenant, "", key)]
