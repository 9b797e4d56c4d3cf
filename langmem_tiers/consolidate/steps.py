"""What a cycle is made of: steps, each of which selects, proposes and applies.

Everything that goes from one part to the next is plain data, as it rests in a checkpoint between
them. `select` and `propose` only read; `apply` is one transaction for its decisions, and doing it
again changes nothing. Batches are judged apart: `reviewed` says what of their proposals can stand
together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, NotRequired, Protocol, TypeVar

from typing_extensions import TypedDict

from langmem_tiers.core.config import StoreOptions
from langmem_tiers.core.memory import Moment
from langmem_tiers.postgres.flow import Flow

T = TypeVar("T")


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


class Finding(TypedDict):
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
    findings: NotRequired[list[Finding]]
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
    """What `rollback` takes."""
    findings: list[Finding]
    """What was found and left to somebody's judgement."""


class CycleStep(Protocol):
    """One thing that a cycle does. Each flow is driven in a unit of work of its own."""

    name: str

    def select(self, cycle: Cycle, after: int, limit: int) -> Flow[list[int]]:
        """The next memories to look at: ids above `after`, ascending."""
        ...

    def propose(self, cycle: Cycle, ids: Sequence[int]) -> Flow[Proposal]:
        """What is to become of these; models are asked here, outside any transaction."""
        ...

    def apply(self, cycle: Cycle, decisions: Sequence[StepDecision]) -> Flow[StepCounts]:
        """Carry out decisions in one transaction, those whose memories are still as judged."""
        ...

    def finish(self, cycle: Cycle) -> Flow[dict[str, int]]:  # noqa: ARG002 - some note something
        """Note that everything was seen up to the cycle's moment.

        Answers how many memories stay that were not selected, by reason, if the step knows. A step
        that finds what is next by what is stored has nothing to note.
        """
        yield from ()
        return {}


class MemoryRow(Protocol):
    """A row that names a memory."""

    @property
    def id(self) -> int: ...  # noqa: D102
    @property
    def namespace(self) -> str: ...  # noqa: D102
    @property
    def key(self) -> str: ...  # noqa: D102
    @property
    def updated_at(self) -> datetime: ...  # noqa: D102


def version(moment: datetime) -> str:
    """A moment as decisions name it."""
    return moment.astimezone(UTC).isoformat()


def decision(
    one: MemoryRow,
    reason: str,
    target: MemoryRow | None = None,
    detail: dict[str, Any] | None = None,
) -> StepDecision:
    """That something is to become of a memory."""
    return StepDecision(
        id=one.id,
        namespace=one.namespace,
        key=one.key,
        version=version(one.updated_at),
        reason=reason,
        target=None if target is None else target.id,
        target_namespace=None if target is None else target.namespace,
        target_key=None if target is None else target.key,
        target_version=None if target is None else version(target.updated_at),
        detail=detail or {},
    )


def finding(
    one: MemoryRow, reason: str, other: tuple[str, str] | None = None, near: float | None = None
) -> Finding:
    """Report a memory, alone or beside `other` (its namespace and key), to which it is so near."""
    namespace, key = (None, None) if other is None else other
    found = Finding(
        namespace=one.namespace,
        key=one.key,
        target_namespace=namespace,
        target_key=key,
        reason=reason,
    )
    return found if near is None else {**found, "near": near}


def carried_out(
    decisions: Iterable[StepDecision], left: Mapping[int, str], moves: Iterable[str] = ()
) -> StepCounts:
    """Count decisions as carried out, but those `left`: by id, each with the reason."""
    return StepCounts(
        done=counted(one["reason"] for one in decisions if one["id"] not in left),
        left=counted(left.values()),
        moves=[*moves],
    )


def counted(reasons: Iterable[str]) -> dict[str, int]:
    """How often each reason was given."""
    return added([{reason: 1} for reason in reasons])


def added(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The sum of several counts by reason."""
    total: dict[str, int] = {}
    for one in counts:
        for reason, number in one.items():
            total[reason] = total.get(reason, 0) + number
    return total


class ReviewedBatches(NamedTuple):
    """What becomes of the memories that several proposals are about; each of them is in one."""

    standing: list[StepDecision]
    """What can be carried out together, in the order of ids."""
    again: list[int]
    """Ids of what is to be judged again when that is done, in order."""
    kept: dict[str, int]
    """How many stay as they are, by reason."""
    findings: list[Finding]
    """What nobody has judged."""


def reviewed(proposals: Sequence[Proposal], *, hands_over: bool) -> ReviewedBatches:
    """Which decisions can stand together.

    Two batches may decide on the same memory, of which the first stands, and one may keep what
    another decides on, which is then decided. Where a memory `hands_over` to its target, that one
    must not go elsewhere at the same time: what was to live on in it is judged again.
    """
    gone: set[int] = set()
    needed: set[int] = set()
    standing: list[StepDecision] = []
    fallen: set[int] = set()
    decisions = [one for proposal in proposals for one in proposal["decisions"]]
    for one in sorted(decisions, key=lambda one: (one["id"], one["target"] or 0)):
        source, target = one["id"], one["target"]
        if source in gone:
            continue
        if hands_over and (source in needed or target in gone):
            fallen.add(source)
            continue
        gone.add(source)
        needed.update(() if target is None else (target,))
        standing.append(one)
    findings = [found for one in proposals for found in one.get("findings", ())]
    kept = added(one["kept"] for one in proposals)
    return ReviewedBatches(standing, sorted(fallen - gone), kept, findings)
