"""What the acceptance tests of the specifications share: one database, and agents on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

from langmem_tiers import CoordinatorSettings, MemoryCoordinator, TieredStore, local_index
from tests.support.coordinating import coordinator
from tests.support.opening import Clock
from tests.support.servers import fresh_database

Agent = Callable[..., MemoryCoordinator]
_PATIENT = CoordinatorSettings(query_timeout_ms=60_000)
"""No time limit that a busy machine could reach."""
_numbers = count()


@pytest.fixture(scope="session")
def specified_url(server_url: str) -> Iterator[str]:
    """One database, set up as a user sets one up; each test has a tenant of its own."""
    with fresh_database(server_url) as url:
        yield url


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
        **options: Any,
    ) -> MemoryCoordinator:
        who = {"agent_id": agent_id, "project_id": project_id, "session_id": session_id}
        return coordinator(specified_store, tenant, **{**who, "settings": _PATIENT, **options})

    return make
