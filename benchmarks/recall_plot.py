"""The run as one picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from benchmarks.recall_results import BM25, DENSE, OURS, PEER, Results, fresh, used

_COLOURS = {
    OURS: "#1b7837",
    BM25: "#999999",
    PEER: "#762a83",
    DENSE: "#c2a5cf",
    fresh("calibrated"): "#5aae61",
    fresh("aurora"): "#a6dba0",
    used("aurora"): "#d9f0d3",
}
_PANELS = ("recall@10", "nDCG@10", "2k tokens")


def draw(results: Results, path: Path) -> None:
    """Write a PNG: each system on each style, with intervals."""
    figure = Figure(figsize=(6 * len(_PANELS), 5))
    grid = figure.subplots(1, len(_PANELS), squeeze=False)[0]
    for axes, metric in zip(grid, _PANELS, strict=True):
        _panel(axes, results, metric)
    figure.legend(*grid[0].get_legend_handles_labels(), loc="upper center", ncols=len(_COLOURS))
    figure.tight_layout(rect=(0, 0, 1, 0.93))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def _panel(axes: Any, results: Results, metric: str) -> None:
    width = 0.8 / len(_COLOURS)
    for number, (system, colour) in enumerate(_COLOURS.items()):
        shown = [
            (place, style.of(system, metric))
            for place, style in enumerate(results.styles)
            if system in style.figures
        ]
        places = [place + width * (number - len(_COLOURS) / 2 + 0.5) for place, _ in shown]
        means = np.array([found.mean for _, found in shown])
        spread = np.array([(f.mean - f.low, f.high - f.mean) for _, f in shown]).reshape(-1, 2).T
        axes.bar(places, means, width, yerr=spread, label=system, color=colour, capsize=2)
    axes.set_xticks(range(len(results.styles)), [style.name for style in results.styles])
    axes.set_title(metric)
    axes.set_ylim(0, 1)
    axes.grid(visible=True, axis="y", alpha=0.3)
