"""What a run of the store's benchmark found: figures, bars and tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks import tables
from benchmarks.contenders import BATCH, GET, OURS, PEER, PUT, RAW, SEARCH, VERBS
from benchmarks.databases import Relation
from benchmarks.tables import Bar, Report, Sheet, ratio_bar
from benchmarks.timing import Timing

ONE, TASKS = MODES = ("1 client", "16 tasks")
MIDDLE, LARGE = 10_000, 100_000
_MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True)
class Comparison:
    """One verb at one size, all contenders in the same blocks."""

    size: int
    mode: str
    verb: str
    timings: Mapping[str, Timing]

    def ratio(self, slower: str, faster: str) -> float:
        """How many times as long the one takes as the other."""
        return self.timings[slower].milliseconds / self.timings[faster].milliseconds


@dataclass(frozen=True, slots=True)
class Quality:
    """What searches of limit 10 found."""

    full_pages: float
    """Share of searches that returned 10."""
    recall: float
    """Share of what is meant that was among them: the ten nearest by exact cosine, or what the
    question was made from."""

    @classmethod
    def of(cls, pages: Sequence[tuple[set[str], set[str]]], limit: int) -> Quality:
        """From (found, meant) of each search."""
        return cls(
            sum(len(found) >= limit for found, _ in pages) / len(pages),
            sum(len(found & meant) / len(meant) for found, meant in pages) / len(pages),
        )

    @property
    def row(self) -> tuple[str, str]:
        return f"{self.full_pages:.3f}", f"{self.recall:.3f}"


@dataclass(slots=True)
class SizeResult:
    """Everything measured at one number of rows."""

    size: int
    comparisons: list[Comparison] = field(default_factory=list)
    quality: dict[str, Quality] = field(default_factory=dict)
    relations: dict[str, list[Relation]] = field(default_factory=dict)

    def find(self, mode: str, verb: str) -> Comparison | None:
        """The comparison of that mode and verb, if it was measured."""
        chosen = [one for one in self.comparisons if (one.mode, one.verb) == (mode, verb)]
        return chosen[0] if chosen else None

    def bytes_per_memory(self, contender: str, *, vectors: bool = True) -> float:
        """Tables and indexes, divided by the number of memories."""
        kept = [one for one in self.relations[contender] if vectors or "vectors" not in one.name]
        return sum(one.bytes for one in kept) / self.size


Results = tables.Results[SizeResult]


def report(results: Results) -> Report:
    """All that is printed."""
    return Report(list(sheets(results)), list(bars(results)), results.foot)


def bars(results: Results) -> Iterator[Bar]:
    """Every bar, a ratio within one run; those that a quick run does not reach have no figure."""
    at, large = results.at(MIDDLE), results.at(LARGE)
    for verb, times, share in ((GET, 2.5, 2.5), (BATCH, 6, 1.7), (SEARCH, 2.5, 1.5)):
        faster = _ratio(at, ONE, verb, PEER, OURS)
        yield ratio_bar(f"{verb}: faster than PostgresStore", ">=", times, faster)
        yield ratio_bar(f"{verb}: times raw SQL", "<=", share, _ratio(at, ONE, verb, OURS, RAW))
    for verb, times in ((GET, 2.5), (SEARCH, 3), (PUT, 4)):
        claim = f"{verb}, {TASKS}: faster than AsyncPostgresStore"
        yield ratio_bar(claim, ">=", times, _ratio(at, TASKS, verb, PEER, OURS))
    ours = large.quality.get(OURS) if large else None
    place = "1 % of 100,000 rows"
    yield ratio_bar(f"{place}: full pages", ">=", 1, ours.full_pages if ours else None, "")
    yield ratio_bar(f"{place}: recall@10", ">=", 0.99, ours.recall if ours else None, "")
    disk = at.bytes_per_memory(OURS) / at.bytes_per_memory(PEER) if at else None
    yield ratio_bar("bytes per memory: share of PostgresStore's", "<=", 0.85, disk)


def _ratio(at: SizeResult | None, mode: str, verb: str, slower: str, faster: str) -> float | None:
    found = at.find(mode, verb) if at else None
    return found.ratio(slower, faster) if found else None


def sheets(results: Results) -> Iterator[Sheet]:
    """Every table of a run."""
    for mode in MODES:
        yield _speed(results, mode)
    yield _found(results)
    if at_middle := results.at(MIDDLE):
        yield _disk(at_middle)


def _speed(results: Results, mode: str) -> Sheet:
    rows = [
        (verb, f"{at.size:,}", *_figures(found))
        for verb in VERBS
        for at in results.sizes
        if (found := at.find(mode, verb))
    ]
    unit = "ms a call" if mode == ONE else "ms a call, all clients together"
    columns = ("", "rows", OURS, PEER, RAW, "faster than peer", "times raw")
    return Sheet(f"{mode}: {unit}, median of blocks (quartiles)", columns, rows)


def _figures(found: Comparison) -> Iterator[str]:
    yield from (str(found.timings[name]) for name in (OURS, PEER, RAW))
    yield f"{found.ratio(PEER, OURS):.1f}x"
    yield f"{found.ratio(OURS, RAW):.2f}x"


def _found(results: Results) -> Sheet:
    rows = [
        (f"{at.size:,}", name, *quality.row)
        for at in results.sizes
        for name, quality in at.quality.items()
    ]
    title = "What searches find in a namespace of 1 % of the rows (limit 10)"
    return Sheet(title, ("rows", "", "full pages", "recall@10"), rows)


def _disk(at: SizeResult) -> Sheet:
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
    return Sheet(f"Disk for {at.size:,} memories (to compare: 10 MB)", columns, totals)
