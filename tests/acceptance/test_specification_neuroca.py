"""Neuroca's component interactions: the six operations, step by step as they are drawn there."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from langmem_tiers import (
    ConsolidationReport,
    MemoryCoordinator,
    WorkingMemoryBuffer,
    create_consolidation_graph,
)
from tests.acceptance.conftest import Agent
from tests.support.opening import Clock

TIERS = ("short_term", "working", "long_term")
"""STM, MTM and LTM, in the order in which they are looked in."""
FACTS = {
    "short_term": "The staging server answers on port 8443.",
    "working": "The staging server runs Debian.",
    "long_term": "The staging server stands in Frankfurt.",
}


@pytest.fixture
def memory(agent: Agent) -> MemoryCoordinator:
    """The memory manager of one session."""
    return agent("neuroca", "ops", "monday")


@pytest.fixture
def known(memory: MemoryCoordinator) -> MemoryCoordinator:
    """One that knows a fact in each tier."""
    for tier, fact in FACTS.items():
        memory.store(fact, "semantic", tier=tier, key=tier, tags=["staging"])
    return memory


# Operation 1: memory addition


def test_operation_1_adds_a_memory_to_its_initial_tier_and_returns_its_id(
    memory: MemoryCoordinator,
) -> None:
    added = memory.store(
        content=FACTS["short_term"], importance=0.8, tags=["staging"], tier="short_term"
    )

    assert isinstance(added.key, str)
    item = memory.get(added.key)
    assert item is not None
    assert (item.content, item.importance, item.tags) == (FACTS["short_term"], 0.8, ("staging",))
    assert item.tier == added.tier == "short_term"


def test_operation_1_without_an_initial_tier_goes_by_the_memory_type(
    memory: MemoryCoordinator,
) -> None:
    assert memory.store("Looking at the staging server", "working").tier == "short_term"
    assert memory.store(FACTS["working"], "semantic").tier == "working"
    assert memory.store("Ann runs the staging server.", "relationship").tier == "working"


def test_operation_1_adds_what_belongs_to_the_tier(memory: MemoryCoordinator, clock: Clock) -> None:
    keys = {tier: str(memory.store(fact, tier=tier).key) for tier, fact in FACTS.items()}

    clock.advance(minutes=61)

    assert memory.get(keys["short_term"]) is None  # it lives for an hour
    assert memory.get(keys["working"]) is not None
    assert memory.get(keys["long_term"]) is not None


def test_operation_1_generates_and_stores_an_embedding(memory: MemoryCoordinator) -> None:
    memory.store(FACTS["long_term"], "semantic", key="place")
    memory.store("Lunch is at noon.", "semantic", key="lunch")
    embedding = _embedding(memory, "In which city is the machine?")

    assert [one.key for one in memory.get_context("", embedding=embedding, limit=1)] == ["place"]


# Operation 2: memory retrieval


def test_operation_2_looks_in_stm_then_mtm_then_ltm(memory: MemoryCoordinator) -> None:
    for tier in reversed(TIERS):
        memory.store(FACTS[tier], tier=tier, key="staging")

    for tier in TIERS:
        found = memory.get("staging")
        assert found is not None
        assert (found.tier, found.content) == (tier, FACTS[tier])
        assert memory.delete_memory("staging")
    assert memory.get("staging") is None


def test_operation_2_looks_in_the_specified_tier_alone(known: MemoryCoordinator) -> None:
    found = known.get("working", tier="working")

    assert found is not None
    assert found.content == FACTS["working"]
    assert known.get("working", tier="short_term") is None
    assert known.get("working", tier="long_term") is None


def test_operation_2_marks_what_is_found_as_accessed(
    known: MemoryCoordinator, clock: Clock
) -> None:
    clock.advance(minutes=1)
    known.get("working")
    known.stats()  # what was read is written down

    found = known.get("working")
    assert found is not None
    assert found.access_count == 1
    assert found.strength == pytest.approx(1)
    assert found.last_accessed_at == clock.now


def test_operation_2_answers_none_for_what_is_in_no_tier(known: MemoryCoordinator) -> None:
    assert known.get("unknown") is None


# Operation 3: memory search


def test_operation_3_searches_all_tiers_or_those_specified(known: MemoryCoordinator) -> None:
    everywhere = known.get_context("the staging server", tags=["staging"])
    two = known.get_context("the staging server", tiers=["short_term", "long_term"])

    assert {one.tier for one in everywhere} == set(TIERS)
    assert {one.tier for one in two} == {"short_term", "long_term"}


def test_operation_3_combines_deduplicates_ranks_and_limits(known: MemoryCoordinator) -> None:
    known.store(FACTS["long_term"].upper(), "semantic", tier="working", key="again")

    found = known.get_context(
        "In which city does the staging server stand, Frankfurt?", deduplicate=True, limit=2
    )

    assert len(found) == 2
    assert found[0].content.lower() == FACTS["long_term"].lower()
    assert found[1].content.lower() != FACTS["long_term"].lower()
    assert found[0].score >= found[1].score


def test_operation_3_updates_working_memory_with_the_results_where_asked(
    known: MemoryCoordinator,
) -> None:
    buffer = WorkingMemoryBuffer(known)

    results = known.get_context("Which port does the staging server answer on?")
    assert buffer.items == []
    buffer.add_search_results(results)

    assert {one.memory.key for one in buffer.items} == {one.key for one in results}


# Operation 4: memory consolidation


def test_operation_4_moves_stm_to_mtm_and_mtm_to_ltm_and_reports(
    agent: Agent, clock: Clock
) -> None:
    memory, other = agent("neuroca", "ops", "monday"), agent("neuroca", "web", "tuesday")
    proven = _proven(memory, other)
    clock.now += timedelta(days=8)
    memory.store(FACTS["short_term"], "semantic", tier="short_term", importance=0.9, key="port")
    memory.store("Somebody waved.", "episodic", tier="short_term", importance=0.1, key="wave")

    graph = create_consolidation_graph(store=memory.tiered_store)
    report = ConsolidationReport.of(graph.invoke({}, context=memory.context))

    risen, left = memory.get("port"), memory.get("wave")
    assert risen is not None
    assert risen.tier == "working"
    assert left is not None
    assert left.tier == "short_term"
    original = memory.learning.explain(proven)
    assert original.state == "consolidated"
    (successor,) = original.successors
    stored = memory.get(successor.key)
    assert stored is not None
    assert stored.tier == "long_term"
    assert stored.metadata["original_id"] == proven
    done = {one.step: one.memories for one in report.lines if one.verdict == "done"}
    assert (done["rise"], done["promote"]) == (1, 1)
    assert len(report.moves) == 2


def test_operation_4_is_a_scheduled_task_that_finds_nothing_twice(
    memory: MemoryCoordinator,
) -> None:
    memory.store(FACTS["short_term"], "semantic", tier="short_term", importance=0.9)
    graph = create_consolidation_graph(store=memory.tiered_store)

    first = ConsolidationReport.of(graph.invoke({}, context=memory.context))
    second = ConsolidationReport.of(graph.invoke({}, context=memory.context))

    assert len(first.moves) == 1
    assert second.moves == ()


def _proven(memory: MemoryCoordinator, other: MemoryCoordinator) -> str:
    """The key of a pattern that two projects used with success."""
    text = "Drain the staging server before a restart, else requests get lost"
    key = str(memory.store_pattern(text).key)
    other.store_pattern(text)
    for run in range(6):
        found = memory.get(key)
        assert found is not None
        memory.learning.record_outcome([found], success=True, run_id=f"run-{run}")
    return key


# Operation 5: context update and working memory management


def test_operation_5_calls_up_relevant_memories_of_all_tiers_sorted_and_pruned(
    known: MemoryCoordinator,
) -> None:
    known.store_many(f"Lunch number {n} was soup." for n in range(5))
    buffer = WorkingMemoryBuffer(known, capacity=3)

    held = buffer.update_context("What is known about the staging server?")

    assert {one.memory.tier for one in held} == set(TIERS)
    relevances = [one.relevance for one in held]
    assert relevances == sorted(relevances, reverse=True)
    assert all(one.relevance == one.memory.match for one in held)
    assert len(buffer.items) == 3


def test_operation_5_takes_a_ready_embedding_or_generates_one(known: MemoryCoordinator) -> None:
    given, generated = (
        WorkingMemoryBuffer(known, capacity=1),
        WorkingMemoryBuffer(known, capacity=1),
    )
    text = "In which city does the server stand?"

    (one,) = given.update_context(embedding=_embedding(known, text))
    (two,) = generated.update_context(text)

    assert one.memory.key == two.memory.key == "long_term"


# Operation 6: getting memories for prompt context


def test_operation_6_formats_the_most_relevant_items_within_the_limits(
    known: MemoryCoordinator,
) -> None:
    buffer = WorkingMemoryBuffer(known)
    held = buffer.update_context("Which port does the staging server answer on?")

    page = buffer.get_prompt_context_memories(max_memories=2, max_tokens=500)

    assert [one.memory.key for one in page.memories] == [one.memory.key for one in held[:2]]
    assert page.memories[0].memory.key == "short_term"
    assert FACTS["short_term"] in page.text
    assert page.tokens == known.count_tokens(page.text) <= 500


def test_operation_6_leaves_out_what_is_not_relevant_enough(known: MemoryCoordinator) -> None:
    buffer = WorkingMemoryBuffer(known)
    held = buffer.update_context("Which port does the staging server answer on?")
    floor = held[0].relevance

    page = buffer.get_prompt_context_memories(max_memories=5, min_relevance=floor)

    assert [one.relevance for one in page.memories] == [
        one.relevance for one in held if one.relevance >= floor
    ]


def test_operation_6_truncates_a_text_that_does_not_fit(memory: MemoryCoordinator) -> None:
    told = "The staging server " + "restarts and restarts " * 200
    memory.store(told, "semantic")
    buffer = WorkingMemoryBuffer(memory)
    buffer.update_context("the staging server")

    page = buffer.get_prompt_context_memories(max_memories=1, max_tokens=120)

    assert page.tokens <= 120
    (shown,) = page.memories
    assert shown.truncated
    assert "The staging server restarts" in page.text
    assert shown.memory.content == told


# Implementation notes


def test_every_operation_is_asynchronous_as_well(memory: MemoryCoordinator) -> None:
    async def go() -> None:
        added = await memory.astore(FACTS["long_term"], "semantic", tier="long_term")
        assert await memory.aget(str(added.key)) is not None
        assert await memory.aget_context("the staging server")
        buffer = WorkingMemoryBuffer(memory)
        assert await buffer.aupdate_context("the staging server")
        graph = create_consolidation_graph(store=memory.tiered_store)
        state = await graph.ainvoke({}, context=memory.context)
        assert ConsolidationReport.of(state).moves == ()

    asyncio.run(go())


def test_a_relevance_algorithm_can_be_plugged_in(known: MemoryCoordinator) -> None:
    by_length = known.get_context(
        "the staging server", profile=lambda memory, _: -float(len(memory.content))
    )

    lengths = [len(one.content) for one in by_length]
    assert lengths == sorted(lengths)


def _embedding(memory: MemoryCoordinator, text: str) -> list[float]:
    config = memory.tiered_store.index_config
    assert config is not None
    vector: list[float] = config["embed"].embed_query(text)
    return vector
