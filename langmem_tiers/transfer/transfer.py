"""Export a tenant's rows, as of one moment, to a file; import them, a transaction per batch."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import uuid4

from langmem_tiers.core.checks import checked_flag, checked_label
from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.errors import (
    ConfigurationError,
    ConflictError,
    DatabaseError,
    InvalidInputError,
    short,
)
from langmem_tiers.core.exported_tables import EXPORTED_TABLES, PROOF_TABLES, statement_for
from langmem_tiers.core.values import content_of
from langmem_tiers.forget import unfinished_exports
from langmem_tiers.forget.receipt import describe_counts
from langmem_tiers.forget.text_places import MemoryRow, Scrubber
from langmem_tiers.postgres.flow import (
    Call,
    Flow,
    Query,
    Script,
    Unit,
    call_blocking,
    rows_of,
    unit,
    without_deadline,
)
from langmem_tiers.postgres.migrate import NO_HURRY
from langmem_tiers.postgres.sql import snapshot_script
from langmem_tiers.remember.gate import TrustPolicy
from langmem_tiers.remember.tombstones import find_forgotten, readmit
from langmem_tiers.store.store import TieredStore
from langmem_tiers.store.write import columns
from langmem_tiers.transfer import rows
from langmem_tiers.transfer.export_format import (
    FORMAT,
    ExportBatch,
    ExportHeader,
    ExportLine,
    ExportReader,
    ExportWriter,
    check_target,
    encode_json,
)

LEASE_SECONDS: Final = 300.0
"""Seconds for which nobody consolidates a tenant after its import stopped: our own choice."""
MOST_IDS: Final = 2**40
"""The largest range of a file's ids that is replaced by new ids: our own choice."""
_IDS_AT_ONCE: Final = 20_000
_REFUSED: Final = ("22", "23", "42601")
"""Beginnings of the SQLSTATEs of invalid values, of conflicts with another row, and of words that
are no valid tsvector."""
_OTHER_KEY: Final = (
    "the file and this database both know what was forgotten of the tenant, by keys of their own, "
    "so that neither reads the other's: import it into another database"
)


def count_rows(tenant: str) -> Flow[dict[str, int]]:
    """Count the rows of a tenant by table."""
    calls = tuple(
        Call(statement_for("carry_count", table), {"tenant": tenant}) for table in EXPORTED_TABLES
    )
    answers = yield Query(calls)
    return {table: answer[0][0] for table, answer in zip(EXPORTED_TABLES, answers, strict=True)}


def _read_setup() -> Flow[dict[str, Any]]:
    """Read the fields of a header that say how the database is set up."""
    settings, migrations = yield Query((Call("settings", {}), Call("applied_migrations", {})))
    values = dict(settings)
    return {
        "schema": max(row[0] for row in migrations),
        "vectors": values.get("vector"),
        "language": values.get("language"),
    }


# Export


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportReport:
    """The contents and size of an export."""

    tenant: str
    path: Path
    rows: Mapping[str, int]
    """Number of rows by table."""
    bytes: int

    def __str__(self) -> str:
        """Return the counts in one line."""
        counts = describe_counts(self.rows)
        return f"{self.tenant}: {counts} exported to {self.path} ({self.bytes:,} bytes)"


@without_deadline
def export_all(
    store: TieredStore,
    context: MemoryContext,
    path: str | os.PathLike[str],
    *,
    model: str | None = None,
    advance: Callable[[int], object] = lambda _: None,
) -> Flow[ExportReport]:
    """Export the context's tenant as of one moment. Later writes are left out.

    The export first removes files of interrupted exports of the tenant from this machine. `model`
    is the embedding model, if it is known; `advance` is called with the number of rows written.

    Raises:
        InvalidInputError: if the file cannot be written, or exists already.
    """
    yield from store.flows.flush()  # pending access counts are exported too
    tenant = context.root
    target = yield from call_blocking(partial(check_target, path))
    yield from unfinished_exports.remove_unfinished(tenant)
    writer = yield from call_blocking(partial(ExportWriter, target))
    writing = _write_export(tenant, writer, store.flows.now, model, advance)
    try:
        report: ExportReport = yield Unit(writing, if_broken_off=_discard(tenant, writer))
    except BaseException:  # also if the database cannot be reached any more
        writer.discard()
        raise
    return report


