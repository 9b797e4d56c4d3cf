"""Promotion: what has proven itself in a project becomes everybody's, one transaction a move."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import NAMESPACE_OID, uuid5

from langmem_tiers.core.errors import InvalidInputError, ModelError
from langmem_tiers.core.memory import Tier
from langmem_tiers.core.namespaces import Place
from langmem_tiers.core.values import content_of, provenance_of, trust_of
from langmem_tiers.core.vectors import PackedVector
from langmem_tiers.learn.promotable import (
    Near,
    Promotable,
    Promoting,
    Told,
    alike_of,
    candidates,
    evidence,
    evidence_of,
    near,
    near_of,
    same_text,
    told_to_all,
)
from langmem_tiers.learn.promotion_rules import PromotionDecision, decide
from langmem_tiers.postgres.flow import Call, Flow, Query, Row, anew
from langmem_tiers.remember.new import FIELD, write_of
from langmem_tiers.store.write import (
    LOCK,
    Write,
    delete_expired_calls,
    embed,
    lock_call,
    put_calls,
)

PAGE = 50
"""Candidates whose evidence is read at once."""
TRIES = 3
"""How often a move looks anew for what teaches the same, when that was not locked yet."""
LABELS = ("project_id", "agent_id", "session_id", "user_id")
"""Fields of a value that name where it came from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Promotion:
    """What became of a memory that was to be promoted."""

    promoted: bool
    key: str
    """Of the memory in working."""
    successor: str | None = None
    """Of the memory in long_term that it lives on in."""
    reinforced: bool = False
    """Whether that one was there already, and was given this evidence."""
    move: str | None = None
    """What `rollback` takes."""
    sources: tuple[str, ...] = ()
    """Keys of all memories that live on in the successor by this move."""
    decision: PromotionDecision | None = None
    reason: str = "promoted"
    near: tuple[Near, ...] = ()
    """What is near in working memory, in any project, and says something else: it was not counted,
    and stays as it is."""

    def __str__(self) -> str:
        """What was decided, and why."""
        verb = "promoted" if self.promoted else "stays"
        why = f" ({self.decision})" if self.decision else ""
        beside = f"; near, and not the same: {', '.join(map(str, self.near))}" if self.near else ""
        return f"{self.key} {verb}: {self.reason}{why}{beside}"


def promote_all(how: Promoting) -> Flow[list[Promotion]]:
    """Promote every memory of a tenant that the policy finds worthy; all that were judged.

    A memory of which a model says nothing usable stays, with the error as its reason. Where the
    database fails the call ends, and what was moved before stays moved: the events of a tenant
    tell what, and `explain` of each memory.
    """
    judged: list[Promotion] = []
    after = 0
    while True:
        (rows,) = yield Query((candidates(how, after, PAGE),), commit=True)
        if not rows:
            return judged
        ids = [row[0] for row in rows]
        moved: set[str] = set()
        for source in (yield from evidence(how.tenant, ids)):
            if source.key in moved and not (yield from _current(source, how)):
                continue  # it went along with one that said the same
            try:
                one = yield from promote_one(source, how)
            except (ModelError, InvalidInputError) as error:
                one = Promotion(promoted=False, key=source.key, reason=str(error))
            moved.update(one.sources)
            judged.append(one)
        after = ids[-1]


def _current(source: Promotable, how: Promoting) -> Flow[bool]:
    """Whether a memory is still there, and went along with no other."""
    found = yield from evidence(how.tenant, [source.id])
    return bool(found) and found[0].state is None and found[0].successor is None


def promote_one(source: Promotable, how: Promoting, general: str | None = None) -> Flow[Promotion]:
    """Promote a memory if it is worthy and for everybody; a model is asked before any lock."""
    worthy = judged(source, how)
    if isinstance(worthy, Promotion):
        return worthy
    told = yield from told_to_all(source, labels_of(worthy, how.tenant), how, general)
    if isinstance(told, str):
        return _stays(worthy, told)
    return (yield from promote_as(worthy, told, how))


def promote_as(worthy: Worthy, told: Told, how: Promoting) -> Flow[Promotion]:
    """Promote what is worthy, as everybody is told it."""
    write = _successor(worthy.source, told, how)
    vectors = yield from embed([write], how.options)
    return (yield from anew(lambda: _move(worthy, write, vectors, how)))


def judged(source: Promotable, how: Promoting) -> Worthy | Promotion:
    """What makes a memory worthy of promotion, else why it stays."""
    if (reason := _settled(source, how.moment.now)) is not None:
        return Promotion(promoted=False, key=source.key, reason=reason)
    alike = list(alike_of(source, how))
    decision = decide(evidence_of(source, alike), how.policy, how.moment.now)
    worthy = Worthy(source, alike, decision, near_of(source, how))
    return worthy if decision.promote else _stays(worthy, "not proven yet")


