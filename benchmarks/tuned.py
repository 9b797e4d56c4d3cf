"""PostgresStore set by hand, until its searches in a small namespace are full and right.

As it comes, its HNSW index looks at the 40 nearest of all tenants and then throws away those of
others. What a careful engineer can do about it: let the scan go on (two orders, several widths),
or give the HNSW index up, which is exact. Each setting is tried, and the fastest good one of
each kind is measured in blocks beside ours.
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
from benchmarks.results import Setting, quality_of

AS_IT_COMES, WITH_HNSW, WITHOUT_HNSW = "as it comes", "HNSW", "no HNSW index (kind: flat)"

_QUERIES, _SECONDS = 100, 6.0
_FLAT_DATABASE = "peer_flat"


def ways() -> dict[str, str]:
    """Each setting's name, and the server options it consists of."""
    found = {AS_IT_COMES: ""}
    for order, width in itertools.product(("strict_order", "relaxed_order"), (40, 200, 400, 1000)):
        found[f"{WITH_HNSW}, {order}, ef_search {width}"] = (
            f"-c hnsw.iterative_scan={order} -c hnsw.ef_search={width} "
            "-c hnsw.max_scan_tuples=1000000 -c hnsw.scan_mem_multiplier=8"
        )
    found[WITHOUT_HNSW] = ""
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
    url = flat_url if name == WITHOUT_HNSW else peer_url
    return make_conninfo(url, options=ways()[name]) if ways()[name] else url


@contextmanager
def opened(url: str, corpus: Corpus) -> Iterator[StoreClient]:
    """A PostgresStore on that address."""
    with PostgresStore.from_conn_string(url, index=index_of(corpus)) as store:
        yield StoreClient(store)


def attempt(name: str, url: str, corpus: Corpus) -> Setting:
    """Search with a setting, for a few seconds at most."""
    pages, times = [], []
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
    return Setting(name, 1000 * statistics.median(times), quality_of(pages))


def best(settings: list[Setting]) -> dict[str, Setting]:
    """The fastest good setting of each kind."""
    chosen: dict[str, Setting] = {}
    for one in sorted((one for one in settings if one.good), key=lambda one: one.milliseconds):
        kind = WITHOUT_HNSW if one.name == WITHOUT_HNSW else WITH_HNSW
        chosen.setdefault(kind, one)
    return chosen
