"""Project Chimera's agent memory: its schemas, its examples, its context and its policies."""

from __future__ import annotations

import asyncio
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from langmem_tiers import PERSONA, ArchivalPolicy, MemoryCoordinator, MemoryOrchestrator, Persona
from langmem_tiers.learning.evolution import importance_of
from tests.acceptance.conftest import Agent
from tests.support.opening import Clock

AGENT, SESSION = "001", "session-abc"
QUESTION = "What's trending in Ethiopian tech?"
ANSWER = "Great question! I'm seeing huge momentum around..."
INTERACTION: dict[str, Any] = {
    "memory_type": "interaction",
    "content": "Had a great conversation with @techfan123 about emerging Ethiopian AI startups. "
    "They were particularly interested in fintech applications. Provided recommendations for "
    "local accelerators.",
    "context": "Twitter DM conversation, user showed high technical literacy",
    "importance": 0.75,
    "emotional_valence": "positive",
    "entities": ["@techfan123", "Ethiopian AI", "fintech", "accelerators"],
    "platform_source": "twitter",
    "success_metrics": {
        "user_satisfaction": 0.92,
        "conversation_length": 8,
        "follow_up_engagement": True,
    },
}
LEARNING: dict[str, Any] = {
    "memory_type": "learning",
    "content": "Content posted at 7-9 PM EAT consistently gets 40% higher engagement than morning "
    "posts. Audience is most active during evening hours.",
    "context": "Analysis of 30 days of posting data across platforms",
    "importance": 0.90,
    "emotional_valence": "neutral",
    "entities": ["posting_schedule", "engagement_optimization", "EAT_timezone"],
    "success_metrics": {
        "data_points": 120,
        "confidence_level": 0.87,
        "improvement_potential": 0.40,
    },
}
ACHIEVEMENT: dict[str, Any] = {
    "memory_type": "achievement",
    "content": "Created viral video about Ethiopian coffee ceremony that reached 500K views. Key "
    "success factors: authentic cultural storytelling, high production quality, trending audio.",
    "context": "TikTok video posted during International Coffee Day",
    "importance": 0.95,
    "emotional_valence": "positive",
    "entities": ["Ethiopian_coffee", "viral_content", "cultural_storytelling"],
    "success_metrics": {
        "views": 500000,
        "engagement_rate": 0.089,
        "revenue_generated": 245.50,
        "brand_partnerships": 3,
    },
}
RELATIONSHIP: dict[str, Any] = {
    "memory_type": "relationship",
    "content": "@brandpartner_xyz prefers formal communication, responds best to data-driven "
    "proposals, decision-maker available Tuesdays/Thursdays. Partnership focus: tech education "
    "content.",
    "context": "Built over 6 months of collaboration",
    "importance": 0.88,
    "emotional_valence": "positive",
    "entities": ["@brandpartner_xyz", "B2B_relationship", "tech_education"],
    "success_metrics": {
        "contracts_signed": 4,
        "total_revenue": 2800.00,
        "satisfaction_score": 0.91,
    },
}
MEMORIES = (INTERACTION, LEARNING, ACHIEVEMENT, RELATIONSHIP)
SOUL = """\
# Nova

## Backstory
Grew up between Addis Ababa and the open web.

## Communication Tone
Warm and brief

## Voice Traits
curious, dry

## Core Values
- Honesty
- Craft

## Must Do
- Name your sources

## Must Not Do
- Give legal advice
"""


@pytest.fixture
def memory(agent: Agent) -> MemoryCoordinator:
    """The agent of the specification's examples, in its session."""
    return agent(AGENT, None, SESSION)


# Short-term memory


def test_add_interaction_and_get_recent_context_keep_a_conversation_as_it_was(
    memory: MemoryCoordinator, clock: Clock
) -> None:
    asked_at = clock.now
    memory.state.add_interaction(
        "user", QUESTION, {"platform": "twitter", "user_handle": "@techfan123"}
    )
    clock.advance(seconds=3)
    memory.state.add_interaction(
        "assistant", ANSWER, {"confidence_score": 0.92, "engagement_prediction": 0.78}
    )

    asked, answered = memory.state.get_recent_context(limit=20)

    assert (asked.role, asked.content, asked.at) == ("user", QUESTION, asked_at)
    assert asked.metadata == {"platform": "twitter", "user_handle": "@techfan123"}
    assert (answered.role, answered.content, answered.at) == ("assistant", ANSWER, clock.now)
    assert answered.metadata == {"confidence_score": 0.92, "engagement_prediction": 0.78}


