"""Cues in long texts: what is said is found, and looking takes steps in proportion to the text."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import pytest

from benchmarks.cues import fires
from langmem_tiers.remind.cue import matches
from langmem_tiers.remind.sentences import LONGEST, read

LONG = [
    ("when the build fails", "the build of the web job has not failed yet and we went on "),
    ("when the build fails", '{"id": 17, "build": "not", "job": "failed soon"}, '),
    ("when the build fails", "The Build, They Say, Will Fail, "),
    ("when the build fails", "The build will fail. "),
    ("when the kitchen renovation starts", "the kitchen is renovation it will start "),
    ("when I finish the report", "should I finish to finish the report "),
    ("when Anna mentions the budget", "Ben would never mention a budget to Anna, "),
]
"""Cues, and what says their words and does not show them, to be repeated without an end."""


@pytest.mark.parametrize(("cue", "again"), LONG)
def test_matching_takes_steps_in_proportion_to_the_text(cue: str, again: str) -> None:
    text = again * (12_000 // len(again))
    matches(cue, again)
    assert _steps(cue, text * 2) < 2.4 * _steps(cue, text)


@pytest.mark.parametrize("again", [again for _, again in LONG])
def test_no_sentence_is_longer_than_can_be_looked_through(again: str) -> None:
    found = read(again * 1000)
    assert max(len(one.words) for one in found) <= 2 * LONGEST
    assert {word.form for one in found for word in one.words} >= {
        word.form for one in read(again) for word in one.words
    }


def test_what_is_said_late_in_a_sentence_without_an_end_shows_a_cue() -> None:
    said = "the build failed"
    for n in range(5):
        assert fires("when the build fails", "we went on to the next of them " * (20 + n) + said)
        words = ["word"] * (LONGEST - n) + [said]
        assert fires("when the build fails", " ".join(words))


def test_a_long_question_asks_to_its_end() -> None:
    assert all(one.asks for one in read("and did they, as we said, come " * 100 + "?"))


def _steps(cue: str, text: str) -> int:
    """Lines that are run to match them."""
    count = 0

    def step(_frame: FrameType, event: str, _arg: object) -> Any:
        nonlocal count
        count += event == "line"
        return step

    before = sys.gettrace()
    sys.settrace(step)
    try:
        matches(cue, text)
    finally:
        sys.settrace(before)
    return count