def _write_export(
    tenant: str,
    writer: ExportWriter,
    now: datetime,
    model: str | None,
    advance: Callable[[int], object],
) -> Flow[ExportReport]:
    """Write every row to the file, and give it its name."""
    yield from unfinished_exports.begin_export(tenant, writer.part, now)
    yield Script(snapshot_script())
    yield Query((NO_HURRY,))
    set_up = yield from _read_setup()
    header = ExportHeader(
        langmem_tiers_export=FORMAT,
        export=str(uuid4()),
        tenant=tenant,
        at=now.astimezone(UTC).isoformat(),
        model=model,
        rows=(yield from count_rows(tenant)),
        **set_up,
    )
    yield from call_blocking(partial(writer.begin, header))
    for table in header.rows:
        yield Query((Call(statement_for("carry_out", table), {"tenant": tenant}),))
        while page := (yield Query((Call("carry_next", {}),)))[0]:
            yield from call_blocking(partial(writer.add, table, page))
            advance(len(page))
        yield Query((Call("carry_end", {}),))
    yield Query((), commit=True)
    size = yield from call_blocking(writer.finish)
    yield from unfinished_exports.end_export(tenant, writer.part)
    return ExportReport(tenant=tenant, path=writer.path, rows=header.rows, bytes=size)


def _discard(tenant: str, writer: ExportWriter) -> Flow[None]:
    """Delete the file and its row in `exports`."""
    yield from call_blocking(writer.discard)
    yield from unfinished_exports.end_export(tenant, writer.part)


# Import


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportJob:
    """The options of one import."""

    store: TieredStore
    context: MemoryContext
    path: str | os.PathLike[str]
    source: str | None = None
    """The source that answers for the file; None if the importer does."""
    policy: TrustPolicy = field(default_factory=TrustPolicy)
    readmit: bool = False
    model: str | None = None
    """The embedding model; None if it is unknown."""
    advance: Callable[[int], object] = lambda _: None
    """Called with numbers of rows: once when they are checked, once when they are written."""

    def __post_init__(self) -> None:
        """Check the options."""
        checked_label(self.source, "source")
        checked_flag(self.readmit, "readmit")

    @property
    def tenant(self) -> str:
        """Return the tenant's name in the database."""
        return self.context.root

    def reader(self) -> ExportReader:
        """Open the file at its beginning."""
        return ExportReader(self.path, self.store.options.bounds)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportReport:
    """The result of an import."""

    tenant: str
    rows: Mapping[str, int]
    """Number of the file's rows by table."""
    resumed_after: int = 0
    """Number of these rows that an interrupted import had written before."""
    shift: int = 0
    """Number that was added to each id because other tenants had some of the ids; else 0."""
    forgotten: tuple[str, ...] = ()
    """Keys of memories that were left out because they were forgotten here."""
    held: int = 0
    """Number of memories that were quarantined because of their low trust."""

    def __str__(self) -> str:
        """Return the counts in one line."""
        clauses = {
            f"{self.tenant}: {describe_counts(self.rows)} imported": True,
            f"{self.resumed_after:,} of these rows were there already": self.resumed_after,
            "with new ids": self.shift,
            f"{len(self.forgotten):,} memories left out as they were forgotten": self.forgotten,
            f"{self.held:,} memories quarantined": self.held,
        }
        return ", ".join(text for text, is_so in clauses.items() if is_so)


class _ImportProgress(NamedTuple):
    """The progress of an import: a row of `begun_import`, with its columns in this order."""

    export: str
    done: int
    shift: int
    source: str | None
    readmit: bool


class _FileCheck(NamedTuple):
    """The results of the check of a file."""

    low: int
    high: int
    """The least and the largest id; the file has no ids if the largest is 0."""
    forgotten: Mapping[int, MemoryRow]
    """Memories that were forgotten here, by id."""
    hashes: Collection[str]
    """Hashes of their contents."""


