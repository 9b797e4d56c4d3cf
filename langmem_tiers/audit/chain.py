"""The audit log of a tenant: what its chain is of, whether that holds, and what its rows tell.

Each row has a hash of all of it. A link has those of the rows that one transaction wrote, the ids
of these rows, and the link before. So a change anywhere shows where it was made.
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
"""What is wrong: a row or link is not what was chained, or is not there; a row says nothing any
more, and no forgetting says why; it is in no link; or a link is not the head that it was."""

NOTHING: Final = bytes(32)
"""The hash before the first link."""
BATCH: Final = 1_000
"""Rows that are read at once: our own choice."""
_RANGE: Final = re.compile(r"\[(\d+),(\d+)\)")
_ID: Final = re.compile(r"-?\d+")


@dataclass(frozen=True, slots=True)
class AuditHead:
    """The last link of a chain: what all that was logged until then can be checked against.

    Kept elsewhere, it shows whether somebody wrote the whole chain anew.
    """

    tenant: str
    seq: int
    """Which link it is, from 1 on; 0 of an empty chain."""
    hash: str
    """64 hexadecimal digits."""

    def __str__(self) -> str:
        """As `admin.verify_audit` takes it."""
        return f"{self.seq}:{self.hash}"


@dataclass(frozen=True, slots=True)
class AuditFault:
    """The first thing of a log that is not as it was written."""

    why: FaultReason
    row: int | None
    """The id of the row; None where it is a link that was altered or dropped."""
    link: int | None
    """The link that it belongs to; None of a row that is in none."""

    def __str__(self) -> str:
        """Which, and why."""
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
    """A row of the log as the statement `audit_rows` answers it: as text what may be anything."""

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
    """A link as the statement `audit_links` answers it."""

    seq: int
    ids: str
    hash: bytes

    @property
    def ranges(self) -> list[range]:
        """The ids of its rows."""
        return [range(int(match[1]), int(match[2])) for match in _RANGE.finditer(self.ids)]


def keyed_hash(salt: bytes, data: str) -> bytes:
    """A hash of data under a key; the outer one keeps anybody from prolonging the data."""
    return sha256(salt + sha256(salt + data.encode()).digest()).digest()


def row_hash(tenant: str, row: AuditRow, told_hash: bytes) -> bytes:
    """The hash of a row, of what it told by its hash."""
    value = "-" if row.value_hash is None else row.value_hash.hex()
    text = (
        f"{told_hash.hex()} {value} {row.id} {row.xact} {str(row.opens).lower()} {row.at} "
        f"{row.memories} {len(row.verb)} {row.verb} {tenant}"
    )
    return sha256(text.encode()).digest()


def link_hash(tenant: str, link: Link, before: bytes, rows: bytes) -> bytes:
    """The hash of a link: of the one before, and of the hashes of its rows, hashed together."""
    return sha256(before + rows + f"{link.seq} {link.ids} {tenant}".encode()).digest()


class ForgottenMemories(NamedTuple):
    """Which memories were forgotten, each by which row; `all` by the last that names none."""

    memories: Mapping[int, int]
    all: int = 0

    def covers(self, row: AuditRow) -> bool:
        """Whether something of a row was forgotten after it was written."""
        ids = map(int, _ID.findall(row.memories))
        return max(self.all, *(self.memories.get(id_, 0) for id_ in ids), 0) > row.id


def is_unaltered(tenant: str, row: AuditRow) -> bool:
    """Whether a row is as it was written, or as forgetting leaves it."""
    if row.told is not None and row.salt is not None and row.told_hash is None:
        return row_hash(tenant, row, keyed_hash(row.salt, row.told)) == row.hash
    if row.told is None and row.salt is None and row.told_hash is not None:
        return row_hash(tenant, row, row.told_hash) == row.hash
    return False


class LinkPart(NamedTuple):
    """Rows of a link that are read at once."""

    link: Link
    ids: range
    last: bool
    """Whether the link ends with them."""


def split_links(links: Iterable[Link], most: int) -> Iterator[list[LinkPart]]:
    """All rows of these links in order, no more than so many at once."""
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
    """A chain that is followed from its beginning."""

    def __init__(self, tenant: str, expected_head: AuditHead | None = None) -> None:
        """Nothing of it was seen yet; a head that is `known` has to come."""
        self.tenant = tenant
        self._expected_head = expected_head
        self.seq, self.hash, self.rows = 0, NOTHING, 0
        self.wiped: AuditFault | None = None
        """The first row that was wiped and that no forgetting names: told if nothing else is wrong,
        as that may have been the forgetting."""
        self._inner = sha256()

    def check_parts(
        self, parts: Iterable[LinkPart], rows: Mapping[int, AuditRow], forgotten: ForgottenMemories
    ) -> AuditFault | None:
        """Go on by these pieces of links, with the rows that are there; the first fault."""
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
        """The fault that a chain which ends here has; none if it may."""
        if self._expected_head is None or self._expected_head.seq <= self.seq:
            return None
        return AuditFault("dropped", None, self.seq + 1)


# Whether it holds


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditVerification:
    """Whether a tenant's log is as it was written. It is true if no fault was found."""

    rows: int
    """How many rows were checked, in their order, until the first fault."""
    head: AuditHead
    """The last link of the chain as it stands; keep it elsewhere."""
    fault: AuditFault | None = None
    """The first fault, if there is one."""

    def __bool__(self) -> bool:
        """Whether nothing was found."""
        return self.fault is None

    def __str__(self) -> str:
        """What was found, in a line."""
        if self.fault is None:
            return f"all {self.rows:,} rows of {self.head.tenant!r} are as they were written"
        return f"{self.fault}; {self.rows:,} rows before it are as they were written"