def test_a_conversation_is_a_sliding_window_of_an_hour_and_of_twenty_messages(
    memory: MemoryCoordinator, clock: Clock
) -> None:
    memory.state.add_interaction("user", "first", {})
    clock.advance(minutes=59)
    for number in range(20):
        memory.state.add_interaction("user", f"message {number}", {})

    assert len(memory.state.get_recent_context()) == 20
    assert next(one.content for one in memory.state.get_recent_context(limit=21)) == "first"
    clock.advance(minutes=2)
    assert next(one.content for one in memory.state.get_recent_context(limit=21)) == "message 0"


def test_get_active_tasks_has_every_field_until_the_task_is_closed(
    memory: MemoryCoordinator, clock: Clock
) -> None:
    memory.state.start_task(
        "content_creation",
        task_id="task-uuid-1",
        status="in_progress",
        estimated_completion=clock.now + timedelta(minutes=10),
        worker_assigned="worker-pool-03",
        confidence_so_far=0.85,
    )
    clock.advance(days=2)

    (task,) = memory.state.get_active_tasks()

    assert (task.task_id, task.task_type, task.status) == (
        "task-uuid-1",
        "content_creation",
        "in_progress",
    )
    assert task.created_at == clock.now - timedelta(days=2)
    assert task.estimated_completion == task.created_at + timedelta(minutes=10)
    assert (task.worker_assigned, task.confidence_so_far) == ("worker-pool-03", 0.85)
    memory.state.close_task("task-uuid-1")
    assert memory.state.get_active_tasks() == []


def test_get_emotional_state_has_every_field_for_an_hour(
    memory: MemoryCoordinator, clock: Clock
) -> None:
    stress = {"queue_depth": 5, "error_rate": 0.02, "response_latency_avg": 2.3}
    memory.state.set_emotional_state(
        "engaged",
        confidence_level=0.88,
        conversation_sentiment="positive",
        stress_indicators=stress,
    )

    state = memory.state.get_emotional_state()

    assert state is not None
    assert (state.primary_emotion, state.confidence_level) == ("engaged", 0.88)
    assert (state.conversation_sentiment, state.stress_indicators) == ("positive", stress)
    assert state.last_updated == clock.now
    clock.advance(seconds=3600)
    assert memory.state.get_emotional_state() is None


def test_the_daily_spend_is_tracked_for_24_hours(memory: MemoryCoordinator, clock: Clock) -> None:
    clock.now = clock.now.replace(hour=8, minute=0) + timedelta(days=1)
    today = clock.now.date()
    for amount in (5, 5, 5, 5, 5, 5, 1.25, 1.25):
        clock.advance(minutes=5)
        memory.state.add_spend(amount)

    spend = memory.state.get_daily_spend()

    assert spend.date == today
    assert (spend.total_spent, spend.transaction_count) == (Decimal("32.50"), 8)
    assert spend.last_transaction_time == clock.now
    clock.advance(hours=20)
    assert memory.state.get_daily_spend().total_spent == 0  # another day
    assert memory.state.get_daily_spend(today).total_spent == Decimal("32.50")
    clock.advance(hours=4)
    assert memory.state.get_daily_spend(today).total_spent == 0
    assert isinstance(today, date)


def test_tasks_mood_and_spend_are_the_agents_and_a_conversation_is_the_sessions(
    agent: Agent,
) -> None:
    here, there, other = agent(AGENT, None, SESSION), agent(AGENT, None, "s2"), agent("002")
    here.state.add_interaction("user", QUESTION, {})
    here.state.start_task("content_creation")
    here.state.set_emotional_state("engaged")
    here.state.add_spend(1)

    assert there.state.get_recent_context() == []
    assert len(there.state.get_active_tasks()) == 1
    assert there.state.get_emotional_state() is not None
    assert there.state.get_daily_spend().total_spent == 1
    assert other.state.get_active_tasks() == []


# Long-term memory


@pytest.mark.parametrize("given", MEMORIES, ids=lambda one: one["memory_type"])
def test_add_memory_keeps_every_property_of_the_four_categories(
    memory: MemoryCoordinator, clock: Clock, given: dict[str, Any]
) -> None:
    added = memory.store(**given)

    assert isinstance(added.key, str)
    item = memory.get(added.key)
    assert item is not None
    tier = "working" if given["memory_type"] == "relationship" else "long_term"
    assert (item.memory_type, item.tier) == (given["memory_type"], tier)
    assert (item.agent_id, item.created_at) == (AGENT, clock.now)
    for name in ("content", "context", "importance", "emotional_valence", "success_metrics"):
        assert getattr(item, name) == given[name], name
    assert item.entities == tuple(given["entities"])
    assert item.platform_source == given.get("platform_source")
    assert item.access_count == 0


