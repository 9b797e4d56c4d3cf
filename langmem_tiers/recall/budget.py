"""The token budget: which memories to give a model when not all of them fit.

What is chosen is the most useful set that fits. A set is worth the relevance of its members without
what they repeat of each other, and the words of the query that it covers.
"""

from __future__ import annotations

import math
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace
from itertools import chain, combinations
from operator import attrgetter
from typing import Final, NamedTuple

from langmem_tiers.core.errors import InvalidInputError, short
from langmem_tiers.core.memory import Recollection
from langmem_tiers.core.reading import shortened
from langmem_tiers.recall.dedupe import Feature, features, words

TokenCounter = Callable[[str], int]
"""Tells how many tokens a text is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Considered:
    """Whether a memory was chosen, what it costs in tokens, and why, in plain words."""

    memory: Recollection
    chosen: bool
    tokens: int
    reason: str
    repeats: Recollection | None = None
    """The chosen memory that it is nearest to, where it adds nothing to those that are chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The chosen memories, best first, with a decision for each candidate in the same order."""

    chosen: list[Recollection]
    decisions: list[Considered]
    tokens: int
    """The sum of what each chosen memory costs."""


def choose(
    ranked: Iterable[Recollection],
    max_tokens: int,
    count_tokens: TokenCounter,
    *,
    query: str = "",
    render: Callable[[Recollection], str] = attrgetter("content"),
) -> Choice:
    """Choose the most useful memories that fit into a budget of tokens.

    A set is useful for its scores, less what its memories repeat of each other, and for the
    words of the query that it covers. See `pack` for how near the choice is to the best.

    The sum of `count_tokens(render(memory))` over the chosen never exceeds `max_tokens`,
    whatever the counter. A counter may find more in a joined text than in its parts: leave
    room for what stands between memories, or render it with them. The order of the input does
    not matter.

    Raises:
        InvalidInputError: `max_tokens` is negative, or the counter returned no whole number
            of 0 or more.

    Example:
        ```python
        from langmem_tiers.recall.budget import choose

        choice = choose(memories, 800, lambda text: len(text) // 4 + 1)
        print(*(decision.reason for decision in choice.decisions), sep=" | ")
        ```
    """
    if max_tokens < 0:
        raise InvalidInputError(f"max_tokens is {max_tokens}; give 0 or more.")
    max_tokens = min(max_tokens, sys.maxsize)
    memories = sorted(ranked, key=lambda one: (-one.score, one.namespace, one.key))
    costs = [counted(render(one), count_tokens) for one in memories]
    useful = usefulness(memories, query)
    chosen = sorted(pack(Knapsack(useful, costs, max_tokens or NO_ROOM)).members)
    tokens = sum(costs[member] for member in chosen)
    so_far = useful.worth_of(chosen)

    def decided(member: int, memory: Recollection) -> Considered:
        cost, repeats = costs[member], None
        if member in chosen:
            reason = f"fits: {_tokens(cost)}"
        elif useful.gain(member, so_far) <= NEGLIGIBLE:
            nearest = min(chosen, key=lambda one: useful.gain(member, useful.worth_of([one])))
            repeats = memories[nearest]
            reason = f"left out: repeats {repeats.key}"
        else:
            verb = "does" if cost == 1 else "do"
            reason = f"left out: {_tokens(cost)} {verb} not fit into the {max_tokens - tokens} left"
        return Considered(
            memory=memory, chosen=member in chosen, tokens=cost, reason=reason, repeats=repeats
        )

    return Choice(
        chosen=[memories[member] for member in chosen],
        decisions=[decided(member, memory) for member, memory in enumerate(memories)],
        tokens=tokens,
    )


_MOST_TOKENS: Final = 2**63


def counted(text: str, count_tokens: TokenCounter) -> int:
    """The tokens of a text.

    Raises:
        InvalidInputError: if the counter returned no whole number of 0 or more.
    """
    tokens: object = count_tokens(text)
    if isinstance(tokens, int) and not isinstance(tokens, bool) and 0 <= tokens <= _MOST_TOKENS:
        return tokens
    raise InvalidInputError(
        f"the token counter returned {short(tokens)} for {shortened(text, 40)!r}: it is to return "
        "a whole number of 0 or more"
    )


def _tokens(tokens: int) -> str:
    return "1 token" if tokens == 1 else f"{tokens:,} tokens"


LEAST_RELEVANCE = 1e-6
"""What even the worst ranked memory counts, so that it is taken where there is room."""
SHARPNESS = 3
"""The power of a memory's share of the best score that it counts. With 1, many short memories
of little relevance are preferred to a long one that answers (docs/recall.md: evidence inside 2,000
tokens 0.878 with 1, 0.884 in ranked order, more with 3)."""
COVERAGE = 0.1
"""What all the query's words together count, where the best memory counts 1: words settle what
relevance leaves nearly open."""

Worths = Sequence[Sequence[tuple[int, float]]]
"""For each memory, what it is worth in each of the groups it takes part in."""


class Usefulness:
    """A function of sets of memories; a memory is named by its place in a list.

    A set is worth, in each group, what the worthiest of its members is worth there. So adding a
    memory never makes a set worse, and adds the less the more is there already: the function is
    monotone and submodular.
    """

    def __init__(self, worths: Worths) -> None:
        self.worths = worths
        self._groups = 1 + max((group for one in worths for group, _ in one), default=-1)

    def worth_of(self, members: Iterable[int]) -> list[float]:
        """What a set is worth in each group; its sum is what the set is worth."""
        worth = [0.0] * self._groups
        for member in members:
            self.add(member, worth)
        return worth

    def gain(self, member: int, so_far: Sequence[float]) -> float:
        """What a memory adds to a set."""
        return sum(
            worth - so_far[group] for group, worth in self.worths[member] if worth > so_far[group]
        )

    def add(self, member: int, so_far: list[float]) -> None:
        """Put a memory into a set."""
        for group, worth in self.worths[member]:
            so_far[group] = max(worth, so_far[group])

    def of(self, members: Iterable[int]) -> float:
        """What a set is worth."""
        return math.fsum(self.worth_of(members))


def usefulness(memories: Sequence[Recollection], query: str = "") -> Usefulness:
    """What sets of these memories are worth, with the best single score as 1.

    A memory's score is spread evenly over its words and its runs of three words: what another
    memory says in the same words counts once. Each word of the query that is found counts by
    its rarity among the memories.
    """
    said = [features(one.content) for one in memories]
    shares = [
        relevance / len(found) for relevance, found in zip(_relevances(memories), said, strict=True)
    ]
    saying: dict[Feature, list[int]] = defaultdict(list)
    for member, found in enumerate(said):
        for feature in found:
            saying[feature].append(member)
    worths: list[list[tuple[int, float]]] = [[] for _ in memories]
    # What the same memories say is one group: hundreds of features become a few groups.
    sizes = Counter(tuple(members) for members in saying.values())
    for group, (members, size) in enumerate(sorted(sizes.items())):
        for member in members:
            worths[member].append((group, size * shares[member]))
    _add_query(worths, len(sizes), sorted(set(words(query))), saying)
    return Usefulness(worths)


def _add_query(
    worths: list[list[tuple[int, float]]],
    first_group: int,
    asked: Sequence[str],
    saying: dict[Feature, list[int]],
) -> None:
    found = [saying[word] for word in asked if word in saying]
    total = math.fsum(1 / len(members) for members in found)
    for group, members in enumerate(found, start=first_group):
        for member in members:
            worths[member].append((group, COVERAGE / len(members) / total))


def _relevances(memories: Sequence[Recollection]) -> list[float]:
    best = max((one.score for one in memories), default=0.0)
    if best <= 0:
        return [LEAST_RELEVANCE] * len(memories)
    return [max(max(one.score / best, 0.0) ** SHARPNESS, LEAST_RELEVANCE) for one in memories]


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
    yield _greedy(sack, (), lambda gain, _: gain)
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
