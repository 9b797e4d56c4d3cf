"""Tenants with a canary each, and what may be asked to make one cross."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any, Final
from uuid import NAMESPACE_DNS, uuid5

import psycopg
from psycopg import sql

from langmem_tiers import MemoryContext, MemoryCoordinator, MemoryOrchestrator, TieredStore
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.graph.langmem_tools import create_manage_memory_tool, create_search_memory_tool
from langmem_tiers.graph.recall import TieredMemoryRetriever
from tests.support.walls import NAMES_TENANT

TENANTS: Final = tuple(f"tenant{n}" for n in range(50))


def canary(tenant: str) -> str:
    """A word that stands in one tenant alone."""
    return f"canary{uuid5(NAMESPACE_DNS, tenant).hex[:12]}"


CANARIES: Final[Mapping[str, str]] = {canary(tenant): tenant for tenant in TENANTS}
WORDS: Final = ("The vault opens with", "The dog is called", "Nobody may know of", "Ask again for")


def crossed(seen: str, tenant: str | None) -> set[str]:
    """Tenants whose canaries are in what somebody else has seen."""
    return {whose for word, whose in CANARIES.items() if word in seen and whose != tenant}


def memory_of(store: TieredStore, tenant: str) -> MemoryCoordinator:
    """The coordinator of a tenant's project."""
    context = MemoryContext(tenant=tenant, project_id="p", session_id="s")
    return MemoryCoordinator(store, context=context)


def settle(store: TieredStore) -> None:
    """Let each tenant have its canary in whatever a tenant can have."""
    for tenant in TENANTS:
        word, memory = canary(tenant), memory_of(store, tenant)
        for number, says in enumerate(WORDS):
            memory.store(f"{says} {word}.", "semantic", key=f"{number}-{word}", tags=[word])
        memory.store(f"Remember {word}", "working", speaker=word)
        memory.reminders.add(f"Call {word}", topic=True)
        memory.promote_to_long_term(f"0-{word}", general=f"Vaults open with {word}.")
        memory.get_context("What opens the vault?", limit=3, min_match=0)
        store.put((tenant, "notes"), word, {"text": word})
        with MemoryOrchestrator(memory) as turn:
            turn.assemble_context("What opens the vault?")
            turn.memorize(f"It was {word} after all.")
            turn.commit()


# By the package's own surfaces

Act = Callable[[TieredStore, str, Random], object]


def _batch(store: TieredStore, tenant: str, draw: Random) -> object:
    number = draw.randrange(4)
    store.put((tenant, "notes"), f"n{number}", {"text": f"note {number} {canary(tenant)}"})
    return store.search((tenant,), query="note", limit=20), store.get((tenant, "notes"), "n1")


def _refused(store: TieredStore, tenant: str, draw: Random) -> object:  # noqa: ARG001
    across = (
        lambda: store.search(()),
        store.list_namespaces,
        lambda: store.list_namespaces(suffix=("notes",)),
        store.stats,
    )
    try:
        return draw.choice(across)()
    except InvalidInputError as error:
        if error.code != "tenant_required":
            raise
        return error


def _tools(store: TieredStore, tenant: str, draw: Random) -> object:
    search = create_search_memory_tool((tenant, "notes"), store=store)
    manage = create_manage_memory_tool((tenant, "notes"), store=store)
    said = manage.invoke({"action": "create", "content": f"kept {canary(tenant)}"})
    return said, search.invoke({"query": draw.choice(WORDS), "limit": 10})


SURFACES: Final[Mapping[str, Act]] = {
    "store": _batch,
    "refused": _refused,
    "newest": lambda store, tenant, _: store.search((tenant,), limit=50),
    "namespaces": lambda store, tenant, _: store.list_namespaces(prefix=(tenant,)),
    "another's key": lambda store, tenant, draw: store.get(
        (tenant, "notes"), canary(draw.choice(TENANTS))
    ),
    "recall": lambda store, tenant, draw: memory_of(store, tenant).get_context(
        draw.choice(WORDS), limit=20, min_match=0
    ),
    "stats": lambda store, tenant, _: (memory_of(store, tenant).stats(), store.stats(tenant)),
    "reminders": lambda store, tenant, _: memory_of(store, tenant).reminders.list(limit=50),
    "turns": lambda store, tenant, _: MemoryOrchestrator(memory_of(store, tenant)).turns(20),
    "tools": _tools,
    "retriever": lambda store, tenant, draw: TieredMemoryRetriever(
        memory=memory_of(store, tenant), min_match=0
    ).invoke(draw.choice(WORDS)),
}

