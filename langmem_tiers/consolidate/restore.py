"""The way back from an archive: whole memories, as they were, and never what was forgotten."""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from langmem_tiers.consolidate.archive import ArchivedMemory, Files
from langmem_tiers.consolidate.steps import batches
from langmem_tiers.core.config import StoreOptions
from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.errors import ArchiveError, InvalidInputError, short
from langmem_tiers.core.memory import STATES
from langmem_tiers.core.namespaces import Place, decode
from langmem_tiers.core.values import content_of
from langmem_tiers.postgres.flow import Call, Flow, Query, Row, apart, begun_anew, rows_of
from langmem_tiers.remember.tombstones import buried
from langmem_tiers.store.write import Write, delete_expired_calls, lock_call

_CHUNK_BYTES = 8_000_000
"""Of what one statement brings back, so that no parameter outgrows what Postgres takes."""
_SHOWN = 3
"""Archives that an error names."""
_MEMORY_COLUMNS = ArchivedMemory._fields.index("access_count")
"""From here on a row holds counters, then its times."""
_MEMORY_TIMES = 7
_COLUMNS = (
    *("ids", "tiers", "namespaces", "keys", "values", "lexemes", "ttls", "sessions", "turns"),
    *("speakers", "signatures", "tools", "states", "accesses", "successes", "failures"),
    "strengths",
)
"""As restore_archived names the columns of an `ArchivedMemory`; its times and vectors follow."""

ArchivedById: TypeAlias = Mapping[int, ArchivedMemory]
"""What a file holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveFile:
    """A file that memories went into."""

    archive: str
    """Its name, which `restore_archive` takes."""
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


class ArchivedAt(NamedTuple):
    """Where an archived memory would come back; a row of archived_as."""

    tenant: str
    tier: str
    namespace: str
    key: str
    archive: str

    @property
    def place(self) -> tuple[tuple[str, ...], str]:
        """Its namespace and key."""
        return decode(self.tenant, self.namespace), self.key


class Restoring(NamedTuple):
    """What holds for a whole restore."""

    context: MemoryContext
    files: Files
    options: StoreOptions
    now: datetime

    @property
    def tenant(self) -> str:
        """As the database names it."""
        return self.context.root

    def reaches(self, one: ArchivedMemory) -> bool:
        """Whether the context reaches a memory by its key, once it is back."""
        place = decode(self.tenant, one.namespace)
        own = self.context.project_id is None or self.context.reaches(one.tier, place)
        return own and self.sees(one)

    def sees(self, one: ArchivedMemory) -> bool:
        """Whether it is shared, or the own of the context's user."""
        user = self.options.user_of(Place(self.tenant, one.namespace))
        return user in (None, self.context.user_id)


def archives(tenant: str) -> Flow[list[ArchiveFile]]:
    """The archives of a tenant, oldest first."""
    rows = yield from rows_of("archives", tenant=tenant)
    names = ("archive", "url", "checksum", "memories", "archived_at", "remaining")
    return [ArchiveFile(**dict(zip(names, row, strict=True))) for row in rows]


def restore(how: Restoring, archive: str, keys: Sequence[str] | None) -> Flow[RestoreReport]:
    """Bring back what an archive, by its name or URL, holds alone; of some keys, or all.

    Raises:
        InvalidInputError: if the tenant has no such archive, or it never held such a key.
        ArchiveError: if the file is not what was written, or not for this database.
    """
    files = yield from archives(how.tenant)
    file = next((one for one in files if archive in (one.archive, one.url)), None)
    if file is None:
        raise InvalidInputError(
            f"there is no archive {short(archive)} of {how.tenant!r}: {_named(files)}"
        )
    if not file.remaining:
        return RestoreReport(restored=0)
    memories: list[ArchivedMemory] = yield from apart(
        partial(how.files.read, file.url, file.checksum), sys.maxsize
    )
    _check_readable(memories, file)
    held = {one.id: one for one in memories}
    wanted = _wanted(held, keys, archive, how)
    said = {one: content_of(json.loads(held[one].value)) for one in wanted}
    forgotten = yield from buried(how.tenant, list(said.values()))
    stays = {one for one, text in said.items() if text in forgotten}
    report = yield from _bring_back(how, file, held, wanted - stays)
    seen = sorted(held[one].key for one in stays if how.sees(held[one]))
    return replace(report, forgotten=tuple(seen))


def _check_readable(memories: Sequence[ArchivedMemory], file: ArchiveFile) -> None:
    """Raise unless every verb can read these once they are back."""
    for one in memories:
        known = one.state is None or one.state in STATES
        if not known or not isinstance(json.loads(one.value), dict):
            raise ArchiveError(
                f"{one.key!r} of {file.url} is in a state, or has a value, that no verb reads: "
                "nothing was restored"
            )


def _named(files: Sequence[ArchiveFile]) -> str:
    """Which archives there are, the newest first."""
    if not files:
        return "nothing of it is archived"
    names = [one.archive for one in reversed(files)]
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return f"there {'is' if len(names) == 1 else 'are'} {', '.join(names[:_SHOWN])}{more}"


