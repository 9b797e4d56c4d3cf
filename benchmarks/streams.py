"""Do the rules of learning find what helps? `python -m benchmarks.streams [--quick]`.

Agents are simulated whose lessons have known effects. docs/learning-streams.md says what was chosen
before anything was measured; everything is seeded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated

import typer
from rich.console import Console

from benchmarks.streams_chances import ever, ever_demoted, promotes
from benchmarks.streams_holdout import METHODS, found, simultaneous, trial, watched
from benchmarks.streams_worlds import (
    CLOSED,
    COUNTED,
    EASY,
    LATEST,
    POLICIES,
    PROMOTION,
    RULES,
    TURNING,
    Family,
    Lesson,
    Share,
    Stream,
    chance_of_success,
    demoted,
    first_five,
    live,
    promoted,
    ranked_out,
    success_rate,
)
from benchmarks.tables import Bar, Sheet, sheet_of, show
from langmem_tiers.learn.evidence import HoldoutCounts

WORLDS, SEEDS, POWER_SEEDS = 200, 1000, 200
FIRST_WORLD = 2000
"""Earlier ones were looked at before the policy had its numbers; these were not."""


@dataclass(frozen=True, slots=True)
class Results:
    """Everything that was simulated: lessons by stream, and hold-out trials."""

    lessons: dict[str, list[Lesson]]
    trials: list[list[HoldoutCounts]]

    @classmethod
    def run(cls, worlds: Iterable[int], seeds: int) -> Results:
        lessons = {
            stream.name: [one for seed in worlds for one in live(stream, seed)]
            for stream in (PROMOTION, TURNING, EASY)
        }
        return cls(lessons, [trial(seed) for seed in range(seeds)])


def bars(results: Results) -> list[Bar]:
    """The bars that were set beforehand."""
    main, turning = (results.lessons[one.name] for one in (PROMOTION, TURNING))
    beta, only = promoted(main, "BETA"), found(results.trials, simultaneous)
    undone = {name: demoted(turning, name, LATEST) for name in POLICIES}
    return [
        _least("BETA: precision", 0.95, beta.precision),
        _least("BETA: recall", 0.90, beta.recall),
        _most("BETA: false promotions", 0.01, beta.false),
        *(_least(f"{name}: turned, demoted", 0.95, one.turned) for name, one in undone.items()),
        *(_most(f"{name}: steady, demoted", 0.05, one.steady) for name, one in undone.items()),
        _least("harming: out of the first five", 0.95, ranked_out(main)),
        _least("hold-out: the helping one and no other", 0.90, only.exactly),
        _most("hold-out: any noise", 0.05, only.noise),
    ]


def _least(claim: str, bound: float, share: Share) -> Bar:
    return Bar(claim, ">=", bound, share.value, str(share))


def _most(claim: str, bound: float, share: Share) -> Bar:
    return Bar(claim, "<=", bound, share.value, str(share))


def sheets(results: Results) -> Iterator[Sheet]:
    """Every table of a run."""
    yield _rates(results)
    yield from (_promotion(results, one) for one in (PROMOTION, EASY))
    yield _demotion(results)
    yield _holdout(results)


def _rates(results: Results) -> Sheet:
    rows = [
        (name, *(f"{success_rate(lessons, family):.3f}" for family in Family))
        for name, lessons in results.lessons.items()
    ]
    return Sheet("Success rates in company", ("stream", *Family), rows)


def _promotion(results: Results, stream: Stream) -> Sheet:
    lessons = results.lessons[stream.name]
    rows = [(name, *map(str, promoted(lessons, name))) for name in RULES]
    columns = ("rule", "precision", "recall", "false promotions")
    return Sheet(f"Promotion, stream {stream.name!r}", columns, rows)


def _demotion(results: Results) -> Sheet:
    lessons = results.lessons[TURNING.name]
    rows = [
        (f"{name}, {counted}", *map(str, demoted(lessons, name, counted)))
        for name in POLICIES
        for counted in COUNTED
    ]
    return Sheet("Demoted", ("policy", "that turned", "that kept helping"), rows)


def _holdout(results: Results) -> Sheet:
    rows = [(name, *map(str, found(results.trials, method))) for name, method in METHODS.items()]
    return Sheet("Hold-out", ("method", "the helping one and no other", "any noise"), rows)


RATES = (0.5, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.93, 0.95)
LOOKS = (25, 50, 100)
DRAWN = 10_000


def promotion_chances(name: str) -> Sheet:
    """How likely a policy ever promotes, by true rate, looked at after each outcome."""
    stops = lru_cache(maxsize=None)(promotes(POLICIES[name]))
    rows = [
        (f"{looks} outcomes", *(f"{ever(rate, looks, stops):.4f}" for rate in RATES))
        for looks in LOOKS
    ]
    return Sheet(f"Chance of being promoted by {name}, exact", _BY_RATE, rows)


def demotion_chances(name: str, memories: int) -> Sheet:
    """How often a policy ever demotes, by true rate, looked at after each outcome."""
    rows = [
        (
            f"{looks} outcomes",
            *(f"{ever_demoted(one, looks, POLICIES[name], memories).value:.4f}" for one in RATES),
        )
        for looks in LOOKS
    ]
    return Sheet(f"Chance of being demoted by {name}, of {memories:,} drawn", _BY_RATE, rows)


_BY_RATE = ("", *map(str, RATES))


def power(seeds: int) -> Sheet:
    """How often only the helping lesson stands out, for smaller effects and other run counts."""
    rows = []
    for effect in (1.0, 2.0, 3.0):
        shares = [
            found([trial(seed, runs, effect) for seed in range(seeds)], simultaneous).exactly
            for runs in (100, 300, 1000)
        ]
        rows.append(
            (
                f"0.50 to {chance_of_success(0.5, (effect,)):.2f}",
                *(f"{one.value:.2f}" for one in shares),
            )
        )
    columns = ("effect", "100 runs", "300 runs", "1,000 runs")
    return Sheet("The helping one and no other, by effect", columns, rows)


def limits(worlds: Iterable[int], seeds: int) -> Sheet:
    """What the rules cannot do."""
    closed = [one for seed in worlds for one in live(CLOSED, seed, first_five)]
    seen = Share.of(watched(seed) for seed in range(seeds))
    rows = [
        ("harming: out of the first five, if these are always shown", str(ranked_out(closed))),
        ("hold-out: any noise, at any of 12 looks", str(seen)),
    ]
    return Sheet("Limits", ("", "measured"), rows)


def main(*, quick: Annotated[bool, typer.Option(help="A twentieth of it.")] = False) -> None:
    """Simulate, and print every table."""
    share = 20 if quick else 1
    worlds = range(FIRST_WORLD, FIRST_WORLD + WORLDS // share)
    results = Results.run(worlds, SEEDS // share)
    show([*sheets(results), sheet_of(bars(results))], console := Console(width=140))
    show([limits(worlds, POWER_SEEDS // share), power(POWER_SEEDS // share)], console)
    for name in POLICIES:
        show([promotion_chances(name), demotion_chances(name, DRAWN // share)], console)


if __name__ == "__main__":
    typer.run(main)
