"""Verbs that learn from teaching, success and failures."""

from __future__ import annotations

import logging
import math
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import replace
from functools import partial
from typing import Any, Final
from uuid import uuid4

from langchain_core.language_models import BaseChatModel

from langmem_tiers.coordinator import recall
from langmem_tiers.coordinator.base import Memory, checked_limit
from langmem_tiers.coordinator.outcomes import as_list
from langmem_tiers.coordinator.recall import make_exposure, recall_query
from langmem_tiers.core.checks import (
    checked_function,
    checked_instance,
    checked_label,
    checked_number,
    normalised_tags,
)
from langmem_tiers.core.context import Caller, MemoryContext
from langmem_tiers.core.errors import InvalidTypeError, TieredMemoryError
from langmem_tiers.core.memory import Recollections, StoreResult, Tier, encode_namespace
from langmem_tiers.core.types import ATTEMPT, REFLEXION
from langmem_tiers.learning import skills
from langmem_tiers.learning.evolution import WORTH_REMEMBERING, Entities, names_in
from langmem_tiers.learning.evolution import evolve as evolved
from langmem_tiers.learning.lessons import find_lessons
from langmem_tiers.learning.outcome import Run, record_exposures
from langmem_tiers.learning.reflexion import (
    PATTERN,
    DrawnLesson,
    Experience,
    FailedAttempt,
    Reflector,
    Reflexion,
    record_lessons,
    reflector_of,
    stable_key,
)
from langmem_tiers.learning.signature import Signature, signature
from langmem_tiers.learning.skills import Trace
from langmem_tiers.postgres.flow import (
    Call,
    Flow,
    Query,
    ask_model,
    off_loop,
    reading_size,
    without_deadline,
)
from langmem_tiers.remember.new_memory import NewMemory, checked_text, derive_from

_log = logging.getLogger(__name__)
Failure = BaseException | str | Signature
"""Failure: an exception, a traceback or any text of an error, or its signature."""
MAX_LESSONS = 100
"""Most lessons that one call returns."""
_UNCHANGED = StoreResult(stored=False, reason="known already, with the same evidence")


def get_lessons(
    memory: Memory,
    failures: Failure | Sequence[Failure] = (),
    *,
    tools: str | Sequence[str] = (),
    query: str = "",
    approach: str | None = None,
    limit: int = 3,
    run_id: str | Run | None = None,
    holdout: float | None = None,
) -> Flow[Recollections]:
    """Return the lessons of these failures, of these tools, or about a query.

    The search covers what `get_context` covers. One ranking counts the words of `query`, the same
    failure (the rarer, the more), the same tool or task, and the outcomes of a lesson so far. A
    lesson found by words alone has to reach a recall's floor. An attempt without a lesson yet is
    found by the same failure and by words.

    Args:
        failures: The current failures: exceptions, texts of errors, or signatures.
        tools: The tools that failed, or are about to run.
        query: The task ahead; embedded, unless `approach` is given.
        approach: Only lessons with just this `original_approach` that advise something else, of a
            failure that does not pass by itself.
        limit: Most lessons, 0 to 100.
        run_id: The run that the lessons are shown to; see `get_context`.
        holdout: The share of lessons that the run goes without; see `get_context`.

    Raises:
        InvalidInputError: for an argument that makes no sense.
    """
    named: list[str] = as_list(tools)
    for name in named:
        checked_label(name, "a tool")
    tool = named[0] if len(named) == 1 else None
    signed = [_to_signature(failure, tool) for failure in as_list(failures)]
    form = None if approach is None else checked_text(approach, "approach")
    ask, shown_to = recall_query(memory, query), make_exposure(run_id, holdout)
    kinds = (REFLEXION, ATTEMPT) if approach is None else (REFLEXION,)
    ask = replace(ask, memory_types=kinds, limit=checked_limit(limit, MAX_LESSONS))
    store, moment = memory.tiered_store.flows, memory.tiered_store.flows.moment()
    recalled, rows = yield from find_lessons(
        ask, memory.reader, store, failures=signed, tools=named, approach=form
    )
    recall.note_recalled(memory, recalled)
    kept = yield from record_exposures(recalled, memory.context, shown_to, store.now)
    places = {(lesson.namespace, lesson.key) for lesson in kept}
    yield from store.mark_read([row for row in rows if row.place in places], moment)
    return Recollections(kept)


