"""Cues: what stems, denial and ownership tell apart, and that looking is linear in the text."""

from __future__ import annotations

import gc
import sys
from types import FrameType
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from benchmarks.cues import PARTS, fires, pairs, unrelated
from langmem_tiers.core import texts
from langmem_tiers.core.texts import stem
from langmem_tiers.reminders.triggers import cue_anchors, read_cue, shows_cue, text_stems

CUE = "when Anna mentions the budget"
lower = st.text(alphabet="abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=12)


@given(lower)
@example("deployments")
def test_a_stem_is_its_own_and_begins_its_word(word: str) -> None:
    assert stem(word)
    assert stem(stem(word)) == stem(word)
    assert word.startswith(stem(word))


@pytest.mark.parametrize(
    "forms",
    [
        "arrive arrives arrived arriving arrival",
        "deploy deploys deployed deploying deployment deployments deployment's",
        "submit submits submitted submitting",
        "exceed exceeds exceeded exceeding",
        "study studies studied studying",
        "migrate migrates migrated migrating migration",
        "reserve reserved reserving reservation",
        "class classes",
    ],
)
def test_the_regular_forms_of_a_word_have_one_stem(forms: str) -> None:
    assert len({stem(form) for form in forms.split()}) == 1


@given(st.text(max_size=60), st.text(max_size=60))
@example("when", "")
@example("...", "?")
@example("when 1,000 come", "1000 came")
@example("when \N{LATIN CAPITAL LETTER I WITH DOT ABOVE} is", "i\u0307")
def test_whatever_shows_a_cue_holds_its_anchors(cue: str, text: str) -> None:
    for said in (text, f"{cue}. {text}"):  # what is drawn shows hardly any cue by itself
        if shows_cue(cue, said):
            assert set(cue_anchors(cue)) <= text_stems(said)
            assert cue_anchors(cue)


@pytest.mark.slow
@given(st.lists(lower, min_size=1, max_size=6), lower)
def test_what_says_all_of_a_cue_shows_it_among_other_sentences(said: list[str], other: str) -> None:
    cue = " ".join(["when", *said])
    if cue_anchors(cue):
        assert shows_cue(cue, cue)
        assert shows_cue(cue, f"{other}. {cue}! {other}")
        assert not shows_cue(cue, f"never {' '.join(said)}") or read_cue(cue).denied


@pytest.mark.parametrize("part", PARTS)
def test_the_database_finds_whatever_the_words_show(part: str) -> None:
    for one in pairs(part):
        for text in (one.shows, one.does_not):
            assert shows_cue(one.cue, text) is fires(one.cue, text)


def test_two_thirds_are_found_and_what_differs_in_a_word_is_mostly_told_apart() -> None:
    held = [one for part in ("held_out", "wide_held_out") for one in pairs(part)]
    assert sum(fires(one.cue, one.shows) for one in held) >= 0.75 * len(held)
    assert sum(fires(one.cue, one.does_not) for one in held) <= 0.30 * len(held)
    others = unrelated()[::5]
    assert sum(fires(*one) for one in others) <= 0.001 * len(others)


@pytest.mark.parametrize(
    ("cue", "text", "shown"),
    [
        (CUE, "Anna asked about the budget today.", True),
        (CUE, "What a day. Anna came by, and she asked about the budget.", True),
        (CUE, "The budget was brought up by Anna.", True),
        (CUE, "No, Anna asked about the budget.", True),
        (CUE, "Anna asked about the garden today.", False),
        (CUE, "Ben asked about the budget today.", False),
        (CUE, "Anna did not mention the budget.", False),
        (CUE, "Anna doesn\N{RIGHT SINGLE QUOTATION MARK}t mention the budget.", False),
        (CUE, "Anna left. The budget is late.", False),
        ("when Anna does not mention the budget", "Anna didn't mention the budget.", True),
        ("when Anna does not mention the budget", "Anna mentioned the budget.", False),
        ("when the deploy fails", "The deployment failed again", True),
        ("when I talk to Dana", "I'm talking to Dana.", True),
        ("when I talk to Dana", "Ben talks to Dana.", False),
        ("when my knee hurts", "My bad knee hurts.", True),
        ("when my knee hurts", "Her knee hurts.", False),
        ("buy milk when I am in town", "I am in town.", True),
        ("buy milk when I am in town", "We need to buy milk.", False),
        ("kubernetes upgrade", "How do we upgrade Kubernetes?", True),
        ("kubernetes upgrade", "How do we upgrade Postgres?", False),
        ("when 预算 is due", "关于预算的会议 is due", True),
        ("when 预算 is due", "关于花园的会议 is due", False),
    ],
)
def test_names_denial_and_whose_it_is_count(cue: str, text: str, *, shown: bool) -> None:
    assert fires(cue, text) is shown


@pytest.mark.parametrize("cue", ["", "when", "when it is", "...", "if I do"])
def test_what_names_nothing_has_no_anchors(cue: str) -> None:
    assert cue_anchors(cue) == ()
    assert not shows_cue(cue, cue)


LONG = [
    "the build of the web job has not failed yet and we went on ",
    '{"id": 17, "build": "not", "job": "failed soon"}, ',
    "The build will fail. ",
    "ing",
    "a'",
    "...",
]


@pytest.mark.parametrize("again", LONG)
def test_matching_takes_steps_in_proportion_to_the_text(again: str) -> None:
    text = again * (9_000 // len(again))
    assert _steps("when the build fails", text * 2) < 2.4 * _steps("when the build fails", text)


def test_what_is_said_late_in_a_sentence_without_an_end_shows_a_cue() -> None:
    for before in range(40, 220):
        assert fires("when the build fails", "word " * before + "the build failed")


def _steps(cue: str, text: str) -> int:
    """Lines that are run to match them."""
    count = 0

    def step(_frame: FrameType, event: str, _arg: object) -> Any:
        nonlocal count
        count += event == "line"
        return step

    texts._stem.cache_clear()
    before = sys.gettrace()
    gc.disable()  # what other tests left to be freed may run lines of its own
    sys.settrace(step)
    try:
        shows_cue(cue, text)
    finally:
        sys.settrace(before)
        gc.enable()
    return count
