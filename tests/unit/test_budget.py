"""The token budget: never exceeded, spent nearly as well as possible, and explained."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, combinations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.memory import Recollection
from langmem_tiers.recall.budget import (
    GUARANTEE,
    Knapsack,
    Usefulness,
    choose,
    pack,
    usefulness,
)
from tests.support.recollections import recollection

WORDS = ["card", "declined", "retry", "refund", "bank", "the", "of", "to"]
QUERY = "why is the card declined"
CONTENTS = st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join)
COSTS = st.integers(0, 12)


def tokens(text: str) -> int:
    return len(text.split())


def said(count: int, name: str = "x") -> str:
    return " ".join(f"{name}{n}" for n in range(count))


@st.composite
def candidates(draw: st.DrawFn, most: int = 8) -> list[Recollection]:
    contents = draw(st.lists(CONTENTS, max_size=most))
    scores = st.sampled_from([-0.1, 0.0, 0.2, 0.5, 0.9])
    return [
        recollection(str(n), content or "-", score=draw(scores), match=draw(st.floats(0, 1)))
        for n, content in enumerate(contents)
    ]


def best_of_all(sack: Knapsack) -> float:
    members = range(len(sack.costs))
    sets = chain.from_iterable(combinations(members, size) for size in range(len(members) + 1))
    fitting = (one for one in sets if sum(sack.costs[member] for member in one) <= sack.room)
    return max(sack.useful.of(one) for one in fitting)


@settings(derandomize=True, max_examples=60)
@given(candidates(), st.integers(1, 40), st.data())
def test_the_choice_is_worth_its_promised_share_of_the_best_set(
    some: list[Recollection], room: int, data: st.DataObject
) -> None:
    some.sort(key=lambda one: (-one.score, one.namespace, one.key))
    costs = data.draw(st.lists(COSTS, min_size=len(some), max_size=len(some)))
    by_key = {one.key: cost for one, cost in zip(some, costs, strict=True)}
    choice = choose(
        some, room, lambda key: by_key[key], query=QUERY, render=lambda memory: memory.key
    )
    useful = usefulness(some, QUERY)
    best = best_of_all(Knapsack(useful, costs, room))
    worth = useful.of(some.index(one) for one in choice.chosen)
    assert worth >= GUARANTEE * best - 1e-9


@settings(derandomize=True, max_examples=100)
@given(st.data())
def test_any_covering_function_is_packed_within_the_guarantee(data: st.DataObject) -> None:
    worth = st.tuples(st.integers(0, 6), st.sampled_from([0.01, 0.5, 1.0, 1.02, 2.0]))
    some = data.draw(st.lists(st.lists(worth, max_size=5), max_size=7))
    costs = data.draw(st.lists(COSTS, min_size=len(some), max_size=len(some)))
    sack = Knapsack(Usefulness(some), costs, data.draw(st.integers(0, 30)))
    packing, best = pack(sack), best_of_all(sack)
    assert packing.worth >= GUARANTEE * best - 1e-9
    assert packing.at_most >= best - 1e-9


@settings(derandomize=True, max_examples=60)
@given(
    candidates(),
    st.integers(0, 40),
    st.dictionaries(CONTENTS, COSTS),
    st.randoms(use_true_random=False),
)
def test_the_budget_is_never_exceeded_whatever_the_counter_and_the_order(
    some: list[Recollection], room: int, counts: dict[str, int], rng: Any
) -> None:
    def count(text: str) -> int:
        return counts.get(text, 3)

    choice = choose(some, room, count, query=QUERY)
    assert sum(count(one.content) for one in choice.chosen) == choice.tokens <= room
    assert [one.memory for one in choice.decisions if one.chosen] == choice.chosen
    assert len(choice.decisions) == len(some)
    rng.shuffle(some)
    assert choose(some, room, count, query=QUERY) == choice


def reasons(some: Sequence[Recollection], room: int, query: str = "") -> dict[str, str]:
    choice = choose(some, room, tokens, query=query)
    return {one.memory.key: one.reason for one in choice.decisions}


def test_every_decision_says_why() -> None:
    some = [
        recollection("best", said(24), score=0.9),
        recollection("long", said(310, "y"), score=0.8),
        recollection("same", said(24).upper(), score=0.7),
        recollection("one", "word", score=0.6),
    ]
    assert reasons(some, 145) == {
        "best": "fits: 24 tokens",
        "long": "left out: 310 tokens do not fit into the 120 left",
        "same": "left out: repeats best",
        "one": "fits: 1 token",
    }


def test_a_counter_that_does_not_count_and_a_negative_budget_are_refused() -> None:
    counted: Any
    for counted in (-1, 1.5, None, float("nan")):
        with pytest.raises(InvalidInputError, match=r"a whole number of 0 or more"):
            choose([recollection("a")], 10, lambda _, said=counted: said)  # type: ignore[misc]
    with pytest.raises(InvalidInputError, match=r"max_tokens is -1; give 0 or more"):
        choose([], -1, tokens)
    assert choose([], 10, tokens).decisions == []
    assert choose([recollection("a", score=0.5)], 0, lambda _: 0).chosen == []
