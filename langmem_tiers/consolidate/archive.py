"""Archival: what nobody asks for goes into a file, is checked there, and leaves the database."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, NamedTuple, Protocol

from langmem_tiers.consolidate import lease, stored
from langmem_tiers.consolidate.policy import ArchivalPolicy
from langmem_tiers.consolidate.steps import (
    Cycle,
    CycleStep,
    Proposal,
    StepCounts,
    StepDecision,
    decision,
)
from langmem_tiers.postgres.flow import Call, Flow, Query, apart, begun_anew, rows_of
from langmem_tiers.store.write import lock_call

BATCH = 500
"""Memories in a file, where a caller archives by itself."""
DONE = "old, not asked for and unimportant"
CHANGED_SINCE = "changed meanwhile"
STAYS = "read, rated or tied to others meanwhile"
WAITS = "as old, and more than this cycle may take"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MOST_IDS = 10_000


class ArchivedMemory(NamedTuple):
    """A whole memory: a row of archive_rows, whose columns are in this order."""

    id: int
    tier: str
    namespace: str
    key: str
    value: str
    """JSON, as Postgres prints it."""
    lexemes: str | None
    ttl_minutes: float | None
    session: str | None
    turn: int | None
    speaker: str | None
    signature: str | None
    tool: str | None
    state: str | None
    access_count: int | None
    """None, like the counters after it, for a memory that has no counters."""
    success_count: int | None
    failure_count: int | None
    strength: float | None
    times: list[int | None]
    """Microseconds since 1970, in the order of TIMES."""
    fields: list[str]
    """The indexed fields that have a vector, in order."""
    embeddings: list[bytes]
    """Their vectors, in pgvector's binary form of 32-bit floats."""

    @property
    def version(self) -> str:
        """Its `updated_at`, as decisions name it."""
        return (_EPOCH + timedelta(microseconds=self.times[1] or 0)).isoformat()


TIMES = (
    "created_at",
    "updated_at",
    "expires_at",
    "occurred_at",
    "valid_from",
    "valid_to",
    "state_at",
    "last_accessed_at",
    "strength_at",
)


class Written(NamedTuple):
    """A file that was written and read back."""

    archive: str
    """Its name, which nothing with other contents has."""
    url: str
    checksum: str
    """SHA-256 of the file."""


