"""How states change: progress adds up exactly and stays in its bounds, and money is never lost."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langmem_tiers.agent_state.models import (
    MAX_DELTAS,
    DailySpend,
    EmotionalState,
    Goal,
    Message,
    ProgressDelta,
    Task,
    parse_amount,
    state_from_json,
    state_to_json,
)
from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
GOAL = Goal(goal_id="ship", description="Ship the release")
TASK = Task(task_id="report", task_type="writing", created_at=NOON)
DELTAS = st.floats(-1, 1)
TENTHS = st.integers(-10, 10).map(lambda tenths: tenths / 10)
AMOUNTS = st.decimals(0, 10**12, allow_nan=False, places=9)


def step(delta: float, **fields: Any) -> ProgressDelta:
    return ProgressDelta(**{"delta": delta, "reason": "work", "at": NOON, **fields})


def with_(one: Any, **fields: Any) -> Any:
    return replace(one, **fields)


def advanced(deltas: list[float]) -> Goal:
    goal = GOAL
    for delta in deltas:
        goal = goal.advanced(step(delta))
    return goal


# Progress


@given(st.lists(DELTAS, max_size=30))
def test_progress_stays_from_0_to_1_and_each_delta_is_kept_in_order(deltas: list[float]) -> None:
    goal = advanced(deltas)
    assert 0 <= goal.progress <= 1
    assert [one.delta for one in goal.deltas] == deltas


@given(st.lists(TENTHS, max_size=30))
def test_decimal_deltas_add_up_exactly_and_are_clamped_at_each_step(deltas: list[float]) -> None:
    tenths = 0
    for delta in deltas:
        tenths = min(10, max(0, tenths + round(delta * 10)))
    assert advanced(deltas).progress == tenths / 10


@given(st.lists(DELTAS, min_size=1, max_size=5))
def test_a_delta_whose_id_was_seen_changes_nothing(deltas: list[float]) -> None:
    goal = advanced(deltas).advanced(step(0.5, delta_id="once"))
    assert goal.advanced(step(-0.25, delta_id="once")) == goal
    assert goal.advanced(step(0.0, delta_id="twice")) != goal


def test_a_goal_keeps_its_newest_deltas_and_the_progress_of_all() -> None:
    goal = advanced([0.001] * (MAX_DELTAS + 50))
    assert len(goal.deltas) == MAX_DELTAS
    assert goal.progress == 0.15


# Spend


@given(st.lists(AMOUNTS, max_size=30), st.randoms(use_true_random=False))
def test_spend_adds_up_exactly_in_whatever_order(spent: list[Decimal], random: Any) -> None:
    day = DailySpend(date=NOON.date())
    for one in spent:
        day = day.plus(parse_amount(one), NOON)
    shuffled = list(spent)
    random.shuffle(shuffled)
    other = DailySpend(date=NOON.date())
    for one in shuffled:
        other = other.plus(parse_amount(one), NOON)
    nanos = sum(int(one.scaleb(9)) for one in spent)
    assert day == other
    assert day.total_spent == Decimal(nanos).scaleb(-9)
    assert day.transaction_count == len(spent)


@given(st.integers(0, 10**7).map(lambda cents: cents / 100))
def test_an_amount_is_what_it_prints_as_and_has_nine_decimals_at_most(spent: float) -> None:
    assert parse_amount(spent) == Decimal(str(spent))
    assert parse_amount(Decimal("0.000000001")) == Decimal("1e-9")
    assert parse_amount(Decimal("1.50000000000000")) == Decimal("1.5")
    with pytest.raises(InvalidInputError, match="round it"):
        parse_amount(Decimal("0.0000000001"))
    for wrong in (-1, -0.01, float("nan"), float("inf"), Decimal("NaN"), 10**13):
        with pytest.raises(InvalidInputError, match="use one from 0 to"):
            parse_amount(wrong)
    other: Any
    for other in (True, "1.5", None):
        with pytest.raises(InvalidTypeError, match="a Decimal or a number"):
            parse_amount(other)


# Tasks, and what is refused


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Message(message_id="", role="user", content="x", at=NOON), "message_id has 1 to"),
        (lambda: Message(message_id="m", role=" ", content="x", at=NOON), "role is empty"),
        (lambda: with_(TASK, task_id=None), "task_id is a string"),
        (lambda: with_(TASK, confidence_so_far=1.5), "from 0 to 1"),
        (lambda: with_(TASK, created_at=NOON.replace(tzinfo=None)), "needs a time zone"),
        (lambda: with_(TASK, estimated_completion="soon"), "is no date"),
        (lambda: with_(TASK, metadata=["a"]), "metadata is a mapping"),
        (lambda: with_(GOAL, priority=0.5), "whole number"),
        (lambda: with_(GOAL, constraints="cheap"), "constraints is a list"),
        (lambda: with_(GOAL, progress=None), "from 0 to 1"),
        (lambda: step(25), "from -1 to 1"),
        (lambda: step("0.5"), "delta is a number"),  # type: ignore[arg-type]
        (lambda: EmotionalState(primary_emotion="\0", last_updated=NOON), "NUL"),
        (lambda: DailySpend(date=NOON), "a day in UTC"),
        (lambda: DailySpend(date="yesterday"), "is no day"),  # type: ignore[arg-type]
        (lambda: DailySpend(date=NOON.date(), total_spent=0.1), "is a Decimal"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_state_is_refused_with_what_to_do(make: Any, says: str) -> None:
    with pytest.raises(InvalidInputError, match=says):
        make()


@given(
    st.lists(DELTAS, max_size=3), st.text(min_size=1).filter(lambda x: x.strip() and "\0" not in x)
)
def test_every_state_is_read_as_it_was_written(deltas: list[float], text: str) -> None:
    goal = replace(advanced(deltas), description=text, constraints=("cheap",), priority=-3)
    mood = EmotionalState(
        primary_emotion=text, last_updated=NOON, confidence_level=0.5, stress_indicators={"a": 1}
    )
    spend = DailySpend(date=date(2026, 3, 1)).plus(Decimal("0.10"), NOON)
    task = with_(TASK, estimated_completion="2026-03-01T13:00:00+01:00", metadata={"a": [1, None]})
    assert (task.estimated_completion, task.estimated_completion.tzinfo) == (NOON, UTC)
    states: list[Any] = [goal, mood, spend, task, *goal.deltas]
    for one in states:
        value = json.loads(json.dumps(state_to_json(one)))
        assert state_from_json(type(one), value) == type(one)(**value) == one
