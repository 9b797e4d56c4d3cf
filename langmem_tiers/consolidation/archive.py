"""Archival: unused memories go into a file, are checked there, and leave the database.

A restore brings whole memories back as they were, and never a forgotten one.
"""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeAlias

from langmem_tiers.consolidation import lease, steps
from langmem_tiers.consolidation.policy import ArchivalPolicy
from langmem_tiers.consolidation.steps import Cycle, Proposal, StepCounts, StepDecision
from langmem_tiers.core.config import StoreOptions
from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.errors import FileError, InvalidInputError, short
from langmem_tiers.core.memory import STATES, Place, decode_namespace
from langmem_tiers.core.values import batches, content_of
from langmem_tiers.postgres.flow import (
    Call,
    Flow,
    Query,
    Row,
    off_loop,
    retried_on_conflict,
    rows_of,
)
from langmem_tiers.remember.tombstones import find_forgotten
from langmem_tiers.store.write import Write, delete_expired_calls, lock_call

BATCH = 500
"""Memories in a file, where a caller archives by itself."""
UNUSED = "old, not asked for and unimportant"
CHANGED_SINCE = "changed meanwhile"
USED_SINCE = "read, rated or tied to others meanwhile"
BEYOND_SHARE = "as old, and more than this cycle may take"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_IDS = 10_000
_CHUNK_BYTES = 8_000_000
"""Bytes that one statement restores, so that no parameter outgrows the limit of Postgres."""
_MAX_LISTED = 3
"""Archives that an error names."""
_COLUMNS = (
    *("ids", "tiers", "namespaces", "keys", "values", "lexemes", "ttls", "sessions", "turns"),
    *("speakers", "signatures", "tools", "states", "accesses", "successes", "failures"),
    "strengths",
)
"""Parameters of restore_archived, in the order of the fields of an `ArchivedMemory`. Its times and
vectors follow."""


class ArchivedMemory(NamedTuple):
    """A whole memory: a row of archive_rows, with its columns in this order."""

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
    """The number of reads. It and the counters after it are None for a memory without counters."""
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
        """Return its `updated_at` in the form that decisions have."""
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


class WrittenFile(NamedTuple):
    """A file that was written and read back."""

    archive: str
    """Its name, which no file with other contents has."""
    url: str
    checksum: str
    """SHA-256 of the file."""


