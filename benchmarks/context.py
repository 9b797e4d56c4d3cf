"""How fast `get_context` is, beside SQL and PostgresStore: `python -m benchmarks.context`."""

from __future__ import annotations

import gc
import json
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks import context_plot, context_report
from benchmarks.bars import LARGE, MIDDLE
from benchmarks.context_breakdown import breakdown
from benchmarks.context_contenders import opened, overhear
from benchmarks.context_data import DIMS, TENANT_SIZE, Talks
from benchmarks.context_databases import drop, fill, server
from benchmarks.context_measure import latencies, quality
from benchmarks.context_results import Results, SizeResult, bars
from benchmarks.results import environment
from benchmarks.timing import Effort

SIZES = (TENANT_SIZE, MIDDLE, LARGE)
PEER_UP_TO = LARGE
"""Larger sizes are measured without the peer, to keep the run short."""
FULL = Effort(blocks=9, seconds=0.5)
QUICK = Effort(blocks=5, seconds=0.25)
PICTURE = Path("benchmarks/out/context.png")

_QUESTIONS = 600
_BUFFERS, _LARGE_BUFFERS = "1GB", "5GB"
"""Room for all databases, so that contenders do not push each other out of the cache."""
_STEPS = ("what is asked", "what is found", "speed", "breakdown")


def main(
    *,
    quick: Annotated[bool, typer.Option(help="1,000 and 10,000 memories, few blocks.")] = False,
    size: Annotated[
        list[int] | None, typer.Option(help="Memories to measure, whole thousands; repeatable.")
    ] = None,
    url: Annotated[str, typer.Option(help="A server to use instead of an embedded one.")] = "",
    json_file: Annotated[Path | None, typer.Option("--json", help="Write every figure.")] = None,
    markdown: Annotated[bool, typer.Option(help="Print the tables as Markdown.")] = False,
    picture: Annotated[Path, typer.Option("--plot", help="The PNG to draw.")] = PICTURE,
) -> None:
    """Measure get_context beside its own SQL and PostgresStore, in one run."""
    started = time.monotonic()
    sizes = size or (SIZES[:2] if quick else SIZES)
    if odd := [one for one in sizes if one < TENANT_SIZE or one % TENANT_SIZE]:
        raise typer.BadParameter(f"{odd[0]} memories: use whole thousands, a tenant has 1,000")
    with server(url, _BUFFERS if max(sizes) <= LARGE else _LARGE_BUFFERS) as found, _bar() as bar:
        results = Results(DIMS, environment(found))
        for one in sizes:
            results.sizes.append(_measure(found, one, QUICK if quick else FULL, bar))
    results.seconds = time.monotonic() - started
    if markdown:
        print(context_report.markdown(results))
    else:
        context_report.show(results, Console(width=160))
    context_plot.draw(results, picture)
    if json_file is not None:
        json_file.write_text(json.dumps(results.as_json(), indent=1), encoding="utf-8")
    missed = sum(one.passed is False for one in bars(results))
    Console(stderr=True).print(f"{missed} bars missed; picture: {picture}")


def _measure(server_url: str, size: int, effort: Effort, bar: Progress) -> SizeResult:
    task = bar.add_task(f"{size:,} memories: filling the databases", total=100 + 10 * len(_STEPS))
    steps = iter(_STEPS)

    def step() -> None:
        bar.update(task, advance=10, description=f"{size:,} memories: {next(steps)}")

    talks = Talks(size, questions=_QUESTIONS)
    databases = fill(
        server_url,
        talks,
        lambda done: bar.update(task, completed=100 * done),
        with_peer=size <= PEER_UP_TO,
    )
    result = SizeResult(size)
    gc.collect()
    gc.freeze()
    step()
    calls = overhear(databases, talks, talks.questions)
    with opened(databases, talks, calls) as contenders:
        step()
        result.found = quality(contenders, talks.questions)
        step()
        result.latencies = latencies(contenders, talks.questions, effort)
    step()
    if size == MIDDLE:
        result.parts = breakdown(databases, talks, calls, talks.questions[:200])
    gc.unfreeze()
    drop(server_url, databases)
    return result


def _bar() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
    )


if __name__ == "__main__":
    typer.run(main)
