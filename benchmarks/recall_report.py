"""The run's tables, for the terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.recall_metrics import METRICS, Interval, by_category, column, interval
from benchmarks.recall_results import BM25, DENSE, OURS, PEER, SYSTEMS, Results, StyleResult
from benchmarks.report import Sheet

_VERDICTS = {True: "pass", False: "MISS", None: "–"}


@dataclass(frozen=True, slots=True)
class Bar:
    """A claim on a mean; the interval shows how sure it is."""

    claim: str
    bound: float
    measured: Interval | None
    signed: bool = False

    @property
    def passed(self) -> bool | None:
        return None if self.measured is None else self.measured.mean >= self.bound

    @property
    def row(self) -> tuple[str, str, str, str]:
        """Claim, bound, what was measured, verdict."""
        found = "not measured"
        if self.measured is not None:
            found = self.measured.signed if self.signed else str(self.measured)
        return self.claim, f">= {self.bound:g}", found, _VERDICTS[self.passed]


def bars(results: Results) -> list[Bar]:
    """Every bar; those of data that is not there have no figure."""
    return [*_chat(results.style("locomo")), *_everywhere(results)]


def _chat(style: StyleResult | None) -> Iterator[Bar]:
    for metric, bound in (("recall@10", 0.78), ("nDCG@10", 0.61), ("2k tokens", 0.87)):
        yield Bar(f"locomo: {metric}", bound, style.of(OURS, metric) if style else None)
    cut = interval(style.cutoff.wrong) if style else None
    yield Bar("locomo: questions to the wrong conversation that get nothing", 0.8, cut)


def _everywhere(results: Results) -> Iterator[Bar]:
    for style in results.styles:
        for peer in (BM25, PEER):
            found = style.over(peer, "nDCG@10")
            yield Bar(f"{style.name}: nDCG@10 over {peer}", 0, found, signed=True)
        kept = interval([-one for one in style.cutoff.lost])
        yield Bar(f"{style.name}: recall@10 that the cut-off costs", -0.01, kept, signed=True)


def sheets(results: Results) -> Iterator[Sheet]:
    """Every table of a run."""
    for style in results.styles:
        yield _systems(style)
    yield _categories(results)
    yield _cutoffs(results)
    yield _chosen(results)
    if results.ablations:
        yield _ablation(results)
    yield Sheet("Bars", ("claim", "wanted", "measured", ""), [one.row for one in bars(results)])


def show(results: Results, console: Console) -> None:
    """Print every table."""
    for sheet in sheets(results):
        table = Table(title=sheet.title, title_justify="left")
        for number, name in enumerate(sheet.columns):
            table.add_column(name, justify="left" if number == 0 else "right")
        for row in sheet.rows:
            table.add_row(*row, style="red" if "MISS" in row else None)
        console.print(table)
    console.print(_environment(results))


def markdown(results: Results) -> str:
    """Every table as Markdown."""
    parts = []
    for sheet in sheets(results):
        lines = [sheet.columns, ["---", *["---:"] * (len(sheet.columns) - 1)], *sheet.rows]
        table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        parts.append(f"**{sheet.title}**\n\n{table}")
    return "\n\n".join([*parts, _environment(results)])


def _environment(results: Results) -> str:
    facts = ", ".join(f"{name} {what}" for name, what in results.environment.items())
    return (
        f"Means over questions, 95 % bootstrap intervals; {facts}; {results.seconds:.0f} s in all."
    )


def _systems(style: StyleResult) -> Sheet:
    sure = ("recall@10", "nDCG@10", "2k tokens")
    rows = []
    for system in (one for one in SYSTEMS if one in style.figures):
        found = {metric: style.of(system, metric) for metric in METRICS}
        cells = [str(one) if metric in sure else _mean(one.mean) for metric, one in found.items()]
        rows.append((system, *cells))
    noun = "reference" if style.skipped == 1 else "references"
    skipped = f", {style.skipped} {noun} skipped" if style.skipped else ""
    title = (
        f"{style.name}: {len(style.categories):,} questions to {style.memories:,} memories of "
        f"{style.histories} tenants{skipped}"
    )
    return Sheet(title, ("", *METRICS), rows)


def _mean(mean: float) -> str:
    return "–" if np.isnan(mean) else f"{mean:.3f}"


def _categories(results: Results) -> Sheet:
    rows = []
    for style in results.styles:
        for category, numbers in by_category(style.categories).items():
            cells = [
                str(interval(column(style.figures[system], metric)[numbers]))
                for metric in ("recall@10", "nDCG@10")
                for system in (OURS, BM25, DENSE)
            ]
            rows.append((f"{style.name}: {category or 'all'}", str(len(numbers)), *cells))
    names = ("get_context", "BM25", "dense")
    columns = [f"{metric} {name}" for metric in ("recall@10", "nDCG@10") for name in names]
    return Sheet("By category", ("", "questions", *columns), rows)


def _cutoffs(results: Results) -> Sheet:
    rows = [
        (
            style.name,
            str(interval(style.cutoff.wrong)),
            str(interval(style.cutoff.lost)),
            str(interval(style.cutoff.adversarial)) if style.cutoff.adversarial else "–",
        )
        for style in results.styles
    ]
    columns = ("", "wrong tenant: nothing", "recall@10 lost", "never said: nothing")
    return Sheet("The cut-off: shares of questions", columns, rows)


def _chosen(results: Results) -> Sheet:
    rows = []
    for style in results.styles:
        for budget, pairs in style.chosen.items():
            chosen, ranked = np.array(pairs).T
            rows.append(
                (
                    f"{style.name}: {budget}",
                    str(interval(chosen)),
                    str(interval(ranked)),
                    interval(chosen - ranked).signed,
                )
            )
    columns = ("", "max_tokens", "plain order", "difference")
    return Sheet("Evidence within a budget, on a sample of questions", columns, rows)


def _ablation(results: Results) -> Sheet:
    rows = [
        (one.without, *(found[1].signed for found in one.changes.values()))
        for one in results.ablations
    ]
    names: Sequence[str] = [one.name for one in results.styles]
    return Sheet("nDCG@10 without a feature, the other weights as they are", ("", *names), rows)