class Files(Protocol):
    """Where archives are."""

    def write(
        self, directory: str, name: str, tenant: str, memories: list[ArchivedMemory]
    ) -> Written:
        """Write a file, and read it back."""
        ...

    def read(self, url: str, checksum: str) -> list[ArchivedMemory]:
        """What a file holds, if it is exactly what was written."""
        ...

    def rewrite(
        self, url: str, archive: str, tenant: str, memories: list[ArchivedMemory]
    ) -> Written:
        """Write what stays of a file beside it, and read it back."""
        ...

    def exists(self, url: str) -> bool:
        """Whether there is such a file."""
        ...

    def remove(self, url: str) -> None:
        """Remove a file, if it is there."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveReport:
    """What left the database."""

    memories: int
    """How many did, or would have."""
    left: int
    """How many were to leave and stay, as they changed meanwhile."""
    archives: tuple[str, ...]
    """The files that were written; `restore_archive` takes one."""
    dry_run: bool = False
    waiting: int = 0
    """How many more the policy means, beyond its `max_share`."""

    def __str__(self) -> str:
        """The counts in a line."""
        memories = f"{self.memories:,} {'memory' if self.memories == 1 else 'memories'}"
        waiting = f"; {self.waiting:,} more wait, beyond max_share" if self.waiting else ""
        if self.dry_run:
            return f"{memories} would be archived (dry_run){waiting}"
        files = f"{len(self.archives):,} {'file' if len(self.archives) == 1 else 'files'}"
        changed = f", {self.left:,} changed on the way and stay" if self.left else ""
        return f"{memories} archived in {files}{changed}{waiting}"


class Archive(CycleStep):
    """The step of a cycle that archives, into the directory of the cycle's policy.

    A crash between the file and the transaction leaves a file that nothing refers to, and all
    memories where they are. Done again, the same file is written again.
    """

    name = "archive"

    def __init__(self, policy: ArchivalPolicy, files: Files) -> None:
        """Hold what is meant, and write to these files."""
        self._policy = policy
        self._files = files

    def select(self, cycle: Cycle, after: int, limit: int) -> Flow[list[int]]:
        """The next memories to archive: ids above `after`, ascending.

        They are the least valuable, and with all that the cycle archived before no more than the
        policy's share of the tenant.
        """
        params = {**self._meant(cycle), "share": self._policy.max_share}
        return stored.select(cycle, "archive_least", after, limit, **params)

    def propose(self, cycle: Cycle, ids: Sequence[int]) -> Flow[Proposal]:
        """Archive those that the policy still means."""
        if not ids:
            return Proposal(decisions=[], kept={})
        wanted = set(ids)
        within = {"after": min(ids) - 1, "until": max(ids), "limit": _MOST_IDS}
        rows = yield from rows_of("archive_candidates", **self._meant(cycle), **within)
        meant = [_Meant(*row) for row in rows if row[0] in wanted]
        kept = len(wanted) - len(meant)
        decisions = [decision(one, DONE) for one in meant]
        return Proposal(decisions=decisions, kept={STAYS: kept} if kept else {})

    def apply(self, cycle: Cycle, decisions: Sequence[StepDecision]) -> Flow[StepCounts]:
        """Write a file, then remove what is in it and has not changed meanwhile.

        Raises:
            ArchiveError: if the file cannot be written, or not be read back.
            LeaseLostError: if somebody else consolidates the tenant by now.
        """
        one = yield from self.store_away(cycle, decisions)
        done, left = one.memories, one.left
        return StepCounts(
            done={DONE: done} if done else {}, left={CHANGED_SINCE: left} if left else {}, moves=[]
        )

    def finish(self, cycle: Cycle) -> Flow[dict[str, int]]:
        """Count what waits for another cycle; all that is old enough is looked at in each."""
        waiting = yield from self.waiting(cycle)
        return {WAITS: waiting} if waiting else {}

    def waiting(self, cycle: Cycle) -> Flow[int]:
        """How many memories the policy means by now."""
        rows = yield from rows_of("archive_waiting", **self._meant(cycle))
        return int(rows[0][0])

    def store_away(self, cycle: Cycle, decisions: Sequence[StepDecision]) -> Flow[ArchiveReport]:
        """Do what `apply` says, and name the file."""
        versions = {one["id"]: one["version"] for one in decisions}
        mine = {"tenant": cycle.tenant, "ids": list(versions)}
        calls = (Call("archived_among", mine), Call("archive_rows", mine))
        stored, rows = yield Query(calls, commit=True)
        found = (ArchivedMemory(*row) for row in rows)
        before = self._before(cycle)
        memories = [
            one
            for one in found
            if one.version == versions[one.id] and _is_meant(one, self._policy, before)
        ]
        done = len(stored)
        archives = {row[1] for row in stored}
        if memories:
            name = f"{cycle.cycle}-{memories[0].id}"
            write = partial(self._files.write, self._policy.url, name, cycle.tenant, memories)
            written: Written = yield from apart(write, sys.maxsize)
            removed = yield from _remove(cycle, memories, written)
            done += removed
            archives |= {written.archive} if removed else set()
        return ArchiveReport(
            memories=done, left=len(versions) - done, archives=tuple(sorted(archives))
        )

    def _before(self, cycle: Cycle) -> datetime:
        """What was recorded, changed or read since is not old."""
        return cycle.moment.now - timedelta(days=self._policy.older_than_days)

    def _meant(self, cycle: Cycle) -> dict[str, Any]:
        """What the policy means, as the statements take it."""
        return {
            **cycle.params,
            "before": self._before(cycle),
            "agent_id": self._policy.agent_id,
            "accesses": self._policy.max_access_count,
            "importance": self._policy.max_importance,
            "untold": self._policy.default_importance,
        }


def archive_all(
    step: Archive, cycle: Cycle, *, dry_run: bool, advance: Callable[[int], object]
) -> Flow[ArchiveReport]:
    """Archive all that the policy means, `BATCH` memories a file and a transaction.

    `advance` is told how many memories each batch was about.
    """
    ids = yield from _all_ids(step, cycle)
    if dry_run:
        more = (yield from step.waiting(cycle)) - len(ids)
        return ArchiveReport(memories=len(ids), left=0, archives=(), dry_run=True, waiting=more)
    reports: list[ArchiveReport] = []
    for batch in (ids[start : start + BATCH] for start in range(0, len(ids), BATCH)):
        proposal = yield from step.propose(cycle, batch)
        reports.append((yield from step.store_away(cycle, proposal["decisions"])))
        advance(len(batch))
    return ArchiveReport(
        memories=sum(one.memories for one in reports),
        left=len(ids) - sum(one.memories for one in reports),
        archives=tuple(name for one in reports for name in one.archives),
        waiting=(yield from step.waiting(cycle)),
    )


def _all_ids(step: Archive, cycle: Cycle) -> Flow[list[int]]:
    ids: list[int] = []
    while page := (yield from step.select(cycle, ids[-1] if ids else 0, _MOST_IDS)):
        ids += page
    return ids


class _Meant(NamedTuple):
    """What the policy means; a row of archive_candidates, the columns are in this order."""

    id: int
    namespace: str
    key: str
    updated_at: datetime


def _is_meant(one: ArchivedMemory, policy: ArchivalPolicy, before: datetime) -> bool:
    """Whether a memory is still meant: its state and counters change without its version."""
    read = one.times[TIMES.index("last_accessed_at")]
    left_alone = read is None or _EPOCH + timedelta(microseconds=read) < before
    read_rarely = (one.access_count or 0) < policy.max_access_count
    served = (one.success_count or 0) > (one.failure_count or 0)
    return one.state is None and read_rarely and left_alone and not served


@begun_anew
def _remove(cycle: Cycle, memories: Sequence[ArchivedMemory], written: Written) -> Flow[int]:
    """Remove what is in a file and has not changed since; how many memories."""
    mine: dict[str, Any] = {"tenant": cycle.tenant, "ids": [one.id for one in memories]}
    keys = [(cycle.tenant, one.namespace, one.key) for one in memories]
    calls = (lock_call(keys, cycle.options), lease.guard(cycle), Call("archive_lock", mine))
    _, guard, held = yield Query(calls)
    lease.check_guard(guard, cycle.tenant)
    (rows,) = yield Query((Call("archive_rows", mine),))
    free = {row[0] for row in held}
    now = {row[0]: ArchivedMemory(*row) for row in rows if row[0] in free}
    ids = [one.id for one in memories if now.get(one.id) == one]
    params = {**mine, **written._asdict(), "now": cycle.moment.now, "ids": ids}
    yield Query((Call("record_archive", params),) if ids else (), commit=True)
    return len(ids)