def allow(memory: Memory, approach: str, *, tool: str) -> Flow[int]:
    """Allow a call of just this form, as it works; the lessons that held it stay, and are shown.

    A lesson of another failure of the call holds it again.

    Args:
        approach: The call, as the `original_approach` of its lessons has it.
        tool: Its tool.

    Returns:
        The count of lessons that held it.

    Raises:
        InvalidInputError: for a tool or a call without a text; nothing was noted.
    """
    named, form = (
        checked_label(checked_text(tool, "tool"), "a tool"),
        checked_text(approach, "approach"),
    )
    asked = recall_query(memory, "")
    asked = replace(asked, memory_types=(REFLEXION,), limit=MAX_LESSONS)
    store = memory.tiered_store.flows
    held, _ = yield from find_lessons(
        asked, memory.reader, store, tools=[str(named)], approach=form
    )
    if held:
        params = {
            **memory.context.scope_params,
            "namespaces": [encode_namespace(lesson.namespace).namespace for lesson in held],
            "keys": [lesson.key for lesson in held],
            "event": str(uuid4()),
            "now": store.now,
        }
        yield Query((Call("stop_holding", params),), commit=True)
    return len(held)


def store_pattern(
    memory: Memory,
    content: str,
    *,
    tags: Iterable[str] = (),
    project_id: str | None = None,
    source_task: str | None = None,
    source: str = "user",
) -> Flow[StoreResult]:
    """Store a pattern that worked, unless the gate refuses it; the same is stored once.

    Args:
        content: The pattern.
        tags: Stored in lower case, words joined by hyphens.
        project_id: The context's if not given.
        source_task: The task it comes from.
        source: The source of it; see `store`.

    Raises:
        InvalidInputError: for what cannot be stored; nothing was.
    """
    where = _context_in(memory, project_id)
    task = "" if source_task is None else checked_instance(source_task, str, "source_task")
    pattern = NewMemory(
        content=content,
        memory_type=PATTERN,
        key=stable_key(where, PATTERN, checked_text(content, "content"), task),
        tags=tags,
        source_task=source_task,
        source=source,
    )
    return _admit(memory, pattern, where)


def store_reflexion(
    memory: Memory,
    *,
    task_id: str,
    original_approach: str,
    failure_reason: str,
    improved_approach: str,
    tags: Iterable[str] = (),
    project_id: str | None = None,
    failure: Failure | None = None,
    tool: str | None = None,
    source: str = "user",
) -> Flow[StoreResult]:
    """Store the lesson of a failure, unless the gate refuses it; the same is stored once.

    Args:
        task_id: The task that failed.
        original_approach: The attempt.
        failure_reason: The reason of the failure.
        improved_approach: The advice for the next time.
        tags: Stored in lower case, words joined by hyphens.
        project_id: The context's if not given.
        failure: The failure: the exception or the text of its error. The same failure in the
            same tool recalls this lesson (see `get_lessons`); a reason in prose is no failure.
        tool: The tool that failed.
        source: The source of it; see `store`.

    Raises:
        InvalidInputError: for a field that is empty; nothing was stored.
    """
    where = _context_in(memory, project_id)
    of_tool = None if tool is None else Signature(tool=tool, error="", template="")
    lesson = Reflexion(
        task_id=task_id,
        original_approach=original_approach,
        failure_reason=failure_reason,
        improved_approach=improved_approach,
        tags=tuple(normalised_tags(tags)),
        failure=of_tool if failure is None else _to_signature(failure, tool),
    )
    return _admit(memory, replace(lesson.to_memory(where), source=source), where)


def _admit(memory: Memory, new: NewMemory, where: MemoryContext) -> Flow[StoreResult]:
    (result,) = yield from memory.pipeline.admit([new], where)
    return result


def _context_in(memory: Memory, project_id: str | None) -> MemoryContext:
    return memory.context if project_id is None else replace(memory.context, project_id=project_id)


def _to_signature(failure: Failure, tool: str | None) -> Signature:
    return failure if isinstance(failure, Signature) else signature(failure, tool=tool)


