"""An agent whose lessons partly harm, over many runs: `python -m benchmarks.harm`.

Each run has one of the tasks, for which there is one lesson. It succeeds by chance: as often as
usual, more often with a lesson that helps, less often with one that harms, which every third does.
Nothing is told to it but how its runs end. Counted is how often a lesson that harms was shown
when its task came up, in the last tenth of the runs, and which lessons were held out of most of
those of their task by then.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from typing import Annotated, Any, Final, NamedTuple

import typer

from benchmarks.databases import create, environment
from benchmarks.tables import Markdown, Report, Sheet, facts, progress
from langmem_tiers import (
    EmbeddedPostgres,
    MemoryContext,
    MemoryCoordinator,
    TieredStore,
    local_index,
)

LESSONS, RUNS = 30, 1_000
USUAL: Final = 0.55
SEEDS: Final = range(5)
_EVERY: Final = 3
"""Each so-and-so-many-th lesson harms."""
_HALF: Final = 0.5
_NIGHT: Final = 50
"""After so many runs what harms beyond doubt is looked for."""


class Harm(NamedTuple):
    """What came of an agent's lessons."""

    shown: int
    """How often one that harms was shown in the last tenth of the runs."""
    asked: int
    """How often the task of one that harms came up there."""
    held_back: int
    """Lessons that help, of which most of the last five runs of their task went without."""
    succeeded: int
    """Runs that succeeded."""
    lately: int
    """Those of the last tenth."""


def live(
    memory: MemoryCoordinator,
    seed: int,
    *,
    effect: float,
    lessons: int = LESSONS,
    runs: int = RUNS,
    holdout: float | None = None,
    harmful: bool = True,
    advance: Callable[[], object] = lambda: None,
) -> Harm:
    """Live through the runs; the memory is empty, and of this agent alone."""
    rng = random.Random(seed)
    harms = [harmful and task % _EVERY == 0 for task in range(lessons)]
    for task in range(lessons):
        memory.store_reflexion(
            task_id=f"task-{task}",
            original_approach="the usual way",
            failure_reason="it failed",
            improved_approach=f"way {task}",
            tool=f"tool-{task}",
        )
    last = list[tuple[int, bool, bool]]()
    for run in range(runs):
        task, named = rng.randrange(lessons), f"{seed}-{run}"
        options: dict[str, Any] = {"run_id": named, "holdout": holdout}
        shown = bool(memory.learning.get_lessons(tools=f"tool-{task}", limit=1, **options))
        chance = USUAL + (0.0 if not shown else -effect if harms[task] else effect)
        ended = rng.random() < chance
        memory.learning.record_outcome(run_id=named, success=ended)
        last.append((task, shown, ended))
        if holdout is None and run % _NIGHT == 0:
            memory.learning.demote()
        advance()
    tenth = last[-runs // 10 :]
    asked = [shown for task, shown, _ in tenth if harms[task]]
    latest = [[shown for one, shown, _ in last if one == task][-5:] for task in range(lessons)]
    return Harm(
        sum(asked),
        len(asked),
        sum(sum(some) < _HALF * len(some) for task, some in enumerate(latest) if not harms[task]),
        sum(ended for *_, ended in last),
        sum(ended for *_, ended in tenth),
    )


def main(
    *,
    seeds: Annotated[int, typer.Option(help="How many agents live, of each kind.")] = len(SEEDS),
    markdown: Markdown = False,
) -> None:
    """Measure how often what harms is shown."""
    rows = list[tuple[str, ...]]()
    with tempfile.TemporaryDirectory() as folder, EmbeddedPostgres(folder) as server:
        known = environment(server.url)
        with progress() as bar:
            ways = [
                (effect, harmful, holdout)
                for effect, harmful in ((0.3, True), (0.45, True), (0.3, False))
                for holdout in (0.0, None)
            ]
            task = bar.add_task("runs", total=len(ways) * seeds * RUNS)
            for effect, harmful, holdout in ways:
                options = {"effect": effect, "harmful": harmful, "holdout": holdout}
                found = [
                    alone(server.url, seed, advance=lambda: bar.advance(task), **options)
                    for seed in range(seeds)
                ]
                kind = "a third harm" if harmful else "none harms"
                way = "as it is" if holdout is None else "holdout=0"
                rows.append((f"{kind}, by {effect:g}", way, *_told(found)))
    columns = (
        *("lessons", "", "harmful shown at last", "helpful held back", "runs that succeed"),
        "of the last tenth",
    )
    title = f"{LESSONS} lessons, {RUNS:,} runs, {seeds} agents"
    Report([Sheet(title, columns, rows)], [], facts(known, 0.0)).write(
        markdown=markdown, json_file=None
    )


def alone(server_url: str, seed: int, **options: Any) -> Harm:
    """Live through the runs in a database of their own."""
    url = create(server_url, "harm")
    with TieredStore.from_conn_string(url, index=local_index()) as store:
        store.setup()
        memory = MemoryCoordinator(store, context=MemoryContext(tenant="sim", project_id="p"))
        return live(memory, seed, **options)


def _told(found: list[Harm]) -> tuple[str, ...]:
    shown, asked = sum(one.shown for one in found), sum(one.asked for one in found)
    helped = len(found) * RUNS
    return (
        f"{shown} of {asked} ({shown / asked:.0%})" if asked else "",
        str(sum(one.held_back for one in found)),
        f"{sum(one.succeeded for one in found) / helped:.1%}",
        f"{sum(one.lately for one in found) / helped * 10:.1%}",
    )


if __name__ == "__main__":
    typer.run(main)
