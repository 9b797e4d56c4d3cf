"""What a cycle is made of: steps, each of which selects, proposes and applies.

Everything that goes from one part to the next is plain data, as it rests in a checkpoint between
them. `select` and `propose` only read; `apply` is one transaction for its decisions, and doing it
again changes nothing. Batches are judged apart: `reviewed` says what of their proposals can stand
together.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, NotRequired, Protocol
from uuid import NAMESPACE_OID, uuid5

from typing_extensions import TypedDict

from langmem_tiers.consolidate.lease import check_guard
from langmem_tiers.core.checks import is_number
from langmem_tiers.core.config import StoreOptions
from langmem_tiers.core.memory import Moment, Tier
from langmem_tiers.core.values import content_of, source_of, trust_of
from langmem_tiers.postgres.flow import Call, Flow, Query, retried_on_conflict, rows_of
from langmem_tiers.store.write import LOCK, lock_call

GONE = "it was deleted meanwhile"
CHANGED = "it changed meanwhile"
TARGET_CHANGED = "the other one changed meanwhile"
GRACE = timedelta(minutes=1)
"""How long a write may take from its beginning, which dates it, to its commit. What changed that
shortly before a cycle is looked at by the next one as well."""


class Cycle(NamedTuple):
    """What holds for a whole cycle. All of it is fixed when the cycle begins."""

    tenant: str
    """As the database names it: `MemoryContext.root`."""
    cycle: str
    """Names the cycle; what it writes is named after it, so that doing it again is known."""
    moment: Moment
    """When it began, by which everything is judged and dated."""
    options: StoreOptions
    fence: int | None = None
    """Of the lease under which it runs; None asks that nobody holds one."""
    ended: frozenset[str] = frozenset()
    """Namespaces of sessions that have ended, as the database names them; all of theirs rises."""

    @property
    def params(self) -> dict[str, Any]:
        """What most statements of a step ask for."""
        now, alive_at = self.moment.now, self.moment.alive_at
        return {"tenant": self.tenant, "now": now, "alive_at": alive_at}

    @property
    def guard(self) -> Call:
        """The call that asks whether it may write; its answer holds until the transaction ends."""
        return Call("guard_lease", {**self.params, "fence": self.fence})

    @property
    def idle_since(self) -> datetime | None:
        """Since when a session has been idle that ends for it; None if none does."""
        idle = self.options.session_idle
        return None if idle is None else self.moment.now - timedelta(minutes=idle)


class StepDecision(TypedDict):
    """What is to become of a memory."""

    id: int
    namespace: str
    key: str
    version: str
    """Its `updated_at` (ISO 8601, UTC) when it was judged; changed since, it is left alone."""
    reason: str
    """In words that many share: the report counts by them."""
    target: int | None
    """The memory that it lives on in, or that supersedes it."""
    target_namespace: str | None
    target_key: str | None
    target_version: str | None
    detail: dict[str, Any]
    """What the step alone reads."""


class StepFinding(TypedDict):
    """What a rule found of one memory or two, and nobody has judged: nothing becomes of it."""

    namespace: str
    key: str
    target_namespace: str | None
    target_key: str | None
    """Of the one that the rule would have had it live on in, end at, or counted with it."""
    reason: str
    near: NotRequired[float]
    """How near the two are, in 0…1."""
    credit: NotRequired[str]
    """What outcomes say of it: `helps`, `harms` or `unknown`."""
    content: NotRequired[str]
    """How what it says begins, where the report says so."""


class Proposal(TypedDict):
    """What a step would do with a batch."""

    decisions: list[StepDecision]
    kept: dict[str, int]
    """How many memories stay as they are, by reason."""
    findings: NotRequired[list[StepFinding]]
    """What it would not do by itself, for the report."""


class StepCounts(TypedDict, total=False):
    """What became of the memories that a step looked at, by reason."""

    done: dict[str, int]
    """Carried out."""
    left: dict[str, int]
    """Decided, and not carried out: they changed meanwhile."""
    kept: dict[str, int]
    """They stay as they are."""
    moves: list[str]
    """What `learning.rollback` takes."""
    findings: list[StepFinding]
    """What was found and left to somebody's judgement."""