def evolve(
    memory: Memory,
    interaction: Mapping[str, Any],
    success_metrics: Mapping[str, Any],
    *,
    threshold: float = WORTH_REMEMBERING,
    extract_entities: Entities | None = None,
) -> Flow[StoreResult]:
    """Store an interaction as a learning of long_term, if it is worth it.

    Its importance is the mean of the factors that are known (docs/learning.md). The same
    interaction with the same metrics, as a retry gives it, is stored once.

    Args:
        interaction: At least one of `content`, `asked`, `said`, `done` and `outcome`, each a
            text or a list of texts; and `context`, `platform`, `entities`, `novel_pattern`
            and `relationship_deepening`, if known.
        success_metrics: Its results: `engagement_rate`, `revenue_generated`, `success`,
            `sentiment`, …. All of them are stored.
        threshold: The importance from which on it is stored, from 0 to 1.
        extract_entities: Finds who and what its texts are about, where it has no `entities`; if
            not given, they are the @handles, #tags and runs of capitalised words.

    Returns:
        The result, with the reason why it was stored or not.

    Raises:
        InvalidInputError: for an interaction that says nothing, or a metric that cannot be.
    """
    much = sys.maxsize  # it may ask a model
    if extract_entities is None:
        extract_entities, much = names_in, reading_size((interaction, success_metrics))
    checked_function(extract_entities, "extract_entities")
    judge = partial(evolved, interaction, success_metrics, threshold=threshold)
    learning = yield from off_loop(partial(judge, extract_entities=extract_entities), much)
    if not learning.worth:
        return StoreResult(stored=False, reason=learning.reason)
    new = learning.to_memory(memory.context)
    (result,) = yield from memory.pipeline.remember([new], memory.context)
    return replace(result, reason=learning.reason)


def learn_skills(
    memory: Memory, trace: Trace | None = None, *, min_support: int = skills.MIN_SUPPORT
) -> Flow[list[StoreResult]]:
    """Store the trace of a run, and propose the skills that recur in the project's runs.

    The newest 500 traces are looked at. A proposed skill is a memory of working with its
    steps, its support and its success rate; it is promoted like any other, once it has proven
    itself. The same trace, as a retry gives it, counts once, and concurrent runs all count.
    One that is no longer marked as `proposed` is somebody's own and stays as it is.

    Args:
        trace: The calls of a run, and its end; None to propose from the stored traces alone.
        min_support: Runs that a sequence of calls has to succeed in.

    Returns:
        Each skill there is, `stored` if it is new or its evidence changed.

    Raises:
        InvalidInputError: for a trace that is none; nothing was stored.
    """
    runs = [] if trace is None else [trace]
    skills.skill_candidates(runs, min_support=min_support)  # refuses an invalid trace
    context = memory.context
    traces = yield from memory.gate.screen_kept([skills.trace_memory(run, context) for run in runs])
    if traces:
        yield from memory.pipeline.remember(traces, context)
    stored: dict[str, StoreResult] = {}
    # The skills are read again until nothing differs, so that of concurrent runs the last writer
    # has seen the traces of all.
    while True:
        moment = memory.tiered_store.flows.moment()
        (rows,) = yield Query((skills.recent_traces_call(context, moment),), commit=True)
        seen = skills.read_traces(rows)
        proposed = skills.proposed_skills(seen, context, min_support=min_support)
        before = yield from skills.read_stored_values(
            list(proposed), context, moment, (Tier.WORKING,)
        )
        news = {
            key: skill
            for key, skill in proposed.items()
            if skills.has_new_evidence(skill, before.get(key))
        }
        if news.keys() <= {key for key in stored if key not in before}:
            return [stored.get(key) or replace(_UNCHANGED, key=key) for key in proposed]
        results = yield from memory.pipeline.remember(list(news.values()), context)
        stored |= zip(news, results, strict=True)


# ---- attempts, and lessons that models draw of them: now, or in the background ----------------

_MAX_KNOWN_LESSONS: Final = 3
"""Most lessons that a model is shown as known already: our own choice."""
_MAX_TURNS: Final = 100
"""Latest turns whose results are kept for a caller until they are taken: our own choice."""
_MAX_CALLERS: Final = 1_000
"""Latest callers whose results are kept: our own choice."""


