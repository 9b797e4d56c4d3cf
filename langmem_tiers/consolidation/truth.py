"""Truth over time: superseding, retracting, restoring, and the history of a memory."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import uuid4

from langmem_tiers.core.config import StoreOptions
from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.memory import ASSISTANT_ROLES, Place, Tier, decode_namespace
from langmem_tiers.core.texts import LINE_LENGTH, printable_line, shorten_line
from langmem_tiers.core.values import content_of, trust_of
from langmem_tiers.learning.moves import MoveRecord, move_record, visible_content
from langmem_tiers.postgres.flow import Call, Flow, Query, Row, retried_on_conflict, rows_of
from langmem_tiers.recall.matching import Candidate
from langmem_tiers.remember.gate import OWN_EVIDENCE_TRUST
from langmem_tiers.store.write import LOCK, lock_call

_SUPERSEDED = "superseded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Retraction:
    """The result of a retraction."""

    key: str
    move: str
    """The move that `learning.rollback` takes."""
    suspects: tuple[str, ...] = ()
    """Keys of memories that came from the retracted one, directly or not, and are suspect now."""

    def __str__(self) -> str:
        """Return the retracted key, and the number of suspects."""
        return f"{self.key} retracted; {len(self.suspects):,} memories became suspect"


@dataclass(frozen=True, slots=True, kw_only=True)
class Restoration:
    """The result of a restoration."""

    key: str
    state: str | None
    """The memory's state now: None is current; `suspect` if another origin of it is retracted."""
    restored: tuple[str, ...] = ()
    """Keys of memories that came from it and are no longer suspect."""

    def __str__(self) -> str:
        """Return the memory's state, and the number of memories that are not suspect any more."""
        stands = self.state or "current"
        return f"{self.key} is {stands}; {len(self.restored):,} memories are no longer suspect"


class RevisionContext(NamedTuple):
    """The caller, options and time of a revision."""

    context: MemoryContext
    options: StoreOptions
    now: datetime

    @property
    def tenant(self) -> str:
        """Return the tenant in the database's form."""
        return self.context.root

    def lock_call(self, *memories: Candidate) -> Call:
        """Return the call that makes the tenant's moves, and writers of these memories, wait."""
        keys = [(self.tenant, memory.namespace, memory.key) for memory in memories]
        return lock_call([(self.tenant, "", LOCK), *keys], self.options)

    def states_call(self, *memories: Candidate) -> Call:
        """Return the call that reads the states of memories."""
        ids = [memory.id for memory in memories]
        return Call("standing", {"tenant": self.tenant, "ids": ids})


class CurrentState(NamedTuple):
    """The current state of a memory: a row of standing, with its columns in this order."""

    id: int
    state: str | None
    state_at: datetime | None
    began: datetime
    """The beginning of its truth: as told, else the earlier of its event and its record."""
    valid_to: datetime | None
    recorded_at: datetime
    ends_others: datetime
    """The end of the truth of a memory that it supersedes."""


@retried_on_conflict
def supersede_memory(old: Candidate, new: Candidate, revision: RevisionContext) -> Flow[str]:
    """End the truth of the old memory where that of the new one began; return the move.

    Raises:
        InvalidInputError: if they are the same, either is not current, or the new one began before;
            if a tool or page says the new one and the old one is trusted more; or if the new one is
            a user's and the old one is shared.
    """
    _check_may_supersede(old, new, revision.options)
    _, rows = yield Query((revision.lock_call(old, new), revision.states_call(old, new)))
    standing = {row[0]: CurrentState(*row) for row in rows}
    for memory in (old, new):
        if memory.id not in standing:
            raise InvalidInputError(f"{memory.key!r} was deleted meanwhile")
    for memory, states in ((old, (None,)), (new, (None, _SUPERSEDED))):
        if standing[memory.id].state not in states:
            raise (yield from _not_current_error(memory, standing[memory.id], revision))
    began, begins = standing[old.id].began, standing[new.id].ends_others
    if begins < began or (begins == began and standing[new.id].state is not None):
        raise InvalidInputError(
            f"{new.key!r} is true from {begins.isoformat()}, which is not after {old.key!r} began, "
            f"{began.isoformat()}: supersede the other way round, or store it with valid_from"
        )
    move = str(uuid4())
    params = {
        "tenant": revision.tenant,
        "ids": [old.id],
        "targets": [new.id],
        "events": [move],
        "reasons": [f"superseded by {new.key}"],
        "now": revision.now,
    }
    yield Query((Call("record_supersessions", params),), commit=True)
    return move


