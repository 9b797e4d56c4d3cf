"""The store beside LangGraph's PostgresStore and beside raw SQL: `python -m benchmarks.store`."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import psycopg
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks import databases, measure, plot, report, tuned
from benchmarks.bars import LARGE, MIDDLE, bars
from benchmarks.corpus import Corpus
from benchmarks.results import Results, environment
from benchmarks.timing import Effort
from langmem_tiers import EmbeddedPostgres

SIZES = (1_000, MIDDLE, LARGE)
FULL = Effort(blocks=9, seconds=0.25)
QUICK = Effort(blocks=5, seconds=0.08)
PICTURE = Path("benchmarks/out/store.png")
_BUFFERS = "1GB"
"""Room for all databases, so that contenders do not push each other out of the cache."""

_SPARE, _QUERIES = 8_000, 1_000


def main(
    *,
    quick: Annotated[bool, typer.Option(help="1,000 and 10,000 rows, few blocks.")] = False,
    size: Annotated[list[int] | None, typer.Option(help="Rows to measure; repeatable.")] = None,
    dims: Annotated[int, typer.Option(help="Dimensions of the vectors.")] = 384,
    url: Annotated[str, typer.Option(help="A server to use instead of an embedded one.")] = "",
    json_file: Annotated[Path | None, typer.Option("--json", help="Write every figure.")] = None,
    markdown: Annotated[bool, typer.Option(help="Print the tables as Markdown.")] = False,
    picture: Annotated[Path, typer.Option("--plot", help="The PNG to draw.")] = PICTURE,
) -> None:
    """Measure TieredStore beside PostgresStore and raw SQL, in one run."""
    started = time.monotonic()
    with _server(url) as server_url, _bar() as bar:
        results = Results(dims, environment(server_url))
        for rows in size or (SIZES[:2] if quick else SIZES):
            _measure(results, server_url, rows, QUICK if quick else FULL, bar)
    results.seconds = time.monotonic() - started
    if markdown:
        print(report.markdown(results))
    else:
        report.show(results, Console(width=160))
    plot.draw(results, picture)
    if json_file is not None:
        json_file.write_text(json.dumps(results.as_json(), indent=1), encoding="utf-8")
    missed = sum(one.passed is False for one in bars(results))
    Console(stderr=True).print(f"{missed} bars missed; picture: {picture}")


def _measure(results: Results, server_url: str, size: int, effort: Effort, bar: Progress) -> None:
    attempts = len(tuned.ways()) + 2 if size == LARGE else 0
    task = bar.add_task(f"{size:,} rows", total=100 + 10 * (measure.STEPS + attempts))

    def step(what: str) -> None:
        bar.update(task, advance=10, description=f"{size:,} rows: {what}")

    corpus = Corpus(size, results.dims, spare=_SPARE, queries=_QUERIES)
    bar.update(task, description=f"{size:,} rows: filling the databases")
    filled = databases.fill(server_url, corpus, lambda done: bar.update(task, completed=100 * done))
    setup = measure.Setup(filled, corpus, effort, step)
    measurer = measure.Measurer(setup)
    if size == LARGE:
        measure.measure_hand_set(server_url, setup, measurer.result)
    results.sizes.append(measurer.run())
    databases.drop(server_url, filled)


@contextmanager
def _server(url: str) -> Iterator[str]:
    if url:
        yield url
        return
    with tempfile.TemporaryDirectory() as directory:
        with (
            EmbeddedPostgres(directory) as server,
            psycopg.connect(server.url, autocommit=True) as conn,
        ):
            conn.execute(f"ALTER SYSTEM SET shared_buffers = '{_BUFFERS}'".encode())
        with EmbeddedPostgres(directory) as server:
            yield server.url


def _bar() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
    )


if __name__ == "__main__":
    typer.run(main)
