"""The token budget: which memories to give a model when not all of them fit.

What is chosen is useful together: a set is worth the relevance of its members without what they
repeat of each other, and the words of the query that it covers.
"""

from __future__ import annotations

import math
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heapreplace
from operator import attrgetter
from typing import Final

from langmem_tiers.core.errors import InvalidInputError, short
from langmem_tiers.core.memory import Recollection
from langmem_tiers.core.reading import exact_words, shortened
from langmem_tiers.recall.dedupe import Feature, features

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
    words of the query that it covers.

    The sum of `count_tokens(render(memory))` over the chosen never exceeds `max_tokens`,
    whatever the counter. A counter may find more in a joined text than in its parts: leave room for
    what stands between memories, or render it with them. The order of the input does not matter.

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
    worths = usefulness(memories, query)
    chosen = sorted(pack(worths, costs, max_tokens)) if max_tokens else []
    tokens = sum(costs[member] for member in chosen)
    so_far = worth_of(worths[member] for member in chosen)

    def decided(member: int) -> Considered:
        memory, cost, repeats = memories[member], costs[member], None
        if member in chosen:
            reason = f"fits: {_tokens(cost)}"
        elif gain(worths[member], so_far) <= NEGLIGIBLE:
            nearest = min(chosen, key=lambda one: gain(worths[member], worths[one]))
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
        decisions=[decided(member) for member in range(len(memories))],
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

Worths = Sequence[Mapping[int, float]]
"""For each memory, what it is worth in each of the groups it takes part in.

A set is worth, in each group, what the worthiest of its members is worth there: so adding a memory
never makes a set worse, and adds the less the more is there already.
"""


def usefulness(memories: Sequence[Recollection], query: str = "") -> Worths:
    """What these memories are worth, with the best single score as 1.

    A memory's score is spread evenly over its words and its runs of three words: what another
    memory says in the same words counts once. Each word of the query that is found counts by
    its rarity among the memories.
    """
    said = [features(one.content) for one in memories]
    saying: dict[Feature, list[int]] = defaultdict(list)
    for member, found in enumerate(said):
        for feature in found:
            saying[feature].append(member)
    # What the same memories say is one group: hundreds of features become a few groups.
    groups = sorted(Counter(map(tuple, saying.values())).items())
    asked = [saying[word] for word in sorted(set(exact_words(query))) if word in saying]
    rarity = math.fsum(1 / len(members) for members in asked)
    shares = [score / len(found) for score, found in zip(_relevances(memories), said, strict=True)]
    worths: list[dict[int, float]] = [{} for _ in memories]
    for group, (members, size) in enumerate(groups):
        for member in members:
            worths[member][group] = size * shares[member]
    for group, having in enumerate(asked, start=len(groups)):
        for member in having:
            worths[member][group] = COVERAGE / len(having) / rarity
    return worths


def worth_of(several: Iterable[Mapping[int, float]]) -> dict[int, float]:
    """What several memories are worth together, in each group."""
    together: dict[int, float] = {}
    for one in several:
        for group, worth in one.items():
            together[group] = max(worth, together.get(group, 0.0))
    return together


def gain(one: Mapping[int, float], so_far: Mapping[int, float]) -> float:
    """What a memory adds to what others are worth together."""
    return sum(max(worth - so_far.get(group, 0.0), 0.0) for group, worth in one.items())


def _relevances(memories: Sequence[Recollection]) -> list[float]:
    best = max((one.score for one in memories), default=0.0)
    if best <= 0:
        return [LEAST_RELEVANCE] * len(memories)
    return [max(max(one.score / best, 0.0) ** SHARPNESS, LEAST_RELEVANCE) for one in memories]


NEGLIGIBLE = 1e-9
"""A gain up to this is what rounding leaves of none."""


def pack(worths: Worths, costs: Sequence[int], room: int) -> list[int]:
    """Choose members that cost no more than the room together, the worthiest that are found.

    One after another by what each adds for its cost; or first the one that is worth most by itself,
    if that gains more: what is short and hardly matters takes no place from what answers.
    """
    fitting = [member for member, cost in enumerate(costs) if cost <= room]
    if not fitting:
        return []
    best = max(fitting, key=lambda member: sum(worths[member].values()))
    found = [_greedy(worths, costs, room, first) for first in ([], [best])]
    return max(found, key=lambda chosen: round(_worth(worths, chosen), 9))


def _worth(worths: Worths, chosen: Iterable[int]) -> float:
    return math.fsum(worth_of(worths[member] for member in chosen).values())


def _greedy(worths: Worths, costs: Sequence[int], room: int, first: Sequence[int]) -> list[int]:
    """Add to a set what gains most for its cost, until nothing fits or adds anything.

    Lazily: a gain can only fall as the set grows, so whatever still leads the heap after being
    reckoned anew is the best.
    """
    chosen, so_far = list(first), worth_of(worths[member] for member in first)
    room -= sum(costs[member] for member in first)
    heap = [(-math.inf, member, -1) for member in range(len(costs)) if member not in first]
    while heap:
        _, member, reckoned_at = heap[0]
        cost, more = costs[member], gain(worths[member], so_far)
        if cost > room or more <= NEGLIGIBLE:
            heappop(heap)
        elif reckoned_at < len(chosen):
            heapreplace(heap, (-more / cost if cost else -math.inf, member, len(chosen)))
        else:
            heappop(heap)
            so_far = worth_of((so_far, worths[member]))
            chosen.append(member)
            room -= cost
    return chosen
