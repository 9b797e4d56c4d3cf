"""What PostgresChatMessageHistory wrote, remembered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import tuple_row

from langmem_tiers.core.bounds import Bounds
from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError, TieredMemoryError, short
from langmem_tiers.core.memory import MemoryContext
from langmem_tiers.core.namespaces import encode
from langmem_tiers.importers.langchain import message_facts
from langmem_tiers.importers.settle import check_storable
from langmem_tiers.memory.asking import new_memories
from langmem_tiers.memory.coordinator import MemoryCoordinator
from langmem_tiers.postgres.driver import translated
from langmem_tiers.postgres.flow import Call, Flow, Query, Row

BATCH = 200
"""Messages read and stored at once: what is done again when an import is interrupted."""

_SOURCES = {"assistant": "agent", "tool": "tool", "system": "system"}
"""Who speaks for whom; everybody else for themselves."""
_TYPE = "episodic"
_BEFORE_ALL = -(2**63)
_PAGE = sql.SQL(
    "SELECT id, session_id::text, message, created_at FROM {table} "
    "WHERE id > %(after)s AND (%(sessions)s::text[] IS NULL "
    "OR session_id::text = ANY (%(sessions)s::text[])) ORDER BY id LIMIT %(limit)s"
)
"""It stands here and not in queries.sql because the table is the caller's."""

