"""One server; a database for the package and one for its peer, with the same memories."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psycopg
from pgvector import HalfVector
from pgvector.psycopg import register_vector

from benchmarks.context_data import DIMS, MADE, Talks, context, tenant_name
from benchmarks.data import statements
from benchmarks.databases import Report, create, filling
from langmem_tiers import MemoryCoordinator, TieredStore
from langmem_tiers.coordinator.remember import new_memories

_BATCH = 250


_SQL = statements("context")
_OF_PEER = [(_SQL[f"give_{one}"], _SQL[f"take_{one}"]) for one in ("memories", "vectors")]
"""What is read from our database, and where it goes in the peer's."""


@dataclass(frozen=True, slots=True)
class Databases:
    """Connection strings; the peer's is None where it is left out."""

    tiers: str
    peer: str | None


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


def _fill_tiers(url: str, talks: Talks, report: Report) -> None:
    """The tenants that are made by the package's own writes, the others as their copies."""
    with TieredStore.from_conn_string(url, **options(talks)) as store:
        store.setup()
        for number, memories in enumerate(talks.made):
            talks.lend(number)
            memory = MemoryCoordinator(store, context=context(tenant_name(number)))
            for start in range(0, len(memories), _BATCH):
                todo = new_memories(one.fields for one in memories[start : start + _BATCH])
                store.run(memory.pipeline.remember(todo, memory.context))
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
            conn.execute(_SQL["copy_tenant"], {**names, "shift": shift})
            report((number + 1) / talks.tenants)


def _fill_peer(tiers: str, peer: str, talks: Talks) -> None:
    with psycopg.connect(tiers) as source, filling(peer, peer_index(talks)) as target:
        for give, take in _OF_PEER:
            with source.cursor().copy(give) as given, target.cursor().copy(take) as taken:
                for piece in given:
                    taken.write(piece)
