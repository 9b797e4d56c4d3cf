"""Sessions: units of work on one connection, on which flows are driven, and databases of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from time import monotonic
from typing import Any, Self

import psycopg
from psycopg_pool import PoolClosed, PoolTimeout

from langmem_tiers.core.checks import checked_kind
from langmem_tiers.core.errors import DatabaseError
from langmem_tiers.core.threads import Work, adone
from langmem_tiers.postgres import errors
from langmem_tiers.postgres.asking import THREADS, vectors
from langmem_tiers.postgres.connection import Connections
from langmem_tiers.postgres.deadline import Deadline
from langmem_tiers.postgres.driving import driven
from langmem_tiers.postgres.flow import (
    Aside,
    Ask,
    Build,
    Call,
    Effect,
    Embed,
    Flow,
    Lasts,
    Lookup,
    Query,
    Rows,
    Script,
    Together,
    Unit,
)
from langmem_tiers.postgres.group_commit import GroupCommit
from langmem_tiers.postgres.lookups import Lookups
from langmem_tiers.postgres.target import Target
from langmem_tiers.postgres.waiting import GRACE_SECONDS, in_pipeline
from langmem_tiers.postgres.walls import Sent, entered
from langmem_tiers.postgres.work import AWAITED, Side

_ATTEMPTS = 5
_WAITS = "a flow asks models, and runs others, outside its transaction: no connection waits"
_PLANNING_MS = 1_000
"""The milliseconds more for a statement that is yet to be planned: our own choice."""
_LIMIT = "limit_time"
_BESIDE = (Together, Lookup, Lasts)
_OUTSIDE = (Embed, Ask, Aside, Unit)


class Session:
    """A unit of work on one connection, taken only while a query needs it."""

    def __init__(
        self,
        database: Database,
        ask: Callable[[Ask], Any] | None = None,
        deadline: Deadline | None = None,
    ) -> None:
        """Hold the database; nothing is opened yet. `ask` asks on the caller's side."""
        self._database = database
        self._deadline = deadline or Deadline(database.target.call_seconds)
        self._side = database.side
        self._ask = ask or database.side.ask
        self._pool = database.pool
        self._conn: Any = None
        self._open = False
        self._past: list[tuple[Query, list[Rows]] | None] = []
        """What the open transaction did; None is what cannot be done again."""

    def end(self, error: BaseException | None, /) -> Work[None]:
        """Commit, or roll back after an error, and give the connection back."""
        if self._conn is None:
            return
        if self._conn.cut or self._deadline.passed:
            self._conn.deadline = Deadline(GRACE_SECONDS)
        try:
            if error is None and self._open:
                yield self._conn.commit()
            elif error is not None and errors.can_roll_back(self._conn):
                yield self._conn.rollback()
        except psycopg.Error as failure:
            if error is None and errors.is_outcome_unknown(failure, self._conn, began_before=True):
                raise errors.outcome_unknown(failure) from failure
            if error is None:
                raise errors.translated(failure) from failure
        finally:
            yield from self._release()

    def perform(self, effect: Effect, /) -> Work[Any]:
        """Do what a flow asked for."""
        if isinstance(effect, _BESIDE):
            return (yield from self._beside(effect))
        if isinstance(effect, _OUTSIDE):
            if self._open and not isinstance(effect, Aside):
                raise RuntimeError(_WAITS)
            return (yield from self._outside(effect))
        try:
            if isinstance(effect, Script):
                return (yield from self._script(effect))
            if isinstance(effect, Build):
                return (yield from self._database.build(effect))
            return (yield from self._query(checked_kind(effect, Query, "what a flow yields")))
        except (psycopg.Error, PoolTimeout) as error:
            raise errors.interruption(error) or errors.translated(error, effect) from error

    def _beside(self, effect: Together | Lookup | Lasts) -> Work[Any]:
        """Do work that goes with others', or set the deadline."""
        if isinstance(effect, Together):
            return (yield from self._database.writes.join(effect, self._deadline))
        if isinstance(effect, Lookup):
            return (yield from self._database.look_up(effect, self._deadline))
        self._deadline = self._deadline.of(effect.items)
        if self._conn is not None:
            self._conn.deadline = self._deadline
        return None

    def _outside(self, effect: Embed | Ask | Aside | Unit) -> Work[Any]:
        """Do what is done outside of any transaction, or beside it."""
        if isinstance(effect, Embed):
            model = self._database.target.embedder()
            return (yield from vectors(effect, model, self._side, self._deadline))
        if isinstance(effect, Unit):
            return (yield from self._unit(effect))
        began = monotonic()
        try:
            if isinstance(effect, Aside):
                return (yield self._side.aside(effect.call))
            return (yield self._ask(effect))
        finally:
            self._deadline.stood(monotonic() - began)

    def _unit(self, unit: Unit) -> Work[Any]:
        """Run a flow in a session of its own."""
        try:
            session = Session(self._database, self._ask, self._deadline)
            return (yield from driven(unit.flow, session))
        except BaseException as error:
            if unit.if_broken_off is not None and not isinstance(error, GeneratorExit):
                with suppress(DatabaseError):  # the first error tells more
                    yield from driven(unit.if_broken_off, Session(self._database))
            raise

    def _script(self, script: Script) -> Work[None]:
        conn = yield from self._connection()
        begins = not self._open
        yield from self._begin(conn)
        self._past.append(None)
        yield conn.execute(script.text.encode(), prepare=False)
        if begins and conn.is_pooled:  # the script may say how the transaction is to be
            (enters,) = entered((), conn.settings)
            yield from self._call(conn.cursor_at(0), enters.call)

    def _query(self, query: Query) -> Work[list[Rows]]:
        sent = self._database.behind_the_wall(query)  # who may not ask takes no connection
        for attempt in range(1, _ATTEMPTS + 1):
            began_before = self._open or bool(self._past)
            conn = yield from self._connection()
            try:
                yield from self._do_past(conn)
                rows = yield from self._execute(conn, query, sent)
            except psycopg.Error as error:
                yield from self._heed(error, conn)
                lost = query.commit and errors.is_outcome_unknown(
                    error, conn, began_before=began_before
                )
                if lost and (began_before or self._database.target.writes(query)):
                    raise errors.outcome_unknown(error) from error
                again = errors.is_transient(error, conn, began_before=began_before)
                last = attempt == _ATTEMPTS or self._deadline.passed
                if not again or last or None in self._past:
                    raise
                yield from self._start_over(conn)
            else:
                self._past += [] if None in self._past else [(query, rows)]
                self._open = not query.commit
                if query.commit:
                    yield from self._release()
                return rows
        raise AssertionError("unreachable")

    def _heed(self, error: psycopg.Error, conn: Any) -> Work[None]:
        """Act on what an error says of its connection."""
        if isinstance(error, errors.UNPREPARED):
            self._database.share(conn, self._pool)
        if isinstance(error, errors.ENDED):
            yield conn.close()  # as the server does next

    def _do_past(self, conn: Any) -> Work[None]:
        """Do again what a transaction did before it was undone."""
        for query, rows in filter(None, () if self._open else self._past):
            sent = self._database.behind_the_wall(query)
            if (yield from self._execute(conn, query, sent)) != rows:
                self._past = []
                yield from self._start_over(conn)
                raise errors.changed()

    def _start_over(self, conn: Any) -> Work[None]:
        """Undo what may be tried again; replace a dead pool."""
        if conn.closed:
            yield from self._release()
            yield from self._database.recover(self._pool, self._deadline)
        else:
            if errors.can_roll_back(conn):
                yield conn.rollback()
            self._open = False

    def _execute(self, conn: Any, query: Query, sent: Sequence[Sent]) -> Work[list[Rows]]:
        if conn.is_pooled and not self._open:
            sent = entered(sent, conn.settings)
        if len(sent) == 1 and query.commit and not self._open:
            cursors = [(yield from self._call(conn.cursor_at(0), query.calls[0]))]
        else:
            timed = _with_planning(sent, conn)
            cursors = yield from in_pipeline(conn, self._sent(conn, query, timed))
            _note_planned(sent, conn)
        found: list[Rows] = [[] for _ in query.calls]
        for cursor, (_, place) in zip(cursors, sent, strict=True):
            if place is not None and cursor.pgresult is not None and cursor.pgresult.nfields:
                found[place] += yield cursor.fetchall()
        return found

    def _sent(self, conn: Any, query: Query, sent: Sequence[Sent]) -> Work[list[Any]]:
        """Send a query's statements, to be answered together."""
        try:
            if not query.commit:
                yield from self._begin(conn)
            cursors = []
            for place, (call, _) in enumerate(sent):
                cursor = yield from self._call(conn.cursor_at(place), call)
                cursors.append(cursor)
            if query.commit and self._open:
                yield conn.execute("COMMIT", prepare=False)  # `commit()` waits by itself
        except BaseException as error:
            if errors.is_half_sent(error, conn):
                yield conn.close()  # what was sent is undone, what was prepared is in doubt
            raise
        return cursors

    def _begin(self, conn: Any) -> Work[None]:
        if not self._open:
            yield conn.execute("BEGIN")
            self._open = True

    def _call(self, cursor: Any, call: Call) -> Work[Any]:
        text, names, *_ = self._database.statements[call.name]
        return (yield cursor.execute(text, [call.params[name] for name in names], binary=True))

    def _connection(self) -> Work[Any]:
        for _ in range(_ATTEMPTS):
            if self._conn is not None:
                return self._conn
            if self._deadline.passed:
                raise self._deadline.late("what it asked for before took all of them")
            if self._database.pool.suspect:
                yield from self._database.recover(self._database.pool, self._deadline)
            conn = yield from self._take()
            if (yield from conn.is_ready(self._database.target)):
                return conn
            yield from self._release()
        raise psycopg.OperationalError("one connection after the other was lost at once")

    def _take(self) -> Work[Any]:
        while self._conn is None:
            self._pool = self._database.pool
            try:
                taken = self._pool.getconn(self._deadline.within(self._pool.timeout))
                # what a thread has, it holds at once: a signal as it yields would lose it
                self._conn = (yield taken) if self._side is AWAITED else taken
            except PoolClosed:
                if self._pool is self._database.pool:
                    raise  # it is the store that was closed, not a pool that was replaced
        self._conn.deadline = self._deadline
        return self._conn

    def _release(self) -> Work[None]:
        conn, self._conn, self._open, self._past = self._conn, None, False, []
        if conn is not None:
            yield from self._database.give_back(conn, self._pool)


