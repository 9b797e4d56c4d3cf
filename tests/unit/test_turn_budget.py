"""A turn's budget, its state between nodes, and its trace, as plain data."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.errors import BudgetExceededError, InvalidInputError
from langmem_tiers.remember.new_memory import NewMemory
from langmem_tiers.turn.record import LONGEST_RESULT, TurnRecord, read_tool_call
from langmem_tiers.turn.trace import (
    Budget,
    TurnEvent,
    TurnTrace,
    event_key_bounds,
    record_call,
    to_json_fields,
)

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
ACME = MemoryContext(tenant="acme", project_id="billing")
TOLD: dict[str, Any] = {"duration": None, "relevance": None, "call_id": None}

limits = st.none() | st.integers(0, 50)


@given(limits, limits, st.none() | st.floats(0, 50), st.tuples(*[st.integers(0, 60)] * 3))
def test_what_is_left_is_the_budget_less_what_is_spent_and_needed_by_what_goes_on(
    tokens: int | None, events: int | None, seconds: float | None, spent: tuple[int, int, int]
) -> None:
    given_ = (tokens, events, seconds)
    found = Budget(tokens=tokens, events=events, seconds=seconds).status(*spent)

    assert (found.tokens_used, found.events_used, found.seconds_used) == spent
    left = [
        None if one is None else max(0, one - used) for one, used in zip(given_, spent, strict=True)
    ]
    assert [found.tokens_left, found.events_left, found.seconds_left] == left
    if 0 in left:
        with pytest.raises(BudgetExceededError, match=r"cannot go on: .*Budget\("):
            found.check("go on", tokens=True)
    else:
        found.check("go on", tokens=True)
    if 0 not in left[1:]:
        found.check("go on")


def test_a_limit_or_a_state_that_is_none_is_refused() -> None:
    wrong: dict[str, Any]
    for wrong in ({"tokens": -1}, {"events": 1.5}, {"seconds": "3"}, {"seconds": float("nan")}):
        with pytest.raises(InvalidInputError):
            Budget(**wrong)
    for wrong in ({}, {"turn": "t"}, {**turn().to_state(), "colour": 1}):
        with pytest.raises(InvalidInputError, match="the state holds no turn"):
            TurnRecord.of_state(wrong)


def turn() -> TurnRecord:
    record = TurnRecord(turn="t1", began=NOW, prompt="Add up", tokens=7, spent=2)
    record.pending.append(NewMemory(content="one", tags=("a",), occurred_at=NOW, key="k"))
    for given_, answer in (("1,2", {"error": "ValueError: comma"}), ("12", {"result": "12"})):
        told = {"result": None, "error": None, **answer}
        one, _ = read_tool_call("add", {"amount": given_}, told["result"], told["error"], **TOLD)
        record.calls.append(replace(one, key=record.key("call", len(record.calls))))
        record.pending.append(replace(record.calls[-1].to_memory(NOW, record.task), trust=0.6))
    record.goals.append({"goal": "g", "delta": 1.0})
    record.events.append(TurnEvent(kind="memorized", at=NOW, reasons=("why",), key="k"))
    return record


@settings(max_examples=40)
@given(
    st.text(),
    st.lists(st.dictionaries(st.text(), st.text() | st.integers() | st.lists(st.floats()))),
    st.lists(st.text(min_size=1)),
)
def test_a_turn_is_the_same_after_it_was_json(
    prompt: str, calls: list[dict[str, Any]], reasons: list[str]
) -> None:
    record = turn()
    record.prompt = prompt
    for number, parameters in enumerate(calls):
        one, _ = read_tool_call("add", parameters, "12", None, **TOLD)
        record.calls.append(replace(one, key=record.key("call", number)))
    record.events += [TurnEvent(kind="memorized", at=NOW, reasons=(why,)) for why in reasons]
    state = json.loads(json.dumps(record.to_state()))

    again = TurnRecord.of_state(state)

    assert again.to_state() == record.to_state() == state
    assert to_json_fields(again.pending[0]) == to_json_fields(record.pending[0])
    assert again.calls == record.calls


def test_a_turn_went_as_its_last_call_did_unless_it_is_said() -> None:
    record = turn()
    trace, said = record.trace(success=None), record.trace(success=False)
    empty = TurnRecord(turn="t", began=NOW).trace(success=True)

    assert trace is not None
    assert (trace.succeeded, [one.succeeded for one in trace.calls]) == (True, [False, True])
    assert said is not None
    assert not said.succeeded
    assert empty is None


def event_names(turn: str, events: list[TurnEvent]) -> list[str]:
    found: list[str] = record_call(ACME, TurnTrace(turn=turn, events=tuple(events))).params[
        "events"
    ]
    return found


@given(st.text(min_size=1), st.text(min_size=1), st.integers(1, 1200))
def test_events_of_a_turn_lie_side_by_side_in_order_and_apart_from_any_others(
    name: str, other: str, number: int
) -> None:
    events = [TurnEvent(kind="memorized", at=NOW)] * number
    names, (low, high) = event_names(name, events), event_key_bounds(name)

    assert names == sorted(names)
    assert all(low <= one < high for one in names)
    if other != name:
        assert not any(low <= one < high for one in event_names(other, events[:1]))


def test_long_results_are_shortened_and_say_so() -> None:
    one, _ = read_tool_call("tool", {"text": "x" * 99_999}, "y" * 99_999, None, **TOLD)

    assert len(one.result or "") < LONGEST_RESULT + 60
    assert "95,999 characters left out" in (one.result or "")
    assert len(one.parameters["text"]) < LONGEST_RESULT + 60
