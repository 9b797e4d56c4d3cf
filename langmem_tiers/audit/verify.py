"""Whether the chain of a tenant's log holds, read in batches; and the log as it can be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final

from langmem_tiers.audit.chain import (
    NOTHING,
    AuditFault,
    AuditHead,
    Chain,
    Forgotten,
    Link,
    Logged,
    Piece,
    pieces,
)
from langmem_tiers.core.namespaces import decode
from langmem_tiers.postgres.flow import Flow, Row, apart, rows_of, unhurried

BATCH: Final = 1_000
"""Rows that are read at once: our own choice."""


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
        who = " as ".join(one for one in (self.role, self.actor) if one) or "(forgotten)"
        when = self.at.isoformat(timespec="seconds")
        return f"{self.id}  {when}  {self.verb}{became} {where or whose}, by {who}"

    @property
    def _place(self) -> list[tuple[tuple[str, ...], str]]:
        return [] if self.namespace is None or self.key is None else [(self.namespace, self.key)]


def entries(tenant: str, key: str | None, limit: int) -> Flow[tuple[AuditEntry, ...]]:
    """The latest of a tenant's log, the latest first."""
    rows = yield from rows_of("audit_latest", tenant=tenant, key=key, limit=limit)
    return tuple(_entry(tenant, row) for row in rows)


def _entry(tenant: str, row: Row) -> AuditEntry:
    id_, at, verb, memories, told = row
    clear: Mapping[str, Any] = told or {}
    place = clear.get("namespace")
    return AuditEntry(
        id=id_,
        at=at,
        verb=verb,
        memories=tuple(memories),
        role=clear.get("role"),
        actor=clear.get("actor"),
        namespace=None if place is None else decode(tenant, place),
        key=clear.get("key"),
        user=clear.get("user"),
        read=tuple((decode(tenant, where), key) for where, key in clear.get("read", ())),
        became=clear.get("tier") or clear.get("state"),
    )


def head_of(tenant: str) -> Flow[AuditHead]:
    """The last link of a tenant's chain."""
    rows = yield from rows_of("audit_head", tenant=tenant)
    seq, last = rows[0] if rows else (0, NOTHING)
    return AuditHead(tenant, seq, last.hex())


@unhurried
def verify(tenant: str, known: AuditHead | None) -> Flow[AuditVerification]:
    """Follow a chain to the last link that it has now; what comes meanwhile is left out."""
    head = yield from head_of(tenant)
    chain = Chain(tenant, known)
    fault: AuditFault | None = None
    page = {"tenant": tenant, "last": head.seq, "limit": BATCH}
    forgotten = Forgotten({})
    while links := (yield from rows_of("audit_links", **page, after=chain.seq)):
        for several in pieces([Link(*row) for row in links], BATCH):
            rows = yield from _rows(tenant, several)
            if not all(row.told is not None or forgotten.since(row) for row in rows.values()):
                forgotten = yield from _forgotten(tenant)
            judged = partial(chain.follow, several, rows, forgotten)
            fault = yield from apart(judged, BATCH * len(rows))
            if fault is not None:
                return AuditVerification(rows=chain.rows, head=head, fault=fault)
    fault = chain.cut()
    if fault is None:
        loose = yield from rows_of("audit_loose", tenant=tenant)
        fault = AuditFault("added", loose[0][0], None) if loose else chain.wiped
    return AuditVerification(rows=chain.rows, head=head, fault=fault)


def _rows(tenant: str, several: Sequence[Piece]) -> Flow[dict[int, Logged]]:
    """The rows of these pieces that are there, by id."""
    ranges = [one.ids for one in several if one.ids]
    firsts, ends = [one.start for one in ranges], [one.stop for one in ranges]
    found = yield from rows_of("audit_rows", tenant=tenant, firsts=firsts, ends=ends)
    return {row[0]: Logged(*row) for row in found}


def _forgotten(tenant: str) -> Flow[Forgotten]:
    """What was forgotten until now."""
    rows = yield from rows_of("audit_forgotten", tenant=tenant)
    several = {memory: entry for memory, entry in rows if memory is not None}
    return Forgotten(several, max((entry for memory, entry in rows if memory is None), default=0))
