"""What langchain-postgres knows, in tiers, and tiers as langchain-postgres knows them.

`open_tier` opens a tier for reading as a `PGVectorStore`, `import_chat_history` remembers what
`PostgresChatMessageHistory` wrote. Only the first needs the `langchain-postgres` extra.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

import psycopg
from psycopg import sql
from psycopg.rows import tuple_row

from langmem_tiers.core.checks import checked_flag, checked_instance, checked_list, utf8_bytes
from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError, short
from langmem_tiers.core.memory import Tier, encode_namespace
from langmem_tiers.importers.formats import message_facts
from langmem_tiers.importers.records import check_storable
from langmem_tiers.memory.coordinator import MemoryCoordinator
from langmem_tiers.memory.remembering import new_memories
from langmem_tiers.postgres.errors import translate
from langmem_tiers.postgres.flow import Ask, Flow, Lookup, Query, Row, unit, without_deadline
from langmem_tiers.remember.tombstones import FORGOTTEN, buried
from langmem_tiers.remember.tombstones import readmit as let_back
from langmem_tiers.store.read import ItemRow
from langmem_tiers.store.store import TieredStore

if TYPE_CHECKING:
    from langmem_tiers.interop.vector_store import TierVectorStore

__all__ = [
    "ImportedHistory",
    "aimport_chat_history",
    "aopen_tier",
    "import_chat_history",
    "open_tier",
]

T = TypeVar("T")

BATCH = 200
"""Messages or records stored at once: what is done again when an import is interrupted."""

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
    *,
    readmit: bool = False,
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
        readmit: Let back what was forgotten, by `forget`; else it is refused.

    Raises:
        InvalidInputError: if there is no such table.
        DatabaseError: if either database fails; the batches of 200 before are kept.

    Example:
        ```python
        with psycopg.connect(url) as connection:
            import_chat_history(memory, connection, "chat_history")
        ```
    """
    checked_instance(connection, psycopg.Connection, "connection")
    importing = _imported(memory, connection, table_name, session_ids, readmit=readmit)
    return _store_of(memory).run(importing)


async def aimport_chat_history(
    memory: MemoryCoordinator,
    connection: psycopg.AsyncConnection[Any],
    table_name: str,
    session_ids: Iterable[str] | None = None,
    *,
    readmit: bool = False,
) -> ImportedHistory:
    """Remember the messages of a table; see `import_chat_history`."""
    checked_instance(connection, psycopg.AsyncConnection, "connection")
    importing = _imported(memory, connection, table_name, session_ids, readmit=readmit)
    return await _store_of(memory).arun(importing)


def _store_of(memory: MemoryCoordinator) -> TieredStore:
    return checked_instance(memory, MemoryCoordinator, "what remembers a chat history").tiered_store


@without_deadline
def _imported(
    memory: MemoryCoordinator,
    connection: Any,
    table_name: str,
    session_ids: Iterable[str] | None,
    *,
    readmit: bool,
) -> Flow[ImportedHistory]:
    """Remember what a table holds, a page after another; each is a transaction of its own."""
    if not isinstance(table_name, str):
        raise InvalidTypeError(f"table_name is a string, not {short(table_name)}")
    utf8_bytes(table_name, "table_name")
    checked_flag(readmit, "readmit")
    bounds = memory.tiered_store.options.bounds
    sessions = None if session_ids is None else _sessions(session_ids)
    page: dict[str, Any] = {"after": _BEFORE_ALL, "sessions": sessions}
    page["limit"] = min(BATCH, bounds.batch)
    turns, refused = Counter[str](), dict[int, str]()
    stored = known_before = 0
    while rows := (yield from _page(connection, table_name, page)):
        page["after"] = rows[-1][0]
        batch = dict(_messages(rows, turns, refused))
        there = yield from _there(memory, batch.values())
        new = {
            number: arguments
            for number, arguments in batch.items()
            if arguments["key"] not in there
        }
        failed = yield from kept(memory, new, readmit=readmit)
        refused |= failed
        stored, known_before = stored + len(new) - len(failed), known_before + len(batch) - len(new)
    return ImportedHistory(stored=stored, known=known_before, refused=refused)


