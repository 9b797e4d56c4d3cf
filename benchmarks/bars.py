"""The bars the store is held to; each is a ratio within one run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.contenders import OURS, PEER, RAW
from benchmarks.results import (
    BATCH,
    EXACT,
    GET,
    HNSW,
    ONE,
    PUT,
    SEARCH,
    TASKS,
    Results,
    SizeResult,
)

MIDDLE, LARGE = 10_000, 100_000


@dataclass(frozen=True, slots=True)
class Bar:
    """A claim with a bound, and what was measured (None if it was not)."""

    claim: str
    bound: float
    measured: float | None
    at_least: bool = True
    unit: str = "x"

    @property
    def passed(self) -> bool | None:
        if self.measured is None:
            return None
        return self.measured >= self.bound if self.at_least else self.measured <= self.bound

    @property
    def wanted(self) -> str:
        return f"{'>=' if self.at_least else '<='} {self.bound:g}{self.unit}"

    @property
    def found(self) -> str:
        return "not measured" if self.measured is None else f"{self.measured:.2f}{self.unit}"


def bars(results: Results) -> list[Bar]:
    """Every bar; those that a quick run does not reach have no figure."""
    return [*_latency(results), *_clients(results), *_namespace(results), *_disk(results)]


def _latency(results: Results) -> Iterator[Bar]:
    at = results.at(MIDDLE)
    for verb, times, share in ((GET, 2.5, 2.5), (BATCH, 6, 1.7), (SEARCH, 2.5, 1.5)):
        yield Bar(f"{verb}: faster than PostgresStore", times, _ratio(at, ONE, verb, PEER, OURS))
        ratio = _ratio(at, ONE, verb, OURS, RAW)
        yield Bar(f"{verb}: times raw SQL", share, ratio, at_least=False)


def _clients(results: Results) -> Iterator[Bar]:
    at = results.at(MIDDLE)
    for verb, times in ((GET, 2.5), (SEARCH, 3), (PUT, 4)):
        claim = f"{verb}, {TASKS}: faster than AsyncPostgresStore"
        yield Bar(claim, times, _ratio(at, TASKS, verb, PEER, OURS))


def _namespace(results: Results) -> Iterator[Bar]:
    at = results.at(LARGE)
    ours = at.quality.get(OURS) if at else None
    place = "1 % of 100,000 rows"
    yield Bar(f"{place}: full pages", 1, ours.full_pages if ours else None, unit="")
    yield Bar(f"{place}: recall@10", 0.99, ours.recall if ours else None, unit="")
    for kind in (HNSW, EXACT):
        best = at.hand_set.get(kind) if at else None
        ratio = best[1].ratio(PEER, OURS) if best else None
        yield Bar(f"{place}: faster than hand-set PostgresStore, {kind}", 15, ratio)


def _disk(results: Results) -> Iterator[Bar]:
    at = results.at(MIDDLE)
    share = at.bytes_per_memory(OURS) / at.bytes_per_memory(PEER) if at else None
    yield Bar("bytes per memory: share of PostgresStore's", 0.85, share, at_least=False)


def _ratio(at: SizeResult | None, mode: str, verb: str, slower: str, faster: str) -> float | None:
    found = at.find(mode, verb) if at else None
    return found.ratio(slower, faster) if found else None
