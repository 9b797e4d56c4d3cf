"""The memory orchestrator: its example scenario in thirteen steps, its operations and its order.

Operations, parameters, questions, titles and configuration keys bear the specification's names.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from langchain_core.tools import tool

from langmem_tiers import (
    Budget,
    MemoryContext,
    MemoryCoordinator,
    MemoryOrchestrator,
    OrchestratorSettings,
    TieredStore,
)
from langmem_tiers.core.errors import BudgetExceededError
from langmem_tiers.core.memory import Destination
from langmem_tiers.core.settings import MemorySettings
from langmem_tiers.turn.assembly import Assembled
from langmem_tiers.turn.pending import Memorized, Tracked
from langmem_tiers.turn.trace import BudgetStatus, CommitReport
from langmem_tiers.turn.turn import Route
from tests.acceptance.conftest import Agent

QUERY = "When does the API key rotate?"
RESPONSE = "The API key rotates on Monday at 9:00."
RESULT = "Key rotation: Monday, 9:00"
QUESTIONS = {
    "What is my core identity and charter?": "I keep the calendar of ops",
    "What mandates apply to my current mode?": "Answer in one line",
    "What capabilities do I have?": "I can read calendars",
    "What governance rules apply?": "Never print a key",
}
EFFECTIVE = "2026-01-01T00:00:00+00:00"
TITLES = [
    "## Consciousness",
    "## Conversation History",
    "## Working Memory",
    "## Frontal Cortex",
    "## Episodic Memory",
    "## Semantic Memory",
    "## Tool Specifications",
]
SAID = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Good morning"}]


class Consciousness:
    """A daemon whose queries return Futures."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self.pool = pool
        self.asked: dict[str, dict[str, Any]] = {}

    def query(self, question: str, metadata: Mapping[str, Any]) -> Future[dict[str, Any]]:
        self.asked[question] = dict(metadata)
        return self.pool.submit(self._answer, question)

    def _answer(self, question: str) -> dict[str, Any]:
        item = {"id": question[:9], "content": QUESTIONS[question], "rationale": "charter"}
        return {"items": [item], "effective_at": EFFECTIVE}


