"""The steps of a cycle: each one selects, proposes and applies.

Plain data goes from one part to the next, as checkpoints keep it in between. `select` and `propose`
only read. `apply` is one transaction for its decisions; done again it changes nothing. Batches are
judged apart, and `combine_proposals` picks the decisions that can stand together.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, NotRequired, Protocol
from uuid import NAMESPACE_OID, uuid5

from typing_extensions import TypedDict

from langmem_tiers.consolidation.lease import check_guard
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
"""The time that a write may take from its beginning, which dates it, to its commit. The next cycle
looks again at memories that changed so shortly before this one."""


class Cycle(NamedTuple):
    """The constants of a cycle. All of them are fixed when the cycle begins."""

    tenant: str
    """The tenant in the database's form: `MemoryContext.root`."""
    cycle: str
    """The name of the cycle. Its writes are named after it, so that a repetition is recognised."""
    moment: Moment
    """The beginning, by which everything is judged and dated."""
    options: StoreOptions
    fence: int | None = None
    """The fence of the lease under which it runs; None requires that nobody holds one."""
    ended: frozenset[str] = frozenset()
    """Namespaces of ended sessions, in the database's form; all of their memories rise."""

    @property
    def params(self) -> dict[str, Any]:
        """Return the parameters that most statements of a step take."""
        now, alive_at = self.moment.now, self.moment.alive_at
        return {"tenant": self.tenant, "now": now, "alive_at": alive_at}

    @property
    def guard(self) -> Call:
        """Return the call that asks if it may write; the answer holds for the transaction."""
        return Call("guard_lease", {**self.params, "fence": self.fence})

    @property
    def idle_since(self) -> datetime | None:
        """Return the time since which a session is idle that ends for it; None if none ends so."""
        idle = self.options.session_idle
        return None if idle is None else self.moment.now - timedelta(minutes=idle)


class StepDecision(TypedDict):
    """A step's decision on a memory."""

    id: int
    namespace: str
    key: str
    version: str
    """Its `updated_at` (ISO 8601, UTC) when it was judged. If it changed since, it stays."""
    reason: str
    """The reason in words that many share: the report counts by them."""
    target: int | None
    """The memory that it lives on in, or that supersedes it."""
    target_namespace: str | None
    target_key: str | None
    target_version: str | None
    detail: dict[str, Any]
    """Data for the step alone."""


class StepFinding(TypedDict):
    """A step's finding on one memory or two, for somebody to judge; it changes nothing."""

    namespace: str
    key: str
    target_namespace: str | None
    target_key: str | None
    """Key of the memory in which it may live on, which may end it, or which may count with it."""
    reason: str
    near: NotRequired[float]
    """The nearness of the two, in 0…1."""
    credit: NotRequired[str]
    """The verdict of outcomes on it: `helps`, `harms` or `unknown`."""
    content: NotRequired[str]
    """The beginning of its text, where the report prints it."""


class Proposal(TypedDict):
    """A step's decisions on a batch, which are not carried out yet."""

    decisions: list[StepDecision]
    kept: dict[str, int]
    """Counts of memories that stay as they are, by reason."""
    findings: NotRequired[list[StepFinding]]
    """Findings that the step does not act on by itself, for the report."""


class StepCounts(TypedDict, total=False):
    """Counts of the memories that a step looked at, by reason."""

    done: dict[str, int]
    """Decisions that were carried out."""
    left: dict[str, int]
    """Decisions that were not carried out, as the memories changed meanwhile."""
    kept: dict[str, int]
    """Memories that stay as they are."""
    moves: list[str]
    """Moves that `learning.rollback` takes."""
    findings: list[StepFinding]
    """Findings for somebody to judge."""


