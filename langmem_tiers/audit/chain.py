"""Verify the chain of a tenant's audit log, and read the log's rows.

Each row has a hash of all its columns. A link hashes the link before it, and the ids and hashes of
the rows that one transaction wrote. So a change shows where it was made.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from hashlib import sha256
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from langmem_tiers.core.memory import decode_namespace
from langmem_tiers.postgres.flow import Flow, Row, off_loop, rows_of, without_deadline

FaultReason: TypeAlias = Literal["altered", "dropped", "wiped", "added", "rewritten"]
"""Reasons of a fault: a row or link was changed, or is missing; a row was emptied and no forgetting
explains that; a row is in no link; or a link differs from the head that was kept elsewhere."""

NOTHING: Final = bytes(32)
"""The hash before the first link."""
BATCH: Final = 1_000
"""The most rows of one read: our own choice."""
_RANGE: Final = re.compile(r"\[(\d+),(\d+)\)")
_ID: Final = re.compile(r"-?\d+")


@dataclass(frozen=True, slots=True)
class AuditHead:
    """The last link of a chain. The log up to it can be checked against it.

    A head that is kept elsewhere shows whether somebody rewrote the whole chain.
    """

    tenant: str
    seq: int
    """Number of the link, from 1 on; 0 for an empty chain."""
    hash: str
    """64 hexadecimal digits."""

    def __str__(self) -> str:
        """Return the head in the form that `admin.verify_audit` takes."""
        return f"{self.seq}:{self.hash}"


@dataclass(frozen=True, slots=True)
class AuditFault:
    """The first fault of a log."""

    why: FaultReason
    row: int | None
    """Id of the row; None if a link was altered or dropped."""
    link: int | None
    """Link of the row; None if the row is in no link."""

    def __str__(self) -> str:
        """Name the row or link, and the reason."""
        which = f"link {self.link}" if self.row is None else f"row {self.row}"
        return f"{which} {_FAULT_TEXTS[self.why]}"


_FAULT_TEXTS: Final[Mapping[FaultReason, str]] = {
    "altered": "was altered",
    "dropped": "was dropped",
    "wiped": "was wiped, and no forgetting says why",
    "added": "was added, or its link was dropped",
    "rewritten": "is not that of the head given: the chain was written anew",
}


class AuditRow(NamedTuple):
    """A row of the statement `audit_rows`. Columns of any type are texts."""

    id: int
    xact: str
    opens: bool
    at: str
    """Seconds since 1970."""
    verb: str
    memories: str
    told: str | None
    told_hash: bytes | None
    salt: bytes | None
    value_hash: bytes | None
    hash: bytes


class Link(NamedTuple):
    """A row of the statement `audit_links`."""

    seq: int
    ids: str
    hash: bytes

    @property
    def ranges(self) -> list[range]:
        """Return the ids of the link's rows."""
        return [range(int(match[1]), int(match[2])) for match in _RANGE.finditer(self.ids)]


def keyed_hash(salt: bytes, data: str) -> bytes:
    """Return a keyed hash of data. Its outer hash prevents a length extension of the data."""
    return sha256(salt + sha256(salt + data.encode()).digest()).digest()


def row_hash(tenant: str, row: AuditRow, told_hash: bytes) -> bytes:
    """Return the hash of a row. `told_hash` stands for the row's details."""
    value = "-" if row.value_hash is None else row.value_hash.hex()
    text = (
        f"{told_hash.hex()} {value} {row.id} {row.xact} {str(row.opens).lower()} {row.at} "
        f"{row.memories} {len(row.verb)} {row.verb} {tenant}"
    )
    return sha256(text.encode()).digest()


def link_hash(tenant: str, link: Link, before: bytes, rows: bytes) -> bytes:
    """Return the hash of a link, from the hash of the link before and the digest of its rows."""
    return sha256(before + rows + f"{link.seq} {link.ids} {tenant}".encode()).digest()


class ForgottenMemories(NamedTuple):
    """Ids of forgotten memories, each with the id of the log row that forgot it.

    `all` is the id of the last row that forgot a whole tenant.
    """

    memories: Mapping[int, int]
    all: int = 0

    def covers(self, row: AuditRow) -> bool:
        """Tell whether a memory of the row was forgotten after the row was written."""
        ids = map(int, _ID.findall(row.memories))
        return max(self.all, *(self.memories.get(id_, 0) for id_ in ids), 0) > row.id


