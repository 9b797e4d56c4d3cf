"""The driver: how a flow comes to its result, be it blocking or awaiting, and by when.

`driven` hands each effect of a flow to a session, and the answer back. It is `Work` (see
`core/threads.py`), as all that a session does with the driver of Postgres: what a method of that
returns is the answer, or is awaited for it. A `Side` has what else differs between the two.

A call's `Deadline` counts while it waits for a connection, for locks, for the embedding model, for
the writes of others and for being tried again. It does not count while a function or a chat model
of the caller's is asked, which have time-outs of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import Future, wait
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any, Final, Protocol, TypeVar, cast

from langmem_tiers.core.errors import DatabaseError
from langmem_tiers.core.threads import DaemonPool, Work, run_async, run_sync
from langmem_tiers.postgres.flow import ITEMS_IN_A_CALL, Ask

T = TypeVar("T")
E = TypeVar("E")
E_contra = TypeVar("E_contra", contravariant=True)


class UnitOfWork(Protocol[E_contra]):
    """What a flow is driven on."""

    def perform(self, effect: E_contra, /) -> Work[Any]:
        """Do what a flow asked for."""
        ...

    def end(self, error: BaseException | None, /) -> Work[None]:
        """Commit, or roll back after an error."""
        ...


def drive(
    flow: Generator[E, Any, T],
    session: UnitOfWork[E],
    thrown: type[BaseException] = Exception,
) -> Work[T]:
    """Do a flow's effects, one after another, and end its session; return its result.

    What goes wrong with an effect is raised where the flow yielded it, if it is `thrown`; a flow
    is closed where it yielded anything else.
    """
    resume: Callable[[Any], E] = flow.send
    answer: Any = None
    result: Any = None
    try:
        while True:
            try:
                effect = resume(answer)
            except StopIteration as end:
                result = end.value
                break
            finally:
                answer = None  # an error kept here would keep this frame in turn
            try:
                resume, answer = flow.send, (yield from session.perform(effect))
            except thrown as error:
                resume, answer = flow.throw, error
    except BaseException as error:
        try:
            flow.close()
        finally:
            yield from session.end(error)
        raise
    yield from session.end(None)
    return cast("T", result)


async def run_to_end(awaitable: Awaitable[T]) -> T:
    """Do what may not be left half done: who is cancelled meanwhile hears of it when it is done.

    A connection that is not given back to the end is lost to its pool, and a pool that is not
    closed to the end keeps its connections.
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


class _BlockingEvent:
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


async def _await_event(event: asyncio.Event, seconds: float | None) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True


def _begin(work: Callable[[], Work[T]]) -> Future[T]:
    return _RECOVERY_THREADS.submit(lambda: run_sync(work()))


def _abegin(work: Callable[[], Work[T]]) -> asyncio.Task[T]:
    task = asyncio.create_task(run_async(work()))
    # nobody may wait for it
    task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
    return task


def _wait_for_end(future: Future[Any], seconds: float | None) -> bool:
    return bool(wait([future], timeout=seconds).done)


async def _await_end(task: asyncio.Task[Any], seconds: float | None) -> bool:
    return bool((await asyncio.wait({task}, timeout=seconds))[0])


_RECOVERY_THREADS: Final = DaemonPool(4)


@dataclass(frozen=True, slots=True)
class CallMode:
    """What differs between blocking and awaiting, but for the driver's own methods."""

    run_work: Callable[[Work[Any]], Any]
    """Makes of work what a method of the driver returns: the answer, or what has it."""
    call_blocking: Callable[..., Any]
    """Calls what may take long and knows only to block."""
    ask: Callable[[Ask], Any]
    event: Callable[[], Any]
    wait_for_event: Callable[[Any, float | None], Any]
    """Tells whether an event comes within so many seconds."""
    begin_work: Callable[[Callable[[], Work[Any]]], Any]
    """Begins work that goes on by itself."""
    wait_for_end: Callable[[Any, float | None], Any]
    """Tells whether that work ends within so many seconds."""


BLOCKING: Final = CallMode(
    run_work=run_sync,
    call_blocking=lambda call: call(),
    ask=Ask.ask,
    event=_BlockingEvent,
    wait_for_event=_BlockingEvent.wait,
    begin_work=_begin,
    wait_for_end=_wait_for_end,
)
AWAITED: Final = CallMode(
    run_work=run_async,
    call_blocking=asyncio.to_thread,
    ask=Ask.aask,
    event=asyncio.Event,
    wait_for_event=_await_event,
    begin_work=_abegin,
    wait_for_end=_await_end,
)


_PARTS: Final = 4
"""A write waits a fourth of its time for those that go with it, and then goes alone."""
_MORE_TIME: Final = "open the store with bounds=Bounds(call_timeout_ms=…)"


class Deadline:
    """The time that a call has: a number of seconds from now on, or no end."""

    __slots__ = ("_call_seconds", "_until", "seconds")

    def __init__(self, seconds: float | None) -> None:
        """Begin the time now."""
        self.seconds = seconds
        self._call_seconds = seconds
        """The seconds of a call of few items."""
        self._until = None if seconds is None else monotonic() + seconds

    @property
    def left(self) -> float | None:
        """Return the seconds that are left; None for no end."""
        return None if self._until is None else max(0.0, self._until - monotonic())

    @property
    def passed(self) -> bool:
        """Tell whether no time is left."""
        return self._until is not None and monotonic() >= self._until

    def extend(self, seconds: float) -> None:
        """Give back the seconds in which a function or a model of the caller's was asked."""
        if self._until is not None:
            self._until += seconds

    def for_items(self, items: int | None) -> Deadline:
        """Return the deadline of a call for so many items: no earlier one. For None it is none."""
        if items is None or self.seconds is None or self._call_seconds is None:
            return NEVER
        wanted = self._call_seconds * (1 + max(items - 1, 0) // ITEMS_IN_A_CALL)
        longer = Deadline(max(self.seconds, wanted))
        longer._call_seconds = self._call_seconds
        longer.extend((self.left or 0.0) - self.seconds)
        return longer

    @property
    def first_share(self) -> float | None:
        """Return the seconds for a first way, where there is a second if that takes too long."""
        if self.seconds is None or self.left is None:
            return None
        return min(self.seconds / _PARTS, self.left)

    @property
    def first_share_passed(self) -> bool:
        """Tell whether the first way has had its fourth of the time."""
        if self.seconds is None or self._until is None:
            return False
        return monotonic() >= self._until - self.seconds * (1 - 1 / _PARTS)

    def cap(self, limit: float) -> float:
        """Return the seconds to wait for something that has a limit of its own."""
        return limit if self.left is None else min(limit, self.left)

    def timeout_error(self, waited_for: str) -> DatabaseError:
        """Make the error of a call whose time ran out before anything of it was written."""
        return DatabaseError(
            f"the call was not done within {self.seconds:g} seconds: {waited_for}; for more time "
            f"{_MORE_TIME}",
            code="query_timeout",
        )


NEVER: Final = Deadline(None)