class CycleStep(Protocol):
    """One thing that a cycle does. Each of its flows runs as a unit of its own."""

    name: str
    notes_seen: bool = False
    """True if the step looks at changes since the last cycle, and notes up to when it has."""

    def select(self, cycle: Cycle, after: int, limit: int) -> Flow[list[int]]:
        """Return the next memories to look at: ids above `after`, ascending."""
        ...

    def propose(self, cycle: Cycle, ids: Sequence[int]) -> Flow[Proposal]:
        """Decide on these memories; models are asked here, outside any transaction."""
        ...

    def apply(self, cycle: Cycle, decisions: Sequence[StepDecision]) -> Flow[StepCounts]:
        """Carry out decisions in one transaction, if their memories are still as judged."""
        ...

    def finish(self, cycle: Cycle) -> Flow[dict[str, int]]:
        """Note that everything was seen up to the cycle's moment, if the step notes that.

        Return how many memories stay that were not selected, by reason, if the step knows. A step
        that finds its next memories by stored data has nothing to note.
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
    """Return a moment in the form that decisions have."""
    return moment.astimezone(UTC).isoformat()


def make_decision(
    memory: VersionedRow,
    reason: str,
    target: VersionedRow | None = None,
    detail: dict[str, Any] | None = None,
) -> StepDecision:
    """Return a decision on a memory."""
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
    """Return a finding on a memory, alone or beside `other` (namespace and key), `near` to it."""
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
    """Count decisions as carried out, except for those `left`: by id, each with the reason."""
    return StepCounts(
        done=count_reasons(
            decision["reason"] for decision in decisions if decision["id"] not in left
        ),
        left=count_reasons(left.values()),
        moves=[*moves],
    )


def count_reasons(reasons: Iterable[str]) -> dict[str, int]:
    """Count how often each reason was given."""
    return sum_counts([{reason: 1} for reason in reasons])


def sum_counts(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Add up several counts by reason."""
    total: dict[str, int] = {}
    for reasons in counts:
        for reason, number in reasons.items():
            total[reason] = total.get(reason, 0) + number
    return total


class CombinedProposals(NamedTuple):
    """The combination of several proposals; each of their memories is in one of its parts."""

    decisions: list[StepDecision]
    """Decisions that can be carried out together, in the order of ids."""
    rejudge: list[int]
    """Ids of memories to judge again when that is done, in order."""
    kept: dict[str, int]
    """Counts of memories that stay as they are, by reason."""
    findings: list[StepFinding]
    """Findings for somebody to judge."""


def combine_proposals(proposals: Sequence[Proposal], *, hands_over: bool) -> CombinedProposals:
    """Combine proposals of batches: pick the decisions that can stand together.

    If two batches decide on the same memory, the first decision stands. If one batch keeps a memory
    on which another decides, the decision stands. If a memory `hands_over` to its target, the
    target must not move at the same time: that memory is judged again.
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


# ---- stored memories, as steps read, lock and move them ---------------------------------------


class StoredMemory(NamedTuple):
    """A memory that is judged: a row of stored_memories, with its columns in this order."""

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
    """The namespace in which it is compared: its own, without user and session at the end."""
    user_id: str | None = None
    turn: int | None = None
    """The turn of its session in which it was said, if it was."""

    def __hash__(self) -> int:
        return self.id

    @property
    def version(self) -> str:
        """Return its version in the form that decisions have."""
        return format_version(self.updated_at)

    @property
    def content(self) -> str:
        """Return its text."""
        return content_of(self.value)

    @property
    def importance(self) -> float | None:
        """Return its importance in 0…1, if somebody stated one."""
        importance: Any = self.value.get("importance")
        return importance if is_number(importance) else None

    @property
    def memory_type(self) -> str:
        """Return its memory type."""
        return str(self.value.get("memory_type") or "episodic")

    @property
    def speaker(self) -> str | None:
        """Return who said it, if that was told."""
        speaker = self.value.get("speaker")
        return speaker if isinstance(speaker, str) else None

    @property
    def speaker_key(self) -> tuple[object, ...]:
        """Return its source, trust and speaker; an unnamed speaker is one for each session."""
        by = source_of(self.value), trust_of(self.value)
        if self.speaker is not None:
            return *by, self.speaker
        return *by, "", self.namespace, self.session or ""

    @property
    def happened_at(self) -> datetime:
        """Return when it happened, if that was told, else when it was stored."""
        return self.occurred_at or self.created_at

    @property
    def true_since(self) -> datetime:
        """Return the beginning of its truth, as far as anybody told."""
        return self.valid_from or self.happened_at

    @property
    def record_order(self) -> tuple[datetime, int]:
        """Return a sort key: the older record first, then the lower id."""
        return self.created_at, self.id

    @property
    def truth_order(self) -> tuple[datetime, datetime, int]:
        """Return a sort key: the earlier beginning of truth first, then the older record."""
        return self.true_since, self.created_at, self.id


class LockedMemory(NamedTuple):
    """The present state of a memory: a row of hold_memories, with its columns in this order."""

    id: int
    updated_at: datetime
    tier: str
    state: str | None
    alive: bool
    lived_on: bool
    """True if it lives on in another memory, or did so in one that was demoted since."""


class LockedRows(NamedTuple):
    """The rows that an `apply` has locked in its transaction."""

    memories: dict[int, LockedMemory]
    moves: dict[str, list[int] | None]
    """Moves that were written before; one of several memories to a target has their ids."""

    def is_done(self, move: str, decision: StepDecision) -> bool:
        """Return True if the decision was carried out before."""
        if decision["target"] is None or move not in self.moves:
            return move in self.moves
        sources = self.moves[move]
        return sources is None or decision["id"] in sources


def select_ids(
    cycle: Cycle, statement: str, after: int, limit: int, **params: Any
) -> Flow[list[int]]:
    """Return the ids that a statement finds above `after`, ascending."""
    asked = {**cycle.params, "after": after, "limit": limit, **params}
    rows = yield from rows_of(statement, **asked)
    return [row[0] for row in rows]


def read_memories(cycle: Cycle, ids: Iterable[int]) -> Flow[list[StoredMemory]]:
    """Return these memories in the order of their ids."""
    rows = yield from rows_of("stored_memories", tenant=cycle.tenant, ids=sorted(set(ids)))
    return [StoredMemory(*row) for row in rows]


def lock_rows(
    cycle: Cycle, decisions: Sequence[StepDecision], moves: Iterable[str] = ()
) -> Flow[LockedRows]:
    """Lock and read the memories of decisions. The transaction stays open.

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
    """Return the name of a step's move of a memory, the same each time it is done."""
    return str(uuid5(NAMESPACE_OID, json.dumps([cycle.cycle, step, source, target])))