def _settled(source: Promotable, now: datetime) -> str | None:
    """Why there is nothing to decide."""
    if (heir := source.successor) is not None:
        risen = (
            f"it was promoted as {heir['key']}"
            if heir["risen"]
            else f"it lives on as {heir['key']}"
        )
        return f"{risen}, which was demoted" if heir["state"] == "demoted" else f"{risen} already"
    if source.tier != Tier.WORKING:
        return f"it is in {source.tier}: what is in working is promoted"
    if source.state is not None:
        return f"it is {source.state}"
    if source.valid_to is not None and source.valid_to <= now:
        return f"it was true until {source.valid_to.isoformat()}"
    if source.valid_from is not None and source.valid_from > now:
        return f"it is true from {source.valid_from.isoformat()}"
    return None


def labels_of(worthy: Worthy, tenant: str) -> list[str]:
    """What its context and the projects that used it are called: nothing to tell others."""
    source, alike, *_ = worthy
    own = [source.value.get(name) for name in LABELS]
    projects = [*source.projects, *(one["project_id"] for one in alike)]
    return sorted({one for one in (*own, *projects, tenant) if isinstance(one, str) and one})


def _successor(source: Promotable, told: Told, how: Promoting) -> Write:
    """The write of what everybody learns, true when its source is; the same has the same key."""
    content = told.content
    value = {**told.fields, **provenance_of([source.value])}
    value |= {
        "content": content,
        "memory_type": source.memory_type,
        "metadata": {
            "source_project": source.value.get("project_id"),
            "original_id": source.key,
            "promotion_date": how.moment.now.isoformat(),
        },
    }
    times = {"valid_from": source.valid_from, "valid_to": source.valid_to}
    true = {name: at.isoformat() for name, at in times.items() if at is not None}
    value |= true
    parts = ["promoted", how.tenant, source.memory_type, content, *([true] if true else [])]
    if source.trust < 1.0:
        parts.append(f"trust {source.trust:g}")
    return write_of(
        value,
        place=Place(how.tenant, source.place),
        key=str(uuid5(NAMESPACE_OID, json.dumps(parts))),
        index=how.options.index,
        tier=Tier.LONG_TERM,
    )


class Worthy(NamedTuple):
    """A memory to be promoted, with those that say the same."""

    source: Promotable
    alike: Sequence[Mapping[str, Any]]
    decision: PromotionDecision
    near: tuple[Near, ...]
    """What is as near as those, and does not."""


class _Target(NamedTuple):
    """What may teach the same already; a row of promotion_targets, in this order."""

    key: str
    tier: str
    state: str | None
    distance: float | None
    """None for the memory of the successor's own key."""
    memory_type: str
    trust: object
    """As its value says."""
    value: Mapping[str, Any]


def _move(
    worthy: Worthy, write: Write, vectors: Mapping[str, PackedVector | None], how: Promoting
) -> Flow[Promotion]:
    """The move itself, under the locks of all that it touches, if nothing changed meanwhile."""
    how = how._replace(moment=how.clock())  # a model was asked: some may have expired by now
    params = {
        "tenant": how.tenant,
        "sources": list(_versions(worthy)),
        "key": write.key,
        "place": worthy.source.place,
        "field": FIELD,
        "query": next(iter(vectors.values()), None),
        "valid_from": worthy.source.valid_from,
        "valid_to": worthy.source.valid_to,
        "now": how.moment.now,
        "alive_at": how.moment.alive_at,
    }
    evidence = Call("promotion_evidence", {"tenant": how.tenant, "ids": [worthy.source.id]})
    calls = [Call("promotion_sources", params), Call("promotion_targets", params), evidence]
    if how.check is not None:
        calls.append(how.check.looks(how.moment))
    locked = write.key
    for _ in range(TRIES):
        lock = _lock(worthy, (write.key, locked), how)
        _, sources, targets, rows, *looked = yield Query((lock, *calls))
        if how.check is not None:
            how.check.judges(looked[0])
        target = _target([_Target(*row) for row in targets], worthy.source, write, how)
        if target is None or target.key in {write.key, locked}:
            kept = _kept(sources, worthy)
            worthy = _judged_again(worthy, rows, kept, how)
            if (against := _against(worthy, kept, target)) is None:
                return (yield from _recorded(worthy, kept, target, (write, vectors), how))
            yield Query((), commit=True)
            return _stays(worthy, against)
        locked = target.key
        yield Query((), commit=True)  # which lets go of the locks: they are taken in one order
    return _stays(worthy, "what teaches the same changed meanwhile: promote again")


