"""Failures of a kind keep one signature, however they are printed; others do not share it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping

import pytest

from benchmarks.failure_families import FAMILIES, HELD_OUT
from benchmarks.failures import COUNT, KEYS, figures, keyed

FULL = os.environ.get("LANGMEM_TIERS_PROOF") == "full"

Counts = Mapping[str, Counter[str]]


def split(among: Counts) -> tuple[Counts, Counts]:
    held_out = {name: keys for name, keys in among.items() if name in HELD_OUT}
    return {name: keys for name, keys in among.items() if name not in HELD_OUT}, held_out


def check(count: int) -> None:
    among = keyed(FAMILIES, count, KEYS["signature"])
    known, unseen = split(among)

    assert len(known) >= 150
    assert len(among) == len(FAMILIES)
    assert figures(known, among).kept >= 0.94
    assert figures(among, among).collided < 0.01
    # Unseen families were written after the rules, so that they show what a new one can expect.
    assert len(unseen) >= 15
    assert figures(unseen, among).kept >= 0.97


def test_families_of_failures_keep_their_signatures_and_share_none() -> None:
    check(6)


@pytest.mark.proof
def test_a_thousand_mutations_keep_the_signature_of_their_family() -> None:
    check(COUNT if FULL else 60)
