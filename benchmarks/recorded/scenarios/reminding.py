"""Prospective memory, and what is going on."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

from benchmarks.recorded.world import World
from langmem_tiers import BeforeTool, If, MemoryCoordinator, ShortTermState, When


def reminding(world: World) -> None:
    """Intend each way, be reminded, and close."""
    memory = world.memory(project_id="billing", session_id="chat")
    _intended(world, memory)
    _raised(world, memory)
    _closed(world, memory)


def _intended(world: World, memory: MemoryCoordinator) -> None:
    soon = world.clock.now + timedelta(hours=2)
    intents: tuple[tuple[str, dict[str, Any]], ...] = (
        ("Call Ben about the launch", {"key": "call", "at": soon, "priority": "high"}),
        ("Ask her for the new figures", {"key": "ask", "cue": "when Anna mentions the budget"}),
        ("Tag the commit", {"key": "tag", "before_tool": "deploy"}),
        ("Tell the team", {"key": "tell", "when": "released", "after": ["tag"]}),
        ("Water the plants", {"key": "water", "expires_at": soon, "priority": "low"}),
        ("Pay in euros", {"key": "pay", "before_tool": BeforeTool("pay", {"currency": "USD"})}),
        ("Greet Carla", {"key": "greet", "cue": When("Carla arrives"), "tags": ["polite"]}),
        ("Close the shop", {"key": "close", "when": If("evening")}),
        ("Call Ben about the launch", {"key": "call", "at": soon}),
        ("Do two things", {"at": soon, "cue": "when it rains"}),
        ("Go in a circle", {"key": "tag", "after": ["tell"]}),
        ("", {}),
        ("Come too late", {"expires_at": "2020-01-01T00:00:00+00:00"}),
        ("Wait for nothing", {"after": ["absent"]}),
    )
    for content, options in intents:
        world.call(memory, "intend", content, **options)
    world.call(memory, "intentions")
    world.call(memory, "intentions", ["pending", "done"], limit=2)
    world.call(memory, "intentions", "odd")


def _raised(world: World, memory: MemoryCoordinator) -> None:
    predicates = {"released": lambda state: state["tag"], "evening": lambda _: False}
    world.call(memory, "remind", "What did Anna say about the budget?", limit=1)
    world.call(memory, "remind", "Ben talks of the budget", lease_seconds=60)
    world.call(memory, "remind", tool="deploy", run_id="run-1")
    world.call(memory, "remind", tool="deploy", run_id="run-1")
    world.call(memory, "remind", tool={"name": "pay", "args": {"currency": "EUR"}})
    call = {"name": "pay", "args": {"currency": "USD"}}
    leased = world.call(memory, "remind", tool=[call], lease_seconds=60, kinds=["tool"])
    world.call(memory, "acknowledge", *leased)
    world.call(memory, "acknowledge", "odd token")
    world.call(memory, "complete", "tag")
    world.call(memory, "remind", state={"tag": True}, predicates=predicates)
    world.clock.advance(hours=3)
    world.call(memory, "remind", kinds=["time"], lease_seconds=30)
    world.clock.advance(minutes=1)
    world.call(memory, "remind", limit=5)
    world.call(memory, "remind", kinds=["odd"])
    world.call(memory, "remind", limit=-1)


def _closed(world: World, memory: MemoryCoordinator) -> None:
    world.call(memory, "snooze", "greet", world.clock.now + timedelta(days=1))
    world.call(memory, "snooze", "tag", "2027-01-01T00:00:00+00:00")
    world.call(memory, "snooze", "greet", "soon")
    world.call(memory, "cancel", "close")
    world.call(memory, "cancel", "close")
    world.call(memory, "cancel", "absent")
    world.call(memory, "complete", "absent")
    world.clock.advance(days=2)
    world.call(memory, "remind", "Carla arrives at last")
    world.call(memory, "intentions", ["done", "cancelled", "expired", "delivered"])
    world.clock.advance(days=40)
    world.call(world.store, "sweep_ttl")


def states(world: World) -> None:
    """A conversation's end; an agent's tasks, goals, mood and spend."""
    memory = world.memory(project_id="billing", session_id="chat", agent_id="coder")
    world.call(memory.state, "snapshot")
    _conversation(world, memory.state)
    _tasks(world, memory.state)
    _goals(world, memory.state)
    _mood_and_spend(world, memory.state)
    world.call(memory.state, "snapshot", limit=1)
    nobody = world.memory().state
    world.call(nobody, "add_interaction", "user", "who am I?")
    world.call(nobody, "snapshot")


def _conversation(world: World, state: ShortTermState) -> None:
    world.call(state, "add_interaction", "user", "When do keys rotate?", message_id="m1")
    world.clock.advance(seconds=5)
    world.call(state, "add_interaction", "assistant", "On Mondays.", {"tokens": 4})
    world.call(state, "add_interaction", "user", "When do keys rotate?", message_id="m1")
    world.call(state, "add_interaction", "", "nothing")
    world.call(state, "get_recent_context", limit=1)
    world.call(state, "get_recent_context", limit=-1)
    world.call(state, "clear_conversation")
    world.call(state, "add_interaction", "user", "And certificates?", message_id="m2")


def _tasks(world: World, state: ShortTermState) -> None:
    later = world.clock.now + timedelta(hours=1)
    world.call(state, "start_task", "calling Ann", task_id="t1", worker_assigned="coder")
    world.call(state, "start_task", "filing", estimated_completion=later, metadata={"n": 1})
    world.call(state, "start_task", "odd", confidence_so_far=7)
    world.clock.advance(minutes=5)
    world.call(state, "update_task", "t1", status="waiting", confidence_so_far=0.5)
    world.call(state, "update_task", "absent", status="waiting")
    world.call(state, "get_active_tasks")
    world.call(state, "close_task", "t1")
    world.call(state, "close_task", "t1", "failed")


def _goals(world: World, state: ShortTermState) -> None:
    world.call(state, "set_goal", "g1", "Rotate the keys", priority=2, constraints=["not Friday"])
    world.call(state, "set_goal", "g2", "File the invoices")
    world.call(state, "set_goal", "", "Nothing")
    world.call(state, "advance_goal", "g1", 0.25, "found the vault", delta_id="d1")
    world.call(state, "advance_goal", "g1", 0.25, "found the vault", delta_id="d1")
    world.call(state, "advance_goal", "g1", 0.9, "rotated")
    world.call(state, "advance_goal", "absent", 0.5, "no")
    world.call(state, "get_goals")
    world.call(state, "close_goal", "g2", "abandoned")
    world.call(state, "close_goal", "absent")


def _mood_and_spend(world: World, state: ShortTermState) -> None:
    world.call(state, "get_emotional_state")
    signs = {"typos": 3}
    world.call(
        state, "set_emotional_state", "worried", confidence_level=0.7, stress_indicators=signs
    )
    world.call(state, "set_emotional_state", "")
    world.call(state, "get_emotional_state")
    world.call(state, "add_spend", Decimal("1.25"), transaction_id="x1")
    world.call(state, "add_spend", 1.25, transaction_id="x1")
    world.call(state, "add_spend", 0.5)
    world.call(state, "add_spend", float("nan"))
    world.call(state, "get_daily_spend")
    world.call(state, "get_daily_spend", world.clock.now.date() - timedelta(days=1))
