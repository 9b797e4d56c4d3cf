"""What a run of the learning benchmark found, and the bars it is held to."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from benchmarks import failures
from benchmarks import streams as simulated
from benchmarks.failure_families import FAMILIES
from benchmarks.faulty_measure import NONE, SIGNATURES, WAYS, Repeats, Run, total
from benchmarks.faulty_tools import OWN, SHARED, WORLDS
from benchmarks.learning_alfworld import AS_RUN, Replay, plain_counts
from benchmarks.learning_data import Trial
from benchmarks.learning_mbpp import OURS, WITH_PROMPT, Found

FOUND_AGAIN = 0.9
REPEATED = 0.1

Keyed = Mapping[str, Mapping[str, Counter[str]]]


@dataclass(frozen=True, slots=True)
class Bar:
    """A claim with a bound, and what was measured (None if it was not)."""

    claim: str
    comparison: Literal[">=", "<=", "="]
    bound: float
    measured: float | None

    @property
    def passed(self) -> bool | None:
        if self.measured is None or math.isnan(self.measured):
            return None
        if self.comparison == "=":
            return self.measured == self.bound
        above = self.comparison == ">="
        return self.measured >= self.bound if above else self.measured <= self.bound

    @property
    def row(self) -> tuple[str, str, str, str]:
        """Claim, bound, what was measured, verdict."""
        found = "not measured" if self.measured is None else f"{self.measured:.3f}"
        verdict = {True: "pass", False: "MISS", None: "–"}[self.passed]
        return self.claim, f"{self.comparison} {self.bound:g}", found, verdict


@dataclass(slots=True)
class Results:
    """Everything that was measured; `left_out` says which parts were not, and why."""

    environment: Mapping[str, str]
    keyed: Keyed = field(default_factory=dict)
    streams: simulated.Results | None = None
    limits: Sequence[simulated.Sheet] = ()
    """What the rules cannot do, on the same streams."""
    programming: list[Found] = field(default_factory=list)
    logs: Sequence[Trial] = ()
    replays: list[Replay] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """The figures, for other programs."""
        return {
            "environment": dict(self.environment),
            "signatures": {
                name: failures.figures(found, found)._asdict() for name, found in self.keyed.items()
            },
            "programming": [
                {"form": one.form, "ranks": one.ranks, "lessons": one.lessons}
                for one in self.programming
            ],
            "replays": [
                {"name": one.name, "successes": dict(one.successes), "shown": one.shown}
                for one in self.replays
            ],
            "repeats": {
                f"{world}, {way}": asdict(self.repeats(world, way))
                for world in WORLDS
                for way in WAYS
                if self.runs
            },
            "bars": [one.row for one in bars(self)],
        }

    def repeats(self, world: str, way: str) -> Repeats:
        """The repeats of one way in one world."""
        return total(self.runs, world, way)

    def share(self, world: str, way: str) -> float | None:
        """Of the repeated failures without memory, the share that is left."""
        base = self.repeats(world, NONE).again if self.runs else 0
        return self.repeats(world, way).again / base if base else None


def key_all(count: int) -> Keyed:
    """What each way of keying a failure makes of every family."""
    return {name: failures.keyed(FAMILIES, count, key) for name, key in failures.KEYS.items()}


def bars(results: Results) -> list[Bar]:
    """The bars that were set beforehand; those of data that is not there have no figure."""
    return [*_streams(results), *_real(results), *_faulty(results)]


def _streams(results: Results) -> Iterator[Bar]:
    for one in simulated.bars(results.streams) if results.streams else ():
        yield Bar(f"streams: {one.claim}", one.comparison, one.bound, one.measured.value)


def _real(results: Results) -> Iterator[Bar]:
    prompted = [one for one in results.programming if one.form == WITH_PROMPT]
    mrr = prompted[0].mrr(OURS) if prompted else None
    yield Bar("real reflexions: MRR of a task's lesson, by its prompt", ">=", FOUND_AGAIN, mrr)
    differing, wrong = [], []
    for replay in results.replays:
        successes, counts = plain_counts(results.logs, replay.name)
        differing.append(sum(replay.successes[name] != n for name, n in successes.items()))
        differing.append(sum(replay.counts[one] != n for one, n in counts.items()))
        wrong.append(replay.shown_wrong)
    there = bool(results.replays)
    claim = "real outcomes: counts that differ from the files'"
    yield Bar(claim, "=", 0, sum(differing) if there else None)
    claim = "real outcomes: runs that were not shown what the log says"
    yield Bar(claim, "=", 0, sum(wrong) if there else None)
    claim = "real outcomes, as run: promoted that succeeded once"
    run = [len(one.promoted) for one in results.replays if one.name == AS_RUN]
    yield Bar(claim, "=", 0, run[0] if run else None)


def _faulty(results: Results) -> Iterator[Bar]:
    for world in (OWN, SHARED):
        claim = f"faulty tools, {world}: repeated failures, share of no memory"
        yield Bar(claim, "<=", REPEATED, results.share(world, SIGNATURES))
