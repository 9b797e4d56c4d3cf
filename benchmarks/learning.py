"""What learning is worth: `python -m benchmarks.learning [--quick]`."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from benchmarks import failures, faulty_measure, learning_alfworld, learning_mbpp, learning_node
from benchmarks.databases import environment
from benchmarks.faulty import OWN, SHARED, TASKS, WORLDS
from benchmarks.faulty_measure import NONE, SIGNATURES, WAYS, Repeats, Run, total
from benchmarks.learning_alfworld import AS_RUN, POLICIES, Replay, plain_counts
from benchmarks.learning_data import FOLDER, Trial, missing, trials
from benchmarks.learning_mbpp import OURS, WITH_PROMPT, Found
from benchmarks.learning_node import CONTEXT, MBPP, NODE, Shown
from benchmarks.tables import Bar, Json, Markdown, Quick, Report, Sheet, facts, progress
from langmem_tiers import EmbeddedPostgres


class Size(NamedTuple):
    """How much of everything is measured."""

    mutations: int = failures.COUNT
    prompts: int | None = None
    households: int | None = None
    """Of those that ever failed; None is all, with those that never did."""
    seeds: Sequence[int] = faulty_measure.SEEDS
    tasks: int = TASKS


FULL = Size()
QUICK = Size(
    mutations=50,
    prompts=20,
    households=10,
    seeds=(0,),
    tasks=100,
)


def main(
    *,
    quick: Quick = False,
    data: Annotated[Path, typer.Option(help="The logs of real reflexions.")] = FOLDER,
    json_file: Json = None,
    markdown: Markdown = False,
) -> None:
    """Measure what is learned from failures and outcomes, in one run."""
    with tempfile.TemporaryDirectory() as directory, EmbeddedPostgres(directory) as server:
        results = run(server.url, data, QUICK if quick else FULL)
    report(results).write(markdown=markdown, json_file=json_file)


def run(server_url: str, data: Path, size: Size) -> Results:
    """Measure everything, each part in databases of its own."""
    started = time.monotonic()
    results = Results(environment(server_url))
    with progress() as bar:
        task = bar.add_task("signatures", total=None)
        results.keyed = failures.key_all(size.mutations)
        bar.update(task, description="failures met again")
        results.met += learning_node.measure(server_url, learning_node.all_recorded(), size.prompts)
        bar.update(task, description="real logs")
        real(results, server_url, data, size)
        steps = len(WORLDS) * len(size.seeds) * len(faulty_measure.WAYS) * size.tasks
        bar.update(task, description="faulty tools", total=steps)
        results.runs += faulty_measure.measure(
            server_url, seeds=size.seeds, count=size.tasks, report=lambda: bar.advance(task)
        )
    results.seconds = time.monotonic() - started
    return results


def real(results: Results, server_url: str, data: Path, size: Size) -> None:
    """Measure on the real logs, or note why that was left out."""
    if (reason := missing(data)) is not None:
        results.left_out.append(f"real reflexions and outcomes, as there is {reason}")
        return
    results.programming += learning_mbpp.measure(server_url, data, most=size.prompts)
    results.met += learning_node.measure(server_url, [learning_node.of_logs(data)], size.prompts)
    results.logs = learning_alfworld.chosen(trials(data), size.households)
    results.replays += learning_alfworld.measure(server_url, results.logs)


# ---- what was found ------------------------------------------------------------------------

FOUND_AGAIN = 0.9
FIRST = 0.98
OTHERS = 0.1
REPEATED = 0.1


@dataclass(slots=True)
class Results:
    """Everything that was measured; `left_out` says which parts were not, and why."""

    environment: Mapping[str, str]
    keyed: failures.Keyed = field(default_factory=dict)
    met: list[Shown] = field(default_factory=list)
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
    logs = next((one for one in results.met if one.name == MBPP), None)
    again = "real failures met again"
    yield Bar(f"{again}: task's lesson first", ">=", FIRST, logs.share(NODE) if logs else None)
    yield Bar(
        f"{again}: pairs of two tasks with one signature",
        "<=",
        OTHERS,
        logs.other if logs else None,
    )
    recorded = [one for one in results.met if one.name != MBPP]
    least = min((one.first_of_alike / max(1, one.alike) for one in recorded), default=None)
    yield Bar("recorded failures of one signature: task's lesson first", ">=", FIRST, least)


def sheets(results: Results) -> Iterator[Sheet]:
    """Every table of a run."""
    if results.keyed:
        yield failures.sheet(results.keyed)
    if results.met:
        yield _met(results)
    if results.programming:
        yield _programming(results)
    if results.replays:
        yield from (_outcomes(results), _promotions(results))
    if results.runs:
        yield from (_repeats(results, world) for world in WORLDS)


def _met(results: Results) -> Sheet:
    rows = [
        (
            one.name,
            str(one.lessons),
            str(one.met),
            f"{one.share(NODE):.3f}",
            f"{one.share(CONTEXT):.3f}",
            f"{one.first_of_alike} of {one.alike}",
            f"{one.same:.1%}",
            f"{one.other:.1%}",
        )
        for one in results.met
    ]
    columns = (
        *("", "lessons", "failures", f"{NODE}: first", f"{CONTEXT}: first"),
        *("first of one signature", "one task, one signature", "two tasks, one signature"),
    )
    return Sheet("Failures met again: the lesson of the task", columns, rows)


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


if __name__ == "__main__":
    typer.run(main)
