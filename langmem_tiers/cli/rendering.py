"""What the command line prints: tables for people, and the same facts as JSON documents."""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.filesize import decimal
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn
from rich.table import Table
from rich.text import Text

from langmem_tiers.core.errors import worded
from langmem_tiers.core.reading import UNPRINTABLE

if TYPE_CHECKING:
    from langmem_tiers.cli.memories import Imported
    from langmem_tiers.consolidate.report import ConsolidationReport
    from langmem_tiers.consolidate.restore import ArchiveFile
    from langmem_tiers.core.memory import Recollection, RelationSize, TierStats
    from langmem_tiers.forget.receipt import ForgetPlan, ForgetReceipt
    from langmem_tiers.importers import BadRecord
    from langmem_tiers.postgres.doctor import Check

BAD_RECORDS_SHOWN = 20

_LAYOUT = frozenset("\t\n")
"""Control characters that are printed: they lay text out and steer nothing."""
_VISIBLE = 0.005
"""Terms below this are 0.00 in print, and are left out."""
_SHOWN = (
    "score",
    "match",
    "explanation",
    "evidence",
    "tier",
    "memory_type",
    "namespace",
    "key",
    "content",
    "speaker",
    "occurred_at",
    "value",
    "created_at",
    "updated_at",
    "access_count",
)
"""What programs are told of a memory; all else is in its value."""
_OF_A_CYCLE = ("tenant", "cycle", "started_at", "finished_at", "skipped", "taken_over", "moves")


def console(*, stderr: bool = False) -> Console:
    """A console that prints text as it is: nothing in a memory is taken for markup."""
    return Console(stderr=stderr, markup=False, highlight=False, emoji=False)


def plain(text: object) -> str:
    """Text without control characters, which a memory could steer or reorder a terminal with."""
    return _each_unprintable(str(text), lambda _: "\N{REPLACEMENT CHARACTER}")


def counted(count: int, noun: str) -> str:
    """A count with its noun, such as "1 record" or "1,200 records"."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


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
    """Print one JSON document; times are ISO 8601, and control characters are escaped."""
    text = json.dumps(document, ensure_ascii=False, indent=2, default=datetime.isoformat)
    escaped = _each_unprintable(text, lambda found: f"\\u{ord(found):04x}")
    print(escaped)  # noqa: T201 - what the user asked for


def recollection_why(one: Recollection) -> str:
    """The terms that add up to a memory's score, such as "match 0.45, recency 0.04"."""
    shown = {name: term for name, term in one.explanation.items() if abs(term) >= _VISIBLE}
    return ", ".join(f"{plain(name)} {term:.2f}" for name, term in shown.items())


def recollection_table(found: Sequence[Recollection]) -> Table:
    """The memories recalled, best first: who said what when, where it stands, and why."""
    table = _table("#", "score", "memory", "tier, type", "why")
    for rank, one in enumerate(found, start=1):
        memory = Text(f"{plain(_heading(one))}\n", style="bold")
        memory.append(plain(one.content), style="not bold")
        kind = f"{one.tier}\n{plain(one.memory_type)}"
        why = recollection_why(one).replace(", ", "\n")
        table.add_row(str(rank), f"{one.score:.2f}", memory, kind, why)
        table.add_section()
    return table


def recollection_documents(found: Sequence[Recollection]) -> list[dict[str, Any]]:
    """The same as JSON: also what a match is made of, and the whole stored value."""
    return [
        {
            "rank": rank,
            **{name: getattr(one, name) for name in _SHOWN},
            "why": recollection_why(one),
        }
        for rank, one in enumerate(found, start=1)
    ]


def imported_table(imported: Imported) -> Table:
    """What each tenant of a file got."""
    rows = (
        (plain(tenant), f"{span.memories:,}", (span.first or "")[:10], (span.last or "")[:10])
        for tenant, span in imported.tenants.items()
    )
    return _table("tenant", "memories", "first", "last", rows=rows, right=[1])


def checks_table(checks: Sequence[Check]) -> Table:
    """What was looked at, and what to do where it does not hold."""
    rows = (
        (one.check, "holds" if one.ok else "FAILS", plain(one.found), plain(one.advice))
        for one in checks
    )
    return _table("what has to hold", "", "found", "what to do", rows=rows)


