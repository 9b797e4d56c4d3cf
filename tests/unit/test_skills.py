"""Skills: the sequences of calls that recur in successful runs, against counting them all."""

from __future__ import annotations

from collections import defaultdict
from itertools import groupby
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError
from langmem_tiers.learning.skills import (
    MAX_LENGTH,
    MIN_LENGTH,
    SkillStep,
    Steps,
    ToolCall,
    Trace,
    skill_candidates,
)

CALLS = st.builds(
    ToolCall,
    st.sampled_from("abc"),
    st.sampled_from([frozenset[str](), frozenset({"x"})]),
    st.sampled_from([True, True, True, False]),
)
TRACES = st.lists(
    st.builds(
        Trace,
        st.sampled_from("123456"),
        st.lists(CALLS, max_size=9).map(tuple),
        st.sampled_from([True, True, False]),
    ),
    max_size=12,
)


def call(tool: str, *arguments: str, succeeded: bool = True) -> ToolCall:
    return ToolCall(tool, frozenset(arguments), succeeded)


def trace(run: str, tools: str, *, succeeded: bool = True) -> Trace:
    """A run in which each letter is a call; a capital one fails."""
    calls = tuple(call(tool.lower(), succeeded=tool.islower()) for tool in tools)
    return Trace(run, calls, succeeded)


def like_call(**wrong: Any) -> ToolCall:
    return call("a")._replace(**wrong)


def windows(one: Trace, most: int) -> set[Steps]:
    done = [SkillStep(c.tool, tuple(sorted(c.arguments))) for c in one.calls if c.succeeded]
    steps = [step for step, _ in groupby(done)]
    return {
        tuple(steps[start:end])
        for start in range(len(steps))
        for end in range(start + 1, min(start + most, len(steps)) + 1)
    }


def part_of(one: Steps, other: Steps) -> bool:
    return len(one) < len(other) and any(
        one == other[start : start + len(one)] for start in range(len(other))
    )


def by_brute_force(
    traces: list[Trace], support: int, least: int, most: int
) -> dict[Steps, tuple[tuple[str, ...], float]]:
    """Count every sequence in every run, then leave out what is mostly part of a longer one."""
    failed = {one.run for one in traces if not one.succeeded}
    containing: dict[Steps, set[str]] = defaultdict(set)
    for one in traces:
        for window in windows(one, most):
            containing[window].add(one.run)
    good = {steps: runs - failed for steps, runs in containing.items()}
    kept: list[Steps] = []
    for steps in sorted(good, key=len, reverse=True):
        alone = good[steps].difference(*(good[one] for one in kept if part_of(steps, one)))
        if len(alone) >= support and len(steps) >= least:
            kept.append(steps)
    return {
        steps: (tuple(sorted(good[steps])), len(good[steps]) / len(containing[steps]))
        for steps in kept
    }


@settings(derandomize=True, max_examples=60)
@given(TRACES, st.integers(1, 3))
def test_candidates_are_those_that_counting_everything_finds(
    traces: list[Trace], support: int
) -> None:
    candidates = skill_candidates(traces, min_support=support)
    expected = by_brute_force(traces, support, MIN_LENGTH, MAX_LENGTH)
    assert {one.steps: (one.runs, one.success_rate) for one in candidates} == expected
    assert all(one.support == len(expected[one.steps][0]) for one in candidates)
    assert len({one.signature for one in candidates}) == len(candidates) == len(expected)


def test_a_skill_reads_as_numbered_steps_and_names_no_values() -> None:
    traces = [
        Trace(run, (call("searchWeb", "query"), call("edit_file", "text", "path")), succeeded=True)
        for run in "123"
    ]
    (one,) = skill_candidates(traces)
    assert one.content == (
        "To search web, then edit file: 1. searchWeb(query) 2. edit_file(path, text)"
    )


def test_bounds_and_traces_that_mean_nothing_are_refused() -> None:
    bounds: Any
    for bounds, error in (
        ({"min_support": 0}, InvalidInputError),
        ({"min_support": True}, InvalidTypeError),
    ):
        with pytest.raises(error, match=list(bounds)[-1]):
            skill_candidates([], **bounds)
    wrong: Any
    for wrong, error in (
        ({"run": 1}, InvalidTypeError),
        ({"run": ""}, InvalidInputError),
        ({"succeeded": None}, InvalidTypeError),
        ({"calls": ["a"]}, InvalidTypeError),
        ({"calls": None}, InvalidTypeError),
        ({"calls": iter(trace("1", "ab").calls)}, InvalidTypeError),
        ({"calls": [like_call(tool=1)]}, InvalidTypeError),
        ({"calls": [like_call(tool="")]}, InvalidInputError),
        ({"calls": [like_call(arguments="query")]}, InvalidTypeError),
        ({"calls": [like_call(arguments=frozenset({1}))]}, InvalidTypeError),
        ({"calls": [like_call(succeeded=None)]}, InvalidTypeError),
    ):
        with pytest.raises(error):
            skill_candidates([trace("2", "ab"), trace("1", "ab")._replace(**wrong)])
    with pytest.raises(InvalidTypeError, match="a trace is Trace"):
        skill_candidates(["ab"])  # type: ignore[list-item]


def test_a_skill_that_another_holds_is_kept_for_the_runs_that_need_no_more() -> None:
    whole = [trace(f"long-{n}", "abcd") for n in range(3)]
    odd = [trace(f"short-{n}", "abc") for n in range(3)]

    assert [one.signature for one in skill_candidates([*whole, *odd[:2]])] == [
        "a() > b() > c() > d()"
    ]
    assert [one.signature for one in skill_candidates([*whole, *odd])] == [
        "a() > b() > c()",
        "a() > b() > c() > d()",
    ]


def test_three_skills_are_found_among_a_thousand_runs_of_other_things() -> None:
    planted = [trace("", "abc").calls, trace("", "de").calls, trace("", "bcf").calls]
    traces = [
        Trace(str(n), (call(f"before{n}"), *planted[n % 3], call(f"after{n}")), succeeded=n % 4 > 0)
        for n in range(1_200)
    ]
    candidates = skill_candidates(traces)
    assert [one.signature for one in candidates] == [
        "a() > b() > c()",
        "b() > c() > f()",
        "d() > e()",
    ]
    assert [one.support for one in candidates] == [300, 300, 300]
    assert {one.success_rate for one in candidates} == {0.75}
