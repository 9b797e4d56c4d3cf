"""The verbs that tell which run was shown what, and what came of it; LangSmith's feedback too."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from langmem_tiers.core.checks import check_key, checked_flag, checked_instance, checked_label
from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError, short
from langmem_tiers.core.memory import Recollection, Recollections
from langmem_tiers.learn.outcome import (
    Exchange,
    OutcomeReport,
    Run,
    credit_outcome,
    record_exposures,
)
from langmem_tiers.memory.base import Memory
from langmem_tiers.memory.recalling import showing
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
    """Note that a run is shown these memories, as a recall with a `run_id` does by itself.

    For those who choose among what they recalled.

    Args:
        recollections: The memories; what was recalled for the run is noted already.
        run_id: The run that they are shown to.
        holdout: The share of them that the run goes without; see `get_context`.

    Returns:
        Those to show: all that are not held out.
    """
    memories, shown_to = _recollections(recollections, memory.context), showing(run_id, holdout)
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
    """Credit memories with what came of the run they were shown to.

    Of each memory, the first outcome of a run counts, and no second one of the same run. A
    run is one of the context's project and user, or of any where it names none.

    Args:
        recollections: The memories; if not given, all that were recalled for `run_id`.
        success: Whether the run succeeded; it has to be told.
        run_id: The run. Without it this call counts as a run of its own, and a repeated call
            as another one.
        question: What the run was asked; what an answer repeats of it is no sign of use.
        answer: What the run said, or called, after it was shown the memories, as text: those that
            it took up are credited, and of the others it is noted that they were shown. If not
            given, all are credited.

    Raises:
        InvalidInputError: if neither memories nor a run are given, or not how it went; nobody
            was credited.
    """
    run = checked_label(run_id, "run_id")
    shown = None if recollections is None else _recollections(recollections, memory.context)
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


def listed(value: Any) -> list[Any]:
    """One thing or several, as a list."""
    is_collection = isinstance(value, Collection | Iterator) and not isinstance(
        value, str | Mapping
    )
    return list(value) if is_collection else [value]


def _recollections(value: Iterable[Recollection], context: MemoryContext) -> list[Recollection]:
    if isinstance(value, Recollection):
        raise InvalidTypeError("recollections are a list: for one, give [memory]")
    memories = listed(value)
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


GOOD = 0.5
"""The score from which a run counts as a success: LangSmith's thumbs are 0 and 1."""


def by_score(feedback: Feedback) -> bool | None:
    """Whether a score says success: from 0.5 on; None if there is no score."""
    return None if feedback.score is None else float(feedback.score) >= GOOD


def record_feedback(
    memory: Memory,
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
    memory: Memory,
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
    memory: Memory, feedback: Any, succeeded: Callable[[Feedback], bool | None]
) -> Flow[list[OutcomeReport]]:
    pieces = yield Ask(partial(list, feedback), partial(_read, feedback))
    reports = []
    for run, success in _outcomes(pieces, succeeded).items():
        reports.append((yield from unit(record_outcome(memory, success=success, run_id=run))))
    return reports


async def _read(feedback: Iterable[Feedback] | AsyncIterable[Feedback]) -> list[Feedback]:
    if isinstance(feedback, AsyncIterable):
        return [piece async for piece in feedback]
    return await asyncio.to_thread(list, feedback)


def _outcomes(
    feedback: Iterable[Feedback], succeeded: Callable[[Feedback], bool | None]
) -> dict[str, bool]:
    """The outcome of each trace that feedback says anything of."""
    if not callable(succeeded):
        raise InvalidTypeError("succeeded is a function of a piece of feedback")
    outcomes: dict[str, bool] = {}
    for piece in feedback:
        run, success = _run(piece), succeeded(piece)
        if success is not None and not isinstance(success, bool):
            raise InvalidTypeError(f"succeeded returns True, False or None, not {short(success)}")
        if success is not None and run is not None:
            outcomes.setdefault(run, success)
    return outcomes


def _run(piece: Feedback) -> str | None:
    """The trace that feedback is on; None for feedback on an experiment, which is on no run.

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
