"""What the acceptance tests of the specifications share: one database, and agents on it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import count

import psycopg
import pytest

from langmem_tiers import (
    CoordinatorSettings,
    MemoryContext,
    MemoryCoordinator,
    TieredStore,
    local_index,
)
from tests.support.opening import Clock

Agent = Callable[..., MemoryCoordinator]
_PATIENT = CoordinatorSettings(query_timeout_ms=60_000)
"""No time limit that a busy machine could reach."""
_numbers = count()


@pytest.fixture(scope="session")
def specified_url(server_url: str) -> Iterator[str]:
    """One database, set up as a user sets one up; each test has a tenant of its own."""
    name = f"specified_{os.getpid()}"
    with psycopg.connect(server_url, autocommit=True) as conn:
        conn.execute(f"CREATE DATABASE {name} STRATEGY file_copy".encode())
    yield psycopg.conninfo.make_conninfo(server_url, dbname=name)
    with psycopg.connect(server_url, autocommit=True) as conn:
        conn.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest.fixture(scope="session")
def specified_clock() -> Clock:
    """The time of the specified store."""
    return Clock()


@pytest.fixture(scope="session")
def specified_store(specified_url: str, specified_clock: Clock) -> Iterator[TieredStore]:
    """A store with the embeddings that come in a wheel."""
    with TieredStore(specified_url, index=local_index(), clock=specified_clock) as store:
        store.setup()
        yield store


@pytest.fixture
def clock(specified_clock: Clock) -> Clock:
    """The time of the specified store, for tests to move on."""
    return specified_clock


@pytest.fixture
def agent(specified_store: TieredStore) -> Agent:
    """Make coordinators of a tenant of this test's own."""
    tenant = f"tenant-{next(_numbers)}"

    def make(
        agent_id: str | None = None,
        project_id: str | None = None,
        session_id: str | None = None,
        **options: object,
    ) -> MemoryCoordinator:
        context = MemoryContext(
            tenant=tenant, agent_id=agent_id, project_id=project_id, session_id=session_id
        )
        given = {"settings": _PATIENT, **options}
        return MemoryCoordinator(specified_store, context=context, **given)  # type: ignore[arg-type]

    return make