class ArchiveStorage(Protocol):
    """The storage that holds archives."""

    def write(
        self, directory: str, name: str, tenant: str, memories: list[ArchivedMemory]
    ) -> WrittenFile:
        """Write a file, and read it back."""

    def read(self, url: str, checksum: str) -> list[ArchivedMemory]:
        """Return the memories of a file, if it is exactly what was written."""

    def rewrite(
        self, url: str, archive: str, tenant: str, memories: list[ArchivedMemory]
    ) -> WrittenFile:
        """Write the remaining memories of a file into a file beside it, and read that back."""

    def exists(self, url: str) -> bool:
        """Return True if the file exists."""

    def remove(self, url: str) -> None:
        """Remove a file, if it is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveReport:
    """Counts of the memories that left the database."""

    memories: int
    """Memories that left, or would have."""
    left: int
    """Memories that were to leave and stay, as they changed meanwhile."""
    archives: tuple[str, ...]
    """The files that were written; `admin.restore_archive` takes one."""
    dry_run: bool = False
    waiting: int = 0
    """Further memories that the policy selects, beyond its `max_share`."""

    def __str__(self) -> str:
        """Return the counts in a line."""
        memories = f"{self.memories:,} {'memory' if self.memories == 1 else 'memories'}"
        waiting = f"; {self.waiting:,} more wait, beyond max_share" if self.waiting else ""
        if self.dry_run:
            return f"{memories} would be archived (dry_run){waiting}"
        files = f"{len(self.archives):,} {'file' if len(self.archives) == 1 else 'files'}"
        changed = f", {self.left:,} changed on the way and stay" if self.left else ""
        return f"{memories} archived in {files}{changed}{waiting}"


@dataclass(frozen=True)
class Archive(steps.CycleStep):
    """The step of a cycle that archives, into the directory of the cycle's policy.

    A crash between the file and the transaction leaves a file that nothing refers to, and all
    memories where they are. Done again, the same file is written again.
    """

    policy: ArchivalPolicy
    """Selects the memories to archive."""
    files: ArchiveStorage
    name = "archive"

    def select(self, cycle: Cycle, after: int, limit: int) -> Flow[list[int]]:
        """Return the next memories to archive: ids above `after`, ascending.

        They are the least valuable ones. With those that the cycle archived before they are at most
        the policy's share of the tenant.
        """
        params = {**self._policy_params(cycle), "share": self.policy.max_share}
        return steps.select_ids(cycle, "archive_least", after, limit, **params)

    def propose(self, cycle: Cycle, ids: Sequence[int]) -> Flow[Proposal]:
        """Archive the memories that the policy still selects."""
        if not ids:
            return Proposal(decisions=[], kept={})
        wanted = set(ids)
        within = {"after": min(ids) - 1, "until": max(ids), "limit": _MAX_IDS}
        rows = yield from rows_of("archive_candidates", **self._policy_params(cycle), **within)
        candidates = [_ArchivalCandidate(*row) for row in rows if row[0] in wanted]
        kept = len(wanted) - len(candidates)
        decisions = [steps.make_decision(candidate, UNUSED) for candidate in candidates]
        return Proposal(decisions=decisions, kept={USED_SINCE: kept} if kept else {})

    def apply(self, cycle: Cycle, decisions: Sequence[StepDecision]) -> Flow[StepCounts]:
        """Write a file, then remove the memories in it that have not changed meanwhile.

        Raises:
            FileError (archive): if the file cannot be written, or not be read back.
            ConflictError (lease_lost): if somebody else consolidates the tenant by now.
        """
        done, _ = yield from self.store_away(cycle, decisions)
        left = len(decisions) - done
        return StepCounts(
            done={UNUSED: done} if done else {},
            left={CHANGED_SINCE: left} if left else {},
            moves=[],
        )

    def finish(self, cycle: Cycle) -> Flow[dict[str, int]]:
        """Count the memories that wait for another cycle; each cycle looks at all old ones."""
        waiting = yield from self.count_waiting(cycle)
        return {BEYOND_SHARE: waiting} if waiting else {}

    def count_waiting(self, cycle: Cycle) -> Flow[int]:
        """Count the memories that the policy selects by now."""
        rows = yield from rows_of("archive_waiting", **self._policy_params(cycle))
        return int(rows[0][0])

    def store_away(
        self, cycle: Cycle, decisions: Sequence[StepDecision]
    ) -> Flow[tuple[int, set[str]]]:
        """Archive as `apply` does; return how many memories left, and the files they went to."""
        versions = {decision["id"]: decision["version"] for decision in decisions}
        mine = {"tenant": cycle.tenant, "ids": list(versions)}
        calls = (Call("archived_among", mine), Call("archive_rows", mine))
        gone, rows = yield Query(calls, commit=True)
        memories = [
            memory
            for memory in (ArchivedMemory(*row) for row in rows)
            if memory.version == versions[memory.id] and self._still_qualifies(memory, cycle)
        ]
        done, archives = len(gone), {row[1] for row in gone}
        if memories:
            name = f"{cycle.cycle}-{memories[0].id}"
            write = partial(self.files.write, self.policy.url, name, cycle.tenant, memories)
            written: WrittenFile = yield from off_loop(write, sys.maxsize)
            if removed := (yield from _remove_archived(cycle, memories, written)):
                done += removed
                archives.add(written.archive)
        return done, archives

    def _still_qualifies(self, memory: ArchivedMemory, cycle: Cycle) -> bool:
        """Return True if the policy still selects a memory.

        State and counters of a memory change without its version.
        """
        used = memory.times[TIMES.index("last_accessed_at")]
        before = cycle.moment.now - timedelta(days=self.policy.older_than_days)
        left_alone = used is None or _EPOCH + timedelta(microseconds=used) < before
        read_rarely = (memory.access_count or 0) < self.policy.max_access_count
        served = (memory.success_count or 0) > (memory.failure_count or 0)
        return memory.state is None and read_rarely and left_alone and not served

    def _policy_params(self, cycle: Cycle) -> dict[str, Any]:
        """Return the policy as parameters of statements."""
        return {
            **cycle.params,
            "before": cycle.moment.now - timedelta(days=self.policy.older_than_days),
            "agent_id": self.policy.agent_id,
            "accesses": self.policy.max_access_count,
            "importance": self.policy.max_importance,
            "untold": self.policy.default_importance,
        }


def archive_all(
    step: Archive, cycle: Cycle, *, dry_run: bool, advance: Callable[[int], object]
) -> Flow[ArchiveReport]:
    """Archive all memories that the policy selects, `BATCH` a file and a transaction.

    `advance` is called with the number of memories of each batch.
    """
    ids: list[int] = []
    while page := (yield from step.select(cycle, ids[-1] if ids else 0, _MAX_IDS)):
        ids += page
    if dry_run:
        more = (yield from step.count_waiting(cycle)) - len(ids)
        return ArchiveReport(memories=len(ids), left=0, archives=(), dry_run=True, waiting=more)
    memories, archives = 0, list[str]()
    for batch in (ids[start : start + BATCH] for start in range(0, len(ids), BATCH)):
        proposal = yield from step.propose(cycle, batch)
        done, files = yield from step.store_away(cycle, proposal["decisions"])
        memories += done
        archives += sorted(files)
        advance(len(batch))
    waiting = yield from step.count_waiting(cycle)
    left = len(ids) - memories
    return ArchiveReport(memories=memories, left=left, archives=tuple(archives), waiting=waiting)


class _ArchivalCandidate(NamedTuple):
    """A memory that the policy selects: a row of archive_candidates, with its columns in order."""

    id: int
    namespace: str
    key: str
    updated_at: datetime


@retried_on_conflict
def _remove_archived(
    cycle: Cycle, memories: Sequence[ArchivedMemory], written: WrittenFile
) -> Flow[int]:
    """Remove the memories of a file that have not changed since; return how many."""
    mine: dict[str, Any] = {"tenant": cycle.tenant, "ids": [memory.id for memory in memories]}
    keys = [(cycle.tenant, memory.namespace, memory.key) for memory in memories]
    calls = (lock_call(keys, cycle.options), cycle.guard, Call("archive_lock", mine))
    _, guard, held = yield Query(calls)
    lease.check_guard(guard, cycle.tenant)
    (rows,) = yield Query((Call("archive_rows", mine),))
    free = {row[0] for row in held}
    now = {row[0]: ArchivedMemory(*row) for row in rows if row[0] in free}
    ids = [memory.id for memory in memories if now.get(memory.id) == memory]
    params = {**mine, **written._asdict(), "now": cycle.moment.now, "ids": ids}
    yield Query((Call("record_archive", params),) if ids else (), commit=True)
    return len(ids)


ArchivedById: TypeAlias = Mapping[int, ArchivedMemory]
"""The memories of a file, by id."""


@dataclass(frozen=True, slots=True)
class ArchiveFile:
    """A file of archived memories: a row of archives, with its columns in this order."""

    archive: str
    """Its name, which `admin.restore_archive` takes."""
    url: str
    checksum: str
    """SHA-256 of the file."""
    memories: int
    """Memories that left the database for it."""
    archived_at: datetime
    remaining: int
    """Memories that are in it and nowhere else: neither restored nor forgotten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreReport:
    """Counts of the memories that came back from an archive."""

    restored: int
    occupied: tuple[str, ...] = ()
    """Keys that another memory has now, or a newer archived one; these memories wait."""
    expired: int = 0
    """Memories that had expired by now, and are gone for good."""
    forgotten: tuple[str, ...] = ()
    """Keys of memories with a text that was forgotten since; they stay in the file."""

    def __str__(self) -> str:
        """Return the counts in a line."""
        parts = [f"{self.restored:,} {'memory' if self.restored == 1 else 'memories'} restored"]
        if self.occupied:
            parts.append(f"{len(self.occupied):,} left where their key lives again")
        if self.expired:
            parts.append(f"{self.expired:,} expired meanwhile")
        if self.forgotten:
            parts.append(f"{len(self.forgotten):,} left as they were forgotten")
        return ", ".join(parts)


