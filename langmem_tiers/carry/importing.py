"""Import: the rows of an export, a batch a transaction, in which it is noted how far it came.

The file is read twice. First all of it is checked, and nothing is written. Then its rows are
written in the order in which they stand; whoever was stopped goes on behind the last batch that
was committed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Final, NamedTuple
from uuid import uuid4

from langmem_tiers.carry import rows
from langmem_tiers.carry.checking import (
    Begun,
    Importing,
    Seen,
    begun,
    check_empty,
    check_header,
    check_owner,
    checked,
    look,
    shift,
)
from langmem_tiers.carry.exporting import stands
from langmem_tiers.carry.file import Line, Reader, as_json
from langmem_tiers.carry.rows import Gone, Lowered, Tables
from langmem_tiers.core.carried import CARRIED, KEPT, of
from langmem_tiers.core.errors import ConflictError, DatabaseError, LeaseLostError
from langmem_tiers.forget.scrub import Scrubber
from langmem_tiers.postgres.flow import Call, Flow, Query, aside, rows_of, unit
from langmem_tiers.postgres.migrate import NO_HURRY
from langmem_tiers.remember.tombstones import readmit

LEASE_SECONDS: Final = 300.0
"""For how long nobody consolidates a tenant of which an import was stopped: our own choice."""
_REFUSED: Final = ("22", "23", "42601")
"""How SQLSTATE begins of what a value cannot be, what cannot stand beside another row, and of words
that are not written as tsvector has them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReport:
    """What an import brought."""

    tenant: str
    rows: Mapping[str, int]
    """How many rows the file has, by table."""
    resumed_after: int = 0
    """How many of them were there already, of an import that was stopped."""
    shift: int = 0
    """What was added to each id, as others had some of them; 0 where they were kept."""
    forgotten: tuple[str, ...] = ()
    """Keys of memories that were left out, as they were forgotten here."""
    held: int = 0
    """How many memories were quarantined, as they are trusted too little."""

    def __str__(self) -> str:
        """The counts in a line."""
        told = ", ".join(f"{number:,} of {table}" for table, number in self.rows.items() if number)
        parts = [f"{self.tenant}: {told or 'nothing'} imported"]
        if self.resumed_after:
            parts.append(f"{self.resumed_after:,} of these rows were there already")
        if self.shift:
            parts.append("with new ids")
        if self.forgotten:
            parts.append(f"{len(self.forgotten):,} memories left out as they were forgotten")
        if self.held:
            parts.append(f"{self.held:,} memories quarantined")
        return ", ".join(parts)


def import_all(how: Importing) -> Flow[ImportReport]:
    """Bring all rows of an export back as they were.

    Raises:
        ConfigurationError: if the store has not the rights of the owner.
        ConflictError: if somebody else imports the tenant meanwhile.
        InvalidInputError: if the file is not what was exported, is of another tenant or of a
            database that was set up otherwise, or if the tenant has anything already.
        LeaseLostError: while somebody consolidates the tenant.
    """
    told = yield from stands()
    yield Query((), commit=True)
    check_owner(how)
    reader = yield from aside(how.reader)
    try:
        check_header(reader, how, told)
        one = yield from begun(how, reader.header.export)
        tables = rows.tables_of((yield from rows_of("carried_columns", names=list(CARRIED))))
        seen = yield from checked(reader, how, tables, one)
        if one is None:
            one = yield from _begin(how, reader.header.export, seen)
    finally:
        reader.close()
    writing = _Writing(how=how, begun=one, gone=seen.gone, tables=tables)
    held = yield from _written(writing)
    return ImportReport(
        tenant=how.tenant,
        rows=reader.header.rows,
        resumed_after=one.done,
        shift=one.shift,
        forgotten=tuple(sorted(seen.gone.keys)),
        held=held,
    )


def _begin(how: Importing, export: str, seen: Seen) -> Flow[Begun]:
    """Note that an import begins, with the ids that it takes."""
    one = Begun(export, 0, (yield from shift(how, seen)), how.source, how.readmit)
    if how.readmit:
        yield from unit(readmit(how.tenant, seen.hashes))
    params = {**one._asdict(), "tenant": how.tenant, "now": how.now()}
    (noted,) = yield Query((Call("begin_import", params),))
    if not noted:
        raise ConflictError(f"somebody else imports {how.tenant!r}: wait until they are done")
    yield from check_empty(how.tenant)
    return one


class _Made(NamedTuple):
    """Rows as they are written, and memories that are to be held back."""

    rows: list[dict[str, Any]]
    held: list[Lowered]


