"""The driver: it runs a flow to its result, blocking or awaiting, within a deadline.

`drive` hands each effect of a flow to a session, and the answer back. It is `Work` (see
`core/concurrency.py`), like everything that a session does with psycopg: a psycopg method returns
the answer, or an awaitable that has it. A `CallMode` holds the other differences between the two.

The time of a call's `Deadline` runs while the call waits for a connection, for locks, for the
embedding model, for the writes of others and for a retry. It stands still while a function or a
chat model of the caller runs, which have time-outs of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import Future, wait
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any, Final, Protocol, TypeVar, cast

from langmem_tiers.core.concurrency import DaemonPool, Work, run_async, run_sync
from langmem_tiers.core.errors import DatabaseError
from langmem_tiers.postgres.flow import ITEMS_IN_A_CALL, Ask

T = TypeVar("T")
E = TypeVar("E")
E_contra = TypeVar("E_contra", contravariant=True)


class UnitOfWork(Protocol[E_contra]):
    """A session that carries out the effects of a flow."""

    def perform(self, effect: E_contra, /) -> Work[Any]:
        """Carry out an effect and return its answer."""
        ...

    def end(self, error: BaseException | None, /) -> Work[None]:
        """Commit, or roll back after an error."""
        ...


def drive(
    flow: Generator[E, Any, T],
    session: UnitOfWork[E],
    thrown: type[BaseException] = Exception,
) -> Work[T]:
    """Carry out a flow's effects, one after another, end its session, and return its result.

    An effect's error is raised where the flow yielded it, if it is an instance of `thrown`. Any
    other error closes the flow there.
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
    """Await to the end, also if the caller is cancelled meanwhile; raise the cancellation then.

    A half returned connection is lost to its pool, and a half closed pool keeps its connections.
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
    """An event for one waiter, which a signal cannot break.

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
    # read the error: there may be no waiter, and asyncio warns of an error that nobody reads
    task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
    return task


def _wait_for_end(future: Future[Any], seconds: float | None) -> bool:
    return bool(wait([future], timeout=seconds).done)


async def _await_end(task: asyncio.Task[Any], seconds: float | None) -> bool:
    return bool((await asyncio.wait({task}, timeout=seconds))[0])


_RECOVERY_THREADS: Final = DaemonPool(4)


@dataclass(frozen=True, slots=True)
class CallMode:
    """The differences between blocking and awaiting, besides psycopg's own methods."""

    run_work: Callable[[Work[Any]], Any]
    """Runs work as a psycopg method would: it returns the answer, or an awaitable that has it."""
    call_blocking: Callable[..., Any]
    """Calls a function that can only block, and may take long."""
    ask: Callable[[Ask], Any]
    event: Callable[[], Any]
    wait_for_event: Callable[[Any, float | None], Any]
    """Waits for an event for so many seconds; False if it does not come."""
    begin_work: Callable[[Callable[[], Work[Any]]], Any]
    """Begins work that goes on without its caller."""
    wait_for_end: Callable[[Any, float | None], Any]
    """Waits for that work for so many seconds; False if it does not end."""


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
"""A write waits a fourth of its time for its group, and then goes alone."""
_MORE_TIME: Final = "open the store with bounds=Bounds(call_timeout_ms=…)"


class Deadline:
    """The time of a call: a number of seconds from now on, or no end."""

    __slots__ = ("_call_seconds", "_until", "seconds")

    def __init__(self, seconds: float | None) -> None:
        """Start the time now."""
        self.seconds = seconds
        self._call_seconds = seconds
        """The seconds of a call of few items."""
        self._until = None if seconds is None else monotonic() + seconds

    @property
    def left(self) -> float | None:
        """The seconds that are left; None for no end."""
        return None if self._until is None else max(0.0, self._until - monotonic())

    @property
    def passed(self) -> bool:
        """True if no time is left."""
        return self._until is not None and monotonic() >= self._until

    def extend(self, seconds: float) -> None:
        """Add the seconds that a function or a model of the caller took."""
        if self._until is not None:
            self._until += seconds

    def for_items(self, items: int | None) -> Deadline:
        """Return the deadline for a call of so many items, never an earlier one; NEVER for None."""
        if items is None or self.seconds is None or self._call_seconds is None:
            return NEVER
        wanted = self._call_seconds * (1 + max(items - 1, 0) // ITEMS_IN_A_CALL)
        longer = Deadline(max(self.seconds, wanted))
        longer._call_seconds = self._call_seconds
        longer.extend((self.left or 0.0) - self.seconds)
        return longer

    @property
    def first_share(self) -> float | None:
        """The seconds for a first attempt, after which a second one has the rest."""
        if self.seconds is None or self.left is None:
            return None
        return min(self.seconds / _PARTS, self.left)

    @property
    def first_share_passed(self) -> bool:
        """True if the first attempt has used its fourth of the time."""
        if self.seconds is None or self._until is None:
            return False
        return monotonic() >= self._until - self.seconds * (1 - 1 / _PARTS)

    def cap(self, limit: float) -> float:
        """Return the smaller of a limit in seconds and the time that is left."""
        return limit if self.left is None else min(limit, self.left)

    def timeout_error(self, waited_for: str) -> DatabaseError:
        """Make the error of a call whose time ran out before it wrote anything."""
        return DatabaseError(
            f"the call was not done within {self.seconds:g} seconds: {waited_for}; for more time "
            f"{_MORE_TIME}",
            code="query_timeout",
        )


NEVER: Final = Deadline(None)
