"""Sessions, which carry out flows on one connection, and the database that they belong to."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Any, ClassVar, Self, TypeVar

import psycopg
from psycopg_pool import AsyncConnectionPool, ConnectionPool, PoolClosed, PoolTimeout

from langmem_tiers.core.checks import checked_instance
from langmem_tiers.core.concurrency import Work, run_async
from langmem_tiers.core.errors import ConfigurationError, ConflictError, DatabaseError
from langmem_tiers.postgres import errors, flow, walls
from langmem_tiers.postgres.connection import (
    GRACE_SECONDS,
    AsyncConnection,
    Connection,
    in_pipeline,
)
from langmem_tiers.postgres.connection_config import POOL_TIMEOUT_SECONDS, Target
from langmem_tiers.postgres.driver import AWAITED, CallMode, Deadline, drive, run_to_end
from langmem_tiers.postgres.group_commit import GroupCommit, Lookups
from langmem_tiers.postgres.offline_embeddings import THREADS, embed
from langmem_tiers.postgres.sql import Statement
from langmem_tiers.postgres.walls import SentCall

T = TypeVar("T")

_ATTEMPTS = 5
_PLANNING_MS = 1_000
"""The extra milliseconds for a statement that is not planned yet: our own choice."""
_LIMIT_TIME = "limit_time"
_TRY_LOCK = (
    "SELECT pg_try_advisory_xact_lock({0:d}), current_setting('statement_timeout'), "
    "(SELECT count(set_config(s.name, '0', true)) FROM pg_settings s "
    "WHERE s.name IN ('idle_in_transaction_session_timeout', 'transaction_timeout'))"
)
"""Takes the lock of a build, in a transaction that is idle while the build runs. The statement has
no parameters: with parameters Postgres would keep its snapshot, and the build would wait for it."""


class Session:
    """A unit of work on one connection, which it holds only while a query needs it."""

    def __init__(
        self,
        database: Database,
        ask: Callable[[flow.Ask], Any] | None = None,
        deadline: Deadline | None = None,
    ) -> None:
        """Hold the database, without a connection; `ask` carries out an `Ask` for the caller."""
        self._database = database
        self._deadline = deadline or Deadline(database.target.call_seconds)
        self._mode = database.mode
        self._ask = ask or database.mode.ask
        self._pool = database.pool
        self._conn: Any = None
        self._open = False
        self._history: list[tuple[flow.Query, list[flow.Rows]] | None] = []
        """The queries of the open transaction, with their rows; None for a script, which cannot be
        repeated."""

    def end(self, error: BaseException | None, /) -> Work[None]:
        """Commit, or roll back after an error, and return the connection."""
        if self._conn is None:
            return
        if self._conn.is_broken_off or self._deadline.passed:
            self._conn.deadline = Deadline(GRACE_SECONDS)
        try:
            if error is None and self._open:
                yield self._conn.commit()
            elif error is not None and errors.can_roll_back(self._conn):
                yield self._conn.rollback()
        except psycopg.Error as failure:
            if error is None and errors.is_outcome_unknown(failure, self._conn, began_before=True):
                raise errors.outcome_unknown_error(failure) from failure
            if error is None:
                raise errors.translate(failure) from failure
        finally:
            yield from self._release()

    def perform(self, effect: flow.Effect, /) -> Work[Any]:
        """Carry out an effect of a flow and return its answer."""
        if self._open and isinstance(effect, flow.Embed | flow.Ask | flow.Unit):
            raise RuntimeError(
                "a flow asks models, and runs other flows, outside its transaction: no connection "
                "waits for them"
            )
        handler = self._OUTSIDE_TRANSACTION.get(type(effect))
        if handler is not None:
            return (yield from handler(self, effect))
        try:
            if isinstance(effect, flow.Script):
                return (yield from self._run_script(effect))
            if isinstance(effect, flow.BuildIndex):
                return (yield from self._database.build(effect))
            return (
                yield from self._run_query(
                    checked_instance(effect, flow.Query, "what a flow yields")
                )
            )
        except (psycopg.Error, PoolTimeout) as error:
            raise errors.find_interrupt(error) or errors.translate(error, effect) from error

    def _write_together(self, effect: flow.GroupWrite) -> Work[None]:
        return self._database.writes.join(effect, self._deadline)

    def _look_up(self, effect: flow.Lookup) -> Work[flow.Rows]:
        return self._database.look_up(effect, self._deadline)

    def _embed(self, effect: flow.Embed) -> Work[Any]:
        model = self._database.target.embeddings
        if model is None:
            raise ConfigurationError("this store has no embedding model; pass index={'embed': …}")
        return embed(effect, model, self._mode, self._deadline)

    def _extend_deadline(self, effect: flow.ExtendDeadline) -> Work[None]:
        self._deadline = self._deadline.for_items(effect.items)
        if self._conn is not None:
            self._conn.deadline = self._deadline
        yield from ()

    def _call_out(self, effect: flow.Ask | flow.BlockingCall) -> Work[Any]:
        began = monotonic()
        try:
            if isinstance(effect, flow.BlockingCall):
                return (yield self._mode.call_blocking(effect.call))
            return (yield self._ask(effect))
        finally:
            self._deadline.extend(monotonic() - began)

    def _run_unit(self, unit: flow.Unit) -> Work[Any]:
        """Run a flow in a session of its own."""
        try:
            session = Session(self._database, self._ask, self._deadline)
            return (yield from drive(unit.flow, session))
        except BaseException as error:
            if unit.if_broken_off is not None and not isinstance(error, GeneratorExit):
                with suppress(DatabaseError):  # the first error says more
                    yield from drive(unit.if_broken_off, Session(self._database))
            raise

    _OUTSIDE_TRANSACTION: ClassVar[Mapping[type, Callable[[Any, Any], Work[Any]]]] = {
        flow.BlockingCall: _call_out,
        flow.Ask: _call_out,
        flow.Embed: _embed,
        flow.ExtendDeadline: _extend_deadline,
        flow.Lookup: _look_up,
        flow.GroupWrite: _write_together,
        flow.Unit: _run_unit,
    }
    """The effects that are carried out outside a session's transaction, and their methods."""

    def _run_script(self, script: flow.Script) -> Work[None]:
        conn = yield from self._take_connection()
        begins = not self._open
        if begins:
            yield conn.execute("BEGIN")
            self._open = True
        self._history.append(None)
        yield conn.execute(script.text.encode(), prepare=False)
        if begins and conn.is_pooled:  # the settings come second: the script may begin with SET
            (enters,) = walls.with_settings((), conn.settings)
            yield self._send_call(conn.cursor_at(0), enters.call)

    def _run_query(self, query: flow.Query) -> Work[list[flow.Rows]]:
        database = self._database
        # before a connection is taken, so that a caller without the right takes none
        wall, sent = database.wall, self._statements_for(query)
        for attempt in range(1, _ATTEMPTS + 1):
            began_before = self._open or bool(self._history)
            conn = yield from self._take_connection()
            # a new connection may have other rights
            sent = sent if wall is database.wall else self._statements_for(query)
            try:
                if self._history and not self._open:
                    yield from self._replay_history(conn)
                rows = yield from self._execute(conn, query, sent)
            except psycopg.Error as error:
                yield from self._note_connection_state(error, conn)
                lost = query.commit and errors.is_outcome_unknown(
                    error, conn, began_before=began_before
                )
                if lost and (began_before or database.target.changes_rows(query)):
                    raise errors.outcome_unknown_error(error) from error
                again = errors.is_transient(error, conn, began_before=began_before)
                last = attempt == _ATTEMPTS or self._deadline.passed
                if not again or last or None in self._history:
                    raise
                yield from self._start_over(conn)
            else:
                self._history += [] if None in self._history else [(query, rows)]
                self._open = not query.commit
                if query.commit:
                    yield from self._release()
                return rows
        raise AssertionError("unreachable")

    def _statements_for(self, query: flow.Query) -> Sequence[SentCall]:
        return self._database.wall.statements_for(query.calls, self._database.statements)

    def _note_connection_state(self, error: psycopg.Error, conn: Any) -> Work[None]:
        """Mark or close a connection as an error demands."""
        if isinstance(error, errors.PREPARED_ELSEWHERE):  # a pooler changed the session
            conn.treat_as_pooled()
            self._database.is_pooled = self._pool.suspect = True
        if isinstance(error, errors.SESSION_ENDED):
            yield conn.close()  # as the server does next

    def _replay_history(self, conn: Any) -> Work[None]:
        """Repeat the queries of a transaction that was undone; raise if they return other rows."""
        for query, rows in filter(None, self._history):
            if (yield from self._execute(conn, query, self._statements_for(query))) != rows:
                self._history = []
                yield from self._start_over(conn)
                raise ConflictError("what this call had read was changed meanwhile: repeat it")

    def _start_over(self, conn: Any) -> Work[None]:
        """Roll back before another attempt; replace the pool if the connection is dead."""
        if conn.closed:
            yield from self._release()
            yield from self._database.recover(self._pool, self._deadline)
        else:
            if errors.can_roll_back(conn):
                yield conn.rollback()
            self._open = False

    def _execute(
        self, conn: Any, query: flow.Query, sent: Sequence[SentCall]
    ) -> Work[list[flow.Rows]]:
        if conn.is_pooled and not self._open:
            sent = walls.with_settings(sent, conn.settings)
        if len(sent) == 1 and query.commit and not self._open:
            cursors = [(yield self._send_call(conn.cursor_at(0), query.calls[0]))]
        else:
            names = {statement.call.name for statement in sent}
            if _LIMIT_TIME in names and not names <= conn.planned:
                sent = _with_time_to_plan(sent)
            cursors = yield from in_pipeline(conn, self._send(conn, query, sent))
            if _LIMIT_TIME in names and conn.prepare_threshold is not None:
                conn.planned |= names  # without prepared statements each run is planned again
        results: list[flow.Rows] = [[] for _ in query.calls]
        for cursor, (_, place) in zip(cursors, sent, strict=True):
            if place is not None and cursor.pgresult is not None and cursor.pgresult.nfields:
                results[place] += yield cursor.fetchall()
        return results

    def _send(self, conn: Any, query: flow.Query, sent: Sequence[SentCall]) -> Work[list[Any]]:
        """Send a query's statements in one round trip; return their cursors."""
        cursors = []
        try:
            if not (query.commit or self._open):
                yield conn.execute("BEGIN")
                self._open = True
            for place, (call, _) in enumerate(sent):
                cursors.append((yield self._send_call(conn.cursor_at(place), call)))
            if query.commit and self._open:
                yield conn.execute("COMMIT", prepare=False)  # `commit()` waits by itself
        except BaseException as error:
            if errors.is_half_sent(error, conn):
                yield conn.close()  # undoes what was sent; its prepared statements are in doubt
            raise
        return cursors

    def _send_call(self, cursor: Any, call: flow.Call) -> Any:
        text, names, *_ = self._database.statements[call.name]
        return cursor.execute(text, [*map(call.params.__getitem__, names)], binary=True)

    def _take_connection(self) -> Work[Any]:
        """Return the session's connection, taken from the pool if it has none."""
        database, lost = self._database, 0
        while self._conn is None:
            if self._deadline.passed:
                raise self._deadline.timeout_error("its earlier steps took all of them")
            if database.pool.suspect:
                yield from database.recover(database.pool, self._deadline)
            self._pool = database.pool
            try:
                taken = self._pool.getconn(self._deadline.cap(self._pool.timeout))
                # a thread stores the connection at once: a signal at a yield would lose it
                self._conn = (yield taken) if self._mode is AWAITED else taken
            except PoolClosed:
                if self._pool is database.pool:
                    raise  # the store was closed; a replaced pool is another one
                continue
            self._conn.deadline = self._deadline
            if not (yield from self._conn.is_ready(database.target)):
                yield from self._release()
                lost += 1
            if lost == _ATTEMPTS:
                raise psycopg.OperationalError("one connection after another was lost at once")
        return self._conn

    def _release(self) -> Work[None]:
        """Return the connection to its pool, dead or alive."""
        conn, self._conn, self._open, self._history = self._conn, None, False, []
        if conn is None:
            return
        conn.deadline = Deadline(POOL_TIMEOUT_SECONDS)
        if conn.closed:
            self._pool.suspect = True  # its server may be gone
        elif conn.is_broken_off or conn.pgconn.pipeline_status:
            yield conn.close()  # a caller cancelled as it entered a pipeline leaves it open
        returned = self._pool.putconn(conn)
        yield run_to_end(returned) if self._mode is AWAITED else returned


