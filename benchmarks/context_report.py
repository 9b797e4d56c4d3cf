"""The run's tables, for the terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.table import Table

from benchmarks.context_contenders import OURS, OURS_MATCH, PEER, PEER_FULL, RAW
from benchmarks.context_results import Results, bars
from benchmarks.report import Sheet
from benchmarks.timing import Timing

CONTENDERS = (OURS, OURS_MATCH, RAW, PEER, PEER_FULL)

_VERDICTS = {True: "pass", False: "MISS", None: "–"}
_NONE = "–"


def sheets(results: Results) -> Iterator[Sheet]:
    """Every table of a run."""
    yield _speed(results, tail=False)
    yield _speed(results, tail=True)
    yield _ratios(results)
    yield _found(results)
    yield from _parts(results)
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


def _speed(results: Results, *, tail: bool) -> Sheet:
    rows = []
    for at in results.sizes:
        measured = [at.latencies.get(name) for name in CONTENDERS]
        shown = [_timing(one.p95 if tail else one.p50) if one else _NONE for one in measured]
        rows.append((f"{at.size:,}", *shown))
    title = f"{'p95' if tail else 'p50'}: ms a call, 1 client, median of blocks (quartiles)"
    return Sheet(title, ("memories", *CONTENDERS), rows)


def _ratios(results: Results) -> Sheet:
    compared = ((OURS, RAW), (OURS_MATCH, RAW), (PEER, OURS), (PEER_FULL, OURS))
    rows = []
    for at in results.sizes:
        ratios = [at.ratio(slower, faster) for slower, faster in compared]
        shown = [_NONE if one is None else f"{one:.2f}x" for one in ratios]
        rows.append((f"{at.size:,}", *shown))
    columns = (
        "memories",
        "calibrated, times raw",
        "match, times raw",
        "calibrated, faster than peer",
        "calibrated, faster than peer set by hand",
    )
    return Sheet("Ratios of p50", columns, rows)


def _found(results: Results) -> Sheet:
    rows = [
        (f"{at.size:,}", name, f"{found.full_pages:.3f}", f"{found.target:.3f}")
        for at in results.sizes
        for name, found in at.found.items()
    ]
    columns = ("memories", "", "full pages", "finds the memory meant")
    return Sheet("What the calls return (limit 10)", columns, rows)


def _parts(results: Results) -> Iterator[Sheet]:
    for at in results.sizes:
        if at.parts:
            rows = [(name, f"{took:.3f}") for name, took in at.parts.items()]
            title = f"Where the time of {OURS} goes at {at.size:,} memories: medians of each part"
            yield Sheet(title, ("part", "ms"), rows)


def _timing(timing: Timing) -> str:
    return f"{timing.milliseconds:.3g} ({timing.low:.3g}–{timing.high:.3g})"
