"""Which words of a text identify somebody, and what is about its project alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.fit_private import lessons, measured
from langmem_tiers.learn.verdict import BOUND, Occurrences, judged, masked, shipped, tokens

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=30),
    lambda some: (
        st.lists(some, max_size=3) | st.dictionaries(st.text(max_size=5), some, max_size=3)
    ),
)
WORDS = st.frozensets(st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=6))
NOTES = (
    "Priya moved the nightly export of Corrigan Line to quay-db-02.",
    "Corrigan Line pays late; ask Priya before you write to them.",
    "The export to quay-db-02 ran twice after the switch.",
)
ELSEWHERE = ("Use Postgres for the ledger.", "We ask before we write to customers.")


def test_words_that_stand_together_have_one_placeholder() -> None:
    said = "Corrigan Line pays late, says Priya (quay-db-02)."
    told = masked(said, {"Corrigan", "Line", "Priya", "quay-db-02"})
    assert told == "<name> pays late, says <name> (<name>)."


@given(JSON, WORDS)
def test_masking_leaves_no_such_word_and_once_is_enough(said: Any, known: frozenset[str]) -> None:
    told = masked(said, known - {"name"})
    assert masked(told, known - {"name"}) == told
    assert masked(said, ()) == said
    for text in _texts(told):
        assert known.isdisjoint({one.text for one in tokens(text)} - {"name"})


def _texts(said: Any) -> list[str]:
    if isinstance(said, str):
        return [said]
    several = said.values() if isinstance(said, dict) else said if isinstance(said, list) else ()
    return [text for one in several for text in _texts(one)]


@given(st.text(max_size=200))
def test_any_text_can_be_judged(said: str) -> None:
    verdict = judged(said, ["quay"], Occurrences.of(NOTES, ELSEWHERE))
    assert 0 <= verdict.bound <= 1
    assert set(verdict.private) <= {one.text for one in tokens(said)}


def test_names_of_the_project_are_found_and_what_others_say_is_left() -> None:
    said = "Priya saw that an export to quay-db-02 must be idempotent before you write to it."
    verdict = judged(said, ["quay-ledger"], Occurrences.of(NOTES, ELSEWHERE))
    assert {"Priya", "quay-db-02"} <= set(verdict.private)
    assert not {"before", "write", "you", "that"} & set(verdict.private)


def test_a_number_that_follows_no_name_is_what_was_learned() -> None:
    for size in ("10", "100"):
        verdict = judged(f"Set the pool size to {size}.", [], Occurrences.of((), ()))
        assert size not in verdict.private


@pytest.mark.parametrize(("notes", "most"), [(None, 0.03), (8, 0.05)])
def test_the_weights_that_ship_find_what_the_hands_planted(notes: int | None, most: float) -> None:
    """They were fitted on these: what they find of a hand left out stands in docs/learning.md."""
    found = measured("all", lessons(notes), shipped())
    assert found.survived <= most * found.planted
    assert found.stayed >= 0.9 * found.bound
    assert 0 < BOUND < 1
