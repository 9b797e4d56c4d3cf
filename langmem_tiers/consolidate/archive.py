"""Archival: what nobody asks for goes into a file, is checked there, and leaves the database.

And the way back: whole memories, as they were, and never what was forgotten.
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

from langmem_tiers.consolidate import lease, steps
from langmem_tiers.consolidate.policy import ArchivalPolicy
from langmem_tiers.consolidate.steps import Cycle, Proposal, StepCounts, StepDecision
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
from langmem_tiers.remember.tombstones import buried
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
"""Of what one statement brings back, so that no parameter outgrows what Postgres takes."""
_MAX_LISTED = 3
"""Archives that an error names."""
_COLUMNS = (
    *("ids", "tiers", "namespaces", "keys", "values", "lexemes", "ttls", "sessions", "turns"),
    *("speakers", "signatures", "tools", "states", "accesses", "successes", "failures"),
    "strengths",
)
"""As restore_archived names the columns of an `ArchivedMemory`; its times and vectors follow."""


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


class WrittenFile(NamedTuple):
    """A file that was written and read back."""

    archive: str
    """Its name, which nothing with other contents has."""
    url: str
    checksum: str
    """SHA-256 of the file."""


class ArchiveStorage(Protocol):
    """Where archives are."""

    def write(
        self, directory: str, name: str, tenant: str, memories: list[ArchivedMemory]
    ) -> WrittenFile:
        """Write a file, and read it back."""

    def read(self, url: str, checksum: str) -> list[ArchivedMemory]:
        """What a file holds, if it is exactly what was written."""

    def rewrite(
        self, url: str, archive: str, tenant: str, memories: list[ArchivedMemory]
    ) -> WrittenFile:
        """Write what stays of a file beside it, and read it back."""

    def exists(self, url: str) -> bool:
        """Whether there is such a file."""

    def remove(self, url: str) -> None:
        """Remove a file, if it is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveReport:
    """What left the database."""

    memories: int
    """How many did, or would have."""
    left: int
    """How many were to leave and stay, as they changed meanwhile."""
    archives: tuple[str, ...]
    """The files that were written; `admin.restore_archive` takes one."""
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


@dataclass(frozen=True)
class Archive(steps.CycleStep):
    """The step of a cycle that archives, into the directory of the cycle's policy.

    A crash between the file and the transaction leaves a file that nothing refers to, and all
    memories where they are. Done again, the same file is written again.
    """

    policy: ArchivalPolicy
    """Says which memories are meant."""
    files: ArchiveStorage
    name = "archive"

    def select(self, cycle: Cycle, after: int, limit: int) -> Flow[list[int]]:
        """The next memories to archive: ids above `after`, ascending.

        They are the least valuable, and with all that the cycle archived before no more than the
        policy's share of the tenant.
        """
        params = {**self._policy_params(cycle), "share": self.policy.max_share}
        return steps.select_ids(cycle, "archive_least", after, limit, **params)

    def propose(self, cycle: Cycle, ids: Sequence[int]) -> Flow[Proposal]:
        """Archive those that the policy still means."""
        if not ids:
            return Proposal(decisions=[], kept={})
        wanted = set(ids)
        within = {"after": min(ids) - 1, "until": max(ids), "limit": _MAX_IDS}
        rows = yield from rows_of("archive_candidates", **self._policy_params(cycle), **within)
        meant = [_ArchivalCandidate(*row) for row in rows if row[0] in wanted]
        kept = len(wanted) - len(meant)
        decisions = [steps.make_decision(row, UNUSED) for row in meant]
        return Proposal(decisions=decisions, kept={USED_SINCE: kept} if kept else {})

    def apply(self, cycle: Cycle, decisions: Sequence[StepDecision]) -> Flow[StepCounts]:
        """Write a file, then remove what is in it and has not changed meanwhile.

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
        """Count what waits for another cycle; all that is old enough is looked at in each."""
        waiting = yield from self.count_waiting(cycle)
        return {BEYOND_SHARE: waiting} if waiting else {}

    def count_waiting(self, cycle: Cycle) -> Flow[int]:
        """How many memories the policy means by now."""
        rows = yield from rows_of("archive_waiting", **self._policy_params(cycle))
        return int(rows[0][0])

    def store_away(
        self, cycle: Cycle, decisions: Sequence[StepDecision]
    ) -> Flow[tuple[int, set[str]]]:
        """Do what `apply` says; how many memories left, and for which files."""
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
        """Whether a memory is still meant: its state and counters change without its version."""
        used = memory.times[TIMES.index("last_accessed_at")]
        before = cycle.moment.now - timedelta(days=self.policy.older_than_days)
        left_alone = used is None or _EPOCH + timedelta(microseconds=used) < before
        read_rarely = (memory.access_count or 0) < self.policy.max_access_count
        served = (memory.success_count or 0) > (memory.failure_count or 0)
        return memory.state is None and read_rarely and left_alone and not served

    def _policy_params(self, cycle: Cycle) -> dict[str, Any]:
        """What the policy means, as the statements take it."""
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
    """Archive all that the policy means, `BATCH` memories a file and a transaction.

    `advance` is told how many memories each batch was about.
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
    """What the policy means; a row of archive_candidates, the columns are in this order."""

    id: int
    namespace: str
    key: str
    updated_at: datetime


