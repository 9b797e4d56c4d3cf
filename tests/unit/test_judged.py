"""What rules of learning decide, beside what hands say: the figures of docs/learning.md."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest

from benchmarks.data import records
from benchmarks.judged import retries, used
from langmem_tiers.core.texts import normalise


def sums(lines: Callable[[], Iterator[str]]) -> list[int]:
    """The numbers that come before "of", and those after it, over all writers."""
    found = [re.findall(r"(\d+) of (\d+)", one) for one in lines()]
    return [
        sum(int(one[place][side]) for one in found)
        for place in range(len(found[0]))
        for side in (0, 1)
    ]


def test_no_two_statements_that_differ_are_taken_for_the_same() -> None:
    pairs = records("pairs")
    assert len(pairs) == 400
    assert not any(normalise(one["one"]) == normalise(one["other"]) for one in pairs)


@pytest.mark.parametrize(
    ("lines", "figures"),
    [(used, [130, 184, 46, 407]), (retries, [81, 102, 208, 413])],
)
def test_the_figures_are_those_of_the_documentation(
    lines: Callable[[], Iterator[str]], figures: list[int]
) -> None:
    assert sums(lines) == figures