def _lock(worthy: Worthy, successors: Sequence[str], how: Promoting) -> Call:
    near = [(one["namespace"], one["key"]) for one in worthy.alike]
    own = worthy.source.place
    places = [(worthy.source.namespace, worthy.source.key), *near]
    keys = [("", LOCK), *((own, one) for one in successors), *places]
    return lock_call([(how.tenant, *key) for key in keys], how.options)


def _versions(worthy: Worthy) -> dict[int, datetime]:
    """When each of those that say the same was last changed, the source first."""
    found = {one["id"]: datetime.fromisoformat(one["updated_at"]) for one in worthy.alike}
    return {worthy.source.id: worthy.source.updated_at, **found}


def _kept(rows: Sequence[Row], worthy: Worthy) -> list[int]:
    """Those that are still the ones that were judged, the source first."""
    versions = _versions(worthy)
    current = {
        row[0]
        for row in rows
        if row[1] == Tier.WORKING and row[2] is None and row[3] == versions[row[0]]
    }
    return [one for one in versions if one in current]


def _target(
    found: Sequence[_Target], source: Promotable, write: Write, how: Promoting
) -> _Target | None:
    """What teaches the same: by its key, else the nearest that has the text of the successor.

    What is trusted otherwise is left alone: a promotion raises no trust, and lowers none.
    """
    content = content_of(json.loads(write.value or "{}"))
    for one in found:
        if one.distance is None:
            return one
        alike = trust_of({"trust": one.trust}) == source.trust
        alike = alike and one.memory_type == source.memory_type and near(one.distance, how)
        if alike and same_text(content_of(one.value), content):
            return one
    return None


def _judged_again(
    worthy: Worthy, rows: Sequence[Row], kept: Sequence[int], how: Promoting
) -> Worthy:
    """The decision on what is known under the locks: outcomes may have come meanwhile."""
    if not rows:
        return worthy
    source = Promotable(*rows[0])
    alike = [one for one in alike_of(source, how) if one["id"] in kept]
    decision = decide(evidence_of(source, alike), how.policy, how.moment.now)
    return worthy._replace(decision=decision, near=near_of(source, how))


def _against(worthy: Worthy, kept: Sequence[int], target: _Target | None) -> str | None:
    """What stands against the move, under the locks."""
    if worthy.source.id not in kept:
        return "it changed meanwhile: promote again"
    if not worthy.decision.promote:
        return "it is not proven any more"
    if target is None:
        return None
    if target.tier != Tier.LONG_TERM:
        return f"the same lesson, {target.key}, stands in {target.tier}: move it to long_term"
    return None if target.state is None else f"the same lesson, {target.key}, was {target.state}"


def _recorded(
    worthy: Worthy,
    kept: Sequence[int],
    target: _Target | None,
    made: tuple[Write, Mapping[str, PackedVector | None]],
    how: Promoting,
) -> Flow[Promotion]:
    """Write the successor, or reinforce the target."""
    puts = _puts(*made, how) if target is None else ()
    record: dict[str, Any] = {
        "tenant": how.tenant,
        "sources": list(kept),
        "event": how.named(worthy.source.id),
        "now": how.moment.now,
        "detail": json.dumps({"reasons": list(map(str, worthy.decision.reasons))}),
        "place": worthy.source.place,
        "key": made[0].key if target is None else target.key,
        "kind": "promoted" if target is None else "reinforced",
    }
    *_, recorded = yield Query((*puts, Call("record_promotion", record)), commit=True)
    if not recorded:
        return _stays(worthy, "what teaches the same changed meanwhile: promote again")
    keys = {worthy.source.id: worthy.source.key, **{one["id"]: one["key"] for one in worthy.alike}}
    return Promotion(
        promoted=True,
        key=worthy.source.key,
        successor=record["key"],
        reinforced=target is not None,
        move=record["event"],
        sources=tuple(keys[one] for one in kept),
        decision=worthy.decision,
        reason="promoted" if target is None else "the same lesson was there and is reinforced",
        near=worthy.near,
    )


def _puts(
    write: Write, vectors: Mapping[str, PackedVector | None], how: Promoting
) -> Iterator[Call]:
    """The calls that write the successor; one that has expired is not revived."""
    if how.moment.omit_expired:
        yield from delete_expired_calls([write], how.moment.now)
    yield from put_calls([write], vectors, how.options, how.moment.now, Tier.LONG_TERM)


def _stays(worthy: Worthy, reason: str) -> Promotion:
    return Promotion(
        promoted=False,
        key=worthy.source.key,
        decision=worthy.decision,
        reason=reason,
        near=worthy.near,
    )
