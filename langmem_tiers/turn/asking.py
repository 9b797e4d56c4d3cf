"""Asking functions for a turn: each within its time, several side by side, whatever one raises."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from langchain_core.runnables.config import ContextThreadPoolExecutor

from langmem_tiers.core.errors import ConfigurationError, InvalidTypeError
from langmem_tiers.core.threads import (
    Daemons,
    adone_by,
    answer_awaited,
    answers_awaited,
    answers_awaited_by,
    answers_by,
    done_by,
)
from langmem_tiers.memory.coordinator import MemoryCoordinator
from langmem_tiers.postgres.flow import Ask, Flow

_ASIDE: Final = Daemons(32)
"""Where functions are asked that are waited for no longer than so long; one that hangs keeps its
thread, so that there is an end to them: as many as `asyncio` has at most."""


@dataclass(frozen=True, slots=True)
class FunctionSource:
    """What answers by a function, or by its async twin."""

    verb: Callable[..., Any]
    averb: Callable[..., Any]
    waits: bool = True
    """True if it may take time; a function that only arranges what is there takes none."""

    @classmethod
    def of(cls, *verbs: Callable[..., Any], name: str | None = None) -> FunctionSource:
        """A function and its twin, or one that is both; those of a `name` are a user's.

        Raises:
            InvalidTypeError: for what cannot be told the prompt and the metadata.
        """
        for verb in verbs if name is not None else ():
            _check_parameters(name, verb)
        return cls(verbs[0], verbs[-1])

    @classmethod
    def at_hand(cls, verb: Callable[..., Any]) -> FunctionSource:
        """Make a source of a function that waits for nothing."""
        return cls(verb, verb, waits=False)

    def flow(
        self, prompt: str, metadata: Mapping[str, Any], memory: MemoryCoordinator
    ) -> Flow[Any]:
        """What it answers."""
        del memory
        about = (prompt, metadata)
        seconds = metadata["seconds"] if self.waits else None
        (answer,) = yield from answers(self.verb, self.averb, [about], seconds)
        return answer


Outcome = tuple[Any, Exception | None]
"""The answer of a source, or its error."""


def outcomes(
    asked: Sequence[tuple[Any, Mapping[str, Any]]], prompt: str, memory: MemoryCoordinator
) -> Flow[list[Outcome]]:
    """Ask sources, each with its metadata and several side by side; return answers and errors."""
    if len(asked) != 1:
        return (yield from _beside(asked, prompt))
    ((source, metadata),) = asked
    try:
        return [((yield from source.flow(prompt, metadata, memory)), None)]
    except Exception as error:  # noqa: BLE001 - a user's source can raise anything: it is told
        return [(None, error)]


def _beside(asked: Sequence[tuple[Any, Mapping[str, Any]]], prompt: str) -> Flow[list[Outcome]]:
    """Ask functions side by side, but blocking ones without a time limit one after another."""
    if not asked:
        return []
    seconds = asked[0][1]["seconds"]
    daemons = None if seconds is None else _ASIDE
    calls = [partial(_outcome, answer_of, one.verb, prompt, told) for one, told in asked]
    acalls = [
        partial(_aoutcome, partial(answer_awaited, one.averb, prompt, told, daemons=daemons))
        for one, told in asked
    ]

    def call() -> list[Outcome | None]:
        return [one() for one in calls] if daemons is None else done_by(seconds, calls, daemons)

    found: list[Outcome | None] = yield Ask(call, partial(adone_by, seconds, acalls, len(acalls)))
    late = TimeoutError(f"there was no answer within {seconds or 0:g} seconds")
    return [(None, late) if one is None else one for one in found]


def _outcome(call: Callable[..., Any], *given: Any) -> Outcome:
    try:
        return call(*given), None
    except Exception as error:  # noqa: BLE001 - a user's source can raise anything: it is told
        return None, error


async def _aoutcome(call: Callable[[], Awaitable[Any]]) -> Outcome:
    try:
        return await call(), None
    except Exception as error:  # noqa: BLE001 - a user's source can raise anything: it is told
        return None, error


def answers(
    verb: Any, averb: Any, asked: Sequence[tuple[Any, ...]], seconds: float | None
) -> Flow[list[Any]]:
    """What a verb answers to each of these, asked side by side; None waits as long as it takes."""
    calls = [partial(answer_of, verb, *one) for one in asked]
    ask = Ask(partial(_at_once, calls), partial(answers_awaited, averb, asked))
    if seconds is not None:
        acalls = [partial(answer_awaited, averb, *one, daemons=_ASIDE) for one in asked]
        awaited = partial(answers_awaited_by, seconds, acalls)
        ask = Ask(partial(answers_by, seconds, calls, _ASIDE), awaited)
    found: list[Any] = yield ask
    return found


def _at_once(calls: Sequence[Callable[[], Any]]) -> list[Any]:
    if len(calls) == 1:
        return [calls[0]()]
    with ContextThreadPoolExecutor(len(calls)) as pool:
        return [one.result() for one in [pool.submit(call) for call in calls]]


def _check_parameters(name: str | None, verb: Callable[..., Any]) -> None:
    """Refuse a source's verb that cannot be told the prompt and the metadata."""
    try:
        signature = inspect.signature(verb)
    except (TypeError, ValueError):  # it is not written in Python
        return
    try:
        signature.bind("", {})
    except TypeError as error:
        raise InvalidTypeError(
            f"the source {name!r} takes (prompt, metadata), not {signature}"
        ) from error


def answer_of(verb: Any, *given: Any) -> Any:
    """What a function answers at once.

    Raises:
        ConfigurationError: if it must be awaited.
    """
    answer = verb(*given)
    if isinstance(answer, Future):
        return answer.result()
    if inspect.isawaitable(answer):
        if inspect.iscoroutine(answer):
            answer.close()
        raise ConfigurationError(
            "a source is async and cannot be asked here: use `async with` and "
            "aassemble_context, or give it a blocking twin, `remember`"
        )
    return answer
