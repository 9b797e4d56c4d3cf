"""The run as one picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from benchmarks.context_contenders import OURS, OURS_MATCH, PEER, PEER_FULL, RAW
from benchmarks.context_results import Results

_COLOURS = {
    OURS: "#1b7837",
    OURS_MATCH: "#7fbf7b",
    RAW: "#999999",
    PEER: "#762a83",
    PEER_FULL: "#c2a5cf",
}


def draw(results: Results, path: Path) -> None:
    """Write a PNG: the median and the 95th percentile over the number of memories."""
    figure = Figure(figsize=(13, 4.5))
    panels = figure.subplots(1, 2, sharey=True)
    for axes, title in zip(panels, ("p50", "p95"), strict=True):
        for name, colour in _COLOURS.items():
            _line(axes, results, name, colour, tail=title == "p95")
        axes.set(title=title, xscale="log", xlabel="memories")
        axes.grid(visible=True, which="major", alpha=0.3)
    panels[0].set_ylabel("ms a call")
    panels[0].set_ylim(bottom=0)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="upper center", ncols=5)
    figure.tight_layout(rect=(0, 0, 1, 0.92))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def _line(axes: Any, results: Results, name: str, colour: str, *, tail: bool) -> None:
    measured = [(at.size, at.latencies[name]) for at in results.sizes if name in at.latencies]
    timings = [one.p95 if tail else one.p50 for _, one in measured]
    middle = [one.milliseconds for one in timings]
    spread = [
        [one.milliseconds - one.low for one in timings],
        [one.high - one.milliseconds for one in timings],
    ]
    sizes = [size for size, _ in measured]
    axes.errorbar(sizes, middle, yerr=spread, label=name, color=colour, marker="o", capsize=3)
