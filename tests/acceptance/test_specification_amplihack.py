"""amplihack's five-type memory: its tests, its reviewers and types, its patterns and its hooks."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from langmem_tiers import (
    MemoryCoordinator,
    MemoryHooks,
    MemoryType,
    MemoryTypes,
    Recollection,
    Reviewer,
    Tier,
)
from langmem_tiers.recall.ranking import time_weighted
from langmem_tiers.remember.new_memory import NewMemory
from langmem_tiers.remember.review import default_reviewers
from tests.acceptance.conftest import Agent
from tests.support.agents import ScriptedModel, calls
from tests.support.coordinating import beside
from tests.support.opening import Clock

AGENTS = ("analyzer", "patterns", "knowledge-archaeologist")
SESSION = "session-1"
REDIS = "Decided to use Redis for sessions"


def saying(*scores: float) -> ScriptedModel:
    """A model that reviews, and gives these scores in turn."""
    answers = [calls("Reviewed", score=one, reason="so it is") for one in scores]
    return ScriptedModel(responses=[*answers])


@pytest.fixture
def coordinator(agent: Agent) -> MemoryCoordinator:
    """A coordinator on a database of nobody else."""
    return agent("builder", "web", SESSION)


# The unit and integration tests of the specification


def test_storage_above_threshold(coordinator: MemoryCoordinator) -> None:
    result = coordinator.store(
        content="Decided to use PostgreSQL for transactions", memory_type="episodic"
    )

    assert result.stored is True
    assert result.score is not None
    assert result.score is not None
    assert result.score >= 6.0
    assert result.key is not None


def test_storage_below_threshold(coordinator: MemoryCoordinator) -> None:
    result = coordinator.store(content="Hi there", memory_type="working")

    assert result.stored is False
    assert "trivial" in result.reason.lower()
    assert result.key is None
    assert coordinator.stats().total_count == 0


def test_end_to_end_memory_flow(coordinator: MemoryCoordinator) -> None:
    store_result = coordinator.store(
        content="Implemented JWT authentication with RS256", memory_type="procedural"
    )
    assert store_result.stored

    memories = coordinator.get_context(query="JWT authentication", limit=5)
    assert len(memories) > 0
    assert "JWT" in memories[0].content


# The storage pipeline and its reviewers


def test_three_agents_review_beside_injection_and_their_mean_is_the_consensus(
    agent: Agent,
) -> None:
    coordinator = agent("builder", "web", SESSION, review_model=saying(7, 8, 9, 10))

    result = coordinator.store("Decided to use PostgreSQL for transactions", "episodic")

    assert result.reviewed
    assert result.score is not None
    assert list(result.scores) == [*AGENTS, "injection"]
    assert result.reasons.keys() == result.scores.keys()
    assert all(0 <= score <= 10 for score in result.scores.values())
    assert result.score == pytest.approx(sum(result.scores[name] for name in AGENTS) / 3)
    assert result.score is not None
    assert result.score >= 6.0
    assert result.reason == "stored"


def test_a_consensus_below_6_is_not_stored_and_says_who_gave_what(agent: Agent) -> None:
    reviewers = default_reviewers()
    for name in AGENTS:
        reviewers.register(Reviewer(name=name, storage=lambda _: (5.9, "dull")), replace=True)
    coordinator = agent("builder", "web", SESSION, reviewers=reviewers)

    result = coordinator.store("Decided to use PostgreSQL for transactions", "episodic")

    assert (result.stored, result.key) == (False, None)
    assert result.score == pytest.approx(5.9)
    assert "5.9" in result.reason
    assert "analyzer" in result.reason
    assert coordinator.get_context("PostgreSQL") == []


def test_the_security_reviewer_takes_part_with_its_keywords(agent: Agent) -> None:
    def score_security(memory: NewMemory) -> tuple[float, str]:
        security_keywords = ["auth", "password", "token", "encryption", "vulnerability"]
        score = 5.0
        if any(kw in memory.content.lower() for kw in security_keywords):
            score += 3.0
        return score, "Security relevance score based on keywords"

    reviewers = default_reviewers()
    reviewers.register(Reviewer(name="security", storage=score_security))
    model = saying(7)
    coordinator = agent("builder", "web", SESSION, reviewers=reviewers, review_model=model)

    secure = coordinator.store("Implemented JWT authentication with RS256", "procedural")
    plain = coordinator.store("Decided to use PostgreSQL for transactions", "episodic")

    assert (secure.scores["security"], plain.scores["security"]) == (8.0, 5.0)
    assert secure.reasons["security"] == "Security relevance score based on keywords"
    for one in (secure, plain):
        assert one.stored
        assert one.score == pytest.approx(
            sum(one.scores[name] for name in (*AGENTS, "security")) / 4
        )


# The public interface


def test_store_takes_metadata_and_context_and_retrieve_returns_every_field(
    coordinator: MemoryCoordinator, clock: Clock
) -> None:
    stored = coordinator.store(
        content=REDIS,
        memory_type="episodic",
        metadata={"component": "authentication"},
        context={"branch": "main"},
    )

    (memory,) = coordinator.get_context(
        query="authentication sessions decisions",
        memory_types=["episodic", "semantic"],
        limit=10,
        max_tokens=2000,
    )

    assert (memory.key, memory.memory_type, memory.content) == (stored.key, "episodic", REDIS)
    assert memory.created_at == clock.now
    assert memory.token_count == coordinator.count_tokens(REDIS)
    assert (memory.metadata, memory.context) == (
        {"component": "authentication"},
        {"branch": "main"},
    )
    assert 0 < memory.match <= 1


def test_retrieve_filters_by_type_and_time_and_deduplicates(
    coordinator: MemoryCoordinator, clock: Clock
) -> None:
    coordinator.store("Redis held the sessions of the old shop.", "episodic", key="old")
    clock.advance(days=3)
    since = clock.now
    coordinator.store(REDIS, "episodic", key="new")
    coordinator.store(f"{REDIS}!", "episodic", key="again")
    coordinator.store("Redis keeps sessions in memory.", "semantic", key="fact")

    def found(**options: Any) -> set[str]:
        return {one.key for one in coordinator.get_context("Redis sessions", limit=10, **options)}

    assert found(memory_types=["semantic"]) == {"fact"}
    assert found(since=since) == {"new", "again", "fact"}
    assert len(found(deduplicate=True, similarity_threshold=0.85)) == 3
    assert len(found()) == 4


def test_a_token_budget_is_kept(coordinator: MemoryCoordinator) -> None:
    coordinator.store_many(
        f"Redis session decision number {n}: " + "keep it short. " * 10 for n in range(10)
    )

    memories = coordinator.get_context("Redis session decisions", limit=10, max_tokens=150)

    assert memories
    assert sum(one.token_count for one in memories) <= 150


def test_two_agents_score_relevance_and_their_mean_ranks_three_times_the_limit(
    agent: Agent,
) -> None:
    seen: list[str] = []

    def score_relevance(content: str, query: str) -> tuple[float, str]:
        seen.append(content)
        return (1.0 if "decided" in content.lower() else 0.0), query

    reviewers = default_reviewers()
    reviewers.register(Reviewer(name="analyzer", relevance=score_relevance), replace=True)
    model = saying(0.5)
    coordinator = agent("builder", "web", SESSION, reviewers=reviewers, review_model=model)
    writer = beside(coordinator)
    writer.store_many(f"Redis sessions were discussed {n} times." for n in range(2, 12))
    writer.store(REDIS, "episodic", key="decided")

    (best,) = coordinator.get_context("Redis sessions", limit=1, review="model")

    assert len(seen) == len(model.seen) == 3
    assert best.key == "decided"
    assert best.review is not None
    assert best.review.agent_scores["analyzer"] == 1.0
    assert set(best.review.agent_scores) == {"analyzer", "patterns"}
    mean = sum(best.review.agent_scores.values()) / 2
    assert best.review.consensus_score == pytest.approx(mean)


def test_stats_delete_memory_and_clear_working_memory(coordinator: MemoryCoordinator) -> None:
    kept = coordinator.store(REDIS, "episodic")
    coordinator.store("Looking at the session cookie", "working")
    coordinator.store("Comparing two session stores", "working")

    stats = coordinator.stats()
    assert (stats.total_count, stats.by_type) == (3, {"episodic": 1, "working": 2})
    assert coordinator.clear_working_memory(session_id=SESSION) == 2
    assert coordinator.delete_memory(str(kept.key)) is True
    assert coordinator.delete_memory(str(kept.key)) is False
    assert coordinator.stats().total_count == 0


def test_storage_runs_in_the_background_and_many_queries_at_once(
    coordinator: MemoryCoordinator,
) -> None:
    async def go() -> list[list[Recollection]]:
        tasks = [
            asyncio.create_task(coordinator.astore(text, "episodic"))
            for text in (REDIS, "Implemented JWT authentication with RS256")
        ]
        assert all(one.stored for one in await asyncio.gather(*tasks))
        return list(await coordinator.aget_context_batch(["Redis sessions", "JWT"], limit=1))

    redis, jwt = asyncio.run(go())
    assert "Redis" in redis[0].content
    assert "JWT" in jwt[0].content


# Extending the system


def test_a_social_type_has_its_own_extraction_review_and_retrieval_scoring(agent: Agent) -> None:
    def extract_social_memory(content: str, given: Mapping[str, Any]) -> dict[str, Any]:
        people = [word.strip(".,") for word in content.split() if word[0].isupper()]
        return {"entities": people, "importance": 0.8 if given["tags"] else 0.5}

    def score_social_retrieval(memory: Recollection, query: str) -> float:
        return 1.0 if any(name in query for name in memory.entities) else 0.0

    def score_social_memory(memory: NewMemory) -> tuple[float, str]:
        if memory.memory_type == "social":
            return 9.0, "people matter"
        return 6.0, "no people"

    types = MemoryTypes()
    types.register(
        MemoryType(
            name="social",
            tier=Tier.LONG_TERM,
            title="People",
            extract=extract_social_memory,
            score=score_social_retrieval,
        )
    )
    reviewers = default_reviewers()
    reviewers.register(Reviewer(name="analyzer", storage=score_social_memory), replace=True)
    coordinator = agent("builder", "web", SESSION, types=types, reviewers=reviewers)

    result = coordinator.store("Ann mentors Ben in the platform team.", "social", tags=["team"])
    coordinator.store("Ann is on call this week.", "semantic")

    assert (result.stored, result.tier) == (True, "long_term")
    assert (result.scores["analyzer"], result.reasons["analyzer"]) == (9.0, "people matter")
    found = coordinator.get_context("Who helps Ben?", memory_types=["social"])
    assert found[0].entities == ("Ann", "Ben")
    assert (found[0].importance, found[0].match) == (0.8, 1.0)
    assert coordinator.stats().by_type == {"social": 1, "semantic": 1}


def test_time_weighted_retrieval_favours_recent_memories(
    coordinator: MemoryCoordinator, clock: Clock
) -> None:
    coordinator.store("Redis sessions expire after an hour.", "semantic", key="old")
    clock.advance(days=20)
    coordinator.store("Redis sessions expire after a day.", "semantic", key="new")
    now = clock.now

    memories = coordinator.get_context(
        "Redis sessions expire", limit=10, profile=time_weighted(recency_weight=0.3)
    )

    assert [one.key for one in memories] == ["new", "old"]
    for one in memories:
        age_days = (now - one.created_at).days
        recency_score = 1.0 / (1.0 + age_days * 0.1)
        assert one.score == pytest.approx(one.match * (1 - 0.3) + recency_score * 0.3)


# Integration patterns


def test_pattern_1_an_agent_stores_procedural_memory(coordinator: MemoryCoordinator) -> None:
    class BuilderAgent:
        def __init__(self) -> None:
            self.memory = coordinator

        def implement_feature(self, spec: dict[str, Any]) -> None:
            self.memory.store(
                content=f"Implemented {spec['name']}: 1. write the test 2. add the route",
                memory_type="procedural",
                metadata={"feature": spec["name"], "success": True},
                source="agent",
            )

    BuilderAgent().implement_feature({"name": "session login"})

    (kept,) = coordinator.get_context("session login", memory_types=["procedural"])
    assert kept.metadata == {"feature": "session login", "success": True}


def test_pattern_2_past_decisions_are_retrieved_for_a_task(coordinator: MemoryCoordinator) -> None:
    coordinator.store(REDIS, "episodic")
    coordinator.store("Sessions must outlive a deployment.", "semantic")
    coordinator.store("To look at sessions, run `redis-cli`.", "procedural")

    past_decisions = coordinator.get_context(
        query="Design the sessions of the shop",
        memory_types=["episodic", "semantic"],
        limit=5,
        max_tokens=1000,
    )

    context = "\n".join([m.content for m in past_decisions])
    assert REDIS in context
    assert "outlive" in context
    assert "redis-cli" not in context


def test_pattern_3_pending_todos_are_there_at_session_start_with_their_priority(
    coordinator: MemoryCoordinator,
) -> None:
    coordinator.store(
        "Renew the certificate", "prospective", metadata={"priority": "high"}, key="renew"
    )
    coordinator.store("Rename the staging host", "prospective", key="rename")

    pending_todos = coordinator.get_context(query="", memory_types=["prospective"], limit=10)

    lines = [
        f"[{todo.metadata.get('priority', 'medium').upper()}] {todo.content}"
        for todo in pending_todos
    ]
    assert sorted(lines) == ["[HIGH] Renew the certificate", "[MEDIUM] Rename the staging host"]


def test_pattern_4_a_sessions_working_memory_is_promoted_and_cleared(
    agent: Agent, coordinator: MemoryCoordinator
) -> None:
    other = agent("builder", "web", "session-2")
    coordinator.store(
        "The mailer drops mails beyond 30 s", "working", metadata={"session_id": SESSION}
    )
    other.store("Looking at another thing", "working", metadata={"session_id": "session-2"})

    working = coordinator.get_context(query="", memory_types=["working"], limit=100)
    session_working = [m for m in working if m.metadata.get("session_id") == SESSION]
    assert len(session_working) == 1
    for pattern in session_working:
        kept = coordinator.store(
            content=pattern.content,
            memory_type="semantic",
            metadata={"promoted_from": "working"},
        )
        assert kept.stored, kept.reason
    assert coordinator.clear_working_memory(SESSION) == 1

    (found,) = coordinator.get_context("Why does the mailer drop mails?")
    assert (found.memory_type, found.tier) == ("semantic", "working")
    assert found.metadata == {"promoted_from": "working"}
    assert other.stats().by_type == {"semantic": 1, "working": 1}


# Hooks


def test_user_prompt_submit_extracts_prospective_memory_and_keeps_working_memory(
    coordinator: MemoryCoordinator,
) -> None:
    hooks = MemoryHooks(coordinator)
    prompt = "I need to renew the certificate of the shop, it is urgent"

    kept = hooks.on_user_prompt_submit(prompt)
    plain = hooks.on_user_prompt_submit("The certificate of the shop is from ExampleTrust")

    working = coordinator.get(str(kept.working.key))
    assert working is not None
    assert (working.content, working.memory_type) == (prompt, "working")
    assert working.metadata["session_id"] == SESSION
    assert kept.intended is not None
    assert kept.intended.stored
    intended = coordinator.get(str(kept.intended.key))
    assert intended is not None
    assert (intended.content, intended.memory_type) == (prompt, "prospective")
    assert intended.metadata["priority"] == "high"
    assert plain.working.stored
    assert plain.intended is None


@pytest.mark.parametrize("keyword", ["todo:", "later", "need to", "plan to"])
def test_each_specified_keyword_makes_a_prompt_prospective(
    coordinator: MemoryCoordinator, keyword: str
) -> None:
    prompt = {
        "todo:": "TODO: renew the certificate of the shop",
        "later": "Later we renew the certificate of the shop",
        "need to": "We need to renew the certificate of the shop",
        "plan to": "We plan to renew the certificate of the shop",
    }[keyword]

    kept = MemoryHooks(coordinator).on_user_prompt_submit(prompt)

    assert kept.intended is not None
    assert kept.intended.stored
    intended = coordinator.get(str(kept.intended.key))
    assert intended is not None
    assert intended.metadata["priority"] == "medium"


def test_todo_write_complete_captures_procedural_memory(coordinator: MemoryCoordinator) -> None:
    hooks = MemoryHooks(coordinator)
    todo_item = {
        "content": "Renew the certificate: order it, install it, restart the proxy",
        "status": "completed",
        "task_type": "operations",
        "duration": 25,
    }

    kept = hooks.on_todo_write_complete(todo_item)

    assert kept is not None
    assert kept.stored
    memory = coordinator.get(str(kept.key))
    assert memory is not None
    assert memory.memory_type == "procedural"
    assert memory.metadata["task_type"] == "operations"
    assert memory.metadata["success"] is True
    assert memory.metadata["duration_minutes"] == 25
    assert hooks.on_todo_write_complete({**todo_item, "status": "in_progress"}) is None


def test_session_stop_keeps_events_and_concepts_and_consolidates_working_memory(
    coordinator: MemoryCoordinator,
) -> None:
    coordinator.store("The timeout of the mailer is 30s.", "working")
    session_data = {
        "session_id": SESSION,
        "events": [{"description": REDIS, "type": "architecture"}],
        "concepts": [
            {"description": "Sessions must outlive a deployment.", "category": "requirement"}
        ],
    }

    stopped = MemoryHooks(coordinator).on_session_stop(session_data)

    (event,), (concept,) = stopped.events, stopped.concepts
    episodic, semantic = coordinator.get(str(event.key)), coordinator.get(str(concept.key))
    assert episodic is not None
    assert semantic is not None
    assert (episodic.memory_type, semantic.memory_type) == ("episodic", "semantic")
    assert episodic.metadata["decision_type"] == "architecture"
    assert semantic.metadata["category"] == "requirement"
    (promoted,) = coordinator.get_context(
        "the timeout of the mailer", memory_types=["semantic"], limit=1
    )
    assert promoted.metadata["promoted_from"] == "working"
    assert "working" not in coordinator.stats().by_type


def test_session_start_lists_pending_tasks_by_priority(
    coordinator: MemoryCoordinator, clock: Clock
) -> None:
    coordinator.reminders.add("Rename the staging host", at=clock.now + timedelta(days=1))
    coordinator.reminders.add(
        "Renew the certificate", at=clock.now + timedelta(days=2), priority="high"
    )

    started = MemoryHooks(coordinator).on_session_start()

    assert [one.content for one in started.pending] == [
        "Renew the certificate",
        "Rename the staging host",
    ]
    assert "[HIGH] Renew the certificate" in str(started)
