"""One server, a database for each contender, the same memories in all of them."""

from __future__ import annotations

import json
import os
import platform
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import psycopg
from langgraph.store.base import PutOp
from langgraph.store.postgres import PostgresStore
from pgvector import Vector
from pgvector.psycopg import register_vector
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from benchmarks.corpus import Corpus
from benchmarks.data import statements
from langmem_tiers import EmbeddedPostgres, TieredStore

Report = Callable[[float], object]
"""Told the share of a task that is done, 0…1."""

_BATCH = 500
_PACKAGES = ("langgraph-checkpoint-postgres", "langgraph-checkpoint", "psycopg", "pgvector")
VECTOR_INDEX = "store_vectors_embedding_idx"


@dataclass(frozen=True, slots=True)
class Databases:
    """Connection strings of the filled databases."""

    tiers: str
    peer: str
    raw: str


@dataclass(frozen=True, slots=True)
class Relation:
    """A table (with its TOAST) or an index, and its size on disk."""

    name: str
    is_index: bool
    bytes: int


def tiered_store(url: str, corpus: Corpus, **options: Any) -> TieredStore:
    """Our store on a database, not opened. Nothing expires, so that no search has to write."""
    return TieredStore.from_conn_string(url, index=index_of(corpus), short_term_ttl=None, **options)


def index_of(corpus: Corpus) -> Any:
    """The index mapping that every store gets."""
    return {"dims": corpus.dims, "embed": corpus.embeddings, "fields": ["text"]}


def fill(server_url: str, corpus: Corpus, report: Report) -> Databases:
    """Create and fill the databases; all are vacuumed and analyzed alike."""
    tiers = create(server_url, f"tiers_{corpus.size}")
    _fill_tiers(tiers, corpus, lambda done: report(done * 0.5))
    peer = create(server_url, f"peer_{corpus.size}")
    _fill_peer(peer, corpus, lambda done: report(0.5 + done * 0.3))
    raw = create(server_url, f"raw_{corpus.size}", template=f"tiers_{corpus.size}")
    for url in (tiers, peer, raw):
        with psycopg.connect(url, autocommit=True) as conn:
            conn.execute("VACUUM ANALYZE")
    report(1)
    return Databases(tiers=tiers, peer=peer, raw=raw)


def create(server_url: str, name: str, *, template: str = "template1") -> str:
    """A new database, in place of one of that name; its connection string."""
    with psycopg.connect(server_url, autocommit=True) as conn:
        conn.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)".encode())
        conn.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy".encode())
    return make_conninfo(server_url, dbname=name)


def drop(server_url: str, urls: Iterable[str]) -> None:
    """Make room on the disk."""
    with psycopg.connect(server_url, autocommit=True) as conn:
        for url in urls:
            name = conninfo_to_dict(url)["dbname"]
            conn.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@contextmanager
def server(url: str, buffers: str = "1GB") -> Iterator[str]:
    """A server of that name, or an embedded one with room for everything in its cache.

    So contenders do not push each other out of it.
    """
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


def environment(server_url: str) -> dict[str, str]:
    """What the figures depend on."""
    with psycopg.connect(server_url) as conn:
        (postgres,) = conn.execute("SHOW server_version").fetchone() or ("",)
        query = "SELECT default_version FROM pg_available_extensions WHERE name = 'vector'"
        (vector,) = conn.execute(query).fetchone() or ("",)
    return {
        "PostgreSQL": postgres,
        "extension vector": vector,
        "Python": platform.python_version(),
        "CPUs": str(os.cpu_count()),
        **{name: version(name) for name in _PACKAGES},
    }


@contextmanager
def filling(url: str, index: Any) -> Iterator[psycopg.Connection[Any]]:
    """A PostgresStore's tables, to be filled by COPY; the vector index is built afterwards."""
    with PostgresStore.from_conn_string(url, index=index) as store:
        store.setup()
    with psycopg.connect(url, autocommit=True) as conn:
        query = "SELECT indexdef FROM pg_indexes WHERE indexname = %s"
        (definition,) = conn.execute(query, (VECTOR_INDEX,)).fetchone() or ("",)
        conn.execute(f"DROP INDEX {VECTOR_INDEX}".encode())
        yield conn
        conn.execute("SET maintenance_work_mem = '1GB'")
        conn.execute(definition.encode())


def relations(url: str) -> list[Relation]:
    """Every table and index of a database with its size, largest first."""
    with psycopg.connect(url) as conn:
        return [Relation(*row) for row in conn.execute(statements("databases")["sizes"])]


def _fill_tiers(url: str, corpus: Corpus, report: Report) -> None:
    """By the store's own puts; then what its sweeper does by itself in production."""
    with tiered_store(url, corpus) as store:
        store.setup()
        for rows in _portions(corpus, report):
            lent = corpus.embeddings.vectors
            for row in rows:
                lent[corpus.stored[row].text] = corpus.vector(row).tolist()
            for tier in {corpus.stored[row].tier for row in rows}:
                chosen = [corpus.stored[row] for row in rows if corpus.stored[row].tier == tier]
                store.tier(tier).batch([PutOp(m.namespace, m.key, m.value) for m in chosen])
            for row in rows:
                del lent[corpus.stored[row].text]
        store.optimize()


def _fill_peer(url: str, corpus: Corpus, report: Report) -> None:
    with filling(url, index_of(corpus)) as conn:
        register_vector(conn)
        for rows in _portions(corpus, lambda done: report(done * 0.3)):
            _copy_peer(conn, corpus, rows)
    report(1)


def _copy_peer(conn: psycopg.Connection[Any], corpus: Corpus, rows: range) -> None:
    memories = [(row, corpus.stored[row]) for row in rows]
    cursor = conn.cursor()
    with cursor.copy("COPY store (prefix, key, value) FROM STDIN") as copy:
        for _, one in memories:
            copy.write_row((".".join(one.namespace), one.key, json.dumps(one.value)))
    columns = "prefix, key, field_name, embedding"
    with cursor.copy(f"COPY store_vectors ({columns}) FROM STDIN (FORMAT binary)".encode()) as copy:
        copy.set_types(["text", "text", "text", "vector"])
        for row, one in memories:
            vector = Vector(corpus.vector(row))
            copy.write_row((".".join(one.namespace), one.key, "text", vector))


def _portions(corpus: Corpus, report: Report) -> Iterator[range]:
    for start in range(0, corpus.size, _BATCH):
        yield range(start, min(start + _BATCH, corpus.size))
        report(min(start + _BATCH, corpus.size) / corpus.size)
