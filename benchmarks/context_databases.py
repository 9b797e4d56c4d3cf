"""One server; a database for the package and one for its peer, with the same memories."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from langgraph.store.postgres import PostgresStore
from pgvector import HalfVector
from pgvector.psycopg import register_vector

from benchmarks.context_data import DIMS, MADE, Talks, context, tenant_name
from benchmarks.databases import VECTOR_INDEX, Report, create
from langmem_tiers import EmbeddedPostgres, MemoryCoordinator, TieredStore
from langmem_tiers.memory.asking import new_memories

_BATCH = 250

_COPY_TENANT = """
WITH copied AS (
    INSERT INTO memory.memories
        (tenant, tier, id, namespace, key, value, lexemes, created_at, updated_at, expires_at,
         ttl_minutes, session, turn, speaker, occurred_at)
    SELECT %(tenant)s, m.tier, nextval('memory.memory_ids'), m.namespace, m.key, m.value,
           ts_delete(m.lexemes, chr(1) || m.tenant)
               || array_to_tsvector(ARRAY[chr(1) || %(tenant)s::text]),
           m.created_at, m.updated_at, m.expires_at, m.ttl_minutes, m.session, m.turn, m.speaker,
           m.occurred_at
    FROM memory.memories m
    WHERE m.tenant = %(source)s
    ORDER BY m.id
    RETURNING tenant, tier, id, namespace, key
)
INSERT INTO memory.vectors (tenant, tier, namespace, id, field, embedding)
SELECT c.tenant, c.tier, c.namespace, c.id, v.field, v.embedding + %(shift)s::halfvec
FROM copied c
JOIN memory.memories m
  ON m.tenant = %(source)s AND m.namespace = c.namespace AND m.key = c.key
JOIN memory.vectors v
  ON v.tenant = m.tenant AND v.tier = m.tier AND v.namespace = m.namespace AND v.id = m.id
ORDER BY c.id
"""

_OF_PEER = (
    (
        """COPY (SELECT rtrim(m.tenant || '.' || m.namespace, '.'), m.key, m.value
                 FROM memory.memories m ORDER BY m.id) TO STDOUT (FORMAT binary)""",
        "COPY store (prefix, key, value) FROM STDIN (FORMAT binary)",
    ),
    (
        """COPY (SELECT rtrim(m.tenant || '.' || m.namespace, '.'), m.key, v.field,
                        v.embedding::vector
                 FROM memory.memories m
                 JOIN memory.vectors v ON v.tenant = m.tenant AND v.id = m.id AND v.tier = m.tier
                 ORDER BY m.id) TO STDOUT (FORMAT binary)""",
        "COPY store_vectors (prefix, key, field_name, embedding) FROM STDIN (FORMAT binary)",
    ),
)
"""What is read from our database, and where it goes in the peer's."""


@dataclass(frozen=True, slots=True)
class Databases:
    """Connection strings; the peer's is None where it is left out."""

    tiers: str
    peer: str | None


@contextmanager
def server(url: str, buffers: str) -> Iterator[str]:
    """A server of that name, or an embedded one with room for everything in its cache."""
    if url:
        yield url
        return
    with tempfile.TemporaryDirectory() as directory:
        with (
            EmbeddedPostgres(directory) as postgres,
            psycopg.connect(postgres.url, autocommit=True) as conn,
        ):
            conn.execute(f"ALTER SYSTEM SET shared_buffers = '{buffers}'".encode())
        with EmbeddedPostgres(directory) as postgres:
            yield postgres.url


def options(talks: Talks) -> dict[str, Any]:
    """How our store is opened. Nothing expires, so that no recall has to write."""
    return {"index": {"dims": DIMS, "embed": talks.embeddings}, "short_term_ttl": None}


def peer_index(talks: Talks) -> Any:
    """The index of the peer."""
    return {"dims": DIMS, "embed": talks.embeddings, "fields": ["content"]}


def fill(server_url: str, talks: Talks, report: Report, *, with_peer: bool) -> Databases:
    """Create and fill the databases; both are vacuumed and analyzed alike."""
    tiers = create(server_url, f"context_{talks.size}")
    _fill_tiers(tiers, talks, lambda done: report(done * (0.5 if with_peer else 1)))
    peer = create(server_url, f"context_peer_{talks.size}") if with_peer else None
    if peer:
        _fill_peer(tiers, peer, talks)
    for url in filter(None, (tiers, peer)):
        with psycopg.connect(url, autocommit=True) as conn:
            conn.execute("VACUUM ANALYZE")
            conn.execute("CHECKPOINT")
    report(1)
    return Databases(tiers, peer)


def drop(server_url: str, databases: Databases) -> None:
    """Make room on the disk."""
    with psycopg.connect(server_url, autocommit=True) as conn:
        for url in filter(None, (databases.tiers, databases.peer)):
            name = psycopg.conninfo.conninfo_to_dict(url)["dbname"]
            conn.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def _fill_tiers(url: str, talks: Talks, report: Report) -> None:
    """The tenants that are made by the package's own writes, the others as their copies."""
    with TieredStore.from_conn_string(url, **options(talks)) as store:
        store.setup()
        for number, memories in enumerate(talks.made):
            talks.lend(number)
            memory = MemoryCoordinator(store, context=context(tenant_name(number)))
            for start in range(0, len(memories), _BATCH):
                todo = new_memories(one.fields for one in memories[start : start + _BATCH])
                store.run(memory.flows.remember(todo, memory.context))
            report((number + 1) / talks.tenants)
        _copy_tenants(url, talks, report)
        store.optimize()


def _copy_tenants(url: str, talks: Talks, report: Report) -> None:
    with psycopg.connect(url, autocommit=True, prepare_threshold=1) as conn:
        register_vector(conn)
        conn.execute("SET synchronous_commit = off")
        conn.execute("ANALYZE")
        for number in range(MADE, talks.tenants):
            shift = HalfVector(talks.shift(number))
            names = {"tenant": tenant_name(number), "source": tenant_name(number % MADE)}
            conn.execute(_COPY_TENANT, {**names, "shift": shift})
            report((number + 1) / talks.tenants)


def _fill_peer(tiers: str, peer: str, talks: Talks) -> None:
    """From our database into the tables that `setup` made; the index is built afterwards."""
    with PostgresStore.from_conn_string(peer, index=peer_index(talks)) as store:
        store.setup()
    with psycopg.connect(tiers) as source, psycopg.connect(peer, autocommit=True) as target:
        query = "SELECT indexdef FROM pg_indexes WHERE indexname = %s"
        (definition,) = target.execute(query, (VECTOR_INDEX,)).fetchone() or ("",)
        target.execute(f"DROP INDEX {VECTOR_INDEX}".encode())
        for give, take in _OF_PEER:
            with source.cursor().copy(give) as given, target.cursor().copy(take) as taken:
                for piece in given:
                    taken.write(piece)
        target.execute("SET maintenance_work_mem = '1GB'")
        target.execute(definition.encode())
