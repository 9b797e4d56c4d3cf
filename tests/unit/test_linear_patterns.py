"""Every pattern of the package takes time in proportion to the text, whatever that is made of."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence

import pytest

from tests.support.patterns import Family, Used, every_pattern, families

SHORT = 1_500
"""Characters of the shorter text."""
TIMES = 4
MOST = 2.5**2
"""How much longer a text of four times the length may take: 2.5 times for each doubling."""
TELLING = 0.0015
"""Seconds below which a time says nothing; a text of a million characters so takes a second."""
TRIES = 5
ROUNDS = 3
"""Times that a pattern has to be slow in a row: what else a machine does is no fault of it."""
SAMPLE = 1
"""Families that each pattern is tried on by `make test`; `make proof` tries all."""
_LINE = 2_000
CUT = {
    "learning.signature._SIGNS": _LINE,
    "learning.signature._STEPS": _LINE,
    "learning.signature._ASSERTED": _LINE,
    "learning.signature._ACCIDENTS": _LINE,
}
"""Patterns of which no text is longer than this: lines of failures are cut before they are read."""
HELD = 0.5
"""Seconds that none of these may take."""


def seconds(call: Callable[[str], object], text: str) -> float:
    """Of the processor, at best."""
    best = float("inf")
    for _ in range(TRIES):
        began = time.thread_time()
        call(text)
        best = min(best, time.thread_time() - began)
        if best < TELLING:
            break
    return best


def grows(call: Callable[[str], object], family: Family) -> bool:
    """Whether a text of four times the length takes longer than in proportion."""
    one = seconds(call, family.text(SHORT))
    return one > TELLING and seconds(call, family.text(TIMES * SHORT)) > MOST * one


def superlinear(used: Used, several: Sequence[Family]) -> list[str]:
    """Where a pattern takes longer than in proportion."""
    cut = next((most for name, most in CUT.items() if used.name.startswith(name)), None)
    found = []
    for call in used.calls():
        for family in several:
            if cut is not None:
                slow = seconds(call, family.text(cut)[:cut]) > HELD
            else:
                slow = all(grows(call, family) for _ in range(ROUNDS))
            if slow:
                found.append(f"{used.name}: {family}")
    return found


def sampled(used: Used) -> list[Family]:
    """Some of the texts, the same in each run; those that are made of the pattern first."""
    several = families(used.pattern)
    chance = random.Random(used.name)  # noqa: S311 - seeded, so that it is the same
    return chance.sample(several, min(SAMPLE, len(several)))


def test_every_pattern_is_found() -> None:
    names = {one.name for one in every_pattern()}
    assert len(names) > 150
    assert {
        "core.errors._CREDENTIALS",
        "learning.signature._ACCIDENTS",
        "recall.prompt_text._FENCE",
    } <= names


@pytest.mark.slow
def test_a_sample_of_texts_takes_no_pattern_longer_than_in_proportion() -> None:
    slow = [one for used in every_pattern() for one in superlinear(used, sampled(used))]
    assert not slow


@pytest.mark.parametrize("piece", ["a", " "])
def test_runs_of_one_piece_take_no_pattern_longer_than_in_proportion(piece: str) -> None:
    slow = [one for used in every_pattern() for one in superlinear(used, [Family("", piece, "!")])]
    assert not slow


@pytest.mark.proof
@pytest.mark.parametrize("used", every_pattern(), ids=lambda one: one.name)
def test_no_text_takes_a_pattern_longer_than_in_proportion(used: Used) -> None:
    assert not superlinear(used, families(used.pattern))
