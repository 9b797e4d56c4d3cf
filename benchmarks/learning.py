"""What learning is worth: `python -m benchmarks.learning [--quick]`."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from benchmarks import failures, faulty_measure, learning_alfworld, learning_mbpp
from benchmarks.databases import environment
from benchmarks.faulty_tools import TASKS, WORLDS
from benchmarks.learning_data import FOLDER, missing, trials
from benchmarks.learning_report import Results, key_all, report
from benchmarks.tables import Json, Markdown, Quick, progress
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
        results.keyed = key_all(size.mutations)
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
    results.logs = learning_alfworld.chosen(trials(data), size.households)
    results.replays += learning_alfworld.measure(server_url, results.logs)


if __name__ == "__main__":
    typer.run(main)
