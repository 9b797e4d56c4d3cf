"""Databases of a test's own, and servers that it may kill."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any, LiteralString

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
    """A copy of a database, or an empty one; file by file: not by the log, which is slower."""
    name = f"own_{os.getpid()}_{next(_numbers)}"
    with psycopg.connect(server_url, autocommit=True) as conn:
        conn.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy".encode())
    try:
        yield psycopg.conninfo.make_conninfo(server_url, dbname=name)
    finally:
        with psycopg.connect(server_url, autocommit=True) as conn:
            conn.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@contextmanager
def databases(server_url: str, template: str = "template1") -> Iterator[Callable[[], str]]:
    """Makes any number of them; each call returns a connection string."""
    with ExitStack() as made:
        yield lambda: made.enter_context(fresh_database(server_url, template))


def name_of(url: str) -> str:
    """The name of a database."""
    return str(psycopg.conninfo.conninfo_to_dict(url)["dbname"])


@contextmanager
def held(url: str, lock: str) -> Iterator[psycopg.Connection[Any]]:
    """Hold what a statement locks meanwhile."""
    with psycopg.connect(url) as conn:
        conn.execute(lock.encode())
        try:
            yield conn
        finally:
            conn.rollback()


def sessions(url: str, application: str = OURS) -> int:
    """How many connections of an application there are to this database."""
    return len(_of_sessions(url, "pid", "true", application))


def blocked(url: str, count: int = 1) -> bool:
    """Whether so many connections of the store wait for a lock."""
    return len(_of_sessions(url, "pid", _WAITS)) >= count


def terminate(url: str, where: LiteralString = "true") -> int:
    """End the store's connections; how many."""
    return len(_of_sessions(url, "pg_terminate_backend(pid)", where))


def terminate_blocked(url: str) -> int:
    """End the store's connections that wait for a lock; how many."""
    return terminate(url, _WAITS)


_WAITS: LiteralString = "wait_event_type = 'Lock'"


def _of_sessions(
    url: str, what: LiteralString, where: LiteralString, application: str = OURS
) -> list[tuple[Any, ...]]:
    query = f"""SELECT {what} FROM pg_stat_activity
                WHERE datname = current_database() AND application_name = %s AND {where}"""  # noqa: S608 - texts of ours
    with psycopg.connect(url) as conn:
        return conn.execute(query, [application]).fetchall()


def wait_until(condition: Callable[[], bool], seconds: float = 30) -> None:
    """Return once the condition holds; fail after some seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)
