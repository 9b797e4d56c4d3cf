"""What no caller should hand over is refused with a reason, or kept as far as it can be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from langchain_core.messages import HumanMessage

from langmem_tiers import (
    Budget,
    MemoryCoordinator,
    MemoryHooks,
    MemoryOrchestrator,
    Persona,
    TieredStore,
)
from langmem_tiers.core.config import positive_minutes
from langmem_tiers.core.errors import ConfigurationError, InvalidInputError, InvalidTypeError, short
from langmem_tiers.turn.persona import OperationalState
from tests.support.coordinating import coordinator
from tests.support.opening import text_index

HUGE = 10**400
FACT = "The API key is rotated on Mondays."


@pytest.fixture
def memory(url: str) -> Iterator[MemoryCoordinator]:
    with TieredStore(url, index=text_index()) as store:
        yield coordinator(store, project_id="ops", session_id="chat")


def deep() -> dict[str, Any]:
    """A mapping in a mapping, 3,000 times."""
    found: dict[str, Any] = {}
    for _ in range(3000):
        found = {"a": found}
    return found


ITEM = {"id": "a\0", "content": "I am kind.", "rationale": "so\ud800"}


@pytest.mark.parametrize(
    ("shown", "sources"),
    [
        ({"messages": [{"role": "user", "content": "hi", "timestamp": "a\0\ud800"}]}, None),
        ({"messages": [HumanMessage("hi", id="a\0b")]}, None),
        ({"tools": [{"name": "a\0b\ud800", "description": "reads a file"}]}, None),
        ({}, {"identity": {"identity": [ITEM], "effective_at": "\0"}}),
        ({}, {"wiki": lambda *_: {"items": [{"content": "x"}], "effective_at": "\0\ud800"}}),
    ],
)
def test_what_cannot_be_stored_in_a_label_costs_no_turn(
    memory: MemoryCoordinator, shown: dict[str, Any], sources: dict[str, Any] | None
) -> None:
    with MemoryOrchestrator(memory, sources=sources) as turn:
        turn.assemble_context("When is the key rotated?", **shown)
        turn.memorize(FACT)
        report = turn.commit()

    assert [one.content for one in memory.get_context("API key")] == [FACT]
    assert report.trace.of_kind("assembled")


def test_a_number_beyond_all_floats_is_refused(memory: MemoryCoordinator) -> None:
    with pytest.raises(InvalidInputError, match="seconds"):
        MemoryOrchestrator(memory, budget=Budget(seconds=HUGE)).begin()
    with (
        MemoryOrchestrator(memory) as turn,
        pytest.raises(InvalidInputError, match="duration is"),
    ):
        turn.track_tool_invocation("search", duration=HUGE)
    mood = {"primary_emotion": "calm", "confidence_level": HUGE}
    with pytest.raises(InvalidInputError, match="confidence_level"):
        OperationalState(emotional_state=mood).remember("", {})
    with pytest.raises(ConfigurationError, match="minutes"):
        positive_minutes(HUGE, "ttl")


@pytest.mark.parametrize("given", [[], deep()], ids=["a list", "a deep mapping"])
@pytest.mark.parametrize("name", ["source", "memory_type", "key"])
def test_a_name_is_a_text(memory: MemoryCoordinator, name: str, given: object) -> None:
    with pytest.raises(InvalidTypeError):
        memory.store_many([{"content": FACT, name: given}])
    if name == "source":
        with pytest.raises(InvalidTypeError):
            memory.intend("Call Ben", cue="when Anna calls", source=given)
    with pytest.raises(InvalidTypeError, match="task_id"):
        MemoryHooks(memory).complete_task(given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "call",
    [
        lambda memory: memory.get_context("x", tiers=[deep()]),
        lambda memory: memory.get_context("x", review=deep()),
        lambda memory: memory.store(FACT, recalled=deep()),
        lambda memory: memory.remind(tool=deep()),
        lambda memory: memory.acknowledge(deep()),
        lambda memory: memory.intend("Call Ben", cue="when Anna calls", priority=deep()),
        lambda _: Budget(tokens=deep()),  # type: ignore[arg-type]
        lambda _: Persona(persona_name="Nova", must_do=[deep()]),  # type: ignore[list-item]
        lambda _: OperationalState(emotional_state=deep()).remember("", {}),
    ],
)
def test_what_is_nested_deeply_is_refused_with_a_reason(
    memory: MemoryCoordinator, call: Callable[[MemoryCoordinator], object]
) -> None:
    with pytest.raises(InvalidInputError):
        call(memory)


def test_an_error_shows_the_beginning_of_any_value() -> None:
    assert short({"a": [1, "b"]}) == "{'a': [1, 'b']}"
    assert short("x" * 500, 40) == f"'{'x' * 39}"
    assert short(10**9000) == "a number of 29,898 bits"
    assert len(short(deep())) <= 80
