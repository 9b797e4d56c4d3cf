"""Group commit for writes, and on an event loop shared statements for lookups.

A write that finds another one under way waits for it. Then all waiting writes go as one group, in
one transaction. A single writer notices nothing; sixteen share the wait for the disk. The rules:

- the member that has waited longest leads the next group, of all that wait by then;
- if a group fails, each member is written again alone, and gets its own error; but if no server
  answers, or the outcome of the group is unknown, all members get that error;
- a caller that is cancelled or interrupted does not stop a group that has begun, and joins no later
  group;
- a write that waits for a lock keeps no other from the disk: a group has a fourth of a call's time.
  If that is too little, its members are written alone, all at once. So is a write that has waited
  as long for its turn.

Sixteen tasks that read one memory each would take sixteen round trips of Python's time. A lookup
that finds another one under way waits, and then all waiting lookups share one statement. A single
caller notices nothing. A lookup that has waited a fourth of its time reads alone: the statement
before it may be on a connection that does not answer.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from langmem_tiers.core import errors
from langmem_tiers.core.concurrency import Work, run_async
from langmem_tiers.postgres.driver import AWAITED, CallMode, Deadline
from langmem_tiers.postgres.flow import GroupWrite, Lookup, Rows

MAX_MEMBERS = 256
"""Writes in one transaction; more would only lengthen its locks."""

SHORT_OF_TIME: tuple[errors.ErrorCode, ...] = ("query_timeout", "pool_exhausted")
"""Errors of a group that a member alone may escape, as it has more time than the group."""

ANSWER_SECONDS = 5.0
"""The time after its deadline for which a caller waits for the outcome of its group."""


@dataclass(slots=True, eq=False)
class _Member:
    write: GroupWrite
    wake: Any
    """The event that wakes it: it has ended, or leads a group, or is written alone."""
    deadline: Deadline
    in_task: bool = False
    """True if a task of its own runs the group that it leads."""
    in_group: bool = False
    ended: bool = False
    alone: bool = False
    """True if its caller writes it alone."""
    gone: bool = False
    """True if its caller waits no longer: no later group has it."""
    error: BaseException | None = None


class GroupCommit:
    """Writes of several callers, one transaction after another."""

    def __init__(
        self, write: Callable[[Sequence[GroupWrite], Deadline], Work[None]], mode: CallMode
    ) -> None:
        """Set up; `write` makes all writes in one transaction by a deadline, or none."""
        self._write = write
        self._mode = mode
        self._lock = threading.Lock()
        self._waiting: list[_Member] = []
        """The members that wait or are in the present group."""
        self._leader: _Member | None = None
        """The member whose turn it is to lead a group."""
        self._tasks: set[asyncio.Task[None]] = set()

    def join(self, write: GroupWrite, deadline: Deadline) -> Work[None]:
        """Return once the write is committed, or raise its error."""
        own = _Member(write, self._mode.event(), deadline)
        try:
            with self._lock:
                self._waiting.append(own)
                if self._leader is None:
                    self._leader = own
                    own.wake.set()
            yield from self._wait_for_turn(own)
            if not (own.ended or own.alone):
                yield from (
                    self._write_in_task(own) if self._mode is AWAITED else self._write_group(own)
                )
            if own.alone:
                yield from self._write([write], deadline)
        except BaseException:
            own.gone = True
            if not own.in_task:
                self._pass_turn(own)
            raise
        if own.error is not None:
            raise own.error

    def _wait_for_turn(self, own: _Member) -> Work[None]:
        """Wait until a member has ended, leads a group, or is to be written alone."""
        if (yield self._mode.wait_for_event(own.wake, own.deadline.first_share)):
            return
        with self._lock:
            if not own.in_group:
                own.alone = self._leader is not own
                self._waiting = [member for member in self._waiting if not member.alone]
                return
        yield from self._wait_for_group(own)

    def _wait_for_group(self, own: _Member) -> Work[None]:
        """Wait for the group of a member; the group has a deadline of its own."""
        left = own.deadline.left
        seconds = None if left is None else left + ANSWER_SECONDS
        if not (yield self._mode.wait_for_event(own.wake, seconds)):
            raise errors.OutcomeUnknownError(
                "the writes that this one went with had no answer in time: it may be there or not; "
                "read it, then repeat the call if it is not"
            )

    def drain(self) -> Work[None]:
        """Wait until no task runs a group; on threads each group has a caller that waits for it."""
        while self._mode is AWAITED and self._leader is not None:
            yield asyncio.wait(self._tasks) if self._tasks else asyncio.sleep(0)

    def _write_in_task(self, own: _Member) -> Work[None]:
        """Run the group in a task of its own, which goes on if the caller is cancelled.

        The leader wakes with the members: if it writes again at once, it joins them again.
        """
        own.in_task = True
        own.wake.clear()
        task = asyncio.create_task(run_async(self._write_group(own)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        yield from self._wait_for_group(own)

    def _write_group(self, leader: _Member) -> Work[None]:
        """Write all that wait, then pass the turn to the member that waits longest."""
        with self._lock:
            members = [member for member in self._waiting if not member.gone][:MAX_MEMBERS]
            for member in members:
                member.in_group = True
        try:
            yield from self._write_members(members)
        except BaseException as error:  # an interrupt is the leader's alone: the others stay
            leader.error, leader.ended = error, True
            for member in members:
                member.in_group = False
            raise
        else:
            for member in members:
                member.ended = not member.alone
        finally:
            self._pass_turn(leader)

    def _pass_turn(self, leader: _Member) -> None:
        """Wake the members that have ended, and pass the turn on.

        It may run twice: a leader that is interrupted within it runs it again on its way out.
        """
        with self._lock:
            for member in self._waiting:
                if member.ended or member.alone:
                    member.wake.set()
            self._waiting = [
                member
                for member in self._waiting
                if not (member.ended or member.alone or member.gone)
            ]
            if self._leader is leader:
                self._leader = self._waiting[0] if self._waiting else None
            if self._leader is not None and not self._leader.in_task:
                self._leader.wake.set()

    def _write_members(self, members: Sequence[_Member]) -> Work[None]:
        if not members:
            return
        limit = _group_deadline(members)
        try:
            yield from self._write([member.write for member in members], limit)
        except Exception as error:  # noqa: BLE001 - each member's caller raises it
            shared = len(members) > 1
            if shared and errors.has_code(error, *SHORT_OF_TIME):
                for member in members:
                    member.alone = True
            elif not shared or is_hopeless(error):
                for member in members:
                    member.error = error
            else:
                for member in members:
                    yield from self._write_alone(member, limit)

    def _write_alone(self, member: _Member, limit: Deadline) -> Work[None]:
        """Write one member of a failed group; leave it to its caller if the group's time is up."""
        if limit.passed:
            member.alone = True
            return
        try:
            yield from self._write([member.write], limit)
        except Exception as error:  # noqa: BLE001 - its caller raises it
            if errors.has_code(error, *SHORT_OF_TIME):
                member.alone = True
            else:
                member.error = error