@retried_on_conflict
def _remove_archived(
    cycle: Cycle, memories: Sequence[ArchivedMemory], written: WrittenFile
) -> Flow[int]:
    """Remove what is in a file and has not changed since; how many memories."""
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
"""What a file holds."""


@dataclass(frozen=True, slots=True)
class ArchiveFile:
    """A file that memories went into; a row of archives, the columns are in this order."""

    archive: str
    """Its name, which `admin.restore_archive` takes."""
    url: str
    checksum: str
    """SHA-256 of the file."""
    memories: int
    """How many memories left the database for it."""
    archived_at: datetime
    remaining: int
    """How many of them are in it and nowhere else: neither restored nor forgotten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreReport:
    """What came back from an archive."""

    restored: int
    occupied: tuple[str, ...] = ()
    """Keys of which another memory lives now, or a newer one is archived; these wait."""
    expired: int = 0
    """How many had expired by now, and are gone for good."""
    forgotten: tuple[str, ...] = ()
    """Keys of what says what was forgotten since: it stays in the file."""

    def __str__(self) -> str:
        """The counts in a line."""
        parts = [f"{self.restored:,} {'memory' if self.restored == 1 else 'memories'} restored"]
        if self.occupied:
            parts.append(f"{len(self.occupied):,} left where their key lives again")
        if self.expired:
            parts.append(f"{self.expired:,} expired meanwhile")
        if self.forgotten:
            parts.append(f"{len(self.forgotten):,} left as they were forgotten")
        return ", ".join(parts)


class ArchivedPlace(NamedTuple):
    """Where an archived memory would come back; a row of archived_as."""

    tenant: str
    tier: str
    namespace: str
    key: str
    archive: str

    @property
    def place(self) -> tuple[tuple[str, ...], str]:
        """Its namespace and key."""
        return decode_namespace(self.tenant, self.namespace), self.key


class RestoreContext(NamedTuple):
    """What holds for a whole restore."""

    context: MemoryContext
    files: ArchiveStorage
    options: StoreOptions
    now: datetime

    @property
    def tenant(self) -> str:
        """As the database names it."""
        return self.context.root

    def sees(self, memory: ArchivedMemory) -> bool:
        """Whether it is shared, or the own of the context's user."""
        user = self.options.user_of(Place(self.tenant, memory.namespace))
        return user in (None, self.context.user_id)


def list_archives(tenant: str) -> Flow[list[ArchiveFile]]:
    """The archives of a tenant, oldest first."""
    rows = yield from rows_of("archives", tenant=tenant)
    return [ArchiveFile(*row) for row in rows]


def restore_archive(context: RestoreContext, archive: str) -> Flow[RestoreReport]:
    """Bring back what an archive, by its name or URL, holds alone.

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
    forgotten = yield from buried(context.tenant, list(texts.values()))
    stays = {id_ for id_, text in texts.items() if text in forgotten}
    report = yield from _restore_memories(context, file, held, held.keys() - stays)
    seen = sorted(held[id_].key for id_ in stays if context.sees(held[id_]))
    return replace(report, forgotten=tuple(seen))


def _describe_archives(files: Sequence[ArchiveFile]) -> str:
    """Which archives there are, the newest first."""
    if not files:
        return "nothing of it is archived"
    names = [file.archive for file in reversed(files)]
    more = f" and {len(names) - _MAX_LISTED:,} more" if len(names) > _MAX_LISTED else ""
    return f"there {'is' if len(names) == 1 else 'are'} {', '.join(names[:_MAX_LISTED])}{more}"


@retried_on_conflict
def _restore_memories(
    context: RestoreContext, file: ArchiveFile, held: ArchivedById, wanted: set[int]
) -> Flow[RestoreReport]:
    """Insert what is still archived, and look whether it is what the file says."""
    of_file = {"tenant": context.tenant, "archive": file.archive}
    asked = (Call("archived_in", of_file), Call("settings", {}))
    keys = [(context.tenant, held[id_].namespace, held[id_].key) for id_ in wanted]
    _, listed, settings = yield Query((lock_call(keys, context.options), *asked))
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
    """Raise unless this database can hold these vectors bit by bit."""
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
    """Raise unless what is stored is what the file says; counters may have earned more."""
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
    """All of a memory but its counters."""
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
    """A vector as text; each number is written so that it is read back the same."""
    numbers = struct.unpack(f">{len(packed) // 4 - 1}f", packed[4:])
    return json.dumps(numbers)


def _byte_size(memory: ArchivedMemory) -> int:
    return len(memory.value) + 4 * sum(map(len, memory.embeddings))


def find_archived(context: MemoryContext, key: str) -> Flow[list[ArchivedPlace]]:
    """Where archived memories of a key would come back that who asks would see there."""
    rows = yield from rows_of("archived_as", **context.whose, key=key)
    return [ArchivedPlace(*row) for row in rows]
