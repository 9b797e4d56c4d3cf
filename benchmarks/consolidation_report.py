"""What a run of the benchmark of consolidation found: figures, bars and tables."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from benchmarks.tables import Bar, Report, Sheet, facts
from benchmarks.year_replay import Size
from benchmarks.year_score import Score, Share

MERGED_RIGHTLY, BESIDE = 0.98, 1.5
GROWTH = 1.5
"""Times as long a memory may take among a hundred times as many; 1 is linear."""
_MEGABYTE = 1_000_000


class Cost(NamedTuple):
    """What cycles of tenants of one size took."""

    of: int
    """Memories of a tenant."""
    seconds: Sequence[float]
    """Each cycle's."""
    statements: int
    """Of all of them."""

    @property
    def milliseconds(self) -> float:
        """A memory's, by the median cycle."""
        return 1000 * statistics.median(self.seconds) / self.of


class Costs(NamedTuple):
    """The first cycle, which has everything to look at, and one that has nothing new."""

    stored: int
    """Memories of all tenants."""
    first: Cost
    idle: Cost


class Recalls(NamedTuple):
    """Milliseconds of each recall, while nothing else is done and while a cycle is at work."""

    alone: Sequence[float]
    beside: Sequence[float]
    cycles: int
    """Batches that the other process judged or changed meanwhile."""

    def slower(self, share: float) -> float:
        """How many times as long recalls take beside a cycle."""
        return quantile(self.beside, share) / quantile(self.alone, share)


class Year(NamedTuple):
    """A year that was lived through."""

    name: str
    memories: int
    cycles: int
    seconds: float
    statements: int
    score: Score
    proposals: Sequence[Share]
    """Of what nobody judged: how much that is proposed as the same is, of how much that is; then of
    what changed."""
    sizes: Sequence[Size]


@dataclass(slots=True)
class Results:
    """Everything that was measured."""

    environment: Mapping[str, str]
    many: list[Costs] = field(default_factory=list)
    """Ever more tenants of one size."""
    one: list[Costs] = field(default_factory=list)
    """Ever larger tenants."""
    recalls: Recalls | None = None
    years: list[Year] = field(default_factory=list)
    seconds: float = 0.0


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which such a share lies."""
    return statistics.quantiles(values, n=100, method="inclusive")[round(100 * share) - 1]


def report(results: Results) -> Report:
    """All that is printed."""
    foot = f"All is seeded; {facts(results.environment, results.seconds)}"
    return Report(list(sheets(results)), list(bars(results)), foot)


def bars(results: Results) -> Iterator[Bar]:
    """What was asked for, and whether it was found."""
    for one in results.years:
        score = one.score
        yield Bar(f"{one.name}: precision of merges", ">=", MERGED_RIGHTLY, score.precision.value)
        yield Bar(f"{one.name}: superseded, and true", "=", 0, float(len(score.collateral)))
    if len(results.many) > 1:
        least, most = results.many[0], results.many[-1]
        claim = f"time of a memory among {most.stored:,} over {least.stored:,}"
        yield Bar(claim, "<=", GROWTH, most.first.milliseconds / least.first.milliseconds)
    for share in (0.5, 0.95) if results.recalls else ():
        claim = f"recall beside a cycle over recall alone, p{share * 100:.0f}"
        yield Bar(claim, "<=", BESIDE, results.recalls and results.recalls.slower(share))


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
            f"{one.first.statements / (one.first.of * len(one.first.seconds)):.2f}",
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
            f"{recalls.slower(share):.2f}x",
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
