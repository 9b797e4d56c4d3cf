"""Near-duplicates: what counts as the same, and which one stays."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langmem_tiers.recall.budget import (
    SIMILARITY_THRESHOLD,
    ComparedText,
    Feature,
    deduplicate,
    similarity,
)
from tests.support.recollections import recollection

WORDS = ["alpha", "beta", "gamma", "delta", "no"]
TEXTS = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)
LONG = " ".join(f"word{n}" for n in range(60))


def alike(one: str, other: str) -> float:
    numbers: dict[Feature, int] = {}
    return similarity(ComparedText(one, numbers), ComparedText(other, numbers))


@settings(derandomize=True, max_examples=50)
@given(TEXTS, TEXTS)
def test_similarity_is_symmetric_in_the_unit_range_and_one_for_the_same(a: str, b: str) -> None:
    assert alike(a, b) == alike(b, a)
    assert 0 <= alike(a, b) <= 1
    assert alike(a, f"  {a.upper()} \n") == 1


def test_short_texts_that_say_something_else_are_not_near_duplicates() -> None:
    for one, other in (
        ("Bob owes Alice", "Alice owes Bob"),
        ("the tests pass", "the tests do not pass"),
        ("write it in C++", "write it in C#"),
        ("the port is 80 by default", "the port is 81 by default"),
        ("???", "!!!"),
        ("猫が好き", "犬が好き"),
        ("", "something"),
    ):
        assert alike(one, other) < SIMILARITY_THRESHOLD


def test_the_threshold_ranges_from_all_alike_to_the_same_words_only() -> None:
    more = f"{LONG} more"
    some = [recollection("a", LONG), recollection("b", "else"), recollection("c", more)]
    assert alike(LONG, more) == 58 / 59
    assert deduplicate(some) == some[:2]
    assert deduplicate(some, 0) == some[:1]
    assert deduplicate(some, 1) == some


@pytest.mark.slow
@settings(derandomize=True, max_examples=50)
@given(st.lists(TEXTS, max_size=8), st.floats(0, 1))
def test_no_two_kept_are_alike_and_every_dropped_one_is_like_a_kept_one_above(
    texts: list[str], threshold: float
) -> None:
    ranked = [recollection(str(n), text) for n, text in enumerate(texts)]
    kept = [int(one.key) for one in deduplicate(ranked, threshold)]
    for n, one in enumerate(ranked):
        better = [ranked[above].content for above in kept if above < n]
        repeats = any(alike(one.content, other) >= threshold for other in better)
        assert repeats == (n not in kept)
