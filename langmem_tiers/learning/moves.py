"""Demote memories, undo moves, and explain the state of a memory.

A move is a promotion or demotion, or a change by consolidation, superseding or retracting.
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
from langmem_tiers.core.texts import LINE_LENGTH, printable_line, shorten_line
from langmem_tiers.core.values import visible_text
from langmem_tiers.learning import promotion_policy as rules
from langmem_tiers.learning.outcome import (
    ENOUGH,
    LEARNED,
    HoldoutCounts,
    Interval,
    beta_interval,
    chance_of_harm,
)
from langmem_tiers.learning.promote import (
    ALL_USERS,
    PAGE,
    NearMemory,
    PromotionJob,
    plan_promotion,
    read_evidence,
)
from langmem_tiers.learning.promotion_policy import PromotionCandidate, PromotionDecision
from langmem_tiers.postgres.flow import Call, Flow, Query, Row, retried_on_conflict, rows_of
from langmem_tiers.store.write import LOCK, Write, delete_calls, lock_call

# ---- demotion and rollback -------------------------------------------------------------------

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
    """The result of judging a memory by its outcomes."""

    demoted: bool
    key: str
    move: str | None = None
    """Id of the move, for `learning.rollback`."""
    decision: rules.PromotionDecision

    def __str__(self) -> str:
        """Return the decision and its reasons."""
        return f"{self.key} {'demoted' if self.demoted else 'stays'} ({self.decision})"


class _Event(NamedTuple):
    """A row of the statement `event`, with its columns in this order."""

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
        """Tell whether the context owns the memory that the move made or changed, if it exists."""
        if self.user_id not in (None, context.user_id):
            return False
        if self.namespace is None or context.project_id is None:
            return True
        return context.can_reach(str(self.tier), decode_namespace(context.root, self.namespace))


class DemotionCandidate(NamedTuple):
    """A promoted or learned memory, and the decision on its outcomes."""

    id: int
    namespace: str
    key: str
    updated_at: datetime
    tier: str
    decision: rules.PromotionDecision
    counts: HoldoutCounts | None = None
    """Outcomes of the runs with the memory and without it; None for a promoted memory."""
    content: str = ""
    """Beginning of the content of a learned memory."""


def demote_all(
    context: MemoryContext, policy: rules.PromotionPolicy, options: StoreOptions, moment: Moment
) -> Flow[list[Demotion]]:
    """Demote the context's memories with bad outcomes. Return all that were judged, each once."""
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
    """Find promoted memories that failed a run since, and learned ones that were held out, by id.

    A memory that is both is judged by both rules, and demoted if either says so.
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
    """Return the call that demotes a memory, given by id and tier. Its keys have to be locked."""
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
    """Undo a move of the context's memories; False if it was undone before.

    Raises:
        InvalidInputError: if there is no such move, or it belongs to another project or user.
        RollbackError: if a later move depends on it, its memory was changed since, or none of
            its sources is left.
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


# ---- explanation of a memory's state ---------------------------------------------------------

CONFIDENCE = 0.95
_RISEN = ("promoted", "reinforced")


class Relative(NamedTuple):
    """A memory that another one was derived from, or that was derived from it."""

    role: str
    """`source`; `successor`: the memory was promoted as this one, or lives on in it; or `derived`:
    this one was concluded from the memory."""
    namespace: tuple[str, ...]
    key: str
    tier: Tier
    state: str | None
    content: str
    """Empty of what is quarantined, and of what another project keeps."""


class Origin(NamedTuple):
    """A memory from which another one was derived, directly or not."""

    path: tuple[str, ...]
    """Keys on the shortest path from the explained memory to this one."""
    namespace: tuple[str, ...]
    tier: Tier
    state: str | None
    """`retracted` makes all derived memories suspect; `superseded` makes them outdated."""
    content: str
    """Empty of what is quarantined, and of what another project keeps."""
    replaced: bool = False
    """True if the memory derived from this one, on this path, superseded it."""

    @property
    def key(self) -> str:
        """Return the key of the memory."""
        return self.path[-1]


class MoveRecord(NamedTuple):
    """A move of a memory."""

    move: str
    kind: str
    """`promoted`, `reinforced`, `demoted`, `merged`, `risen`, `superseded`, `retracted`; or
    `reflected`: an attempt lives on in its lesson; `derived`: it was concluded from another memory;
    `quarantined`, `released`, `rejected`, `evicted`: by the gate, or somebody after it; `deleted`:
    the memory that it was merged into was deleted; or `read`: a model summed it up as its session
    ended."""
    at: datetime
    reasons: tuple[str, ...]
    undone_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The evidence, decision, history and relatives of a memory."""

    key: str
    namespace: tuple[str, ...]
    tier: Tier
    state: str | None
    """None is current; `consolidated` was merged into another memory, or was promoted and is
    recalled in its own project as before; `demoted` was promoted and failed; `superseded` was true
    until `valid_to`; `retracted` was never true; `suspect` was derived from a retracted memory;
    `quarantined` is held back by the gate."""
    state_at: datetime | None
    """Time since which the state is known."""
    valid_from: datetime
    """Beginning of its valid time: as given, else when it happened or was recorded, whichever is
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
    """Interval of its true rate of success, with a confidence of 95 %, over a uniform prior."""
    decision: PromotionDecision | None
    """The policy's decision to promote it now; None outside working, and for a promoted memory."""
    near: tuple[NearMemory, ...]
    """Similar memories in working, of any project, that say something else. They are no evidence.
    Empty if there is no decision."""
    history: tuple[MoveRecord, ...]
    sources: tuple[Relative, ...]
    successors: tuple[Relative, ...]
    derived: tuple[Relative, ...]
    """Memories that were concluded from it."""
    origins: tuple[Origin, ...]
    """All memories from which it was derived, directly or not: the nearest first, each once."""

    @property
    def outdated_by(self) -> tuple[Origin, ...]:
        """Return the superseded origins, but those whose successor the memory rests on."""
        return tuple(
            origin
            for origin in self.origins
            if origin.state == "superseded" and not origin.replaced
        )

    def __str__(self) -> str:
        """Return lines with the content, evidence, history and relatives."""
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
    """Read the explanation of a memory in a context, in two round trips.

    Raises:
        InvalidInputError: if the memory was removed meanwhile.
    """
    candidates = yield from read_evidence(job.tenant, [memory_id])
    params = {**context.scope_params, "id": memory_id}
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
        state = "consolidated"  # a promoted memory is called that
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
    """Yield all memories from which a memory was derived, the nearest first."""
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
    """Return the move of a row of `history`: its id, kind, time, reasons, and time of undoing."""
    move, kind, at, detail, undone_at = row
    return MoveRecord(move, kind, at, tuple(detail.get("reasons", ())), undone_at)


def visible_content(
    value: Mapping[str, Any],
    state: str | None,
    tier: Tier,
    namespace: tuple[str, ...],
    context: MemoryContext,
) -> str:
    """Return the content to show beside another memory; empty if quarantined or out of reach."""
    return visible_text(value, state) if context.can_reach(tier, namespace) else ""


def _read_relative(row: Row, context: MemoryContext) -> Relative:
    role, namespace, key, tier, state, value = row
    place = decode_namespace(context.root, namespace)
    content = visible_content(value, state, Tier(tier), place, context)
    return Relative(role, place, key, Tier(tier), state, content)
