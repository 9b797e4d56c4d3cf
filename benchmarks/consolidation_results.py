"""What a run of the benchmark of consolidation found, and the bars it is held to."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from benchmarks.learning_results import Bar
from benchmarks.year_replay import Size
from benchmarks.year_score import Score, Share

MERGED_RIGHTLY, BESIDE = 0.98, 1.5
GROWTH = 1.5
"""Times as long a memory may take among a hundred times as many; 1 is linear."""


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

    @property
    def statements_each(self) -> float:
        """A memory's."""
        return self.statements / (self.of * len(self.seconds))


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

    def as_json(self) -> dict[str, Any]:
        """The figures, for other programs."""
        return {
            "environment": dict(self.environment),
            "many tenants": [_plain(one) for one in self.many],
            "one tenant": [_plain(one) for one in self.one],
            "recalls": self.recalls and self.recalls._asdict(),
            "years": [
                {
                    "name": one.name,
                    "proposals": one.proposals,
                    "sizes": [size[1:] for size in one.sizes],
                }
                for one in self.years
            ],
            "bars": [asdict(one) for one in bars(self)],
        }


def _plain(costs: Costs) -> dict[str, Any]:
    return {
        "stored": costs.stored,
        "first": costs.first._asdict(),
        "idle": costs.idle._asdict(),
    }


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which such a share lies."""
    return statistics.quantiles(values, n=100, method="inclusive")[round(100 * share) - 1]


def slower(recalls: Recalls, share: float) -> float:
    """How many times as long recalls take beside a cycle."""
    return quantile(recalls.beside, share) / quantile(recalls.alone, share)


def bars(results: Results) -> Iterator[Bar]:
    """What was asked for, and whether it was found."""
    for one in results.years:
        score = one.score
        yield Bar(f"{one.name}: precision of merges", ">=", MERGED_RIGHTLY, score.precision.value)
        yield Bar(f"{one.name}: superseded, and true", "=", 0, float(len(score.collateral)))
    if len(results.many) > 1:
        least, most = results.many[0], results.many[-1]
        grown = most.first.milliseconds / least.first.milliseconds
        yield Bar(
            f"time of a memory among {most.stored:,} over {least.stored:,}", "<=", GROWTH, grown
        )
    if results.recalls is not None:
        for share in (0.5, 0.95):
            claim = f"recall beside a cycle over recall alone, p{share * 100:.0f}"
            yield Bar(claim, "<=", BESIDE, slower(results.recalls, share))
