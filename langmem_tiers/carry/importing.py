"""Import: the rows of an export, a batch a transaction, in which it is noted how far it came.

The file is read twice. First all of it is checked, and nothing is written. Then its rows are
written in the order in which they stand; whoever was stopped goes on behind the last batch that
was committed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import uuid4

from langmem_tiers.carry import rows
from langmem_tiers.carry.exporting import counted, stands
from langmem_tiers.carry.file import Batch, Line, Reader, as_json
from langmem_tiers.carry.rows import MOST_ID, Lowered, Tables
from langmem_tiers.core.carried import CARRIED, KEPT, of
from langmem_tiers.core.errors import (
    ConfigurationError,
    ConflictError,
    DatabaseError,
    InvalidInputError,
    LeaseLostError,
    short,
)
from langmem_tiers.core.values import content_of
from langmem_tiers.forget.places import Known
from langmem_tiers.forget.scrub import Scrubber
from langmem_tiers.postgres.flow import Call, Flow, Query, aside, rows_of, unit
from langmem_tiers.postgres.migrate import NO_HURRY
from langmem_tiers.remember.tombstones import buried, readmit
from langmem_tiers.remember.trust import TrustPolicy
from langmem_tiers.store.store import TieredStore
from langmem_tiers.store.write import columns

LEASE_SECONDS: Final = 300.0
"""For how long nobody consolidates a tenant of which an import was stopped: our own choice."""
MOST_IDS: Final = 2**40
"""How far the ids of a file may be apart, where they are drawn anew: our own choice."""
_IDS_AT_ONCE: Final = 20_000
_REFUSED: Final = ("22", "23", "42601")
"""How SQLSTATE begins of what a value cannot be, what cannot stand beside another row, and of words
that are not written as tsvector has them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Importing:
    """What is imported, and how."""

    store: TieredStore
    tenant: str
    path: Path
    source: str | None
    """Who answers for the file; None if whoever runs the import does."""
    policy: TrustPolicy
    readmit: bool
    model: str | None
    """The embedding model, if it is known."""
    advance: Callable[[int], object]

    def reader(self) -> Reader:
        """What reads the file from its beginning."""
        return Reader(self.path, self.store.options.bounds)


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


class _Begun(NamedTuple):
    """How far an import has come; a row of begun_import, the columns are in this order."""

    export: str
    done: int
    shift: int
    source: str | None
    readmit: bool


class _Seen(NamedTuple):
    """What was seen of a file while it was checked."""

    low: int
    high: int
    """The least and the largest id; it has none if the largest is 0."""
    gone: Mapping[int, Known]
    """What was forgotten here, by id."""
    hashes: Collection[str]
    """Those of what it says."""


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
    _check_owner(how)
    reader = yield from aside(how.reader)
    try:
        _check_header(reader, how, told)
        begun = yield from _begun(how, reader.header.export)
        tables = rows.tables_of((yield from rows_of("carried_columns", names=list(CARRIED))))
        seen = yield from _checked(reader, how, tables, begun)
        if begun is None:
            begun = yield from _begin(how, reader.header.export, seen)
    finally:
        reader.close()
    left_out = [] if how.readmit else list(seen.gone.values())
    scrubber = rows.scrubber_of(left_out) if left_out else None
    held = yield from _written(_Writing(how, begun, scrubber), tables)
    return ImportReport(
        tenant=how.tenant,
        rows=reader.header.rows,
        resumed_after=begun.done,
        shift=begun.shift,
        forgotten=tuple(sorted({one.key for one in left_out})),
        held=held,
    )


# What is looked at before anything is written


def _check_owner(how: Importing) -> None:
    """Raise ConfigurationError where a store does not see other tenants."""
    if (acting := how.store.runner.acting) != "owner":
        raise ConfigurationError(
            "an import keeps ids and has to see whether others have them, which takes the rights "
            f"of the database's owner, and this store has those of a role {acting!r}: open it as "
            "the owner"
        )


def _check_header(reader: Reader, how: Importing, told: Mapping[str, Any]) -> None:
    """See that a database that is set up as `told` can hold what the file has.

    Raises:
        InvalidInputError: if it cannot.
    """
    header = reader.header
    if header.tenant != how.tenant:
        raise reader.refuse(
            1,
            f"this is an export of the tenant {short(header.tenant)} and not of {how.tenant!r}: a "
            "tenant keeps its name, which is in its namespaces and words",
        )
    if header.schema_version != told["schema"]:
        raise reader.refuse(
            1,
            f"the export is of schema version {header.schema_version} and this database at "
            f"{told['schema']}: bring both to the same by setup() of one version of "
            "langmem-tiers, and export again",
        )
    here = None if told["vectors"] is None else dict(told["vectors"])
    there = None if header.vectors is None else header.vectors.model_dump()
    if there != here or header.language != told["language"]:
        raise reader.refuse(
            1,
            f"the export has {_shape(there)} and words of {header.language}, this database "
            f"{_shape(here)} and words of {told['language']}: set one up with the same index",
        )
    if None not in (how.model, header.model) and how.model != header.model:
        raise reader.refuse(
            1, f"its vectors are of the model {header.model}, and this store has {how.model}"
        )


