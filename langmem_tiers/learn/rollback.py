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
from langmem_tiers.learn import promotion_rules as rules
from langmem_tiers.learn.outcome import ENOUGH, LEARNED, HoldoutCounts, chance_of_harm
from langmem_tiers.learn.promote import EVERYBODYS, PAGE
from langmem_tiers.postgres.flow import Call, Flow, Query, begun_anew, rows_of
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
    decision: rules.PromotionDecision

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


class Doubted(NamedTuple):
    """A memory that was promoted or learned, and what its outcomes say."""

    id: int
    namespace: str
    key: str
    updated_at: datetime
    tier: str
    decision: rules.PromotionDecision
    counts: HoldoutCounts | None = None
    """How the runs ended that were shown it and those without it; None of what was promoted."""
    content: str = ""
    """How what was learned begins."""


def demote_all(
    context: MemoryContext, policy: rules.PromotionPolicy, options: StoreOptions, moment: Moment
) -> Flow[list[Demotion]]:
    """Demote what a context sees and outcomes are against; all judged, each once."""
    tenant, seen = context.root, {"user_id": context.user_id, "everybody": False}
    results: list[Demotion] = []
    after = 0
    while found := (yield from doubted(tenant, policy, after, PAGE, seen)):
        for one in found:
            demotion = yield from _demote(one, tenant, options, moment)
            results.append(demotion)
        after = found[-1].id
    return results


def doubted(
    tenant: str,
    policy: rules.PromotionPolicy,
    after: int,
    limit: int,
    seen: Mapping[str, object] = EVERYBODYS,
) -> Flow[list[Doubted]]:
    """What was promoted and failed a run since, and what was learned and held out, by id.

    One that is both is judged by both, and demoted if either says so.
    """
    page = {"tenant": tenant, **seen, "after": after, "limit": limit}
    learned = {"memory_types": sorted(LEARNED), "enough": ENOUGH}
    calls = (
        Call("demotion_candidates", {**page, "latest": policy.demote_within}),
        Call("harm_candidates", {**page, **learned}),
    )
    promoted, tried = yield Query(calls, commit=True)
    found: dict[int, Doubted] = {}
    for id_, namespace, key, _, updated_at, successes, failures in promoted:
        decision = rules.should_demote(successes, failures, policy)
        found[id_] = Doubted(id_, namespace, key, updated_at, Tier.LONG_TERM.value, decision)
    for id_, namespace, key, _, updated_at, *outcomes, tier, content in tried:
        *each, successes, tries = outcomes
        counts = HoldoutCounts(*each)
        harm = chance_of_harm(counts, (successes + 1) / (tries + 2))
        decision = rules.should_hold_back(counts.tries, harm, policy)
        if id_ not in found or not found[id_].decision.demote:
            place = id_, namespace, key, updated_at, tier
            found[id_] = Doubted(*place, decision, counts, content)
    return sorted(found.values(), key=lambda one: one.id)[:limit]


def _demote(one: Doubted, tenant: str, options: StoreOptions, moment: Moment) -> Flow[Demotion]:
    if not one.decision.demote:
        return Demotion(demoted=False, key=one.key, decision=one.decision)
    move = str(uuid4())
    lock = lock_call(_keys(tenant, one.namespace, one.key), options)
    reasons = list(map(str, one.decision.reasons))
    record = demotion_call(tenant, (one.id, one.tier), move, reasons, moment)
    _, done = yield Query((lock, record), commit=True)
    moved = move if done else None
    return Demotion(demoted=bool(done), key=one.key, move=moved, decision=one.decision)


def demotion_call(
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


@begun_anew
def rollback(
    context: MemoryContext, move: str, options: StoreOptions, moment: Moment
) -> Flow[bool]:
    """Undo a move of what a context looks after; False if it was undone before.

    Raises:
        InvalidInputError: if there is no such move, or it is another project's or user's.
        RollbackError: if a later move stands on it, what it made was changed since, or nothing
            that it promoted is left.
    """
    tenant = context.root
    params = {"tenant": tenant, "event": move, "alive_at": moment.alive_at}
    rows = yield from rows_of("event", **params)
    known = _event(rows, move, context)
    lock = lock_call(_keys(tenant, known.namespace or "", known.key or ""), options)
    _, rows = yield Query((lock, Call("event", params)))
    event = _event(rows, move, context)
    if event.undone_at is not None:
        return False
    archive = None
    if event.updated_at is None:
        ids = [one for one in (event.target, event.id) if one is not None]
        (held,) = yield Query((Call("archived_among", {"tenant": tenant, "ids": ids}),))
        archive = next((str(row[1]) for row in held), None)
    _check(event, archive)
    undo = Call(_UNDO[event.kind], {**params, "id": event.id, "now": moment.now})
    gone = Write(place=Place(tenant, event.namespace or ""), key=event.key or "", value=None)
    removed = delete_calls([gone], TIERS) if event.kind == "promoted" else ()
    doubt = Call("doubt", {"tenant": tenant, "ids": [], "events": [move]})
    yield Query((undo, *removed, doubt), commit=True)
    return True


def _event(rows: Sequence[tuple[Any, ...]], move: str, context: MemoryContext) -> _Event:
    if not rows or not _Event(*rows[0]).is_of(context):
        raise InvalidInputError(
            f"there is no move {move!r}: take the `move` of a promotion, a demotion, a retraction…"
        )
    return _Event(*rows[0])


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
