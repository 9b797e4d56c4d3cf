"""What is shown of a long message: its sentences that say most about a question."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langmem_tiers.recall.prompt_text import excerpt

TALK = "Water them twice a week. In March, cut the roses to the third bud. Feed them with compost."

sentences = st.lists(st.from_regex(r"\A[a-z]{1,8}( [a-z]{1,8}){0,6}\.\Z"), min_size=1, max_size=9)


def test_of_a_long_text_what_is_asked_for_is_kept_and_what_is_left_out_is_marked() -> None:
    assert excerpt(TALK, "How far do I cut the roses?", 45) == (
        "… In March, cut the roses to the third bud. …"
    )
    assert excerpt(TALK, "zebra", 30) == "Water them twice a week. …"
    assert excerpt("word " * 50, "word", 20) == "word word word word…"
    assert excerpt("水はやらない。春に剪定する。", "春に", 8).startswith("水はやらない。")
    assert excerpt(TALK, "roses", len(TALK)) == TALK
    endless = (
        "Well. " + "and so on " * 30 + "the roses are cut to the third bud " + "and so on " * 30
    )
    assert "roses are cut" in excerpt(endless, "How far do I cut the roses?", 60)
    assert len(excerpt(endless, "roses", 60)) <= 60


@pytest.mark.slow
@given(sentences, st.text(max_size=20), st.integers(1, 80))
def test_it_says_nothing_new_in_the_order_of_the_text_and_keeps_to_its_length(
    said: list[str], asked: str, most: int
) -> None:
    text = " ".join(said)
    parts = excerpt(text, asked, most).split("…")
    assert sum(len(part.strip()) for part in parts) <= most or len(text) <= most
    places = [text.find(part.strip()) for part in parts if part.strip()]
    assert -1 not in places
