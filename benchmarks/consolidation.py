"""What consolidation finds, and what it costs: `python -m benchmarks.consolidation [--quick]`."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import typer

from benchmarks import consolidation_measure as measure
from benchmarks.consolidation_report import Results, report
from benchmarks.databases import environment
from benchmarks.tables import Json, Markdown, Quick, progress
from langmem_tiers import EmbeddedPostgres


class Size(NamedTuple):
    """How much of everything is measured."""

    many: Sequence[int] = (1_000, 10_000, 100_000)
    each: int = 250
    """Memories of each of many tenants."""
    cycles: int = 4
    one: Sequence[int] = (250, 1_000, 4_000, 10_000)
    beside: int = 1_000
    """Memories of each of the four tenants of whom some are recalled."""
    rounds: int = 10
    recalls: int = 100
    """In each block."""
    year: tuple[int, int] = (1_500, 6)


FULL = Size()
QUICK = Size(
    many=(500, 1_000),
    cycles=2,
    one=(250, 500),
    beside=100,
    rounds=2,
    recalls=20,
    year=(100, 1),
)
BESIDE_TENANTS = 4


def main(*, quick: Quick = False, json_file: Json = None, markdown: Markdown = False) -> None:
    """Measure what cycles of consolidation find and cost, in one run."""
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        with EmbeddedPostgres(folder / "server") as server:
            results = run(server.url, folder / "archive", QUICK if quick else FULL)
    report(results).write(markdown=markdown, json_file=json_file)


def run(server_url: str, folder: Path, size: Size) -> Results:
    """Measure everything, each part in databases of its own."""
    started = time.monotonic()
    results = Results(environment(server_url))
    steps = len(size.many) + size.cycles + len(size.one) + size.rounds + 3
    with progress() as bar:
        task = bar.add_task("many tenants", total=steps)

        def advance() -> None:
            bar.advance(task)

        results.many = measure.many(server_url, size.many, size.each, size.cycles, advance)
        bar.update(task, description="one tenant")
        results.one = list(measure.one(server_url, size.one, advance))
        bar.update(task, description="recalls")
        results.recalls = measure.recalls(
            server_url,
            tenants=BESIDE_TENANTS,
            each=size.beside,
            rounds=size.rounds,
            block=size.recalls,
            report=advance,
        )
        bar.update(task, description="a year")
        results.years = list(measure.years(server_url, folder, *size.year, advance))
    results.seconds = time.monotonic() - started
    return results


if __name__ == "__main__":
    typer.run(main)
