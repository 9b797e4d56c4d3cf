"""The verbs by which a coordinator learns: lessons, outcomes, promotion and the way back."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel

from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError, short
from langmem_tiers.core.memory import MemoryContext, Recollection, Recollections, StoreResult
from langmem_tiers.core.namespaces import check_key
from langmem_tiers.learn.lessons import Concern
from langmem_tiers.learn.models import reflector_of
from langmem_tiers.learn.outcome import OutcomeReport, Run
from langmem_tiers.learn.reflexion import FailedAttempt
from langmem_tiers.learn.signature import Signature, signature
from langmem_tiers.memory.base import Memory
from langmem_tiers.memory.learning_flows import Showing
from langmem_tiers.postgres.flow import Flow, then
from langmem_tiers.remember.new import checked_text, label, share

Failure = BaseException | str | Signature
"""What failed: an exception, a traceback or any text of an error, or its signature."""
MOST_LESSONS = 100
"""Lessons that one call returns at most."""


def reflect(
    memory: Memory, attempts: Sequence[FailedAttempt], *, model: BaseChatModel | None = None
) -> Flow[list[StoreResult]]:
    """Learn from failed attempts: keep each as it was, and store the lessons there are.

    Args:
        attempts: What failed; kept as episodic memories, the same one once.
        model: A chat model that draws the lesson. Without one the lesson is what succeeded
            later, and there is none until something has.

    Raises:
        ModelError: if the model gave nothing usable; the attempts are kept all the same.
    """
    if isinstance(attempts, FailedAttempt):
        raise InvalidTypeError("reflect takes a list of attempts: for one, reflect([attempt])")
    given = _listed(attempts)
    for one in given:
        if not isinstance(one, FailedAttempt):
            raise InvalidTypeError(f"an attempt is a FailedAttempt, not {type(one).__name__}")
    reflector = None if model is None else reflector_of(model)
    return memory.learning.reflect(given, memory.context, reflector)


def get_lessons(
    memory: Memory,
    failures: Failure | Sequence[Failure] = (),
    *,
    tools: str | Sequence[str] = (),
    query: str = "",
    approach: str | None = None,
    limit: int = 3,
    run_id: str | Run | None = None,
    holdout: float = 0.0,
) -> Flow[Recollections]:
    """What was learned from these failures before, then what was learned in these tools.

    It looks where `get_context` does, by signature and not by nearness; without a tool, in all.

    Args:
        failures: What failed just now: exceptions, texts of errors, or signatures.
        tools: The tools that failed, or are about to run.
        query: What is about to be done: among lessons of a tool, those with its words first.
        approach: Only lessons of what was tried in just this form, its `original_approach`,
            that say to do something else, and that a call may be held for (docs/learning.md).
        limit: Lessons at most, 0 to 100.
        run_id: The run that the lessons are shown to; see `get_context`.
        holdout: The share of lessons that the run goes without; see `get_context`.

    Raises:
        InvalidInputError: for an argument that makes no sense.
    """
    concern = _concern(memory, failures, tools, query=query, approach=approach, limit=limit)
    flow = memory.learning.lessons(concern, memory.context, showing(run_id, holdout))
    return then(flow, Recollections)


def _concern(
    memory: Memory,
    failures: Failure | Sequence[Failure],
    tools: str | Sequence[str],
    *,
    query: str,
    approach: str | None,
    limit: int,
) -> Concern:
    named: list[str] = _listed(tools)
    for one in named:
        label(one, "a tool")
    given: list[Failure] = _listed(failures)
    tool = named[0] if len(named) == 1 else None
    signed = [one if isinstance(one, Signature) else signature(one, tool=tool) for one in given]
    ask = memory.asking.ask(query, memory.context)
    return Concern(
        scopes=ask.scopes,
        failures=tuple(signed),
        tools=tuple(named),
        query=ask.query,
        approach=None if approach is None else checked_text(approach, "approach"),
        limit=lesson_limit(limit),
    )


def expose(
    memory: Memory,
    recollections: Iterable[Recollection],
    *,
    run_id: str | Run,
    holdout: float = 0.0,
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
    found, shown_to = _recollections(recollections, memory.context), showing(run_id, holdout)
    if shown_to is None:
        raise InvalidInputError("shown to which run? Give its run_id")
    return then(memory.learning.expose(found, memory.context, shown_to), Recollections)


def record_outcome(
    memory: Memory,
    recollections: Iterable[Recollection] | None = None,
    success: bool | None = None,  # noqa: FBT001 - the surface that was promised
    *,
    run_id: str | None = None,
) -> Flow[OutcomeReport]:
    """Credit memories with what came of the run they were shown to.

    Of each memory, the first outcome of a run counts, and no second one of the same run. A
    run is one of the context's project, or of any if it names none.

    Args:
        recollections: The memories; if not given, all that were recalled for `run_id`.
        success: Whether the run succeeded; it has to be told.
        run_id: The run. Without it this call counts as a run of its own, and a repeated call
            as another one.

    Raises:
        InvalidInputError: if neither memories nor a run are given, or not how it went; nobody
            was credited.
    """
    run = label(run_id, "run_id")
    shown = None if recollections is None else _recollections(recollections, memory.context)
    if shown is None and run is None:
        raise InvalidInputError(
            "an outcome of what? Give the memories that were shown, or the run_id that they "
            "were recalled for"
        )
    if not isinstance(success, bool):
        raise InvalidTypeError(
            f"success is True or False, not {short(success)}: say how the run went"
        )
    if shown is not None:
        return memory.learning.settle_shown(shown, run, memory.context, success=success)
    return memory.learning.settle(str(run), memory.context, success=success)


def showing(run_id: str | Run | None, holdout: float) -> Showing | None:
    """For which run memories are recalled, checked.

    Raises:
        InvalidInputError: for a hold-out without a run, or beyond 0…1.
    """
    held = share(holdout, "holdout") or 0.0
    named, root = run_id if isinstance(run_id, Run) else (run_id, None)
    if (run := label(named, "run_id")) is not None:
        return Showing(Run(run, label(root, "the root of a run")), held)
    if held:
        raise InvalidInputError(
            "a hold-out needs a run_id: what it is compared by is what came of the run"
        )
    return None


def lesson_limit(limit: object, what: str = "limit") -> int:
    """A number of lessons, 0 to 100; any other is refused."""
    if isinstance(limit, bool) or not isinstance(limit, int):
        raise InvalidTypeError(f"{what} is a whole number, not {type(limit).__name__}")
    if not 0 <= limit <= MOST_LESSONS:
        raise InvalidInputError(f"{what} is {limit}: use a number from 0 to {MOST_LESSONS}")
    return limit


def _listed(given: Any) -> list[Any]:
    several = isinstance(given, Collection | Iterator) and not isinstance(given, str | Mapping)
    return list(given) if several else [given]


def _recollections(given: Iterable[Recollection], context: MemoryContext) -> list[Recollection]:
    if isinstance(given, Recollection):
        raise InvalidTypeError("recollections are a list: for one, give [memory]")
    found = _listed(given)
    for one in found:
        if not isinstance(one, Recollection):
            raise InvalidTypeError(
                f"recollections are what get_context returned, not {type(one).__name__}; what "
                "came of them is success=…, and what was shown to a run is found by run_id=…"
            )
        if one.namespace[0] != context.root:
            raise InvalidInputError(f"{one.key!r} belongs to another tenant, {one.namespace[0]!r}")
        check_key(one.key)
    return found