def is_hopeless(error: Exception) -> bool:
    """Return True for an error that each member would get alone as well."""
    gone = isinstance(error, errors.DatabaseUnavailableError)
    return gone or errors.has_code(error, "embedded_server")


def _group_deadline(members: Sequence[_Member]) -> Deadline:
    """Return the deadline of a group: its only member's, or a part of the shortest one."""
    if len(members) == 1:
        return members[0].deadline
    parts = [member.deadline.first_share for member in members]
    return Deadline(min((part for part in parts if part is not None), default=None))


MAX_LOOKUPS = 256
"""Keys in one statement."""

_WATCH_SECONDS = 0.02
"""The seconds between two checks for lookups that wait too long: our own choice. A timer for each
lookup would cost a tenth of it."""


class _WaitingLookup(NamedTuple):
    """A lookup that waits for its rows; None instead of rows makes it read alone."""

    lookup: Lookup
    rows: asyncio.Future[Rows | None]
    deadline: Deadline


class Lookups:
    """Shares statements between the lookups of one event loop's tasks."""

    def __init__(
        self, read: Callable[[Sequence[Lookup], Deadline | None], Awaitable[Rows]]
    ) -> None:
        """Set up; `read` returns the rows of keys by a deadline; None is its own deadline."""
        self._read = read
        self._waiting: list[_WaitingLookup] = []
        self._in_flight: list[_WaitingLookup] = []
        self._watched = False
        self._busy = False
        self._task: asyncio.Task[None] | None = None

    async def find(self, lookup: Lookup, deadline: Deadline) -> Rows:
        """Return the rows of one key.

        Raises:
            DatabaseError (query_timeout): if they do not come by the deadline.
        """
        if self._busy:
            return await self._wait(lookup, deadline)
        self._busy = True
        try:
            return await self._read([lookup], deadline)
        finally:
            self._begin_next()

    async def _wait(self, lookup: Lookup, deadline: Deadline) -> Rows:
        """Wait for the rows of the next statement; read alone if that does not begin in time."""
        answer: asyncio.Future[Rows | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(_WaitingLookup(lookup, answer, deadline))
        if not self._watched:
            self._watch()
        rows = await answer
        return await self._read([lookup], deadline) if rows is None else rows

    def _watch(self) -> None:
        """Let lookups that have waited too long read alone, and fail those past their deadline."""
        late = [waiting for waiting in self._waiting if waiting.deadline.first_share_passed]
        for waiting in late:
            self._waiting.remove(waiting)
            _set_rows(waiting, None)
        for waiting in self._in_flight:
            if waiting.deadline.passed and not waiting.rows.done():
                error = waiting.deadline.timeout_error("reads that came before it had no answer")
                waiting.rows.set_exception(error)
        self._watched = bool(self._waiting or self._in_flight)
        if self._watched:
            asyncio.get_running_loop().call_later(_WATCH_SECONDS, self._watch)

    async def drain(self) -> None:
        """Wait until no statement is under way."""
        while self._task is not None and not self._task.done():
            await asyncio.wait({self._task})

    def _begin_next(self) -> None:
        """Begin the next statement in its own task, so that no caller waits for others' rows."""
        if self._waiting:
            self._task = asyncio.create_task(self._read_waiting())
        else:
            self._busy = False

    async def _read_waiting(self) -> None:
        lookups, self._waiting = self._waiting[:MAX_LOOKUPS], self._waiting[MAX_LOOKUPS:]
        self._in_flight = lookups
        try:
            rows = await self._read([waiting.lookup for waiting in lookups], None)
        except BaseException as error:
            for waiting in lookups:
                if not waiting.rows.done():
                    waiting.rows.set_exception(error)
            if not isinstance(error, Exception):
                raise
        else:
            _distribute(lookups, rows)
        finally:
            self._in_flight = []
            self._begin_next()


def _distribute(lookups: Sequence[_WaitingLookup], rows: Rows) -> None:
    """Give each lookup a row of its own, also those of the same key."""
    by_key: dict[Lookup, Rows] = {}
    for row in rows:
        by_key.setdefault(Lookup(*row[:3]), []).append(row)
    for waiting in lookups:
        mine = by_key.get(waiting.lookup)
        _set_rows(waiting, [mine.pop()] if mine else [])


def _set_rows(waiting: _WaitingLookup, rows: Rows | None) -> None:
    if not waiting.rows.done():
        waiting.rows.set_result(rows)
