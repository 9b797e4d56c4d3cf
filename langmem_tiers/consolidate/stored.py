"""What a step reads of stored memories, and holds while it changes them.

Merging and superseding look at what changed, and at what is near to it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any, NamedTuple
from uuid import NAMESPACE_OID, uuid5

from langmem_tiers.consolidate.lease import check_guard, guard
from langmem_tiers.consolidate.steps import Applied, Cycle, Decision, Finding, Item
from langmem_tiers.core.memory import Tier
from langmem_tiers.core.values import content_of, source_of, trust_of
from langmem_tiers.postgres.flow import Call, Flow, Query, Rows, anew
from langmem_tiers.store.write import LOCK, lock_call

GONE = "it was deleted meanwhile"
CHANGED = "it changed meanwhile"
TARGET_CHANGED = "the other one changed meanwhile"
CURRENT_TIERS = (Tier.WORKING, Tier.LONG_TERM)
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


class Group(NamedTuple):
    """What can say the same, or contradict each other: memories of one home and type."""

    memories: Mapping[int, Stored]
    near: Mapping[tuple[int, int], float]
    """How near two are, in either order: their cosine or the share of words, whichever is more."""

    def items(self) -> list[Item]:
        """The memories as they are compared."""
        return [_item(one) for one in self.memories.values()]

    @property
    def characters(self) -> int:
        """How much is to be read to judge them."""
        return sum(len(content_of(one.value)) for one in self.memories.values())


def select(
    cycle: Cycle, step: str, after: int, limit: int, memory_types: Sequence[str] | None = None
) -> Flow[list[int]]:
    """What changed since a step last saw everything."""
    params = {
        "tenant": cycle.tenant,
        "step": step,
        "after": after,
        "limit": limit,
        "now": cycle.moment.now,
        "alive_at": cycle.moment.alive_at,
        "memory_types": None if memory_types is None else list(memory_types),
    }
    (rows,) = yield Query((Call("select_changed", params),), commit=True)
    return [row[0] for row in rows]


def note_seen(cycle: Cycle, step: str) -> Flow[None]:
    """Everything that was there at the cycle's moment has been looked at.

    Raises:
        LeaseLostError: if somebody else consolidates the tenant.
    """
    return anew(lambda: _note_seen(cycle, step))


def _note_seen(cycle: Cycle, step: str) -> Flow[None]:
    (guarded,) = yield Query((guard(cycle),))
    check_guard(guarded, cycle.tenant)
    params = {"tenant": cycle.tenant, "step": step, "seen": cycle.moment.now - GRACE}
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

    def apart(one: Stored) -> tuple[str, str, str]:
        return (one.home, one.memory_type, one.tier if same_tier else "")

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
        "tenant": cycle.tenant,
        "ids": sorted(ids),
        "alive_at": cycle.moment.alive_at,
        "same_tier": same_tier,
        "also": also,
        "limit": NEAREST,
        "overlap": OVERLAP,
        "looked_at": LOOKED_AT,
        "exact": exact,
    }
    by_words = Call("near_by_words", params)
    if index.vector is None:
        (rows,) = yield Query((by_words,), commit=True)
        return _pairs(rows)
    rows, near = yield Query(
        (by_words, Call("near_by_vector", params | {"also": None})), commit=True
    )
    if not rows:
        return _pairs(near)
    pairs = {"ids": [row[0] for row in rows], "others": [row[1] for row in rows]}
    (known,) = yield Query((Call("cosines", {**pairs, "tenant": cycle.tenant}),), commit=True)
    return _pairs([*rows, *near, *known])


def _pairs(rows: Rows) -> dict[tuple[int, int], float]:
    found: dict[tuple[int, int], float] = {}
    for one, other, how in rows:
        found[one, other] = max(how, found.get((one, other), 0.0))
    return found


def _item(one: Stored) -> Item:
    speaker = one.value.get("speaker")
    return Item(
        id=one.id,
        created_at=one.created_at,
        content=content_of(one.value),
        memory_type=one.memory_type,
        speaker=speaker if isinstance(speaker, str) else None,
        namespace=one.namespace,
        occurred_at=one.occurred_at,
        valid_from=one.valid_from,
        trust=trust_of(one.value),
        session=one.session,
        source=source_of(one.value),
    )