def _shape(vectors: Mapping[str, Any] | None) -> str:
    return "no vectors" if vectors is None else f"{vectors['vector_type']}s of {vectors['dims']}"


def _begun(how: Importing, export: str) -> Flow[_Begun | None]:
    """The import of this export that goes on, if one does; else nothing of the tenant is there.

    Raises:
        InvalidInputError: if the tenant has anything, or what goes on is another import.
    """
    found = yield from rows_of("begun_import", tenant=how.tenant)
    if not found:
        yield from _check_empty(how.tenant)
        return None
    one = _Begun(*found[0])
    if one.export != export:
        raise InvalidInputError(
            f"the import of another export of {how.tenant!r} was begun: finish that one, or forget "
            "the tenant first"
        )
    if (one.source, one.readmit) != (how.source, how.readmit):
        raise InvalidInputError(
            f"this import was begun with source={one.source!r} and readmit={one.readmit}: go on "
            "with the same"
        )
    return one


def _check_empty(tenant: str) -> Flow[None]:
    """Raise InvalidInputError if a tenant has anything, and commit what was done before."""
    there = yield from counted(tenant)
    if any(number for name, number in there.items() if name not in KEPT):
        held = [f"{number:,} of {name}" for name, number in there.items() if number]
        raise InvalidInputError(
            f"{tenant!r} has rows already ({', '.join(held)}), and an export is all of a tenant: "
            "import it into a database where the tenant has none"
        )
    yield Query((), commit=True)


def _checked(reader: Reader, how: Importing, tables: Tables, begun: _Begun | None) -> Flow[_Seen]:
    """Check all of a file, and what of it was forgotten here; nothing is written."""
    secret = yield from rows_of("tombstone_key", tenant=how.tenant)
    told = sum(number for table, number in reader.header.rows.items() if table not in KEPT)
    if begun is not None and begun.done >= told:
        secret = []  # what was forgotten may be the file's own by now
    low, high, gone, hashes = MOST_ID, 0, dict[int, Known](), set[str]()
    while (batch := (yield from _next(reader, how, tables))) is not None:
        ids = rows.ids_of(batch.table, (line.row for line in batch.lines))
        low, high = min(low, *ids, MOST_ID), max(high, *ids, 0)
        if batch.table == "tombstone_keys" and secret and how.source is None:
            _check_key(reader, batch.lines[0], secret[0][0])
        if batch.table == "memories" and secret:
            known = [rows.known_of(line.row) for line in batch.lines]
            said = yield from buried(how.tenant, [content_of(one.value) for one in known])
            hashes.update(said.values())
            gone |= {one.id: one for one in known if content_of(one.value) in said}
        how.advance(len(batch.lines))
    return _Seen(low, high, gone, hashes)


def _check_key(reader: Reader, line: Line, secret: str) -> None:
    if line.row["secret"] != f"\\x{secret}":
        raise reader.refuse(
            line.number,
            "the file and this database both know what was forgotten of the tenant, by keys of "
            "their own, so that neither reads the other's: import it into another database",
        )


def _next(reader: Reader, how: Importing, tables: Tables) -> Flow[Batch | None]:
    return aside(partial(look, reader, how.tenant, tables))


def look(reader: Reader, tenant: str, tables: Tables) -> Batch | None:
    """The next rows of a file, each of them checked."""
    batch = reader.batch()
    if batch is None:
        return None
    for line in batch.lines:
        try:
            rows.check_row(batch.table, line.row, tables[batch.table], tenant)
        except InvalidInputError as error:
            raise reader.refuse(line.number, str(error)) from error
    return batch


def _begin(how: Importing, export: str, seen: _Seen) -> Flow[_Begun]:
    """Note that an import begins, with the ids that it takes."""
    one = _Begun(export, 0, (yield from _shift(how, seen)), how.source, how.readmit)
    if how.readmit:
        yield from unit(readmit(how.tenant, seen.hashes))
    params = {**one._asdict(), "tenant": how.tenant, "now": how.store.flows.now}
    (noted,) = yield Query((Call("begin_import", params),))
    if not noted:
        raise ConflictError(f"somebody else imports {how.tenant!r}: wait until they are done")
    yield from _check_empty(how.tenant)
    return one