@without_deadline
def import_all(job: ImportJob) -> Flow[ImportReport]:
    """Import all rows of an export unchanged: check the whole file, then write it.

    Raises:
        ConfigurationError: if the store has not the rights of the owner.
        ConflictError: if somebody else imports the tenant meanwhile.
        InvalidInputError: if the file is not what was exported, is of another tenant or of a
            database that was set up otherwise, or if the tenant has anything already.
        ConflictError (lease_lost): while somebody consolidates the tenant.
    """
    set_up = yield from _read_setup()
    yield Query((), commit=True)
    if (acting := job.store.runner.acting) != "owner":
        raise ConfigurationError(
            "an import has to see whether others have its ids, as the database's owner may, and "
            f"this store's rights are those of a role {acting!r}: open it as the owner"
        )
    reader = yield from call_blocking(job.reader)
    try:
        _check_header(reader, job, set_up)
        begun = yield from _find_progress(job, reader.header.export)
        tables = rows.make_tables(
            (yield from rows_of("carried_columns", names=list(EXPORTED_TABLES)))
        )
        seen = yield from _check_file(reader, job, tables, begun)
        if begun is None:
            begun = yield from _record_begin(job, reader.header.export, seen)
    finally:
        reader.close()
    left_out = [] if job.readmit else list(seen.forgotten.values())
    held = yield from _write_all(job, begun, left_out, tables)
    return ImportReport(
        tenant=job.tenant,
        rows=reader.header.rows,
        resumed_after=begun.done,
        shift=begun.shift,
        forgotten=tuple(sorted({row.key for row in left_out})),
        held=held,
    )


# Checks before anything is written


def _check_header(reader: ExportReader, job: ImportJob, set_up: Mapping[str, Any]) -> None:
    """Check that a database with this setup can hold the rows of the file.

    Raises:
        InvalidInputError: if it cannot.
    """
    header, schema, language = reader.header, set_up["schema"], set_up["language"]
    here = set_up["vectors"] and dict(set_up["vectors"])
    there = None if header.vectors is None else header.vectors.model_dump()
    if header.tenant != job.tenant:
        why = (
            f"this is an export of the tenant {short(header.tenant)} and not of {job.tenant!r}: a "
            "tenant keeps its name, which is in its namespaces and words"
        )
    elif header.schema_version != schema:
        why = (
            f"the export is of schema version {header.schema_version} and this database at "
            f"{schema}: bring both to the same by setup() of one version, and export again"
        )
    elif (there, header.language) != (here, language):
        why = (
            f"the export has {_describe_vectors(there)} and words of {header.language}, this "
            f"database {_describe_vectors(here)} and words of {language}: set one up with the same "
            "index"
        )
    elif None not in (job.model, header.model) and job.model != header.model:
        why = f"its vectors are of the model {header.model}, and this store has {job.model}"
    else:
        return
    raise reader.line_error(1, why)


def _describe_vectors(vectors: Mapping[str, Any] | None) -> str:
    return "no vectors" if vectors is None else f"{vectors['vector_type']}s of {vectors['dims']}"


def _find_progress(job: ImportJob, export: str) -> Flow[_ImportProgress | None]:
    """Return the interrupted import of this export; None if the tenant is empty.

    Raises:
        InvalidInputError: if the tenant has rows, or another import was interrupted.
    """
    begun_rows = yield from rows_of("begun_import", tenant=job.tenant)
    if not begun_rows:
        yield from _check_empty(job.tenant)
        return None
    begun = _ImportProgress(*begun_rows[0])
    if begun.export != export:
        raise InvalidInputError(
            f"the import of another export of {job.tenant!r} was begun: finish that one, or forget "
            "the tenant first"
        )
    if (begun.source, begun.readmit) != (job.source, job.readmit):
        raise InvalidInputError(
            f"this import was begun with source={begun.source!r} and readmit={begun.readmit}: go "
            "on with the same"
        )
    return begun


def _check_empty(tenant: str) -> Flow[None]:
    """Raise InvalidInputError if a tenant has rows; else commit the transaction."""
    there = yield from count_rows(tenant)
    if any(number for name, number in there.items() if name not in PROOF_TABLES):
        raise InvalidInputError(
            f"{tenant!r} has rows already ({describe_counts(there)}), and an export is all of a "
            "tenant: import it into a database where the tenant has none"
        )
    yield Query((), commit=True)