def _sessions(value: Iterable[str]) -> list[str]:
    """Ids of sessions as the table has them: texts, or UUIDs."""
    ids = list(checked_list(value, "session_ids", "ids"))
    for session_id in ids:
        if not isinstance(session_id, str | UUID):
            raise InvalidTypeError(
                f"the id of a session is a string or a UUID, not {short(session_id)}"
            )
        utf8_bytes(str(session_id), "id of a session")
    return [str(session_id).lower() for session_id in ids]


def _read(
    connection: psycopg.Connection[Any], query: sql.Composed, page: Mapping[str, Any]
) -> Sequence[Row]:
    with connection.transaction(), connection.cursor(row_factory=tuple_row) as cursor:
        return cursor.execute(query, page).fetchall()


async def _aread(
    connection: psycopg.AsyncConnection[Any], query: sql.Composed, page: Mapping[str, Any]
) -> Sequence[Row]:
    async with connection.transaction(), connection.cursor(row_factory=tuple_row) as cursor:
        return await (await cursor.execute(query, page)).fetchall()


def _page(connection: Any, table_name: str, page: Mapping[str, Any]) -> Flow[Sequence[Row]]:
    """The next rows of the caller's table."""
    asking = connection, _PAGE.format(table=sql.Identifier(table_name)), page
    try:
        rows: Sequence[Row] = yield Ask(partial(_read, *asking), partial(_aread, *asking))
    except (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn) as error:
        raise InvalidInputError(
            f"{short(table_name)} is no table of PostgresChatMessageHistory here: use the name and "
            "the database that its create_tables was called with"
        ) from error
    except psycopg.Error as error:
        raise translate(error) from error
    return rows


