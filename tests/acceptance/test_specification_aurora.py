"""The AURORA memory coordinator: its own examples, thresholds, formula and configuration.

Names, texts and numbers are those of the specification; each test asks what it says is answered.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from langmem_tiers import MemoryCoordinator, PromotionPolicy, Recollection, Reflexion
from langmem_tiers.core.settings import MemorySettings
from langmem_tiers.learning.promote import Promotion
from tests.acceptance.conftest import Agent
from tests.support.opening import Clock

PROJECT = "proj-123"
PYDANTIC = "Use Pydantic v2 model_validator for complex validation"
JWT = "Rotate JWT refresh tokens on every use and revoke the family when one is used twice"
REFLEXION: dict[str, Any] = {
    "task_id": "task-456",
    "original_approach": "Used plain string comparison for passwords",
    "failure_reason": "Security audit flagged timing attack vulnerability",
    "improved_approach": "Use secrets.compare_digest for constant-time comparison",
}
TAGS = ["security", "authentication", "timing-attack"]
CONFIGURATION = """\
memory:
  coordinator:
    model: claude-3-haiku-20240307
    embedding_model: text-embedding-3-small
    query_timeout_ms: 500
    max_context_items: 10

  promotion:
    min_access_count: 5
    min_success_rate: 0.8
    min_age_days: 7
"""


@pytest.fixture
def memory(agent: Agent) -> MemoryCoordinator:
    """An agent of the specified project."""
    return agent("coder", PROJECT)


# The API interface


def test_store_memory(memory: MemoryCoordinator) -> None:
    result = memory.store(
        content=PYDANTIC,
        memory_type="pattern",
        project_id=PROJECT,
        tags=["python", "validation", "pydantic"],
    )

    assert result.stored
    assert result.key is not None
    item = memory.get(result.key)
    assert item is not None
    assert (item.content, item.memory_type, item.project_id) == (PYDANTIC, "pattern", PROJECT)
    assert item.tags == ("python", "validation", "pydantic")
    assert item.tier == "working"


def test_query_memory(memory: MemoryCoordinator, clock: Clock) -> None:
    memory.store(JWT, memory_type="pattern", project_id=PROJECT, tags=["jwt"])
    memory.store("The JWT refresh tokens expired on Tuesday", memory_type="episodic")
    memory.store_reflexion(**REFLEXION, tags=TAGS)

    context = memory.get_context(
        query="How to implement JWT refresh tokens",
        project_id=PROJECT,
        memory_types=["pattern", "reflexion"],
        limit=5,
    )

    assert context[0].content == JWT
    assert {one.memory_type for one in context} <= {"pattern", "reflexion"}
    assert len(context) <= 5
    assert (context[0].project_id, context[0].created_at) == (PROJECT, clock.now)
    assert [one.score for one in context] == sorted((one.score for one in context), reverse=True)


def test_all_three_tiers_are_searched_and_a_project_sees_its_own_working_memory(
    agent: Agent,
) -> None:
    here, elsewhere = agent("coder", PROJECT, "s1"), agent("coder", "proj-999", "s2")
    for tier in ("short_term", "working", "long_term"):
        here.store(f"JWT refresh tokens are rotated in {tier}", "semantic", tier=tier)

    assert {one.tier for one in here.get_context("JWT refresh tokens", limit=5)} == {
        "short_term",
        "working",
        "long_term",
    }
    assert {one.tier for one in elsewhere.get_context("JWT refresh tokens")} == {"long_term"}
    asked = elsewhere.get_context("JWT refresh tokens", project_id=PROJECT)
    assert {one.tier for one in asked} == {"working", "long_term"}


def test_results_are_deduplicated_and_limited(memory: MemoryCoordinator) -> None:
    memory.store_many([JWT, JWT.upper(), PYDANTIC])

    different = memory.get_context("JWT refresh tokens", deduplicate=True, limit=10, min_match=0)
    assert len(different) == 2
    assert len(memory.get_context("JWT refresh tokens", limit=1)) == 1


def test_store_pattern(memory: MemoryCoordinator) -> None:
    result = memory.store_pattern(
        content=PYDANTIC,
        tags=["python", "validation", "pydantic"],
        project_id=PROJECT,
        source_task="task-123",
    )

    assert isinstance(result.key, str)
    item = memory.get(result.key)
    assert item is not None
    assert (item.memory_type, item.tier) == ("pattern", "working")
    assert (item.project_id, item.source_task) == (PROJECT, "task-123")
    assert item.tags == ("python", "validation", "pydantic")


def test_store_reflexion(memory: MemoryCoordinator) -> None:
    result = memory.store_reflexion(**REFLEXION, tags=TAGS)

    assert isinstance(result.key, str)
    item = memory.get(result.key)
    assert item is not None
    assert (item.memory_type, item.tier, item.boost) == ("reflexion", "working", 1.5)
    assert item.tags == tuple(TAGS)
    assert {name: item.value[name] for name in REFLEXION} == REFLEXION
    assert item.content == Reflexion(**REFLEXION).to_memory_format()
    assert all(text in item.content for text in REFLEXION.values())


def test_what_a_reflexion_taught_is_recalled_for_a_similar_query(memory: MemoryCoordinator) -> None:
    memory.store("Passwords of the staging server are in the vault", "semantic")
    lesson = memory.store_reflexion(**REFLEXION, tags=TAGS)

    found = memory.get_context("Comparing passwords in constant time", limit=5)

    assert found[0].key == lesson.key


def test_each_verb_is_asynchronous_as_well(memory: MemoryCoordinator) -> None:
    async def go() -> list[str | None]:
        stored = await memory.astore(PYDANTIC, "pattern", project_id=PROJECT)
        pattern = await memory.astore_pattern(JWT)
        lesson = await memory.astore_reflexion(**REFLEXION, tags=TAGS)
        assert await memory.aget_context("How to implement JWT refresh tokens")
        move = await memory.apromote_to_long_term(str(stored.key))
        assert not move.promoted
        return [stored.key, pattern.key, lesson.key]

    assert all(asyncio.run(go()))


# Memory promotion

PROVEN = {"accesses": 6, "successes": 6, "projects": 2, "days": 8.0}


def _tried(agent: Agent, clock: Clock, **shown: float) -> tuple[MemoryCoordinator, str, Promotion]:
    """A pattern that has been through this much, and what promoting it comes to."""
    evidence = {**PROVEN, **shown}
    first, second = agent("coder", PROJECT), agent("coder", "proj-777")
    key = str(first.store_pattern(PYDANTIC, tags=["pydantic"]).key)
    if evidence["projects"] > 1:
        second.store_pattern(PYDANTIC)
    for run in range(int(evidence["accesses"])):
        found = first.get(key)
        assert found is not None
        success = run < evidence["successes"]
        first.learning.record_outcome([found], success=success, run_id=f"run-{run}")
    clock.now += timedelta(days=evidence["days"])
    return first, key, first.promote_to_long_term(key)


def test_a_proven_pattern_is_promoted_for_all_projects(agent: Agent, clock: Clock) -> None:
    memory, key, promotion = _tried(agent, clock)

    assert promotion.promoted
    elsewhere = agent("coder", "proj-999")
    (found,) = elsewhere.get_context("complex validation with Pydantic", limit=1)
    assert (found.key, found.tier) == (promotion.successor, "long_term")
    assert found.metadata == {
        "source_project": PROJECT,
        "original_id": key,
        "promotion_date": clock.now.isoformat(),
    }
    assert memory.get(key) is not None  # the original is kept


@pytest.mark.parametrize(
    "short",
    [
        {"accesses": 5, "successes": 5},
        {"accesses": 10, "successes": 8},
        {"projects": 1},
        {"days": 7.0},
    ],
    ids=["access count > 5", "success rate > 80 %", "2+ projects", "age > 7 days"],
)
def test_a_pattern_that_misses_one_criterion_stays(
    agent: Agent, clock: Clock, short: dict[str, float]
) -> None:
    memory, key, promotion = _tried(agent, clock, **short)

    assert not promotion.promoted
    item = memory.get(key)
    assert item is not None
    assert item.tier == "working"


# Relevance scoring


def _calculate_relevance(item: Recollection, age_days: int, project_id: str | None) -> float:
    """The specification's formula, word for word; the match is the semantic similarity."""
    score = min(item.match * item.boost, 1.0) * 0.4
    score += max(0, (30 - age_days) / 30) * 0.2
    score += min(item.access_count / 10, 1.0) * 0.15
    if project_id and item.project_id == project_id:
        score += 0.15
    if item.memory_type == "reflexion":
        score *= 1.2
    return score


