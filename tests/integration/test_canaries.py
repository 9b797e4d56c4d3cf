"""Fifty tenants have a canary each, and whatever is asked of a shared pool, none crosses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import NamedTuple

import psycopg
import pytest

from langmem_tiers import TieredStore
from tests.support.canaries import (
    COPIES,
    QUERIES,
    SURFACES,
    TENANTS,
    asked,
    canary,
    crossed,
    settle,
)
from tests.support.opening import text_index
from tests.support.servers import fresh_database
from tests.support.walls import APPLICATION, login, walled_tables


@pytest.fixture(scope="module")
def settled(server_url: str, template: str) -> Iterator[str]:
    """A database in which each tenant has its canary in whatever a tenant can have."""
    with fresh_database(server_url, template) as url:
        with TieredStore(url, index=text_index(fields=["content", "text"])) as store:
            settle(store)
        with psycopg.connect(url, autocommit=True) as conn:
            conn.execute("ANALYZE")  # what statistics know is asked for as well
        yield url


@pytest.fixture(scope="module")
def web(settled: str) -> Iterator[str]:
    """A login of the application."""
    with login(settled, APPLICATION) as url:
        yield url


class Seen(NamedTuple):
    """What one client did and saw."""

    done: Counter[str]
    own: set[str]
    """What showed a tenant its own canary."""
    crossed: list[str]


def client(store: TieredStore, seed: int, operations: int) -> Seen:
    """One client's operations, for a tenant or for none."""
    draw, seen = Random(seed), Seen(Counter(), set(), [])  # noqa: S311 - seeded, no secret
    database = store.runner._database
    assert database is not None
    for _ in range(operations):
        tenant = draw.choice(TENANTS)
        if draw.random() < 0.5:
            what = draw.choice([*SURFACES])
            found = repr(SURFACES[what](store, tenant, draw))
            named: str | None = tenant
        else:
            what, named = draw.choice([*QUERIES, *COPIES]), draw.choice([tenant, None])
            with database.pool.connection() as conn:
                found = asked(conn, named, what)
        seen.done[what] += 1
        if named and canary(named) in found:
            seen.own.add(what)
        if others := crossed(found, named):
            seen.crossed.append(f"{what} for {named}: {sorted(others)}")
    return seen


@pytest.mark.parametrize(
    ("clients", "operations"),
    [(4, 400), pytest.param(16, 10_000, marks=pytest.mark.proof)],
)
def test_no_canary_crosses_whatever_clients_of_one_pool_do(
    web: str, clients: int, operations: int
) -> None:
    pool = {"min_size": 2, "max_size": 4}  # each connection serves many tenants in turn
    index = text_index(fields=["content", "text"])
    with (
        TieredStore(web, index=index, pool_config=pool) as store,
        ThreadPoolExecutor(clients) as threads,
    ):
        assert store.runner.acting == "application"
        each = operations // clients
        ran = list(threads.map(lambda seed: client(store, seed, each), range(clients)))
    assert [line for one in ran for line in one.crossed] == []
    done = sum((one.done for one in ran), Counter[str]())
    assert done.total() == each * clients
    assert set(done) == {*SURFACES, *QUERIES, *COPIES}
    own = set[str]().union(*(one.own for one in ran))
    assert {"store", "newest", "recall", "tools", "retriever", "reminders"} <= own


def test_each_query_shows_a_tenant_its_own_and_nobody_anything(web: str) -> None:
    tenant = TENANTS[7]
    with psycopg.connect(web, autocommit=True) as conn:
        for query in (*QUERIES, *COPIES):
            assert crossed(asked(conn, None, query), None) == set(), query
            assert crossed(asked(conn, tenant, query), tenant) == set(), query
        own = [
            query for query in (*QUERIES, *COPIES) if canary(tenant) in asked(conn, tenant, query)
        ]
    assert len(own) > len(QUERIES) / 2  # what shows nothing of anybody proves nothing


LEAKY = (
    "SELECT t::text FROM memory.memories t",
    "SELECT t::text FROM working.memories t",
    "SELECT count(*) FROM memory.memories WHERE (value ->> 'content')::int > 0",
    "SELECT count(*) FROM memory.memories WHERE pg_temp.told(value::text)",
    "SELECT count(*) FROM memory.events WHERE (detail::text)::int = 1",
    "COPY memory.events TO STDOUT",
)


def test_without_the_wall_the_same_queries_let_canaries_cross(
    server_url: str, template: str
) -> None:
    with fresh_database(server_url, template) as url, login(url, APPLICATION) as web:
        with TieredStore(url, index=text_index()) as store:
            for tenant in TENANTS[:5]:
                store.put((tenant, "notes"), canary(tenant), {"content": canary(tenant)})
            _record(url)
        with psycopg.connect(web, autocommit=True) as conn:
            assert {query for query in LEAKY if crossed(asked(conn, None, query), None)} == set()
            with psycopg.connect(url, autocommit=True) as owner:
                for table in walled_tables(url):
                    owner.execute(f"ALTER TABLE {table} DISABLE ROW LEVEL SECURITY".encode())
            for query in LEAKY:
                assert crossed(asked(conn, None, query), None), query
                assert crossed(asked(conn, TENANTS[4], query), TENANTS[4]), query


def _record(url: str) -> None:
    """An event of each tenant, with its canary."""
    insert = """INSERT INTO memory.events (tenant, event, kind, at, detail)
                VALUES (%s, %s, 'told', now(), jsonb_build_object('says', %s::text))"""
    with psycopg.connect(url, autocommit=True) as conn:
        for tenant in TENANTS[:5]:
            conn.execute(insert, [tenant, tenant, canary(tenant)])