class FrontalCortex:
    """A daemon that returns a formatted prompt section."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def query(self, question: str, metadata: Mapping[str, Any]) -> str:
        self.asked.append((question, dict(metadata)))
        return "Active goals:\n- Rotate the keys"


class Store:
    """A memory type that formats its own section."""

    def __init__(self, name: str, asked: list[str]) -> None:
        self.name, self.asked = name, asked
        self.told: dict[str, str] = {}

    def remember(self, prompt: str, metadata: Mapping[str, Any]) -> str:
        self.asked.append(self.name)
        self.told = {name: str(said) for name, said in metadata["sections"].items()}
        return f"{self.name} on {prompt}"


@tool
def read_calendar(of: str) -> str:
    """Read a calendar."""
    return f"{RESULT} ({of})"


class Gone(NamedTuple):
    """A turn that was gone through."""

    memory: MemoryCoordinator
    orchestrator: MemoryOrchestrator
    consciousness: Consciousness
    frontal_cortex: FrontalCortex
    context: Assembled
    tracked: Tracked
    memorized: Memorized
    status: BudgetStatus
    report: CommitReport


@pytest.fixture(scope="module")
def gone(specified_store: TieredStore) -> Iterator[Gone]:
    """Steps 1 to 10."""
    whose = MemoryContext(tenant="turn", project_id="ops", session_id="chat", agent_id="nova")
    memory = MemoryCoordinator(specified_store, context=whose)
    memory.store("The API key rotates on Mondays.", memory_type="semantic", key="fact")
    memory.store("Ann rotated the API key last week.", memory_type="episodic", key="event")
    memory.store("Looking for the API key's next rotation", memory_type="working", key="note")
    memory.state.set_goal("rotate", "Rotate the keys", constraints=["Not on Fridays"])
    with ThreadPoolExecutor() as pool:
        consciousness, frontal_cortex = Consciousness(pool), FrontalCortex()
        # 1. Turn starts, orchestrator initializes
        orchestrator = MemoryOrchestrator(
            memory,
            budget=Budget(tokens=8000, events=100, seconds=600),
            sources={"identity": consciousness, "goals": frontal_cortex},
            mode="on-call",
        )
        with orchestrator as turn:
            # 2. Agent receives user query
            # 3. Orchestrator calls assemble_context(prompt)
            context = turn.assemble_context(QUERY, messages=SAID, tools=[read_calendar])
            # 4. Agent processes query and calls a tool
            # 5. Orchestrator calls track_tool_invocation() with tool name, params, result
            tracked = turn.track_tool_invocation(
                "read_calendar", {"of": "ops"}, RESULT, duration=0.25
            )
            # 7. Agent generates response
            # 8. Orchestrator calls memorize() with response item
            memorized = turn.memorize(RESPONSE, {"channel": "chat"})
            turn.note_progress("rotate", 0.5, "the next rotation is known")
            status = turn.get_budget_status()
            # 10. Turn ends, orchestrator calls commit()
            report = turn.commit()
        yield Gone(
            memory,
            orchestrator,
            consciousness,
            frontal_cortex,
            context,
            tracked,
            memorized,
            status,
            report,
        )


# The example scenario


def test_step_3_calls_remember_on_each_memory_type_and_combines_the_results(gone: Gone) -> None:
    titles = [line for line in gone.context.text.splitlines() if line.startswith("## ")]

    assert titles == TITLES
    assert list(gone.context.sources) == [
        "identity",
        "conversation",
        "working",
        "goals",
        "episodic",
        "semantic",
        "tools",
    ]
    assert {one.key for one in gone.context.memories} == {"fact", "event", "note"}
    for said in (*QUESTIONS.values(), "user: Hello", "- Rotate the keys", "- read_calendar(of"):
        assert said in gone.context.text


def test_step_6_episodic_memory_receives_the_tool_trace(gone: Gone) -> None:
    trace = gone.memory.get(str(gone.tracked.key))

    assert trace is not None
    assert trace.memory_type == "episodic"
    call = trace.value["tool_call"]
    assert (call["tool"], call["parameters"], call["result"]) == (
        "read_calendar",
        {"of": "ops"},
        RESULT,
    )
    assert call["seconds"] == 0.25
    assert 0 < call["relevance"] <= 1
    assert call.get("error") is None
    recalled = gone.memory.get_context("read_calendar", memory_types=["episodic"])
    assert gone.tracked.key in [one.key for one in recalled]


def test_step_9_the_response_is_routed_to_the_memory_type_that_it_belongs_to(gone: Gone) -> None:
    (destination,) = gone.memorized.destinations
    assert destination.memory_type == "semantic"
    assert destination.reason
    assert gone.memorized.evicted == ()
    kept = gone.memory.get(str(destination.key))
    assert kept is not None
    assert (kept.content, kept.memory_type) == (RESPONSE, "semantic")
    assert kept.metadata == {"channel": "chat"}


def test_step_11_episodic_and_semantic_exports_are_generated(gone: Gone) -> None:
    assert gone.tracked.key in [one["key"] for one in gone.report.episodic]
    assert [one["key"] for one in gone.report.semantic] == list(gone.memorized.keys)
    assert gone.report.semantic[0]["value"]["content"] == RESPONSE


def test_step_12_frontal_cortex_updates_are_exported(gone: Gone) -> None:
    (delta,) = gone.report.goals

    assert (delta["goal"], delta["delta"], delta["progress"]) == ("rotate", 0.5, 0.5)
    assert delta["reason"] == "the next rotation is known"
    (goal,) = gone.memory.state.get_goals()
    assert (goal.goal_id, goal.progress) == ("rotate", 0.5)


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


# Consciousness, and the order of queries


def test_the_four_queries_are_asked_in_the_specified_words_and_know_the_mode(gone: Gone) -> None:
    assert gone.consciousness.asked == {
        "What is my core identity and charter?": {},
        "What mandates apply to my current mode?": {"current_mode": "on-call"},
        "What capabilities do I have?": {"current_mode": "on-call"},
        "What governance rules apply?": {},
    }


def test_every_injected_fragment_has_source_version_and_rationale(gone: Gone) -> None:
    told = [one.provenance() for one in gone.context.fragments]

    assert told[0] == {
        "source": "identity",
        "version": EFFECTIVE,
        "rationale": "charter",
        "key": "What is m",
    }
    assert all({"source", "version", "rationale"} <= one.keys() for one in told)
    assert all(one["rationale"] for one in told)


def test_the_frontal_cortex_is_asked_for_active_goals_and_told_what_came_before(
    gone: Gone,
) -> None:
    ((question, metadata),) = gone.frontal_cortex.asked

    assert question == "What are my active goals?"
    assert list(metadata["sections"]) == ["identity", "conversation", "working"]


def test_each_store_is_queried_in_order_and_told_what_all_the_earlier_ones_answered(
    agent: Agent,
) -> None:
    order = ["identity", "conversation", "working", "goals", "episodic", "semantic"]
    asked: list[str] = []
    stores = {name: Store(name, asked) for name in order}

    with MemoryOrchestrator(agent("nova", "ops", "chat"), sources=stores) as turn:
        context = turn.assemble_context("the keys")

    assert asked == order
    for place, name in enumerate(order):
        assert stores[name].told == {one: f"{one} on the keys" for one in order[:place]}
    assert list(context.sources) == order


def test_a_registered_memory_type_takes_part(agent: Agent) -> None:
    asked: list[str] = []
    with MemoryOrchestrator(agent("nova", "ops", "chat")) as turn:
        turn.register("social", Store("social", asked))
        context = turn.assemble_context("Ann")

    assert asked == ["social"]
    assert "## Social\n" in context.text


# The operations, with their parameters and what they return


def test_assemble_context_takes_prompt_budget_and_filters(agent: Agent) -> None:
    nova, other = agent("nova", "ops", "chat"), agent("other", "ops", "chat")
    nova.store("The API key rotates on Mondays.", "semantic", tags=["keys"], key="mine")
    nova.store("The API key is 40 characters long.", "semantic", key="untagged")
    other.store("The API key lives in the vault.", "semantic", tags=["keys"], key="others")

    with MemoryOrchestrator(nova) as turn:
        context = turn.assemble_context(
            prompt=QUERY, budget=500, filters={"agent_id": "nova", "tags": ["keys"]}
        )
        small = turn.assemble_context(QUERY, 40)

    assert [one.key for one in context.memories] == ["mine"]
    assert context.tokens == nova.count_tokens(context.text) <= 500
    assert 0 < context.sources["semantic"] <= context.tokens
    assert small.tokens <= 40


def test_the_same_inputs_produce_the_same_outputs(agent: Agent) -> None:
    memory = agent("nova", "ops", "chat")
    memory.store_many(f"The API key number {n} rotates on Mondays." for n in range(20))

    def assembled() -> Assembled:
        with MemoryOrchestrator(memory) as turn:
            return turn.assemble_context(QUERY, budget=300)

    first, second = assembled(), assembled()
    assert first.text == second.text
    assert [one.reason for one in first.decisions] == [one.reason for one in second.decisions]


def test_track_tool_invocation_confirms_and_names_the_item(agent: Agent) -> None:
    memory = agent("nova", "ops", "chat")
    with MemoryOrchestrator(memory) as turn:
        tracked = turn.track_tool_invocation(
            tool_name="read_calendar",
            parameters={"of": "ops"},
            result=None,
            error="TimeoutError: no answer in 30 s",
        )
        turn.commit()

    assert tracked.tracked
    item = memory.get(str(tracked.key))
    assert item is not None
    assert item.value["tool_call"]["error"] == "TimeoutError: no answer in 30 s"


def test_memorize_takes_an_item_and_metadata_and_tells_stores_and_evictions(agent: Agent) -> None:
    memory = agent("nova", "ops", "chat")
    memory.store("The API key rotates on Sundays.", "semantic", key="old")

    def router(_: object) -> Route:
        known = Destination("semantic", "it states a fact")
        said = Destination("episodic", "it was said")
        return Route(destinations=(known, said), evicted=("old",))

    with MemoryOrchestrator(memory, router=router) as turn:
        memorized = turn.memorize(item=RESPONSE, metadata={"channel": "chat"})
        turn.commit()

    assert memorized.pending
    assert [(one.memory_type, one.reason) for one in memorized.destinations] == [
        ("semantic", "it states a fact"),
        ("episodic", "it was said"),
    ]
    assert memorized.evicted == ("old",)
    assert memory.get("old") is None
    kept = [memory.get(str(one.key)) for one in memorized.destinations]
    assert [one.memory_type for one in kept if one is not None] == ["semantic", "episodic"]


def test_what_is_memorized_passes_the_gate(agent: Agent) -> None:
    memory = agent("nova", "ops", "chat")
    with MemoryOrchestrator(memory) as turn:
        kept = turn.memorize(RESPONSE)
        refused = turn.memorize("Hi there")
        report = turn.commit()

    assert kept.pending
    assert kept.score is not None
    assert kept.score >= 6.0
    assert not refused.pending
    assert refused.destinations == ()
    assert refused.reason.startswith("trivial")
    assert [one.key for one in report.stored] == list(kept.keys)


def test_commit_returns_a_summary_and_the_three_exports(agent: Agent) -> None:
    memory = agent("nova", "ops", "chat")
    memory.state.set_goal("rotate", "Rotate the keys")
    with MemoryOrchestrator(memory) as turn:
        turn.memorize({"content": "Ann rotated the key.", "memory_type": "episodic"})
        turn.memorize({"content": "The key rotates on Mondays.", "memory_type": "semantic"})
        turn.note_progress("rotate", 0.1, "Ann did")
        report = turn.commit()

    assert len(report.stored) == 2
    assert all(one.stored for one in report.stored)
    assert report.summary["episodic"] == report.summary["semantic"] == 1
    assert [one["value"]["content"] for one in report.episodic] == ["Ann rotated the key."]
    assert [one["value"]["content"] for one in report.semantic] == ["The key rotates on Mondays."]
    assert len(report.goals) == 1


def test_get_budget_status_tells_tokens_events_and_time(agent: Agent) -> None:
    budget = Budget(tokens=1000, events=3, seconds=60)
    with MemoryOrchestrator(agent("nova", "ops", "chat"), budget=budget) as turn:
        context = turn.assemble_context(QUERY, messages=SAID)
        turn.memorize(RESPONSE)
        status = turn.get_budget_status()
        turn.memorize("The calendar of ops is shared.")
        with pytest.raises(BudgetExceededError, match="3 events"):
            turn.memorize("One thing more.")

    assert (status.tokens_used, status.tokens_left) == (context.tokens, 1000 - context.tokens)
    assert (status.events_used, status.events_left) == (2, 1)
    assert status.seconds_left == 60 - status.seconds_used


def test_what_recurs_in_successful_turns_is_extracted_as_a_skill(agent: Agent) -> None:
    memory = agent("nova", "ops", "chat")
    skills: tuple[str, ...] = ()
    for number in range(3):
        with MemoryOrchestrator(memory) as turn:
            turn.track_tool_invocation("read_calendar", {"of": f"team {number}"}, result="free")
            turn.track_tool_invocation("book_room", {"of": f"team {number}"}, result="booked")
            skills = turn.commit(success=True).skills

    assert len(skills) == 1
    skill = memory.get(skills[0])
    assert skill is not None
    assert skill.memory_type == "skill"


# Configuration


def test_configuration_has_the_specified_keys_and_defaults(agent: Agent, tmp_path: Path) -> None:
    assert OrchestratorSettings() == OrchestratorSettings(
        default_filters={}, enable_tool_tracking=True, enable_skill_extraction=True
    )
    file = tmp_path / "coordinator.yaml"
    file.write_text(
        "memory:\n  orchestrator:\n    default_filters: {tags: [keys]}\n"
        "    enable_tool_tracking: false\n    enable_skill_extraction: false\n",
        encoding="utf-8",
    )
    settings = MemorySettings.load(file, env={}).orchestrator
    memory = agent("nova", "ops", "chat")
    memory.store("The API key rotates on Mondays.", "semantic", tags=["keys"], key="tagged")
    memory.store("The API key is 40 characters long.", "semantic", key="untagged")

    with MemoryOrchestrator(memory, settings=settings) as turn:
        context = turn.assemble_context(QUERY)
        tracked = turn.track_tool_invocation("read_calendar", {"of": "ops"}, RESULT)
        report = turn.commit()

    assert [one.key for one in context.memories] == ["tagged"]
    assert (tracked.tracked, tracked.key) == (False, None)
    assert (report.stored, report.skills) == ((), ())
