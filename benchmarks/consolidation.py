"""What consolidation finds, and what it costs: `python -m benchmarks.consolidation [--quick]`."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks import consolidation_measure as measure
from benchmarks import consolidation_report
from benchmarks.consolidation_results import Results, bars
from benchmarks.results import environment
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


def main(
    *,
    quick: Annotated[bool, typer.Option(help="A sample of everything.")] = False,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write every figure.")] = None,
    markdown: Annotated[bool, typer.Option(help="Print the tables as Markdown.")] = False,
) -> None:
    """Measure what cycles of consolidation find and cost, in one run."""
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        with EmbeddedPostgres(folder / "server") as server:
            results = run(server.url, folder / "archive", QUICK if quick else FULL)
    if markdown:
        print(consolidation_report.markdown(results))
    else:
        consolidation_report.show(results, Console(width=160))
    if json_file is not None:
        json_file.write_text(json.dumps(results.as_json(), indent=1), encoding="utf-8")
    missed = sum(one.passed is False for one in bars(results))
    Console(stderr=True).print(f"{missed} bars missed")


def run(server_url: str, folder: Path, size: Size) -> Results:
    """Measure everything, each part in databases of its own."""
    started = time.monotonic()
    results = Results(environment(server_url))
    steps = len(size.many) + size.cycles + len(size.one) + size.rounds + 3
    with _bar() as bar:
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


def _bar() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
    )


if __name__ == "__main__":
    typer.run(main)
