"""Demotion, the way back from every move, and why a memory stands where it stands.

A move is a promotion, a demotion, or what consolidation, superseding and retracting do.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import uuid4

from langmem_tiers.core.config import StoreOptions
from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.errors import InvalidInputError, RollbackError
from langmem_tiers.core.memory import TIERS, Moment, Place, Tier, decode_namespace
from langmem_tiers.core.reading import LINE_LENGTH, printable_line, shorten_line
from langmem_tiers.core.values import visible_text
from langmem_tiers.learn import promotion_rules as rules
from langmem_tiers.learn.outcome import (
    ENOUGH,
    LEARNED,
    HoldoutCounts,
    Interval,
    beta_interval,
    chance_of_harm,
)
from langmem_tiers.learn.promote import (
    ALL_USERS,
    PAGE,
    NearMemory,
    PromotionJob,
    plan_promotion,
    read_evidence,
)
from langmem_tiers.learn.promotion_rules import PromotionCandidate, PromotionDecision
from langmem_tiers.postgres.flow import Call, Flow, Query, Row, retried_on_conflict, rows_of
from langmem_tiers.store.write import LOCK, Write, delete_calls, lock_call

# ---- demotion, and the way back --------------------------------------------------------------

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
    """What `learning.rollback` takes."""
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
        return context.reaches(str(self.tier), decode_namespace(context.root, self.namespace))


class DemotionCandidate(NamedTuple):
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
    while page := (yield from find_demotion_candidates(tenant, policy, after, PAGE, seen)):
        for candidate in page:
            move = None
            if candidate.decision.demote:
                named, reasons = str(uuid4()), list(map(str, candidate.decision.reasons))
                lock = lock_call(_keys_to_lock(tenant, candidate.namespace, candidate.key), options)
                record = demotion_call(
                    tenant, (candidate.id, candidate.tier), named, reasons, moment
                )
                _, done = yield Query((lock, record), commit=True)
                move = named if done else None
            results.append(
                Demotion(
                    demoted=move is not None,
                    key=candidate.key,
                    move=move,
                    decision=candidate.decision,
                )
            )
        after = page[-1].id
    return results


def find_demotion_candidates(
    tenant: str,
    policy: rules.PromotionPolicy,
    after: int,
    limit: int,
    seen: Mapping[str, object] = ALL_USERS,
) -> Flow[list[DemotionCandidate]]:
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
    by_id: dict[int, DemotionCandidate] = {}
    for id_, namespace, key, _, updated_at, successes, failures in promoted:
        decision = rules.should_demote(successes, failures, policy)
        by_id[id_] = DemotionCandidate(
            id_, namespace, key, updated_at, Tier.LONG_TERM.value, decision
        )
    for id_, namespace, key, _, updated_at, *outcomes, tier, content in tried:
        *each, successes, tries = outcomes
        counts = HoldoutCounts(*each)
        harm = chance_of_harm(counts, (successes + 1) / (tries + 2))
        decision = rules.should_hold_back(counts.tries, harm, policy)
        if id_ not in by_id or not by_id[id_].decision.demote:
            place = id_, namespace, key, updated_at, tier
            by_id[id_] = DemotionCandidate(*place, decision, counts, content)
    return sorted(by_id.values(), key=lambda candidate: candidate.id)[:limit]


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


@retried_on_conflict
def undo_move(
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
    unlocked = _own_event(rows, move, context)
    lock = lock_call(_keys_to_lock(tenant, unlocked.namespace or "", unlocked.key or ""), options)
    _, rows = yield Query((lock, Call("event", params)))
    event = _own_event(rows, move, context)
    if event.undone_at is not None:
        return False
    archive = None
    if event.updated_at is None:
        ids = [id_ for id_ in (event.target, event.id) if id_ is not None]
        (held,) = yield Query((Call("archived_among", {"tenant": tenant, "ids": ids}),))
        archive = next((str(row[1]) for row in held), None)
    _check_undo(event, archive)
    undo = Call(_UNDO[event.kind], {**params, "id": event.id, "now": moment.now})
    gone = Write(place=Place(tenant, event.namespace or ""), key=event.key or "", value=None)
    removed = delete_calls([gone], TIERS) if event.kind == "promoted" else ()
    doubt = Call("doubt", {"tenant": tenant, "ids": [], "events": [move]})
    yield Query((undo, *removed, doubt), commit=True)
    return True


def _own_event(rows: Sequence[tuple[Any, ...]], move: str, context: MemoryContext) -> _Event:
    if not rows or not _Event(*rows[0]).is_of(context):
        raise InvalidInputError(
            f"there is no move {move!r}: take the `move` of a promotion, a demotion, a retraction…"
        )
    return _Event(*rows[0])


def _check_undo(event: _Event, archive: str | None) -> None:
    if event.kind not in _UNDO:
        raise RollbackError(f"{event.event!r} is no move: delete the lesson instead")
    if archive is not None:
        raise RollbackError(
            f"the memory that this move made or changed is archived: bring it back first with "
            f"admin.restore_archive({archive!r}), or `langmem-tiers restore`"
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


def _keys_to_lock(tenant: str, namespace: str, key: str) -> list[tuple[str, str, str]]:
    return [(tenant, "", LOCK), (tenant, namespace, key)]


# ---- why a memory stands where it stands -----------------------------------------------------

CONFIDENCE = 0.95
_RISEN = ("promoted", "reinforced")


class Relative(NamedTuple):
    """A memory that another came from, or that came of it."""

    role: str
    """`source`; `successor`: it was promoted as that, or lives on in it; or `derived`: it was
    concluded from the memory."""
    namespace: tuple[str, ...]
    key: str
    tier: Tier
    state: str | None
    content: str
    """Empty of what is quarantined, and of what another project keeps."""


class Origin(NamedTuple):
    """A memory that another one came from, in the chain of what depends on what."""

    path: tuple[str, ...]
    """Keys from the memory that was asked for to this one, by the shortest way."""
    namespace: tuple[str, ...]
    tier: Tier
    state: str | None
    """`retracted` makes suspect all that came from it; `superseded` makes it outdated."""
    content: str
    """Empty of what is quarantined, and of what another project keeps."""
    replaced: bool = False
    """True if the memory that came of it, on this path, is the one that superseded it."""

    @property
    def key(self) -> str:
        """Its own."""
        return self.path[-1]


class MoveRecord(NamedTuple):
    """A move in a memory's life."""

    move: str
    kind: str
    """`promoted`, `reinforced`, `demoted`, `merged`, `risen`, `superseded`, `retracted`; or
    `reflected`: an attempt lives on in its lesson; or `derived`: it was concluded from another; or
    `quarantined`, `released`, `rejected`, `evicted`: what the gate, or somebody after it, did; or
    `deleted`: what it had been merged into was deleted; or `read`, as its session
    ended, by a model that summed it up."""
    at: datetime
    reasons: tuple[str, ...]
    undone_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What is known of a memory's worth, and how it came to stand where it stands."""

    key: str
    namespace: tuple[str, ...]
    tier: Tier
    state: str | None
    """None is current; `consolidated` lives on in what it was merged with, or was promoted, and is
    recalled in its own project as before; `demoted` failed there;
    `superseded` was true until `valid_to`; `retracted` never was; `suspect` came from what never
    was; `quarantined` is held back by the gate."""
    state_at: datetime | None
    """Since when that is known."""
    valid_from: datetime
    """When it began to be true: as told, else when it happened or was recorded, whichever is
    earlier."""
    valid_to: datetime | None
    recorded_at: datetime
    memory_type: str
    content: str
    access_count: int
    success_count: int
    failure_count: int
    projects: tuple[str, ...]
    success_interval: Interval
    """Where its true rate of success lies, with a confidence of 95 %, over a uniform prior."""
    decision: PromotionDecision | None
    """Whether the policy would promote it now; None outside working, and of what was promoted."""
    near: tuple[NearMemory, ...]
    """What is near to it in working, in any project, and says something else: that is no evidence;
    empty where nothing is decided."""
    history: tuple[MoveRecord, ...]
    sources: tuple[Relative, ...]
    successors: tuple[Relative, ...]
    derived: tuple[Relative, ...]
    """What was concluded from it."""
    origins: tuple[Origin, ...]
    """What it came from, what that came from, and so on: the nearest first, each once."""

    @property
    def outdated_by(self) -> tuple[Origin, ...]:
        """Return its origins that are superseded, unless by one that it rests on instead."""
        return tuple(
            origin
            for origin in self.origins
            if origin.state == "superseded" and not origin.replaced
        )

    def __str__(self) -> str:
        """A paragraph of a line each: what it says, its evidence, its history, its relatives."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        since = "" if self.state_at is None else f" since {self.state_at:%Y-%m-%d}"
        rests = ", rests on what was superseded" if self.outdated_by else ""
        until = "" if self.valid_to is None else f" until {self.valid_to:%Y-%m-%d}"
        yield f"memory: {shorten_line(self.content, LINE_LENGTH)}"
        kind = printable_line(self.memory_type)
        yield f"stands: {self.tier} {kind}, {self.state or 'current'}{since}{rests}"
        yield f"true: from {self.valid_from:%Y-%m-%d}{until}, recorded {self.recorded_at:%Y-%m-%d}"
        yield f"evidence: {self._evidence()}"
        if self.decision is not None:
            yield f"policy: {self.decision.verdict}: {self.decision}"
        if self.near:
            yield f"near, not counted: {printable_line(', '.join(map(str, self.near)))}"
        for record in self.history:
            undone = " (rolled back)" if record.undone_at else ""
            yield f"{record.at:%Y-%m-%d} {record.kind}{undone}: {'; '.join(record.reasons)}"
        for origin in self.origins:
            if origin.state == "retracted" or origin in self.outdated_by:
                yield f"{origin.state}: {' → '.join(map(printable_line, reversed(origin.path)))}"
        for other in (*self.sources, *self.successors, *self.derived):
            text = f": {shorten_line(other.content, LINE_LENGTH)}" if other.content else ""
            stands = f"({other.tier}, {other.state or 'current'})"
            yield f"{other.role}: {printable_line(other.key)} {stands}{text}"

    def _evidence(self) -> str:
        low, high = self.success_interval
        tries = self.success_count + self.failure_count
        of_tries = f"{self.success_count} of {tries} runs succeeded, {low:.2f} to {high:.2f}"
        projects = ", ".join(map(printable_line, self.projects)) or "none"
        return f"{self.access_count} accesses, {of_tries}; projects: {projects}"


def read_explanation(
    memory_id: int, job: PromotionJob, context: MemoryContext
) -> Flow[Explanation]:
    """Read all that is known of a memory in that context, in two round trips.

    Raises:
        InvalidInputError: if it was removed meanwhile.
    """
    candidates = yield from read_evidence(job.tenant, [memory_id])
    params = {**context.whose, "id": memory_id}
    names = ("history_of", "relatives", "derivation")
    standing = Call("standing", {"tenant": job.tenant, "ids": [memory_id]})
    *answers, rows = yield Query((*(Call(name, params) for name in names), standing), commit=True)
    if not (candidates and rows):
        raise InvalidInputError("the memory was removed meanwhile: there is nothing to explain")
    history, relatives, edges = answers
    plan = plan_promotion(candidates[0], job)
    memory = plan.candidate
    _, state, state_at, began, ended, recorded_at, *_ = rows[0]
    if state is None and memory.successor is not None and memory.successor["state"] != "demoted":
        state = "consolidated"  # what was promoted is told to be that
        risen = [at for _, kind, at, _, undone in history if kind in _RISEN and undone is None]
        state_at = max(risen, default=None)
    related = [_read_relative(row, context) for row in relatives]
    sources, successors, derived = (
        tuple(each for each in related if each.role == role)
        for role in ("source", "successor", "derived")
    )
    is_open = memory.tier == Tier.WORKING and memory.state is None and memory.successor is None
    return Explanation(
        key=memory.key,
        namespace=decode_namespace(job.tenant, memory.namespace),
        tier=Tier(memory.tier),
        state=state,
        state_at=state_at,
        valid_from=began,
        valid_to=ended,
        recorded_at=recorded_at,
        memory_type=memory.memory_type,
        content=memory.content,
        access_count=memory.access_count,
        success_count=memory.success_count,
        failure_count=memory.failure_count,
        projects=tuple(plan.evidence.projects),
        success_interval=beta_interval(memory.success_count, memory.failure_count, CONFIDENCE),
        decision=plan.decision if is_open else None,
        near=plan.near if is_open else (),
        history=tuple(move_record(row) for row in history),
        sources=sources,
        successors=successors,
        derived=derived,
        origins=tuple(_trace_origins(memory, edges, context)),
    )


def _trace_origins(
    memory: PromotionCandidate, edges: Sequence[Row], context: MemoryContext
) -> Iterator[Origin]:
    """All that a memory came from, nearest first."""
    of: dict[int, list[Row]] = {}
    for edge in edges:
        of.setdefault(edge[0], []).append(edge)
    visited = {memory.id}
    waiting: deque[tuple[int, tuple[str, ...], bool]] = deque([(memory.id, (memory.key,), False)])
    while waiting:
        id_, path, replaced = waiting.popleft()
        for _, origin, namespace, key, tier, state, value, seen, by in of.get(id_, ()):
            if seen and origin not in visited:
                visited.add(origin)
                waiting.append((origin, (*path, key), by or replaced))
                place = decode_namespace(context.root, namespace)
                content = visible_content(value, state, Tier(tier), place, context)
                yield Origin((*path, key), place, Tier(tier), state, content, by or replaced)


def move_record(row: Row) -> MoveRecord:
    """A move as `history` tells it: its name, kind, moment, detail, and when it was undone."""
    move, kind, at, detail, undone_at = row
    return MoveRecord(move, kind, at, tuple(detail.get("reasons", ())), undone_at)


def visible_content(
    value: Mapping[str, Any],
    state: str | None,
    tier: Tier,
    namespace: tuple[str, ...],
    context: MemoryContext,
) -> str:
    """What is shown of a memory beside another: nothing of what is quarantined, or not reached."""
    return visible_text(value, state) if context.reaches(tier, namespace) else ""


def _read_relative(row: Row, context: MemoryContext) -> Relative:
    role, namespace, key, tier, state, value = row
    place = decode_namespace(context.root, namespace)
    content = visible_content(value, state, Tier(tier), place, context)
    return Relative(role, place, key, Tier(tier), state, content)
