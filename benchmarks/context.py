"""How fast `get_context` is, beside SQL and PostgresStore: `python -m benchmarks.context`."""

from __future__ import annotations

import gc
import itertools
import time
from dataclasses import asdict
from typing import Annotated

import typer
from rich.progress import Progress

from benchmarks.contenders import keys_of
from benchmarks.context_contenders import RAW, opened, overhear
from benchmarks.context_data import DIMS, TENANT_SIZE, Talks
from benchmarks.context_databases import fill
from benchmarks.context_report import Results, SizeResult, report
from benchmarks.databases import drop, environment, server
from benchmarks.raw import LIMIT
from benchmarks.store_report import LARGE, MIDDLE, Quality
from benchmarks.tables import Json, Markdown, Quick, Url, progress
from benchmarks.timing import Effort, one_client

SIZES = (TENANT_SIZE, MIDDLE, LARGE)
PEER_UP_TO = LARGE
"""Larger sizes are measured without the peer, to keep the run short."""
FULL = Effort(blocks=9, seconds=0.5)
QUICK = Effort(blocks=5, seconds=0.25)

_QUESTIONS, _ASKED = 600, 200
_LEAST = 40
"""Calls in a block: fewer have no 95th percentile worth the name."""
_STEPS = ("what is asked", "what is found", "speed")


def main(
    *,
    quick: Quick = False,
    size: Annotated[
        list[int] | None, typer.Option(help="Memories to measure, whole thousands; repeatable.")
    ] = None,
    url: Url = "",
    json_file: Json = None,
    markdown: Markdown = False,
) -> None:
    """Measure get_context beside its own SQL and PostgresStore, in one run."""
    started = time.monotonic()
    sizes = size or (SIZES[:2] if quick else SIZES)
    if odd := [one for one in sizes if one < TENANT_SIZE or one % TENANT_SIZE]:
        raise typer.BadParameter(f"{odd[0]} memories: use whole thousands, a tenant has 1,000")
    with server(url, "1GB" if max(sizes) <= LARGE else "5GB") as found, progress() as bar:
        results = Results(DIMS, environment(found))
        for one in sizes:
            results.sizes.append(_measure(found, one, QUICK if quick else FULL, bar))
    results.seconds = time.monotonic() - started
    report(results).write(markdown=markdown, json_file=json_file, figures=asdict(results))


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
        for name, ask in contenders.items():
            if name != RAW:  # whose rows are candidates, not an answer
                pages = [(keys_of(ask(one)), {one.key}) for one in talks.questions[:_ASKED]]
                result.found[name] = Quality.of(pages, LIMIT)
        step()
        asked = itertools.cycle(talks.questions)
        result.latencies = one_client(
            contenders, lambda count: list(itertools.islice(asked, count)), effort, _LEAST, _LEAST
        )
    gc.unfreeze()
    drop(server_url, filter(None, (databases.tiers, databases.peer)))
    return result


if __name__ == "__main__":
    typer.run(main)
