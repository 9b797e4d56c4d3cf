"""The verbs by which failures are kept, and a model draws lessons: now, or in the background."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Sequence
from concurrent.futures import Future, wait
from dataclasses import replace
from functools import partial
from typing import Final

from langchain_core.language_models import BaseChatModel

from langmem_tiers.core.checks import is_number
from langmem_tiers.core.context import Caller
from langmem_tiers.core.errors import InvalidTypeError, TieredMemoryError, short
from langmem_tiers.core.memory import StoreResult
from langmem_tiers.core.types import REFLEXION
from langmem_tiers.learn.lessons import lessons
from langmem_tiers.learn.reflector import Drawn, Experience, Reflector, reflector_of
from langmem_tiers.learn.reflexion import FailedAttempt, record_lessons
from langmem_tiers.learn.skills import stored_values
from langmem_tiers.memory.base import Memory
from langmem_tiers.memory.feedback import listed
from langmem_tiers.postgres.flow import Ask, Flow, unhurried
from langmem_tiers.remember.new import NewMemory, drawn_from

_log = logging.getLogger(__name__)

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
    given = listed(attempts)
    for one in given:
        if not isinstance(one, FailedAttempt):
            raise InvalidTypeError(f"an attempt is a FailedAttempt, not {type(one).__name__}")
    reflector = None if model is None else reflector_of(model)
    kept = yield from _kept(memory, given)
    if reflector is None:
        return kept
    return (yield from _learned(memory, Experience(attempts=given), reflector))


@unhurried
def learn_from(memory: Memory, told: Experience, reflector: Reflector) -> Flow[list[StoreResult]]:
    """Keep what of a turn is evidence by itself, and let a model draw its lessons."""
    yield from _kept(memory, [one for one in told.attempts if one.succeeded_with is not None])
    return (yield from _learned(memory, told, reflector))


def _kept(memory: Memory, attempts: Sequence[FailedAttempt]) -> Flow[list[StoreResult]]:
    """Store attempts, each once, and say what became of each."""
    own = yield from _attempts(memory, list(dict.fromkeys(attempts)))
    return (yield from memory.flows.remember(own, memory.context)) if own else []


def _attempts(memory: Memory, attempts: Sequence[FailedAttempt]) -> Flow[list[NewMemory]]:
    """Attempts as they are stored: held back where what a tool said instructs its reader."""
    return memory.gate.screening([one.to_memory(memory.context) for one in attempts])


def _learned(memory: Memory, told: Experience, reflector: Reflector) -> Flow[list[StoreResult]]:
    """Store the lessons that a model draws, of what it drew none before."""
    context, moment = memory.context, memory.tiered_store.flows.moment()
    keys = [*(one.key(context) for one in told.kinds), told.key(context)]
    before = yield from stored_values(keys, context, moment)
    learned = [
        StoreResult(stored=False, key=key, reason="learned before") for key in keys if key in before
    ]
    left = told.without(before, context)
    if not left.teaches:
        return learned
    said = yield from _known(memory, left)
    drawn = yield Ask(partial(reflector.call, left, said), partial(reflector.acall, left, said))
    return [*learned, *(yield from _stored(memory, left, drawn))]


def _known(memory: Memory, told: Experience) -> Flow[list[str]]:
    """The lessons of these failures, or about this question, that are there already."""
    query = told.asked if told.corrects or told.failed else ""
    ask = memory.asking.ask(query, memory.context)
    found, _ = yield from lessons(
        replace(ask, memory_types=(REFLEXION,), limit=_KNOWN),
        memory.flows.reader,
        memory.tiered_store.flows,
        failures=[one.shown.failure for one in told.kinds],
    )
    return [one.content for one in found]


def _stored(memory: Memory, told: Experience, drawn: Sequence[Drawn]) -> Flow[list[StoreResult]]:
    """Store lessons with the attempts that they are of, which live on in them."""
    if not drawn:
        return []
    context, store = memory.context, memory.tiered_store.flows
    shown = list(dict.fromkeys(one.kind.shown for one in drawn if one.kind is not None))
    kept = yield from _attempts(memory, shown)
    origins = dict(zip(shown, kept, strict=True))
    made = yield from memory.gate.screening([one.to_memory(told, context) for one in drawn])
    lessons_ = [
        one if each.kind is None else drawn_from(origins[each.kind.shown], one)
        for one, each in zip(made, drawn, strict=True)
    ]
    results = yield from memory.flows.remember([*kept, *lessons_], context)
    pairs = [
        (attempt.key(context), str(one.key))
        for one, each in zip(lessons_, drawn, strict=True)
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
            ended = [one for one in begun if one.done()][-_MOST:]
            self._begun[caller] = [*ended, *(one for one in begun if not one.done()), future]
            idle = [one for one, begun in self._begun.items() if all(map(Future.done, begun))]
            for oldest in idle[:-_MOST_CALLERS]:
                del self._begun[oldest]
        future.add_done_callback(_ended)

    def finish(self, caller: Caller, timeout: float | None) -> bool:
        """Wait for what is under way for a caller now, and tell whether it is done."""
        if timeout is not None and not is_number(timeout):
            raise InvalidTypeError(f"timeout is a number of seconds or None, not {short(timeout)}")
        with self._lock:
            mine = list(self._begun.get(caller, ()))
        return not wait(mine, timeout).not_done

    def told(self, caller: Caller) -> list[StoreResult]:
        """Return what was learned for a caller since it was told last; if nothing was, why not."""
        with self._lock:
            begun = self._begun.pop(caller, [])
            ended = [one for one in begun if one.done() and not one.cancelled()]
            found = [each for one in ended if one.exception() is None for each in one.result()]
            failed = [one for one in ended if isinstance(one.exception(), TieredMemoryError)]
            left = [*(failed if found else ()), *(one for one in begun if not one.done())]
            if left:
                self._begun[caller] = left
        if failed and not found:
            failed[-1].result()
        return found


def _ended(future: Future[list[StoreResult]]) -> None:
    if not future.cancelled() and (error := future.exception()) is not None:
        _log.warning("nothing was learned from a turn: %s", error)


def begin_reflection(memory: Memory, told: Experience, model: BaseChatModel) -> None:
    """Let a model draw the lessons of a turn in the background; nobody waits for it."""
    future = memory.tiered_store.aside(learn_from(memory, told, reflector_of(model)))
    memory.tiered_store.flows.kept.one(Reflections).add(memory.context.caller, future)


def learned_lately(memory: Memory) -> list[StoreResult]:
    """Return what models drew for this caller in the background since it was told last.

    Raises:
        TieredMemoryError: if they drew nothing, as one failed; it is raised once.
    """
    return memory.tiered_store.flows.kept.one(Reflections).told(memory.context.caller)


def finish_reflections(memory: Memory, timeout: float | None = None) -> bool:
    """Wait for the lessons that models draw in the background, and tell whether all are drawn.

    Any coordinator of this caller may have begun it, such as a middleware's.

    Args:
        timeout: Seconds at most; as long as it takes if not given.

    Raises:
        asyncio.InvalidStateError: on the loop that the store was opened on, which it would
            block.
    """
    if memory.tiered_store.on_own_loop:
        raise asyncio.InvalidStateError("it would block the loop: await afinish_reflections()")
    return memory.tiered_store.flows.kept.one(Reflections).finish(memory.context.caller, timeout)


async def afinish_reflections(memory: Memory, timeout: float | None = None) -> bool:  # noqa: ASYNC109 - of its twin
    """Wait for the lessons that models draw in the background, and tell whether all are drawn.

    Any coordinator of this caller may have begun it, such as a middleware's.

    Args:
        timeout: Seconds at most; as long as it takes if not given.

    Raises:
        asyncio.InvalidStateError: on the loop that the store was opened on, which it would
            block.
    """
    reflections = memory.tiered_store.flows.kept.one(Reflections)
    return await asyncio.to_thread(reflections.finish, memory.context.caller, timeout)
