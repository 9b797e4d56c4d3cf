"""What tests share: one Postgres for the run, a fresh database for each test that asks."""

from __future__ import annotations

import gc
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import psycopg
import psycopg_pool
import pytest
from hypothesis import settings

from langmem_tiers import EmbeddedPostgres, TieredStore
from tests.support.disks import own_directory, sweep
from tests.support.opening import text_index
from tests.support.order import in_order
from tests.support.servers import databases

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
# A pool's threads draw from a generator of their own: the global one is hypothesis's to watch.
vars(psycopg_pool.base)["random"] = Random().random  # noqa: S311 - a jitter, not a secret


_MEMORY_DISK = Path("/dev/shm")
_ROOM = 4 * 2**30
"""What the servers of all workers take, and more."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Bring the files into the order that `in_order` says."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    files = in_order(list(dict.fromkeys(item.path for item in items)), slow)
    place = {path: at for at, path in enumerate(files)}
    items.sort(key=lambda item: place[item.path])


def pytest_collection_finish() -> None:
    """Modules and tests stay to the end: no collection of garbage need look at them again."""
    gc.freeze()


@pytest.fixture(scope="session")
def server_url() -> Iterator[str]:
    """A server: LANGMEM_TIERS_TEST_DSN if set, else the embedded one (LANGMEM_TIERS_TEST_PG)."""
    if dsn := os.environ.get("LANGMEM_TIERS_TEST_DSN"):
        yield dsn
        return
    version = int(os.environ.get("LANGMEM_TIERS_TEST_PG", "18"))
    with (
        own_directory(_fastest_disk()) as path,
        EmbeddedPostgres(f"{path}/data", version=version) as server,  # type: ignore[arg-type]
    ):
        _forget_power_cuts(server.url)
        yield server.url


def _fastest_disk() -> Path | None:
    """Memory, if there is enough: a database that is made and dropped is a thousand files."""
    sweep(_MEMORY_DISK)
    roomy = _MEMORY_DISK.is_dir() and shutil.disk_usage(_MEMORY_DISK).free > _ROOM
    return _MEMORY_DISK if roomy else None


def _forget_power_cuts(url: str) -> None:
    """Wait for no disk: this server's data need not outlive the machine, and nobody kills it."""
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("ALTER SYSTEM SET fsync = off")
        conn.execute("ALTER SYSTEM SET full_page_writes = off")
        conn.execute("SELECT pg_reload_conf()")


@pytest.fixture
def new_database(server_url: str) -> Iterator[Callable[[], str]]:
    """Make empty databases; each call returns a connection string. Dropped after the test."""
    with databases(server_url) as make:
        yield make


@pytest.fixture
def database_url(new_database: Callable[[], str]) -> str:
    """An empty database."""
    return new_database()


@pytest.fixture
def index() -> dict[str, Any]:
    """A small deterministic index over the field "text"."""
    return text_index()


@pytest.fixture
def store(database_url: str, index: dict[str, Any]) -> Iterator[TieredStore]:
    """A store set up on an empty database, opened blocking."""
    with TieredStore.from_conn_string(database_url, index=index) as opened:
        opened.setup()
        yield opened


@pytest.fixture
def locomo() -> Path:
    """The evaluation conversations, where they are present beside the checkout."""
    path = Path("../shared/data/locomo/locomo-dev.json")
    if not path.exists():
        pytest.skip("evaluation data is not part of the project")
    return path
