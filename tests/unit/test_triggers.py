"""Triggers: nothing is met early."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from langmem_tiers import At, BeforeTool, If, When
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.reminders.intentions import DueRow
from langmem_tiers.reminders.triggers import (
    NextCall,
    Occasion,
    Trigger,
    trigger_from_json,
    trigger_to_json,
)

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)

moments = st.datetimes(
    min_value=datetime(2000, 1, 1),  # noqa: DTZ001 - the zone is drawn beside it
    max_value=datetime(2100, 1, 1),  # noqa: DTZ001
    timezones=st.just(UTC),
)
scalars = st.none() | st.booleans() | st.integers(-9, 9) | st.text("ab*?", max_size=3)
args = st.dictionaries(st.sampled_from("xyz"), scalars, max_size=3)
names = st.sampled_from(["deploy", "search"])
triggers: st.SearchStrategy[Trigger] = st.one_of(
    st.builds(At, st.none() | moments),
    st.sampled_from(["when Anna mentions the budget", "if the build fails"]).map(When),
    st.builds(BeforeTool, names, args),
    st.builds(If, names),
)


# Triggers


@given(moments, moments)
@example(NOON, NOON)
def test_a_time_is_met_from_its_moment_on_and_not_before(at: datetime, now: datetime) -> None:
    assert At(at).is_met(Occasion(now)) is (now >= at)


@given(triggers)
def test_a_trigger_comes_back_from_json_as_it_was(trigger: Trigger) -> None:
    assert trigger_from_json(trigger_to_json(trigger)) == trigger


@given(args, args)
def test_a_call_meets_a_trigger_exactly_if_each_argument_does(
    wanted: dict[str, Any], given_: dict[str, Any]
) -> None:
    one = BeforeTool("deploy", wanted)
    each = [BeforeTool("deploy", {name: value}) for name, value in wanted.items()]
    call = NextCall("deploy", given_)
    assert one.matches(call) is all(part.matches(call) for part in each)
    assert not one.matches(NextCall("search", given_))


@pytest.mark.parametrize(
    ("wanted", "said", "met"),
    [
        ("prod*", "production", True),
        ("prod*", "staging", False),
        ("?", "ab", False),
        ("*", None, True),
        (1, 1.0, True),
        (1, True, False),
        (False, 0, False),
        ([1, 2], [1, 2], True),
        ({"a": 1}, {"a": 2}, False),
    ],
)
def test_a_text_is_a_pattern_and_anything_else_is_compared(
    wanted: Any, said: Any, *, met: bool
) -> None:
    assert BeforeTool("deploy", {"x": wanted}).matches(NextCall("deploy", {"x": said})) is met
    assert not BeforeTool("deploy", {"x": wanted}).matches(NextCall("deploy", {"y": said}))


def test_kinds_leave_out_others_and_what_was_raised_before() -> None:
    tool = BeforeTool("deploy")
    calls = (NextCall("deploy", {}),)
    only = frozenset({"tool"})
    assert DueRow(1, 0, NOON, tool, raised=True).is_met(Occasion(NOON))
    assert not DueRow(1, 0, NOON, tool, raised=True).is_met(Occasion(NOON, kinds=only))
    assert DueRow(1, 0, NOON, tool, raised=False).is_met(Occasion(NOON, calls=calls, kinds=only))
    assert not DueRow(1, 0, NOON, At(), raised=False).is_met(Occasion(NOON, kinds=only))


# Cues


def test_a_cue_of_more_than_a_thousand_characters_is_refused() -> None:
    assert When(f"when Anna mentions {'x' * 981}").words
    with pytest.raises(InvalidInputError, match="the cue has 1,001 characters"):
        When(f"when Anna mentions {'x' * 982}")


@pytest.mark.parametrize("shown", [True, False])
def test_what_a_judge_says_of_a_cue_counts_and_not_its_words(*, shown: bool) -> None:
    cue = When("when the build fails")
    said = Occasion(NOON, "it broke" if shown else "the build fails")
    assert cue.is_met(said) is not shown
    assert cue.is_met(said._replace(shown=frozenset([cue.cue] if shown else []))) is shown
