"""Nodes by which a graph evolves: what was worth remembering, and skills that recur."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from langchain_core.runnables import Runnable, RunnableConfig

from langmem_tiers.core.memory import StoreResult
from langmem_tiers.core.values import storable
from langmem_tiers.graph.attempts import calls_in, messages_of, this_turn
from langmem_tiers.graph.learn import Judge, judged_of
from langmem_tiers.graph.node import Remembered, checked_of_state, of_state
from langmem_tiers.graph.recall import node, this_run
from langmem_tiers.learn.evolve import WORTH_REMEMBERING
from langmem_tiers.learn.skills import MIN_SUPPORT, ToolCall, Trace, skill_candidates
from langmem_tiers.memory.coordinator import MemoryCoordinator
from langmem_tiers.remember.new import share

Found = str | Callable[[Any], Mapping[str, Any]]
"""A key of the state, or a function of the state, that holds a mapping."""

_NOT_JUDGED = StoreResult(stored=False, reason="the run was not judged a success")


def create_evolution_node(
    *,
    interaction: Found,
    success_metrics: Found,
    judged: Judge | None = None,
    threshold: float = WORTH_REMEMBERING,
    tenant: str | None = None,
    project_id: str | None = None,
    session_id: str | None = None,
    coordinator: Callable[..., MemoryCoordinator] = MemoryCoordinator,
    name: str = "evolution",
) -> Runnable[Any, dict[str, Any]]:
    """A node that remembers an interaction that succeeded, if it was worth it.

    It writes the state key `evolved`: a mapping of `stored`, `key` and `reason`. A retry of the
    node stores nothing twice.

    Args:
        interaction: What happened, as `evolve` takes it: a key of the state, or a function of it.
        success_metrics: What came of it; likewise.
        judged: Whether it succeeded; likewise. What is False or None is not remembered. If not
            given, the metrics alone decide.
        threshold: The importance from which on it is stored, from 0 to 1.
        tenant: A label, in which `{name}` stands for `config["configurable"]["name"]`.
        project_id: Likewise.
        session_id: Likewise.
        coordinator: Makes the coordinator from a store and `context`.
        name: The node's name, in traces too.
    """
    whose = Remembered(
        tenant=tenant, project_id=project_id, session_id=session_id, coordinator=coordinator
    )
    checked_of_state(interaction, "interaction")
    checked_of_state(success_metrics, "success_metrics")
    if judged is not None:
        checked_of_state(judged, "judged")
    share(threshold, "threshold")

    async def evolve(memory: MemoryCoordinator, state: Any, _: RunnableConfig) -> dict[str, Any]:
        if judged is not None and not judged_of(state, judged):
            return _evolved(_NOT_JUDGED)
        happened, metrics = of_state(state, interaction), of_state(state, success_metrics)
        return _evolved(await memory.aevolve(happened, metrics, threshold=threshold))

    return node(name, whose, evolve)


def create_skill_node(
    success: Judge,
    *,
    min_support: int = MIN_SUPPORT,
    tenant: str | None = None,
    project_id: str | None = None,
    session_id: str | None = None,
    coordinator: Callable[..., MemoryCoordinator] = MemoryCoordinator,
    name: str = "skills",
) -> Runnable[Any, dict[str, Any]]:
    """A node that keeps which tools a run called, and proposes what recurs as a skill.

    It looks at the calls since the last human message, and belongs at the end of a run, after a
    loop of attempts: each time it is passed counts as a run, a retry does not. It writes the
    state key `skills`, the keys of the skills whose evidence changed. See `learn_skills`.

    Args:
        success: Whether the run succeeded: a key of the state, or a function of it. While that is
            None, and where no tool was called, nothing is kept.
        min_support: Runs that a sequence of calls has to succeed in.
        tenant: A label, in which `{name}` stands for `config["configurable"]["name"]`.
        project_id: Likewise.
        session_id: Likewise.
        coordinator: Makes the coordinator from a store and `context`.
        name: The node's name, in traces too.
    """
    whose = Remembered(
        tenant=tenant, project_id=project_id, session_id=session_id, coordinator=coordinator
    )
    checked_of_state(success, "success")
    skill_candidates((), min_support=min_support)  # refuses a number that cannot be

    async def learn(memory: MemoryCoordinator, state: Any, _: RunnableConfig) -> dict[str, Any]:
        if (trace := _trace(state, success)) is None:
            return {"skills": []}
        found = await memory.alearn_skills(trace, min_support=min_support)
        return {"skills": [one.key for one in found if one.stored]}

    return node(name, whose, learn)


def _trace(state: Any, success: Judge) -> Trace | None:
    """What this run called; None if nothing, or if it is not known how it ended."""
    judged = judged_of(state, success)
    calls = [
        ToolCall(one.tool, frozenset(map(storable, one.call["args"])), not one.failed)
        for one in calls_in(this_turn(messages_of(state)))
        if one.tool is not None
    ]
    if not calls or judged is None:
        return None
    return Trace(this_run().id, calls, judged)


def _evolved(result: StoreResult) -> dict[str, Any]:
    told = {"stored": result.stored, "key": result.key, "reason": result.reason}
    return {"evolved": told}