_Batch = dict[int, dict[str, Any]]
"""Messages as `store_many` takes them, by their id in the table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedHistory:
    """What became of the messages of a table."""

    stored: int
    known: int
    """Messages that were remembered before; they were left as they are."""
    refused: Mapping[int, str]
    """Messages that cannot be remembered, such as blank ones: the id in the table, and why."""


def import_chat_history(
    memory: MemoryCoordinator,
    connection: psycopg.Connection[Any],
    table_name: str,
    session_ids: Iterable[str] | None = None,
) -> ImportedHistory:
    """Remember the messages of a `PostgresChatMessageHistory` table, each as it was said.

    A message becomes an episodic memory of its session: the speaker is its role (`user`,
    `assistant`, `system`, `tool`), the turn its place in the session from 0, `occurred_at` when
    the table got it. Keys are made of the session and the message's id, so that importing again
    adds what is new and changes nothing else. The table is only read.

    Args:
        memory: Who remembers; their project keeps it.
        connection: A psycopg connection to the database of the table.
        table_name: The name that the history was given.
        session_ids: Only these sessions; all if not given.

    Raises:
        InvalidInputError: if there is no such table.
        DatabaseError: if either database fails; the batches of 200 before are kept.

    Example:
        ```python
        with psycopg.connect(url) as connection:
            import_chat_history(memory, connection, "chat_history")
        ```
    """
    importing = _Import(memory, table_name, session_ids)
    while rows := _read(connection, importing):
        batch = importing.take(rows)
        places = memory.tiered_store.run(importing.lookup(batch))
        new = importing.unknown(batch, places)
        try:
            _keep(memory, new.values())
        except InvalidInputError:
            for number, one in new.items():
                try:
                    _keep(memory, [one])
                except InvalidInputError as error:
                    importing.refuse(number, error)
    return importing.done()


async def aimport_chat_history(
    memory: MemoryCoordinator,
    connection: psycopg.AsyncConnection[Any],
    table_name: str,
    session_ids: Iterable[str] | None = None,
) -> ImportedHistory:
    """Remember the messages of a table; see `import_chat_history`."""
    importing = _Import(memory, table_name, session_ids)
    while rows := await _aread(connection, importing):
        batch = importing.take(rows)
        places = await memory.tiered_store.arun(importing.lookup(batch))
        new = importing.unknown(batch, places)
        try:
            await _akeep(memory, new.values())
        except InvalidInputError:
            for number, one in new.items():
                try:
                    await _akeep(memory, [one])
                except InvalidInputError as error:
                    importing.refuse(number, error)
    return importing.done()


def _keep(memory: MemoryCoordinator, messages: Iterable[Mapping[str, Any]]) -> None:
    """Store what is imported, which is not judged."""
    todo = new_memories(messages, _bounds(memory))
    memory.tiered_store.run(memory.flows.remember(todo, memory.context))


async def _akeep(memory: MemoryCoordinator, messages: Iterable[Mapping[str, Any]]) -> None:
    """Store what is imported; see `_keep`."""
    todo = new_memories(messages, _bounds(memory))
    await memory.tiered_store.arun(memory.flows.remember(todo, memory.context))


def _bounds(memory: MemoryCoordinator) -> Bounds:
    return memory.tiered_store.options.bounds


def _read(connection: psycopg.Connection[Any], importing: _Import) -> Sequence[Row]:
    try:
        with connection.transaction(), connection.cursor(row_factory=tuple_row) as cursor:
            return cursor.execute(importing.query, importing.page).fetchall()
    except psycopg.Error as error:
        raise importing.translated(error) from error


async def _aread(connection: psycopg.AsyncConnection[Any], importing: _Import) -> Sequence[Row]:
    try:
        async with (
            connection.transaction(),
            connection.cursor(row_factory=tuple_row) as cursor,
        ):
            await cursor.execute(importing.query, importing.page)
            return await cursor.fetchall()
    except psycopg.Error as error:
        raise importing.translated(error) from error


@dataclass(slots=True)
class _Import:
    """How far an import has come.

    What is there already is asked of the store itself, as a look at it is no access.
    """

    memory: MemoryCoordinator
    table_name: str
    session_ids: Iterable[str] | None
    stored: int = 0
    known: int = 0
    refused: dict[int, str] = field(default_factory=dict)
    _after: int = _BEFORE_ALL
    _turns: Counter[str] = field(default_factory=Counter)
    _sessions: list[str] | None = field(init=False)

    def __post_init__(self) -> None:
        if not isinstance(self.memory, MemoryCoordinator):
            raise InvalidTypeError(
                f"a chat history is remembered by a MemoryCoordinator, not {short(self.memory)}"
            )
        if not isinstance(self.table_name, str):
            raise InvalidTypeError(f"table_name is a string, not {short(self.table_name)}")
        if isinstance(self.session_ids, str):
            raise InvalidTypeError("session_ids is a list; for one session, [session_id]")
        given = self.session_ids
        self._sessions = None if given is None else [str(one).lower() for one in given]

    @property
    def query(self) -> sql.Composed:
        """The statement that reads a page of the table."""
        return _PAGE.format(table=sql.Identifier(self.table_name))

    @property
    def page(self) -> dict[str, Any]:
        """The parameters of the next page."""
        return {
            "after": self._after,
            "sessions": self._sessions,
            "limit": min(BATCH, _bounds(self.memory).batch),
        }

    def take(self, rows: Sequence[Row]) -> _Batch:
        """Turn a page into memories; what is no message, or blank, is refused."""
        batch: _Batch = {}
        for number, session, message, created_at in rows:
            self._after = number
            turn, self._turns[session] = self._turns[session], self._turns[session] + 1
            try:
                said = _said(message)
            except InvalidInputError as error:
                self.refused[number] = str(error)
                continue
            batch[number] = {
                **said,
                "memory_type": _TYPE,
                "session_id": session,
                "turn": turn,
                "occurred_at": created_at,
                "platform_source": "langchain-postgres",
                "key": f"{session}:{number}",
            }
        return batch

    def lookup(self, batch: _Batch) -> Flow[set[str]]:
        """Ask which of these are remembered already; their keys."""
        asked = [(*encode(self._namespace(one)), one["key"]) for one in batch.values()]
        if not asked:
            return set()
        tenants, namespaces, keys = (list(column) for column in zip(*asked, strict=True))
        params = {"tenants": tenants, "namespaces": namespaces, "keys": keys}
        (rows,) = yield Query((Call("get_many", params),), commit=True)
        now = self.memory.tiered_store.flows.now
        return {row[2] for row in rows if row[7] is None or row[7] > now}

    def unknown(self, batch: _Batch, known: set[str]) -> _Batch:
        """Those that are not remembered yet; they count as stored."""
        new = {number: one for number, one in batch.items() if one["key"] not in known}
        self.known += len(batch) - len(new)
        self.stored += len(new)
        return new

    def refuse(self, number: int, error: InvalidInputError) -> None:
        """Note a message that the store refused."""
        self.stored -= 1
        self.refused[number] = str(error)

    def done(self) -> ImportedHistory:
        """What became of it all."""
        return ImportedHistory(stored=self.stored, known=self.known, refused=self.refused)

    def translated(self, error: psycopg.Error) -> TieredMemoryError:
        """Our error for one of the driver's."""
        if isinstance(error, psycopg.errors.UndefinedTable | psycopg.errors.UndefinedColumn):
            return InvalidInputError(
                f"{self.table_name!r} is no table of PostgresChatMessageHistory here: use the "
                "name and the database that its create_tables was called with"
            )
        return translated(error)

    def _namespace(self, one: Mapping[str, Any]) -> tuple[str, ...]:
        context: MemoryContext = replace(self.memory.context, session_id=one["session_id"])
        return context.namespace(self.memory.types.get(_TYPE).tier)


def _said(message: object) -> dict[str, Any]:
    """Content, speaker and what else a message says.

    Raises:
        InvalidInputError: for what is no message, or says nothing.
    """
    check_storable(message)
    facts = message_facts(message)
    content, speaker = facts.pop("content"), facts.pop("speaker")
    if not content.strip():
        raise InvalidInputError("the message is blank: there is nothing to remember")
    source = _SOURCES.get(speaker, "user")
    return {"content": content, "speaker": speaker, "source": source, "metadata": facts}
