"""The run's tables, for the terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table

from benchmarks.consolidation_results import (
    Costs,
    Recalls,
    Results,
    Year,
    bars,
    quantile,
    slower,
)
from benchmarks.report import Sheet

_MEGABYTE = 1_000_000


def sheets(results: Results) -> Iterator[Sheet]:
    """Every table of a run."""
    if results.many:
        yield _costs("Cycles of tenants of one size, among ever more", results.many)
    if results.one:
        yield _costs("Cycles of one tenant, ever larger", results.one)
    if results.recalls is not None:
        yield _recalls(results.recalls)
    if results.years:
        yield _years(results.years)
        yield _proposals(results.years)
        yield _sizes(results.years)
    yield Sheet("Bars", ("claim", "wanted", "measured", ""), [one.row for one in bars(results)])


def show(results: Results, console: Console) -> None:
    """Print every table."""
    for sheet in sheets(results):
        table = Table(title=sheet.title, title_justify="left")
        for number, name in enumerate(sheet.columns):
            table.add_column(name, justify="left" if number == 0 else "right")
        for row in sheet.rows:
            table.add_row(*row, style="red" if "MISS" in row else None)
        console.print(table)
    console.print(_foot(results), highlight=False, markup=False)


def markdown(results: Results) -> str:
    """Every table as Markdown."""
    parts = []
    for sheet in sheets(results):
        lines = [sheet.columns, ["---", *["---:"] * (len(sheet.columns) - 1)], *sheet.rows]
        table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        parts.append(f"**{sheet.title}**\n\n{table}")
    return "\n\n".join([*parts, _foot(results)])


def _costs(title: str, several: Sequence[Costs]) -> Sheet:
    columns = (
        *("memories stored", "of a tenant", "cycles"),
        *("memories per second", "ms per memory", "over the first line", "statements per memory"),
        *("ms of a cycle with nothing new", "its statements"),
    )
    base = several[0].first.milliseconds
    rows = [
        (
            f"{one.stored:,}",
            f"{one.first.of:,}",
            str(len(one.first.seconds)),
            f"{1000 / one.first.milliseconds:,.0f}",
            f"{one.first.milliseconds:.2f}",
            f"{one.first.milliseconds / base:.2f}x",
            f"{one.first.statements_each:.2f}",
            f"{one.idle.milliseconds * one.idle.of:.0f}",
            f"{one.idle.statements / len(one.idle.seconds):.0f}",
        )
        for one in several
    ]
    return Sheet(title, columns, rows)


def _recalls(recalls: Recalls) -> Sheet:
    rows = [
        (
            f"p{share * 100:.0f}",
            f"{quantile(recalls.alone, share):.1f}",
            f"{quantile(recalls.beside, share):.1f}",
            f"{slower(recalls, share):.2f}x",
        )
        for share in (0.5, 0.95)
    ]
    title = (
        f"get_context, milliseconds: {len(recalls.alone):,} recalls each way, beside "
        f"{recalls.cycles:,} batches of cycles in another process"
    )
    return Sheet(title, ("", "alone", "beside a cycle", "slower"), rows)


def _years(several: Sequence[Year]) -> Sheet:
    columns = (
        *("", "memories", "cycles", "seconds", "statements per memory"),
        *("merges: precision", "recall", "changes superseded", "superseded, and true"),
    )
    rows = [
        (
            one.name,
            f"{one.memories:,}",
            f"{one.cycles:,}",
            f"{one.seconds:.0f}",
            f"{one.statements / one.memories:.1f}",
            f"{one.score.precision.value:.4f}",
            f"{one.score.recall.value:.4f}",
            str(one.score.ended),
            str(len(one.score.collateral)),
        )
        for one in several
    ]
    return Sheet("A year, lived through", columns, rows)


def _proposals(several: Sequence[Year]) -> Sheet:
    columns = ("", "the same: right", "of all", "changed: right", "of all", "a memory")
    rows = [
        (
            one.name,
            *map(str, one.proposals),
            f"{sum(share.all for share in one.proposals[::2]) / one.memories:.2f}",
        )
        for one in several
    ]
    return Sheet("Proposed, and judged by nobody", columns, rows)


def _sizes(several: Sequence[Year]) -> Sheet:
    columns = ["month", "told"]
    for one in several:
        columns += [f"memories held, {one.name}", f"MB, {one.name}"]
    rows = [
        (
            str(number),
            f"{both[0].told:,}",
            *(said for one in both for said in (f"{one.rows:,}", f"{one.bytes / _MEGABYTE:.1f}")),
        )
        for number, both in enumerate(zip(*(one.sizes for one in several), strict=False), 1)
    ]
    return Sheet("What a year leaves in the database", columns, rows)


def _foot(results: Results) -> str:
    facts = ", ".join(f"{name} {what}" for name, what in results.environment.items())
    return f"All is seeded; {facts}; {results.seconds:.0f} s in all."