def _check_may_supersede(old: Candidate, new: Candidate, options: StoreOptions) -> None:
    """Refuse a new memory that may not end the old one, whenever either is true."""
    if old.id == new.id:
        raise InvalidInputError(f"{old.key!r} cannot supersede itself: name the newer memory")
    users = [options.user_of(Place(memory.tenant, memory.namespace)) for memory in (old, new)]
    if users[1] not in (None, users[0]):
        raise InvalidInputError(
            f"{old.key!r} is shared, and {new.key!r} is a user's own, which does not supersede it: "
            "store what is so for all with personal=False"
        )
    trusts = trust_of(old.value), trust_of(new.value)
    if trusts[1] < min(OWN_EVIDENCE_TRUST, trusts[0]):
        raise InvalidInputError(
            f"{old.key!r} is trusted more ({trusts[0]:g}) than {new.key!r} ({trusts[1]:g}), which "
            "so does not supersede it: store what is so with the source that knows it"
        )


def _not_current_error(
    memory: Candidate, stands: CurrentState, revision: RevisionContext
) -> Flow[InvalidInputError]:
    """Return the error that says why a memory has no part in a supersession, and what to do."""
    (rows,) = yield Query((Call("successors", {"tenant": revision.tenant, "id": memory.id}),))
    ways = {
        "retracted": f"truth.restore({memory.key!r}) first, if it was true after all",
        "suspect": "restore what it came from first, or store what is right",
    }
    for _, by, _, kind, move in rows[:1]:
        ways["superseded"] = (
            f"by {by!r}. To name another, roll that back first: learning.rollback({move!r})"
        )
        ways["consolidated"] = f"it was {kind} and lives on in {by!r}. Name that one"
    way = ways.get(str(stands.state), "what is superseded is current, and so is what supersedes")
    already = " already" if stands.state == _SUPERSEDED else ""
    return InvalidInputError(f"{memory.key!r} is {stands.state}{already}: {way}")


@retried_on_conflict
def retract_memory(
    memory: Candidate, reason: str, revision: RevisionContext, *, answers: bool = False
) -> Flow[Retraction]:
    """Retract a memory, and make all memories that came from it suspect, in one transaction.

    With `answers`, an assistant's answers to it count among those. Done again it changes nothing,
    and returns the first move.

    Raises:
        InvalidInputError: if it was deleted meanwhile.
    """
    move = str(uuid4())
    params = {
        "tenant": revision.tenant,
        "id": memory.id,
        "event": move,
        "now": revision.now,
        "detail": json.dumps({"reasons": [reason]}),
    }
    answered = {"answered": str(uuid4()), "assistants": sorted(ASSISTANT_ROLES)}
    derived = (Call("derive_answers", {**params, **answered}),) if answers else ()
    *_, marked, doubted, moves = yield Query(
        (
            revision.lock_call(memory),
            *derived,
            Call("retract", params),
            _doubt_call(revision.tenant, memory.id),
            Call("retraction", params),
        ),
        commit=True,
    )
    if not moves:
        raise InvalidInputError(
            f"{memory.key!r} was deleted meanwhile, or is quarantined: what is quarantined is not "
            "recalled, and admin.reject() deletes it"
        )
    seen = [row[1] for row in doubted if row[3] in (None, revision.context.user_id)]
    suspects = tuple(sorted(seen)) if marked else ()
    return Retraction(key=memory.key, move=moves[0][0], suspects=suspects)


@retried_on_conflict
def restore_memory(memory: Candidate, revision: RevisionContext) -> Flow[Restoration]:
    """Undo the retraction of a memory; memories that came from it alone are as they were before.

    Raises:
        InvalidInputError: if it is neither retracted, nor suspect without a retracted origin.
    """
    params = {**revision.context.scope_params, "id": memory.id, "now": revision.now}
    _, rows, origins = yield Query(
        (revision.lock_call(memory), revision.states_call(memory), Call("derivation", params))
    )
    state = rows[0][1] if rows else None
    if state not in ("retracted", "suspect"):
        raise InvalidInputError(
            f"{memory.key!r} is {state or 'current'}: nothing is to be restored"
        )
    retracted = sorted(
        {
            repr(key) if seen else "what is another user's"
            for _, _, _, key, _, stands, _, seen, _ in origins
            if stands == "retracted"
        }
    )
    if state == "suspect" and retracted:
        raise InvalidInputError(
            f"{memory.key!r} is suspect, as it came from {', '.join(retracted[:3])}: "
            "restore that, or store what is right"
        )
    undo = "undo_retraction" if state == "retracted" else "undo_rewriting"
    _, changed = yield Query(
        (Call(undo, params), _doubt_call(revision.tenant, memory.id)), commit=True
    )
    seen = [row[:3] for row in changed if row[3] in (None, revision.context.user_id)]
    own = (stands for id_, _, stands in seen if id_ == memory.id)
    others = (key for id_, key, stands in seen if id_ != memory.id and stands != "suspect")
    return Restoration(
        key=memory.key,
        state=next(own, "suspect" if retracted else None),
        restored=tuple(sorted(others)),
    )


def _doubt_call(tenant: str, memory_id: int) -> Call:
    return Call("doubt", {"tenant": tenant, "ids": [memory_id], "events": []})


