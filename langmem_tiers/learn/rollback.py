"""Demotion, and the way back from every move."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import uuid4

from langmem_tiers.core.config import StoreOptions
from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.errors import InvalidInputError, RollbackError
from langmem_tiers.core.memory import TIERS, Moment, Tier
from langmem_tiers.core.namespaces import Place, decode
from langmem_tiers.learn.chances import ENOUGH, HoldoutCounts, chance_of_harm
from langmem_tiers.learn.outcome import LEARNED
from langmem_tiers.learn.promotable import EVERYBODYS
from langmem_tiers.learn.promote import PAGE
from langmem_tiers.learn.promotion_rules import (
    PromotionDecision,
    PromotionPolicy,
    should_demote,
    should_hold_back,
)
from langmem_tiers.postgres.flow import Call, Flow, Query, anew, rows_of
from langmem_tiers.store.write import LOCK, Write, delete_calls, lock_call

_UNDO = {
    "promoted": "undo_promotion",
    "reinforced": "undo_reinforcement",
    "demoted": "undo_demotion",
    "merged": "undo_reinforcement",
    "risen": "undo_rise",
    "superseded": "undo_supersession",
    "retracted": "undo_retraction",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Demotion:
    """A memory that was judged by what came of it."""

    demoted: bool
    key: str
    move: str | None = None
    """What `rollback` takes."""
    decision: PromotionDecision

    def __str__(self) -> str:
        """What was decided, and why."""
        return f"{self.key} {'demoted' if self.demoted else 'stays'} ({self.decision})"


class _Event(NamedTuple):
    """A row of event; the columns are in this order."""

    event: str
    kind: str
    id: int
    target: int | None
    detail: dict[str, Any]
    undone_at: datetime | None
    later: str | None
    key: str | None
    updated_at: datetime | None
    source_left: bool
    tier: str | None
    namespace: str | None
    user_id: str | None

    def is_of(self, context: MemoryContext) -> bool:
        """Whether a context looks after what it made or changed, if that is there."""
        if self.user_id not in (None, context.user_id):
            return False
        if self.namespace is None or context.project_id is None:
            return True
        return context.reaches(str(self.tier), decode(context.root, self.namespace))


class Promoted(NamedTuple):
    """A memory that was promoted, and what came of it since.

    A row of demotion_candidates; the columns are in this order.
    """

    id: int
    namespace: str
    key: str
    created_at: datetime
    updated_at: datetime
    successes: int
    failures: int
    tier: str = Tier.LONG_TERM.value


class Tried(NamedTuple):
    """A memory that was learned, with the runs that it was shown to and those without it.

    A row of harm_candidates; the columns are in this order.
    """

    id: int
    namespace: str
    key: str
    created_at: datetime
    updated_at: datetime
    shown_successes: int
    shown: int
    held_successes: int
    held: int
    successes: int
    tries: int
    tier: str
    content: str
    """How what it says begins."""

    @property
    def counts(self) -> HoldoutCounts:
        """What is compared."""
        return HoldoutCounts(self.shown_successes, self.shown, self.held_successes, self.held)


Judged = tuple[Promoted | Tried, PromotionDecision]
"""A memory, and what its outcomes say."""


def demote_all(
    context: MemoryContext, policy: PromotionPolicy, options: StoreOptions, moment: Moment
) -> Flow[list[Demotion]]:
    """Demote what a context sees and outcomes are against; all judged, each once."""
    tenant, seen = context.root, {"user_id": context.user_id, "everybody": False}
    results: list[Demotion] = []
    after = 0
    while found := (yield from doubted(tenant, policy, after, PAGE, seen)):
        for one in found:
            result = yield from _demote(one, tenant, options, moment)
            results.append(result)
        after = found[-1][0].id
    return results


def doubted(
    tenant: str,
    policy: PromotionPolicy,
    after: int,
    limit: int,
    seen: Mapping[str, object] = EVERYBODYS,
) -> Flow[list[Judged]]:
    """What was promoted and failed a run since, and what was learned and held out, by id.

    One that is both is judged by both, and demoted if either says so.
    """
    page = {"tenant": tenant, **seen, "after": after, "limit": limit}
    learned = {"memory_types": sorted(LEARNED), "enough": ENOUGH}
    calls = (
        Call("demotion_candidates", {**page, "latest": policy.demote_within}),
        Call("harm_candidates", {**page, **learned}),
    )
    first, second = yield Query(calls, commit=True)
    judged: dict[int, Judged] = {}
    for row in first:
        promoted = Promoted(*row)
        verdict = should_demote(promoted.successes, promoted.failures, policy)
        judged[promoted.id] = (promoted, verdict)
    for row in second:
        tried = Tried(*row)
        usual = (tried.successes + 1) / (tried.tries + 2)
        harm = chance_of_harm(tried.counts, usual)
        known = judged.get(tried.id)
        if known is None or not known[1].demote:
            judged[tried.id] = (tried, should_hold_back(tried.counts.tries, harm, policy))
    return sorted(judged.values(), key=lambda one: one[0].id)[:limit]


def _demote(judged: Judged, tenant: str, options: StoreOptions, moment: Moment) -> Flow[Demotion]:
    one, decision = judged
    if not decision.demote:
        return Demotion(demoted=False, key=one.key, decision=decision)
    move = str(uuid4())
    lock = lock_call(_keys(tenant, one.namespace, one.key), options)
    reasons = list(map(str, decision.reasons))
    record = demotion(tenant, (one.id, one.tier), move, reasons, moment)
    _, done = yield Query((lock, record), commit=True)
    return Demotion(demoted=bool(done), key=one.key, move=move if done else None, decision=decision)


def demotion(
    tenant: str, memory: tuple[int, str], move: str, reasons: Sequence[str], moment: Moment
) -> Call:
    """The call that demotes a memory, by its id and tier, whose keys are locked."""
    id_, tier = memory
    params = {
        "tenant": tenant,
        "id": id_,
        "tier": tier,
        "event": move,
        "now": moment.now,
        "detail": json.dumps({"reasons": list(reasons)}),
    }
    return Call("record_demotion", params)


def rollback(
    context: MemoryContext, move: str, options: StoreOptions, moment: Moment
) -> Flow[bool]:
    """Undo a move of what a context looks after; False if it was undone before.

    Raises:
        InvalidInputError: if there is no such move, or it is another project's or user's.
        RollbackError: if a later move stands on it, what it made was changed since, or nothing
            that it promoted is left.
    """
    return anew(lambda: _rollback(context, move, options, moment))


def _rollback(
    context: MemoryContext, move: str, options: StoreOptions, moment: Moment
) -> Flow[bool]:
    tenant = context.root
    params = {"tenant": tenant, "event": move, "alive_at": moment.alive_at}
    rows = yield from rows_of("event", **params)
    known = _event(rows, move, context)
    lock = lock_call(_keys(tenant, known.namespace or "", known.key or ""), options)
    _, rows = yield Query((lock, Call("event", params)))
    event = _event(rows, move, context)
    if event.undone_at is not None:
        return False
    archive = (yield from _archive_of(event, tenant)) if event.updated_at is None else None
    _check(event, archive)
    undo = Call(_UNDO[event.kind], {**params, "id": event.id, "now": moment.now})
    place = Place(tenant, event.namespace or "")
    gone = [Write(place=place, key=event.key or "", value=None)]
    removed = delete_calls(gone, TIERS) if event.kind == "promoted" else ()
    doubt = Call("doubt", {"tenant": tenant, "ids": [], "events": [move]})
    yield Query((undo, *removed, doubt), commit=True)
    return True


def _event(rows: Sequence[tuple[Any, ...]], move: str, context: MemoryContext) -> _Event:
    if not rows or not _Event(*rows[0]).is_of(context):
        raise InvalidInputError(
            f"there is no move {move!r}: take the `move` of a promotion, a demotion, a retraction…"
        )
    return _Event(*rows[0])


def _archive_of(event: _Event, tenant: str) -> Flow[str | None]:
    """The archive that holds what a move made or changed; None if it was deleted."""
    ids = [one for one in (event.target, event.id) if one is not None]
    (rows,) = yield Query((Call("archived_among", {"tenant": tenant, "ids": ids}),))
    return next((str(row[1]) for row in rows), None)


def _check(event: _Event, archive: str | None) -> None:
    if event.kind not in _UNDO:
        raise RollbackError(f"{event.event!r} is no move: delete the lesson instead")
    if archive is not None:
        raise RollbackError(
            f"the memory that this move made or changed is archived: bring it back first with "
            f"restore_archive({archive!r}), or `langmem-tiers restore`"
        )
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
            "lose that change. Keep it, or move it out of long_term, which brings its sources back"
        )
    if not event.source_left:
        raise RollbackError(
            f"nothing that this move promoted is left: {event.key!r} is the last copy. Keep it, "
            "or delete it as a memory of its own"
        )


def _keys(tenant: str, namespace: str, key: str) -> list[tuple[str, str, str]]:
    return [(tenant, "", LOCK), (tenant, namespace, key)]
