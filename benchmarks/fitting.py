"""Small convex fits: a ranking, and a chance, each by Newton steps within bounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

_STEPS, _HALVINGS = 60, 30
_ENOUGH = 1e-10
_TINY = 1e-9


class Slope(NamedTuple):
    """A loss at one place, with its first and second derivatives."""

    loss: float
    first: Floats
    second: Floats


def minimise(slope: Callable[[Floats], Slope], bounded: Flags) -> Floats:
    """The lowest place of a convex function; where `bounded`, no coordinate is negative."""
    place = np.zeros(len(bounded))
    here = slope(place)
    for _ in range(_STEPS):
        free = ~(bounded & (place <= 0) & (here.first > 0))
        step = np.zeros_like(place)
        step[free] = np.linalg.solve(here.second[np.ix_(free, free)], here.first[free])
        share = 1.0
        for _ in range(_HALVINGS):
            tried = place - share * step
            tried[bounded] = np.maximum(tried[bounded], 0)
            there = slope(tried)
            if there.loss <= here.loss:
                break
            share /= 2
        else:
            return place
        gained, place, here = here.loss - there.loss, tried, there
        if gained < _ENOUGH:
            return place
    return place


@dataclass(frozen=True, slots=True)
class Lists:
    """Candidates of many questions, one after another."""

    matrix: Floats
    gold: Flags
    of: NDArray[np.int64]
    """The number of each candidate's question."""
    weight: Floats
    """Of each question."""

    @staticmethod
    def of_questions(
        matrices: Sequence[Floats], gold: Sequence[Flags], weight: Sequence[float]
    ) -> Lists:
        """Those questions of which some evidence, and something else, is among the candidates."""
        kept = [n for n, one in enumerate(gold) if one.any() and not one.all()]
        return Lists(
            matrix=np.concatenate([matrices[n] for n in kept]),
            gold=np.concatenate([gold[n] for n in kept]),
            of=np.repeat(np.arange(len(kept)), [len(gold[n]) for n in kept]),
            weight=np.array([weight[n] for n in kept]) / sum(weight),
        )


def fit_ranking(lists: Lists, bounded: Flags, *, ridge: float = 1e-3) -> Floats:
    """Weights by which evidence comes before everything else.

    Each piece of evidence is a softmax against what is none of its question; a question's
    pieces share its weight. The ridge is on columns of unit deviation.
    """
    used = lists.matrix.std(axis=0) > _TINY
    scale = lists.matrix[:, used].std(axis=0)
    scaled = Lists(lists.matrix[:, used] / scale, lists.gold, lists.of, lists.weight)
    weights = np.zeros(lists.matrix.shape[1])
    weights[used] = minimise(lambda at: _listwise(scaled, at, ridge), bounded[used]) / scale
    return weights


def _listwise(lists: Lists, at: Floats, ridge: float) -> Slope:
    scores = lists.matrix @ at
    start = np.flatnonzero(np.r_[True, np.diff(lists.of) > 0])
    scores -= np.maximum.reduceat(scores, start)[lists.of]
    odds = np.exp(scores)
    others = np.where(lists.gold, 0.0, odds)
    rows = np.flatnonzero(lists.gold)
    question = lists.of[rows]
    share = (lists.weight / np.add.reduceat(lists.gold.astype(float), start))[question]
    total = np.add.reduceat(others, start)[question] + odds[rows]
    pull = others * np.bincount(question, share / total, len(start))[lists.of]
    own = share * odds[rows] / total
    evidence = lists.matrix[rows]
    mass = np.add.reduceat(lists.matrix * others[:, None], start)[question]
    mean = (mass + evidence * odds[rows, None]) / total[:, None]
    first = lists.matrix.T @ pull + evidence.T @ (own - share) + 2 * ridge * at
    second = (lists.matrix * pull[:, None]).T @ lists.matrix
    second += (evidence * own[:, None]).T @ evidence - (mean * share[:, None]).T @ mean
    second += 2 * ridge * np.eye(len(at))
    loss = float(share @ (np.log(total) - scores[rows]) + ridge * at @ at)
    return Slope(loss, first, second)


def fit_chance(
    matrix: Floats, happened: Flags, weight: Floats, bounded: Flags, *, ridge: float = 1e-4
) -> tuple[Floats, float]:
    """Weights and bias of a logistic chance; the bias is free."""
    scale = matrix.std(axis=0) + _TINY
    scaled = np.column_stack([matrix / scale, np.ones(len(matrix))])
    found = minimise(
        lambda at: _logistic(scaled, happened, weight / weight.sum(), at, ridge),
        np.r_[bounded, False],
    )
    return found[:-1] / scale, float(found[-1])


def _logistic(matrix: Floats, happened: Flags, weight: Floats, at: Floats, ridge: float) -> Slope:
    level = matrix @ at
    chance = 1 / (1 + np.exp(-level))
    damped = np.r_[np.full(len(at) - 1, ridge), _TINY]
    loss = float(weight @ (np.logaddexp(0, level) - happened * level) + damped @ at**2)
    first = matrix.T @ (weight * (chance - happened)) + 2 * damped * at
    second = (matrix * (weight * chance * (1 - chance))[:, None]).T @ matrix
    return Slope(loss, first, second + 2 * np.diag(damped))
