"""What a step reads of stored memories, and holds while it changes them.

Merging and superseding look at what changed, and at what is near to it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import chain, groupby
from typing import Any, NamedTuple
from uuid import NAMESPACE_OID, uuid5

from langmem_tiers.consolidate import steps
from langmem_tiers.consolidate.lease import check_guard, guard
from langmem_tiers.consolidate.steps import Cycle, StepCounts, StepDecision
from langmem_tiers.core.memory import Tier
from langmem_tiers.core.values import content_of, source_of, trust_of
from langmem_tiers.postgres.flow import Call, Flow, Query, begun_anew, rows_of
from langmem_tiers.store.write import LOCK, lock_call

GONE = "it was deleted meanwhile"
CHANGED = "it changed meanwhile"
TARGET_CHANGED = "the other one changed meanwhile"
NEAREST = 20
"""Neighbours of each memory that are looked at, by vectors and by words."""
OVERLAP = 0.2
"""The share of words in common that two memories need to be looked at for their words."""
LOOKED_AT = 400
"""Memories that share a word with one that changed, by its rarest words first: so many are looked
at. With half as many a few are missed in homes of 20,000, and none in homes of 2,000."""
EXACT = 1_000
"""Vectors of a home in a tier up to which the nearest are sought if no model is asked: 2 µs each
for every memory that changed."""
GRACE = timedelta(minutes=1)
"""How long a write may take from its beginning, which dates it, to its commit. What changed that
shortly before a cycle is looked at by the next one as well."""
MISSED = timedelta(minutes=10)
"""How long after it began a cycle that has not ended is no longer waited for: our own choice."""


class Stored(NamedTuple):
    """A memory that is judged; a row of stored_memories, the columns are in this order."""

    id: int
    namespace: str
    key: str
    tier: str
    state: str | None
    value: dict[str, Any]
    created_at: datetime
    updated_at: datetime
    session: str | None
    occurred_at: datetime | None
    valid_from: datetime | None
    valid_to: datetime | None
    access_count: int
    home: str
    """Where it is compared: its namespace, without its user and its session at the end."""
    user_id: str | None = None
    turn: int | None = None
    """Which one of its session it was said in, if it was."""

    def __hash__(self) -> int:
        return self.id

    @property
    def version(self) -> str:
        """As decisions name it."""
        return steps.version(self.updated_at)

    @property
    def content(self) -> str:
        """What it says."""
        return content_of(self.value)

    @property
    def importance(self) -> float | None:
        """In 0…1, if somebody told."""
        told = self.value.get("importance")
        return told if isinstance(told, int | float) and not isinstance(told, bool) else None

    @property
    def memory_type(self) -> str:
        """Its kind."""
        return str(self.value.get("memory_type") or "episodic")

    @property
    def speaker(self) -> str | None:
        """Who said it, if that was told."""
        told = self.value.get("speaker")
        return told if isinstance(told, str) else None

    @property
    def told_by(self) -> tuple[object, ...]:
        """Who said it, by whom it came, how trusted: else whoever spoke in that session."""
        by = source_of(self.value), trust_of(self.value)
        if self.speaker is not None:
            return *by, self.speaker
        return *by, "", self.namespace, self.session or ""

    @property
    def told_at(self) -> datetime:
        """When it happened, if that was told, else when it was stored."""
        return self.occurred_at or self.created_at

    @property
    def since(self) -> datetime:
        """Since when it is true, as far as anybody told."""
        return self.valid_from or self.told_at

    @property
    def recorded(self) -> tuple[datetime, int]:
        """What is older comes first, the id breaking ties."""
        return self.created_at, self.id

    @property
    def order(self) -> tuple[datetime, datetime, int]:
        """What was true earlier comes first; told at the same time, what was recorded first."""
        return self.since, self.created_at, self.id


class StoredNow(NamedTuple):
    """A memory as it is now; a row of hold_memories, the columns are in this order."""

    id: int
    updated_at: datetime
    tier: str
    state: str | None
    alive: bool
    lived_on: bool
    """Whether it lives on in another one, or has: one that was demoted since."""


class LockedRows(NamedTuple):
    """What an `apply` goes by, in its transaction."""

    memories: dict[int, StoredNow]
    moves: dict[str, list[int] | None]
    """Those that were written before, with what they moved to a target if that was several."""

    def has_done(self, move: str, one: StepDecision) -> bool:
        """Whether a decision was carried out before."""
        if one["target"] is None or move not in self.moves:
            return move in self.moves
        several = self.moves[move]
        return several is None or one["id"] in several


def select(cycle: Cycle, statement: str, after: int, limit: int, **params: Any) -> Flow[list[int]]:
    """The ids that a statement finds above `after`, ascending."""
    asked = {**cycle.params, "after": after, "limit": limit, **params}
    rows = yield from rows_of(statement, **asked)
    return [row[0] for row in rows]


def read(cycle: Cycle, ids: Iterable[int]) -> Flow[list[Stored]]:
    """These memories, by id."""
    rows = yield from rows_of("stored_memories", tenant=cycle.tenant, ids=sorted(set(ids)))
    return [Stored(*row) for row in rows]


def undone(cycle: Cycle, kind: str, ids: Iterable[int]) -> Flow[set[tuple[int, int]]]:
    """Moves of these memories that were rolled back, and are not made again: what went where."""
    rows = yield from rows_of("undone_pairs", tenant=cycle.tenant, kind=kind, ids=sorted(ids))
    return {(row[0], row[1]) for row in rows}


def hold(
    cycle: Cycle, decisions: Sequence[StepDecision], moves: Iterable[str] = ()
) -> Flow[LockedRows]:
    """Lock what decisions are about, and see how it is now. The transaction stays open.

    Raises:
        LeaseLostError: if somebody else consolidates the tenant.
    """
    keys = [(cycle.tenant, "", LOCK)]
    ids: set[int] = set()
    for one in decisions:
        ids.add(one["id"])
        keys.append((cycle.tenant, one["namespace"], one["key"]))
        if one["target"] is not None:
            ids.add(one["target"])
            keys.append((cycle.tenant, one["target_namespace"] or "", one["target_key"] or ""))
    calls = (
        lock_call(keys, cycle.options),
        guard(cycle),
        Call("known_moves", {**cycle.params, "events": sorted(set(moves))}),
        Call("hold_memories", {**cycle.params, "ids": sorted(ids)}),
    )
    _, guarded, known, rows = yield Query(calls)
    check_guard(guarded, cycle.tenant)
    held = (StoredNow(*row) for row in rows)
    return LockedRows({one.id: one for one in held}, {row[0]: row[1] for row in known})


def move_id(cycle: Cycle, step: str, source: int, target: int | None = None) -> str:
    """Names what a step does to a memory, the same each time it is done."""
    return str(uuid5(NAMESPACE_OID, json.dumps([cycle.cycle, step, source, target])))


class MovingStep(steps.CycleStep):
    """A step that moves memories, and can be asked to do so again: a move done before is done."""

    tiers: Collection[str] = (Tier.WORKING, Tier.LONG_TERM)
    """Where a memory must still stand to be moved."""
    statement: str
    """What carries decisions out, of their parameters."""
    target_states: Collection[str | None] = (None,)
    """How that which it lives on in, or which supersedes it, must stand."""

    def moves(self, cycle: Cycle, decisions: Sequence[StepDecision]) -> dict[int, str]:
        """The move of each memory, by id."""
        return {one["id"]: move_id(cycle, self.name, one["id"], one["target"]) for one in decisions}

    def against(self, held: LockedRows, one: StepDecision, move: str) -> str | None:  # noqa: ARG002 - some look at it
        """Why a decision cannot be carried out any more; None if it can."""
        memory = held.memories.get(one["id"])
        if memory is None or not memory.alive:
            return GONE
        if memory.state is not None or memory.tier not in self.tiers:
            return CHANGED
        if steps.version(memory.updated_at) != one["version"]:
            return CHANGED
        if one["target"] is None:
            return None
        target = held.memories.get(one["target"])
        if target is None or not target.alive or target.state not in self.target_states:
            return TARGET_CHANGED
        as_judged = steps.version(target.updated_at) == one["target_version"]
        return None if as_judged else TARGET_CHANGED

    def records(
        self,
        cycle: Cycle,  # noqa: ARG002 - some look at it
        todo: Sequence[StepDecision],  # noqa: ARG002
        params: dict[str, Any],
    ) -> Sequence[Call]:
        """The calls that carry out decisions, of these and of their parameters."""
        return [Call(self.statement, params)]

    @begun_anew
    def apply(self, cycle: Cycle, decisions: Sequence[StepDecision]) -> Flow[StepCounts]:
        """Move those that are as they were judged, in one transaction.

        Raises:
            LeaseLostError: if somebody else consolidates the tenant.
        """
        moves = self.moves(cycle, decisions)
        held = yield from hold(cycle, decisions, moves.values())
        open_ = [one for one in decisions if not held.has_done(moves[one["id"]], one)]
        against = {one["id"]: self.against(held, one, moves[one["id"]]) for one in open_}
        left = {one: why for one, why in against.items() if why is not None}
        todo = [one for one in open_ if one["id"] not in left]
        params = {
            **cycle.params,
            "ids": [one["id"] for one in todo],
            "targets": [one["target"] for one in todo],
            "events": [moves[one["id"]] for one in todo],
            "reasons": [one["reason"] for one in todo],
        }
        yield Query(tuple(self.records(cycle, todo, params)) if todo else (), commit=True)
        moved = dict.fromkeys(moves[one["id"]] for one in decisions if one["id"] not in left)
        return steps.carried_out(decisions, left, moved)


class Group(NamedTuple):
    """What can say the same, or contradict each other: memories of one home, type and user."""

    memories: Mapping[int, Stored]
    near: Mapping[tuple[int, int], float]
    """How near two are, in either order: their cosine or the share of words, whichever is more."""

    @property
    def characters(self) -> int:
        """How much is to be read to judge them."""
        return sum(len(one.content) for one in self.memories.values())


def note_seen(cycle: Cycle, step: str) -> Flow[dict[str, int]]:
    """Everything that was there at the cycle's moment has been looked at.

    Raises:
        LeaseLostError: if somebody else consolidates the tenant.
    """
    yield from _note(cycle, step, cycle.moment.now - GRACE)
    return {}


def note_cycle(cycle: Cycle) -> Flow[None]:
    """The cycle has ended: by when it began the tenant's next one is due.

    Raises:
        LeaseLostError: if somebody else consolidates the tenant.
    """
    return _note(cycle, "cycle", cycle.moment.now)


def last_cycle(tenant: str) -> Flow[datetime | None]:
    """When the last cycle of a tenant that ended had begun; None if there was none."""
    rows = yield from rows_of("last_cycle", tenant=tenant)
    return rows[0][0] if rows else None


def claim_cycle(tenant: str, now: datetime, every: timedelta) -> Flow[bool]:
    """Whether a cycle that is due by time may begin; of several runs that ask one is told so.

    One that began is missed if it has not ended after `MISSED`.
    """
    rows = yield from rows_of("claim_cycle", tenant=tenant, now=now, since=now - min(every, MISSED))
    return bool(rows)


@begun_anew
def _note(cycle: Cycle, step: str, seen: datetime) -> Flow[None]:
    (guarded,) = yield Query((guard(cycle),))
    check_guard(guarded, cycle.tenant)
    params = {"tenant": cycle.tenant, "step": step, "seen": seen}
    yield Query((Call("note_seen", params),), commit=True)


def groups(
    cycle: Cycle, ids: Sequence[int], *, same_tier: bool, thorough: bool, also: str | None = None
) -> Flow[list[Group]]:
    """These memories and their neighbours, apart by what can be compared.

    Neighbours are current; with `also`, those in that state that share words are looked at as well.
    If `thorough`, the nearest are sought among as many vectors as a search goes through.
    """
    exact = cycle.options.exact_limit if thorough else EXACT
    pairs = yield from _near(cycle, ids, same_tier=same_tier, exact=exact, also=also)
    found = yield from read(cycle, {*ids, *(other for _, other in pairs)})
    seen = [one for one in found if one.state is None or one.state == also]

    def apart(one: Stored) -> tuple[str, ...]:
        return (one.home, one.memory_type, one.user_id or "", one.tier if same_tier else "")

    made = []
    for _, several in groupby(sorted(seen, key=lambda one: (apart(one), one.id)), apart):
        memories = {one.id: one for one in several}
        near = {pair: how for pair, how in pairs.items() if memories.keys() >= set(pair)}
        made.append(Group(memories, near))
    return made


def _near(
    cycle: Cycle, ids: Sequence[int], *, same_tier: bool, exact: int, also: str | None
) -> Flow[dict[tuple[int, int], float]]:
    """Pairs of these and their neighbours, and how near they are."""
    index = cycle.options.index
    if index is None:
        return {}
    params = {
        **cycle.params,
        "ids": sorted(ids),
        "same_tier": same_tier,
        "also": also,
        "limit": NEAREST,
        "overlap": OVERLAP,
        "looked_at": LOOKED_AT,
        "exact": exact,
    }
    calls = [Call("near_by_words", params)]
    if index.vector is not None:
        calls.append(Call("near_by_vector", params | {"also": None}))
    rows, *near = yield Query(tuple(calls), commit=True)
    if rows and near:
        pairs = {"ids": [row[0] for row in rows], "others": [row[1] for row in rows]}
        near += yield Query((Call("cosines", {**pairs, "tenant": cycle.tenant}),), commit=True)
    found: dict[tuple[int, int], float] = {}
    for one, other, how in chain(rows, *near):
        found[one, other] = max(how, found.get((one, other), 0.0))
    return found
