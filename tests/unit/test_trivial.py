"""What says nothing is found in any language, and nothing else is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.gate_corpus import held_out, tuned
from langmem_tiers.remember.trivial import MOST_WORDS, triviality


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Hi there", "a greeting"),
        ("Hey Anna!", "a greeting"),
        ("heyyyy", "a greeting"),
        ("你好", "a greeting"),
        ("مرحبا", "a greeting"),
        ("Thanks a lot, Bob!", "thanks or a courtesy"),
        ("ok, got it", "an acknowledgement"),
        ("hahaha 😂", "filler"),
        ("See you tomorrow", "a farewell"),
        ("👍🎉", "nothing but signs"),
        ("?!…", "nothing but signs"),
        (":-)", "nothing but signs"),
        (" \n\t", "empty"),
        ("", "empty"),
        ("\u200b\u200b", "empty"),
        ("aaaaaaaa", "noise"),
    ],
)
def test_a_text_that_says_nothing_is_named_by_its_kind(text: str, kind: str) -> None:
    assert triviality(text) == kind


@pytest.mark.parametrize(
    "text",
    [
        "Paris",
        "42",
        "80",
        "No sugar",
        "Vegan",
        "The deployment port is 80.",
        "Hi Mira, I moved to Graz last week.",
        "Yes, my birthday is in June.",
        "Thanks, the lamp arrived.",
        "Good morning! My flight got moved to Thursday.",
        "我喜欢绿茶。",
        "أحب الشاي الأخضر.",
        "Anna mag grünen Tee.",
        "x = 1",
    ],
)
def test_what_is_short_is_not_trivial_for_that(text: str) -> None:
    assert triviality(text) is None


def test_at_most_one_in_a_hundred_and_no_note_is_taken_for_the_other_kind() -> None:
    for half in (tuned(), held_out()):
        missed = [one.text for one in half.trivial if triviality(one.text) is None]
        assert len(missed) <= 0.02 * len(half.trivial), missed
        assert [one.text for one in half.benign if triviality(one.text)] == []


@given(st.lists(st.sampled_from(["hi", "thanks", "ok", "bye", "lol", "so", "much"]), min_size=1))
def test_a_fact_among_courtesies_is_never_trivial(several: list[str]) -> None:
    assert triviality(" ".join([*several, "the port is 80"])) is None


@given(st.integers(1, MOST_WORDS))
def test_courtesies_in_a_row_are_trivial(times: int) -> None:
    assert triviality("thanks " * times) is not None
