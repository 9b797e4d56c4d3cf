"""The token budget: which memories to give a model when not all of them fit."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import attrgetter

from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.memory import Recollection, Tier
from langmem_tiers.core.reading import shortened
from langmem_tiers.recall.useful import NEGLIGIBLE, NO_ROOM, Knapsack, pack, usefulness

TokenCounter = Callable[[str], int]
"""Tells how many tokens a text is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Considered:
    """Whether a memory was chosen, what it costs in tokens, and why, in plain words."""

    memory: Recollection
    chosen: bool
    tokens: int
    reason: str


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
    words of the query that it covers. See `useful.pack` for how near the choice is to the best.

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

    def why_not(member: int) -> str:
        if useful.gain(member, so_far) <= NEGLIGIBLE:
            nearest = min(chosen, key=lambda one: useful.gain(member, useful.worth_of([one])))
            return f"repeats {memories[nearest].key}"
        verb = "does" if costs[member] == 1 else "do"
        return f"{_tokens(costs[member])} {verb} not fit into the {max_tokens - tokens} left"

    return Choice(
        chosen=[memories[member] for member in chosen],
        decisions=[
            Considered(memory=memory, chosen=True, tokens=cost, reason=f"fits: {_tokens(cost)}")
            if member in chosen
            else Considered(
                memory=memory, chosen=False, tokens=cost, reason=f"left out: {why_not(member)}"
            )
            for member, (memory, cost) in enumerate(zip(memories, costs, strict=True))
        ],
        tokens=tokens,
    )


_STABLE = {Tier.LONG_TERM: 0, Tier.WORKING: 1, Tier.SHORT_TERM: 2}


def stable_order(chosen: Iterable[Recollection]) -> list[Recollection]:
    """Order by tier, long_term first, then by age, namespace and key.

    What lasts comes first and new memories come last in their tier, so that one prompt shares a
    long beginning with the next and is served from a prompt cache.
    """
    return sorted(
        chosen, key=lambda one: (_STABLE[one.tier], one.created_at, one.namespace, one.key)
    )


def counted(text: str, count_tokens: TokenCounter) -> int:
    """The tokens of a text.

    Raises:
        InvalidInputError: if the counter returned no whole number of 0 or more.
    """
    tokens: object = count_tokens(text)
    if isinstance(tokens, int) and not isinstance(tokens, bool) and tokens >= 0:
        return tokens
    raise InvalidInputError(
        f"the token counter returned {tokens!r} for {shortened(text, 40)!r}: it is to return a "
        "whole number of 0 or more"
    )


def _tokens(tokens: int) -> str:
    return "1 token" if tokens == 1 else f"{tokens:,} tokens"
