"""Nodes by which a graph evolves: what was worth remembering, and skills that recur."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda

from langmem_tiers.attempts import calls_in, messages_of, this_turn
from langmem_tiers.coordinator import MemoryCoordinator
from langmem_tiers.errors import MissingExtraError
from langmem_tiers.learn.evolve import WORTH_REMEMBERING
from langmem_tiers.learn.skills import MIN_SUPPORT, ToolCall, Trace, skill_candidates
from langmem_tiers.learning_nodes import (
    Judge,
    checked_of_state,
    judged_of,
    value_of,
    whose_memory,
)
from langmem_tiers.memory import StoreResult
from langmem_tiers.remember.memories import share
from langmem_tiers.runs import run_of

try:
    from langgraph.runtime import get_runtime
except ImportError as error:
    raise MissingExtraError(
        "nodes need LangGraph: pip install 'langmem-tiers[langgraph]'"
    ) from error

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
    whose = whose_memory(tenant, project_id, session_id, coordinator)
    checked_of_state(interaction, "interaction")
    checked_of_state(success_metrics, "success_metrics")
    if judged is not None:
        checked_of_state(judged, "judged")
    share(threshold, "threshold")

    def worked(state: Any) -> bool:
        return judged is None or judged_of(state, judged) is True

    def given(state: Any) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        return value_of(state, interaction), value_of(state, success_metrics)

    def evolve(state: Any, config: RunnableConfig) -> dict[str, Any]:
        if not worked(state):
            return _evolved(_NOT_JUDGED)
        memory = whose.memory(get_runtime(), config)
        return _evolved(memory.evolve(*given(state), threshold=threshold))

    async def aevolve(state: Any, config: RunnableConfig) -> dict[str, Any]:
        if not worked(state):
            return _evolved(_NOT_JUDGED)
        memory = whose.memory(get_runtime(), config)
        return _evolved(await memory.aevolve(*given(state), threshold=threshold))

    return RunnableLambda(evolve, aevolve, name=name)


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
    whose = whose_memory(tenant, project_id, session_id, coordinator)
    checked_of_state(success, "success")
    skill_candidates((), min_support=min_support)  # refuses a number that cannot be

    def learn(state: Any, config: RunnableConfig) -> dict[str, Any]:
        runtime = get_runtime()
        if (trace := _trace(state, success, runtime)) is None:
            return _proposed([])
        memory = whose.memory(runtime, config)
        return _proposed(memory.learn_skills(trace, min_support=min_support))

    async def alearn(state: Any, config: RunnableConfig) -> dict[str, Any]:
        runtime = get_runtime()
        if (trace := _trace(state, success, runtime)) is None:
            return _proposed([])
        memory = whose.memory(runtime, config)
        return _proposed(await memory.alearn_skills(trace, min_support=min_support))

    return RunnableLambda(learn, alearn, name=name)


def _trace(state: Any, success: Judge, runtime: Any) -> Trace | None:
    """What this run called; None if nothing, or if it is not known how it ended."""
    judged = judged_of(state, success)
    calls = [
        ToolCall(one.call["name"], frozenset(one.call["args"]), not one.failed)
        for one in calls_in(this_turn(messages_of(state)))
    ]
    return Trace(run_of(runtime).id, calls, judged) if calls and judged is not None else None


def _evolved(result: StoreResult) -> dict[str, Any]:
    told = {"stored": result.stored, "key": result.key, "reason": result.reason}
    return {"evolved": told}


def _proposed(results: list[StoreResult]) -> dict[str, Any]:
    return {"skills": [one.key for one in results if one.stored]}
