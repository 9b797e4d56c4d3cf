"""Connections to Postgres, and pools of them that outlive their server."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

import psycopg
from psycopg import waiting
from psycopg.pq.abc import PGconn
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from langmem_tiers.core.errors import DatabaseError
from langmem_tiers.core.threads import Work, adone, done
from langmem_tiers.postgres.deadline import Deadline
from langmem_tiers.postgres.errors import translated
from langmem_tiers.postgres.flow import Build
from langmem_tiers.postgres.sql import Statement
from langmem_tiers.postgres.target import OF_CONNECTION, POOL_TIMEOUT_SECONDS, Target
from langmem_tiers.postgres.waiting import Timed
from langmem_tiers.postgres.walls import ACTING, Wall
from langmem_tiers.postgres.wire import arrivals, learn_times, learn_types, learn_vectors
from langmem_tiers.postgres.work import AWAITED, Side

T = TypeVar("T")

_HOLD = (
    "SELECT pg_try_advisory_xact_lock({0:d}), current_setting('statement_timeout'), "
    "(SELECT count(set_config(s.name, '0', true)) FROM pg_settings s "
    "WHERE s.name IN ('idle_in_transaction_session_timeout', 'transaction_timeout'))"
)
"""Takes the lock of a build, in a transaction that stands idle for as long as the build takes. It
has no parameters: with some its snapshot would be kept, and the index wait for that in vain."""
_KEPT = 2
"""The number of cursors that a connection keeps: for its settings, and for one statement."""


class _Kept(Timed):
    """A connection that keeps the cursors for calls of a single statement.

    Making a cursor costs a fifth of what a get does.
    """

    new_cursor: Any
    is_pooled = False
    """True if its next transaction may run in another session."""
    settings: Mapping[str, Any]
    """The settings that its transactions are told first if it is pooled; see `Target.settings`."""
    _knows_vectors = False
    _cursors: tuple[Any, ...] = ()

    def __init__(self, pgconn: PGconn) -> None:
        """Wrap what libpq opened."""
        super().__init__(pgconn)
        self.planned: set[str] = set()
        learn_types(self)
        self._arrivals = arrivals(self)

    def cursor_at(self, place: int) -> Any:
        """Return the cursor for a statement of a round trip."""
        if place >= _KEPT:
            return self.new_cursor(self)
        if not self._cursors:
            self._cursors = tuple(self.new_cursor(self) for _ in range(_KEPT))
        return self._cursors[place]

    def is_ready(self: Any, target: Target) -> Work[bool]:
        """Tell whether it stands, and knows what `learn` asks; False once it is closed.

        A server that goes away says so, or closes the socket: looking takes a microsecond, and
        the server is asked only if something came.
        """
        try:
            if self._arrivals.poll(0):
                yield self.execute("")
            yield from self.learn(target)
        except psycopg.OperationalError:
            if not self.closed:
                raise
        return not self.closed

    def learn(self: Any, target: Target) -> Work[None]:
        """Ask where pgvector is, as long as it is not known; setup may create it later.

        A connection is a pooler's if another process answers than the one that it was told of.
        Others find what is set or prepared there. So each of its transactions is told its
        settings, and prepares nothing.
        """
        if self._knows_vectors:
            return
        vector_type = target.vector.vector_type if target.vector else None
        cursor = yield self.execute(OF_CONNECTION, {"type": vector_type}, prepare=False)
        ((process, timeout, vectors_in, *oids),) = yield cursor.fetchall()
        self.settings = target.settings(timeout, vectors_in)
        if self.is_pooled or process != self.info.backend_pid:
            self.share(target)
        else:
            yield from self._enter(target.statements["enter"])
        self._cursors = ()  # the old ones would use what they learned before
        learned = learn_vectors(self, *oids)
        self._knows_vectors = learned or (vectors_in is not None and vector_type is None)

    def share(self: Any, target: Target | None = None) -> None:
        """Rely no more on what a session keeps."""
        self.is_pooled = True
        learn_times(self)
        if target is None or not target.is_told_to_prepare:
            self.prepare_threshold = None

    def _enter(self: Any, enter: Statement) -> Work[None]:
        """Tell a session of our own, once, the settings that every statement relies on."""
        told = {**self.settings, "local": False, "role": None, "tenant": ""}
        values = [told[name] for name in enter.names]
        yield self.new_cursor(self).execute(enter.text, values, prepare=False)


class Connection(_Kept, psycopg.Connection[Any]):
    """One that blocks."""

    new_cursor = psycopg.RawCursor
    _waits = staticmethod(waiting.wait)

    def wait(self, *given: Any, **options: Any) -> Any:
        """Wait as the driver does, until the deadline."""
        return done(self.waited(*given, **options))


class AsyncConnection(_Kept, psycopg.AsyncConnection[Any]):
    """One that is awaited."""

    new_cursor = psycopg.AsyncRawCursor
    _waits = staticmethod(waiting.wait_async)

    async def wait(self, *given: Any, **options: Any) -> Any:
        """Wait as the driver does, until the deadline."""
        return await adone(self.waited(*given, **options))


class Connections:
    """The connections to a database: a pool, and another one once its server was gone."""

    def __init__(self, target: Target, side: Side) -> None:
        """Describe the database; `open` connects."""
        self.target = target
        self.side = side
        self.wall = Wall()
        self.is_pooled = False
        """True if an error told that a pooler stands between."""
        self._lock = threading.Lock()
        self._recovery: Any = None
        """The work that replaces the pool just now, for all who wait for it."""
        self.pool = self._new_pool()

    @property
    def statements(self) -> Mapping[str, Statement]:
        """Every statement, as it reads for whoever connects."""
        return self.target.walled if self.wall.acting == "application" else self.target.statements

    def open(self) -> Work[None]:
        """Connect once to see that a server answers, then open the pool.

        It is full when this returns: a caller who comes before that would let it grow.

        Raises:
            DatabaseUnavailableError: at once, if no server answers.
            PoolExhaustedError: if it does not give the connections of `min_size`.
        """
        try:
            yield from self._probe()
            limit = Deadline(self.target.call_seconds).within(POOL_TIMEOUT_SECONDS)
            yield self.pool.open(wait=True, timeout=limit)
        except psycopg.Error as error:
            raise translated(error) from error

    def close(self) -> Work[None]:
        """Close every connection; nothing is left behind."""
        if self._recovery is not None:
            yield self.side.ended(self._recovery, POOL_TIMEOUT_SECONDS)
        yield self.pool.close()

    def recover(self, lost: Any, deadline: Deadline) -> Work[None]:
        """Replace a pool whose server went away, once the server answers again.

        It does not wait for the new pool, which fills while its first callers come. One caller
        replaces it for all, and the work goes on without those who wait no longer.

        Raises:
            psycopg.OperationalError: at once, while no server answers.
            QueryTimeoutError: if it is not known by the deadline.
            EmbeddedServerError: if it is our own and cannot be started again.
        """
        with self._lock:
            if self._recovery is None or self._recovery.done():
                self._recovery = self.side.begin(partial(self._recovered, lost))
            recovery = self._recovery
        if not (yield self.side.ended(recovery, deadline.left)):
            raise deadline.late("a server whose connection was lost does not answer")
        recovery.result()

    def share(self, conn: Any, pool: Any) -> None:
        """Rely on no session from now on: something prepared in one was not there."""
        conn.share()
        self.is_pooled = pool.suspect = True

    def give_back(self, conn: Any, pool: Any) -> Work[None]:
        """Return a connection to its pool, dead or alive."""
        conn.deadline = Deadline(POOL_TIMEOUT_SECONDS)
        if conn.closed:
            pool.suspect = True  # its server may be gone
        elif conn.cut:
            yield conn.close()
        elif conn.pgconn.pipeline_status:
            yield conn.close()  # who was cancelled as it entered a pipeline left it so
        yield self.side.whole(pool.putconn(conn))

    def _recovered(self, lost: Any) -> Work[None]:
        """Replace a pool and close it, unless somebody else has."""
        if self.pool is not lost:
            return
        lost.suspect = True
        yield from self._reach()
        fresh = self._new_pool()
        yield fresh.open()
        self.pool = fresh
        yield lost.close()

    def _configure(self, conn: Any) -> Work[None]:
        conn.deadline = Deadline(POOL_TIMEOUT_SECONDS)
        if self.is_pooled:
            conn.share()
        yield from conn.learn(self.target)

    def _checked(self, check: Callable[[Any], Any], conn: Any) -> Any:
        """Check a connection that has rested, within a time of its own."""
        conn.deadline = Deadline(Deadline(self.target.call_seconds).within(POOL_TIMEOUT_SECONDS))
        return check(conn)

    def _reach(self) -> Work[None]:
        """See that the server answers; one of our own is started again if it does not."""
        try:
            yield from self._probe()
        except psycopg.OperationalError:
            if self.target.server is None:
                raise
            yield self.side.aside(self.target.server.revive)
            yield from self._probe()

    def alone(self, work: Callable[[Any], Work[T]], **options: str) -> Work[T]:
        """Do work on a connection of its own, which is closed after it."""
        kind: Any = AsyncConnection if self.side is AWAITED else Connection
        given = {**self.target.connection_options(), **options}
        opened = kind.connect(self.target.conninfo, **given)
        # what a thread has, it holds at once: a signal as it yields would lose it
        conn = (yield opened) if self.side is AWAITED else opened
        try:
            return (yield from work(conn))
        finally:
            yield conn.close()

    def build(self, build: Build) -> Work[bool]:
        """Build while another connection's transaction holds the lock; False if somebody holds it.

        A build can be in no transaction, and a lock of its session might stay on a pooler's
        connection. The holder keeps no snapshot that an index would have to wait for.
        """

        def build_all(conn: Any) -> Work[None]:
            for statement in build.statements:
                yield conn.execute(statement.encode(), prepare=False)

        def hold(conn: Any) -> Work[bool]:
            yield conn.execute("BEGIN ISOLATION LEVEL READ COMMITTED", prepare=False)
            cursor = yield conn.execute(_HOLD.format(build.lock).encode(), prepare=False)
            ((held, timeout, _),) = yield cursor.fetchall()
            if held:
                hurry = {} if timeout == "0" else self.target.unhurried()
                yield from self.alone(build_all, **hurry)
            return bool(held)

        return (yield from self.alone(hold))

    def _probe(self) -> Work[None]:
        yield from self.alone(self._acts)

    def _acts(self, conn: Any) -> Work[None]:
        conn.deadline = Deadline(POOL_TIMEOUT_SECONDS)
        roles = self.target.options.roles
        cursor = yield conn.execute(ACTING, self.target.acting(), prepare=False)
        ((acting, role, closed),) = yield cursor.fetchall()
        if closed is not None:
            raise DatabaseError(
                f"the role {role} may not use the schema {closed}, where pgvector is: have its "
                f"owner run GRANT USAGE ON SCHEMA {closed} TO {role}"
            )
        self.wall = Wall(roles.taken or acting, roles.name_taken)

    def _new_pool(self) -> Any:
        awaited = self.side is AWAITED
        options = self.target.pool_options()
        if (check := options.get("check")) is not None:
            options = {**options, "check": partial(self._checked, check)}
        made: Any = (AsyncConnectionPool if awaited else ConnectionPool)(
            self.target.conninfo,
            connection_class=AsyncConnection if awaited else Connection,
            configure=lambda conn: self.side.do(self._configure(conn)),
            **options,
        )
        made.suspect = False
        return made