class ArchivedPlace(NamedTuple):
    """The place to which an archived memory would come back: a row of archived_as."""

    tenant: str
    tier: str
    namespace: str
    key: str
    archive: str

    @property
    def place(self) -> tuple[tuple[str, ...], str]:
        """Return its namespace and key."""
        return decode_namespace(self.tenant, self.namespace), self.key


class RestoreContext(NamedTuple):
    """The caller, files, options and time of a restore."""

    context: MemoryContext
    files: ArchiveStorage
    options: StoreOptions
    now: datetime

    @property
    def tenant(self) -> str:
        """Return the tenant in the database's form."""
        return self.context.root

    def sees(self, memory: ArchivedMemory) -> bool:
        """Return True if the memory is shared, or the context's user owns it."""
        user = self.options.user_of(Place(self.tenant, memory.namespace))
        return user in (None, self.context.user_id)


def list_archives(tenant: str) -> Flow[list[ArchiveFile]]:
    """Return the archives of a tenant, oldest first."""
    rows = yield from rows_of("archives", tenant=tenant)
    return [ArchiveFile(*row) for row in rows]


def restore_archive(context: RestoreContext, archive: str) -> Flow[RestoreReport]:
    """Bring back the memories that only this archive holds, by its name or URL.

    Raises:
        InvalidInputError: if the tenant has no such archive.
        FileError (archive): if the file is not what was written, or not for this database.
    """
    files = yield from list_archives(context.tenant)
    file = next((file for file in files if archive in (file.archive, file.url)), None)
    if file is None:
        raise InvalidInputError(
            f"there is no archive {short(archive)} of {context.tenant!r}: "
            f"{_describe_archives(files)}"
        )
    if not file.remaining:
        return RestoreReport(restored=0)
    memories: list[ArchivedMemory] = yield from off_loop(
        partial(context.files.read, file.url, file.checksum), sys.maxsize
    )
    for memory in memories:
        if memory.state not in (None, *STATES) or not isinstance(json.loads(memory.value), dict):
            raise FileError(
                f"{memory.key!r} of {file.url} is in a state, or has a value, that no verb reads: "
                "nothing was restored",
                code="archive",
            )
    held = {memory.id: memory for memory in memories}
    texts = {id_: content_of(json.loads(memory.value)) for id_, memory in held.items()}
    forgotten = yield from find_forgotten(context.tenant, list(texts.values()))
    refused = {id_ for id_, text in texts.items() if text in forgotten}
    report = yield from _restore_memories(context, file, held, held.keys() - refused)
    visible = sorted(held[id_].key for id_ in refused if context.sees(held[id_]))
    return replace(report, forgotten=tuple(visible))