class Version(NamedTuple):
    """A memory in a chain of memories that superseded each other. Times are UTC."""

    namespace: tuple[str, ...]
    key: str
    tier: Tier
    content: str
    """Its text; empty for another memory that is quarantined, or that another project keeps."""
    state: str | None
    """Its state: None is current; `superseded` was true until `valid_to`."""
    state_at: datetime | None
    """The moment since which its state is known."""
    valid_from: datetime
    """The beginning of its truth: as told, else the earlier of its event and its record."""
    valid_to: datetime | None
    recorded_at: datetime
    superseded_by: str | None
    """The key of the memory that superseded it."""

    def __str__(self) -> str:
        """Return its text, and when it was true."""
        true = f"{_format_minute(self.valid_from)} – {_format_minute(self.valid_to)}".rstrip()
        since = "" if self.state_at is None else f" since {_format_minute(self.state_at)}"
        by = "" if self.superseded_by is None else f" by {printable_line(self.superseded_by)}"
        stands = f"{self.state or 'current'}{since}{by}"
        content = f"{shorten_line(self.content, LINE_LENGTH)} " if self.content else ""
        return f"{true}: {content}({printable_line(self.key)}, {stands})"


class Successor(NamedTuple):
    """The memory in which another one lives on, or which superseded it."""

    namespace: tuple[str, ...]
    key: str
    state: str | None
    """Its state; None is current."""
    kind: str
    """The kind of its move: `superseded`, `merged`, `promoted`, `reinforced` or `reflected`."""
    move: str
    """The move; `learning.rollback` takes it, unless it is of the kind `reflected`."""

    def describe(self, namespace: tuple[str, ...]) -> str:
        """Return its key and move, and its namespace if that is another one."""
        verb = "superseded by" if self.kind == _SUPERSEDED else "lives on in"
        where = (
            "" if self.namespace == namespace else f" in {printable_line('/'.join(self.namespace))}"
        )
        move = printable_line(self.move)
        return f"{verb} {printable_line(self.key)}{where} ({self.kind}, move {move})"


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The history of a memory: its versions, its successors and its events."""

    key: str
    namespace: tuple[str, ...]
    versions: tuple[Version, ...]
    """The memory, those that it superseded and those that superseded it, in the order in which they
    were true."""
    successors: tuple[Successor, ...]
    """The memory's successor, the successor of that one, and so on; it lives on in the last. Empty
    if the memory is current."""
    events: tuple[MoveRecord, ...]
    """The moves of the memory itself, oldest first."""

    def __str__(self) -> str:
        """Return a line for each version, then one for each successor and each event."""
        lines, at = [*map(str, self.versions)], self.namespace
        for successor in self.successors:
            lines.append(successor.describe(at))
            at = successor.namespace
        for event in self.events:
            undone = " (rolled back)" if event.undone_at else ""
            why = printable_line("; ".join(event.reasons))
            lines.append(f"{_format_minute(event.at)} {event.kind}{undone}: {why}")
        return "\n".join(lines)


def _format_minute(at: datetime | None) -> str:
    return "" if at is None else f"{at:%Y-%m-%d %H:%M}"


def read_history(memory: Candidate, context: MemoryContext) -> Flow[History]:
    """Read the history of a memory in that context, in one round trip."""
    tenant = context.root
    params = {**context.scope_params, "id": memory.id}
    names = ("versions", "successors", "history_of")
    versions, successors, events = yield Query(
        tuple(Call(name, params) for name in names), commit=True
    )
    return History(
        key=memory.key,
        namespace=memory.place[0],
        versions=tuple(_to_version(row, context, memory) for row in versions),
        successors=tuple(
            Successor(decode_namespace(tenant, row[0]), *row[1:]) for row in successors
        ),
        events=tuple(move_record(row) for row in events),
    )


def read_deleted_history(key: str, context: MemoryContext) -> Flow[History | None]:
    """Read the history of a rejected or evicted memory; None if the context reaches none."""
    rows = yield from rows_of("history_of_gone", **context.scope_params, key=key)
    reached = [
        (place, row[2:])
        for row in rows
        if context.can_reach(
            row[1] or Tier.WORKING, place := decode_namespace(context.root, row[0])
        )
    ]
    if not reached:
        return None
    return History(
        key=key,
        namespace=reached[-1][0],
        versions=(),
        successors=(),
        events=tuple(move_record(row) for _, row in reached),
    )


def _to_version(row: Row, context: MemoryContext, asked: Candidate) -> Version:
    namespace, key, tier, value, *rest = row
    place = decode_namespace(context.root, namespace)
    own = (place, key) == (asked.place[0], asked.key)
    content = (
        content_of(value) if own else visible_content(value, rest[0], Tier(tier), place, context)
    )
    return Version(place, key, Tier(tier), content, *rest)
