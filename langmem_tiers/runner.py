"""One store, both ways: where its flows run, whichever way it was opened."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from langmem_tiers.database import AsyncDatabase, Database, Target
from langmem_tiers.embedded import EmbeddedPostgres
from langmem_tiers.flow import Flow, arun, run

T = TypeVar("T")


class Runner:
    """Runs flows on a blocking or an asynchronous database, opened on first use.

    Opened blocking, it serves any thread, and coroutines through a worker thread. Opened on an
    event loop, it serves that loop, and every other thread or loop by handing work to it.
    """

    def __init__(
        self, target: Target, server: EmbeddedPostgres | None, prepare: Callable[[], Flow[None]]
    ) -> None:
        """Describe what to run on. `prepare` is run once after an embedded server starts."""
        self._target = target
        self._server = server
        self._prepare = prepare
        self._opening = threading.Lock()
        self._database: Database | None = None
        self._adatabase: AsyncDatabase | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def is_open(self) -> bool:
        """Whether there is a connection to anything."""
        return self._database is not None or self._adatabase is not None

    def open(self) -> None:
        """Connect, from blocking code. Does nothing if already open."""
        with self._opening:
            if self._database is None and self._adatabase is None:
                database = Database(self._started())
                database.open()
                self._database = database
                if self._server is not None:
                    self._set_up(database)

    async def aopen(self) -> None:
        """Connect on the running loop. Does nothing if already open."""
        if self._database is None and self._adatabase is None:
            database = AsyncDatabase(await asyncio.to_thread(self._started))
            await database.open()
            self._adatabase, self._loop = database, asyncio.get_running_loop()
            if self._server is not None:
                await arun(self._prepare(), database.session())
                await database.reopen()

    def close(self) -> None:
        """Close every connection and let go of an embedded server."""
        if self._on_own_loop():
            raise asyncio.InvalidStateError("this store was opened async: await store.aclose()")
        if self._adatabase is not None and self._loop is not None:
            asyncio.run_coroutine_threadsafe(self.aclose(), self._loop).result()
        if self._database is not None:
            self._database.close()
            self._database = None
            self._stop()

    async def aclose(self) -> None:
        """Close every connection and let go of an embedded server."""
        if self._adatabase is not None:
            await self._adatabase.close()
            self._adatabase = self._loop = None
            await asyncio.to_thread(self._stop)
        elif self._database is not None:
            await asyncio.to_thread(self.close)

    def run(self, flow: Flow[T]) -> T:
        """Run a flow, blocking.

        Raises:
            asyncio.InvalidStateError: on the loop that the store was opened on, which the call
                would block.
        """
        if self._database is None:
            if self._on_own_loop():
                raise asyncio.InvalidStateError(
                    "this store was opened async and would block its own event loop: use the "
                    "a-method (aget, asearch, aput, …), or call from another thread"
                )
            if self._adatabase is not None and self._loop is not None:
                return asyncio.run_coroutine_threadsafe(self.arun(flow), self._loop).result()
            self.open()
        return run(flow, self._sync().session())

    async def arun(self, flow: Flow[T]) -> T:
        """Run a flow, awaiting."""
        if self._database is not None:
            return await asyncio.to_thread(run, flow, self._database.session())
        await self.aopen()
        if self._adatabase is None or self._loop is None:
            return await asyncio.to_thread(self.run, flow)
        if asyncio.get_running_loop() is self._loop:
            return await arun(flow, self._adatabase.session())
        handed_over = asyncio.run_coroutine_threadsafe(self.arun(flow), self._loop)
        return await asyncio.wrap_future(handed_over)

    def reopen(self) -> None:
        """Reconnect, so that connections know what setup has created."""
        if self._database is not None:
            self._database.reopen()
        elif self._adatabase is not None and self._loop is not None:
            asyncio.run_coroutine_threadsafe(self._adatabase.reopen(), self._loop).result()

    async def areopen(self) -> None:
        """Reconnect, so that connections know what setup has created."""
        if self._adatabase is not None:
            await self._adatabase.reopen()
        elif self._database is not None:
            await asyncio.to_thread(self._database.reopen)

    def _sync(self) -> Database:
        if self._database is None:
            raise asyncio.InvalidStateError("the store was closed while it was in use")
        return self._database

    def _on_own_loop(self) -> bool:
        try:
            return self._loop is not None and asyncio.get_running_loop() is self._loop
        except RuntimeError:
            return False

    def _started(self) -> Target:
        if self._server is None:
            return self._target
        return replace(self._target, conninfo=self._server.start())

    def _set_up(self, database: Database) -> None:
        run(self._prepare(), database.session())
        database.reopen()

    def _stop(self) -> None:
        if self._server is not None:
            self._server.stop()