def _describe_archives(files: Sequence[ArchiveFile]) -> str:
    """Name the archives, the newest first."""
    if not files:
        return "nothing of it is archived"
    names = [file.archive for file in reversed(files)]
    more = f" and {len(names) - _MAX_LISTED:,} more" if len(names) > _MAX_LISTED else ""
    return f"there {'is' if len(names) == 1 else 'are'} {', '.join(names[:_MAX_LISTED])}{more}"


@retried_on_conflict
def _restore_memories(
    context: RestoreContext, file: ArchiveFile, held: ArchivedById, wanted: set[int]
) -> Flow[RestoreReport]:
    """Insert the memories that are still archived, and check them against the file."""
    of_file = {"tenant": context.tenant, "archive": file.archive}
    reads = (Call("archived_in", of_file), Call("settings", {}))
    keys = [(context.tenant, held[id_].namespace, held[id_].key) for id_ in wanted]
    _, listed, settings = yield Query((lock_call(keys, context.options), *reads))
    places = {id_: [memory.tier, memory.namespace, memory.key] for id_, memory in held.items()}
    if any(places.get(id_) != place for id_, *place in listed):
        raise FileError(
            f"{file.url} holds other memories than those that left for it: nothing was restored",
            code="archive",
        )
    memories = [held[row[0]] for row in listed if row[0] in wanted]
    _check_vectors(memories, dict(settings).get("vector"))
    dead = [
        Write(place=Place(context.tenant, memory.namespace), key=memory.key, value=None)
        for memory in memories
    ]
    calls = [
        *delete_expired_calls(dead, context.now),
        *(
            _restore_call(some, of_file, context.now)
            for some in batches(memories, _byte_size, _CHUNK_BYTES)
        ),
    ]
    answers = yield Query(tuple(calls))
    verdicts = [row for rows in answers[1 if dead else 0 :] for row in rows]
    back = [row[0] for row in verdicts if row[1] == "restored"]
    (rows,) = yield Query((Call("archive_rows", {"tenant": context.tenant, "ids": back}),))
    _check_exact(rows, held, {row[0] for row in verdicts if row[2]}, file)
    yield Query((), commit=True)
    return RestoreReport(
        restored=len(back),
        occupied=tuple(
            memory.key
            for memory in (held[row[0]] for row in verdicts if row[1] == "occupied")
            if context.sees(memory)
        ),
        expired=sum(row[1] == "expired" for row in verdicts),
    )


