"""The most useful set that fits: greedy search, with a bound on what it may have missed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heapify, heappop, heapreplace
from itertools import chain, combinations
from typing import NamedTuple

from langmem_tiers.recall.usefulness import Usefulness

GUARANTEE = 1 - 1 / math.e
"""No method in polynomial time promises more of the best possible, if P is not NP (Feige 1998)."""
SEEDED = 25
"""Up to so many candidates are also searched from each pair of them, 325 searches at most."""

NO_ROOM = -1
"""Less than nothing: not even what costs nothing fits."""
NEGLIGIBLE = 1e-9
"""A gain up to this is what rounding leaves of none."""

Rate = Callable[[float, int], float]


class Packing(NamedTuple):
    """Members in the order they were chosen, what they are worth together, and a promise.

    No set that fits is worth more than `at_most`.
    """

    members: tuple[int, ...]
    worth: float
    at_most: float


class Knapsack(NamedTuple):
    """What there is to choose from: costs are 0 or more, of which `room` may be spent."""

    useful: Usefulness
    costs: Sequence[int]
    room: int

    @property
    def fitting(self) -> list[int]:
        """Members that fit by themselves."""
        return [member for member, cost in enumerate(self.costs) if cost <= self.room]


def pack(sack: Knapsack) -> Packing:
    """Choose a set that fits, worth at least 1 - 1/e (63 %) of the best possible.

    The best one of greedy choice by gain, by gain per cost, and from the best single member is
    usually proved to reach that by a bound computed on the way. If it is not and there are 25
    members or fewer that fit, greedy choice by gain per cost is started from each one and each
    pair of them, which is known to reach it (Kulik, Schwartz and Shachnai 2021, after Sviridenko
    2004). With more members the general promise is 1 - 1/√e (39 %), as for greedy choice or the
    best single member; `at_most` says what was proved for this choice.
    """
    best = _best(sack, _simple_searches(sack))
    at_most = min(_bound(sack, ()), _bound(sack, best))
    if len(sack.fitting) <= SEEDED and sack.useful.of(best) < GUARANTEE * at_most:
        best = _best(sack, chain([best], _seeded_searches(sack)))
        at_most = min(at_most, _bound(sack, best), sack.useful.of(best) / GUARANTEE)
    return Packing(best, sack.useful.of(best), at_most)


def _simple_searches(sack: Knapsack) -> Iterator[tuple[int, ...]]:
    yield _greedy(sack, (), _by_gain)
    yield _greedy(sack, (), _by_rate)
    nothing = sack.useful.worth_of(())
    if sack.fitting:
        best = max(sack.fitting, key=lambda one: sack.useful.gain(one, nothing))
        yield _greedy(sack, (best,), _by_rate)


def _seeded_searches(sack: Knapsack) -> Iterator[tuple[int, ...]]:
    for seed in chain(combinations(sack.fitting, 1), combinations(sack.fitting, 2)):
        if _cost(sack, seed) <= sack.room:
            yield _greedy(sack, seed, _by_rate)


def _best(sack: Knapsack, found: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    """The worthiest set, not counting the noise of rounding; among equals the cheapest."""
    return max(
        found, key=lambda members: (round(sack.useful.of(members), 9), -_cost(sack, members))
    )


def _by_gain(gain: float, _: int) -> float:
    return gain


def _by_rate(gain: float, cost: int) -> float:
    return gain / cost if cost else math.inf


def _cost(sack: Knapsack, members: Sequence[int]) -> int:
    return sum(sack.costs[member] for member in members)


def _greedy(sack: Knapsack, seed: tuple[int, ...], rate: Rate) -> tuple[int, ...]:
    """Extend a seed by the best rated member that fits, until none does or none adds anything.

    Lazily: a rating can only fall as the set grows, so whatever still leads the heap after being
    rated anew is the best.
    """
    so_far = sack.useful.worth_of(seed)
    chosen, room = list(seed), sack.room - _cost(sack, seed)
    heap = [(-math.inf, member, -1) for member in range(len(sack.costs)) if member not in seed]
    heapify(heap)
    while heap:
        _, member, rated_at = heap[0]
        cost = sack.costs[member]
        if cost > room:
            heappop(heap)
        elif rated_at == len(chosen):
            heappop(heap)
            sack.useful.add(member, so_far)
            chosen.append(member)
            room -= cost
        elif (gain := sack.useful.gain(member, so_far)) > NEGLIGIBLE:
            heapreplace(heap, (-rate(gain, cost), member, len(chosen)))
        else:
            heappop(heap)
    return tuple(chosen)


def _bound(sack: Knapsack, base: tuple[int, ...]) -> float:
    """What no set that fits can exceed: the base, and the best gains on it, the last in part.

    Any set is worth at most the base and each further member's gain on it, by submodularity.
    """
    so_far = sack.useful.worth_of(base)
    gains = [(sack.useful.gain(member, so_far), sack.costs[member]) for member in sack.fitting]
    bound, room = math.fsum(so_far), float(sack.room)
    for gain, cost in sorted(gains, key=lambda one: -_by_rate(*one)):
        part = 1.0 if cost <= room else room / cost
        bound += part * gain
        room -= part * cost
    return bound
