"""What a run of the learning benchmark found: figures, bars and tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks import failures
from benchmarks.failure_families import FAMILIES, HELD_OUT
from benchmarks.faulty_measure import NONE, SIGNATURES, WAYS, Repeats, Run, total
from benchmarks.faulty_tools import OWN, SHARED, WORLDS
from benchmarks.learning_alfworld import AS_RUN, POLICIES, Replay, plain_counts
from benchmarks.learning_data import Trial
from benchmarks.learning_mbpp import OURS, WITH_PROMPT, Found
from benchmarks.tables import Bar, Report, Sheet, facts

FOUND_AGAIN = 0.9
REPEATED = 0.1

Keyed = Mapping[str, Mapping[str, Counter[str]]]


@dataclass(slots=True)
class Results:
    """Everything that was measured; `left_out` says which parts were not, and why."""

    environment: Mapping[str, str]
    keyed: Keyed = field(default_factory=dict)
    programming: list[Found] = field(default_factory=list)
    logs: Sequence[Trial] = ()
    replays: list[Replay] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    seconds: float = 0.0

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


def report(results: Results) -> Report:
    """All that is printed."""
    left_out = "".join(f" Left out: {one}." for one in results.left_out)
    foot = f"All is seeded; {facts(results.environment, results.seconds)}{left_out}"
    return Report(list(sheets(results)), list(bars(results)), foot)


def bars(results: Results) -> Iterator[Bar]:
    """The bars that were set beforehand; those of data that is not there have no figure."""
    prompted = [one for one in results.programming if one.form == WITH_PROMPT]
    mrr = prompted[0].mrr(OURS) if prompted else None
    yield Bar("real reflexions: MRR of a task's lesson, by its prompt", ">=", FOUND_AGAIN, mrr)
    differing = wrong = None
    for replay in results.replays:
        successes, counts = plain_counts(results.logs, replay.name)
        differing = (differing or 0) + sum(
            [
                *(replay.successes[name] != n for name, n in successes.items()),
                *(replay.counts[one] != n for one, n in counts.items()),
            ]
        )
        wrong = (wrong or 0) + replay.shown_wrong
    yield Bar("real outcomes: counts that differ from the files'", "=", 0, differing)
    yield Bar("real outcomes: runs that were not shown what the log says", "=", 0, wrong)
    run = [len(one.promoted) for one in results.replays if one.name == AS_RUN]
    claim = "real outcomes, as run: promoted that succeeded once"
    yield Bar(claim, "=", 0, run[0] if run else None)
    for world in (OWN, SHARED):
        claim = f"faulty tools, {world}: repeated failures, share of no memory"
        yield Bar(claim, "<=", REPEATED, results.share(world, SIGNATURES))


def sheets(results: Results) -> Iterator[Sheet]:
    """Every table of a run."""
    if results.keyed:
        yield _signatures(results)
    if results.programming:
        yield _programming(results)
    if results.replays:
        yield from (_outcomes(results), _promotions(results))
    if results.runs:
        yield from (_repeats(results, world) for world in WORLDS)


def _signatures(results: Results) -> Sheet:
    rows = []
    for name, among in results.keyed.items():
        held = {one: keys for one, keys in among.items() if one in HELD_OUT}
        tuned = {one: keys for one, keys in among.items() if one not in HELD_OUT}
        figures = [failures.figures(counts, among) for counts in (among, tuned, held)]
        rows.append((name, *(f"{share:.2%}" for one in figures for share in one)))
    columns = [
        f"{what}, {which}"
        for which in ("all", "tuned on", "held out")
        for what in ("kept", "collided")
    ]
    return Sheet("Signatures: families of failures, mutated", ("", *columns), rows)


def _programming(results: Results) -> Sheet:
    first = results.programming[0]
    ways = list(first.ranks)
    rows = [
        (way, *(f"{x:.3f}" for one in results.programming for x in (one.mrr(way), one.hit(way))))
        for way in ways
    ]
    title = (
        f"Real reflexions: {len(first.ranks[ways[0]])} prompts to {first.lessons} lessons and "
        f"{first.company} solutions"
    )
    columns = [f"{what}, {one.form}" for one in results.programming for what in ("MRR", "hit@1")]
    return Sheet(title, ("", *columns), rows)


def _outcomes(results: Results) -> Sheet:
    rows = []
    for one in results.replays:
        successes, counts = plain_counts(results.logs, one.name)
        same = sum(one.successes[name] == n for name, n in successes.items())
        alike = sum(one.counts[lesson] == n for lesson, n in counts.items())
        rows.append(
            (
                one.name,
                f"{one.shown - one.shown_wrong:,} of {one.shown:,}",
                f"{sum(one.successes.values()):,}",
                f"{sum(successes.values()):,}",
                f"{same} of {len(successes)}",
                f"{alike} of {len(counts)}",
            )
        )
    columns = (
        *("replay", "runs shown as logged", "successes", "in the files"),
        *("households alike", "lessons alike"),
    )
    return Sheet("Real outcomes: what was counted", columns, rows)


def _promotions(results: Results) -> Sheet:
    rows = [
        (
            one.name,
            str(len(one.counts)),
            *(str(len(one.would[name])) for name in POLICIES),
            str(len(one.promoted)),
        )
        for one in results.replays
    ]
    columns = ("replay", "lessons", *POLICIES, "promoted as specified")
    return Sheet("Real outcomes: lessons that a policy finds worthy", columns, rows)


def _repeats(results: Results, world: str) -> Sheet:
    base = results.repeats(world, NONE)
    rows = []
    for way in WAYS:
        found = results.repeats(world, way)
        share = found.again / base.again if base.again else 0.0
        calls = found.calls / base.calls if base.calls else 0.0
        failed = (way, f"{found.again} of {found.chances}", f"{share:.3f}")
        rows.append((*failed, str(found.calls), f"{calls:.3f}", str(found.unsolved)))
    columns = (
        *("", "repeated failures", "share of no memory"),
        *("their failed calls", "share of no memory", "tasks given up"),
    )
    return Sheet(f"Faulty tools: {world}", columns, rows)
