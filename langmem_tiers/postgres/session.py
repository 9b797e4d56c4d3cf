"""Sessions: units of work on one connection, which `run` and `arun` drive flows on.

The twins are equal but for `await`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import psycopg
from psycopg_pool import PoolClosed, PoolTimeout

from langmem_tiers.postgres.connection import (
    ENDED,
    AsyncConnection,
    Connection,
    arows_of,
    awhole,
    can_roll_back,
    changed,
    interruption,
    is_half_sent,
    is_outcome_unknown,
    is_transient,
    outcome_unknown,
    rows_of,
    translated,
    whole,
)
from langmem_tiers.postgres.flow import (
    Ask,
    Asking,
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
    arun,
    run,
)

if TYPE_CHECKING:
    from langmem_tiers.postgres.pool import AsyncDatabase, Database

_ATTEMPTS = 5


def _refuse_open(transaction_open: bool) -> None:  # noqa: FBT001 - the one fact it looks at
    if transaction_open:
        raise RuntimeError(
            "a flow asks models, and runs others, outside its transaction: no connection waits"
        )


class Session:
    """A unit of work on a blocking connection, taken only while a query needs it."""

    def __init__(self, database: Database, ask: Asking | None = None) -> None:
        """Hold the database; nothing is opened yet. `ask` asks on the caller's side."""
        self._database = database
        self._ask = ask or Ask.ask
        self._pool = database.pool
        self._conn: Connection | None = None
        self._open = False
        self._past: list[tuple[Query, list[Rows]] | None] = []
        """What the open transaction did; None is what cannot be done again."""

    def __enter__(self) -> Self:
        """Begin; no connection is taken yet."""
        return self

    def __exit__(self, kind: type[BaseException] | None, /, *_: object) -> None:
        """Commit, or roll back after an error, and give the connection back."""
        if self._conn is None:
            return
        try:
            if kind is None and self._open:
                self._conn.commit()
            elif kind is not None and can_roll_back(self._conn):
                self._conn.rollback()
        except psycopg.Error as failure:
            if kind is None and is_outcome_unknown(failure, self._conn, began_before=True):
                raise outcome_unknown(failure) from failure
            if kind is None:
                raise translated(failure) from failure
        finally:
            self._release()

    def perform(self, effect: Effect, /) -> Any:
        """Do what a flow asked for."""
        if isinstance(effect, Embed | Ask | Unit):
            _refuse_open(self._open)
            return self._outside(effect)
        if isinstance(effect, Together):
            return self._database.writes.join(effect)
        if isinstance(effect, Lookup):
            return self._database.lookups.find(effect, self)
        try:
            if isinstance(effect, Script):
                return self._script(effect)
            if isinstance(effect, Build):
                return self._build(effect)
            return self._query(effect)
        except (psycopg.Error, PoolTimeout) as error:
            raise interruption(error) or translated(error, effect) from error

    def _outside(self, effect: Embed | Ask | Unit) -> Any:
        """Do what is done outside of any transaction."""
        if isinstance(effect, Ask):
            return self._ask(effect)
        if isinstance(effect, Unit):
            return run(effect.flow, Session(self._database, self._ask))
        model = self._database.target.embedder()
        if effect.purpose == "documents":
            return model.embed_documents(list(effect.texts))
        return [model.embed_query(text) for text in effect.texts]

    def look_up(self, lookups: Sequence[Lookup]) -> Rows:
        """Read the rows of these keys."""
        return list(self.perform(Query((Lookup.call(lookups),), commit=True))[0])

    def _script(self, script: Script) -> None:
        conn = self._connection()
        self._begin(conn)
        self._past.append(None)
        conn.execute(script.text.encode(), prepare=False)

    def _build(self, build: Build) -> bool:
        conn = self._connection()
        locked = conn.execute("SELECT pg_try_advisory_lock(%s)", (build.lock,))
        if locked.fetchall() != [(True,)]:
            return False
        try:
            with conn.unhurried():
                for statement in build.statements:
                    conn.execute(statement.encode(), prepare=False)
        except BaseException:
            conn.close()  # which also lets go of the lock
            raise
        conn.execute("SELECT pg_advisory_unlock(%s)", (build.lock,))
        return True

    def _query(self, query: Query) -> list[Rows]:
        for attempt in range(1, _ATTEMPTS + 1):
            began_before = self._open or bool(self._past)
            conn = self._connection()
            try:
                self._do_past(conn)
                rows = self._execute(conn, query)
            except psycopg.Error as error:
                if isinstance(error, ENDED):
                    conn.close()  # as the server does next
                lost = query.commit and is_outcome_unknown(error, conn, began_before=began_before)
                if lost and (began_before or self._database.target.writes(query)):
                    raise outcome_unknown(error) from error
                again = is_transient(error, conn, began_before=began_before)
                if not again or attempt == _ATTEMPTS or None in self._past:
                    raise
                self._start_over(conn)
            else:
                self._past.append((query, rows))
                self._open = not query.commit
                if query.commit:
                    self._release()
                return rows
        raise AssertionError("unreachable")

    def _do_past(self, conn: Connection) -> None:
        """Do again what a transaction did before it was undone."""
        for query, rows in filter(None, () if self._open else self._past):
            if self._execute(conn, query) != rows:
                self._past = []
                self._start_over(conn)
                raise changed()

    def _start_over(self, conn: Connection) -> None:
        """Undo what may be tried again; replace a dead pool."""
        if conn.closed:
            self._release()
            whole(self._database.recover, self._pool)
        else:
            if can_roll_back(conn):
                conn.rollback()
            self._open = False

    def _execute(self, conn: Connection, query: Query) -> list[Rows]:
        if len(query.calls) == 1 and query.commit and not self._open:
            return [rows_of(self._call(conn.single, query.calls[0]))]
        with conn.pipeline():
            try:
                if not query.commit:
                    self._begin(conn)
                cursors = [self._call(psycopg.RawCursor(conn), call) for call in query.calls]
                if query.commit and self._open:
                    conn.commit()
            except BaseException as error:
                if is_half_sent(error, conn):
                    conn.close()  # what was sent is undone, what was prepared is in doubt
                raise
        return [rows_of(cursor) for cursor in cursors]

    def _begin(self, conn: Connection) -> None:
        if not self._open:
            conn.execute("BEGIN")
            self._open = True

    def _call(self, cursor: psycopg.RawCursor[Any], call: Call) -> psycopg.RawCursor[Any]:
        text, names, _ = self._database.target.statements[call.name]
        return cursor.execute(text, [call.params[name] for name in names], binary=True)

    def _connection(self) -> Connection:
        for _ in range(_ATTEMPTS):
            if self._conn is not None:
                return self._conn
            if self._database.suspect:
                whole(self._database.recover, self._database.pool)
            self._conn = self._take()
            if self._conn.is_ready(self._database.target.vector_type):
                return self._conn
            self._release()
        raise psycopg.OperationalError("one connection after the other was lost at once")

    def _take(self) -> Connection:
        while True:
            self._pool = self._database.pool
            try:
                return self._pool.getconn()
            except PoolClosed:
                if self._pool is self._database.pool:
                    raise  # it is the store that was closed, not a pool that was replaced

    def _release(self) -> None:
        conn, self._conn, self._open, self._past = self._conn, None, False, []
        if conn is not None:
            whole(self._pool.putconn, conn)


class AsyncSession:
    """The same unit of work on an asynchronous connection."""

    def __init__(self, database: AsyncDatabase, ask: AsyncAsking | None = None) -> None:
        """Hold the database; nothing is opened yet. `ask` asks on the caller's side."""
        self._database = database
        self._ask = ask or Ask.aask
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
            _refuse_open(self._open)
            return await self._outside(effect)
        if isinstance(effect, Together):
            return await self._database.writes.join(effect)
        if isinstance(effect, Lookup):
            return await self._database.lookups.find(effect, self)
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
        return list((await self.perform(Query((Lookup.call(lookups),), commit=True)))[0])

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
            await awhole(self._database.recover, self._pool)
        else:
            if can_roll_back(conn):
                await conn.rollback()
            self._open = False

    async def _execute(self, conn: AsyncConnection, query: Query) -> list[Rows]:
        if len(query.calls) == 1 and query.commit and not self._open:
            return [await arows_of(await self._call(conn.single, query.calls[0]))]
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
        return [await arows_of(cursor) for cursor in cursors]

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
            if self._database.suspect:
                await awhole(self._database.recover, self._database.pool)
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
            await awhole(self._pool.putconn, conn)
