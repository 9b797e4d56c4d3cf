"""Export: all rows of a tenant, as of one moment, into one file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

from langmem_tiers.carry.file import FORMAT, Header, Writer, checked_target
from langmem_tiers.core.carried import CARRIED, of
from langmem_tiers.forget import parts
from langmem_tiers.postgres.flow import Call, Flow, Query, Script, Unit, aside
from langmem_tiers.postgres.migrate import NO_HURRY
from langmem_tiers.postgres.sql import snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportReport:
    """What an export holds."""

    tenant: str
    path: Path
    rows: Mapping[str, int]
    """How many rows, by table."""
    bytes: int

    def __str__(self) -> str:
        """The counts in a line."""
        rows = ", ".join(f"{number:,} of {table}" for table, number in self.rows.items() if number)
        return f"{self.tenant}: {rows or 'nothing'} exported to {self.path} ({self.bytes:,} bytes)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exporting:
    """What is exported, and how."""

    tenant: str
    path: Path
    now: datetime
    model: str | None
    """The embedding model, if it is known."""
    advance: Callable[[int], object]


def counted(tenant: str) -> Flow[dict[str, int]]:
    """How many rows a tenant has, by table."""
    calls = tuple(Call(of("carry_count", table), {"tenant": tenant}) for table in CARRIED)
    answers = yield Query(calls)
    return {table: rows[0][0] for table, rows in zip(CARRIED, answers, strict=True)}


def export(how: Exporting) -> Flow[ExportReport]:
    """Write all of a tenant, as of one moment, whatever is written meanwhile.

    It removes the files that broken-off exports of the tenant left on this machine.

    Raises:
        InvalidInputError: if the file cannot be written, or is there already.
    """
    path = yield from aside(partial(checked_target, how.path))
    yield from parts.clean(how.tenant)
    writer = yield from aside(partial(Writer, path))
    unit = Unit(_exported(how, path, writer), if_broken_off=_dropped(how.tenant, writer))
    try:
        report: ExportReport = yield unit
    except BaseException:  # also where nothing could be asked any more
        writer.drop()
        raise
    return report


def _exported(how: Exporting, path: Path, writer: Writer) -> Flow[ExportReport]:
    """Write every row into a file, and name it."""
    yield from parts.begin(how.tenant, writer.part, how.now)
    yield Script(snapshot())
    yield Query((NO_HURRY,))
    header = yield from _header(how)
    yield from aside(partial(writer.begin, header))
    for table in header.rows:
        yield from _rows(how, table, writer)
    yield Query((), commit=True)
    size = yield from aside(writer.finish)
    yield from parts.end(how.tenant, writer.part)
    return ExportReport(tenant=how.tenant, path=path, rows=header.rows, bytes=size)


def _dropped(tenant: str, writer: Writer) -> Flow[None]:
    """Leave neither a file nor a note of it."""
    yield from aside(writer.drop)
    yield from parts.end(tenant, writer.part)


def _header(how: Exporting) -> Flow[Header]:
    told = yield from stands()
    rows = yield from counted(how.tenant)
    return Header(
        langmem_tiers_export=FORMAT,
        export=str(uuid4()),
        tenant=how.tenant,
        at=how.now.astimezone(UTC).isoformat(),
        model=how.model,
        rows=rows,
        **told,
    )


def stands() -> Flow[dict[str, Any]]:
    """How a database is set up, as a header says it."""
    settings, migrations = yield Query((Call("settings", {}), Call("applied_migrations", {})))
    known = dict(settings)
    return {
        "schema": max(row[0] for row in migrations),
        "vectors": known.get("vector"),
        "language": known.get("language"),
    }


def _rows(how: Exporting, table: str, writer: Writer) -> Flow[None]:
    yield Query((Call(of("carry_out", table), {"tenant": how.tenant}),))
    while True:
        (rows,) = yield Query((Call("carry_next", {}),))
        if not rows:
            break
        yield from aside(partial(writer.add, table, rows))
        how.advance(len(rows))
    yield Query((Call("carry_end", {}),))
