"""Fitting the cut-off: which questions a scope can answer, told from right and wrong ones."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.fitting import Floats, fit_chance
from benchmarks.recall_data import History, Question, Style
from benchmarks.recall_system import Evidence
from langmem_tiers.recall.candidates import Searched
from langmem_tiers.recall.question import Question as Reading
from langmem_tiers.recall.question import name_words

COLUMNS = ("known_words", "nearest", "no_unknown_name", "known_name", "memories")
"""As in weights.json; that of `memories` is negative there, so its column is here."""
SIZES = (5, 20, 80)
"""Scopes of few memories, so that these are not cut off for being few."""
_EACH = 3
_LOSS = 0.005
"""The share of recall@10 that a floor may cost, in each style."""
_FULL = 3.0
"""What the scopes at full size count, where each small size counts 1."""
_FEW = 15
"""Fewer questions of a kind say nothing about a floor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One question to one scope; `right` is whether the scope has an answer."""

    style: str
    size: int
    """0 for all memories."""
    right: bool
    named: bool
    """Whether it names somebody, and is not about who asks."""
    facts: tuple[float, ...]
    recall: float = 0.0
    """recall@10 of a right one."""


def trial(evidence: Evidence, *, style: str, size: int, right: bool, recall: float) -> Trial:
    """What the cut-off goes by."""
    return Trial(
        style=style,
        size=size,
        right=right,
        named=_named(evidence.reading, evidence.scope),
        facts=_facts(evidence.reading, evidence.scope),
        recall=recall,
    )


def _facts(asked: Reading, scope: Searched) -> tuple[float, ...]:
    known = asked.names & (scope.known_names | _speakers(scope))
    return (
        scope.known / scope.sought if scope.sought else 1.0,
        scope.best_cosine,
        float(not asked.names - known),
        float(bool(known)),
        -math.log10(max(scope.memories, 1)),
    )


def _named(asked: Reading, scope: Searched) -> bool:
    names = bool(asked.names) or not _speakers(scope).isdisjoint(asked.words)
    return names and not asked.first_person


def _speakers(scope: Searched) -> frozenset[str]:
    return frozenset(word for one in scope.speakers for word in name_words(one))


def small_histories(style: Style) -> Iterator[tuple[int, History]]:
    """Parts of histories, each with some of its questions and what answers them."""
    rng = random.Random(5)
    for history in style.histories:
        for size in SIZES:
            for number in range(_EACH):
                yield size, _part(history, size, number, rng)


def _part(history: History, size: int, number: int, rng: random.Random) -> History:
    asked = rng.sample(history.answerable, min(max(1, size // 4), len(history.answerable)))
    gold = [key for one in asked for key in sorted(one.gold)[:2]]
    rest = [one.key for one in history.memories if one.key not in gold]
    filler = rng.sample(rest, min(max(1, size - len(gold)), len(rest)))
    kept = {*gold, *filler}
    return History(
        name=f"{history.name}-{size}-{number}",
        memories=[one for one in history.memories if one.key in kept],
        questions=[replace(one, gold=one.gold & kept) for one in asked],
    )


def wrong_questions(history: History, style: Style, most: int) -> list[Question]:
    """Questions of others that this history surely cannot answer."""
    own = {one.about for one in history.questions}
    generic = style.name in ("logs", "facts")
    others = [
        one
        for other in style.histories
        if not history.name.startswith(other.name)
        for one in other.answerable
        if not generic or (one.about and one.about not in own)
    ]
    return random.Random(history.name).sample(others, min(most, len(others)))


def fit_gate(trials: Sequence[Trial]) -> dict[str, float]:
    """The numbers of the cut-off, as weights.json has them."""
    right = np.array([one.right for one in trials])
    matrix = np.array([(*one.facts, not one.named) for one in trials], float)
    bounded = np.ones(matrix.shape[1], bool)
    weights, _ = fit_chance(matrix, right, _weight(trials), bounded)
    level = matrix[:, :-1] @ weights[:-1]
    numbers = dict(zip(COLUMNS, map(float, weights), strict=False))
    numbers["memories"] *= -1
    numbers["floor_named"] = _floor(trials, level, named=True)
    numbers["floor_plain"] = _floor(trials, level, named=False)
    return numbers


def _weight(trials: Sequence[Trial]) -> Floats:
    """Styles, sizes and both answers weigh alike."""
    kinds = [(one.style, one.size, one.right) for one in trials]
    counts = {kind: kinds.count(kind) for kind in set(kinds)}
    return np.array([(1 if kind[1] else _FULL) / counts[kind] for kind in kinds])


def _floor(trials: Sequence[Trial], level: Floats, *, named: bool) -> float:
    """The highest that costs no style more than _LOSS of its recall at full size."""
    floors = []
    for style in sorted({one.style for one in trials}):
        full = [
            n
            for n, one in enumerate(trials)
            if (one.style, one.size, one.right) == (style, 0, True)
        ]
        chosen = sorted((n for n in full if trials[n].named == named), key=lambda n: level[n])
        if len(chosen) < _FEW:
            continue
        lost = np.cumsum([trials[n].recall for n in chosen]) / len(full)
        first = int(np.searchsorted(lost, _LOSS, side="right"))
        floors.append(float(level[chosen[min(first, len(chosen) - 1)]]))
    return min(floors, default=-math.inf)
