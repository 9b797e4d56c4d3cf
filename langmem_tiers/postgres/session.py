"""Sessions: units of work on one connection, on which flows are driven, and databases of them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import CancelledError
from functools import partial
from typing import Any, Protocol, Self, TypeVar, cast

import psycopg
from langchain_core.embeddings import Embeddings
from psycopg_pool import PoolClosed, PoolTimeout

from langmem_tiers.core.checks import checked_kind
from langmem_tiers.core.errors import (
    EmbeddingFailedError,
    TieredMemoryError,
    masked,
    worded,
)
from langmem_tiers.core.reading import shortened
from langmem_tiers.core.threads import Work, adone, done
from langmem_tiers.postgres.connection import Connections
from langmem_tiers.postgres.errors import (
    ENDED,
    UNPREPARED,
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
    Aside,
    Ask,
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
from langmem_tiers.postgres.group_commit import GroupCommit
from langmem_tiers.postgres.lookups import Lookups
from langmem_tiers.postgres.target import Host, Target
from langmem_tiers.postgres.walls import Sent, entered
from langmem_tiers.postgres.work import AWAITED, Side, within

T = TypeVar("T")
E = TypeVar("E")
E_contra = TypeVar("E_contra", contravariant=True)

_ATTEMPTS = 5
_LONGEST_ERROR = 400
"""Characters of a model's error that are told: our own choice."""
_WAITS = "a flow asks models, and runs others, outside its transaction: no connection waits"


class UnitOfWork(Protocol[E_contra]):
    """What a flow is driven on."""

    def perform(self, effect: E_contra, /) -> Work[Any]:
        """Do what a flow asked for."""
        ...

    def end(self, error: BaseException | None, /) -> Work[None]:
        """Commit, or roll back after an error."""
        ...


def run(flow: Generator[E, Any, T], session: UnitOfWork[E]) -> T:
    """Drive a flow to its result, blocking."""
    return done(driven(flow, session))


async def arun(flow: Generator[E, Any, T], session: UnitOfWork[E]) -> T:
    """Drive a flow to its result, awaiting every effect."""
    return await adone(driven(flow, session))


def driven(flow: Generator[E, Any, T], session: UnitOfWork[E]) -> Work[T]:
    """What a flow comes to: its effects, one after another, and the end of its session."""
    try:
        result = yield from _performed(flow, session)
    except BaseException as error:
        yield from session.end(error)
        raise
    yield from session.end(None)
    return result


def _performed(flow: Generator[E, Any, T], session: UnitOfWork[E]) -> Work[T]:
    resume: Callable[[Any], E] = flow.send
    answer: Any = None
    try:
        while True:
            try:
                effect = resume(answer)
            except StopIteration as end:
                return cast("T", end.value)
            finally:
                answer = None  # an error kept here would keep this frame in turn
            try:
                resume, answer = flow.send, (yield from session.perform(effect))
            except Exception as error:  # noqa: BLE001 - the flow deals with it, or lets it pass
                resume, answer = flow.throw, error
    finally:
        flow.close()


