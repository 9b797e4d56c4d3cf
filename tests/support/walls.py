"""Logins of a database's roles, and what the wall between tenants lets them see."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from tests.support.catalog import SCHEMAS

APPLICATION, WORKER = "langmem_application", "langmem_worker"
NAMES_TENANT = "SELECT set_config('langmem_tiers.tenant', %s, true)"
_numbers = count()


@contextmanager
def login(url: str, *member_of: str) -> Iterator[str]:
    """Where to connect as somebody who is a member of these roles, and of no others."""
    name = f"login_{os.getpid()}_{next(_numbers)}"
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute(f"CREATE ROLE {name} LOGIN".encode())
        for role in member_of:
            conn.execute(f"GRANT {role} TO {name}".encode())
    try:
        yield make_conninfo(url, user=name)
    finally:
        with psycopg.connect(url, autocommit=True) as conn:
            conn.execute(f"DROP OWNED BY {name} CASCADE".encode())
            conn.execute(f"DROP ROLE {name}".encode())


def walled_tables(url: str) -> list[str]:
    """Every table with a tenant, partitions too, as the catalogue knows them."""
    query = """
        SELECT c.oid::regclass::text FROM pg_class c
        JOIN pg_namespace n ON n.oid = c.relnamespace
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant' AND NOT a.attisdropped
        WHERE n.nspname = ANY (%s) AND c.relkind IN ('r', 'p') ORDER BY 1"""
    with psycopg.connect(url) as conn:
        return [row[0] for row in conn.execute(query, [SCHEMAS])]


def tenants_seen(conn: psycopg.Connection[Any], table: str) -> set[str]:
    """The tenants of all rows that a connection sees in a table."""
    name = sql.SQL(".").join(map(sql.Identifier, table.split(".")))
    query = sql.SQL("SELECT DISTINCT tenant FROM {}").format(name)
    return {row[0] for row in conn.execute(query)}