def _check_vectors(memories: Sequence[ArchivedMemory], shape: Mapping[str, Any] | None) -> None:
    """Raise an error unless this database can hold these vectors bit by bit."""
    lengths = {len(each) // 4 - 1 for memory in memories for each in memory.embeddings}
    if not lengths:
        return
    dims = None if shape is None else shape["dims"]
    if lengths != {dims}:
        raise FileError(
            f"the archived vectors have {sorted(lengths)} dimensions, those of this database "
            f"{dims}: restore into a database that was set up like the one they left",
            code="archive",
        )


def _check_exact(
    rows: Sequence[Row], held: ArchivedById, earned: set[int], file: ArchiveFile
) -> None:
    """Raise an error unless the stored rows equal the file's; counters may have grown since."""
    for row in rows:
        stored, wanted = ArchivedMemory(*row), held[row[0]]
        if stored == wanted or (
            stored.id in earned and _without_counters(stored) == _without_counters(wanted)
        ):
            continue
        raise FileError(
            f"{wanted.key!r} of {file.url} would not come back exactly as it was (vectors of "
            "another type, or another version of Postgres): nothing was restored",
            code="archive",
        )


def _without_counters(memory: ArchivedMemory) -> tuple[Any, ...]:
    """Return all columns of a memory but its counters."""
    counters, used = memory._fields.index("access_count"), TIMES.index("last_accessed_at")
    return (*memory[:counters], memory.times[:used], memory.fields, memory.embeddings)


def _restore_call(
    memories: Sequence[ArchivedMemory], of_file: Mapping[str, str], now: datetime
) -> Call:
    vectors = [
        (memory.id, field, embedding)
        for memory in memories
        for field, embedding in zip(memory.fields, memory.embeddings, strict=True)
    ]
    params: dict[str, Any] = {
        **of_file,
        **dict(zip(_COLUMNS, map(list, zip(*memories, strict=True)), strict=False)),
        "times": [moment for memory in memories for moment in memory.times],
        "owners": [row[0] for row in vectors],
        "fields": [row[1] for row in vectors],
        "embeddings": [_vector_text(row[2]) for row in vectors],
        "now": now,
    }
    return Call("restore_archived", params)


def _vector_text(packed: bytes) -> str:
    """Return a vector as text in which each number is read back the same."""
    numbers = struct.unpack(f">{len(packed) // 4 - 1}f", packed[4:])
    return json.dumps(numbers)


def _byte_size(memory: ArchivedMemory) -> int:
    return len(memory.value) + 4 * sum(map(len, memory.embeddings))


def find_archived(context: MemoryContext, key: str) -> Flow[list[ArchivedPlace]]:
    """Return the places of a key's archived memories that the context would see there."""
    rows = yield from rows_of("archived_as", **context.scope_params, key=key)
    return [ArchivedPlace(*row) for row in rows]
