"""The token budget: which memories to give a model when not all of them fit."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.memory import Recollection, Tier
from langmem_tiers.core.reading import shortened
from langmem_tiers.recall.knapsack import NEGLIGIBLE, NO_ROOM, Knapsack, pack
from langmem_tiers.recall.usefulness import Usefulness, usefulness

TokenCounter = Callable[[str], int]
"""Tells how many tokens a text is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Whether a memory was chosen, what it costs in tokens, and why, in plain words."""

    memory: Recollection
    chosen: bool
    tokens: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The chosen memories, best first, with a decision for each candidate in the same order."""

    chosen: list[Recollection]
    decisions: list[Decision]
    tokens: int
    """The sum of what each chosen memory costs."""


class _Spent(NamedTuple):
    """A choice as its decisions see it: `so_far` is what it is worth in each group."""

    memories: Sequence[Recollection]
    costs: Sequence[int]
    members: Sequence[int]
    left: int
    useful: Usefulness
    so_far: Sequence[float]


def content(memory: Recollection) -> str:
    """What a memory says."""
    return memory.content


def choose(
    ranked: Iterable[Recollection],
    max_tokens: int,
    count_tokens: TokenCounter,
    *,
    query: str = "",
    render: Callable[[Recollection], str] = content,
) -> Choice:
    """Choose the most useful memories that fit into a budget of tokens.

    A set is useful for its scores, less what its memories repeat of each other, and for the
    words of the query that it covers. See `knapsack.pack` for how near the choice is to the best.

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
    packing = pack(Knapsack(useful, costs, max_tokens or NO_ROOM))
    members = sorted(packing.members)
    tokens = sum(costs[member] for member in members)
    so_far = useful.worth_of(members)
    spent = _Spent(memories, costs, members, max_tokens - tokens, useful, so_far)
    return Choice(
        chosen=[memories[member] for member in members],
        decisions=[_decide(member, spent) for member in range(len(memories))],
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


def _decide(member: int, spent: _Spent) -> Decision:
    memory, tokens = spent.memories[member], spent.costs[member]
    chosen = member in spent.members
    reason = f"fits: {_counted(tokens)}" if chosen else f"left out: {_why_not(member, spent)}"
    return Decision(memory=memory, chosen=chosen, tokens=tokens, reason=reason)


def _why_not(member: int, spent: _Spent) -> str:
    if spent.useful.gain(member, spent.so_far) <= NEGLIGIBLE:
        return f"repeats {_nearest(member, spent)}"
    verb = "does" if spent.costs[member] == 1 else "do"
    return f"{_counted(spent.costs[member])} {verb} not fit into the {spent.left} left"


def _nearest(member: int, spent: _Spent) -> str:
    """The key of the chosen memory that leaves least to be gained from this one."""

    def leaves(chosen: int) -> float:
        return spent.useful.gain(member, spent.useful.worth_of([chosen]))

    return spent.memories[min(spent.members, key=leaves)].key


def _counted(tokens: int) -> str:
    return "1 token" if tokens == 1 else f"{tokens:,} tokens"