def _check_file(
    reader: ExportReader, job: ImportJob, tables: rows.Tables, begun: _ImportProgress | None
) -> Flow[_FileCheck]:
    """Check a whole file, and find its memories that were forgotten here. Write nothing."""
    secret = yield from rows_of("tombstone_key", tenant=job.tenant)
    total = sum(number for table, number in reader.header.rows.items() if table not in PROOF_TABLES)
    if begun is not None and begun.done >= total:
        secret = []  # tombstones may be those of the file by now
    low, high, gone, hashes = rows.MOST_ID, 0, dict[int, MemoryRow](), set[str]()
    while (
        batch := (yield from call_blocking(partial(read_batch, reader, job.tenant, tables)))
    ) is not None:
        ids = rows.read_ids(batch.table, (line.row for line in batch.lines))
        low, high = min(low, *ids, rows.MOST_ID), max(high, *ids, 0)
        number, first = batch.lines[0]
        keyed = batch.table == "tombstone_keys" and secret and job.source is None
        if keyed and first["secret"] != f"\\x{secret[0][0]}":
            raise reader.line_error(number, _OTHER_KEY)
        if batch.table == "memories" and secret:
            memories = [rows.make_memory_row(line.row) for line in batch.lines]
            forgotten = yield from find_forgotten(
                job.tenant, [content_of(each.value) for each in memories]
            )
            hashes.update(forgotten.values())
            gone |= {each.id: each for each in memories if content_of(each.value) in forgotten}
        job.advance(len(batch.lines))
    return _FileCheck(low, high, gone, hashes)


def read_batch(reader: ExportReader, tenant: str, tables: rows.Tables) -> ExportBatch | None:
    """Read and check the next rows of a file."""
    if (batch := reader.read_batch()) is None:
        return None
    for line in batch.lines:
        try:
            rows.check_row(batch.table, line.row, tables[batch.table], tenant)
        except InvalidInputError as error:
            raise reader.line_error(line.number, str(error)) from error
    return batch


def _record_begin(job: ImportJob, export: str, seen: _FileCheck) -> Flow[_ImportProgress]:
    """Record that an import begins, and which ids it takes."""
    begun = _ImportProgress(export, 0, (yield from _id_shift(job, seen)), job.source, job.readmit)
    if job.readmit:
        yield from unit(readmit(job.tenant, seen.hashes))
    params = {**begun._asdict(), "tenant": job.tenant, "now": job.store.flows.now}
    (noted,) = yield Query((Call("begin_import", params),))
    if not noted:
        raise ConflictError(f"somebody else imports {job.tenant!r}: wait until they are done")
    yield from _check_empty(job.tenant)
    return begun


def _id_shift(job: ImportJob, seen: _FileCheck) -> Flow[int]:
    """Return the number to add to each id: 0 unless other tenants have any of the ids."""
    if not seen.high:
        return 0
    yield from _slow_value("pass_ids", most=seen.high)
    others = yield from _slow_value("ids_between", tenant=job.tenant, low=seen.low, high=seen.high)
    if not others or not (yield from _ids_are_taken(job)):
        return 0
    many = seen.high - seen.low + 1
    if many > MOST_IDS:
        raise InvalidInputError(
            f"the ids of this export are {many:,} apart, too far to draw as many anew, and other "
            "tenants have some of them: import it into another database"
        )
    drawn = yield from _slow_value("draw_ids", many=many)
    return int(drawn) + 1 - seen.low


def _ids_are_taken(job: ImportJob) -> Flow[bool]:
    """Tell whether other tenants have any of a file's ids."""
    reader = yield from call_blocking(job.reader)
    try:
        pending = set[int]()
        while (batch := (yield from call_blocking(reader.read_batch))) is not None:
            pending |= rows.read_ids(batch.table, (line.row for line in batch.lines))
            if len(pending) >= _IDS_AT_ONCE:
                if (yield from _slow_value("ids_among", tenant=job.tenant, ids=sorted(pending))):
                    return True
                pending = set()
        return bool((yield from _slow_value("ids_among", tenant=job.tenant, ids=sorted(pending))))
    finally:
        reader.close()


def _slow_value(statement: str, **params: Any) -> Flow[Any]:
    """Run a slow statement, and return its single value."""
    _, ((answer,),) = yield Query((NO_HURRY, Call(statement, params)), commit=True)
    return answer