def _wanted(
    held: ArchivedById, keys: Sequence[str] | None, archive: str, how: Restoring
) -> set[int]:
    """What is to come back: all of it, or of these keys what the context reaches."""
    if keys is None:
        return set(held)
    reached = [one for one in held.values() if how.reaches(one)]
    unknown = set(keys) - {one.key for one in reached}
    if unknown:
        raise InvalidInputError(
            f"{short(archive)} holds no memory of the key {short(min(unknown))}"
        )
    return {one.id for one in reached if one.key in keys}


@begun_anew
def _bring_back(
    how: Restoring, file: ArchiveFile, held: ArchivedById, wanted: set[int]
) -> Flow[RestoreReport]:
    """Insert what is still archived, and look whether it is what the file says."""
    of_file = {"tenant": how.tenant, "archive": file.archive}
    asked = (Call("archived_in", of_file), Call("settings", {}))
    keys = [(how.tenant, held[one].namespace, held[one].key) for one in wanted]
    _, listed, settings = yield Query((lock_call(keys, how.options), *asked))
    _check_listed(listed, held, file)
    memories = [held[row[0]] for row in listed if row[0] in wanted]
    _check_vectors(memories, dict(settings).get("vector"))
    dead = [
        Write(place=Place(how.tenant, one.namespace), key=one.key, value=None) for one in memories
    ]
    calls = [
        *delete_expired_calls(dead, how.now),
        *(
            _restore_call(some, of_file, how.now)
            for some in batches(memories, _bytes, _CHUNK_BYTES)
        ),
    ]
    answers = yield Query(tuple(calls))
    verdicts = [row for rows in answers[1 if dead else 0 :] for row in rows]
    back = [row[0] for row in verdicts if row[1] == "restored"]
    (rows,) = yield Query((Call("archive_rows", {"tenant": how.tenant, "ids": back}),))
    _check_exact(rows, held, {row[0] for row in verdicts if row[2]}, file)
    yield Query((), commit=True)
    return RestoreReport(
        restored=len(back),
        occupied=tuple(
            one.key
            for one in (held[row[0]] for row in verdicts if row[1] == "occupied")
            if how.sees(one)
        ),
        expired=sum(row[1] == "expired" for row in verdicts),
    )


def _check_listed(listed: Sequence[Row], held: ArchivedById, file: ArchiveFile) -> None:
    for memory, *place in listed:
        one = held.get(memory)
        if one is None or [one.tier, one.namespace, one.key] != place:
            raise ArchiveError(
                f"{file.url} holds other memories than those that left for it: nothing was restored"
            )


def _check_vectors(memories: Sequence[ArchivedMemory], shape: Mapping[str, Any] | None) -> None:
    """Raise unless this database can hold these vectors bit by bit."""
    lengths = {len(each) // 4 - 1 for one in memories for each in one.embeddings}
    if not lengths:
        return
    dims = None if shape is None else shape["dims"]
    if lengths != {dims}:
        raise ArchiveError(
            f"the archived vectors have {sorted(lengths)} dimensions, those of this database "
            f"{dims}: restore into a database that was set up like the one they left"
        )


def _check_exact(
    rows: Sequence[Row], held: ArchivedById, earned: set[int], file: ArchiveFile
) -> None:
    """Raise unless what is stored is what the file says; counters may have earned more."""
    for row in rows:
        stored, wanted = ArchivedMemory(*row), held[row[0]]
        if stored == wanted or (stored.id in earned and _essence(stored) == _essence(wanted)):
            continue
        raise ArchiveError(
            f"{wanted.key!r} of {file.url} would not come back exactly as it was (vectors of "
            "another type, or another version of Postgres): nothing was restored"
        )


def _essence(one: ArchivedMemory) -> tuple[Any, ...]:
    """All of a memory but its counters."""
    return (*one[:_MEMORY_COLUMNS], one.times[:_MEMORY_TIMES], one.fields, one.embeddings)


def _restore_call(
    memories: Sequence[ArchivedMemory], of_file: Mapping[str, str], now: datetime
) -> Call:
    vectors = [
        (one.id, field, embedding)
        for one in memories
        for field, embedding in zip(one.fields, one.embeddings, strict=True)
    ]
    params: dict[str, Any] = {
        **of_file,
        **dict(zip(_COLUMNS, map(list, zip(*memories, strict=True)), strict=False)),
        "times": [moment for one in memories for moment in one.times],
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


def _bytes(one: ArchivedMemory) -> int:
    return len(one.value) + 4 * sum(map(len, one.embeddings))


def archived_as(context: MemoryContext, key: str) -> Flow[list[ArchivedAt]]:
    """Where archived memories of a key would come back that who asks would see there."""
    rows = yield from rows_of("archived_as", **context.whose, key=key)
    return [ArchivedAt(*row) for row in rows]
