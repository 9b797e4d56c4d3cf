"""How good a ranking is, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.recall_data import History, Question
from langmem_tiers.recall.recall import approximate_tokens

Floats = NDArray[np.float64]

BUDGETS = {"1k tokens": 1000, "2k tokens": 2000, "4k tokens": 4000}
METRICS = (*("recall@5", "recall@10", "recall@20", "nDCG@10", "MRR"), *BUDGETS, "sessions@5")
"""Shares of a question's evidence, in 0…1; `sessions@5` of its sessions."""
_RESAMPLES = 1000
_DEPTH = 10


class Interval(NamedTuple):
    """A mean over questions with its 95 % interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.3f} ({self.low:.2f}–{self.high:.2f})"

    @property
    def signed(self) -> str:
        """For a difference."""
        return f"{self.mean:+.3f} ({self.low:+.2f}…{self.high:+.2f})".replace("-", "−")


class Judge:
    """Judges rankings of one history."""

    def __init__(self, history: History) -> None:
        self._sessions = {one.key: one.session for one in history.memories}
        self.tokens = {one.key: approximate_tokens(one.content) for one in history.memories}

    def figures(self, ranked: Sequence[str], question: Question) -> list[float]:
        """The metrics of one ranking, in the order of METRICS."""
        hits = [key in question.gold for key in ranked]
        wanted = len(question.gold)
        first = hits.index(True) + 1 if any(hits) else math.inf
        return [
            *(sum(hits[:depth]) / wanted for depth in (5, 10, 20)),
            _gain(hits[:_DEPTH]) / _gain([True] * min(_DEPTH, wanted)),
            1 / first,
            *(self.within(ranked, question, budget) for budget in BUDGETS.values()),
            self._of_sessions(ranked[:5], question),
        ]

    def within(self, ranked: Sequence[str], question: Question, budget: int) -> float:
        """The share of the evidence that is read before the tokens run out."""
        found = 0
        for key in ranked:
            budget -= self.tokens[key]
            if budget < 0:
                break
            found += key in question.gold
        return found / len(question.gold)

    def _of_sessions(self, ranked: Sequence[str], question: Question) -> float:
        wanted = {self._sessions[key] for key in question.gold} - {None}
        if not wanted:
            return math.nan
        return len(wanted & {self._sessions[key] for key in ranked}) / len(wanted)


def _gain(hits: Sequence[bool]) -> float:
    return sum(1 / math.log2(place + 2) for place, hit in enumerate(hits) if hit)


def interval(values: Sequence[float] | Floats) -> Interval:
    """The mean with a bootstrap interval over questions; always the same for the same values."""
    found = np.asarray(values, float)
    found = found[~np.isnan(found)]
    if not len(found):
        return Interval(math.nan, math.nan, math.nan)
    drawn = np.random.default_rng(1).integers(len(found), size=(_RESAMPLES, len(found)))
    low, high = np.quantile(found[drawn].mean(axis=1), (0.025, 0.975))
    return Interval(float(found.mean()), float(low), float(high))


def column(figures: Floats, metric: str) -> Floats:
    """One metric of many questions."""
    chosen: Floats = figures[:, METRICS.index(metric)]
    return chosen


def by_category(categories: Sequence[str]) -> Mapping[str, list[int]]:
    """The questions of each category, by their numbers."""
    found: dict[str, list[int]] = {}
    for number, category in enumerate(categories):
        found.setdefault(category, []).append(number)
    return dict(sorted(found.items()))