# Writing


def _write_all(
    job: ImportJob, begun: _ImportProgress, left_out: Sequence[MemoryRow], tables: rows.Tables
) -> Flow[int]:
    """Write the rows that are missing, and count the memories that are quarantined."""
    scrubber = rows.make_scrubber(left_out) if left_out else None
    before, held = 0, 0
    own = {"tenant": job.tenant, "export": begun.export}
    lease = {"tenant": job.tenant, "holder": f"import of {begun.export}"}
    until = {"now": job.store.flows.now, "seconds": LEASE_SECONDS}
    alone = Call("acquire_lease", {**lease, **until})
    reader = yield from call_blocking(job.reader)
    try:
        if reader.header.export != begun.export:
            raise reader.line_error(1, "the file was replaced while it was imported")
        while (
            batch := (yield from call_blocking(partial(read_batch, reader, job.tenant, tables)))
        ) is not None:
            after = before + len(batch.lines)
            if after > begun.done:
                there = max(begun.done, before)
                left = batch.lines[there - before :]
                making = partial(_write_calls, job, begun, scrubber, batch.table, left)
                calls, lowered = yield from call_blocking(making)
                further = Call("continue_import", {**own, "before": there, "done": after})
                yield from _claim_batch(job.tenant, (NO_HURRY, alone, further))
                yield from _write_rows(reader, calls, left)
                held += lowered
            job.advance(len(batch.lines))
            before = after
    finally:
        reader.close()
    leases, _ = yield Query((alone, Call("end_import", own)))
    fences = [{"tenant": job.tenant, "fence": row[0]} for row in leases]
    yield Query(tuple(Call("release_lease", fence) for fence in fences), commit=True)
    return held


def _write_calls(
    job: ImportJob,
    begun: _ImportProgress,
    scrubber: Scrubber | None,
    table: str,
    lines: Sequence[ExportLine],
) -> tuple[list[Call], int]:
    """Make the calls that write rows of a table, and count the memories that they quarantine."""
    made: list[dict[str, Any]] = []
    held: list[rows.HeldMemory] = []
    taken = job.source is None or table not in rows.OWNER_ONLY
    for line in lines if taken else ():
        row = line.row if scrubber is None else rows.scrub_row(scrubber, table, line.row)
        if row is None:
            continue
        if table == "memories" and job.source is not None:
            lowered = rows.reduce_trust(row, job.source, job.policy)
            held += [] if lowered is None else [lowered]
        if begun.shift:
            rows.change_ids(table, row, lambda id_: id_ + begun.shift)
        made.append(row)
    into = statement_for("carry_in_beside" if table in PROOF_TABLES else "carry_in", table)
    calls = [Call(into, {"tenant": job.tenant, "rows": encode_json(made)})] if made else []
    if held:
        events = {"events": [str(uuid4()) for _ in held], "now": job.store.flows.now}
        params = columns(("namespaces", "keys", "reasons", "trusts"), held)
        calls.append(Call("quarantine", {"tenant": job.tenant, **events, **params}))
    return calls, len(held)


def _claim_batch(tenant: str, calls: tuple[Call, ...]) -> Flow[None]:
    """Begin a transaction that records the progress, unless somebody else is at the tenant."""
    _, held, noted = yield Query(calls)
    if not held:
        raise ConflictError(
            f"somebody consolidates {tenant!r}: what was imported is kept; import it again "
            "for the rest when they are done",
            code="lease_lost",
        )
    if not noted:
        raise ConflictError(
            f"somebody else imports {tenant!r}, or has forgotten it: this import writes "
            "nothing more"
        )


def _write_rows(
    reader: ExportReader, calls: Sequence[Call], lines: Sequence[ExportLine]
) -> Flow[None]:
    """Write rows, and commit."""
    try:
        yield Query(tuple(calls), commit=True)
    except DatabaseError as error:
        if not str(getattr(error.__cause__, "sqlstate", "")).startswith(_REFUSED):
            raise
        why = f"Postgres takes this row, or one up to line {lines[-1].number}, for none ({error})"
        raise reader.line_error(lines[0].number, why) from error
