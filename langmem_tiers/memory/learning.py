"""The verbs by which a coordinator learns: of what it is taught, of success, and of failures."""

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
from langmem_tiers.learn import skills
from langmem_tiers.learn.evolve import WORTH_REMEMBERING, Entities, names_in
from langmem_tiers.learn.evolve import evolve as evolved
from langmem_tiers.learn.lessons import find_lessons
from langmem_tiers.learn.outcome import Run, record_exposures
from langmem_tiers.learn.reflexion import (
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
from langmem_tiers.learn.signature import Signature, signature
from langmem_tiers.learn.skills import Trace
from langmem_tiers.memory import recalling
from langmem_tiers.memory.base import Memory, checked_limit
from langmem_tiers.memory.feedback import listed
from langmem_tiers.memory.recalling import recall_query, showing
from langmem_tiers.postgres.flow import (
    Call,
    Flow,
    Query,
    ask_model,
    off_loop,
    reading_size,
    without_deadline,
)
from langmem_tiers.remember.new import NewMemory, checked_text, derive_from

_log = logging.getLogger(__name__)
Failure = BaseException | str | Signature
"""What failed: an exception, a traceback or any text of an error, or its signature."""
MOST_LESSONS = 100
"""Lessons that one call returns at most."""
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
    """What was learned from these failures before, in these tools, or about what is asked.

    It looks where `get_context` does, in one ranking: what the words of `query` find counts, and
    that a lesson is of the same failure, the more the rarer that is, of the same tool, or task, and
    what came of it so far. What has nothing but the words matches as well as a recall's floor asks.
    An attempt, of which nobody drew a lesson yet, is found by the same failure and by words.

    Args:
        failures: What failed just now: exceptions, texts of errors, or signatures.
        tools: The tools that failed, or are about to run.
        query: What is about to be done; embedded, unless `approach` is given.
        approach: Only lessons of what was tried in just this form, their `original_approach`,
            that say to do something else, of a failure that does not pass by itself.
        limit: Lessons at most, 0 to 100.
        run_id: The run that the lessons are shown to; see `get_context`.
        holdout: The share of lessons that the run goes without; see `get_context`.

    Raises:
        InvalidInputError: for an argument that makes no sense.
    """
    named: list[str] = listed(tools)
    for name in named:
        checked_label(name, "a tool")
    tool = named[0] if len(named) == 1 else None
    signed = [_signed(failure, tool) for failure in listed(failures)]
    form = None if approach is None else checked_text(approach, "approach")
    ask, shown_to = recall_query(memory, query), showing(run_id, holdout)
    kinds = (REFLEXION, ATTEMPT) if approach is None else (REFLEXION,)
    ask = replace(ask, memory_types=kinds, limit=checked_limit(limit, MOST_LESSONS))
    store, moment = memory.tiered_store.flows, memory.tiered_store.flows.moment()
    recalled, rows = yield from find_lessons(
        ask, memory.reader, store, failures=signed, tools=named, approach=form
    )
    recalling.note(memory, recalled)
    kept = yield from record_exposures(recalled, memory.context, shown_to, store.now)
    places = {(lesson.namespace, lesson.key) for lesson in kept}
    yield from store.mark_read([row for row in rows if row.place in places], moment)
    return Recollections(kept)


def allow(memory: Memory, approach: str, *, tool: str) -> Flow[int]:
    """Let a call of just this form run, as it works; the lessons that held it stay, and are shown.

    A lesson that is learned anew, from another failure of it, holds it again.

    Args:
        approach: The call, as the `original_approach` of its lessons has it.
        tool: Its tool.

    Returns:
        How many lessons held it.

    Raises:
        InvalidInputError: for a tool or a call without a text; nothing was noted.
    """
    named, form = (
        checked_label(checked_text(tool, "tool"), "a tool"),
        checked_text(approach, "approach"),
    )
    asked = recall_query(memory, "")
    asked = replace(asked, memory_types=(REFLEXION,), limit=MOST_LESSONS)
    store = memory.tiered_store.flows
    held, _ = yield from find_lessons(
        asked, memory.reader, store, tools=[str(named)], approach=form
    )
    if held:
        params = {
            **memory.context.whose,
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
    """Remember what worked, unless the gate refuses it; the same is stored once.

    Args:
        content: What worked.
        tags: Stored in lower case, words joined by hyphens.
        project_id: The context's if not given.
        source_task: The task it comes from.
        source: Who says so; see `store`.

    Raises:
        InvalidInputError: for what cannot be stored; nothing was.
    """
    where = _where(memory, project_id)
    task = "" if source_task is None else checked_instance(source_task, str, "source_task")
    pattern = NewMemory(
        content=content,
        memory_type=PATTERN,
        key=stable_key(where, PATTERN, checked_text(content, "content"), task),
        tags=tags,
        source_task=source_task,
        source=source,
    )
    return _admitted(memory, pattern, where)


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
    """Remember what a failure taught, unless the gate refuses it; the same is stored once.

    Args:
        task_id: The task that failed.
        original_approach: What was tried.
        failure_reason: Why it failed.
        improved_approach: What to do instead.
        tags: Stored in lower case, words joined by hyphens.
        project_id: The context's if not given.
        failure: What failed: the exception or the text of its error. The same failure in the
            same tool recalls this lesson (see `get_lessons`); a reason in prose is no failure.
        tool: The tool that failed.
        source: Who says so; see `store`.

    Raises:
        InvalidInputError: for a field that is empty; nothing was stored.
    """
    where = _where(memory, project_id)
    of_tool = None if tool is None else Signature(tool=tool, error="", template="")
    lesson = Reflexion(
        task_id=task_id,
        original_approach=original_approach,
        failure_reason=failure_reason,
        improved_approach=improved_approach,
        tags=tuple(normalised_tags(tags)),
        failure=of_tool if failure is None else _signed(failure, tool),
    )
    return _admitted(memory, replace(lesson.to_memory(where), source=source), where)


def _admitted(memory: Memory, new: NewMemory, where: MemoryContext) -> Flow[StoreResult]:
    (result,) = yield from memory.pipeline.admit([new], where)
    return result


def _where(memory: Memory, project_id: str | None) -> MemoryContext:
    return memory.context if project_id is None else replace(memory.context, project_id=project_id)


def _signed(failure: Failure, tool: str | None) -> Signature:
    return failure if isinstance(failure, Signature) else signature(failure, tool=tool)


def evolve(
    memory: Memory,
    interaction: Mapping[str, Any],
    success_metrics: Mapping[str, Any],
    *,
    threshold: float = WORTH_REMEMBERING,
    extract_entities: Entities | None = None,
) -> Flow[StoreResult]:
    """Remember an interaction as a learning of long_term, if it was worth it.

    Its importance is the mean of the factors that are known (docs/learning.md). The same
    interaction with the same metrics, as a retry gives it, is stored once.

    Args:
        interaction: At least one of `content`, `asked`, `said`, `done` and `outcome`, each a
            text or a list of texts; and `context`, `platform`, `entities`, `novel_pattern`
            and `relationship_deepening`, if known.
        success_metrics: What came of it: `engagement_rate`, `revenue_generated`, `success`,
            `sentiment`, …. All of them are stored.
        threshold: The importance from which on it is stored, from 0 to 1.
        extract_entities: Finds who and what its texts are about, where it has no `entities`; if
            not given, they are the @handles, #tags and runs of capitalised words.

    Returns:
        Whether it was stored, and why or why not.

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
    """Keep the trace of a run, and propose the skills that recur in the project's runs.

    The newest 500 traces are looked at. A proposed skill is a memory of working with its
    steps, its support and its success rate; it is promoted like any other, once it has proven
    itself. The same trace, as a retry gives it, counts once, and concurrent runs all count.
    One that is no longer marked as `proposed` is somebody's own and stays as it is.

    Args:
        trace: What a run called, and how it ended; None to look again at what is there.
        min_support: Runs that a sequence of calls has to succeed in.

    Returns:
        Each skill there is, `stored` if it is new or its evidence changed.

    Raises:
        InvalidInputError: for a trace that is none; nothing was stored.
    """
    runs = [] if trace is None else [trace]
    skills.skill_candidates(runs, min_support=min_support)  # refuses what is none
    context = memory.context
    traces = yield from memory.gate.screening([skills.trace_memory(run, context) for run in runs])
    if traces:
        yield from memory.pipeline.remember(traces, context)
    stored: dict[str, StoreResult] = {}
    # What was written is looked at again until nothing differs: of concurrent runs, the one that
    # writes last has so seen the traces of all.
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


# ---- attempts, and what models draw of them: now, or in the background ------------------------

_KNOWN: Final = 3
"""Lessons that a model is shown as known already, at most: our own choice."""
_MOST: Final = 100
"""Turns whose results are kept for a caller until they are told, the latest: our own choice."""
_MOST_CALLERS: Final = 1_000
"""Callers whose results are kept, the latest: our own choice."""


def reflect(
    memory: Memory, attempts: Sequence[FailedAttempt], *, model: BaseChatModel | None = None
) -> Flow[list[StoreResult]]:
    """Keep failed attempts as they were; and let a model draw the lessons of them, if one is named.

    Args:
        attempts: What failed; each is kept once, as evidence.
        model: A chat model that says what they teach, by one request: a lesson for each kind of
            failure, or none. What has a lesson lives on in it.

    Returns:
        What became of each attempt; with a model, of each lesson.

    Raises:
        ModelError: if the model gave nothing usable; the attempts are kept all the same.
    """
    if isinstance(attempts, FailedAttempt):
        raise InvalidTypeError("reflect takes a list of attempts: for one, reflect([attempt])")
    failed = listed(attempts)
    for attempt in failed:
        checked_instance(attempt, FailedAttempt, "an attempt")
    reflector = None if model is None else reflector_of(model)
    kept = yield from _kept(memory, failed)
    if reflector is None:
        return kept
    return (yield from _learned(memory, Experience(attempts=failed), reflector))


@without_deadline
def learn_from(
    memory: Memory, experience: Experience, reflector: Reflector
) -> Flow[list[StoreResult]]:
    """Keep what of a turn is evidence by itself, and let a model draw its lessons."""
    yield from _kept(
        memory, [attempt for attempt in experience.attempts if attempt.succeeded_with is not None]
    )
    return (yield from _learned(memory, experience, reflector))


def _kept(memory: Memory, attempts: Sequence[FailedAttempt]) -> Flow[list[StoreResult]]:
    """Store attempts, each once, and say what became of each."""
    context = memory.context
    own = [attempt.to_memory(context) for attempt in dict.fromkeys(attempts)]
    # held back where what a tool said instructs its reader
    kept = yield from memory.gate.screening(own)
    return (yield from memory.pipeline.remember(kept, context)) if kept else []


def _learned(
    memory: Memory, experience: Experience, reflector: Reflector
) -> Flow[list[StoreResult]]:
    """Store the lessons that a model draws, of what it drew none before."""
    context, moment = memory.context, memory.tiered_store.flows.moment()
    keys = [*(kind.key(context) for kind in experience.kinds), experience.key(context)]
    before = yield from skills.read_stored_values(keys, context, moment)
    learned = [
        StoreResult(stored=False, key=key, reason="learned before") for key in keys if key in before
    ]
    left = experience.without_lessons(before, context)
    if not left.teaches:
        return learned
    known_lessons = yield from _known(memory, left)
    drawn = yield from ask_model(reflector, left, known_lessons)
    return [*learned, *(yield from _stored(memory, left, drawn))]


def _known(memory: Memory, experience: Experience) -> Flow[list[str]]:
    """The lessons of these failures, or about this question, that are there already."""
    query = experience.asked if experience.corrects or experience.failed else ""
    ask = recall_query(memory, query)
    recalled, _ = yield from find_lessons(
        replace(ask, memory_types=(REFLEXION,), limit=_KNOWN),
        memory.reader,
        memory.tiered_store.flows,
        failures=[kind.example.failure for kind in experience.kinds],
    )
    return [lesson.content for lesson in recalled]


def _stored(
    memory: Memory, experience: Experience, drawn: Sequence[DrawnLesson]
) -> Flow[list[StoreResult]]:
    """Store lessons with the attempts that they are of, which live on in them."""
    if not drawn:
        return []
    context, store = memory.context, memory.tiered_store.flows
    shown = list(dict.fromkeys(lesson.kind.example for lesson in drawn if lesson.kind is not None))
    kept = yield from memory.gate.screening([attempt.to_memory(context) for attempt in shown])
    origins = dict(zip(shown, kept, strict=True))
    made = yield from memory.gate.screening(
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
    """What models draw in the background for each caller, until it is told."""

    def __init__(self) -> None:
        """Begin with none."""
        self._lock = threading.Lock()
        self._begun: dict[Caller, list[Future[list[StoreResult]]]] = {}

    def add(self, caller: Caller, future: Future[list[StoreResult]]) -> None:
        """Keep it until what came of it is told."""
        with self._lock:
            begun = self._begun.pop(caller, [])
            ended = [reflection for reflection in begun if reflection.done()][-_MOST:]
            self._begun[caller] = [
                *ended,
                *(reflection for reflection in begun if not reflection.done()),
                future,
            ]
            idle = [other for other, begun in self._begun.items() if all(map(Future.done, begun))]
            for oldest in idle[:-_MOST_CALLERS]:
                del self._begun[oldest]
        future.add_done_callback(_ended)

    def finish(self, caller: Caller, timeout: float | None) -> bool:
        """Wait for what is under way for a caller now, and tell whether it is done."""
        if timeout is not None:
            use = "a number of seconds or None"
            checked_number(timeout, "timeout", -math.inf, math.inf, use=use)
        with self._lock:
            mine = list(self._begun.get(caller, ()))
        return not wait(mine, timeout).not_done

    def told(self, caller: Caller) -> list[StoreResult]:
        """Return what was learned for a caller since it was told last; if nothing was, why not."""
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


def _ended(future: Future[list[StoreResult]]) -> None:
    error = None if future.cancelled() else future.exception()
    if error is not None and not isinstance(error, TieredMemoryError):
        _log.warning(_NOTHING_LEARNED, error)


def _learning(
    memory: Memory, experience: Experience, model: BaseChatModel
) -> Flow[list[StoreResult]]:
    """Learn from a turn, and log why nothing was learned before anybody is told that it is over."""
    try:
        return (yield from learn_from(memory, experience, reflector_of(model)))
    except TieredMemoryError as error:
        _log.warning(_NOTHING_LEARNED, error)
        raise


def begin_reflection(memory: Memory, experience: Experience, model: BaseChatModel) -> None:
    """Let a model draw the lessons of a turn in the background; nobody waits for it."""
    future = memory.tiered_store.run_in_background(_learning(memory, experience, model))
    memory.tiered_store.flows.shared.get(Reflections).add(memory.caller, future)


def learned_lately(memory: Memory) -> list[StoreResult]:
    """Return what models drew for this caller in the background since it was told last.

    Raises:
        TieredMemoryError: if they drew nothing, as one failed; it is raised once.
    """
    return memory.tiered_store.flows.shared.get(Reflections).told(memory.caller)


def finish_reflections(memory: Memory, timeout: float | None = None) -> Flow[bool]:
    """Wait for the lessons that models draw in the background, and tell whether all are drawn.

    Any coordinator of this caller may have begun it, such as a middleware's.

    Args:
        timeout: Seconds at most; as long as it takes if not given.
    """
    begun = memory.tiered_store.flows.shared.get(Reflections)
    return off_loop(partial(begun.finish, memory.caller, timeout), sys.maxsize)
