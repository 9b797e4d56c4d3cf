"""The orchestrator's example scenario, its thirteen steps in order, with an embedded database."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from langmem_tiers import (
    Assembled,
    Budget,
    BudgetStatus,
    CommitReport,
    Memorized,
    MemoryContext,
    MemoryCoordinator,
    MemoryOrchestrator,
    TieredStore,
    Tracked,
)

CONSCIOUSNESS = {
    "identity": [
        {"id": "charter", "content": "I keep the calendar of ops", "rationale": "charter"}
    ],
    "mandates": {"on-call": [{"id": "m1", "content": "Answer in one line", "rationale": "mode"}]},
    "capabilities": [{"id": "c1", "content": "I can read calendars", "rationale": "tools"}],
    "governance": [{"id": "g1", "content": "Never print a key", "rationale": "security"}],
    "effective_at": "2026-01-01T00:00:00+00:00",
}
GOALS = {"active_goals": ["Rotate the keys"], "constraints": ["Not on Fridays"]}


QUERY = "When does the API key rotate?"
RESPONSE = "The API key rotates on Monday at 9:00."
RESULT = "Key rotation: Monday, 9:00"


class Gone(NamedTuple):
    """A turn that was gone through."""

    memory: MemoryCoordinator
    orchestrator: MemoryOrchestrator
    context: Assembled
    tracked: Tracked
    memorized: Memorized
    status: BudgetStatus
    report: CommitReport


@pytest.fixture(scope="module")
def gone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gone]:
    """Steps 1 to 10."""
    whose = MemoryContext(tenant="acme", project_id="ops", session_id="chat", agent_id="nova")
    with TieredStore.embedded(tmp_path_factory.mktemp("turn") / "memory") as store:
        memory = MemoryCoordinator(store, context=whose)
        memory.store("The API key rotates on Mondays.", memory_type="semantic", key="fact")
        memory.store("Ann rotated the API key last week.", memory_type="episodic", key="event")
        # 1. Turn starts, orchestrator initializes
        orchestrator = MemoryOrchestrator(
            memory,
            budget=Budget(tokens=8000, events=100, seconds=600),
            sources={"identity": CONSCIOUSNESS, "goals": GOALS},
            mode="on-call",
        )
        with orchestrator as turn:
            # 2. Agent receives user query
            # 3. Orchestrator calls assemble_context(prompt)
            context = turn.assemble_context(QUERY)
            # 4. Agent processes query and calls a tool
            # 5. Orchestrator calls track_tool_invocation() with tool name, params, result
            tracked = turn.track_tool_invocation("read_calendar", {"of": "ops"}, RESULT)
            # 7. Agent generates response
            # 8. Orchestrator calls memorize() with response item
            memorized = turn.memorize(RESPONSE, {"channel": "chat"})
            turn.note_progress("Rotate the keys", status="asked about")
            status = turn.get_budget_status()
            # 10. Turn ends, orchestrator calls commit()
            report = turn.commit()
        yield Gone(memory, orchestrator, context, tracked, memorized, status, report)


def test_step_3_the_context_has_every_source_that_answers_in_order_within_its_budget(
    gone: Gone,
) -> None:
    titles = [line for line in gone.context.text.splitlines() if line.startswith("## ")]
    assert titles == [
        "## Consciousness",
        "## Frontal Cortex",
        "## Episodic Memory",
        "## Semantic Memory",
    ]
    assert list(gone.context.sources) == ["identity", "goals", "episodic", "semantic"]
    assert {one.key for one in gone.context.memories} == {"fact", "event"}
    assert "- Answer in one line" in gone.context.text
    assert 0 < gone.context.tokens == gone.status.tokens_used <= 8000
    assert gone.status.events_used == 4


def test_step_6_episodic_memory_receives_the_tool_trace(gone: Gone) -> None:
    trace = gone.memory.get(str(gone.tracked.key))

    assert trace is not None
    assert trace.memory_type == "episodic"
    assert trace.value["tool_call"]["parameters"] == {"of": "ops"}
    assert trace.value["tool_call"]["result"] == RESULT


def test_step_9_the_response_is_routed_to_the_memory_type_that_it_belongs_to(gone: Gone) -> None:
    assert (gone.memorized.stores, gone.memorized.evicted) == (("semantic",), ())
    assert gone.memorized.reason == "it states a fact"


def test_step_11_episodic_and_semantic_exports_are_generated(gone: Gone) -> None:
    assert gone.tracked.key in [one["key"] for one in gone.report.episodic]
    assert [one["key"] for one in gone.report.semantic] == list(gone.memorized.keys)
    assert gone.report.semantic[0]["value"]["content"] == RESPONSE
    assert gone.report.semantic[0]["value"]["metadata"] == {"channel": "chat"}


def test_step_12_frontal_cortex_updates_are_exported(gone: Gone) -> None:
    (delta,) = gone.report.goals

    assert (delta["goal"], delta["status"]) == ("Rotate the keys", "asked about")


def test_step_13_all_operations_are_logged_to_the_turn_trace(gone: Gone) -> None:
    logged = gone.orchestrator.history(gone.report.turn)

    assert [one.kind for one in logged.events] == [
        "assembled",
        "tracked",
        "memorized",
        "progressed",
        "committed",
    ]
    assert all(one.reasons for one in logged.events)
    assert len(logged.to_jsonl().splitlines()) == 5
    assert json.loads(gone.report.to_json())["turn"] == gone.report.turn
