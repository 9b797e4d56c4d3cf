"""Sessions: units of work on one connection, on which `arun` drives flows, and databases of them.

What blocks is `session_sync.py`, made of this file by `make sync`: there `run` drives them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Sequence
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar, cast

import psycopg
from psycopg_pool import PoolClosed, PoolTimeout

from langmem_tiers.postgres.connection import AsyncConnection, AsyncConnections, rows_of, whole
from langmem_tiers.postgres.errors import (
    ENDED,
    can_roll_back,
    changed,
    interruption,
    is_half_sent,
    is_outcome_unknown,
    is_transient,
    outcome_unknown,
    translated,
)
from langmem_tiers.postgres.flow import (
    Ask,
    AsyncAsking,
    Build,
    Call,
    Effect,
    Embed,
    Lookup,
    Query,
    Rows,
    Script,
    Together,
    Unit,
)
from langmem_tiers.postgres.group_commit import AsyncGroupCommit
from langmem_tiers.postgres.lookups import AsyncLookups
from langmem_tiers.postgres.target import Host, Target

T = TypeVar("T")
E = TypeVar("E")
E_contra = TypeVar("E_contra", contravariant=True)

_ATTEMPTS = 5
_WAITS = "a flow asks models, and runs others, outside its transaction: no connection waits"


class AsyncUnitOfWork(Protocol[E_contra]):
    """What `arun` needs: something that commits on a clean exit and else rolls back."""

    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None: ...
    async def perform(self, effect: E_contra, /) -> Any:
        """Do what a flow asked for."""


async def arun(flow: Generator[E, Any, T], session: AsyncUnitOfWork[E]) -> T:
    """Drive a flow to its result, awaiting every effect."""
    async with session:
        resume: Callable[[Any], E] = flow.send
        answer: Any = None
        try:
            while True:
                try:
                    effect = resume(answer)
                except StopIteration as done:
                    return cast("T", done.value)
                finally:
                    answer = None  # an error kept here would keep this frame in turn
                try:
                    resume, answer = flow.send, await session.perform(effect)
                except Exception as error:  # noqa: BLE001 - the flow deals with it, or lets it pass
                    resume, answer = flow.throw, error
        finally:
            flow.close()


class AsyncSession:
    """A unit of work on one connection, taken only while a query needs it."""

    def __init__(self, database: AsyncDatabase, ask: AsyncAsking | None = None) -> None:
        """Hold the database; nothing is opened yet. `ask` asks on the caller's side."""
        self._database = database
        self._ask = ask or Ask.aask
        self._find = database.lookups.find  # async only
        self._pool = database.pool
        self._conn: AsyncConnection | None = None
        self._open = False
        self._past: list[tuple[Query, list[Rows]] | None] = []
        """What the open transaction did; None is what cannot be done again."""

    async def __aenter__(self) -> Self:
        """Begin; no connection is taken yet."""
        return self

    async def __aexit__(self, kind: type[BaseException] | None, /, *_: object) -> None:
        """Commit, or roll back after an error, and give the connection back."""
        if self._conn is None:
            return
        try:
            if kind is None and self._open:
                await self._conn.commit()
            elif kind is not None and can_roll_back(self._conn):
                await self._conn.rollback()
        except psycopg.Error as failure:
            if kind is None and is_outcome_unknown(failure, self._conn, began_before=True):
                raise outcome_unknown(failure) from failure
            if kind is None:
                raise translated(failure) from failure
        finally:
            await self._release()

    async def perform(self, effect: Effect, /) -> Any:
        """Do what a flow asked for."""
        if isinstance(effect, Embed | Ask | Unit):
            if self._open:
                raise RuntimeError(_WAITS)
            return await self._outside(effect)
        if isinstance(effect, Together):
            return await self._database.writes.join(effect)
        if isinstance(effect, Lookup):
            return await self._find(effect, self)  # sync: return self.look_up([effect])
        try:
            if isinstance(effect, Script):
                return await self._script(effect)
            if isinstance(effect, Build):
                return await self._build(effect)
            return await self._query(effect)
        except (psycopg.Error, PoolTimeout) as error:
            raise interruption(error) or translated(error, effect) from error

    async def _outside(self, effect: Embed | Ask | Unit) -> Any:
        """Do what is done outside of any transaction."""
        if isinstance(effect, Ask):
            return await self._ask(effect)
        if isinstance(effect, Unit):
            return await arun(effect.flow, AsyncSession(self._database, self._ask))
        model = self._database.target.embedder()
        if effect.purpose == "documents":
            return await model.aembed_documents(list(effect.texts))
        return [await model.aembed_query(text) for text in effect.texts]

    async def look_up(self, lookups: Sequence[Lookup]) -> Rows:
        """Read the rows of these keys."""
        (rows,) = await self.perform(Query((Lookup.call(lookups),), commit=True))
        return list(rows)

    async def _script(self, script: Script) -> None:
        conn = await self._connection()
        await self._begin(conn)
        self._past.append(None)
        await conn.execute(script.text.encode(), prepare=False)

    async def _build(self, build: Build) -> bool:
        conn = await self._connection()
        locked = await conn.execute("SELECT pg_try_advisory_lock(%s)", (build.lock,))
        if await locked.fetchall() != [(True,)]:
            return False
        try:
            async with conn.unhurried():
                for statement in build.statements:
                    await conn.execute(statement.encode(), prepare=False)
        except BaseException:
            await conn.close()  # which also lets go of the lock
            raise
        await conn.execute("SELECT pg_advisory_unlock(%s)", (build.lock,))
        return True

    async def _query(self, query: Query) -> list[Rows]:
        for attempt in range(1, _ATTEMPTS + 1):
            began_before = self._open or bool(self._past)
            conn = await self._connection()
            try:
                await self._do_past(conn)
                rows = await self._execute(conn, query)
            except psycopg.Error as error:
                if isinstance(error, ENDED):
                    await conn.close()  # as the server does next
                lost = query.commit and is_outcome_unknown(error, conn, began_before=began_before)
                if lost and (began_before or self._database.target.writes(query)):
                    raise outcome_unknown(error) from error
                again = is_transient(error, conn, began_before=began_before)
                if not again or attempt == _ATTEMPTS or None in self._past:
                    raise
                await self._start_over(conn)
            else:
                self._past.append((query, rows))
                self._open = not query.commit
                if query.commit:
                    await self._release()
                return rows
        raise AssertionError("unreachable")

    async def _do_past(self, conn: AsyncConnection) -> None:
        """Do again what a transaction did before it was undone."""
        for query, rows in filter(None, () if self._open else self._past):
            if await self._execute(conn, query) != rows:
                self._past = []
                await self._start_over(conn)
                raise changed()

    async def _start_over(self, conn: AsyncConnection) -> None:
        """Undo what may be tried again; replace a dead pool."""
        if conn.closed:
            await self._release()
            await whole(self._database.recover, self._pool)
        else:
            if can_roll_back(conn):
                await conn.rollback()
            self._open = False

    async def _execute(self, conn: AsyncConnection, query: Query) -> list[Rows]:
        if len(query.calls) == 1 and query.commit and not self._open:
            cursor = await self._call(conn.single, query.calls[0])
            return [await rows_of(cursor)]
        async with conn.pipeline():
            try:
                if not query.commit:
                    await self._begin(conn)
                cursors = [
                    await self._call(psycopg.AsyncRawCursor(conn), call) for call in query.calls
                ]
                if query.commit and self._open:
                    await conn.commit()
            except BaseException as error:
                if is_half_sent(error, conn):
                    await conn.close()  # what was sent is undone, what was prepared is in doubt
                raise
        return [await rows_of(cursor) for cursor in cursors]

    async def _begin(self, conn: AsyncConnection) -> None:
        if not self._open:
            await conn.execute("BEGIN")
            self._open = True

    async def _call(
        self, cursor: psycopg.AsyncRawCursor[Any], call: Call
    ) -> psycopg.AsyncRawCursor[Any]:
        text, names, _ = self._database.target.statements[call.name]
        return await cursor.execute(text, [call.params[name] for name in names], binary=True)

    async def _connection(self) -> AsyncConnection:
        for _ in range(_ATTEMPTS):
            if self._conn is not None:
                return self._conn
            if self._database.pool.suspect:
                await whole(self._database.recover, self._database.pool)
            self._conn = await self._take()
            if await self._conn.is_ready(self._database.target.vector_type):
                return self._conn
            await self._release()
        raise psycopg.OperationalError("one connection after the other was lost at once")

    async def _take(self) -> AsyncConnection:
        while True:
            self._pool = self._database.pool
            try:
                return await self._pool.getconn()
            except PoolClosed:
                if self._pool is self._database.pool:
                    raise  # it is the store that was closed, not a pool that was replaced

    async def _release(self) -> None:
        conn, self._conn, self._open, self._past = self._conn, None, False, []
        if conn is not None:
            await whole(self._pool.putconn, conn)


