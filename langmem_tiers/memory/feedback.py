"""Feedback on LangSmith's runs, as outcomes of the memories that those runs were shown."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from langmem_tiers.core.errors import InvalidTypeError, short
from langmem_tiers.learn.outcome import OutcomeReport
from langmem_tiers.memory.coordinator import MemoryCoordinator
from langmem_tiers.memory.learning import record_outcome
from langmem_tiers.postgres.flow import Ask, Flow, unit

if TYPE_CHECKING:
    from langsmith.schemas import Feedback

GOOD = 0.5
"""The score from which a run counts as a success: LangSmith's thumbs are 0 and 1."""


def by_score(feedback: Feedback) -> bool | None:
    """Whether a score says success: from 0.5 on; None if there is no score."""
    return None if feedback.score is None else float(feedback.score) >= GOOD


def record_feedback(
    memory: MemoryCoordinator,
    feedback: Iterable[Feedback],
    *,
    succeeded: Callable[[Feedback], bool | None] = by_score,
) -> list[OutcomeReport]:
    """Credit what traced runs were shown with what people or evaluators said of them.

    A recall within a graph that is traced belongs to the whole trace, so feedback on any run of
    it counts. Each trace counts once: of several pieces of feedback, the first that says anything.
    All of it is read before anything is credited. A run that goes on after an interrupt is traced
    anew: what it recalled before that belongs to the first trace.

    Args:
        memory: The coordinator of the tenant whose runs they are.
        feedback: As `Client.list_feedback` returns it.
        succeeded: What a piece of feedback says; None if nothing.

    Returns:
        What each trace credited, in the order of the feedback.

    Raises:
        InvalidInputError: for what is no feedback, or if `succeeded` returns anything but True,
            False or None; nothing was credited.

    Example:
        ```python
        from langsmith import Client
        from langmem_tiers.memory.feedback import record_feedback

        record_feedback(memory, Client().list_feedback(run_ids=runs, feedback_key=["user_score"]))
        ```
    """
    return memory.runner.run(_credited(memory, feedback, succeeded))


async def arecord_feedback(
    memory: MemoryCoordinator,
    feedback: Iterable[Feedback] | AsyncIterable[Feedback],
    *,
    succeeded: Callable[[Feedback], bool | None] = by_score,
) -> list[OutcomeReport]:
    """Credit what traced runs were shown with their feedback; see `record_feedback`.

    Feedback may come from `AsyncClient.list_feedback` too. What `Client.list_feedback` returns is
    read in a thread, as it blocks.
    """
    return await memory.runner.arun(_credited(memory, feedback, succeeded))


def _credited(
    memory: MemoryCoordinator,
    feedback: Any,
    succeeded: Callable[[Feedback], bool | None],
) -> Flow[list[OutcomeReport]]:
    found = yield Ask(partial(list, feedback), partial(_read, feedback))
    reports = []
    for run, said in _outcomes(found, succeeded).items():
        reports.append((yield from unit(record_outcome(memory, success=said, run_id=run))))
    return reports


async def _read(feedback: Iterable[Feedback] | AsyncIterable[Feedback]) -> list[Feedback]:
    if isinstance(feedback, AsyncIterable):
        return [one async for one in feedback]
    return await asyncio.to_thread(list, feedback)


def _outcomes(
    feedback: Iterable[Feedback], succeeded: Callable[[Feedback], bool | None]
) -> dict[str, bool]:
    """The outcome of each trace that feedback says anything of."""
    if not callable(succeeded):
        raise InvalidTypeError("succeeded is a function of a piece of feedback")
    outcomes: dict[str, bool] = {}
    for one in feedback:
        run, said = _run(one), succeeded(one)
        if said is not None and not isinstance(said, bool):
            raise InvalidTypeError(f"succeeded returns True, False or None, not {short(said)}")
        if said is not None and run is not None:
            outcomes.setdefault(run, said)
    return outcomes


def _run(one: Feedback) -> str | None:
    """The trace that feedback is on; None for feedback on an experiment, which is on no run.

    Raises:
        InvalidTypeError: for what is no feedback.
    """
    if not hasattr(one, "run_id"):
        raise InvalidTypeError(
            f"feedback is what Client.list_feedback returns, a list of one too, not a "
            f"{type(one).__name__}"
        )
    run = getattr(one, "trace_id", None) or one.run_id
    return None if run is None else str(run)