def is_unaltered(tenant: str, row: AuditRow) -> bool:
    """Tell whether a row is as it was written, or as forgetting leaves it."""
    if row.told is not None and row.salt is not None and row.told_hash is None:
        return row_hash(tenant, row, keyed_hash(row.salt, row.told)) == row.hash
    if row.told is None and row.salt is None and row.told_hash is not None:
        return row_hash(tenant, row, row.told_hash) == row.hash
    return False


class LinkPart(NamedTuple):
    """Rows of one link that one read returns."""

    link: Link
    ids: range
    last: bool
    """True if the link ends with these rows."""


def split_links(links: Iterable[Link], most: int) -> Iterator[list[LinkPart]]:
    """Split the rows of links into batches of at most `most` rows, in order."""
    batch: list[LinkPart] = []
    room = most
    for link in links:
        ranges = link.ranges or [range(0)]
        for ids in ranges:
            rest = ids
            while True:
                part, rest = rest[:room], rest[room:]
                batch.append(LinkPart(link, part, last=not rest and ids == ranges[-1]))
                room -= len(part)
                if room == 0:
                    yield batch
                    batch, room = [], most
                if not rest:
                    break
    if batch:
        yield batch


class Chain:
    """A chain that is checked from its first link on."""

    def __init__(self, tenant: str, expected_head: AuditHead | None = None) -> None:
        """Start before the first link. The chain has to contain `expected_head`, if given."""
        self.tenant = tenant
        self._expected_head = expected_head
        self.seq, self.hash, self.rows = 0, NOTHING, 0
        self.wiped: AuditFault | None = None
        """The first emptied row that no forgetting explains. Any other fault is reported before it:
        that fault may have removed the row of the forgetting."""
        self._inner = sha256()

    def check_parts(
        self, parts: Iterable[LinkPart], rows: Mapping[int, AuditRow], forgotten: ForgottenMemories
    ) -> AuditFault | None:
        """Check the next parts of links against their rows, and return the first fault."""
        return next(filter(None, (self._check_part(part, rows, forgotten) for part in parts)), None)

    def _check_part(
        self, part: LinkPart, rows: Mapping[int, AuditRow], forgotten: ForgottenMemories
    ) -> AuditFault | None:
        link = part.link
        if link.seq != self.seq + 1:
            return AuditFault("dropped", None, self.seq + 1)
        for id_ in part.ids:
            row = rows.get(id_)
            if row is None or not is_unaltered(self.tenant, row):
                return AuditFault("dropped" if row is None else "altered", id_, link.seq)
            if self.wiped is None and row.told is None and not forgotten.covers(row):
                self.wiped = AuditFault("wiped", id_, link.seq)
            self._inner.update(row.hash)
            self.rows += 1
        if not part.last:
            return None
        if link_hash(self.tenant, link, self.hash, self._inner.digest()) != link.hash:
            return AuditFault("altered", None, link.seq)
        self.seq, self.hash, self._inner = link.seq, link.hash, sha256()
        expected = self._expected_head
        if expected is not None and expected.seq == link.seq and expected.hash != link.hash.hex():
            return AuditFault("rewritten", None, link.seq)
        return None

    def check_end(self) -> AuditFault | None:
        """Return a fault if the chain ends before its expected head."""
        if self._expected_head is None or self._expected_head.seq <= self.seq:
            return None
        return AuditFault("dropped", None, self.seq + 1)


# Verification


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditVerification:
    """The result of a check of a tenant's log. It is true if no fault was found."""

    rows: int
    """Number of rows that were checked, in order, up to the first fault."""
    head: AuditHead
    """The last link of the chain now. Keep it elsewhere."""
    fault: AuditFault | None = None
    """The first fault, if any."""

    def __bool__(self) -> bool:
        """Return True if no fault was found."""
        return self.fault is None

    def __str__(self) -> str:
        """Return the result in one line."""
        if self.fault is None:
            return f"all {self.rows:,} rows of {self.head.tenant!r} are as they were written"
        return f"{self.fault}; {self.rows:,} rows before it are as they were written"


def read_head(tenant: str) -> Flow[AuditHead]:
    """Read the last link of a tenant's chain."""
    rows = yield from rows_of("audit_head", tenant=tenant)
    seq, last = rows[0] if rows else (0, NOTHING)
    return AuditHead(tenant, seq, last.hex())


