"""Verbs that record exposures and outcomes of runs, also by LangSmith's feedback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from langmem_tiers.coordinator.base import Memory
from langmem_tiers.coordinator.recall import make_exposure
from langmem_tiers.core.checks import check_key, checked_flag, checked_instance, checked_label
from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError, short
from langmem_tiers.core.memory import Recollection, Recollections
from langmem_tiers.learning.outcome import (
    Exchange,
    OutcomeReport,
    Run,
    credit_outcome,
    record_exposures,
)
from langmem_tiers.postgres.flow import Ask, Flow, map_result, unit

if TYPE_CHECKING:
    from langsmith.schemas import Feedback


def record_exposure(
    memory: Memory,
    recollections: Iterable[Recollection],
    *,
    run_id: str | Run,
    holdout: float | None = None,
) -> Flow[Recollections]:
    """Record that a run is shown these memories, as a recall with a `run_id` does by itself.

    It is for callers who choose among recalled memories.

    Args:
        recollections: The memories; those recalled for the run are recorded already.
        run_id: The run that they are shown to.
        holdout: The share of them that the run goes without; see `get_context`.

    Returns:
        The memories to show: all that are not held out.
    """
    memories, shown_to = (
        _checked_recollections(recollections, memory.context),
        make_exposure(run_id, holdout),
    )
    if shown_to is None:
        raise InvalidInputError("shown to which run? Give its run_id")
    context, now = memory.context, memory.tiered_store.flows.now
    return map_result(record_exposures(memories, context, shown_to, now), Recollections)


def record_outcome(
    memory: Memory,
    recollections: Iterable[Recollection] | None = None,
    success: bool | None = None,  # noqa: FBT001 - the surface that was promised
    *,
    run_id: str | None = None,
    question: str = "",
    answer: str | None = None,
) -> Flow[OutcomeReport]:
    """Credit memories with the outcome of the run they were shown to.

    Of each memory, the first outcome of a run counts, and no second one of the same run. A
    run is one of the context's project and user, or of any where it names none.

    Args:
        recollections: The memories; if not given, all that were recalled for `run_id`.
        success: Whether the run succeeded; required.
        run_id: The run. Without it this call counts as a run of its own, and a repeated call
            as another one.
        question: The question to the run; words that the answer repeats from it are no sign of use.
        answer: The text, or the calls as text, that the run made after it was shown the memories.
            Those that it used are credited; the others are recorded as shown. If not given, all are
            credited.

    Raises:
        InvalidInputError: if neither memories nor a run are given, or not how it went; nobody
            was credited.
    """
    run = checked_label(run_id, "run_id")
    shown = None if recollections is None else _checked_recollections(recollections, memory.context)
    if shown is None and run is None:
        raise InvalidInputError(
            "an outcome of what? Give the memories that were shown, or the run_id that they "
            "were recalled for"
        )
    succeeded = checked_flag(success, "success, how the run went,")
    now = memory.tiered_store.flows.now
    for what, text in (("question", question), ("answer", answer)):
        if text is not None:
            checked_instance(text, str, what)
    exchange = None if answer is None else Exchange(question or "", answer)
    named = run or str(uuid4())
    return credit_outcome(
        named, memory.context, success=succeeded, now=now, shown=shown, exchange=exchange
    )


def as_list(value: Any) -> list[Any]:
    """Return one value, or a collection of them, as a list."""
    is_collection = isinstance(value, Collection | Iterator) and not isinstance(
        value, str | Mapping
    )
    return list(value) if is_collection else [value]


def _checked_recollections(
    value: Iterable[Recollection], context: MemoryContext
) -> list[Recollection]:
    if isinstance(value, Recollection):
        raise InvalidTypeError("recollections are a list: for one, give [memory]")
    memories = as_list(value)
    for memory in memories:
        if not isinstance(memory, Recollection):
            raise InvalidTypeError(
                f"recollections are what get_context returned, not {type(memory).__name__}; what "
                "came of them is success=…, and what was shown to a run is found by run_id=…"
            )
        if memory.namespace[0] != context.root:
            raise InvalidInputError(
                f"{memory.key!r} belongs to another tenant, {memory.namespace[0]!r}"
            )
        check_key(memory.key)
    return memories


SUCCESS_SCORE = 0.5
"""Least score of a success: LangSmith's thumbs are 0 and 1."""