class AsyncDatabase(AsyncConnections):
    """A Postgres database and an embedding model: what a store's flows run on."""

    def __init__(self, target: Target, leave: Callable[[], None] | None = None) -> None:
        """Describe the database; `open` connects. `leave` is called once it is closed."""
        super().__init__(target)
        self._leave = leave
        self.writes = AsyncGroupCommit(self._write)
        self.lookups = AsyncLookups(self.session)  # async only

    @classmethod
    async def opened(cls, host: Host) -> Self:
        """The open database of a host; one on a server of our own is prepared."""
        try:
            target = await asyncio.to_thread(host.start)
        except BaseException:  # a thread that starts a server goes on without a cancelled caller
            await asyncio.to_thread(host.stop)
            raise
        database = cls(target, host.stop)
        try:
            await database.open()
            if host.server is not None:
                await arun(host.prepare(), database.session())
        except BaseException:
            await database.close()
            raise
        return database

    async def close(self) -> None:
        """Close every connection; nothing is left behind."""
        try:
            await self.lookups.drain()  # async only
            await self.writes.drain()  # async only
            await super().close()
        finally:
            if self._leave is not None:
                await asyncio.to_thread(self._leave)

    def session(self, ask: AsyncAsking | None = None) -> AsyncSession:
        """A new unit of work; see `AsyncSession`."""
        return AsyncSession(self, ask)

    async def _write(self, together: Sequence[Together]) -> None:
        flow = together[0].flow([one.item for one in together])
        await arun(flow, self.session())