def reflect(
    memory: Memory, attempts: Sequence[FailedAttempt], *, model: BaseChatModel | None = None
) -> Flow[list[StoreResult]]:
    """Store failed attempts as they were; with a model, draw lessons of them.

    Args:
        attempts: The failed attempts; each is stored once, as evidence.
        model: A chat model that draws a lesson for each kind of failure, or none, by one request.
            An attempt with a lesson lives on in it.

    Returns:
        The result of each attempt; with a model, of each lesson.

    Raises:
        ModelError: if the model gave nothing usable; the attempts are kept all the same.
    """
    if isinstance(attempts, FailedAttempt):
        raise InvalidTypeError("reflect takes a list of attempts: for one, reflect([attempt])")
    failed = as_list(attempts)
    for attempt in failed:
        checked_instance(attempt, FailedAttempt, "an attempt")
    reflector = None if model is None else reflector_of(model)
    kept = yield from _store_attempts(memory, failed)
    if reflector is None:
        return kept
    return (yield from _learn_lessons(memory, Experience(attempts=failed), reflector))


@without_deadline
def learn_from(
    memory: Memory, experience: Experience, reflector: Reflector
) -> Flow[list[StoreResult]]:
    """Store a turn's attempts that are evidence by themselves, and let a model draw its lessons."""
    yield from _store_attempts(
        memory, [attempt for attempt in experience.attempts if attempt.succeeded_with is not None]
    )
    return (yield from _learn_lessons(memory, experience, reflector))


def _store_attempts(memory: Memory, attempts: Sequence[FailedAttempt]) -> Flow[list[StoreResult]]:
    """Store attempts, each once; return their results."""
    context = memory.context
    own = [attempt.to_memory(context) for attempt in dict.fromkeys(attempts)]
    # it quarantines attempts in which a tool's output instructs its reader
    kept = yield from memory.gate.screen_kept(own)
    return (yield from memory.pipeline.remember(kept, context)) if kept else []


def _learn_lessons(
    memory: Memory, experience: Experience, reflector: Reflector
) -> Flow[list[StoreResult]]:
    """Store the lessons that a model draws of failures without one."""
    context, moment = memory.context, memory.tiered_store.flows.moment()
    keys = [*(kind.key(context) for kind in experience.kinds), experience.key(context)]
    before = yield from skills.read_stored_values(keys, context, moment)
    learned = [
        StoreResult(stored=False, key=key, reason="learned before") for key in keys if key in before
    ]
    left = experience.without_lessons(before, context)
    if not left.teaches:
        return learned
    known_lessons = yield from _known_lessons(memory, left)
    drawn = yield from ask_model(reflector, left, known_lessons)
    return [*learned, *(yield from _store_lessons(memory, left, drawn))]


def _known_lessons(memory: Memory, experience: Experience) -> Flow[list[str]]:
    """Return the texts of stored lessons of these failures, or about this question."""
    query = experience.asked if experience.corrects or experience.failed else ""
    ask = recall_query(memory, query)
    recalled, _ = yield from find_lessons(
        replace(ask, memory_types=(REFLEXION,), limit=_MAX_KNOWN_LESSONS),
        memory.reader,
        memory.tiered_store.flows,
        failures=[kind.example.failure for kind in experience.kinds],
    )
    return [lesson.content for lesson in recalled]


def _store_lessons(
    memory: Memory, experience: Experience, drawn: Sequence[DrawnLesson]
) -> Flow[list[StoreResult]]:
    """Store lessons with their attempts, which live on in them."""
    if not drawn:
        return []
    context, store = memory.context, memory.tiered_store.flows
    shown = list(dict.fromkeys(lesson.kind.example for lesson in drawn if lesson.kind is not None))
    kept = yield from memory.gate.screen_kept([attempt.to_memory(context) for attempt in shown])
    origins = dict(zip(shown, kept, strict=True))
    made = yield from memory.gate.screen_kept(
        [lesson.to_memory(experience, context) for lesson in drawn]
    )
    lessons_ = [
        lesson if each.kind is None else derive_from(origins[each.kind.example], lesson)
        for lesson, each in zip(made, drawn, strict=True)
    ]
    results = yield from memory.pipeline.remember([*kept, *lessons_], context)
    pairs = [
        (attempt.key(context), str(lesson.key))
        for lesson, each in zip(lessons_, drawn, strict=True)
        if each.kind is not None
        for attempt in each.kind.attempts
    ]
    yield from record_lessons(pairs, context, store.options, store.now)
    return results[len(kept) :]


