"""What a run of the recall benchmark found: figures, bars and tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from benchmarks.recall_metrics import METRICS, Floats, Interval, by_category, column, interval
from benchmarks.recall_system import Evidence
from benchmarks.tables import Bar, Report, Sheet, facts

OURS = "get_context, by match"
BM25, PEER = "BM25", "PostgresStore"
DENSE, LEXICAL = "its dense leg alone", "its lexical leg alone"
PROFILES = ("calibrated", "aurora")


def fresh(profile: str) -> str:
    """A profile in a store where nothing was read yet."""
    return f"profile {profile}, fresh"


def used(profile: str) -> str:
    """A profile after each question was asked once with it and its results counted as read."""
    return f"profile {profile}, used"


SYSTEMS = (OURS, BM25, PEER, DENSE, LEXICAL, *(one(p) for p in PROFILES for one in (fresh, used)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cutoff:
    """What the cut-off does: shares of questions that got nothing, and what right ones lost."""

    wrong: Sequence[float] = ()
    """1 for each question to another history that got nothing, else 0."""
    adversarial: Sequence[float] = ()
    """The same for questions to the right history about what was never said."""
    lost: Sequence[float] = ()
    """What each question lost of recall@10."""


@dataclass(slots=True, kw_only=True)
class StyleResult:
    """Everything measured on one style; figures are questions × METRICS."""

    name: str
    memories: int
    histories: int
    skipped: int
    categories: list[str] = field(default_factory=list)
    figures: dict[str, Floats] = field(default_factory=dict)
    chosen: dict[str, Sequence[tuple[float, float]]] = field(default_factory=dict)
    """By budget, for a sample: evidence that `max_tokens` chose, and that plain order has."""
    cutoff: Cutoff = field(default_factory=Cutoff)
    evidence: list[Evidence] = field(default_factory=list)
    gold: list[frozenset[str]] = field(default_factory=list)

    def of(self, system: str, metric: str) -> Interval:
        """A system's mean."""
        return interval(column(self.figures[system], metric))

    def over(self, system: str, metric: str) -> Interval:
        """How much better ours is than another, question by question."""
        ours, theirs = (column(self.figures[one], metric) for one in (OURS, system))
        return interval(ours - theirs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ablation:
    """What recall@10 and nDCG@10 change without some features, by style."""

    without: str
    changes: Mapping[str, tuple[Interval, Interval]]


@dataclass(slots=True)
class Results:
    """A whole run."""

    environment: dict[str, str]
    styles: list[StyleResult] = field(default_factory=list)
    ablations: list[Ablation] = field(default_factory=list)
    seconds: float = 0.0

    def style(self, name: str) -> StyleResult | None:
        """What was measured on that style, if it was."""
        return next((one for one in self.styles if one.name == name), None)


def report(results: Results) -> Report:
    """All that is printed."""
    told = facts(results.environment, results.seconds)
    foot = f"Means over questions, 95 % bootstrap intervals; {told}"
    return Report(list(sheets(results)), list(bars(results)), foot)


_OF_TALK, _OF_FACTS = -0.05, -0.3
"""What the floor may cost: of what stands alone it shows little but what surely answers."""


def bars(results: Results) -> Iterator[Bar]:
    """Every bar on a mean; those of data that is not there have no figure."""
    chat = results.style("locomo")
    for metric, bound in (("recall@10", 0.78), ("nDCG@10", 0.61), ("2k tokens", 0.87)):
        yield _bar(f"locomo: {metric}", bound, chat.of(OURS, metric) if chat else None)
    cut = interval(chat.cutoff.wrong) if chat else None
    yield _bar("locomo: questions to the wrong conversation that get nothing", 0.5, cut)
    for style in results.styles:
        for peer in (BM25, PEER):
            over = style.over(peer, "nDCG@10")
            yield _bar(f"{style.name}: nDCG@10 over {peer}", 0, over, over.signed)
        kept = interval([-one for one in style.cutoff.lost])
        cost = _OF_FACTS if style.name == "facts" else _OF_TALK
        yield _bar(f"{style.name}: recall@10 that the cut-off costs", cost, kept, kept.signed)


def _bar(claim: str, bound: float, found: Interval | None, said: str = "") -> Bar:
    return Bar(claim, ">=", bound, found and found.mean, said or str(found))


def sheets(results: Results) -> Iterator[Sheet]:
    """Every table of a run."""
    yield from map(_systems, results.styles)
    yield _categories(results)
    yield _cutoffs(results)
    yield _chosen(results)
    if results.ablations:
        rows = [
            (one.without, *(found[1].signed for found in one.changes.values()))
            for one in results.ablations
        ]
        columns = ("", *(one.name for one in results.styles))
        yield Sheet("nDCG@10 without a feature, the other weights as they are", columns, rows)


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
            means = str(interval(chosen)), str(interval(ranked)), interval(chosen - ranked).signed
            rows.append((f"{style.name}: {budget}", *means))
    columns = ("", "max_tokens", "plain order", "difference")
    return Sheet("Evidence within a budget, on a sample of questions", columns, rows)
