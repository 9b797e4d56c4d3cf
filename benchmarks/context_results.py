"""What a run found, as plain data, and the bars it is held to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.bars import LARGE, MIDDLE, Bar
from benchmarks.context_contenders import OURS, OURS_MATCH, PEER, RAW
from benchmarks.timing import Timing

LARGEST = 1_000_000


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds a call: the median and the 95th percentile, block by block."""

    p50: Timing
    p95: Timing


@dataclass(frozen=True, slots=True)
class Found:
    """What the calls returned."""

    full_pages: float
    """Share of calls that returned ten memories."""
    target: float
    """Share of calls that returned the memory the question was made from."""


@dataclass(slots=True)
class SizeResult:
    """Everything measured at one number of memories."""

    size: int
    latencies: dict[str, Latency] = field(default_factory=dict)
    found: dict[str, Found] = field(default_factory=dict)
    parts: dict[str, float] = field(default_factory=dict)
    """Milliseconds of each part of a call, if they were taken."""

    def ratio(self, slower: str, faster: str) -> float | None:
        """How many times as long the one's median is as the other's, if both were measured."""
        if slower not in self.latencies or faster not in self.latencies:
            return None
        return self._p50(slower) / self._p50(faster)

    def _p50(self, name: str) -> float:
        return self.latencies[name].p50.milliseconds


@dataclass(slots=True)
class Results:
    """A whole run."""

    dims: int
    environment: dict[str, str]
    sizes: list[SizeResult] = field(default_factory=list)
    seconds: float = 0.0

    def at(self, size: int) -> SizeResult | None:
        """What was measured at that number of memories, if it was."""
        return next((one for one in self.sizes if one.size == size), None)

    def as_json(self) -> dict[str, Any]:
        """For `json.dump`."""
        return asdict(self)


def bars(results: Results) -> list[Bar]:
    """Every bar; those that a run does not reach have no figure."""
    return [*_beside(results), *_by_itself(results)]


def _beside(results: Results) -> Iterator[Bar]:
    for name in (OURS, OURS_MATCH):
        ratios = [ratio for at in results.sizes if (ratio := at.ratio(name, RAW))]
        claim = f"{name}: times raw SQL, p50, at the worst size"
        yield Bar(claim, 1.5, max(ratios, default=None), at_least=False)
    for name in (OURS, OURS_MATCH):
        large = [at for at in results.sizes if at.size >= MIDDLE]
        ratios = [ratio for at in large if (ratio := at.ratio(PEER, name))]
        claim = f"{name}: faster than {PEER}, p50, at the worst size from {MIDDLE:,}"
        yield Bar(claim, 1, min(ratios, default=None))


def _by_itself(results: Results) -> Iterator[Bar]:
    small, large = results.at(MIDDLE), results.at(LARGEST)
    growth = None
    if small and large:
        growth = large.latencies[OURS].p50.milliseconds / small.latencies[OURS].p50.milliseconds
    yield Bar(f"{OURS}: p50 at {LARGEST:,} over that at {MIDDLE:,}", 3, growth, at_least=False)
    at = results.at(LARGE)
    slowest = at.latencies[OURS].p95.milliseconds if at else None
    yield Bar(f"{OURS}: p95 at {LARGE:,}", 50, slowest, at_least=False, unit=" ms")