# By SQL of one's own

_TABLES: Final = (
    *("memory.memories", "short_term.memories", "working.memories", "long_term.memories"),
    *("memory.events", "memory.states", "memory.intentions", "memory.exposures", "memory.usage"),
    *("memory.vectors", "working.vectors", "working.documents", "long_term.documents"),
)
QUERIES: Final[Sequence[str]] = (
    *(f"SELECT t::text FROM {table} t" for table in _TABLES),  # noqa: S608 - names of ours
    # What fails on a row says what stood in it.
    "SELECT count(*) FROM memory.memories WHERE (value ->> 'content')::int > 0",
    "SELECT count(*) FROM working.memories WHERE key::timestamptz > now()",
    "SELECT count(*) FROM memory.events WHERE (detail::text)::int = 1",
    "SELECT count(*) FROM working.documents WHERE content::int > 0",
    "SELECT count(*) FROM memory.memories WHERE pg_temp.told(value::text)",
    "SELECT count(*) FROM memory.memories m WHERE to_tsquery('simple', m.key || ' (') IS NULL",
    "SELECT * FROM memory.memories ORDER BY (value ->> 'content')::int",
    "WITH m AS MATERIALIZED (SELECT * FROM memory.memories) SELECT value::text FROM m",
    "SELECT value::text FROM memory.memories FOR UPDATE",
    "SELECT u.tenant, m.value::text FROM memory.usage u RIGHT JOIN memory.memories m USING (id)",
    # What says more than it changes.
    "UPDATE memory.memories SET updated_at = now() RETURNING value::text",
    "DELETE FROM memory.memories RETURNING value::text",
    "DELETE FROM memory.events RETURNING detail::text",
    """INSERT INTO memory.usage (tenant, id) SELECT tenant, id FROM memory.memories
       ON CONFLICT (tenant, id) DO UPDATE SET access_count = 1 RETURNING tenant""",
    "INSERT INTO memory.memories SELECT * FROM memory.memories",
    # Behind the tables.
    "SELECT value::text FROM memory.with_words(NULL, '!nothing'::tsquery, NULL, NULL, NULL)",
    "SELECT detail::text FROM memory.ended_turns(NULL, NULL, NULL, NULL)",
    """SELECT most_common_vals::text, histogram_bounds::text FROM pg_stats
       WHERE schemaname IN ('memory', 'short_term', 'working', 'long_term')""",
)
COPIES: Final = (
    "COPY (SELECT value FROM memory.memories) TO STDOUT",
    "COPY memory.events TO STDOUT",
    "COPY working.memories TO STDOUT",
)
_TOLD: Final = """
    CREATE FUNCTION pg_temp.told(text) RETURNS boolean LANGUAGE plpgsql COST 0.0001 AS
    $$BEGIN RAISE NOTICE '%', $1; RETURN true; END$$"""


@contextmanager
def _transaction(
    conn: psycopg.Connection[Any], tenant: str | None
) -> Iterator[psycopg.Cursor[Any]]:
    """A transaction that names a tenant, or none, and changes nothing for good."""
    with conn.transaction(force_rollback=True):
        if tenant is not None:
            conn.execute(NAMES_TENANT, [tenant], prepare=False)
        yield psycopg.Cursor(conn)


def asked(conn: psycopg.Connection[Any], tenant: str | None, query: str) -> str:
    """All that comes back of a statement, its errors and notices included."""
    said: list[str] = []

    def notice(one: psycopg.errors.Diagnostic) -> None:
        said.append(str(one.message_primary))

    conn.add_notice_handler(notice)
    try:
        with _transaction(conn, tenant) as cursor:
            if "pg_temp" in query:
                cursor.execute(_TOLD, prepare=False)
            if query.startswith("COPY"):
                with cursor.copy(query.encode()) as copied:
                    said += [bytes(block).decode() for block in copied]
            else:
                cursor.execute(sql.SQL(query), prepare=False)
                said += [str(row) for row in cursor.fetchall()]
    except psycopg.Error as error:
        said.append(f"{error} {error.diag.message_detail} {error.diag.context}")
    finally:
        conn.remove_notice_handler(notice)
    return "\n".join(said)
