"""How useful a set of memories is: relevance without repetition, and the query's words."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from langmem_tiers.core.memory import Recollection
from langmem_tiers.recall.words import Feature, features, words

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
