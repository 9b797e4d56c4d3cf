"""Calls that are waited for: on threads that hold no interpreter, until a deadline, or awaited.

What is done both ways is written once, as `Work`: a generator that yields what a method returned,
which is the answer or is to be awaited for it, and is sent the answer. `run_sync` does it blocking,
`run_async` awaits what it yields.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
from collections.abc import Awaitable, Callable, Generator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from inspect import GEN_CLOSED, getgeneratorstate
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any, TypeAlias, TypeVar, cast

T = TypeVar("T")

Work: TypeAlias = Generator[Any, Any, T]

_Job: TypeAlias = tuple[Future[Any], Callable[[], Any]]


def run_sync(work: Work[T]) -> T:
    """Run blocking work to its end: each value that it yields is sent back as the answer."""
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


async def run_async(work: Work[T]) -> T:
    """Run awaited work to its end: each value that it yields is awaited for the answer."""
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


class DaemonPool:
    """A pool of at most `most` threads, started on demand; each ends when it is idle."""

    def __init__(self, most: int, idle_seconds: float = 0.0) -> None:
        """Set up; a thread waits for so many seconds for its next call before it ends."""
        self._most = most
        self._idle_seconds = idle_seconds
        self._begin_anew()

    def submit(self, call: Callable[[], T]) -> Future[T]:
        """Begin a call as soon as a thread is free, in a copy of the caller's context."""
        if self._pid != os.getpid():
            self._begin_anew()  # threads do not survive a fork
        future: Future[T] = Future()
        with self._lock:
            self._waiting.put((future, partial(copy_context().run, call)))
            self._free -= 1
            if self._free >= 0 or self._running == self._most:
                return future
            self._running += 1
            self._free += 1
        threading.Thread(target=self._work, name="langmem-tiers", daemon=True).start()
        return future

    def end_idle(self) -> None:
        """End the threads that wait for a call, and return when they have ended."""
        ended: SimpleQueue[threading.Thread] = SimpleQueue()
        with self._lock:
            idle = max(0, self._free if self._pid == os.getpid() else 0)
            self._free -= idle
            for _ in range(idle):
                self._waiting.put(ended)
        for _ in range(idle):
            ended.get().join()

    def _begin_anew(self) -> None:
        self._lock = threading.Lock()
        self._waiting: SimpleQueue[_Job | SimpleQueue[threading.Thread]] = SimpleQueue()
        self._running = 0
        self._free = 0
        """Idle threads less the calls that wait for one."""
        self._pid = os.getpid()

    def _work(self) -> None:
        while (job := self._next()) is not None:
            if isinstance(job, SimpleQueue):
                with self._lock:
                    self._running -= 1
                return job.put(threading.current_thread())
            future, call = job
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(call())
                except BaseException as error:  # noqa: BLE001 - it is raised where the result is asked for
                    future.set_exception(error)
            del job, future, call  # an idle thread holds nothing of a caller's
            with self._lock:
                self._free += 1
        return None

    def _next(self) -> _Job | SimpleQueue[threading.Thread] | None:
        while True:
            with suppress(Empty):
                return self._waiting.get(timeout=self._idle_seconds)
            with self._lock:
                if self._waiting.empty():
                    self._running -= 1
                    self._free -= 1
                    return None


def gather_before(
    seconds: float | None,
    calls: Sequence[Callable[[], T]],
    daemons: DaemonPool,
    late: Callable[[], T | None] = lambda: None,
) -> list[T | None]:
    """Make calls at once and gather their results; `late` stands in for those after the deadline.

    Whoever waits goes on at the deadline. What was not begun by then never is; a blocking call ends
    in its own time, on a thread that no interpreter waits for, and an awaited one is cancelled.
    """
    until = None if seconds is None else monotonic() + seconds
    futures = [daemons.submit(call) for call in calls]
    try:
        for future in futures:
            with suppress(TimeoutError):
                future.exception(None if until is None else max(0.0, until - monotonic()))
    finally:
        done = {future for future in futures if not future.cancel() and future.done()}
    return [future.result() if future in done else late() for future in futures]


async def agather_before(
    seconds: float | None,
    calls: Sequence[Callable[[], Awaitable[T]]],
    at_once: int,
    late: Callable[[], T | None] = lambda: None,
) -> list[T | None]:
    """Await calls at once and gather their results; see `gather_before`."""
    free = asyncio.Semaphore(at_once)

    async def limited(call: Callable[[], Awaitable[T]]) -> T:
        async with free:
            return await call()

    if not calls:
        return []
    tasks = [asyncio.create_task(limited(call)) for call in calls]
    try:
        done, _ = await asyncio.wait(tasks, timeout=seconds)
    finally:
        for task in tasks:
            task.cancel()
    return [task.result() if task in done else late() for task in tasks]


async def call_async(verb: Any, *args: Any, daemons: DaemonPool | None = None) -> Any:
    """Call a function and await its answer; a blocking one runs in a thread."""
    if inspect.iscoroutinefunction(verb):
        return await verb(*args)
    if daemons is None:
        answer = await asyncio.to_thread(verb, *args)
    else:
        answer = await asyncio.wrap_future(daemons.submit(partial(verb, *args)))
    if isinstance(answer, Future):
        return await asyncio.wrap_future(answer)
    return await answer if inspect.isawaitable(answer) else answer
