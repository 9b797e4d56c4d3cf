"""What says nothing is found by what it is made of, and nothing else is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.gate_corpus import held_out, tuned
from langmem_tiers.remember.gate import triviality


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Hi there", "a greeting"),
        ("Hello!", "a greeting"),
        ("ok", "a word of two letters or fewer"),
        ("да", "a word of two letters or fewer"),
        ("no, no, no", "a word of two letters or fewer"),
        ("hahaha 😂", "noise"),
        ("aaaaaaaa", "noise"),
        ("👍🎉", "nothing but signs"),
        ("?!…", "nothing but signs"),
        (":-)", "nothing but signs"),
        (" \n\t", "empty"),
        ("", "empty"),
        ("\u200b\u200b", "empty"),
    ],
)
def test_a_text_that_says_nothing_is_named_by_its_kind(text: str, kind: str) -> None:
    assert triviality(text) == kind


def test_what_is_short_is_not_trivial_for_that() -> None:
    short = [
        "Paris",
        "42",
        "2222",
        "No sugar",
        "Vegan",
        "Anna",
        "C++",
        "绿茶",
        "我喜欢绿茶。",
        "x = 1",
    ]

    assert [one for one in short if triviality(one)] == []


def test_no_note_is_taken_for_trivial() -> None:
    for half in (tuned(), held_out()):
        assert [one.text for one in half.benign if triviality(one.text)] == []


@given(st.text(max_size=50))
def test_a_fact_beside_anything_is_never_trivial(text: str) -> None:
    assert triviality(f"{text} the port is 80") is None


@given(st.text(st.characters(categories=["P", "S", "Z"]), min_size=1))
def test_signs_without_words_are_trivial_in_any_number(text: str) -> None:
    assert triviality(text) in {"nothing but signs", "empty"}
