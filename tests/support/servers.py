"""Databases of a test's own, and servers that it may kill."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import psycopg

from langmem_tiers import EmbeddedPostgres

OURS = "langmem-tiers"
_numbers = count()


def own_server(path: Path) -> EmbeddedPostgres:
    """A server that only this test uses, of the version that the run is for."""
    version = int(os.environ.get("LANGMEM_TIERS_TEST_PG", "18"))
    return EmbeddedPostgres(path / "server", version=version)  # type: ignore[arg-type]


def kill(server: EmbeddedPostgres) -> None:
    """End the postmaster as a power cut would; its sessions follow when they notice."""
    lines = (server.path / "data" / "postmaster.pid").read_text().splitlines()
    os.kill(int(lines[0]), signal.SIGKILL)


@contextmanager
def fresh_database(server_url: str, template: str = "template1") -> Iterator[str]:
    """A copy of a database, an empty one unless told otherwise, for longer than one test."""
    name = f"own_{os.getpid()}_{next(_numbers)}"
    with psycopg.connect(server_url, autocommit=True) as conn:
        conn.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy".encode())
    try:
        yield psycopg.conninfo.make_conninfo(server_url, dbname=name)
    finally:
        with psycopg.connect(server_url, autocommit=True) as conn:
            conn.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def sessions(url: str, application: str = OURS) -> int:
    """How many connections of an application there are to this database."""
    query = """SELECT count(*) FROM pg_stat_activity
               WHERE datname = current_database() AND application_name = %s"""
    with psycopg.connect(url) as conn:
        row = conn.execute(query, [application]).fetchone()
    assert row is not None
    return int(row[0])


def blocked(url: str, count: int = 1) -> bool:
    """Whether so many connections of the store wait for a lock."""
    query = """SELECT count(*) FROM pg_stat_activity
               WHERE datname = current_database() AND application_name = %s
                 AND wait_event_type = 'Lock'"""
    with psycopg.connect(url) as conn:
        row = conn.execute(query, [OURS]).fetchone()
    return row is not None and row[0] >= count


def terminate_blocked(url: str) -> int:
    """End the store's connections that wait for a lock; how many."""
    query = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
               WHERE datname = current_database() AND application_name = %s
                 AND wait_event_type = 'Lock'"""
    with psycopg.connect(url) as conn:
        return len(conn.execute(query, [OURS]).fetchall())


def wait_until(condition: Callable[[], bool], seconds: float = 30) -> None:
    """Return once the condition holds; fail after some seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)