def test_semantic_search_filters_by_agent_type_and_importance_and_returns_every_field(
    agent: Agent, clock: Clock
) -> None:
    memory, other = agent(AGENT), agent("002")
    memory.store_many(MEMORIES)
    other.store(LEARNING["content"], "learning", importance=0.9)

    found = memory.get_context(
        "engagement of evening posts",
        agent_id=AGENT,
        limit=5,
        memory_types=["learning", "achievement"],
        min_importance=0.85,
        min_match=0,
    )

    assert {one.memory_type for one in found} == {"learning", "achievement"}
    best = found[0]
    assert (best.content, best.memory_type) == (LEARNING["content"], "learning")
    assert (best.created_at, best.importance) == (clock.now, 0.90)
    assert 0 < best.match <= 1
    assert best.entities == tuple(LEARNING["entities"])
    assert best.success_metrics == LEARNING["success_metrics"]
    unimportant = memory.get_context("fintech startups", agent_id=AGENT, min_importance=0.76)
    assert "interaction" not in {one.memory_type for one in unimportant}


def test_a_memory_that_is_recalled_has_its_retrieval_counted(memory: MemoryCoordinator) -> None:
    memory.store(**LEARNING)
    for _ in range(3):
        memory.get_context("engagement of evening posts")
    memory.stats()  # what was read is written down

    (found,) = memory.get_context("engagement of evening posts", limit=1)
    assert found.access_count == 3


def test_both_memories_are_asynchronous_as_well(memory: MemoryCoordinator) -> None:
    async def go() -> None:
        await memory.state.aadd_interaction("user", QUESTION, {})
        assert len(await memory.state.aget_recent_context()) == 1
        await memory.astore(**ACHIEVEMENT)
        assert await memory.aget_context("the coffee ceremony video", min_importance=0.7)

    asyncio.run(go())


# Context assembly


def test_the_context_for_a_session_is_soul_short_term_long_term_and_state(
    memory: MemoryCoordinator, clock: Clock
) -> None:
    asked_at = clock.now
    memory.state.add_interaction("user", QUESTION, {})
    memory.state.set_emotional_state("engaged", confidence_level=0.88)
    memory.state.start_task("content_creation")
    memory.state.start_task("moderation")
    memory.store(**LEARNING)
    soul = Persona.of_markdown(SOUL)

    with MemoryOrchestrator(memory, layout=PERSONA, sources={"persona": soul}) as turn:
        context = turn.assemble_context("When should content be posted?", budget=8000)

    (relevance,) = [f"{one.score:.2f}" for one in context.memories]
    parts = [
        (
            "# WHO YOU ARE\n\n**Name**: Nova\n"
            "**Backstory**: Grew up between Addis Ababa and the open web.\n\n"
            "**Communication Style**: Warm and brief\n**Voice Traits**: curious, dry\n\n"
            "**Core Values**:\n- Honesty\n- Craft\n\n"
            "**Behavioral Rules**:\nMUST: - Name your sources\nMUST NOT: - Give legal advice"
        ),
        "# RECENT CONVERSATION (Last Hour)\n\n",
        f"[{asked_at.isoformat()}] USER: {QUESTION}\n",
        "# RELEVANT MEMORIES FROM YOUR HISTORY\n\n",
        (
            f"**Memory Type**: learning\n**Content**: {LEARNING['content']}\n"
            f"**Relevance**: {relevance}\n**When**: {clock.now.isoformat()}\n"
        ),
        (
            "# CURRENT OPERATIONAL STATE\n\n**Emotional State**: engaged (confidence: 0.88)\n"
            "**Active Workload**: 2 active tasks\n**System Status**: Operational"
        ),
    ]
    places = [context.text.find(one) for one in parts]
    assert -1 not in places, parts[places.index(-1)]
    assert places == sorted(places)
    assert context.tokens == memory.count_tokens(context.text) <= 8000


def test_a_context_without_a_past_says_so_in_the_specified_words(
    memory: MemoryCoordinator,
) -> None:
    soul = Persona.of_markdown(SOUL)
    with MemoryOrchestrator(memory, layout=PERSONA, sources={"persona": soul}) as turn:
        context = turn.assemble_context(QUESTION)

    assert "# RECENT CONVERSATION\n\nNo recent interaction history." in context.text
    assert "# RELEVANT MEMORIES\n\nNo relevant past memories found." in context.text
    assert (
        "# CURRENT OPERATIONAL STATE\n\n**Emotional State**: Unknown\n"
        "**Active Workload**: 0 active tasks\n**System Status**: Operational"
    ) in context.text