def test_relevance_is_the_specified_formula(agent: Agent, clock: Clock) -> None:
    memory = agent("coder", PROJECT)
    ages: dict[str | None, int] = {}
    for days, passed in ((40, 28), (12, 12), (0, 0)):
        for project in (PROJECT, "proj-777"):
            text = f"JWT refresh tokens, as seen {days} days ago in {project}"
            kept = agent("coder", project).store(text, "semantic", tier="long_term")
            ages[kept.key] = days
        clock.now += timedelta(days=passed)
    lesson = memory.store_reflexion(**{**REFLEXION, "task_id": "JWT refresh tokens"}, tags=TAGS)
    ages[lesson.key] = 0
    for _ in range(4):
        memory.get(str(lesson.key))
    memory.stats()  # what was read is written down

    found = memory.get_context(
        "JWT refresh tokens", project_id=PROJECT, limit=10, profile="aurora", min_match=0
    )

    assert {one.key for one in found} == set(ages)
    for one in found:
        expected = _calculate_relevance(one, ages[one.key], PROJECT)
        assert one.score == pytest.approx(expected), one.explanation
        assert sum(one.explanation.values()) == pytest.approx(one.score)


# Configuration


def test_configuration_is_read_from_the_specifications_yaml(agent: Agent, tmp_path: Path) -> None:
    file = tmp_path / "coordinator.yaml"
    file.write_text(CONFIGURATION, encoding="utf-8")

    loaded = MemorySettings.load(file, env={})

    assert loaded.coordinator.model == "claude-3-haiku-20240307"
    assert loaded.coordinator.embedding_model == "text-embedding-3-small"
    assert loaded.coordinator.query_timeout_ms == 500
    assert loaded.coordinator.max_context_items == 10
    assert (loaded.promotion.min_access_count, loaded.promotion.min_success_rate) == (5, 0.8)
    assert (loaded.promotion.min_age_days, loaded.promotion.min_projects) == (7, 2)
    memory = agent("coder", PROJECT, settings=loaded.coordinator, policy=loaded.promotion)
    assert isinstance(memory.policy, PromotionPolicy)
    memory.store_many(f"JWT refresh token number {n} was rotated" for n in range(12))
    assert len(memory.get_context("")) == 10
