"""What a cycle is made of: steps, each of which selects, proposes and applies.

Everything that goes from one part to the next is plain data, as it rests in a checkpoint between
them. `select` and `propose` only read; `apply` is one transaction for its decisions, and doing it
again changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, NotRequired, Protocol, TypedDict

from langmem_tiers.consolidate.policy import ConsolidationPolicy
from langmem_tiers.core.config import StoreOptions
from langmem_tiers.core.memory import Moment
from langmem_tiers.postgres.flow import Flow


class Cycle(NamedTuple):
    """What holds for a whole cycle. All of it is fixed when the cycle begins."""

    tenant: str
    """As the database names it: `MemoryContext.root`."""
    cycle: str
    """Names the cycle; what it writes is named after it, so that doing it again is known."""
    moment: Moment
    """When it began, by which everything is judged and dated."""
    policy: ConsolidationPolicy
    options: StoreOptions
    fence: int | None = None
    """Of the lease under which it runs; None asks that nobody holds one."""
    ended: frozenset[str] = frozenset()
    """Namespaces of sessions that have ended, as the database names them; all of theirs rises."""


class Decision(TypedDict):
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
    """What a rule found of two memories, and nobody has judged: nothing becomes of it."""

    namespace: str
    key: str
    target_namespace: str
    target_key: str
    """Of the one that the rule would have had it live on in, end at, or counted with it."""
    reason: str


class Proposal(TypedDict):
    """What a step would do with a batch."""

    decisions: list[Decision]
    kept: dict[str, int]
    """How many memories stay as they are, by reason."""
    findings: NotRequired[list[Finding]]
    """What it would not do by itself, for the report."""


class Applied(TypedDict):
    """What became of a batch."""

    done: dict[str, int]
    """How many decisions were carried out, by reason."""
    left: dict[str, int]
    """How many were not, by reason: their memories had changed meanwhile."""
    moves: list[str]
    """What `rollback` takes."""


class Step(Protocol):
    """One thing that a cycle does. Each flow is driven in a unit of work of its own."""

    name: str

    def select(self, cycle: Cycle, after: int, limit: int) -> Flow[list[int]]:
        """The next memories to look at: ids above `after`, ascending."""
        ...

    def propose(self, cycle: Cycle, ids: Sequence[int]) -> Flow[Proposal]:
        """What is to become of these; models are asked here, outside any transaction."""
        ...

    def apply(self, cycle: Cycle, decisions: Sequence[Decision]) -> Flow[Applied]:
        """Carry out decisions in one transaction, those whose memories are still as judged."""
        ...

    def finish(self, cycle: Cycle) -> Flow[dict[str, int]]:
        """Note that everything was seen up to the cycle's moment.

        Answers how many memories stay that were not selected, by reason, if the step knows.
        """
        ...


def added(counts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """The sum of several counts by reason."""
    total: dict[str, int] = {}
    for one in counts:
        for reason, number in one.items():
            total[reason] = total.get(reason, 0) + number
    return total


class Item(NamedTuple):
    """What a memory says, and when. All times carry their zone."""

    id: int
    created_at: datetime
    content: str
    memory_type: str = "episodic"
    speaker: str | None = None
    """Who said it, if that was told."""
    namespace: str = ""
    occurred_at: datetime | None = None
    valid_from: datetime | None = None
    trust: float = 1.0
    """In 0…1."""
    session: str | None = None
    """In which it was said, if that was told."""
    source: str = "user"

    @property
    def told_by(self) -> tuple[str, ...]:
        """Who said it, by whom it came: the speaker, else whoever spoke in that session."""
        if self.speaker is not None:
            return self.source, self.speaker
        return self.source, "", self.namespace, self.session or ""

    @property
    def told_at(self) -> datetime:
        """When it happened, if that was told, else when it was stored."""
        return self.occurred_at or self.created_at

    @property
    def since(self) -> datetime:
        """Since when it is true, as far as anybody told."""
        return self.valid_from or self.occurred_at or self.created_at

    @property
    def recorded(self) -> tuple[datetime, int]:
        """What is older comes first, the id breaking ties."""
        return self.created_at, self.id

    @property
    def order(self) -> tuple[datetime, datetime, int]:
        """What was true earlier comes first; told at the same time, what was recorded first."""
        return self.since, self.created_at, self.id
