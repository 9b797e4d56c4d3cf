"""The run's tables, for the terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from benchmarks.bars import MIDDLE, bars
from benchmarks.contenders import OURS, PEER, RAW
from benchmarks.results import (
    GET,
    MODES,
    ONE,
    RAW_AT_ONCE,
    VERBS,
    Comparison,
    Results,
    SizeResult,
)
from benchmarks.timing import Timing

_MEGABYTE = 1_000_000
_VERDICTS = {True: "pass", False: "MISS", None: "–"}


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table as text."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


def sheets(results: Results) -> Iterator[Sheet]:
    """Every table of a run."""
    for mode in MODES:
        yield _speed(results, mode)
    yield _at_once(results)
    yield _found(results)
    yield from _hand_set(results)
    if at := results.at(MIDDLE):
        yield from _disk(at)
    verdicts = [(bar.claim, bar.wanted, bar.found, _VERDICTS[bar.passed]) for bar in bars(results)]
    yield Sheet("Bars", ("claim", "wanted", "measured", ""), verdicts)


def show(results: Results, console: Console) -> None:
    """Print every table."""
    for sheet in sheets(results):
        table = Table(title=sheet.title, title_justify="left")
        for number, column in enumerate(sheet.columns):
            table.add_column(column, justify="left" if number == 0 else "right")
        for row in sheet.rows:
            table.add_row(*row, style="red" if "MISS" in row else None)
        console.print(table)
    console.print(_environment(results))


def markdown(results: Results) -> str:
    """Every table as Markdown."""
    parts = []
    for sheet in sheets(results):
        lines = [sheet.columns, ["---", *["---:"] * (len(sheet.columns) - 1)], *sheet.rows]
        table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        parts.append(f"**{sheet.title}**\n\n{table}")
    return "\n\n".join([*parts, _environment(results)])


def _environment(results: Results) -> str:
    facts = ", ".join(f"{name} {what}" for name, what in results.environment.items())
    return f"{results.dims} dimensions; {facts}; {results.seconds:.0f} s in all."


def _speed(results: Results, mode: str) -> Sheet:
    rows = [
        (verb, f"{at.size:,}", *_figures(found))
        for verb in VERBS
        for at in results.sizes
        if (found := at.find(mode, verb))
    ]
    unit = "ms a call" if mode == MODES[0] else "ms a call, all clients together"
    columns = ("", "rows", OURS, PEER, RAW, "faster than peer", "times raw")
    return Sheet(f"{mode}: {unit}, median of blocks (quartiles)", columns, rows)


def _at_once(results: Results) -> Sheet:
    rows = [
        (f"{at.size:,}", *(_timing(found.timings[name]) for name in (OURS, RAW, RAW_AT_ONCE)))
        for at in results.sizes
        if (found := at.find(ONE, GET))
    ]
    return Sheet("get, 1 client: what counting costs, ms", ("rows", OURS, RAW, RAW_AT_ONCE), rows)


def _figures(found: Comparison) -> Iterator[str]:
    for name in (OURS, PEER, RAW):
        yield _timing(found.timings[name])
    yield f"{found.ratio(PEER, OURS):.1f}x"
    yield f"{found.ratio(OURS, RAW):.2f}x"


def _timing(timing: Timing) -> str:
    return f"{timing.milliseconds:.3g} ({timing.low:.3g}–{timing.high:.3g})"


def _found(results: Results) -> Sheet:
    rows = [
        (f"{at.size:,}", name, f"{quality.full_pages:.3f}", f"{quality.recall:.3f}")
        for at in results.sizes
        for name, quality in at.quality.items()
    ]
    title = "What searches find in a namespace of 1 % of the rows (limit 10)"
    return Sheet(title, ("rows", "", "full pages", "recall@10"), rows)


def _hand_set(results: Results) -> Iterator[Sheet]:
    for at in results.sizes:
        if not at.settings:
            continue
        tried = [
            (
                one.name,
                one.kind,
                f"{one.quality.full_pages:.3f}",
                f"{one.quality.recall:.3f}",
                f"{one.milliseconds:.3g}",
            )
            for one in at.settings
        ]
        title = f"PostgresStore set by hand, namespace of 1 % of {at.size:,} rows"
        yield Sheet(title, ("setting", "plan", "full pages", "recall@10", "ms a search"), tried)
        beside = [
            (
                f"{kind}: {setting.name}, recall {setting.quality.recall:.3f}",
                *_figures(found),
            )
            for kind, (setting, found) in at.hand_set.items()
        ]
        columns = ("best settings", OURS, "hand-set", RAW, "faster than peer", "times raw")
        yield Sheet("The best of them, in blocks beside ours: ms a search", columns, beside)


def _disk(at: SizeResult) -> Iterator[Sheet]:
    for name, relations in at.relations.items():
        rows = [
            (one.name, "index" if one.is_index else "table", f"{one.bytes / _MEGABYTE:.2f}")
            for one in relations
            if one.bytes > 0
        ]
        title = f"{name}: tables and indexes, MB for {at.size:,} memories"
        yield Sheet(title, ("relation", "", "MB"), rows)
    totals = [
        (
            name,
            f"{at.bytes_per_memory(name):,.0f}",
            f"{at.bytes_per_memory(name) * at.size / _MEGABYTE:.1f}",
            f"{at.bytes_per_memory(name, vectors=False) * at.size / _MEGABYTE:.1f}",
        )
        for name in at.relations
    ]
    columns = ("", "bytes a memory", "MB in all", "MB without vectors")
    yield Sheet(f"Disk for {at.size:,} memories (to compare: 10 MB)", columns, totals)