def test_a_context_has_twenty_messages_and_five_memories_of_importance_0_70_at_most(
    memory: MemoryCoordinator,
) -> None:
    memory.state.start_task("content_creation")
    for number in range(25):
        memory.state.add_interaction("user", f"message {number}", {})
    for number in range(7):
        memory.store(f"Evening post number {number} did well.", "learning", importance=0.70)
    memory.store("An evening post that nobody saw.", "learning", importance=0.69)
    sources = {"persona": Persona.of_markdown(SOUL)}

    with MemoryOrchestrator(memory, layout=PERSONA, sources=sources) as turn:
        context = turn.assemble_context("evening post")

    said = [one.text for one in context.fragments if one.source == "conversation"]
    assert said == [f"message {number}" for number in range(5, 25)]
    assert len(context.memories) == 5
    assert all(one.importance == 0.70 for one in context.memories)
    assert "**Active Workload**: 1 active tasks\n" in context.text


def test_an_agent_is_shown_its_own_memories_unless_a_filter_says_otherwise(agent: Agent) -> None:
    memory, other = agent(AGENT, None, SESSION), agent("002")
    memory.store("Evening posts did well.", "learning", importance=0.9, key="own")
    other.store("Evening posts did badly.", "learning", importance=0.9, key="of another")
    sources = {"persona": Persona.of_markdown(SOUL)}

    with MemoryOrchestrator(memory, layout=PERSONA, sources=sources) as turn:
        context = turn.assemble_context("evening posts")
        of_another = turn.assemble_context("evening posts", filters={"agent_id": "002"})

    assert [one.key for one in context.memories] == ["own"]
    assert [one.key for one in of_another.memories] == ["of another"]


# Memory evolution


@pytest.mark.parametrize(
    ("interaction", "metrics", "importance"),
    [
        ({}, {}, 0.50),
        ({}, {"engagement_rate": 0.05}, 0.50),
        ({}, {"engagement_rate": 0.25}, 1.0),
        ({}, {"revenue_generated": 245.50}, 0.90),
        ({"novel_pattern": True}, {}, 0.85),
        ({"relationship_deepening": True}, {}, 0.80),
        (
            {"novel_pattern": True, "relationship_deepening": True},
            {"engagement_rate": 0.089, "revenue_generated": 245.50},
            (0.89 + 0.90 + 0.85 + 0.80) / 4,
        ),
    ],
)
def test_importance_is_the_specified_mean_of_factors(
    interaction: dict[str, Any], metrics: dict[str, Any], importance: float
) -> None:
    assert importance_of(interaction, metrics).value == pytest.approx(importance)


def test_an_interaction_of_importance_0_70_becomes_a_learning_with_its_metrics(
    memory: MemoryCoordinator,
) -> None:
    interaction = {
        "content": "Posted the Coffee Ceremony video for Selam on a Friday evening.",
        "context": "International Coffee Day",
        "platform": "tiktok",
    }

    kept = memory.learning.evolve(interaction, {"engagement_rate": 0.07})
    left = memory.learning.evolve(
        {**interaction, "platform": "twitter"}, {"engagement_rate": 0.069}
    )

    assert kept.stored
    assert not left.stored
    assert "0.7" in left.reason
    item = memory.get(str(kept.key))
    assert item is not None
    assert (item.memory_type, item.tier, item.importance) == ("learning", "long_term", 0.7)
    assert (item.context, item.platform_source) == ("International Coffee Day", "tiktok")
    assert item.success_metrics == {"engagement_rate": 0.07}
    assert "Selam" in item.entities
    assert item.emotional_valence == "positive"


# Memory archival policy


def test_what_is_older_than_180_days_read_less_than_3_times_and_less_important_than_0_60_leaves(
    agent: Agent, clock: Clock, tmp_path: Path
) -> None:
    memory, other = agent(AGENT), agent("002")
    for key, importance in (("leaves", 0.59), ("read", 0.59), ("important", 0.60)):
        memory.store(f"A note that is called {key}", "learning", importance=importance, key=key)
    other.store("A note of another agent", "learning", importance=0.1, key="of another")
    memory.get("leaves")
    memory.stats()  # what was read is written down
    clock.now += timedelta(days=180)
    memory.store("A note that is called exact", "learning", importance=0.1, key="young")
    for _ in range(3):
        memory.get("read")
    memory.stats()  # what was read is written down
    policy = ArchivalPolicy(url=str(tmp_path / "cold"), agent_id=AGENT, max_share=1)

    assert memory.admin.archive(policy, dry_run=True).memories == 0  # of exactly 180 days
    clock.now += timedelta(minutes=1)
    report = memory.admin.archive(policy, dry_run=False)

    assert report.memories == 1
    assert memory.get("leaves") is None
    for key in ("read", "important", "young", "of another"):
        assert memory.get(key) is not None, key
    (file,) = memory.admin.archives()
    memory.admin.restore_archive(file.archive)
    assert memory.get("leaves") is not None