def by_score(feedback: Feedback) -> bool | None:
    """Return True for a score of 0.5 or more, False for a lower one, None without a score."""
    return None if feedback.score is None else float(feedback.score) >= SUCCESS_SCORE


def record_feedback(
    memory: Memory,
    feedback: Iterable[Feedback],
    *,
    succeeded: Callable[[Feedback], bool | None] = by_score,
) -> list[OutcomeReport]:
    """Credit the memories that traced runs were shown with the feedback on these runs.

    A recall within a graph that is traced belongs to the whole trace, so feedback on any run of
    it counts. Each trace counts once: of several pieces of feedback, the first that says anything.
    All of it is read before anything is credited. A run that goes on after an interrupt is traced
    anew: what it recalled before that belongs to the first trace.

    Args:
        memory: A coordinator of the runs' tenant.
        feedback: Feedback as `Client.list_feedback` returns it.
        succeeded: Returns whether a piece of feedback means success; None if it says nothing.

    Returns:
        A report for each trace, in the order of the feedback.

    Raises:
        InvalidInputError: for what is no feedback, or if `succeeded` returns anything but True,
            False or None; nothing was credited.

    Example:
        ```python
        from langsmith import Client
        from langmem_tiers.coordinator.outcomes import record_feedback

        record_feedback(memory, Client().list_feedback(run_ids=runs, feedback_key=["user_score"]))
        ```
    """
    return memory.runner.run(_credit_feedback(memory, feedback, succeeded))


async def arecord_feedback(
    memory: Memory,
    feedback: Iterable[Feedback] | AsyncIterable[Feedback],
    *,
    succeeded: Callable[[Feedback], bool | None] = by_score,
) -> list[OutcomeReport]:
    """Credit the memories that traced runs were shown; see `record_feedback`.

    Feedback may come from `AsyncClient.list_feedback` too. That of `Client.list_feedback` is read
    in a thread, as it blocks.
    """
    return await memory.runner.arun(_credit_feedback(memory, feedback, succeeded))


def _credit_feedback(
    memory: Memory, feedback: Any, succeeded: Callable[[Feedback], bool | None]
) -> Flow[list[OutcomeReport]]:
    pieces = yield Ask(partial(list, feedback), partial(_read_feedback, feedback))
    reports = []
    for run, success in _outcomes_by_run(pieces, succeeded).items():
        reports.append((yield from unit(record_outcome(memory, success=success, run_id=run))))
    return reports


async def _read_feedback(feedback: Iterable[Feedback] | AsyncIterable[Feedback]) -> list[Feedback]:
    if isinstance(feedback, AsyncIterable):
        return [piece async for piece in feedback]
    return await asyncio.to_thread(list, feedback)


def _outcomes_by_run(
    feedback: Iterable[Feedback], succeeded: Callable[[Feedback], bool | None]
) -> dict[str, bool]:
    """Return the outcome of each trace that has feedback with one."""
    if not callable(succeeded):
        raise InvalidTypeError("succeeded is a function of a piece of feedback")
    outcomes: dict[str, bool] = {}
    for piece in feedback:
        run, success = _run_of_feedback(piece), succeeded(piece)
        if success is not None and not isinstance(success, bool):
            raise InvalidTypeError(f"succeeded returns True, False or None, not {short(success)}")
        if success is not None and run is not None:
            outcomes.setdefault(run, success)
    return outcomes


def _run_of_feedback(piece: Feedback) -> str | None:
    """Return the trace of a piece of feedback; None for feedback on an experiment.

    Raises:
        InvalidTypeError: for what is no feedback.
    """
    if not hasattr(piece, "run_id"):
        raise InvalidTypeError(
            f"feedback is what Client.list_feedback returns, a list of one too, not a "
            f"{type(piece).__name__}"
        )
    run = getattr(piece, "trace_id", None) or piece.run_id
    return None if run is None else str(run)