class CycleStep(Protocol):
    """One thing that a cycle does. Each flow is driven in a unit of work of its own."""

    name: str
    notes_seen: bool = False
    """True of one that looks at what changed since the last cycle, and notes what it has seen."""

    def select(self, cycle: Cycle, after: int, limit: int) -> Flow[list[int]]:
        """The next memories to look at: ids above `after`, ascending."""
        ...

    def propose(self, cycle: Cycle, ids: Sequence[int]) -> Flow[Proposal]:
        """What is to become of these; models are asked here, outside any transaction."""
        ...

    def apply(self, cycle: Cycle, decisions: Sequence[StepDecision]) -> Flow[StepCounts]:
        """Carry out decisions in one transaction, those whose memories are still as judged."""
        ...

    def finish(self, cycle: Cycle) -> Flow[dict[str, int]]:
        """Note that everything was seen up to the cycle's moment, if the step notes that.

        Answers how many memories stay that were not selected, by reason, if the step knows. A step
        that finds what is next by what is stored has nothing to note.
        """
        if self.notes_seen:
            yield from note_seen(cycle, self.name)
        return {}


class VersionedRow(Protocol):
    """A row that names a memory."""

    @property
    def id(self) -> int: ...  # noqa: D102
    @property
    def namespace(self) -> str: ...  # noqa: D102
    @property
    def key(self) -> str: ...  # noqa: D102
    @property
    def updated_at(self) -> datetime: ...  # noqa: D102


def format_version(moment: datetime) -> str:
    """A moment as decisions name it."""
    return moment.astimezone(UTC).isoformat()


def make_decision(
    memory: VersionedRow,
    reason: str,
    target: VersionedRow | None = None,
    detail: dict[str, Any] | None = None,
) -> StepDecision:
    """That something is to become of a memory."""
    return StepDecision(
        id=memory.id,
        namespace=memory.namespace,
        key=memory.key,
        version=format_version(memory.updated_at),
        reason=reason,
        target=None if target is None else target.id,
        target_namespace=None if target is None else target.namespace,
        target_key=None if target is None else target.key,
        target_version=None if target is None else format_version(target.updated_at),
        detail=detail or {},
    )


def make_finding(
    memory: VersionedRow,
    reason: str,
    other: tuple[str, str] | None = None,
    near: float | None = None,
) -> StepFinding:
    """Report a memory, alone or beside `other` (its namespace and key), to which it is so near."""
    namespace, key = (None, None) if other is None else other
    finding = StepFinding(
        namespace=memory.namespace,
        key=memory.key,
        target_namespace=namespace,
        target_key=key,
        reason=reason,
    )
    return finding if near is None else {**finding, "near": near}


def count_decisions(
    decisions: Iterable[StepDecision], left: Mapping[int, str], moves: Iterable[str] = ()
) -> StepCounts:
    """Count decisions as carried out, but those `left`: by id, each with the reason."""
    return StepCounts(
        done=count_reasons(
            decision["reason"] for decision in decisions if decision["id"] not in left
        ),
        left=count_reasons(left.values()),
        moves=[*moves],
    )


def count_reasons(reasons: Iterable[str]) -> dict[str, int]:
    """How often each reason was given."""
    return sum_counts([{reason: 1} for reason in reasons])