def _shift(how: Importing, seen: _Seen) -> Flow[int]:
    """What is to be added to each id: nothing, unless other tenants have any of them."""
    if not seen.high:
        return 0
    yield from _asked("pass_ids", most=seen.high)
    others = yield from _asked("ids_between", tenant=how.tenant, low=seen.low, high=seen.high)
    if not others or not (yield from _taken(how)):
        return 0
    many = seen.high - seen.low + 1
    if many > MOST_IDS:
        raise InvalidInputError(
            f"the ids of this export are {many:,} apart, too far to draw as many anew, and other "
            "tenants have some of them: import it into another database"
        )
    drawn = yield from _asked("draw_ids", many=many)
    return int(drawn) + 1 - seen.low


def _taken(how: Importing) -> Flow[bool]:
    """Whether other tenants have any of the ids of a file."""
    reader = yield from aside(how.reader)
    try:
        found = set[int]()
        while (batch := (yield from aside(reader.batch))) is not None:
            found |= rows.ids_of(batch.table, (line.row for line in batch.lines))
            if len(found) >= _IDS_AT_ONCE:
                if (yield from _asked("ids_among", tenant=how.tenant, ids=sorted(found))):
                    return True
                found = set()
        return bool((yield from _asked("ids_among", tenant=how.tenant, ids=sorted(found))))
    finally:
        reader.close()


def _asked(statement: str, **params: Any) -> Flow[Any]:
    """The one value that a statement answers which takes its time."""
    _, ((answer,),) = yield Query((NO_HURRY, Call(statement, params)), commit=True)
    return answer


# What is written


@dataclass(frozen=True, slots=True)
class _Writing:
    """What rows are written by."""

    how: Importing
    begun: _Begun
    scrubber: Scrubber | None
    """What leaves out what was forgotten, if anything was."""

    @property
    def of_file(self) -> dict[str, Any]:
        """The parameters that name the import."""
        return {"tenant": self.how.tenant, "export": self.begun.export}

    @property
    def lease(self) -> Call:
        """The call that keeps everybody else from consolidating the tenant."""
        params = {"tenant": self.how.tenant, "holder": f"import of {self.begun.export}"}
        until = {"now": self.how.store.flows.now, "seconds": LEASE_SECONDS}
        return Call("acquire_lease", {**params, **until})

    def calls(self, table: str, lines: Sequence[Line]) -> tuple[list[Call], int]:
        """The calls that write rows of a table, and how many memories they hold back."""
        made: list[dict[str, Any]] = []
        held: list[Lowered] = []
        if self.how.source is None or table not in rows.OWN:
            for line in lines:
                self._add(table, line.row, made, held)
        into = of("carry_in_beside" if table in KEPT else "carry_in", table)
        given = {"tenant": self.how.tenant, "rows": as_json(made)}
        calls = [Call(into, given)] if made else []
        return [*calls, *([self._hold(held)] if held else [])], len(held)

    def _add(
        self, table: str, row: dict[str, Any], made: list[dict[str, Any]], held: list[Lowered]
    ) -> None:
        kept: dict[str, Any] | None = row
        if self.scrubber is not None:
            kept = rows.without(self.scrubber, table, row)
        if kept is None:
            return
        if table == "memories" and self.how.source is not None:
            lowered = rows.lowered(kept, self.how.source, self.how.policy)
            held.extend([] if lowered is None else [lowered])
        if self.begun.shift:
            rows.each_id(table, kept, lambda one: one + self.begun.shift)
        made.append(kept)

    def _hold(self, held: Sequence[Lowered]) -> Call:
        """The call that quarantines memories."""
        params = columns(("namespaces", "keys", "reasons", "trusts"), held)
        events = [str(uuid4()) for _ in held]
        own = {"tenant": self.how.tenant, "events": events, "now": self.how.store.flows.now}
        return Call("quarantine", {**own, **params})


def _written(one: _Writing, tables: Tables) -> Flow[int]:
    """Write what is not there yet; how many memories are held back."""
    how, before, held = one.how, 0, 0
    reader = yield from aside(how.reader)
    try:
        if reader.header.export != one.begun.export:
            raise reader.refuse(1, "the file was replaced while it was imported")
        while (batch := (yield from _next(reader, how, tables))) is not None:
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
    """Begin a transaction in which it is noted how far it came, if nobody else is at it."""
    further = Call("continue_import", {**one.of_file, "before": before, "done": done})
    _, held, noted = yield Query((NO_HURRY, one.lease, further))
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
    held, _ = yield Query((one.lease, Call("end_import", one.of_file)))
    fences = [{"tenant": one.how.tenant, "fence": row[0]} for row in held]
    yield Query(tuple(Call("release_lease", fence) for fence in fences), commit=True)