def _with_planning(sent: Sequence[Sent], conn: Any) -> Sequence[Sent]:
    """Lengthen the time-out of what is sent where planning is still to be done.

    Each connection plans a recall once, which takes the server fifty milliseconds and more. A busy
    server, where a pool grows by several connections at once, takes ten times as long. If planning
    were broken off, the next recall would plan anew, and be broken off again.
    """
    names = {one.call.name for one in sent}
    if _LIMIT not in names or names <= conn.planned:
        return sent
    return [
        one._replace(call=_longer(one.call)) if one.call.name == _LIMIT else one for one in sent
    ]


def _note_planned(sent: Sequence[Sent], conn: Any) -> None:
    """Note the statements that were planned, once they have been answered.

    A connection that prepares nothing plans each anew.
    """
    if conn.prepare_threshold is not None and any(one.call.name == _LIMIT for one in sent):
        conn.planned |= {one.call.name for one in sent}


def _longer(limit: Call) -> Call:
    milliseconds = int(limit.params["milliseconds"]) + _PLANNING_MS
    return limit._replace(params={"milliseconds": str(milliseconds)})


class Database(Connections):
    """A Postgres database and an embedding model: what a store's flows run on."""

    def __init__(self, target: Target, side: Side) -> None:
        """Describe the database; `open` connects."""
        super().__init__(target, side)
        self.writes = GroupCommit(self._write, side)
        self._lookups = Lookups(lambda lookups, deadline: adone(self._read(lookups, deadline)))

    @classmethod
    def opened(cls, target: Target, side: Side, prepare: Callable[[], Flow[None]]) -> Work[Self]:
        """The open database of a store; one on a server of our own is prepared."""
        try:
            started = yield side.aside(target.started)
        except BaseException:  # a thread that starts a server goes on without a cancelled caller
            yield side.aside(target.stop)
            raise
        database = cls(started, side)
        try:
            yield from database.open()
            if target.server is not None:
                yield from driven(prepare(), database.session())
        except BaseException:
            yield from database.close()
            raise
        return database

    def close(self) -> Work[None]:
        """Close every connection; nothing is left behind."""
        try:
            if self.side is AWAITED:
                yield self._lookups.drain()
            yield from self.writes.drain()
            yield from super().close()
            THREADS.end_idle()
        finally:
            yield self.side.aside(self.target.stop)

    def session(
        self, ask: Callable[[Ask], Any] | None = None, deadline: Deadline | None = None
    ) -> Session:
        """Begin a unit of work; see `Session`."""
        return Session(self, ask, deadline)

    def behind_the_wall(self, query: Query) -> Sequence[Sent]:
        """What is sent for a query; see `Wall`."""
        return self.wall.behind(query.calls, self.statements)

    def look_up(self, lookup: Lookup, deadline: Deadline) -> Work[Rows]:
        """The rows of one key; tasks share statements, threads need not."""
        if self.side is AWAITED:
            found: Rows = yield self._lookups.find(lookup, deadline)
            return found
        return (yield from self._read([lookup], deadline))

    def _read(self, lookups: Sequence[Lookup], deadline: Deadline | None) -> Work[Rows]:
        query = Query((Lookup.call(lookups),), commit=True)
        session = Session(self, deadline=deadline)
        try:
            (rows,) = yield from session.perform(query)
        except BaseException as error:
            yield from session.end(error)
            raise
        return list(rows)

    def _write(self, together: Sequence[Together], deadline: Deadline) -> Work[None]:
        flow = together[0].flow([one.item for one in together])
        yield from driven(flow, self.session(deadline=deadline))