class Reflections:
    """Results of background reflections, by caller, until they are taken."""

    def __init__(self) -> None:
        """Begin with none."""
        self._lock = threading.Lock()
        self._begun: dict[Caller, list[Future[list[StoreResult]]]] = {}

    def add(self, caller: Caller, future: Future[list[StoreResult]]) -> None:
        """Keep a reflection until its results are taken."""
        with self._lock:
            begun = self._begun.pop(caller, [])
            ended = [reflection for reflection in begun if reflection.done()][-_MAX_TURNS:]
            self._begun[caller] = [
                *ended,
                *(reflection for reflection in begun if not reflection.done()),
                future,
            ]
            idle = [other for other, begun in self._begun.items() if all(map(Future.done, begun))]
            for oldest in idle[:-_MAX_CALLERS]:
                del self._begun[oldest]
        future.add_done_callback(_log_failure)

    def finish(self, caller: Caller, timeout: float | None) -> bool:
        """Wait for a caller's reflections under way; return True if all are done."""
        if timeout is not None:
            use = "a number of seconds or None"
            checked_number(timeout, "timeout", -math.inf, math.inf, use=use)
        with self._lock:
            mine = list(self._begun.get(caller, ()))
        return not wait(mine, timeout).not_done

    def take_results(self, caller: Caller) -> list[StoreResult]:
        """Return a caller's results since the last call; raise the last error if there are none."""
        with self._lock:
            begun = self._begun.pop(caller, [])
            ended = [
                reflection
                for reflection in begun
                if reflection.done() and not reflection.cancelled()
            ]
            results = [
                each
                for reflection in ended
                if reflection.exception() is None
                for each in reflection.result()
            ]
            failed = [
                reflection
                for reflection in ended
                if isinstance(reflection.exception(), TieredMemoryError)
            ]
            left = [
                *(failed if results else ()),
                *(reflection for reflection in begun if not reflection.done()),
            ]
            if left:
                self._begun[caller] = left
        if failed and not results:
            failed[-1].result()
        return results


_NOTHING_LEARNED = "nothing was learned from a turn: %s"


def _log_failure(future: Future[list[StoreResult]]) -> None:
    error = None if future.cancelled() else future.exception()
    if error is not None and not isinstance(error, TieredMemoryError):
        _log.warning(_NOTHING_LEARNED, error)


def _learn_in_background(
    memory: Memory, experience: Experience, model: BaseChatModel
) -> Flow[list[StoreResult]]:
    """Learn from a turn; log an error before the future ends."""
    try:
        return (yield from learn_from(memory, experience, reflector_of(model)))
    except TieredMemoryError as error:
        _log.warning(_NOTHING_LEARNED, error)
        raise


def begin_reflection(memory: Memory, experience: Experience, model: BaseChatModel) -> None:
    """Begin to draw the lessons of a turn by a model, in the background."""
    future = memory.tiered_store.run_in_background(_learn_in_background(memory, experience, model))
    memory.tiered_store.flows.shared.get(Reflections).add(memory.caller, future)


def take_learned(memory: Memory) -> list[StoreResult]:
    """Return the results of this caller's background reflections since the last call.

    Raises:
        TieredMemoryError: if there are none, as a reflection failed; it is raised once.
    """
    return memory.tiered_store.flows.shared.get(Reflections).take_results(memory.caller)


def finish_reflections(memory: Memory, timeout: float | None = None) -> Flow[bool]:
    """Wait for this caller's background reflections; return True if all are done.

    Any coordinator of this caller may have begun them, such as a middleware's.

    Args:
        timeout: Most seconds to wait; no limit if not given.
    """
    begun = memory.tiered_store.flows.shared.get(Reflections)
    return off_loop(partial(begun.finish, memory.caller, timeout), sys.maxsize)
