"""PostgresStore set by hand, until its searches in a small namespace are full and right.

As it comes, its HNSW index looks at the 40 nearest of all tenants and then throws away those of
others. What a careful engineer can do about it: let the scan go on (two orders, several widths),
or do without the HNSW index, which is exact. Each setting is tried, and the fastest good one of
each kind is measured in blocks beside ours. At great widths the planner itself finds the index
too dear and searches exactly, so the kind is told by what was used, not by what was set.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from langgraph.store.postgres import PostgresStore
from psycopg.conninfo import make_conninfo

from benchmarks.contenders import StoreClient, keys_of
from benchmarks.corpus import Corpus
from benchmarks.databases import VECTOR_INDEX, create, index_of
from benchmarks.raw import LIMIT
from benchmarks.store_report import EXACT, HNSW, Quality, Setting

AS_IT_COMES, FLAT = "as it comes", "no HNSW index (kind: flat)"

_ORDERS, _WIDTHS = ("strict_order", "relaxed_order"), (100, 400, 500, 600, 1000)
_QUERIES, _SECONDS = 100, 5.0
_FLAT_DATABASE = "peer_flat"
_SCANS = "SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelname = %s"


def ways() -> dict[str, str]:
    """Each setting's name, and the server options it consists of."""
    found = {AS_IT_COMES: ""}
    for order, width in itertools.product(_ORDERS, _WIDTHS):
        found[f"{order}, ef_search {width}"] = (
            f"-c hnsw.iterative_scan={order} -c hnsw.ef_search={width} "
            "-c hnsw.max_scan_tuples=1000000 -c hnsw.scan_mem_multiplier=8"
        )
    found[FLAT] = ""
    return found


def flat_copy(server_url: str, size: int) -> str:
    """A copy of the filled database without its HNSW index."""
    url = create(server_url, _FLAT_DATABASE, template=f"peer_{size}")
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute(f"DROP INDEX {VECTOR_INDEX}".encode())
        conn.execute("VACUUM ANALYZE")
    return url


def address(name: str, peer_url: str, flat_url: str) -> str:
    """The connection string that a setting amounts to."""
    url = flat_url if name == FLAT else peer_url
    return make_conninfo(url, options=ways()[name]) if ways()[name] else url


@contextmanager
def opened(url: str, corpus: Corpus) -> Iterator[StoreClient]:
    """A PostgresStore on that address."""
    with PostgresStore.from_conn_string(url, index=index_of(corpus)) as store:
        yield StoreClient(store)
        if isinstance(store.conn, psycopg.Connection):
            store.conn.execute("SELECT pg_stat_force_next_flush()")


def attempt(name: str, url: str, corpus: Corpus) -> Setting:
    """Search with a setting, for a few seconds at most."""
    pages, times = [], []
    scans = _index_scans(url)
    with opened(url, corpus) as client:
        for query in corpus.queries[:6]:
            client.search(query)
        end = time.monotonic() + _SECONDS
        for query in corpus.queries[:_QUERIES]:
            start = time.perf_counter()
            found = client.search(query)
            times.append(time.perf_counter() - start)
            pages.append((keys_of(found), corpus.nearest(query, LIMIT)))
            if time.monotonic() > end:
                break
    kind = HNSW if _index_scans(url) > scans else EXACT
    return Setting(name, kind, 1000 * statistics.median(times), Quality.of(pages))


def best(settings: list[Setting]) -> list[Setting]:
    """The fastest good setting of each kind, or the one that finds most if none is good."""

    def rank(one: Setting) -> tuple[bool, float]:
        return (not one.good, one.milliseconds if one.good else -one.quality.recall)

    kinds = {one.kind: one for one in sorted(settings, key=rank, reverse=True)}
    return list(kinds.values())


def _index_scans(url: str) -> int:
    with psycopg.connect(url) as conn:
        row = conn.execute(_SCANS, (VECTOR_INDEX,)).fetchone()
    return int(row[0]) if row else 0