def read_head(tenant: str) -> Flow[AuditHead]:
    """The last link of a tenant's chain."""
    rows = yield from rows_of("audit_head", tenant=tenant)
    seq, last = rows[0] if rows else (0, NOTHING)
    return AuditHead(tenant, seq, last.hex())


@without_deadline
def verify_chain(tenant: str, expected_head: AuditHead | None) -> Flow[AuditVerification]:
    """Follow a chain to the last link that it has now; what comes meanwhile is left out."""
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
    """The rows of these pieces that are there, by id."""
    ranges = [part.ids for part in parts if part.ids]
    firsts, ends = [ids.start for ids in ranges], [ids.stop for ids in ranges]
    rows = yield from rows_of("audit_rows", tenant=tenant, firsts=firsts, ends=ends)
    return {row[0]: AuditRow(*row) for row in rows}


def _read_forgotten(tenant: str) -> Flow[ForgottenMemories]:
    """What was forgotten until now."""
    rows = yield from rows_of("audit_forgotten", tenant=tenant)
    by_memory = {memory: entry for memory, entry in rows if memory is not None}
    return ForgottenMemories(
        by_memory, max((entry for memory, entry in rows if memory is None), default=0)
    )


# What it tells


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """A row of the log. What was forgotten since tells its verb and when alone."""

    id: int
    at: datetime
    verb: str
    """`write`, `overwrite`, `release`, `move`, `mark`, `delete`, `expire`, `forget`,
    `receipt` or `read`."""
    memories: tuple[int, ...]
    """The ids of the memories that it is about; none of a `forget` is all of the tenant's."""
    role: str | None
    """The role that had logged in."""
    actor: str | None
    """Who the application said it was."""
    namespace: tuple[str, ...] | None
    key: str | None
    user: str | None
    read: tuple[tuple[tuple[str, ...], str], ...]
    """Of a `read`, the namespaces and keys."""
    became: str | None
    """The tier that it was moved to, or the state that it got; `current` for none."""

    def __str__(self) -> str:
        """A line: when, what, where, and who."""
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
    """The latest of a tenant's log, the latest first."""
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
