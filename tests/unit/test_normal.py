"""Texts as they are compared for equality."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langmem_tiers.core.texts import normalise


def test_case_white_space_width_and_what_ends_a_sentence_do_not_matter_and_all_else_does() -> None:
    for other in (
        "  bob\nlikes\tTEA …",
        "Bob likes tea.",
        "\N{FULLWIDTH LATIN CAPITAL LETTER B}ob likes tea\N{FULLWIDTH EXCLAMATION MARK}",
    ):
        assert normalise(other) == normalise("Bob likes tea") == "bob likes tea"
    for one, other in (
        ("Bob likes tea", "Bob likes tea?"),
        ("Use C", "Use C#"),
        ("The limit is 5", "The limit is -5"),
        ("The limit is 3.5", "The limit is 35"),
        ("...", "!"),
    ):
        assert normalise(one) != normalise(other)


@settings(derandomize=True)
@given(st.text())
def test_to_compare_is_idempotent_and_case_never_matters(text: str) -> None:
    assert normalise(normalise(text)) == normalise(f" {text}\n") == normalise(text)


@pytest.mark.parametrize("unit", ["a ", ". ", "\u0301\u0323", "Ä"])
def test_a_long_text_is_read_in_one_go_and_not_by_the_square_of_its_length(unit: str) -> None:
    started = time.process_time()
    normalise(unit * 50_000)
    assert time.process_time() - started < 2  # with its square it takes minutes
