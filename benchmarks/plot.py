"""The run as one picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from benchmarks.contenders import OURS, PEER, RAW
from benchmarks.results import ONE, TASKS, VERBS, Results

_COLOURS = {OURS: "#1b7837", PEER: "#762a83", RAW: "#999999"}
_LABELS = {ONE: "1 client: ms a call", TASKS: "16 tasks: ms a call, all together"}


def draw(results: Results, path: Path) -> None:
    """Write a PNG: each verb over the number of rows, one client above, 16 tasks below."""
    figure = Figure(figsize=(4 * len(VERBS), 7))
    grid = figure.subplots(2, len(VERBS), squeeze=False)
    for line, (mode, label) in zip(grid, _LABELS.items(), strict=True):
        for axes, verb in zip(line, VERBS, strict=True):
            _panel(axes, results, mode, verb)
            axes.set_title(verb)
        line[0].set_ylabel(label)
    figure.legend(*grid[0][0].get_legend_handles_labels(), loc="upper center", ncols=3)
    figure.tight_layout(rect=(0, 0, 1, 0.95))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def _panel(axes: Any, results: Results, mode: str, verb: str) -> None:
    found = [one for at in results.sizes if (one := at.find(mode, verb))]
    sizes = [one.size for one in found]
    for name, colour in _COLOURS.items():
        timings = [one.timings[name] for one in found]
        middle = [one.milliseconds for one in timings]
        spread = [
            [one.milliseconds - one.low for one in timings],
            [one.high - one.milliseconds for one in timings],
        ]
        axes.errorbar(sizes, middle, yerr=spread, label=name, color=colour, marker="o", capsize=3)
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("memories")
    axes.grid(visible=True, which="major", alpha=0.3)
