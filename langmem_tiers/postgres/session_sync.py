"""Generated from session.py by `make sync`: what blocks. Change that file, not this one."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar, cast

import psycopg
from psycopg_pool import PoolClosed, PoolTimeout

from langmem_tiers.postgres.connection_sync import Connection, Connections, rows_of
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
    Asking,
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
from langmem_tiers.postgres.group_commit_sync import GroupCommit
from langmem_tiers.postgres.target import Host, Target

T = TypeVar("T")
E = TypeVar("E")
E_contra = TypeVar("E_contra", contravariant=True)

_ATTEMPTS = 5
_WAITS = "a flow asks models, and runs others, outside its transaction: no connection waits"


class UnitOfWork(Protocol[E_contra]):
    """What `run` needs: something that commits on a clean exit and else rolls back."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None: ...
    def perform(self, effect: E_contra, /) -> Any:
        """Do what a flow asked for."""


def run(flow: Generator[E, Any, T], session: UnitOfWork[E]) -> T:
    """Drive a flow to its result, blocking on every effect."""
    with session:
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
                    resume, answer = flow.send, session.perform(effect)
                except Exception as error:  # noqa: BLE001 - the flow deals with it, or lets it pass
                    resume, answer = flow.throw, error
        finally:
            flow.close()


class Session:
    """A unit of work on one connection, taken only while a query needs it."""

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
            if self._open:
                raise RuntimeError(_WAITS)
            return self._outside(effect)
        if isinstance(effect, Together):
            return self._database.writes.join(effect)
        if isinstance(effect, Lookup):
            return self.look_up([effect])
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
        (rows,) = self.perform(Query((Lookup.call(lookups),), commit=True))
        return list(rows)

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
            self._database.recover(self._pool)
        else:
            if can_roll_back(conn):
                conn.rollback()
            self._open = False

    def _execute(self, conn: Connection, query: Query) -> list[Rows]:
        if len(query.calls) == 1 and query.commit and not self._open:
            cursor = self._call(conn.single, query.calls[0])
            return [rows_of(cursor)]
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
            if self._database.pool.suspect:
                self._database.recover(self._database.pool)
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
            self._pool.putconn(conn)


class Database(Connections):
    """A Postgres database and an embedding model: what a store's flows run on."""

    def __init__(self, target: Target, leave: Callable[[], None] | None = None) -> None:
        """Describe the database; `open` connects. `leave` is called once it is closed."""
        super().__init__(target)
        self._leave = leave
        self.writes = GroupCommit(self._write)

    @classmethod
    def opened(cls, host: Host) -> Self:
        """The open database of a host; one on a server of our own is prepared."""
        try:
            target = host.start()
        except BaseException:  # a thread that starts a server goes on without a cancelled caller
            host.stop()
            raise
        database = cls(target, host.stop)
        try:
            database.open()
            if host.server is not None:
                run(host.prepare(), database.session())
        except BaseException:
            database.close()
            raise
        return database

    def close(self) -> None:
        """Close every connection; nothing is left behind."""
        try:
            super().close()
        finally:
            if self._leave is not None:
                self._leave()

    def session(self, ask: Asking | None = None) -> Session:
        """A new unit of work; see `Session`."""
        return Session(self, ask)

    def _write(self, together: Sequence[Together]) -> None:
        flow = together[0].flow([one.item for one in together])
        run(flow, self.session())
