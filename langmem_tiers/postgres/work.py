"""Work with the driver, written once, be it blocking or awaited.

The two differ in one thing: what a method of the driver returns is the answer, or what is to be
awaited for it. So such work is a generator (see `core/threads.py`), and a `Side` has what else
differs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeVar

from langmem_tiers.core.threads import Daemons, Work, adone, done
from langmem_tiers.postgres.flow import Ask

T = TypeVar("T")


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


class _Bell:
    """An event for one who waits, which no signal in the midst of it breaks as it may break theirs.

    `threading.Event` takes its lock in Python, where an interrupt can leave it taken for ever.
    """

    def __init__(self) -> None:
        self._rung: SimpleQueue[None] = SimpleQueue()

    def set(self) -> None:
        self._rung.put(None)

    def wait(self, seconds: float | None) -> bool:
        try:
            self._rung.get(timeout=seconds)
        except Empty:
            return False
        return True


async def _wait_for(event: asyncio.Event, seconds: float | None) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True


def _begin(work: Callable[[], Work[T]]) -> Future[T]:
    return _RECOVERING.submit(lambda: done(work()))


def _abegin(work: Callable[[], Work[T]]) -> asyncio.Task[T]:
    task = asyncio.create_task(adone(work()))
    task.add_done_callback(lambda one: one.cancelled() or one.exception())  # nobody may wait for it
    return task


def _ended(future: Future[Any], seconds: float | None) -> bool:
    return bool(wait([future], timeout=seconds).done)


async def _aended(task: asyncio.Task[Any], seconds: float | None) -> bool:
    return bool((await asyncio.wait({task}, timeout=seconds))[0])


_RECOVERING: Final = Daemons(4)


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
    event: Callable[[], Any]
    rung: Callable[[Any, float | None], Any]
    """Tells whether an event comes within so many seconds."""
    begin: Callable[[Callable[[], Work[Any]]], Any]
    """Begins work that goes on by itself."""
    ended: Callable[[Any, float | None], Any]
    """Tells whether that work ends within so many seconds."""


BLOCKING: Final = Side(
    do=done,
    whole=lambda did: did,
    aside=lambda call: call(),
    ask=Ask.ask,
    event=_Bell,
    rung=_Bell.wait,
    begin=_begin,
    ended=_ended,
)
AWAITED: Final = Side(
    do=adone,
    whole=_whole,
    aside=asyncio.to_thread,
    ask=Ask.aask,
    event=asyncio.Event,
    rung=_wait_for,
    begin=_abegin,
    ended=_aended,
)
