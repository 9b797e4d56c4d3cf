"""What is learned: outcomes, lessons, patterns, promotion and the way back, skills, success."""

from __future__ import annotations

from typing import Any

from benchmarks.recorded.adapter import ToolCall, Trace
from benchmarks.recorded.world import World
from benchmarks.ruling import Ruling
from langmem_tiers import FailedAttempt, MemoryCoordinator, PromotionPolicy
from langmem_tiers.learn.signature import Signature

COMMA = "ValueError: the amount '1,234' has a comma"
EASY = PromotionPolicy(
    min_access_count=0, min_success_rate=0.0, min_age_days=0.0, min_projects=1, demote_after=1
)
LESSON: dict[str, Any] = {
    "task_id": "Add up the invoices",
    "original_approach": 'add({"amount": "1,234"})',
    "failure_reason": COMMA,
    "improved_approach": 'add({"amount": "1234"})',
}


def learning(world: World) -> None:
    """Learn in one project, promote for all, and take back what fails."""
    memory = world.memory(project_id="billing")
    _lessons(world, memory)
    _outcomes(world, memory)
    _promoted(world, memory)
    _all_promoted(world, memory)
    _evolved(world, memory)
    _skills(world, memory)
    world.call(memory, "stats")


def _lessons(world: World, memory: MemoryCoordinator) -> None:
    world.call(memory, "store_pattern", "Round an amount only at the end", tags=["Money"])
    world.call(memory, "store_pattern", "Round an amount only at the end", source_task="sum")
    world.call(memory, "store_pattern", " ")
    world.call(memory, "store_reflexion", **LESSON, failure=COMMA, tool="add", tags=["csv"])
    world.call(memory, "store_reflexion", **LESSON)
    world.call(memory, "store_reflexion", **{**LESSON, "task_id": ""})
    attempts = [
        FailedAttempt(task_id="pay", approach="pay(7)", error="TimeoutError: 30 s", tool="pay"),
        FailedAttempt(
            task_id="read",
            approach='read("/srv/a.txt")',
            error="FileNotFoundError: [Errno 2] No such file: '/srv/a.txt'",
            tool="read",
            succeeded_with='read("/srv/b.txt")',
        ),
    ]
    world.call(memory, "reflect", attempts)
    world.call(memory, "reflect", attempts[1:])
    world.call(memory, "reflect", attempts[0])
    world.call(memory, "reflect", [])
    world.call(memory, "reflect", ["odd"])
    other = "ValueError: the amount '77,5' has a comma"
    world.call(memory, "get_lessons", other, tools="add", run_id="run-0")
    world.call(memory, "get_lessons", ValueError("the amount '5,5' has a comma"), tools=["add"])
    world.call(memory, "get_lessons", Signature(tool="read", error="OSError", template="gone"))
    world.call(memory, "get_lessons", tools=["add", "read"], query="read a file", limit=1)
    world.call(memory, "get_lessons", tools="add", approach=LESSON["original_approach"])
    world.call(memory, "get_lessons", limit=101)


def _outcomes(world: World, memory: MemoryCoordinator) -> None:
    for key, content in (
        ("language", "Write invoices in the language of Ann Miller of Berlin"),
        ("turned", "Send the invoice twice if nobody answers"),
    ):
        world.call(memory, "store", content, "pattern", key=key, tier="working")
    found = world.call(memory, "get_context", "invoices", run_id="run-1")
    world.call(memory, "record_outcome", success=True, run_id="run-1")
    world.call(memory, "record_outcome", success=False, run_id="run-1")
    for worked in (True, False):
        world.call(memory, "record_outcome", found[:1], worked)
    world.call(memory, "record_outcome", [], success=False)
    world.call(memory, "record_outcome", success=True)
    world.call(memory, "record_outcome", found)
    world.call(memory, "record_outcome", success=True, run_id="nobody")
    world.call(memory, "expose", found, run_id="run-2", holdout=0.5)
    world.call(memory, "expose", found, run_id="")
    world.call(memory, "record_outcome", success=True, run_id="run-2")
    world.call(memory, "stats")


def _promoted(world: World, memory: MemoryCoordinator) -> None:
    world.call(memory, "explain", "language")
    world.call(memory, "promote_to_long_term", "language")
    world.call(memory, "promote_to_long_term", "absent")
    world.clock.advance(days=8)
    moved = world.call(memory, "promote_to_long_term", "language", policy=EASY)
    world.call(memory, "promote_to_long_term", "language", policy=EASY)
    world.call(memory, "explain", "language")
    world.call(memory, "explain", moved.successor)
    world.call(memory, "explain", "absent")
    world.call(memory, "get_context", "invoices in which language?")
    world.call(memory, "rollback", moved.move)
    world.call(memory, "rollback", moved.move)
    world.call(memory, "rollback", "odd")
    world.call(memory, "rollback", moved)
    world.call(memory, "explain", "language")
    world.call(memory, "promote_to_long_term", "language", policy=EASY, model=Ruling())
    shipping = world.memory(project_id="shipping")
    world.call(
        shipping,
        "store",
        "Write invoices in the language of Ann Miller of Berlin",
        "pattern",
        key="again",
    )
    again = world.call(shipping, "promote_to_long_term", "again", policy=EASY)
    world.told("reinforced", str(again))


def _all_promoted(world: World, memory: MemoryCoordinator) -> None:
    world.call(memory, "promote")
    world.call(memory, "promote", policy=EASY)
    world.call(memory, "promote", policy=EASY, model=Ruling())
    for run in "abc":
        world.clock.advance(hours=1)
        world.call(memory, "get_context", "send the invoice twice", run_id=f"bad-{run}")
        world.call(memory, "record_outcome", success=False, run_id=f"bad-{run}")
    world.call(memory, "demote")
    demoted = world.call(memory, "demote", policy=EASY)
    world.call(memory, "demote", policy="odd")
    for one in demoted[:1]:
        world.call(memory, "explain", one.key)
        world.call(memory, "history", one.key)
        world.call(memory, "rollback", one.move)


def _evolved(world: World, memory: MemoryCoordinator) -> None:
    talk = {
        "asked": "Which layout sells better?",
        "done": ["showed both layouts", "measured for a week"],
        "outcome": "The second layout sold twice as much",
        "platform": "web",
        "novel_pattern": True,
    }
    metrics = {"engagement_rate": 0.9, "revenue_generated": 1200, "success": True}
    world.call(memory, "evolve", talk, metrics)
    world.call(memory, "evolve", talk, metrics)
    world.call(memory, "evolve", {"said": "nothing much"}, {"success": False}, threshold=0.9)
    world.call(memory, "evolve", {}, {})
    world.call(memory, "evolve", talk, {"success": "odd"})


def _skills(world: World, memory: MemoryCoordinator) -> None:
    calls = [
        ToolCall("read", frozenset({"path"}), succeeded=True),
        ToolCall("add", frozenset({"amount"}), succeeded=True),
        ToolCall("pay", frozenset({"amount"}), succeeded=True),
    ]
    for run in "wxyz":
        world.call(memory, "learn_skills", Trace(f"run-{run}", calls, succeeded=run != "z"))
    world.call(memory, "learn_skills", min_support=2)
    world.call(memory, "learn_skills", "odd")
