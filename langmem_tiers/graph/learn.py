"""Nodes by which a graph learns: reflexions from failures, outcomes, and promotion."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable, RunnableConfig

from langmem_tiers.core.config import PromotionSettings
from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError, short
from langmem_tiers.core.structured import checked_model
from langmem_tiers.core.values import storable
from langmem_tiers.graph.attempts import attempts_in, messages_of, task_of
from langmem_tiers.graph.node import Remembered, checked_blocking, checked_of_state, of_state
from langmem_tiers.graph.recall import node
from langmem_tiers.learn.policy import promotion_policy
from langmem_tiers.learn.promote import Promotion
from langmem_tiers.learn.reflexion import FailedAttempt
from langmem_tiers.learn.rollback import Demotion
from langmem_tiers.memory.coordinator import MemoryCoordinator

Attempts = Callable[[Any], FailedAttempt | Iterable[FailedAttempt] | None]
"""What failed, of a graph's state."""
Judge = str | Callable[[Any], bool | None]
"""A key of the state, or a function of the state: whether the run succeeded; None is not known."""

_NODE_ERROR = "__pregel_node_error"
"""Where LangGraph (1.2 and later) puts the `NodeError` that it hands to an error handler."""


def create_reflexion_node(
    *,
    model: BaseChatModel | None = None,
    attempts: Attempts | None = None,
    tenant: str | None = None,
    project_id: str | None = None,
    session_id: str | None = None,
    coordinator: Callable[..., MemoryCoordinator] = MemoryCoordinator,
    name: str = "reflexion",
) -> Runnable[Any, dict[str, Any]]:
    """A node that learns from what failed, after a tool node, an evaluator, or as error handler.

    It keeps each failed attempt and stores the lesson of it. It writes the state key `reflexions`,
    the keys of the lessons. A retry of the node stores nothing twice.

    Args:
        model: A chat model that draws the lesson, by structured output, once of each attempt.
            Without one the lesson is extracted: the real error, and the retry that worked later, a
            call of the same tool that resembles it. While none has, the attempt alone is kept.
        attempts: What failed, as a function of the state. If not given, it is each failed tool
            call of this turn among `messages`; and where the node is given to
            `add_node(error_handler=…)`, the exception of the node that failed after its retries.
        tenant: A label, in which `{name}` stands for `config["configurable"]["name"]`.
        project_id: Likewise.
        session_id: Likewise.
        coordinator: Makes the coordinator from a store and `context`.
        name: The node's name, in traces too.

    Raises:
        ModelError: when it runs, if the model gave nothing usable; the attempts are kept.
    """
    whose = Remembered(
        tenant=tenant, project_id=project_id, session_id=session_id, coordinator=coordinator
    )
    if attempts is not None and not callable(attempts):
        raise InvalidTypeError("attempts is a function of the state")
    checked_blocking(attempts, "attempts")
    if model is not None:
        checked_model(model)

    async def reflect(
        memory: MemoryCoordinator, state: Any, config: RunnableConfig
    ) -> dict[str, Any]:
        learned = await memory.areflect(_failed(state, config, attempts), model=model)
        return {"reflexions": [one.key for one in learned]}

    return node(name, whose, reflect)


def create_outcome_node(
    success: Judge,
    *,
    tenant: str | None = None,
    project_id: str | None = None,
    session_id: str | None = None,
    coordinator: Callable[..., MemoryCoordinator] = MemoryCoordinator,
    name: str = "outcome",
) -> Runnable[Any, dict[str, Any]]:
    """A node that credits what the recall node showed with what came of it.

    Each recall is credited once, however often this node is retried. It writes nothing to the
    state but `credited`, how many memories were.

    Args:
        success: Whether it succeeded: a key of the state, or a function of it. While that is
            None nothing is credited.
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

    async def credit(memory: MemoryCoordinator, state: Any, _: RunnableConfig) -> dict[str, Any]:
        if (judged := judged_of(state, success)) is None:
            return {"credited": 0}
        report = await memory.arecord_outcome(success=judged, run_id=_run(state))
        return {"credited": report.credited}

    return node(name, whose, credit)


def create_promotion_node(
    *,
    policy: PromotionSettings | None = None,
    model: BaseChatModel | None = None,
    tenant: str | None = None,
    coordinator: Callable[..., MemoryCoordinator] = MemoryCoordinator,
    name: str = "promotion",
) -> Runnable[Any, dict[str, Any]]:
    """A node that promotes what has proven itself, and demotes what has failed since.

    It looks at the whole tenant. It writes the state keys `promoted` and `demoted`, each a list of
    the moves that were made, as JSON; `rollback` takes the `move` of each.

    Args:
        policy: What a memory must have shown; the coordinator's own if not given.
        model: A chat model that generalises what is promoted; rules do if not given.
        tenant: A label, in which `{name}` stands for `config["configurable"]["name"]`.
        coordinator: Makes the coordinator from a store and `context`.
        name: The node's name, in traces too.
    """
    whose = Remembered(tenant=tenant, coordinator=coordinator)
    promotion_policy(policy)  # refuses what is none
    if model is not None:
        checked_model(model)

    async def promote(memory: MemoryCoordinator, _: Any, __: RunnableConfig) -> dict[str, Any]:
        demoted = await memory.ademote(policy=policy)
        return _moved(demoted, await memory.apromote(policy=policy, model=model))

    return node(name, whose, promote)


def _failed(state: Any, config: RunnableConfig, attempts: Attempts | None) -> list[FailedAttempt]:
    """The failed attempts: the caller's, or those of the messages and of a node's error."""
    if attempts is not None:
        found = attempts(state) or ()
        return [found] if isinstance(found, FailedAttempt) else list(found)
    caught = (config.get("configurable") or {}).get(_NODE_ERROR)
    messages = messages_of(state)
    of_node = [] if caught is None else [_of_node(caught, messages)]
    return [*of_node, *attempts_in(messages)]


def _of_node(caught: Any, messages: list[Any]) -> FailedAttempt:
    """The failure of a whole node, after its retries."""
    return FailedAttempt(
        task_id=task_of(messages),
        approach=f"ran the node {caught.node}",
        error=storable(f"{type(caught.error).__name__}: {caught.error}"),
        tool=caught.node,
    )


def judged_of(state: Any, success: Judge) -> bool | None:
    """Whether a run succeeded, as its state says; None if that is not known.

    Raises:
        InvalidInputError: for a state without that key, or a judgement that is none.
    """
    judged = of_state(state, success)
    if judged is not None and not isinstance(judged, bool):
        raise InvalidTypeError(
            f"whether the run succeeded is True, False or None, not {short(judged)}"
        )
    return judged


def _run(state: Any) -> str:
    """The run that the recall node noted."""
    run = of_state(state, "recalled_run", None)
    if not run:
        raise InvalidInputError(
            "the graph's state has no 'recalled_run': put the recall node before this one, and "
            "add the key to the state (MemoryState has it)"
        )
    return str(run)


def _moved(demotions: list[Demotion], promotions: list[Promotion]) -> dict[str, Any]:
    return {
        "promoted": [
            {"key": one.key, "successor": one.successor, "move": one.move, "reason": one.reason}
            for one in promotions
            if one.promoted
        ],
        "demoted": [{"key": one.key, "move": one.move} for one in demotions if one.demoted],
    }