def sum_counts(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The sum of several counts by reason."""
    total: dict[str, int] = {}
    for reasons in counts:
        for reason, number in reasons.items():
            total[reason] = total.get(reason, 0) + number
    return total


class CombinedProposals(NamedTuple):
    """What becomes of the memories that several proposals are about; each of them is in one."""

    decisions: list[StepDecision]
    """What can be carried out together, in the order of ids."""
    rejudge: list[int]
    """Ids of what is to be judged again when that is done, in order."""
    kept: dict[str, int]
    """How many stay as they are, by reason."""
    findings: list[StepFinding]
    """What nobody has judged."""


def combine_proposals(proposals: Sequence[Proposal], *, hands_over: bool) -> CombinedProposals:
    """Which decisions can stand together.

    Two batches may decide on the same memory, of which the first stands, and one may keep what
    another decides on, which is then decided. Where a memory `hands_over` to its target, that one
    must not go elsewhere at the same time: what was to live on in it is judged again.
    """
    gone: set[int] = set()
    needed: set[int] = set()
    standing: list[StepDecision] = []
    fallen: set[int] = set()
    decisions = [decision for proposal in proposals for decision in proposal["decisions"]]
    for decision in sorted(
        decisions, key=lambda decision: (decision["id"], decision["target"] or 0)
    ):
        source, target = decision["id"], decision["target"]
        if source in gone:
            continue
        if hands_over and (source in needed or target in gone):
            fallen.add(source)
            continue
        gone.add(source)
        needed.update(() if target is None else (target,))
        standing.append(decision)
    findings = [finding for proposal in proposals for finding in proposal.get("findings", ())]
    kept = sum_counts(proposal["kept"] for proposal in proposals)
    return CombinedProposals(standing, sorted(fallen - gone), kept, findings)


# ---- stored memories, as steps read, hold and move them ---------------------------------------


class StoredMemory(NamedTuple):
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
        return format_version(self.updated_at)

    @property
    def content(self) -> str:
        """What it says."""
        return content_of(self.value)

    @property
    def importance(self) -> float | None:
        """In 0…1, if somebody told."""
        importance: Any = self.value.get("importance")
        return importance if is_number(importance) else None

    @property
    def memory_type(self) -> str:
        """Its kind."""
        return str(self.value.get("memory_type") or "episodic")

    @property
    def speaker(self) -> str | None:
        """Who said it, if that was told."""
        speaker = self.value.get("speaker")
        return speaker if isinstance(speaker, str) else None

    @property
    def speaker_key(self) -> tuple[object, ...]:
        """Who said it, by whom it came, how trusted: else whoever spoke in that session."""
        by = source_of(self.value), trust_of(self.value)
        if self.speaker is not None:
            return *by, self.speaker
        return *by, "", self.namespace, self.session or ""

    @property
    def happened_at(self) -> datetime:
        """When it happened, if that was told, else when it was stored."""
        return self.occurred_at or self.created_at

    @property
    def true_since(self) -> datetime:
        """Since when it is true, as far as anybody told."""
        return self.valid_from or self.happened_at

    @property
    def record_order(self) -> tuple[datetime, int]:
        """What is older comes first, the id breaking ties."""
        return self.created_at, self.id

    @property
    def truth_order(self) -> tuple[datetime, datetime, int]:
        """What was true earlier comes first; told at the same time, what was recorded first."""
        return self.true_since, self.created_at, self.id


class LockedMemory(NamedTuple):
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

    memories: dict[int, LockedMemory]
    moves: dict[str, list[int] | None]
    """Those that were written before, with what they moved to a target if that was several."""

    def is_done(self, move: str, decision: StepDecision) -> bool:
        """Whether a decision was carried out before."""
        if decision["target"] is None or move not in self.moves:
            return move in self.moves
        sources = self.moves[move]
        return sources is None or decision["id"] in sources


def select_ids(
    cycle: Cycle, statement: str, after: int, limit: int, **params: Any
) -> Flow[list[int]]:
    """The ids that a statement finds above `after`, ascending."""
    asked = {**cycle.params, "after": after, "limit": limit, **params}
    rows = yield from rows_of(statement, **asked)
    return [row[0] for row in rows]


def read_memories(cycle: Cycle, ids: Iterable[int]) -> Flow[list[StoredMemory]]:
    """These memories, by id."""
    rows = yield from rows_of("stored_memories", tenant=cycle.tenant, ids=sorted(set(ids)))
    return [StoredMemory(*row) for row in rows]


def lock_rows(
    cycle: Cycle, decisions: Sequence[StepDecision], moves: Iterable[str] = ()
) -> Flow[LockedRows]:
    """Lock what decisions are about, and see how it is now. The transaction stays open.

    Raises:
        ConflictError (lease_lost): if somebody else consolidates the tenant.
    """
    keys = [(cycle.tenant, "", LOCK)]
    ids: set[int] = set()
    for decision in decisions:
        ids.add(decision["id"])
        keys.append((cycle.tenant, decision["namespace"], decision["key"]))
        if decision["target"] is not None:
            ids.add(decision["target"])
            keys.append(
                (cycle.tenant, decision["target_namespace"] or "", decision["target_key"] or "")
            )
    calls = (
        lock_call(keys, cycle.options),
        cycle.guard,
        Call("known_moves", {**cycle.params, "events": sorted(set(moves))}),
        Call("hold_memories", {**cycle.params, "ids": sorted(ids)}),
    )
    _, guarded, written, rows = yield Query(calls)
    check_guard(guarded, cycle.tenant)
    held = (LockedMemory(*row) for row in rows)
    return LockedRows({memory.id: memory for memory in held}, {row[0]: row[1] for row in written})


def move_id(cycle: Cycle, step: str, source: int, target: int | None = None) -> str:
    """Names what a step does to a memory, the same each time it is done."""
    return str(uuid5(NAMESPACE_OID, json.dumps([cycle.cycle, step, source, target])))


class MovingStep(CycleStep):
    """A step that moves memories, and can be asked to do so again: a move done before is done."""

    tiers: Collection[str] = (Tier.WORKING, Tier.LONG_TERM)
    """Where a memory must still stand to be moved."""
    statement: str
    """What carries decisions out, of their parameters."""
    target_states: Collection[str | None] = (None,)
    """How that which it lives on in, or which supersedes it, must stand."""

    def moves(self, cycle: Cycle, decisions: Sequence[StepDecision]) -> dict[int, str]:
        """The move of each memory, by id."""
        return {
            decision["id"]: move_id(cycle, self.name, decision["id"], decision["target"])
            for decision in decisions
        }

    def conflict(self, held: LockedRows, decision: StepDecision, move: str) -> str | None:  # noqa: ARG002 - some look at it
        """Why a decision cannot be carried out any more; None if it can."""
        memory = held.memories.get(decision["id"])
        if memory is None or not memory.alive:
            return GONE
        if memory.state is not None or memory.tier not in self.tiers:
            return CHANGED
        if format_version(memory.updated_at) != decision["version"]:
            return CHANGED
        if decision["target"] is None:
            return None
        target = held.memories.get(decision["target"])
        if target is None or not target.alive or target.state not in self.target_states:
            return TARGET_CHANGED
        as_judged = format_version(target.updated_at) == decision["target_version"]
        return None if as_judged else TARGET_CHANGED

    def write_calls(
        self,
        cycle: Cycle,  # noqa: ARG002 - some look at it
        todo: Sequence[StepDecision],  # noqa: ARG002
        params: dict[str, Any],
    ) -> Sequence[Call]:
        """The calls that carry out decisions, of these and of their parameters."""
        return [Call(self.statement, params)]

    @retried_on_conflict
    def apply(self, cycle: Cycle, decisions: Sequence[StepDecision]) -> Flow[StepCounts]:
        """Move those that are as they were judged, in one transaction.

        Raises:
            ConflictError (lease_lost): if somebody else consolidates the tenant.
        """
        moves = self.moves(cycle, decisions)
        held = yield from lock_rows(cycle, decisions, moves.values())
        open_ = [
            decision for decision in decisions if not held.is_done(moves[decision["id"]], decision)
        ]
        against = {
            decision["id"]: self.conflict(held, decision, moves[decision["id"]])
            for decision in open_
        }
        left = {id_: why for id_, why in against.items() if why is not None}
        todo = [decision for decision in open_ if decision["id"] not in left]
        params = {
            **cycle.params,
            "ids": [decision["id"] for decision in todo],
            "targets": [decision["target"] for decision in todo],
            "events": [moves[decision["id"]] for decision in todo],
            "reasons": [decision["reason"] for decision in todo],
        }
        yield Query(tuple(self.write_calls(cycle, todo, params)) if todo else (), commit=True)
        moved = dict.fromkeys(
            moves[decision["id"]] for decision in decisions if decision["id"] not in left
        )
        return count_decisions(decisions, left, moved)


def note_seen(cycle: Cycle, step: str) -> Flow[None]:
    """Note that everything that was there at the cycle's moment has been looked at.

    Raises:
        ConflictError (lease_lost): if somebody else consolidates the tenant.
    """
    return _note_moment(cycle, step, cycle.moment.now - GRACE)


def note_cycle(cycle: Cycle) -> Flow[None]:
    """The cycle has ended: by when it began the tenant's next one is due.

    Raises:
        ConflictError (lease_lost): if somebody else consolidates the tenant.
    """
    return _note_moment(cycle, "cycle", cycle.moment.now)


@retried_on_conflict
def _note_moment(cycle: Cycle, step: str, seen: datetime) -> Flow[None]:
    (guarded,) = yield Query((cycle.guard,))
    check_guard(guarded, cycle.tenant)
    params = {"tenant": cycle.tenant, "step": step, "seen": seen}
    yield Query((Call("note_seen", params),), commit=True)
