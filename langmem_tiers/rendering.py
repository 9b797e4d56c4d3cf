"""What the command line prints: tables for people, and the same facts as JSON documents."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn
from rich.table import Table
from rich.text import Text

from langmem_tiers.importers import BadRecord
from langmem_tiers.importing import Imported
from langmem_tiers.memory import Match, RelationSize, TierStats

BAD_RECORDS_SHOWN = 20

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_UNITS = ("B", "kB", "MB", "GB", "TB")
_KILO = 1000


def console(*, stderr: bool = False) -> Console:
    """A console that prints text as it is: nothing in a memory is taken for markup."""
    return Console(stderr=stderr, markup=False, highlight=False, emoji=False)


def plain(text: object) -> str:
    """Text without control characters, which a memory could steer the terminal with."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", str(text))


class _Rate(ProgressColumn):
    """How many are done in a second, once that is known."""

    def render(self, task: Task) -> Text:
        return Text("" if task.speed is None else f"{task.speed:,.0f} a second")


@contextmanager
def progress(title: str, total: int) -> Iterator[Callable[[int], object]]:
    """Show a bar with count and rate on standard error, if that is a terminal."""
    err = console(stderr=True)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, _Rate(), console=err, disable=not err.is_terminal) as bar:
        task = bar.add_task(plain(title), total=total)
        yield lambda count: bar.update(task, advance=count)


def print_json(document: object) -> None:
    """Print one JSON document; times are ISO 8601."""
    print(json.dumps(document, ensure_ascii=False, indent=2, default=datetime.isoformat))  # noqa: T201


def why(match: Match) -> str:
    """Say what a match owes its score to, such as "words 70 %, meaning 30 %"."""
    names = {"lexical": "words", "dense": "meaning"}
    shares = {names[leg]: part / (match.score or 1) for leg, part in match.explanation.items()}
    return ", ".join(f"{name} {share:.0%}" for name, share in shares.items() if share > 0)


def size(count: float) -> str:
    """Bytes in decimal units, such as "1.4 MB"."""
    unit = 0
    while count >= _KILO and unit < len(_UNITS) - 1:
        count, unit = count / _KILO, unit + 1
    return f"{count:,.0f} {_UNITS[unit]}" if unit == 0 else f"{count:,.1f} {_UNITS[unit]}"


def match_table(matches: Sequence[Match]) -> Table:
    """The memories found, best first: where each stands and its whole text."""
    table = _table("#", "score", "why", "memory")
    for rank, one in enumerate(matches, start=1):
        memory = Text(f"{plain(_heading(one))}\n", style="bold")
        memory.append(plain(_said(one)), style="not bold")
        table.add_row(str(rank), f"{one.score:.2f}", why(one).replace(", ", "\n"), memory)
        table.add_section()
    return table


def match_document(rank: int, one: Match) -> dict[str, Any]:
    """A memory found, as JSON."""
    return {"rank": rank, **asdict(one), "why": why(one)}


def imported_table(imported: Imported) -> Table:
    """What each tenant of a file got."""
    table = _table("tenant", "memories", "first", "last")
    for tenant, span in imported.tenants.items():
        first, last = (span.first or "")[:10], (span.last or "")[:10]
        table.add_row(plain(tenant), f"{span.memories:,}", first, last)
    table.columns[1].justify = "right"
    return table


def imported_document(imported: Imported) -> dict[str, Any]:
    """The same, and every record that could not be imported, as JSON."""
    return {"memories": imported.memories, **asdict(imported)}


def bad_record_lines(bad: Sequence[BadRecord]) -> list[str]:
    """A line for each of the first records that could not be imported, and the rest counted."""
    lines = [f"{_place(one)}: {plain(one.reason)}" for one in bad[:BAD_RECORDS_SHOWN]]
    if len(bad) > BAD_RECORDS_SHOWN:
        lines.append(f"… and {len(bad) - BAD_RECORDS_SHOWN:,} more")
    return lines


def stats_table(tiers: Sequence[TierStats]) -> Table:
    """What each tier holds."""
    names = ("memories", "vectors", "tenants", "accesses", "expiring")
    table = _table("tier", *names, "size")
    for one in tiers:
        counts = (f"{getattr(one, name):,}" for name in names)
        table.add_row(one.tier, *counts, size(one.bytes))
    for column in table.columns[1:]:
        column.justify = "right"
    return table


def stats_document(
    tenant: str | None,
    tiers: Sequence[TierStats],
    sizes: Sequence[RelationSize] | None,
    total: int,
) -> dict[str, Any]:
    """The same as JSON, with every table and index if they are given; sizes are in bytes."""
    document = {"tenant": tenant, "tiers": [asdict(one) for one in tiers], "bytes": total}
    return document if sizes is None else document | {"sizes": [asdict(one) for one in sizes]}


def sizes_table(sizes: Sequence[RelationSize]) -> Table:
    """Every table and index with its size."""
    table = _table("relation", "kind", "size")
    for one in sizes:
        table.add_row(plain(one.relation), one.kind, size(one.bytes))
    table.columns[-1].justify = "right"
    return table


def _heading(one: Match) -> str:
    facts = (one.value.get("speaker"), str(one.value.get("occurred_at", ""))[:10])
    return "  ".join((one.tier, one.key, *(str(fact) for fact in facts if fact)))


def _said(one: Match) -> str:
    said = one.value.get("content")
    return said if isinstance(said, str) else json.dumps(one.value, ensure_ascii=False)


def _place(one: BadRecord) -> str:
    return "record" if one.line is None else f"line {one.line}"


def _table(*names: str) -> Table:
    table = Table(header_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    for name in names:
        table.add_column(name, overflow="fold")
    return table
