"""Threads that no interpreter waits for."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")


class Daemons:
    """At most so many threads, begun when there is something to do; each ends when there is not."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._begin_anew()

    def submit(self, call: Callable[[], T]) -> Future[T]:
        """Begin a call as soon as a thread is free, in a copy of the caller's context."""
        if self._pid != os.getpid():
            self._begin_anew()  # threads do not survive a fork
        future: Future[T] = Future()
        with self._lock:
            self._waiting.append((future, partial(copy_context().run, call)))
            if self._running == self._most:
                return future
            self._running += 1
        threading.Thread(target=self._work, name="langmem-tiers", daemon=True).start()
        return future

    def _begin_anew(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._running = 0
        self._pid = os.getpid()

    def _work(self) -> None:
        while (job := self._next()) is not None:
            future, call = job
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(call())
            except BaseException as error:  # noqa: BLE001 - it is raised where the result is asked for
                future.set_exception(error)

    def _next(self) -> tuple[Future[Any], Callable[[], Any]] | None:
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            self._running -= 1
            return None
