"""Work with the driver, written once, be it blocking or awaited.

The two differ in one thing: what a method of the driver returns is the answer, or what is to be
awaited for it. So such work is a generator that yields what a method returned and is sent the
answer: `done` does it blocking, `adone` awaits what it yields. A `Side` has what else differs.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Generator, Iterable
from dataclasses import dataclass
from inspect import GEN_CLOSED, getgeneratorstate
from typing import Any, Final, TypeAlias, TypeVar, cast

from langmem_tiers.postgres.flow import Ask

T = TypeVar("T")

Work: TypeAlias = Generator[Any, Any, T]


def done(work: Work[T]) -> T:
    """What comes of work that blocks: what it yields is the answer."""
    resume: Callable[[Any], Any] = work.send
    answer: Any = None
    while True:
        try:
            while True:
                answer, resume = resume(answer), work.send
        except StopIteration as end:
            return cast("T", end.value)
        except BaseException as error:
            if getgeneratorstate(work) == GEN_CLOSED:
                raise
            resume, answer = work.throw, error  # a signal between two steps: the work hears of it


async def adone(work: Work[T]) -> T:
    """What comes of work that is awaited: what it yields has the answer."""
    resume: Callable[[Any], Any] = work.send
    answer: Any = None
    while True:
        try:
            awaitable = resume(answer)
        except StopIteration as end:
            return cast("T", end.value)
        finally:
            answer = None  # an error kept here would keep this frame in turn
        try:
            resume, answer = work.send, await awaitable
        except BaseException as error:  # noqa: BLE001 - it is dealt with where it was yielded
            resume, answer = work.throw, error


def in_turn(several: Iterable[Work[T]]) -> Work[list[T]]:
    """What comes of each of several, done one after another."""
    found: list[T] = []
    for one in several:
        found += ((yield from one),)
    return found


def within(manager: Any, work: Work[T]) -> Work[T]:
    """Do work within a context manager, whichever way it is entered."""
    if not hasattr(manager, "__aenter__"):
        with manager:  # no signal comes between entering it and having to leave it
            return (yield from work)
    yield manager.__aenter__()
    try:
        result = yield from work
    except BaseException as error:
        yield manager.__aexit__(type(error), error, error.__traceback__)
        raise
    yield manager.__aexit__(None, None, None)
    return result


async def _whole(awaitable: Awaitable[T]) -> T:
    """Do what may not be left half done: who is cancelled meanwhile hears of it when it is done.

    A connection that is not given back to the end is lost to its pool, and so is a pool that is
    being replaced.
    """
    doing = asyncio.ensure_future(awaitable)
    cancelled: asyncio.CancelledError | None = None
    while not doing.done():
        try:
            await asyncio.wait({doing})
        except asyncio.CancelledError as error:
            cancelled = error
    result = doing.result()
    if cancelled is not None:
        raise cancelled
    return result


@dataclass(frozen=True, slots=True)
class Side:
    """What differs between blocking and awaiting, but for the driver's own methods."""

    do: Callable[[Work[Any]], Any]
    """Makes of work what a method of the driver returns: the answer, or what has it."""
    whole: Callable[[Any], Any]
    """Does one that may not be left half done."""
    aside: Callable[..., Any]
    """Calls what may take long and knows only to block."""
    ask: Callable[[Ask], Any]
    lock: Callable[[], Any]
    event: Callable[[], Any]


BLOCKING: Final = Side(
    do=done,
    whole=lambda did: did,
    aside=lambda call: call(),
    ask=Ask.ask,
    lock=threading.Lock,
    event=threading.Event,
)
AWAITED: Final = Side(
    do=adone,
    whole=_whole,
    aside=asyncio.to_thread,
    ask=Ask.aask,
    lock=asyncio.Lock,
    event=asyncio.Event,
)