def _with_time_to_plan(sent: Sequence[SentCall]) -> Sequence[SentCall]:
    """Lengthen the time-out of statements that the connection has not planned yet.

    Each connection plans a recall once, which takes the server fifty milliseconds and more. A busy
    server, where a pool grows by several connections at once, takes ten times as long. If the
    time-out cut planning short, the next recall would plan again, and be cut short again.
    """
    longer = []
    for statement in sent:
        call = statement.call
        if call.name == _LIMIT_TIME:
            milliseconds = int(call.params["milliseconds"]) + _PLANNING_MS
            call = call._replace(params={"milliseconds": str(milliseconds)})
        longer.append(statement._replace(call=call))
    return longer


class Database:
    """A Postgres database and an embedding model, on which a store's flows run.

    It has a pool of connections, and replaces the pool when its server was lost.
    """

    def __init__(self, target: Target, mode: CallMode) -> None:
        """Describe the database; `connect` opens it."""
        self.target = target
        self.mode = mode
        self.loop = asyncio.get_running_loop() if mode is AWAITED else None
        self.wall = walls.Wall()
        self.statements: Mapping[str, Statement] = target.statements
        """Every statement by name, in its text for the connecting role."""
        self.is_pooled = False
        """True if an error showed that a pooler stands between."""
        self._lock = threading.Lock()
        self._recovery: Any = None
        """The work that replaces the pool just now, shared by all who wait for it."""
        self.pool = self._new_pool()
        self.writes = GroupCommit(self._commit_writes, mode)
        self._lookups = Lookups(
            lambda lookups, deadline: run_async(self._read_lookups(lookups, deadline))
        )

    @classmethod
    def connect(
        cls, target: Target, mode: CallMode, prepare: Callable[[], flow.Flow[None]]
    ) -> Work[Self]:
        """Open the database of a store; one on an embedded server is prepared.

        It connects once to see that a server answers. The pool is full when this returns: an
        earlier caller would make it grow.

        Raises:
            DatabaseUnavailableError: at once, if no server answers.
            DatabaseError (pool_exhausted): if it does not give the connections of `min_size`.
        """
        try:
            started = yield mode.call_blocking(target.start)
        except BaseException:  # a thread that starts a server goes on without a cancelled caller
            yield mode.call_blocking(target.stop)
            raise
        database = cls(started, mode)
        try:
            yield from database._on_own_connection(database._read_rights)
            limit = Deadline(started.call_seconds).cap(POOL_TIMEOUT_SECONDS)
            yield database.pool.open(wait=True, timeout=limit)
            if target.server is not None:
                yield from drive(prepare(), database.session())
        except BaseException as error:
            yield from database.close()
            if isinstance(error, psycopg.Error):
                raise errors.translate(error) from error
            raise
        return database

    def close(self) -> Work[None]:
        """Close every connection, and end all background work."""
        try:
            if self.mode is AWAITED:
                yield self._lookups.drain()
            yield from self.writes.drain()
            if self._recovery is not None:
                yield self.mode.wait_for_end(self._recovery, POOL_TIMEOUT_SECONDS)
            yield self.pool.close()
            THREADS.end_idle()
        finally:
            yield self.mode.call_blocking(self.target.stop)

    def session(
        self, ask: Callable[[flow.Ask], Any] | None = None, deadline: Deadline | None = None
    ) -> Session:
        """Begin a unit of work; see `Session`."""
        return Session(self, ask, deadline)

    def look_up(self, lookup: flow.Lookup, deadline: Deadline) -> Work[flow.Rows]:
        """Return the rows of one key; tasks share statements, threads do not."""
        if self.mode is AWAITED:
            rows: flow.Rows = yield self._lookups.find(lookup, deadline)
            return rows
        return (yield from self._read_lookups([lookup], deadline))

    def _read_lookups(
        self, lookups: Sequence[flow.Lookup], deadline: Deadline | None
    ) -> Work[flow.Rows]:
        name, params = flow.Lookup.call(lookups)
        return drive(flow.rows_of(name, **params), Session(self, deadline=deadline))

    def _commit_writes(self, together: Sequence[flow.GroupWrite], deadline: Deadline) -> Work[None]:
        writing = together[0].flow([write.item for write in together])
        return drive(writing, self.session(deadline=deadline))

    def recover(self, lost: Any, deadline: Deadline) -> Work[None]:
        """Replace a pool whose server was lost, once the server answers again.

        It does not wait until the new pool is full. One caller replaces it for all, and the work
        goes on if its callers no longer wait.

        Raises:
            psycopg.OperationalError: at once, while no server answers.
            DatabaseError (query_timeout): if it is not known by the deadline.
            DatabaseError (embedded_server): if it is our own and cannot be started again.
        """
        with self._lock:
            if self._recovery is None or self._recovery.done():
                self._recovery = self.mode.begin_work(partial(self._replace_pool, lost))
            recovery = self._recovery
        if not (yield self.mode.wait_for_end(recovery, deadline.left)):
            raise deadline.timeout_error("a server whose connection was lost does not answer")
        recovery.result()

    def _replace_pool(self, lost: Any) -> Work[None]:
        """Replace a pool and close it, unless another caller has.

        If no server answers, the new pool stays closed: the next caller asks the server first.
        """
        if self.pool is not lost:
            return
        lost.suspect = True
        try:
            yield from self._check_server()
        except (psycopg.OperationalError, DatabaseError) as error:
            if isinstance(error, DatabaseError) and error.code != "embedded_server":
                raise
            full = getattr(error, "sqlstate", None) == errors.TOO_MANY_CONNECTIONS
            if not (full or lost.closed):  # closing it wakes those who wait for its connections
                self.pool = self._new_pool()
                self.pool.suspect = True
                yield lost.close()
            raise
        fresh = self._new_pool()
        yield fresh.open()
        self.pool = fresh
        yield lost.close()

    def _check_server(self) -> Work[None]:
        """Connect to see that the server answers; restart an embedded one that does not."""
        try:
            yield from self._on_own_connection(self._read_rights)
        except psycopg.OperationalError:
            if self.target.server is None:
                raise
            yield self.mode.call_blocking(self.target.server.revive)
            yield from self._on_own_connection(self._read_rights)

    def build(self, build: flow.BuildIndex) -> Work[bool]:
        """Build an index while another connection holds the lock; False if that is taken.

        A build can run in no transaction, and a session's lock might stay on a pooler's connection.
        So a second connection's transaction holds the lock, without a snapshot that the build
        would wait for.
        """

        def build_all(conn: Any) -> Work[None]:
            for statement in build.statements:
                yield conn.execute(statement.encode(), prepare=False)

        def hold(conn: Any) -> Work[bool]:
            yield conn.execute("BEGIN ISOLATION LEVEL READ COMMITTED", prepare=False)
            cursor = yield conn.execute(_TRY_LOCK.format(build.lock).encode(), prepare=False)
            ((held, timeout, _),) = yield cursor.fetchall()
            if held:
                hurry = {} if timeout == "0" else self.target.without_statement_timeout()
                yield from self._on_own_connection(build_all, **hurry)
            return bool(held)

        return (yield from self._on_own_connection(hold))

    def _on_own_connection(self, work: Callable[[Any], Work[T]], **options: str) -> Work[T]:
        """Do work on a new connection, and close it afterwards."""
        kind: Any = AsyncConnection if self.mode is AWAITED else Connection
        arguments = {**self.target.connection_options(), **options}
        opened = kind.connect(self.target.conninfo, **arguments)
        # a thread stores the connection at once: a signal at a yield would lose it
        conn = (yield opened) if self.mode is AWAITED else opened
        try:
            return (yield from work(conn))
        finally:
            yield conn.close()

    def _read_rights(self, conn: Any) -> Work[None]:
        """Learn whose rights this store has, and choose its statements by them."""
        conn.deadline = Deadline(POOL_TIMEOUT_SECONDS)
        roles = self.target.options.roles
        cursor = yield conn.execute(walls.ACTING, self.target.acting_params(), prepare=False)
        ((acting, role, closed),) = yield cursor.fetchall()
        if closed is not None:
            raise DatabaseError(
                f"the role {role} may not use the schema {closed}, where pgvector is: have its "
                f"owner run GRANT USAGE ON SCHEMA {closed} TO {role}"
            )
        self.wall = walls.Wall(roles.taken or acting, roles.role_name)
        application = self.wall.acting == "application"
        self.statements = self.target.walled_statements if application else self.target.statements

    def _new_pool(self) -> Any:
        awaited = self.mode is AWAITED
        options = self.target.pool_options()
        options.pop("check", None)  # a pool would wait in vain for one that passes; see `is_ready`
        made: Any = (AsyncConnectionPool if awaited else ConnectionPool)(
            self.target.conninfo,
            connection_class=AsyncConnection if awaited else Connection,
            configure=lambda conn: self.mode.run_work(self._configure(conn)),
            **options,
        )
        made.suspect = False
        return made

    def _configure(self, conn: Any) -> Work[None]:
        conn.deadline = Deadline(POOL_TIMEOUT_SECONDS)
        if self.is_pooled:
            conn.treat_as_pooled()
        yield from conn.set_up_session(self.target)
