"""The store beside LangGraph's PostgresStore and beside raw SQL: `python -m benchmarks.store`."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Annotated

import typer
from rich.progress import Progress

from benchmarks import databases, store_measure
from benchmarks.corpus import Corpus
from benchmarks.store_report import LARGE, MIDDLE, Results, report
from benchmarks.tables import Json, Markdown, Quick, Url, progress
from benchmarks.timing import Effort

SIZES = (1_000, MIDDLE, LARGE)
FULL = Effort(blocks=9, seconds=0.25)
QUICK = Effort(blocks=5, seconds=0.08)
_SPARE, _QUERIES = 8_000, 1_000


def main(
    *,
    quick: Quick = False,
    size: Annotated[list[int] | None, typer.Option(help="Rows to measure; repeatable.")] = None,
    dims: Annotated[int, typer.Option(help="Dimensions of the vectors.")] = 384,
    url: Url = "",
    json_file: Json = None,
    markdown: Markdown = False,
) -> None:
    """Measure TieredStore beside PostgresStore and raw SQL, in one run."""
    started = time.monotonic()
    with databases.server(url) as server_url, progress() as bar:
        results = Results(dims, databases.environment(server_url))
        for rows in size or (SIZES[:2] if quick else SIZES):
            _measure(results, server_url, rows, QUICK if quick else FULL, bar)
    results.seconds = time.monotonic() - started
    report(results).write(markdown=markdown, json_file=json_file, figures=asdict(results))


def _measure(results: Results, server_url: str, size: int, effort: Effort, bar: Progress) -> None:
    task = bar.add_task(f"{size:,} rows", total=100 + 10 * store_measure.STEPS)

    def step(what: str) -> None:
        bar.update(task, advance=10, description=f"{size:,} rows: {what}")

    corpus = Corpus(size, results.dims, spare=_SPARE, queries=_QUERIES)
    bar.update(task, description=f"{size:,} rows: filling the databases")
    filled = databases.fill(server_url, corpus, lambda done: bar.update(task, completed=100 * done))
    setup = store_measure.Setup(filled, corpus, effort, step)
    results.sizes.append(store_measure.Measurer(setup).run())
    databases.drop(server_url, (filled.tiers, filled.peer, filled.raw))


if __name__ == "__main__":
    typer.run(main)