@dataclass(frozen=True, kw_only=True)
class _Writing:
    """What rows are written by."""

    how: Importing
    begun: Begun
    gone: Gone
    tables: Tables

    @cached_property
    def scrubber(self) -> Scrubber | None:
        """What leaves out what was forgotten, if anything was."""
        return self.gone.scrubber if self.gone.ids else None

    @property
    def lease(self) -> Call:
        """The call that keeps everybody else from consolidating the tenant."""
        return Call(
            "acquire_lease",
            {
                "tenant": self.how.tenant,
                "holder": f"import of {self.begun.export}",
                "now": self.how.now(),
                "seconds": LEASE_SECONDS,
            },
        )

    def further(self, before: int, done: int) -> Call:
        """The call that notes how far it came."""
        of_file = {"tenant": self.how.tenant, "export": self.begun.export}
        return Call("continue_import", {**of_file, "before": before, "done": done})

    def calls(self, table: str, lines: Sequence[Line]) -> tuple[list[Call], int]:
        """The calls that write rows of a table, and how many memories they hold back."""
        made = _Made([], [])
        for line in lines:
            self._add(table, line.row, made)
        into = of("carry_in_beside" if table in KEPT else "carry_in", table)
        given = {"tenant": self.how.tenant, "rows": as_json(made.rows)}
        calls = [Call(into, given)] if made.rows else []
        if made.held:
            calls.append(self._hold(made.held))
        return calls, len(made.held)

    def _add(self, table: str, row: dict[str, Any], made: _Made) -> None:
        kept: dict[str, Any] | None = row
        if self.how.source is not None and table in rows.OWN:
            return
        if self.scrubber is not None:
            kept = rows.without(self.gone, self.scrubber, table, row)
        if kept is None:
            return
        if table == "memories" and self.how.source is not None:
            lowered = rows.lowered(kept, self.how.source, self.how.policy)
            made.held.extend([] if lowered is None else [lowered])
        if self.begun.shift:
            rows.each_id(table, kept, lambda one: one + self.begun.shift)
        made.rows.append(kept)

    def _hold(self, held: Sequence[Lowered]) -> Call:
        """The call that quarantines memories."""
        return Call(
            "quarantine",
            {
                "tenant": self.how.tenant,
                "namespaces": [one.namespace for one in held],
                "keys": [one.key for one in held],
                "reasons": [one.reason for one in held],
                "trusts": [one.trust for one in held],
                "events": [str(uuid4()) for _ in held],
                "now": self.how.now(),
            },
        )


def _written(one: _Writing) -> Flow[int]:
    """Write what is not there yet; how many memories are held back."""
    how, before, held = one.how, 0, 0
    reader = yield from aside(how.reader)
    try:
        if reader.header.export != one.begun.export:
            raise reader.refuse(1, "the file was replaced while it was imported")
        while (
            batch := (yield from aside(partial(look, reader, how.tenant, one.tables)))
        ) is not None:
            after = before + len(batch.lines)
            if after > one.begun.done:
                left = batch.lines[max(one.begun.done - before, 0) :]
                calls, lowered = yield from aside(partial(one.calls, batch.table, left))
                yield from _check_turn(one, max(before, one.begun.done), after)
                yield from _write(reader, calls, left)
                held += lowered
            how.advance(len(batch.lines))
            before = after
    finally:
        reader.close()
    yield from _end(one)
    return held


def _check_turn(one: _Writing, before: int, done: int) -> Flow[None]:
    """Begin a transaction, if nobody else is at it."""
    _, held, noted = yield Query((NO_HURRY, one.lease, one.further(before, done)))
    if not held:
        raise LeaseLostError(
            f"somebody consolidates {one.how.tenant!r}: what was imported is kept; import it again "
            "for the rest when they are done"
        )
    if not noted:
        raise ConflictError(
            f"somebody else imports {one.how.tenant!r}, or has forgotten it: this import writes "
            "nothing more"
        )


def _write(reader: Reader, calls: Sequence[Call], lines: Sequence[Line]) -> Flow[None]:
    """Write rows, and commit."""
    try:
        yield Query(tuple(calls), commit=True)
    except DatabaseError as error:
        if not str(getattr(error.__cause__, "sqlstate", "")).startswith(_REFUSED):
            raise
        why = f"Postgres takes this row, or one up to line {lines[-1].number}, for none ({error})"
        raise reader.refuse(lines[0].number, why) from error


def _end(one: _Writing) -> Flow[None]:
    """Note that all is there, and let the tenant be consolidated."""
    end = Call("end_import", {"tenant": one.how.tenant, "export": one.begun.export})
    held, _ = yield Query((one.lease, end))
    fences = [{"tenant": one.how.tenant, "fence": row[0]} for row in held]
    yield Query(tuple(Call("release_lease", fence) for fence in fences), commit=True)
