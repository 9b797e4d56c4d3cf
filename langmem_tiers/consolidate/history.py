"""The history of a memory: what was true before and after, where it lives on, what was done."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from html import escape
from typing import NamedTuple

from langmem_tiers.core.explain import LINE, plain, shortened
from langmem_tiers.core.memory import MemoryContext, Tier
from langmem_tiers.core.namespaces import decode
from langmem_tiers.core.values import content_of
from langmem_tiers.learn.explain import MoveRecord, move_record, said_beside
from langmem_tiers.postgres.flow import Call, Flow, Query, Row
from langmem_tiers.recall.candidates import Candidate

_SUPERSEDED = "superseded"
_HEADINGS = ("memory", "key", "true from", "until", "recorded", "state", "since")


class Version(NamedTuple):
    """One of several memories that superseded each other. Times are UTC."""

    namespace: tuple[str, ...]
    key: str
    tier: Tier
    content: str
    """Empty of another memory that is quarantined, or that another project keeps."""
    state: str | None
    """None is current; `superseded` was true until `valid_to`."""
    state_at: datetime | None
    """Since when its state has been known."""
    valid_from: datetime
    """As told, else when it happened or was recorded, whichever is earlier."""
    valid_to: datetime | None
    recorded_at: datetime
    superseded_by: str | None
    """The key of what superseded it."""

    def __str__(self) -> str:
        """What it says, and when it was true."""
        until = "" if self.valid_to is None else f"{self.valid_to:%Y-%m-%d %H:%M}"
        true = f"{self.valid_from:%Y-%m-%d %H:%M} – {until}".rstrip()
        known = "" if self.state_at is None else f" since {self.state_at:%Y-%m-%d %H:%M}"
        by = "" if self.superseded_by is None else f" by {plain(self.superseded_by)}"
        stands = f"{self.state or 'current'}{known}{by}"
        said = f"{shortened(self.content, LINE)} " if self.content else ""
        return f"{true}: {said}({plain(self.key)}, {stands})"


class Successor(NamedTuple):
    """What a memory lives on in, or was superseded by."""

    namespace: tuple[str, ...]
    key: str
    state: str | None
    """None is current."""
    kind: str
    """How: `superseded`, `merged`, `promoted`, `reinforced` or `reflected`."""
    move: str
    """Which move says so; `rollback` takes it, unless it is of the kind `reflected`."""

    def told(self, namespace: tuple[str, ...]) -> str:
        """Which it is, by which move; and where, if that is not this namespace."""
        verb = "superseded by" if self.kind == _SUPERSEDED else "lives on in"
        where = "" if self.namespace == namespace else f" in {plain('/'.join(self.namespace))}"
        return f"{verb} {plain(self.key)}{where} ({self.kind}, move {plain(self.move)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What was true before a memory and after it, where it lives on, and what was done to it."""

    key: str
    namespace: tuple[str, ...]
    versions: tuple[Version, ...]
    """The memory, what it superseded and what superseded it, in the order in which they were
    true."""
    successors: tuple[Successor, ...]
    """What the memory lives on in or was superseded by, then the same of that one, and so on; the
    last is where it lives now. None if it is current."""
    events: tuple[MoveRecord, ...]
    """What was done to the memory itself, oldest first."""

    def __str__(self) -> str:
        """A line for each version, then one for each successor and each event."""
        return "\n".join([*map(str, self.versions), *self._lines()])

    def _repr_html_(self) -> str:
        """A table of the versions and a list of the events, for notebooks."""
        cell = '<td style="text-align:left;vertical-align:top">'
        head = "".join(f"<th>{one}</th>" for one in _HEADINGS)
        rows = "".join(
            "<tr>" + "".join(f"{cell}{escape(plain(text))}</td>" for text in _cells(one)) + "</tr>"
            for one in self.versions
        )
        lines = "".join(f"<li>{escape(one)}</li>" for one in self._lines())
        return f"<table><tr>{head}</tr>{rows}</table><ul>{lines}</ul>"

    def _lines(self) -> Iterator[str]:
        at = self.namespace
        for successor in self.successors:
            yield successor.told(at)
            at = successor.namespace
        for one in self.events:
            why = plain("; ".join(one.reasons))
            yield f"{one.at:%Y-%m-%d %H:%M} {one.kind}{_undone(one)}: {why}"


def _cells(one: Version) -> tuple[str, ...]:
    moments = (one.valid_from, one.valid_to, one.recorded_at)
    began, until, recorded = ("" if at is None else f"{at:%Y-%m-%d %H:%M}" for at in moments)
    known = "" if one.state_at is None else f"{one.state_at:%Y-%m-%d %H:%M}"
    said = shortened(one.content, LINE)
    return said, one.key, began, until, recorded, one.state or "current", known


def _undone(one: MoveRecord) -> str:
    return " (rolled back)" if one.undone_at else ""


def history(one: Candidate, context: MemoryContext) -> Flow[History]:
    """Read the history of a memory in that context, in one round trip."""
    tenant = context.root
    params = {"tenant": tenant, "id": one.id}
    names = ("versions", "successors", "history_of")
    versions, successors, events = yield Query(
        tuple(Call(name, params) for name in names), commit=True
    )
    return History(
        key=one.key,
        namespace=one.place[0],
        versions=tuple(_version(row, context, one) for row in versions),
        successors=tuple(Successor(decode(tenant, row[0]), *row[1:]) for row in successors),
        events=tuple(move_record(row) for row in events),
    )


def history_of_gone(key: str, context: MemoryContext) -> Flow[History | None]:
    """What was done to a memory that was rejected or made room; None if none is reached."""
    params = {"tenant": context.root, "key": key}
    (rows,) = yield Query((Call("history_of_gone", params),), commit=True)
    told = [
        (place, row[2:])
        for row in rows
        if context.reaches(row[1] or Tier.WORKING, place := decode(context.root, row[0]))
    ]
    if not told:
        return None
    return History(
        key=key,
        namespace=told[-1][0],
        versions=(),
        successors=(),
        events=tuple(move_record(row) for _, row in told),
    )


def _version(row: Row, context: MemoryContext, asked: Candidate) -> Version:
    namespace, key, tier, value, *rest = row
    place = decode(context.root, namespace)
    own = (place, key) == (asked.place[0], asked.key)
    said = content_of(value) if own else said_beside(value, rest[0], Tier(tier), place, context)
    return Version(place, key, Tier(tier), said, *rest)
