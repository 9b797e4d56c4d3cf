"""What a step reads of stored memories, and holds while it changes them."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import NAMESPACE_OID, uuid5

from langmem_tiers.consolidate.lease import check_guard, guard
from langmem_tiers.consolidate.steps import Applied, Cycle, Decision, Finding
from langmem_tiers.core.memory import Tier
from langmem_tiers.postgres.flow import Call, Flow, Query
from langmem_tiers.store.write import LOCK, lock_call

GONE = "it was deleted meanwhile"
CHANGED = "it changed meanwhile"
TARGET_CHANGED = "the other one changed meanwhile"
CURRENT_TIERS = (Tier.WORKING, Tier.LONG_TERM)


class Unnoted:
    """A step that finds what is next by what is stored: there is nothing to note."""

    def finish(self, cycle: Cycle) -> Flow[dict[str, int]]:  # noqa: ARG002 - others note something
        """Nothing is noted."""
        yield from ()
        return {}


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
    """Where it is compared: its namespace, without its session at the end."""

    @property
    def version(self) -> str:
        """As decisions name it."""
        return version(self.updated_at)

    @property
    def importance(self) -> float | None:
        """In 0…1, if somebody told."""
        told = self.value.get("importance")
        return told if isinstance(told, int | float) and not isinstance(told, bool) else None

    @property
    def told_to_last(self) -> tuple[datetime | None, datetime | None]:
        """From when, and until when, somebody said that it is true."""
        return self.valid_from, self.valid_to

    @property
    def since(self) -> datetime:
        """Since when it is true, as far as anybody told."""
        return self.valid_from or self.occurred_at or self.created_at

    @property
    def memory_type(self) -> str:
        """Its kind."""
        return str(self.value.get("memory_type") or "episodic")


class Held(NamedTuple):
    """A memory as it is now; a row of hold_memories, the columns are in this order."""

    id: int
    updated_at: datetime
    tier: str
    state: str | None
    alive: bool
    lived_on: bool
    """Whether it lives on in another one, or has: one that was demoted since."""


class Holding(NamedTuple):
    """What an `apply` goes by, in its transaction."""

    memories: dict[int, Held]
    moves: dict[str, list[int] | None]
    """Those that were written before, with what they moved."""

    def against(self, one: Decision, tiers: Collection[str]) -> str | None:
        """Why a decision cannot be carried out on its memory any more."""
        held = self.memories.get(one["id"])
        if held is None or not held.alive:
            return GONE
        as_judged = held.updated_at == datetime.fromisoformat(one["version"])
        fits = as_judged and held.state is None and held.tier in tiers
        return None if fits else CHANGED

    def target_against(self, one: Decision, states: Collection[str | None]) -> str | None:
        """Why it cannot be carried out any more on account of its target."""
        held = self.memories.get(one["target"] or 0)
        judged = one["target_version"]
        if held is None or not held.alive or judged is None or held.state not in states:
            return TARGET_CHANGED
        return None if held.updated_at == datetime.fromisoformat(judged) else TARGET_CHANGED


def read(cycle: Cycle, ids: Iterable[int]) -> Flow[list[Stored]]:
    """These memories, by id."""
    params = {"tenant": cycle.tenant, "ids": sorted(set(ids))}
    (rows,) = yield Query((Call("stored_memories", params),), commit=True)
    return [Stored(*row) for row in rows]


def undone(cycle: Cycle, kind: str, ids: Iterable[int]) -> Flow[set[tuple[int, int]]]:
    """Moves of these memories that were rolled back, and are not made again: what went where."""
    params = {"tenant": cycle.tenant, "kind": kind, "ids": sorted(ids)}
    (rows,) = yield Query((Call("undone_pairs", params),), commit=True)
    return {(row[0], row[1]) for row in rows}


def hold(cycle: Cycle, decisions: Sequence[Decision], moves: Iterable[str] = ()) -> Flow[Holding]:
    """Lock what decisions are about, and see how it is now. The transaction stays open.

    Raises:
        LeaseLostError: if somebody else consolidates the tenant.
    """
    ids = {one["id"] for one in decisions}
    ids |= {one["target"] for one in decisions if one["target"] is not None}
    events = sorted(set(moves))
    calls = (
        lock_call(_keys(cycle, decisions), cycle.options),
        guard(cycle),
        Call("known_moves", {"tenant": cycle.tenant, "events": events}),
        Call(
            "hold_memories",
            {"tenant": cycle.tenant, "ids": sorted(ids), "alive_at": cycle.moment.alive_at},
        ),
    )
    _, guarded, known, rows = yield Query(calls)
    check_guard(guarded, cycle.tenant)
    held = (Held(*row) for row in rows)
    return Holding({one.id: one for one in held}, {row[0]: row[1] for row in known})


def _keys(cycle: Cycle, decisions: Sequence[Decision]) -> list[tuple[str, str, str]]:
    keys = [(cycle.tenant, "", LOCK)]
    for one in decisions:
        keys += [(cycle.tenant, one["namespace"], one["key"])]
        if one["target_namespace"] is not None and one["target_key"] is not None:
            keys += [(cycle.tenant, one["target_namespace"], one["target_key"])]
    return keys


def move_id(cycle: Cycle, step: str, source: int, target: int | None) -> str:
    """Names what a step does to a memory, the same each time it is done."""
    return str(uuid5(NAMESPACE_OID, json.dumps([cycle.cycle, step, source, target])))


def version(moment: datetime) -> str:
    """A moment as decisions name it."""
    return moment.astimezone(UTC).isoformat()


def decision(one: Stored, reason: str, target: Stored | None = None) -> Decision:
    """That something is to become of a memory."""
    return Decision(
        id=one.id,
        namespace=one.namespace,
        key=one.key,
        version=one.version,
        reason=reason,
        target=None if target is None else target.id,
        target_namespace=None if target is None else target.namespace,
        target_key=None if target is None else target.key,
        target_version=None if target is None else target.version,
        detail={},
    )


def finding(one: Stored, reason: str, other: Stored) -> Finding:
    """That two memories are to be looked at by somebody."""
    return Finding(
        namespace=one.namespace,
        key=one.key,
        target_namespace=other.namespace,
        target_key=other.key,
        reason=reason,
    )


class Sorted(NamedTuple):
    """Decisions by what becomes of them."""

    todo: list[Decision]
    done: list[Decision]
    """Those, and what was done before."""
    left: list[str]
    """Why others are not carried out."""

    def applied(self, move: Callable[[Decision], str]) -> Applied:
        """What became of them; `move` names the move of each."""
        moves = dict.fromkeys(move(one) for one in self.done)
        done = counted(one["reason"] for one in self.done)
        return Applied(done=done, left=counted(self.left), moves=list(moves))


def sort_out(
    decisions: Iterable[Decision],
    known: Callable[[Decision], bool],
    against: Callable[[Decision], str | None],
) -> Sorted:
    """Which decisions are still to be carried out, and why others are not."""
    found = Sorted([], [], [])
    for one in decisions:
        before = known(one)
        reason = None if before else against(one)
        if reason is not None:
            found.left.append(reason)
            continue
        found.done.append(one)
        if not before:
            found.todo.append(one)
    return found


def counted(reasons: Iterable[str]) -> dict[str, int]:
    """How often each reason was given."""
    counts: dict[str, int] = {}
    for reason in reasons:
        counts[reason] = counts.get(reason, 0) + 1
    return counts
