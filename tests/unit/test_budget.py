"""The token budget: never exceeded, spent well, and explained."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.memory import Recollection
from langmem_tiers.recall.budget import choose, combined_worth, usefulness
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


@settings(derandomize=True, max_examples=60)
@given(candidates(), st.integers(1, 40), st.data())
def test_no_memory_that_fits_is_worth_more_than_what_is_chosen(
    some: list[Recollection], room: int, data: st.DataObject
) -> None:
    some.sort(key=lambda one: (-one.score, one.namespace, one.key))
    costs = data.draw(st.lists(COSTS, min_size=len(some), max_size=len(some)))
    by_key = {one.key: cost for one, cost in zip(some, costs, strict=True)}
    choice = choose(
        some, room, lambda key: by_key[key], query=QUERY, render=lambda memory: memory.key
    )
    worths = usefulness(some, QUERY)
    worth = sum(combined_worth(worths[some.index(one)] for one in choice.chosen).values())
    fitting = (sum(worths[n].values()) for n, cost in enumerate(costs) if cost <= room)
    assert worth >= max(fitting, default=0.0) - 1e-9


@pytest.mark.slow
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
