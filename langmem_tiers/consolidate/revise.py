"""Revising what is known: superseding, retracting, and the way back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import uuid4

from langmem_tiers.core.config import StoreOptions
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.values import trust_of
from langmem_tiers.postgres.flow import Call, Flow, Query, Row, anew
from langmem_tiers.recall.candidates import Candidate
from langmem_tiers.remember.trust import SPOKEN_FOR
from langmem_tiers.store.write import LOCK, lock_call

_SUPERSEDED = "superseded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Retraction:
    """What a retraction did."""

    key: str
    move: str
    """What `rollback` takes."""
    suspects: tuple[str, ...] = ()
    """Keys of what came from the memory, directly or not, and is suspect now."""

    def __str__(self) -> str:
        """What was retracted, and how much is suspect."""
        return f"{self.key} retracted; {len(self.suspects):,} memories became suspect"


@dataclass(frozen=True, slots=True, kw_only=True)
class Restoration:
    """What a restoration did."""

    key: str
    state: str | None
    """What the memory is now: None is current, `suspect` if something else it came from is
    retracted."""
    restored: tuple[str, ...] = ()
    """Keys of what came from it and is no longer suspect."""

    def __str__(self) -> str:
        """How the memory stands, and how much is not suspect any more."""
        stands = self.state or "current"
        return f"{self.key} is {stands}; {len(self.restored):,} memories are no longer suspect"


class Revising(NamedTuple):
    """What holds for a revision."""

    tenant: str
    options: StoreOptions
    now: datetime

    def lock(self, *memories: Candidate) -> Call:
        """The call that makes all moves of the tenant, and writers of these, wait."""
        keys = [(self.tenant, one.namespace, one.key) for one in memories]
        return lock_call([(self.tenant, "", LOCK), *keys], self.options)

    def standing(self, *memories: Candidate) -> Call:
        """The call that reads how memories stand."""
        ids = [one.id for one in memories]
        return Call("standing", {"tenant": self.tenant, "ids": ids})


class Standing(NamedTuple):
    """How a memory stands; a row of standing, the columns are in this order."""

    id: int
    state: str | None
    state_at: datetime | None
    began: datetime
    """When it began to be true: as told, else when it happened or was recorded, whichever is
    earlier."""
    valid_to: datetime | None
    recorded_at: datetime
    ends_others: datetime
    """When what it supersedes ceased to be true."""


def supersede(old: Candidate, new: Candidate, how: Revising) -> Flow[str]:
    """End the truth of a memory where that of another began; the move.

    Raises:
        InvalidInputError: if they are the same, either is not current, or the other began before,
            or a tool or page says the other and the memory is trusted more.
    """
    if old.id == new.id:
        raise InvalidInputError(f"{old.key!r} cannot supersede itself: name the newer memory")
    trusts = trust_of(old.value), trust_of(new.value)
    if trusts[1] < min(SPOKEN_FOR, trusts[0]):
        raise InvalidInputError(
            f"{old.key!r} is trusted more ({trusts[0]:g}) than {new.key!r} ({trusts[1]:g}), which "
            "so does not supersede it: store what is so with the source that knows it"
        )
    return anew(lambda: _supersede(old, new, how))


def _supersede(old: Candidate, new: Candidate, how: Revising) -> Flow[str]:
    _, rows = yield Query((how.lock(old, new), how.standing(old, new)))
    found = {row[0]: Standing(*row) for row in rows}
    for one in (old, new):
        if one.id not in found:
            raise InvalidInputError(f"{one.key!r} was deleted meanwhile")
    for one, states in ((old, (None,)), (new, (None, _SUPERSEDED))):
        if found[one.id].state not in states:
            raise (yield from _not_current(one, found[one.id], how))
    _check_order(old.key, found[old.id], new.key, found[new.id])
    move = str(uuid4())
    params = {
        "tenant": how.tenant,
        "ids": [old.id],
        "targets": [new.id],
        "events": [move],
        "reasons": [f"superseded by {new.key}"],
        "now": how.now,
    }
    yield Query((Call("record_supersessions", params),), commit=True)
    return move


def _not_current(one: Candidate, stands: Standing, how: Revising) -> Flow[InvalidInputError]:
    """Why a memory can have no part in a supersession, and what to do."""
    (rows,) = yield Query((Call("successors", {"tenant": how.tenant, "id": one.id}),))
    ways = {
        "retracted": f"restore({one.key!r}) first, if it was true after all",
        "suspect": "restore what it came from first, or store what is right",
    }
    for _, by, _, kind, move in rows[:1]:
        ways["superseded"] = f"by {by!r}. To name another, roll that back first: rollback({move!r})"
        ways["consolidated"] = f"it was {kind} and lives on in {by!r}. Name that one"
    way = ways.get(str(stands.state), "what is superseded is current, and so is what supersedes")
    already = " already" if stands.state == _SUPERSEDED else ""
    return InvalidInputError(f"{one.key!r} is {stands.state}{already}: {way}")


def _check_order(key: str, old: Standing, by: str, new: Standing) -> None:
    late_enough = new.ends_others > old.began or (
        new.ends_others == old.began and new.state is None
    )
    if not late_enough:
        raise InvalidInputError(
            f"{by!r} is true from {new.ends_others.isoformat()}, which is not after "
            f"{key!r} began, {old.began.isoformat()}: supersede the other way round, or store it "
            "with valid_from"
        )


def retract(one: Candidate, reason: str, how: Revising) -> Flow[Retraction]:
    """Take a memory back, and make suspect all that came from it, in one transaction.

    Done again it changes nothing, and answers the first move.

    Raises:
        InvalidInputError: if it was deleted meanwhile.
    """
    return anew(lambda: _retract(one, reason, how))


def _retract(one: Candidate, reason: str, how: Revising) -> Flow[Retraction]:
    move = str(uuid4())
    params = {
        "tenant": how.tenant,
        "id": one.id,
        "event": move,
        "now": how.now,
        "detail": json.dumps({"reasons": [reason]}),
    }
    _, marked, doubted, known = yield Query(
        (
            how.lock(one),
            Call("retract", params),
            _doubt(how.tenant, one.id),
            Call("retraction", params),
        ),
        commit=True,
    )
    if not known:
        raise InvalidInputError(
            f"{one.key!r} was deleted meanwhile, or is quarantined: what is quarantined is not "
            "recalled, and reject() deletes it"
        )
    suspects = tuple(sorted(row[1] for row in doubted)) if marked else ()
    return Retraction(key=one.key, move=known[0][0], suspects=suspects)


def restore(one: Candidate, how: Revising) -> Flow[Restoration]:
    """Undo the retraction of a memory; what came from it alone is what it was before.

    Raises:
        InvalidInputError: if it is neither retracted, nor suspect without reason.
    """
    return anew(lambda: _restore(one, how))


def _restore(one: Candidate, how: Revising) -> Flow[Restoration]:
    params = {"tenant": how.tenant, "id": one.id, "now": how.now}
    _, rows, origins = yield Query((how.lock(one), how.standing(one), Call("derivation", params)))
    state = rows[0][1] if rows else None
    if state not in ("retracted", "suspect"):
        raise InvalidInputError(f"{one.key!r} is {state or 'current'}: nothing is to be restored")
    retracted = sorted({row[3] for row in origins if row[5] == "retracted"})
    if state == "suspect" and retracted:
        raise InvalidInputError(
            f"{one.key!r} is suspect, as it came from {', '.join(map(repr, retracted[:3]))}: "
            "restore that, or store what is right"
        )
    undo = (Call("undo_retraction", params),) if state == "retracted" else ()
    *_, changed = yield Query((*undo, _doubt(how.tenant, one.id)), commit=True)
    return _restoration(one, changed, still_suspect=bool(retracted))


def _restoration(one: Candidate, changed: Sequence[Row], *, still_suspect: bool) -> Restoration:
    states: dict[int, tuple[str, Any]] = {row[0]: (row[1], row[2]) for row in changed}
    _, state = states.pop(one.id, (one.key, "suspect" if still_suspect else None))
    restored = sorted(key for key, stands in states.values() if stands != "suspect")
    return Restoration(key=one.key, state=state, restored=tuple(restored))


def _doubt(tenant: str, memory_id: int) -> Call:
    return Call("doubt", {"tenant": tenant, "ids": [memory_id], "events": []})
