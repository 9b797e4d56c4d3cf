"""The runner of a store's flows, for blocking and awaiting callers."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from time import monotonic
from typing import Any, TypeVar

from langmem_tiers.core.concurrency import DaemonPool, run_async, run_sync
from langmem_tiers.core.config import Role
from langmem_tiers.core.errors import ConfigurationError, DatabaseUnavailableError
from langmem_tiers.postgres.connection_config import Target
from langmem_tiers.postgres.driver import AWAITED, BLOCKING, drive, run_to_end
from langmem_tiers.postgres.flow import Ask, Flow
from langmem_tiers.postgres.session import Database, Session

T = TypeVar("T")

_IN_USE = "the store was closed while it was in use"
_CLOSED = "the store is closed: open it first"
_POLL_SECONDS = 0.01
"""The seconds between two looks of a task that waits while another caller opens the store: our own
choice."""
_BACKGROUND = DaemonPool(4)
"""Threads for flows that nobody waits for: four, as such a flow mostly waits for a model."""
_SHORT_BACKGROUND = DaemonPool(1)
"""A thread for those that ask no model, so that they wait for none that does."""
_inherited: list[object] = []
"""Databases of a parent process: a fork must neither use nor close their connections."""


class Runner:
    """Runs flows on a blocking or an asynchronous database, opened on first use.

    Opened blocking, it serves any thread, and coroutines through a worker thread. Opened on an
    event loop, it serves that loop, and every other thread or loop by handing work to it.
    """

    _database: Database | None
    _failed: tuple[float, DatabaseUnavailableError] | None
    """The time and the error of the last failure to connect."""
    _opens_on: asyncio.AbstractEventLoop | None
    """The loop that opens it just now."""

    def __init__(self, target: Target, prepare: Callable[[], Flow[None]]) -> None:
        """Hold the target, and the flow that prepares a database on an embedded server."""
        self._target, self._prepare = target, prepare
        self._reset()

    @property
    def is_open(self) -> bool:
        """True if it is connected to a database."""
        return self._database is not None

    @property
    def target(self) -> Target:
        """The target that it is connected to, with the address of an embedded server.

        Raises:
            ConfigurationError: if it is not open.
        """
        if self._database is None:
            raise ConfigurationError(_CLOSED)
        return self._database.target

    @property
    def acting(self) -> Role:
        """The role whose rights it has; the owner until it is open."""
        return "owner" if self._database is None else self._database.wall.acting

    def open(self) -> None:
        """Connect, from blocking code. Does nothing if already open."""
        self._forget_lost_database()
        if self._database is None:
            self.refuse_own_loop()
        called_at = monotonic()
        with self._opening:
            if not self.is_open:
                with self._attempt(called_at):
                    self._database = run_sync(
                        Database.connect(self._target, BLOCKING, self._prepare)
                    )

    async def aopen(self) -> None:
        """Connect on the running loop. Does nothing if already open."""
        self._forget_lost_database()
        called_at, opening = monotonic(), self._opening
        # a thread or another loop may hold the lock
        while not opening.acquire(blocking=False):  # noqa: ASYNC110 - the lock wakes no loop
            await asyncio.sleep(_POLL_SECONDS)
        try:
            self._opens_on = asyncio.get_running_loop()
            if not self.is_open:
                with self._attempt(called_at):
                    made = Database.connect(self._target, AWAITED, self._prepare)
                    self._database = await run_async(made)
        finally:
            self._opens_on = None
            opening.release()

    @contextmanager
    def _attempt(self, called_at: float) -> Iterator[None]:
        """Try to connect; a caller who waited during a failed attempt gets its error too."""
        if self._failed is not None and self._failed[0] > called_at:
            error = self._failed[1]
            raise type(error)(str(error)) from error
        try:
            yield
        except DatabaseUnavailableError as error:
            self._failed = (monotonic(), error)
            raise

    def _reset(self) -> None:
        self._database = self._failed = self._opens_on = None
        self._opening = threading.Lock()
        self._pid = os.getpid()

    def _forget_lost_database(self) -> None:
        """Drop the database after a fork, or if its loop was closed; the store then opens again."""
        if self._pid != os.getpid():
            _inherited.append(self._database)
            self._reset()
        elif self._loop_is_closed:
            self._reset()

    @property
    def _loop_is_closed(self) -> bool:
        loop = None if self._database is None else self._database.loop
        return loop is not None and loop.is_closed()

    @property
    def on_own_loop(self) -> bool:
        """True where a blocking call would block the store's own loop."""
        loop = self._opens_on if self._database is None else self._database.loop
        return loop is not None and loop is _running_loop()

    def refuse_own_loop(self) -> None:
        """Raise InvalidStateError where a blocking call would block the store's own loop."""
        if self.on_own_loop:
            raise asyncio.InvalidStateError(
                "this store was opened async and the call would block its own event loop: "
                "await the method of that name with an `a` before it, or call from another thread"
            )

    def close(self) -> None:
        """Close every connection and release an embedded server."""
        self.refuse_own_loop()
        if self._loop_is_closed:
            self._target.stop()
        self._forget_lost_database()
        database = self._database
        if database is not None and database.loop is not None:
            _check_running(database.loop)
            asyncio.run_coroutine_threadsafe(self.aclose(), database.loop).result()
        elif database is not None:
            self._database = None
            run_sync(database.close())

    async def aclose(self) -> None:
        """Close every connection and release an embedded server."""
        if self._database is not None and self.on_own_loop:
            database, self._database = self._database, None
            await run_to_end(run_async(database.close()))
        elif self.is_open:
            await asyncio.to_thread(self.close)

    def run(self, flow: Flow[T]) -> T:
        """Run a flow, blocking.

        Raises:
            asyncio.InvalidStateError: on the loop that the store was opened on, which the call
                would block.
        """
        self._forget_lost_database()
        if self._database is None:
            self.open()
        database = self._database
        if database is None:
            raise asyncio.InvalidStateError(_IN_USE)
        if database.loop is None:
            return run_sync(drive(flow, database.session()))
        self.refuse_own_loop()
        session = database.session(lambda ask: asyncio.to_thread(ask.call))
        return _run_on_loop(flow, session, database.loop).result()

    async def arun(self, flow: Flow[T]) -> T:
        """Run a flow, awaiting; its `Ask` effects are awaited on the caller's loop.

        On a blocking database it runs in a thread.
        """
        self._forget_lost_database()
        if self._database is None:
            await self.aopen()
        database, own_loop = self._database, asyncio.get_running_loop()
        if database is None:
            raise asyncio.InvalidStateError(_IN_USE)
        if database.loop is None:
            session = database.session(lambda ask: _ask_on_loop(ask, own_loop).result())
            return await asyncio.to_thread(run_sync, drive(flow, session))
        if database.loop is own_loop:
            return await run_async(drive(flow, database.session()))
        session = database.session(lambda ask: asyncio.wrap_future(_ask_on_loop(ask, own_loop)))
        return await asyncio.wrap_future(_run_on_loop(flow, session, database.loop))

    def run_in_background(self, flow: Flow[T], on: DaemonPool = _BACKGROUND) -> Future[T]:
        """Begin a flow that nobody waits for, on the store's own loop or on a thread.

        The interpreter exits without waiting for it. A closed store is not opened for it.

        Raises:
            ConfigurationError: if the store is closed.
        """
        database = self._database
        if database is None or self._loop_is_closed:
            raise ConfigurationError(_CLOSED)
        if database.loop is not None:
            return asyncio.run_coroutine_threadsafe(self.arun(flow), database.loop)
        return on.submit(lambda: run_sync(drive(flow, database.session())))

    def run_short_in_background(self, flow: Flow[T]) -> Future[T]:
        """Begin a background flow that asks no model; see `run_in_background`."""
        return self.run_in_background(flow, _SHORT_BACKGROUND)

    def run_long_in_background(self, flow: Flow[T]) -> Future[T] | None:
        """Begin a background flow that holds a connection for long; None if the pool has one."""
        has_more = self._target.pool_options()["max_size"] > 1
        return self.run_in_background(flow) if has_more else None


def _check_running(loop: asyncio.AbstractEventLoop) -> None:
    """Refuse to wait for a loop that does not run, as it would never answer.

    Raises:
        asyncio.InvalidStateError: the loop does not run.
    """
    if not loop.is_running():
        raise asyncio.InvalidStateError(
            "this store was opened async, on an event loop that is not running: await its methods "
            "with an `a` before their names on that loop, or open a store with `with` for blocking "
            "code"
        )


def _run_on_loop(flow: Flow[T], session: Session, loop: asyncio.AbstractEventLoop) -> Future[T]:
    """Run a flow on the loop that its database was opened on."""
    _check_running(loop)
    return asyncio.run_coroutine_threadsafe(run_async(drive(flow, session)), loop)


def _ask_on_loop(ask: Ask, loop: asyncio.AbstractEventLoop) -> Future[Any]:
    """Carry out an `Ask` on a loop, from another thread."""
    return asyncio.run_coroutine_threadsafe(ask.aask(), loop)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