class Session:
    """A unit of work on one connection, taken only while a query needs it."""

    def __init__(self, database: Database, ask: Callable[[Ask], Any] | None = None) -> None:
        """Hold the database; nothing is opened yet. `ask` asks on the caller's side."""
        self._database = database
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
        try:
            if error is None and self._open:
                yield self._conn.commit()
            elif error is not None and can_roll_back(self._conn):
                yield self._conn.rollback()
        except psycopg.Error as failure:
            if error is None and is_outcome_unknown(failure, self._conn, began_before=True):
                raise outcome_unknown(failure) from failure
            if error is None:
                raise translated(failure) from failure
        finally:
            yield from self._release()

    def perform(self, effect: Effect, /) -> Work[Any]:
        """Do what a flow asked for."""
        if isinstance(effect, Embed | Ask | Aside | Unit):
            if self._open and not isinstance(effect, Aside):
                raise RuntimeError(_WAITS)
            return (yield from self._outside(effect))
        if isinstance(effect, Together):
            return (yield from self._database.writes.join(effect))
        if isinstance(effect, Lookup):
            return (yield from self._database.look_up(effect))
        try:
            if isinstance(effect, Script):
                return (yield from self._script(effect))
            if isinstance(effect, Build):
                return (yield from self._database.build(effect))
            return (yield from self._query(checked_kind(effect, Query, "what a flow yields")))
        except (psycopg.Error, PoolTimeout) as error:
            raise interruption(error) or translated(error, effect) from error

    def _outside(self, effect: Embed | Ask | Aside | Unit) -> Work[Any]:
        """Do what is done outside of any transaction, or beside it."""
        if isinstance(effect, Aside):
            return (yield self._side.aside(effect.call))
        if isinstance(effect, Ask):
            return (yield self._ask(effect))
        if isinstance(effect, Unit):
            return (yield from driven(effect.flow, Session(self._database, self._ask)))
        model = self._database.target.embedder()
        try:
            return (yield from self._vectors(effect, model))
        except (TieredMemoryError, CancelledError):
            raise
        except Exception as error:  # a user's model can raise anything; it is the cause of ours
            said = shortened(masked(worded(error)), _LONGEST_ERROR)
            raise EmbeddingFailedError(said) from error

    def _vectors(self, effect: Embed, model: Embeddings) -> Work[Any]:
        ask = self._side.ask
        if effect.purpose == "documents":
            texts = list(effect.texts)
            embed, aembed = model.embed_documents, model.aembed_documents
            return (yield ask(Ask(partial(embed, texts), partial(aembed, texts))))
        vectors = []
        for text in effect.texts:
            asked = Ask(partial(model.embed_query, text), partial(model.aembed_query, text))
            vectors.append((yield ask(asked)))
        return vectors

    def _script(self, script: Script) -> Work[None]:
        conn = yield from self._connection()
        begins = not self._open
        yield from self._begin(conn)
        self._past.append(None)
        yield conn.execute(script.text.encode(), prepare=False)
        if begins and conn.is_pooled:  # after what may say how the transaction is to be
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
                lost = query.commit and is_outcome_unknown(error, conn, began_before=began_before)
                if lost and (began_before or self._database.target.writes(query)):
                    raise outcome_unknown(error) from error
                again = is_transient(error, conn, began_before=began_before)
                if not again or attempt == _ATTEMPTS or None in self._past:
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
        """Do what an error says of its connection."""
        if isinstance(error, UNPREPARED):
            self._database.share(conn, self._pool)
        if isinstance(error, ENDED):
            yield conn.close()  # as the server does next

    def _do_past(self, conn: Any) -> Work[None]:
        """Do again what a transaction did before it was undone."""
        for query, rows in filter(None, () if self._open else self._past):
            sent = self._database.behind_the_wall(query)
            if (yield from self._execute(conn, query, sent)) != rows:
                self._past = []
                yield from self._start_over(conn)
                raise changed()

    def _start_over(self, conn: Any) -> Work[None]:
        """Undo what may be tried again; replace a dead pool."""
        if conn.closed:
            yield from self._release()
            yield from self._database.recover(self._pool)
        else:
            if can_roll_back(conn):
                yield conn.rollback()
            self._open = False

    def _execute(self, conn: Any, query: Query, sent: Sequence[Sent]) -> Work[list[Rows]]:
        if conn.is_pooled and not self._open:
            sent = entered(sent, conn.settings)
        if len(sent) == 1 and query.commit and not self._open:
            cursors = [(yield from self._call(conn.cursor_at(0), query.calls[0]))]
        else:
            cursors = yield from within(conn.pipeline(), self._sent(conn, query, sent))
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
            if is_half_sent(error, conn):
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
            if self._database.pool.suspect:
                yield from self._database.recover(self._database.pool)
            conn = yield from self._take()
            if (yield from conn.is_ready(self._database.target)):
                return conn
            yield from self._release()
        raise psycopg.OperationalError("one connection after the other was lost at once")

    def _take(self) -> Work[Any]:
        while self._conn is None:
            self._pool = self._database.pool
            try:
                taken = self._pool.getconn()
                # what a thread has, it holds at once: a signal as it yields would lose it
                self._conn = (yield taken) if self._side is AWAITED else taken
            except PoolClosed:
                if self._pool is self._database.pool:
                    raise  # it is the store that was closed, not a pool that was replaced
        return self._conn

    def _release(self) -> Work[None]:
        conn, self._conn, self._open, self._past = self._conn, None, False, []
        if conn is not None:
            yield from self._database.give_back(conn, self._pool)


class Database(Connections):
    """A Postgres database and an embedding model: what a store's flows run on."""

    def __init__(self, target: Target, side: Side, leave: Callable[[], None] | None = None) -> None:
        """Describe the database; `open` connects. `leave` is called once it is closed."""
        super().__init__(target, side)
        self._leave = leave
        self.writes = GroupCommit(self._write, side)
        self._lookups = Lookups(lambda lookups: adone(self._read(lookups)))

    @classmethod
    def opened(cls, host: Host, side: Side) -> Work[Self]:
        """The open database of a host; one on a server of our own is prepared."""
        try:
            target = yield side.aside(host.start)
        except BaseException:  # a thread that starts a server goes on without a cancelled caller
            yield side.aside(host.stop)
            raise
        database = cls(target, side, host.stop)
        try:
            yield from database.open()
            if host.server is not None:
                yield from driven(host.prepare(), database.session())
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
        finally:
            if self._leave is not None:
                yield self.side.aside(self._leave)

    def session(self, ask: Callable[[Ask], Any] | None = None) -> Session:
        """A new unit of work; see `Session`."""
        return Session(self, ask)

    def behind_the_wall(self, query: Query) -> Sequence[Sent]:
        """What is sent for a query; see `Wall`."""
        return self.wall.behind(query.calls, self.statements)

    def look_up(self, lookup: Lookup) -> Work[Rows]:
        """The rows of one key; tasks share statements, threads need not."""
        if self.side is AWAITED:
            found: Rows = yield self._lookups.find(lookup)
            return found
        return (yield from self._read([lookup]))

    def _read(self, lookups: Sequence[Lookup]) -> Work[Rows]:
        query = Query((Lookup.call(lookups),), commit=True)
        session = Session(self)
        try:
            (rows,) = yield from session.perform(query)
        except BaseException as error:
            yield from session.end(error)
            raise
        return list(rows)

    def _write(self, together: Sequence[Together]) -> Work[None]:
        flow = together[0].flow([one.item for one in together])
        yield from driven(flow, self.session())
