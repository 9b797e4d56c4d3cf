"""What is handed to a turn in a form that it cannot have: refused with what to give, or cleaned."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from langmem_tiers import MemoryCoordinator, MemoryOrchestrator, TieredStore
from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError
from tests.support.coordinating import coordinator
from tests.support.opening import text_index
from tests.support.servers import fresh_database

FACT = "The API key is rotated on Mondays."
ODD: dict[str, Any] = {
    "whole": 5,
    "true": True,
    "nan": float("nan"),
    "digits": 10**5000,
    "object": object(),
    "text": "text",
    "nul": "a\0b",
    "half": "\ud800",
    "numbers": [5],
    "nuls": ["a\0b"],
    "mapping": {"a\0b": 1},
    "bytes": b"x",
    "set": {5},
}
FIELDS = [name for name in inspect.signature(MemoryCoordinator.store).parameters if name != "self"]


@pytest.fixture(scope="module")
def memory(server_url: str) -> Iterator[MemoryCoordinator]:
    with fresh_database(server_url) as url, TieredStore(url, index=text_index()) as store:
        store.setup()
        opened = coordinator(store, project_id="ops", session_id="chat")
        opened.state.set_goal("goal", "Rotate the keys")
        yield opened


def went(memory: MemoryCoordinator, verb: str, **given: Any) -> bool:
    """Whether a turn takes it: then it can be kept between two nodes, and committed."""
    with MemoryOrchestrator(memory) as turn:
        try:
            getattr(turn, verb)(**given)
        except InvalidInputError:
            assert turn.get_budget_status().events_used == 0
            return False
        json.dumps(turn.to_state())
        turn.commit()
        return True


@pytest.mark.parametrize("name", FIELDS)
def test_a_field_of_another_type_is_kept_or_refused_before_anything_is(
    memory: MemoryCoordinator, name: str
) -> None:
    for odd, value in ODD.items():
        taken = went(memory, "memorize", item={"content": FACT, name: value})
        if name in ("tags", "derived_from", "entities", "recalled"):
            assert not taken or (name, odd) == ("recalled", "nuls")


@pytest.mark.parametrize(
    ("verb", "given", "said"),
    [
        ("memorize", {"item": {"content": FACT, "tags": "ops"}}, "tags is a list of strings"),
        ("memorize", {"item": {"content": FACT, "recalled": 5}}, "recalled is a list of what"),
        ("memorize", {"item": FACT, "metadata": 5}, "metadata"),
        ("track_tool_invocation", {"tool_name": "look", "call_id": 5}, "call_id is a string or"),
        ("assemble_context", {"prompt": "keys", "tools": 5}, "tools is a list or None, not 5"),
    ],
)
def test_what_is_of_another_type_is_refused_with_what_to_give(
    memory: MemoryCoordinator, verb: str, given: dict[str, Any], said: str
) -> None:
    with MemoryOrchestrator(memory) as turn, pytest.raises(InvalidTypeError, match=said):
        getattr(turn, verb)(**given)


@pytest.mark.parametrize(
    ("verb", "sound"),
    [
        ("track_tool_invocation", {"tool_name": "look"}),
        ("note_progress", {"goal_id": "goal", "delta": 0.0, "reason": "none"}),
        ("assemble_context", {"prompt": "keys"}),
    ],
)
def test_an_argument_of_another_type_is_taken_or_refused_before_anything_is_kept(
    memory: MemoryCoordinator, verb: str, sound: dict[str, Any]
) -> None:
    memory.state.set_goal("text", "A goal of that name")
    for name in inspect.signature(getattr(MemoryOrchestrator, verb)).parameters:
        for odd in ODD.values() if name != "self" else ():
            taken = went(memory, verb, **{**sound, name: odd})
            assert taken or name not in ("result", "error")


def _within_itself() -> dict[str, Any]:
    loop: dict[str, Any] = {}
    loop["loop"] = loop
    return loop


def _nested(levels: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for _ in range(levels):
        found = {"in": found}
    return found


def test_what_postgres_cannot_hold_of_a_call_is_kept_as_text(memory: MemoryCoordinator) -> None:
    cases: list[tuple[Any, dict[str, Any]]] = [
        ({"a\0b": "c\0d"}, {"a�b": "c�d"}),
        ({"a": [{"b\0": "\ud800"}]}, {"a": [{"b�": "?"}]}),
        ({"a": "\\u0000", "b": "\\\0"}, {"a": "\\u0000", "b": "\\�"}),
        ({5: 1, ("x",): 2}, {"5": 1, "('x',)": 2}),
        ({"at": datetime(2026, 5, 4, tzinfo=UTC)}, {"at": "2026-05-04 00:00:00+00:00"}),
        ({"a": 10**5000, "b": 2}, {"a": "a number of 16,610 bits", "b": 2}),
    ]
    for given, kept in cases:
        with MemoryOrchestrator(memory) as turn:
            tracked = turn.track_tool_invocation("look", given, result=[given])
            turn.commit()
        found = memory.get(str(tracked.key))
        assert found is not None
        assert found.value["tool_call"]["parameters"] == kept


def test_what_is_nested_deeply_or_within_itself_can_be_kept_between_two_nodes(
    memory: MemoryCoordinator,
) -> None:
    for given in (*map(_nested, (60, 500, *range(900, 1000, 20), 5000)), _within_itself()):
        call = {"tool_name": "look", "parameters": given, "result": given}
        assert went(memory, "track_tool_invocation", **call)
    for levels in (60, 500):
        assert went(memory, "memorize", item=f"{FACT} {levels}", metadata=_nested(levels))
    turn = MemoryOrchestrator(memory).begin()
    turn.track_tool_invocation("look", {"deep": _nested(51), "flat": _nested(49)})
    (call,) = turn.to_state()["calls"]
    assert json.dumps(call["parameters"]["deep"]).count('{"in": ') == 50
    assert call["parameters"]["flat"] == _nested(49)


class SilentError(Exception):
    """Cannot say what it is."""

    def __str__(self) -> str:
        raise RuntimeError

    __repr__ = __str__


def test_what_cannot_be_written_is_tracked_by_what_it_is(memory: MemoryCoordinator) -> None:
    silent = SilentError()
    for given in (
        {"parameters": {10**6000: 1}},
        {"parameters": {silent: 1}},
        {"parameters": {"of": silent}},
        {"result": silent},
        {"result": [silent]},
        {"error": silent},
    ):
        assert went(memory, "track_tool_invocation", tool_name="look", **given)