def bad_record_lines(bad: Sequence[BadRecord]) -> list[str]:
    """A line for each of the first records that could not be imported, and the rest counted."""
    lines = [f"{_place(one)}: {plain(one.reason)}" for one in bad[:BAD_RECORDS_SHOWN]]
    if len(bad) > BAD_RECORDS_SHOWN:
        lines.append(f"… and {len(bad) - BAD_RECORDS_SHOWN:,} more")
    return lines


def stats_table(tiers: Sequence[TierStats]) -> Table:
    """What each tier holds."""
    names = ("memories", "vectors", "tenants", "accesses", "expiring")
    rows = (
        (one.tier, *(f"{getattr(one, name):,}" for name in names), decimal(one.bytes))
        for one in tiers
    )
    return _table("tier", *names, "size", rows=rows, right=range(1, 7))


def sizes_table(sizes: Sequence[RelationSize]) -> Table:
    """Every table and index with its size."""
    rows = ((plain(one.relation), one.kind, decimal(one.bytes)) for one in sizes)
    return _table("relation", "kind", "size", rows=rows, right=[2])


def archives_lines(files: Sequence[ArchiveFile]) -> Iterator[str]:
    """The archives of a tenant, oldest first: names and URLs on lines of their own, to copy."""
    for one in files:
        day = one.archived_at.date().isoformat()
        yield plain(one.archive)
        yield f"  {day}, memories: {one.memories:,}, remaining: {one.remaining:,}"
        yield f"  {plain(one.url)}"


def plan_table(plan: ForgetPlan) -> Table:
    """What a forgetting would take away, and why."""
    rows = [
        (what, plain(one.key or ""), plain("/".join(one.namespace)), one.tier, one.why)
        for what, several in (
            ("goes", plan.erased),
            ("suspect", plan.rewritten),
            ("stays", plan.alike),
        )
        for one in several
    ]
    rows += [
        ("also found", plain(one.form), f"in {one.rows:,}", "", "it stays unless it is named too")
        for one in plan.near
    ]
    rows += [("thread", plain(one.thread), "", "", one.why) for one in plan.threads]
    rows += [("file", plain(one), "", "", "it holds lines that go") for one in plan.files]
    rows += [(f"{number:,} rows", table, "", "", "") for table, number in plan.counts.items()]
    if plan.scrubbed:
        rows.append((f"{plan.scrubbed:,} others", "", "", "", "they lose what they quote"))
    return _table("what", "which", "where", "tier", "why", rows=rows)


def receipt_table(receipt: ForgetReceipt) -> Table:
    """What a forgetting took away."""
    rows = [("receipt", receipt.receipt), ("at", receipt.at)]
    rows += [(table, f"{number:,} rows") for table, number in receipt.counts.items()]
    rows += [("suspect", f"{len(receipt.rewritten):,} memories")] if receipt.rewritten else []
    rows += [("lost what they quoted", f"{receipt.scrubbed:,}")] if receipt.scrubbed else []
    rows += [("file removed", plain(one)) for one in receipt.files]
    rows += [("thread deleted", plain(one)) for one in receipt.threads]
    rows += [("thread that stands", plain(one)) for one in receipt.named_threads]
    return _table("forgotten", "", rows=rows)


def cycles_document(
    reports: Sequence[ConsolidationReport], failures: Mapping[str, Exception]
) -> dict[str, Any]:
    """What cycles of consolidation did, and which ones broke off, as JSON."""
    return {
        "cycles": [
            {name: getattr(one, name) for name in _OF_A_CYCLE}
            | {"lines": [line._asdict() for line in one.lines]}
            for one in reports
        ],
        "failed": {tenant: worded(error) for tenant, error in failures.items()},
    }


def _heading(one: Recollection) -> str:
    day = one.occurred_at and one.occurred_at.date().isoformat()
    return "  ".join(fact for fact in (one.speaker, day, one.key) if fact)


def _each_unprintable(text: str, replaced: Callable[[str], str]) -> str:
    return UNPRINTABLE.sub(
        lambda found: found[0] if found[0] in _LAYOUT else replaced(found[0]), text
    )


def _place(one: BadRecord) -> str:
    return "record" if one.line is None else f"line {one.line}"


def _table(*names: str, rows: Iterable[Sequence[str]] = (), right: Container[int] = ()) -> Table:
    """A table; what stands to the `right` in its column is named by its place."""
    table = Table(header_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    for place, name in enumerate(names):
        table.add_column(name, overflow="fold", justify="right" if place in right else "left")
    for row in rows:
        table.add_row(*row)
    return table