@without_deadline
def verify_chain(tenant: str, expected_head: AuditHead | None) -> Flow[AuditVerification]:
    """Check a chain up to its last link of now. Later links are left out."""
    head = yield from read_head(tenant)
    chain = Chain(tenant, expected_head)
    fault: AuditFault | None = None
    page = {"tenant": tenant, "last": head.seq, "limit": BATCH}
    forgotten = ForgottenMemories({})
    while links := (yield from rows_of("audit_links", **page, after=chain.seq)):
        for batch in split_links([Link(*row) for row in links], BATCH):
            rows = yield from _read_rows(tenant, batch)
            if not all(row.told is not None or forgotten.covers(row) for row in rows.values()):
                forgotten = yield from _read_forgotten(tenant)
            judged = partial(chain.check_parts, batch, rows, forgotten)
            fault = yield from off_loop(judged, BATCH * len(rows))
            if fault is not None:
                return AuditVerification(rows=chain.rows, head=head, fault=fault)
    fault = chain.check_end()
    if fault is None:
        loose = yield from rows_of("audit_loose", tenant=tenant)
        fault = AuditFault("added", loose[0][0], None) if loose else chain.wiped
    return AuditVerification(rows=chain.rows, head=head, fault=fault)


def _read_rows(tenant: str, parts: Sequence[LinkPart]) -> Flow[dict[int, AuditRow]]:
    """Read the existing rows of these parts, by id."""
    ranges = [part.ids for part in parts if part.ids]
    firsts, ends = [ids.start for ids in ranges], [ids.stop for ids in ranges]
    rows = yield from rows_of("audit_rows", tenant=tenant, firsts=firsts, ends=ends)
    return {row[0]: AuditRow(*row) for row in rows}


def _read_forgotten(tenant: str) -> Flow[ForgottenMemories]:
    """Read which memories were forgotten until now."""
    rows = yield from rows_of("audit_forgotten", tenant=tenant)
    by_memory = {memory: entry for memory, entry in rows if memory is not None}
    return ForgottenMemories(
        by_memory, max((entry for memory, entry in rows if memory is None), default=0)
    )


# Entries


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """A row of the log. Once its memories are forgotten, only its verb, time and ids are left."""

    id: int
    at: datetime
    verb: str
    """`write`, `overwrite`, `release`, `move`, `mark`, `delete`, `expire`, `forget`,
    `receipt` or `read`."""
    memories: tuple[int, ...]
    """Ids of the row's memories; empty for a `forget` of the whole tenant."""
    role: str | None
    """The database role that had logged in."""
    actor: str | None
    """The actor that the application named."""
    namespace: tuple[str, ...] | None
    key: str | None
    user: str | None
    read: tuple[tuple[tuple[str, ...], str], ...]
    """Namespaces and keys that a `read` returned."""
    became: str | None
    """New tier or state of the memory; `current` for no state."""

    def __str__(self) -> str:
        """Return one line: time, verb, place and actor."""
        where = ", ".join(
            "/".join((*namespace, key)) for namespace, key in (*self._place, *self.read)
        )
        whose = f"of memory {', '.join(map(str, self.memories))}" if self.memories else "of all"
        if self.verb == "receipt":
            whose = "of a forgetting"
        became = f" to {self.became}" if self.became else ""
        who = " as ".join(name for name in (self.role, self.actor) if name) or "(forgotten)"
        when = self.at.isoformat(timespec="seconds")
        return f"{self.id}  {when}  {self.verb}{became} {where or whose}, by {who}"

    @property
    def _place(self) -> list[tuple[tuple[str, ...], str]]:
        return [] if self.namespace is None or self.key is None else [(self.namespace, self.key)]


def read_entries(tenant: str, key: str | None, limit: int) -> Flow[tuple[AuditEntry, ...]]:
    """Read the latest entries of a tenant's log, the latest first."""
    rows = yield from rows_of("audit_latest", tenant=tenant, key=key, limit=limit)
    return tuple(_make_entry(tenant, row) for row in rows)


def _make_entry(tenant: str, row: Row) -> AuditEntry:
    id_, at, verb, memories, fields = row
    clear: Mapping[str, Any] = fields or {}
    place = clear.get("namespace")
    return AuditEntry(
        id=id_,
        at=at,
        verb=verb,
        memories=tuple(memories),
        role=clear.get("role"),
        actor=clear.get("actor"),
        namespace=None if place is None else decode_namespace(tenant, place),
        key=clear.get("key"),
        user=clear.get("user"),
        read=tuple((decode_namespace(tenant, where), key) for where, key in clear.get("read", ())),
        became=clear.get("tier") or clear.get("state"),
    )
