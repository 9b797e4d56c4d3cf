"""How well recall finds what answers a question: `python -m benchmarks.recall [FILE…]`."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.databases import create, environment
from benchmarks.recall_ablation import ablations
from benchmarks.recall_data import (
    CHATS,
    FACTS,
    LOGS,
    Style,
    asked_for,
    beside,
    by_role,
    generated,
    read,
    told_apart,
)
from benchmarks.recall_measure import Bench, fill, measure, steps
from benchmarks.recall_peers import peer
from benchmarks.recall_report import Results, report
from benchmarks.recall_system import System
from benchmarks.tables import Json, Markdown, Quick, progress
from langmem_tiers import EmbeddedPostgres

FILES = (Path("../shared/data/locomo/locomo-dev.json"), Path("../shared/data/qmsum-dev.jsonl"))
"""Measured where they are there and no others are named."""
GENERATED = frozenset([LOGS, CHATS, FACTS])

_ASKED = 40
"""Questions a history that are asked of facts beside talk."""
_OTHERWISE = 5
"""Styles that are another one told otherwise: they come last, and nothing is left out for them."""
_QUICK = (1, 40)
"""Histories a style, and questions a history."""


def main(
    files: Annotated[
        list[Path] | None, typer.Argument(help="Conversations with questions; see docs/recall.md.")
    ] = None,
    *,
    quick: Quick = False,
    ablation: Annotated[bool, typer.Option(help="Also leave features out.")] = True,
    json_file: Json = None,
    markdown: Markdown = False,
) -> None:
    """Measure recall through the real store beside BM25 and PostgresStore, in one run."""
    chosen = files or [one for one in FILES if one.exists()]
    styles = [*map(read, chosen), *generated()]
    styles += told_otherwise(styles)
    if quick:
        styles = [one.sample(*_QUICK) for one in styles]
    with tempfile.TemporaryDirectory() as directory, EmbeddedPostgres(directory) as server:
        results = run(server.url, styles, with_ablation=ablation)
    report(results).write(markdown=markdown, json_file=json_file)


def told_otherwise(styles: Sequence[Style]) -> list[Style]:
    """The first style as others would store it, and facts in one tenant with it and with logs."""
    first, (logs,) = styles[0], [one for one in styles if one.name == LOGS]
    changed = [told_apart(first, speaker=False), told_apart(first), by_role(first)]
    return [*changed, *beside(asked_for(), [first, logs], _ASKED)]


def run(server_url: str, styles: Sequence[Style], *, with_ablation: bool = True) -> Results:
    """Measure styles on a server, in a database for each system."""
    started = time.monotonic()
    results = Results(environment(server_url))
    url = create(server_url, "recall_tiers")
    with (
        System(url) as system,
        peer(server_url) as other,
        progress("{task.completed:,} questions") as bar,
    ):
        bench = Bench(system, other, url, lambda _: None)
        for style in styles:
            bar.console.print(f"{style.name}: storing", highlight=False)
            fill(bench, style.histories)
        strangers = [
            one for style in styles if style.name in (LOGS, CHATS) for one in style.histories
        ]
        for place, style in enumerate(styles):
            used = place < len(styles) - _OTHERWISE and style.name not in GENERATED
            task = bar.add_task(style.name, total=steps(style, used=used))
            bench = Bench(system, other, url, partial(bar.advance, task))
            results.styles.append(measure(bench, style, strangers, used=used))
    if with_ablation:
        results.ablations += ablations(results.styles[:-_OTHERWISE])
    results.seconds = time.monotonic() - started
    return results


if __name__ == "__main__":
    typer.run(main)
