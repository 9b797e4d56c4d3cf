"""What a run of the benchmark of `get_context` found: figures, bars and tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from benchmarks import tables
from benchmarks.context_contenders import OURS, OURS_MATCH, PEER, PEER_FULL, RAW
from benchmarks.store_report import LARGE, MIDDLE, Quality
from benchmarks.tables import Bar, Report, Sheet, ratio_bar
from benchmarks.timing import Timing

LARGEST = 1_000_000
CONTENDERS = (OURS, OURS_MATCH, RAW, PEER, PEER_FULL)
_NONE = "–"


@dataclass(slots=True)
class SizeResult:
    """Everything measured at one number of memories."""

    size: int
    latencies: dict[str, Timing] = field(default_factory=dict)
    found: dict[str, Quality] = field(default_factory=dict)

    def ratio(self, slower: str, faster: str) -> float | None:
        """How many times as long the one's median is as the other's, if both were measured."""
        if slower not in self.latencies or faster not in self.latencies:
            return None
        return self.p50(slower) / self.p50(faster)

    def p50(self, name: str) -> float:
        return self.latencies[name].milliseconds


Results = tables.Results[SizeResult]


def report(results: Results) -> Report:
    """All that is printed."""
    return Report(list(sheets(results)), list(bars(results)), results.foot)


def bars(results: Results) -> Iterator[Bar]:
    """Every bar; those that a run does not reach have no figure."""
    for name in (OURS, OURS_MATCH):
        ratios = [ratio for at in results.sizes if (ratio := at.ratio(name, RAW))]
        claim = f"{name}: times raw SQL, p50, at the worst size"
        yield ratio_bar(claim, "<=", 1.5, max(ratios, default=None))
    for name in (OURS, OURS_MATCH):
        large = [at for at in results.sizes if at.size >= MIDDLE]
        ratios = [ratio for at in large if (ratio := at.ratio(PEER, name))]
        claim = f"{name}: faster than {PEER}, p50, at the worst size from {MIDDLE:,}"
        yield ratio_bar(claim, ">=", 1, min(ratios, default=None))
    small, largest, at = results.at(MIDDLE), results.at(LARGEST), results.at(LARGE)
    growth = largest.p50(OURS) / small.p50(OURS) if small and largest else None
    yield ratio_bar(f"{OURS}: p50 at {LARGEST:,} over that at {MIDDLE:,}", "<=", 3, growth)
    slowest = at.latencies[OURS].p95.milliseconds if at else None
    yield ratio_bar(f"{OURS}: p95 at {LARGE:,}", "<=", 50, slowest, " ms")


def sheets(results: Results) -> Iterator[Sheet]:
    """Every table of a run."""
    yield _speed(results, tail=False)
    yield _speed(results, tail=True)
    yield _ratios(results)
    rows = [
        (f"{at.size:,}", name, *found.row)
        for at in results.sizes
        for name, found in at.found.items()
    ]
    columns = ("memories", "", "full pages", "finds the memory meant")
    yield Sheet("What the calls return (limit 10)", columns, rows)


def _speed(results: Results, *, tail: bool) -> Sheet:
    rows = []
    for at in results.sizes:
        measured = [at.latencies.get(name) for name in CONTENDERS]
        shown = [str(one.p95 if tail else one) if one else _NONE for one in measured]
        rows.append((f"{at.size:,}", *shown))
    title = f"{'p95' if tail else 'p50'}: ms a call, 1 client, median of blocks (quartiles)"
    return Sheet(title, ("memories", *CONTENDERS), rows)


def _ratios(results: Results) -> Sheet:
    compared = {
        "calibrated, times raw": (OURS, RAW),
        "match, times raw": (OURS_MATCH, RAW),
        "calibrated, faster than peer": (PEER, OURS),
        "calibrated, faster than peer set by hand": (PEER_FULL, OURS),
    }
    rows = []
    for at in results.sizes:
        ratios = [at.ratio(slower, faster) for slower, faster in compared.values()]
        shown = [_NONE if one is None else f"{one:.2f}x" for one in ratios]
        rows.append((f"{at.size:,}", *shown))
    return Sheet("Ratios of p50", ("memories", *compared), rows)
