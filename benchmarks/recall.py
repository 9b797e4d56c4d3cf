"""How well recall finds what answers a question: `python -m benchmarks.recall [FILE…]`."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks import recall_plot, recall_report
from benchmarks.databases import create
from benchmarks.recall_ablation import ablations
from benchmarks.recall_data import CHATS, LOGS, Style, generated, read
from benchmarks.recall_measure import Bench, fill, measure, steps
from benchmarks.recall_peers import peer
from benchmarks.recall_results import Results
from benchmarks.recall_system import System
from benchmarks.results import environment
from langmem_tiers import EmbeddedPostgres

FILES = (
    Path("../shared/data/locomo/locomo-dev.json"),
    Path("../shared/data/qmsum-dev.jsonl"),
)
"""Measured where they are there and no others are named."""
PICTURE = Path("benchmarks/out/recall.png")
GENERATED = frozenset(["logs", "chats", "facts"])

_QUICK = (1, 40)
"""Histories a style, and questions a history."""


def main(
    files: Annotated[
        list[Path] | None, typer.Argument(help="Conversations with questions; see docs/recall.md.")
    ] = None,
    *,
    quick: Annotated[bool, typer.Option(help="One history a style, 40 questions.")] = False,
    ablation: Annotated[bool, typer.Option(help="Also leave features out.")] = True,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write every figure.")] = None,
    markdown: Annotated[bool, typer.Option(help="Print the tables as Markdown.")] = False,
    picture: Annotated[Path, typer.Option("--plot", help="The PNG to draw.")] = PICTURE,
) -> None:
    """Measure recall through the real store beside BM25 and PostgresStore, in one run."""
    chosen = files or [one for one in FILES if one.exists()]
    styles = [*map(read, chosen), *generated()]
    if quick:
        styles = [one.sample(*_QUICK) for one in styles]
    with tempfile.TemporaryDirectory() as directory, EmbeddedPostgres(directory) as server:
        results = run(server.url, styles, with_ablation=ablation)
    if markdown:
        print(recall_report.markdown(results))
    else:
        recall_report.show(results, Console(width=180))
    recall_plot.draw(results, picture)
    if json_file is not None:
        json_file.write_text(json.dumps(results.as_json(), indent=1), encoding="utf-8")
    missed = sum(one.passed is False for one in recall_report.bars(results))
    Console(stderr=True).print(f"{missed} bars missed; picture: {picture}")


def run(server_url: str, styles: Sequence[Style], *, with_ablation: bool = True) -> Results:
    """Measure styles on a server, in a database for each system."""
    started = time.monotonic()
    results = Results(environment(server_url))
    url = create(server_url, "recall_tiers")
    with System(url) as system, peer(server_url) as other, _bar() as bar:
        bench = Bench(system, other, url, lambda _: None)
        for style in styles:
            bar.console.print(f"{style.name}: storing", highlight=False)
            fill(bench, style.histories)
        strangers = [
            one for style in styles if style.name in (LOGS, CHATS) for one in style.histories
        ]
        for style in styles:
            used = style.name not in GENERATED
            task = bar.add_task(style.name, total=steps(style, used=used))
            bench = Bench(system, other, url, partial(bar.advance, task))
            results.styles.append(measure(bench, style, strangers, used=used))
    if with_ablation:
        results.ablations += ablations(results.styles)
    results.seconds = time.monotonic() - started
    return results


def _bar() -> Progress:
    return Progress(
        TextColumn("{task.description}: {task.completed:,} questions"),
        BarColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
    )


if __name__ == "__main__":
    typer.run(main)
