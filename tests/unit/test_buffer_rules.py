"""What is in mind: sorted, never over its capacity, and never over a prompt's budget."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langmem_tiers.coordinator.buffer import (
    BufferedMemory,
    PromptMemories,
    call_up,
    fit_prompt,
    merge_found,
)
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.memory import Recollection
from langmem_tiers.core.types import MemoryTypes
from langmem_tiers.recall.prompt_text import titled_text
from tests.support.recollections import recollection

WORDS = st.sampled_from(
    ["card", "declined", "bank", "<memory>", "日本語のとても長い文章です", "x" * 50]
)
CONTENTS = st.lists(WORDS, min_size=1, max_size=30).map(" ".join)


MATCHES = st.dictionaries(st.sampled_from("abcdefgh"), st.sampled_from([0.0, 0.1, 0.5, 0.5, 1.0]))


def found(contents: st.SearchStrategy[str] = st.just("x")) -> st.SearchStrategy[list[Recollection]]:  # noqa: B008 - it never changes
    """Memories of other keys, of several matches."""
    return st.builds(
        lambda matches, content: [
            recollection(key, f"{key} {content}", match=match) for key, match in matches.items()
        ],
        MATCHES,
        contents,
    )


def hashed(text: str) -> int:
    """A counter without rhyme or reason."""
    return zlib.crc32(text.encode()) % 500


COUNTERS: dict[str, Callable[[str], int]] = {
    "characters": len,
    "words": lambda text: len(text.split()),
    "hashed": hashed,
    "fewer for more": lambda text: max(0, 1000 - len(text)),
    "nothing": lambda _: 0,
    "always the same": lambda _: 100,
}


def prompt(held: Sequence[BufferedMemory], **options: Any) -> PromptMemories:
    given: dict[str, Any] = {
        "max_memories": 5,
        "max_tokens": None,
        "min_relevance": 0.0,
        "count_tokens": len,
        "types": MemoryTypes(),
    }
    return fit_prompt(held, **{**given, **options})


def mind(*memories: Recollection) -> tuple[BufferedMemory, ...]:
    return call_up((), memories, 20)


def relevances(held: Sequence[BufferedMemory]) -> dict[str, float]:
    return {one.memory.key: one.relevance for one in held}


# What is in mind


@given(st.lists(found(), max_size=4), st.integers(1, 5))
def test_what_is_in_mind_is_sorted_each_memory_once_and_within_the_capacity(
    contexts: list[list[Recollection]], capacity: int
) -> None:
    held: tuple[BufferedMemory, ...] = ()
    for context in contexts:
        for turn in (call_up, merge_found):
            held = turn(held, context, capacity)
            order = [(-one.relevance, one.memory.place) for one in held]
            assert order == sorted(order)
            assert len({one.memory.place for one in held}) == len(held) <= capacity
            assert all(0 <= one.relevance <= 1 for one in held)


@given(found(), found())
def test_a_context_sets_the_relevance_of_what_it_calls_up_and_halves_all_else(
    first: list[Recollection], second: list[Recollection]
) -> None:
    before, after = relevances(mind(*first)), relevances(call_up(mind(*first), second, 20))
    called = {one.key: one.match for one in second}
    assert after == {**{key: each / 2 for key, each in before.items()}, **called}


@given(found(), found())
def test_what_is_fed_raises_relevance_and_lets_nothing_fade(
    first: list[Recollection], second: list[Recollection]
) -> None:
    before, after = relevances(mind(*first)), relevances(merge_found(mind(*first), second, 20))
    new = {one.key: one.match for one in second}
    keys = before.keys() | new.keys()
    assert after == {key: max(before.get(key, 0.0), new.get(key, 0.0)) for key in keys}


# What a prompt holds


@settings(deadline=None)
@given(
    found(CONTENTS),
    st.integers(0, 6),
    st.integers(0, 700),
    st.sampled_from(list(COUNTERS.values())),
)
def test_no_counter_counts_more_than_the_budget_in_the_text(
    some: list[Recollection], most: int, room: int, count: Callable[[str], int]
) -> None:
    held = mind(*some)
    asked = {"max_memories": most, "max_tokens": room, "count_tokens": count}
    page = prompt(held, **asked)
    shown = [one.memory for one in page.memories]
    assert page.tokens <= room
    assert page.tokens == (count(page.text) if shown else 0)
    assert shown == [one.memory for one in held[: len(shown)]]
    assert len(shown) <= most
    assert not any(one.truncated for one in page.memories[:-1])
    for one in page.memories:
        assert one.memory.content.startswith(one.content.removesuffix(" …"))
    assert prompt(held, **asked) == page
    assert call_up((), some[::-1], 3) == call_up((), some, 3)


@given(found())
def test_without_a_budget_all_that_is_relevant_enough_is_whole(some: list[Recollection]) -> None:
    page = prompt(mind(*some), max_memories=20, min_relevance=0.5)
    assert {one.memory.key for one in page.memories} == {
        one.key for one in some if one.match >= 0.5
    }
    shown = [one.memory for one in page.memories]
    assert page.text == titled_text([("fact", shown)])
    assert not any(one.truncated for one in page.memories)


FIVE = "one two three four five"


@pytest.mark.parametrize(
    ("content", "cuts"),
    [
        (FIVE, [FIVE, "one two three four …", "one two three …", "one two …", "one …"]),
        ("word " * 200_000, ["word word word word …", "word word word …"]),
        ("長" * 100, ["長" * 80 + " …", "長" * 60 + " …"]),
    ],
    ids=["words", "of the largest size", "without a space"],
)
def test_the_last_memory_is_cut_to_as_much_as_fits(content: str, cuts: list[str]) -> None:
    """After a word, or inside of one that is longer."""
    held = mind(recollection("a", content, match=1.0))
    for cut, shorter in pairwise(cuts):
        room = len(titled_text([("fact", [recollection("a", cut, match=1.0)])]))
        found = [prompt(held, max_tokens=most).memories[0].content for most in (room, room - 1)]
        assert found == [cut, shorter]
    assert prompt(held, max_tokens=4) == PromptMemories()


@pytest.mark.parametrize("counted", [-1, 2.5, None, True])
def test_a_counter_that_does_not_count_is_refused(counted: Any) -> None:
    held = mind(recollection("a", match=1.0))
    with pytest.raises(InvalidInputError, match="a whole number of 0 or more"):
        prompt(held, count_tokens=lambda _: counted)
