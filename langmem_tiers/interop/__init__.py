"""Interoperation with langchain-postgres.

`open_tier` opens a tier for reading as a `PGVectorStore`. `import_chat_history` remembers the
messages of a `PostgresChatMessageHistory`. Only the first needs the `langchain-postgres` extra.
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

from langmem_tiers.coordinator.coordinator import MemoryCoordinator
from langmem_tiers.coordinator.remember import new_memories
from langmem_tiers.core.checks import checked_flag, checked_instance, checked_list, utf8_bytes
from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError, short
from langmem_tiers.core.memory import Tier, encode_namespace
from langmem_tiers.importers.formats import langchain_facts
from langmem_tiers.importers.records import check_storable
from langmem_tiers.postgres.errors import translate
from langmem_tiers.postgres.flow import Ask, Flow, Lookup, Query, Row, unit, without_deadline
from langmem_tiers.remember.tombstones import FORGOTTEN, find_forgotten
from langmem_tiers.remember.tombstones import readmit as allow_again
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
"""Messages or records stored at once. An interrupted import repeats at most so many."""

_SOURCES = {"assistant": "agent", "tool": "tool", "system": "system"}
"""Source of a memory by the speaker of its message; all others are users."""
_MEMORY_TYPE = "episodic"
_BEFORE_FIRST_ID = -(2**63)
_PAGE = sql.SQL(
    "SELECT id, session_id::text, message, created_at FROM {table} "
    "WHERE id > %(after)s AND (%(sessions)s::text[] IS NULL "
    "OR session_id::text = ANY (%(sessions)s::text[])) ORDER BY id LIMIT %(limit)s"
)
"""Query for a page of messages; it is not in queries.sql because the table is the caller's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedHistory:
    """Counts of a table's messages: stored, known before and refused."""

    stored: int
    known: int
    """Messages that were remembered before; they stay as they are."""
    refused: Mapping[int, str]
    """Reasons against messages that cannot be remembered, such as blank ones, by the table's id."""


def import_chat_history(
    memory: MemoryCoordinator,
    connection: psycopg.Connection[Any],
    table_name: str,
    session_ids: Iterable[str] | None = None,
    *,
    readmit: bool = False,
) -> ImportedHistory:
    """Remember the messages of a `PostgresChatMessageHistory` table, each verbatim.

    A message becomes an episodic memory of its session: the speaker is its role (`user`,
    `assistant`, `system`, `tool`), the turn its position in the session from 0, `occurred_at` the
    time at which the table got it. Keys are made of the session and the message's id, so that
    importing again adds the new messages and changes nothing else. The table is only read.

    Args:
        memory: A coordinator; its project gets the memories.
        connection: A psycopg connection to the database of the table.
        table_name: The name of the history's table.
        session_ids: Only these sessions; all if not given.
        readmit: Import messages that `forget` erased too; else they are refused.

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
    importing = _import_table(memory, connection, table_name, session_ids, readmit=readmit)
    return _checked_store(memory).run(importing)


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
    importing = _import_table(memory, connection, table_name, session_ids, readmit=readmit)
    return await _checked_store(memory).arun(importing)


def _checked_store(memory: MemoryCoordinator) -> TieredStore:
    return checked_instance(memory, MemoryCoordinator, "what remembers a chat history").tiered_store


@without_deadline
def _import_table(
    memory: MemoryCoordinator,
    connection: Any,
    table_name: str,
    session_ids: Iterable[str] | None,
    *,
    readmit: bool,
) -> Flow[ImportedHistory]:
    """Remember the messages of a table by pages, each in a transaction of its own."""
    if not isinstance(table_name, str):
        raise InvalidTypeError(f"table_name is a string, not {short(table_name)}")
    utf8_bytes(table_name, "table_name")
    checked_flag(readmit, "readmit")
    bounds = memory.tiered_store.options.bounds
    sessions = None if session_ids is None else _check_session_ids(session_ids)
    page: dict[str, Any] = {"after": _BEFORE_FIRST_ID, "sessions": sessions}
    page["limit"] = min(BATCH, bounds.batch)
    turns, refused = Counter[str](), dict[int, str]()
    stored = known_before = 0
    while rows := (yield from _read_page(connection, table_name, page)):
        page["after"] = rows[-1][0]
        batch = dict(_to_memories(rows, turns, refused))
        existing = yield from _find_existing_keys(memory, batch.values())
        new = {
            number: arguments
            for number, arguments in batch.items()
            if arguments["key"] not in existing
        }
        failed = yield from store_imported(memory, new, readmit=readmit)
        refused |= failed
        stored, known_before = stored + len(new) - len(failed), known_before + len(batch) - len(new)
    return ImportedHistory(stored=stored, known=known_before, refused=refused)


def _check_session_ids(value: Iterable[str]) -> list[str]:
    """Return ids of sessions as the table writes them; the caller gives texts or UUIDs."""
    ids = list(checked_list(value, "session_ids", "ids"))
    for session_id in ids:
        if not isinstance(session_id, str | UUID):
            raise InvalidTypeError(
                f"the id of a session is a string or a UUID, not {short(session_id)}"
            )
        utf8_bytes(str(session_id), "id of a session")
    return [str(session_id).lower() for session_id in ids]


def _fetch_page(
    connection: psycopg.Connection[Any], query: sql.Composed, page: Mapping[str, Any]
) -> Sequence[Row]:
    with connection.transaction(), connection.cursor(row_factory=tuple_row) as cursor:
        return cursor.execute(query, page).fetchall()


async def _afetch_page(
    connection: psycopg.AsyncConnection[Any], query: sql.Composed, page: Mapping[str, Any]
) -> Sequence[Row]:
    async with connection.transaction(), connection.cursor(row_factory=tuple_row) as cursor:
        return await (await cursor.execute(query, page)).fetchall()


def _read_page(connection: Any, table_name: str, page: Mapping[str, Any]) -> Flow[Sequence[Row]]:
    """Return the next rows of the caller's table."""
    arguments = connection, _PAGE.format(table=sql.Identifier(table_name)), page
    try:
        rows: Sequence[Row] = yield Ask(
            partial(_fetch_page, *arguments), partial(_afetch_page, *arguments)
        )
    except (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn) as error:
        raise InvalidInputError(
            f"{short(table_name)} is no table of PostgresChatMessageHistory here: use the name and "
            "the database that its create_tables was called with"
        ) from error
    except psycopg.Error as error:
        raise translate(error) from error
    return rows