class MovingStep(CycleStep):
    """A step that moves memories, and can be asked to do so again: a move done before is done."""

    tiers: Collection[str] = (Tier.WORKING, Tier.LONG_TERM)
    """The tiers in which a memory must still be to be moved."""
    statement: str
    """The statement that carries decisions out."""
    target_states: Collection[str | None] = (None,)
    """The states that a target may have."""

    def moves(self, cycle: Cycle, decisions: Sequence[StepDecision]) -> dict[int, str]:
        """Name the move of each memory, by id."""
        return {
            decision["id"]: move_id(cycle, self.name, decision["id"], decision["target"])
            for decision in decisions
        }

    def conflict(self, held: LockedRows, decision: StepDecision, move: str) -> str | None:  # noqa: ARG002 - some look at it
        """Return why a decision cannot be carried out any more; None if it can."""
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
        """Return the calls that carry out decisions, given their parameters."""
        return [Call(self.statement, params)]

    @retried_on_conflict
    def apply(self, cycle: Cycle, decisions: Sequence[StepDecision]) -> Flow[StepCounts]:
        """Move the memories that are as they were judged, in one transaction.

        Raises:
            ConflictError (lease_lost): if somebody else consolidates the tenant.
        """
        moves = self.moves(cycle, decisions)
        held = yield from lock_rows(cycle, decisions, moves.values())
        pending = [
            decision for decision in decisions if not held.is_done(moves[decision["id"]], decision)
        ]
        conflicts = {
            decision["id"]: self.conflict(held, decision, moves[decision["id"]])
            for decision in pending
        }
        left = {id_: why for id_, why in conflicts.items() if why is not None}
        todo = [decision for decision in pending if decision["id"] not in left]
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
    """Note that the step has looked at everything up to the cycle's moment.

    Raises:
        ConflictError (lease_lost): if somebody else consolidates the tenant.
    """
    return _note_moment(cycle, step, cycle.moment.now - GRACE)


def note_cycle(cycle: Cycle) -> Flow[None]:
    """Note that the cycle has ended: the tenant's next one is due by the beginning of this one.

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
