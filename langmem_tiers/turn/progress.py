"""The progress that a turn makes towards the agent's goals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from langmem_tiers.core.errors import InvalidInputError, short
from langmem_tiers.postgres.flow import Flow, Query, Rows, unit
from langmem_tiers.state.flows import GOAL, Whose, goal_advanced, look, read
from langmem_tiers.state.state import Goal, ProgressDelta, checked_id, to_value
from langmem_tiers.turn.trace import ended_call, shown
from langmem_tiers.turn.turn import Turn, changing, check, going_on, spend

_NAMED = 5
"""The most goals that an error names: our own choice."""


def note_progress(turn: Turn, goal_id: str, delta: float, reason: str) -> Flow[None]:
    """Note how much nearer the turn brought a goal; `commit` adds it to the goal's progress.

    Args:
        goal_id: The id of a goal of `memory.state`.
        delta: How much nearer, from -1 to 1.
        reason: Why; one with private data that the policy does not accept is not kept.

    Raises:
        BudgetExceededError: if the turn has spent what it may.
        InvalidInputError: for a wrong delta, or a goal that is not set; the rest of what is pending
            stays so. The commit refuses a step whose goal is closed by then, by itself.
    """
    going_on(turn)
    goal = checked_id(goal_id, "goal_id")
    step = ProgressDelta(delta=delta, reason=reason, at=turn.now)
    return _noted(turn, goal, replace(step, reason=shown(step.reason, turn.memory.gate)))


def _noted(turn: Turn, goal: str, step: ProgressDelta) -> Flow[None]:
    """Keep a step, if its goal is set."""
    with changing(turn):
        check(turn, "note progress")
    known = yield from unit(look(Whose.of(turn.context), turn.now, kinds=(GOAL,)))
    goals = [one.goal_id for one in known.goals]
    if goal not in goals and not (yield from unit(was_committed(turn))):
        raise InvalidInputError(_no_goal(goal, goals))
    with changing(turn) as record:
        check(turn, "note progress")
        name = record.key("goal", len(record.goals))
        record.goals.append({"goal": goal, **to_value(replace(step, delta_id=name))})
        record.wanted.append(record.wish(turn.context, name, goal, step.delta, step.reason))
        spend(turn, "progressed", step.reason, goal=goal, delta=step.delta, delta_id=name)


def _no_goal(goal: str, goals: Sequence[str]) -> str:
    """Say what to do where there is no such goal."""
    named = ", ".join(short(one) for one in goals[:_NAMED])
    more = f", or name one of {named}{', …' if len(goals) > _NAMED else ''}" if goals else ""
    return f"there is no goal {short(goal)}: set it first{more}"


def was_committed(turn: Turn) -> Flow[bool]:
    """Tell whether a committed turn is tried again; the commit then says what it stored."""
    (rows,) = yield Query((ended_call(turn.context, going_on(turn).turn),), commit=True)
    return bool(rows)


def advanced(
    steps: Mapping[str, Sequence[ProgressDelta]], before: Sequence[Rows]
) -> tuple[dict[str, Goal], dict[str, str]]:
    """Return the goals after these steps, and why each step whose goal is gone is not taken."""
    goals: dict[str, Goal] = {}
    refused: dict[str, str] = {}
    for (goal, several), rows in zip(steps.items(), before, strict=True):
        if (known := read(Goal, rows)) is not None:
            goals[goal] = goal_advanced(goal, known, *several)
        else:
            why = f"the goal {short(goal)} is closed by now: it is no nearer"
            refused |= {str(one.delta_id): why for one in several}
    return goals, refused


def told(noted: Sequence[Mapping[str, Any]], goals: Mapping[str, Goal]) -> list[dict[str, Any]]:
    """Return the steps that were taken, each with how far its goal is by now."""
    taken = (one for one in noted if one["goal"] in goals)
    return [{**one, "progress": goals[one["goal"]].progress} for one in taken]