def _messages(
    rows: Sequence[Row], turns: Counter[str], refused: dict[int, str]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Rows as memories, by their ids; what is no message, or blank, is `refused`."""
    for number, session, message, created_at in rows:
        turn, turns[session] = turns[session], turns[session] + 1
        try:
            facts = _said(message)
        except InvalidInputError as error:
            refused[number] = str(error)
            continue
        place = {
            "memory_type": _TYPE,
            "session_id": session,
            "turn": turn,
            "occurred_at": created_at,
            "platform_source": "langchain-postgres",
            "key": f"{session}:{number}",
        }
        yield number, {**facts, **place}


def _there(memory: MemoryCoordinator, memories: Collection[Mapping[str, Any]]) -> Flow[set[str]]:
    """The keys of those that are remembered already; a look at them is no access."""
    lookups = [
        Lookup(
            *encode_namespace(where.namespace(kind.tier, personal=kind.personal)), arguments["key"]
        )
        for arguments in memories
        for kind in (memory.types.get(arguments["memory_type"]),)
        for where in (replace(memory.context, session_id=arguments["session_id"]),)
    ]
    if not lookups:
        return set()
    (rows,) = yield Query((Lookup.call(lookups),), commit=True)
    now = memory.tiered_store.flows.now
    rows_found = (ItemRow(*row) for row in rows)
    return {row.key for row in rows_found if row.expires_at is None or row.expires_at > now}


def kept(
    memory: MemoryCoordinator, memories: Mapping[T, Mapping[str, Any]], *, readmit: bool = False
) -> Flow[dict[T, str]]:
    """Store what is imported, which is not judged, in one transaction; what is refused, and why.

    What was forgotten is refused, unless it is to be readmitted: then it may come back for good.
    Where anything else is refused, each is stored by itself.
    """
    tenant = memory.context.root
    texts = {name: str(arguments.get("content")) for name, arguments in memories.items()}
    forgotten = yield from buried(tenant, list(texts.values()))
    if readmit:
        yield from let_back(tenant, forgotten.values())
        forgotten = {}
    refused = {name: FORGOTTEN for name, text in texts.items() if text in forgotten}
    left = {name: arguments for name, arguments in memories.items() if name not in refused}
    if left:
        refused |= yield from _stored(memory, left)
    return refused


def _stored(
    memory: MemoryCoordinator, memories: Mapping[T, Mapping[str, Any]]
) -> Flow[dict[T, str]]:
    """Store them in one transaction, or each by itself; what is refused, and why."""
    try:
        todo = new_memories(memories.values(), memory.tiered_store.options.bounds)
        yield from unit(memory.pipeline.remember(todo, memory.context))
    except InvalidInputError as error:
        if len(memories) == 1:
            return dict.fromkeys(memories, str(error))
        refused: dict[T, str] = {}
        for name, arguments in memories.items():
            refused |= yield from _stored(memory, {name: arguments})
        return refused
    return {}


def _said(message: dict[str, Any]) -> dict[str, Any]:
    """Content, speaker and what else a message says.

    Raises:
        InvalidInputError: for what is no message, or says nothing.
    """
    check_storable(message=message)
    facts = message_facts(message)
    content, speaker = facts.pop("content"), facts.pop("speaker")
    if not content.strip():
        raise InvalidInputError("the message is blank: there is nothing to remember")
    source = _SOURCES.get(speaker, "user")
    return {"content": content, "speaker": speaker, "source": source, "metadata": facts}


def open_tier(
    store: TieredStore,
    tier: Tier | str,
    *,
    tenant: str,
    user_id: str | None = None,
    k: int = 4,
    fetch_k: int = 20,
    lambda_mult: float = 0.5,
) -> TierVectorStore:
    """Open one tenant's memories of a tier for reading, as langchain-postgres' `PGVectorStore`.

    Every way of searching it sees what a recall would show of what the tenant has stored there
    with a vector: what is current and has not expired, at the moment of asking. The walls around
    the tenant and its users stand in the database, not in a filter. What is read is not counted as
    accessed and does not live longer for it. It is of use while the store is open, and keeps
    connections of its own: use it with `with`, or close it.

    A document's id is the memory's key, its metadata the rest of the value and `namespace`,
    `tier`, `created_at` and `updated_at` (UTC). An item indexed under several paths is one
    document for each of them.

    Args:
        store: A store with vectors.
        tier: `short_term`, `working` or `long_term`.
        tenant: Whose memories, by the name that `MemoryContext` takes.
        user_id: The user whose own are shown beside what is shared; nobody's if not given.
        k: Documents a search returns, if it does not say.
        fetch_k: Candidates of a search by maximal marginal relevance.
        lambda_mult: From 0 (most diverse) to 1 (most similar), for such a search.

    Raises:
        MissingExtraError: if langchain-postgres is not installed.
        ConfigurationError: if the store's index has no vectors.
        DatabaseError (not_set_up): if the database was not set up by this version.

    Example:
        ```python
        with open_tier(store, "working", tenant="acme", k=3) as documents:
            documents.similarity_search("When do keys change?")
            documents.as_retriever().invoke("When do keys change?")
        ```
    """
    from langmem_tiers.interop.vector_store import opened

    opening = opened(store, tier, tenant, user_id, k=k, fetch_k=fetch_k, lambda_mult=lambda_mult)
    return store.run(opening)


async def aopen_tier(
    store: TieredStore,
    tier: Tier | str,
    *,
    tenant: str,
    user_id: str | None = None,
    k: int = 4,
    fetch_k: int = 20,
    lambda_mult: float = 0.5,
) -> TierVectorStore:
    """Open a tier for reading; see `open_tier`. Use it with `async with`, or `aclose` it."""
    from langmem_tiers.interop.vector_store import opened

    opening = opened(store, tier, tenant, user_id, k=k, fetch_k=fetch_k, lambda_mult=lambda_mult)
    return await store.arun(opening)