def _to_memories(
    rows: Sequence[Row], turns: Counter[str], refused: dict[int, str]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the rows as memories, by their ids; add rows without a message to `refused`."""
    for number, session, message, created_at in rows:
        turn, turns[session] = turns[session], turns[session] + 1
        try:
            facts = _message_arguments(message)
        except InvalidInputError as error:
            refused[number] = str(error)
            continue
        place = {
            "memory_type": _MEMORY_TYPE,
            "session_id": session,
            "turn": turn,
            "occurred_at": created_at,
            "platform_source": "langchain-postgres",
            "key": f"{session}:{number}",
        }
        yield number, {**facts, **place}


def _find_existing_keys(
    memory: MemoryCoordinator, memories: Collection[Mapping[str, Any]]
) -> Flow[set[str]]:
    """Return the keys that are remembered already; the lookup counts as no access."""
    lookups = [
        Lookup(
            *encode_namespace(context.namespace(kind.tier, personal=kind.personal)),
            arguments["key"],
        )
        for arguments in memories
        for kind in (memory.types.get(arguments["memory_type"]),)
        for context in (replace(memory.context, session_id=arguments["session_id"]),)
    ]
    if not lookups:
        return set()
    (rows,) = yield Query((Lookup.call(lookups),), commit=True)
    now = memory.tiered_store.flows.now
    rows_found = (ItemRow(*row) for row in rows)
    return {row.key for row in rows_found if row.expires_at is None or row.expires_at > now}


def store_imported(
    memory: MemoryCoordinator, memories: Mapping[T, Mapping[str, Any]], *, readmit: bool = False
) -> Flow[dict[T, str]]:
    """Store imported memories in one transaction, without the gate; return reasons of the refused.

    Forgotten texts are refused, unless `readmit` is true: then they are allowed again for good. If
    any other memory is refused, each is stored in a transaction of its own.
    """
    tenant = memory.context.root
    texts = {name: str(arguments.get("content")) for name, arguments in memories.items()}
    forgotten = yield from find_forgotten(tenant, list(texts.values()))
    if readmit:
        yield from allow_again(tenant, forgotten.values())
        forgotten = {}
    refused = {name: FORGOTTEN for name, text in texts.items() if text in forgotten}
    allowed = {name: arguments for name, arguments in memories.items() if name not in refused}
    if allowed:
        refused |= yield from _store_all(memory, allowed)
    return refused


def _store_all(
    memory: MemoryCoordinator, memories: Mapping[T, Mapping[str, Any]]
) -> Flow[dict[T, str]]:
    """Store memories in one transaction, or each in its own; return reasons of the refused."""
    try:
        todo = new_memories(memories.values(), memory.tiered_store.options.bounds)
        yield from unit(memory.pipeline.remember(todo, memory.context))
    except InvalidInputError as error:
        if len(memories) == 1:
            return dict.fromkeys(memories, str(error))
        refused: dict[T, str] = {}
        for name, arguments in memories.items():
            refused |= yield from _store_all(memory, {name: arguments})
        return refused
    return {}


def _message_arguments(message: dict[str, Any]) -> dict[str, Any]:
    """Return content, speaker, source and metadata of a message.

    Raises:
        InvalidInputError: if it is no message, or blank.
    """
    check_storable(message=message)
    facts = langchain_facts(message)
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

    Every search sees the tenant's memories in that tier that have a vector, are current and have
    not expired, at the moment of the search. The walls around the tenant and its users stand in the
    database, not in a filter. A read counts as no access, and extends no life time. The vector
    store works while the store is open, and has connections of its own: use it with `with`, or
    close it.

    A document's id is the memory's key, its metadata the rest of the value and `namespace`,
    `tier`, `created_at` and `updated_at` (UTC). An item indexed under several paths is one
    document for each of them.

    Args:
        store: A store with vectors.
        tier: `short_term`, `working` or `long_term`.
        tenant: The tenant, by the name that `MemoryContext` takes.
        user_id: The user whose own memories are shown beside the shared ones; none if not given.
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
    from langmem_tiers.interop.vector_store import open_vector_store

    opening = open_vector_store(
        store, tier, tenant, user_id, k=k, fetch_k=fetch_k, lambda_mult=lambda_mult
    )
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
    from langmem_tiers.interop.vector_store import open_vector_store

    opening = open_vector_store(
        store, tier, tenant, user_id, k=k, fetch_k=fetch_k, lambda_mult=lambda_mult
    )
    return await store.arun(opening)
