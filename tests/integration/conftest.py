"""What integration tests share: databases that are set up, stores opened and called each way."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any, TypeVar, cast
from zlib import crc32

import pytest

from langmem_tiers import MemoryCoordinator, TieredStore
from langmem_tiers.testing import Mode, StoreDriver
from tests.support.agents import WAYS, Way
from tests.support.coordinating import Caller, calling
from tests.support.graphs import ACME
from tests.support.learning import Team, broken, team
from tests.support.opening import Clock, Opened, Opener, empty, leave, opened_store, text_index
from tests.support.servers import databases, fresh_database, name_of

_TWINS = [("sync", "batch"), ("async", "abatch")]
_CROSSED = [("sync", "abatch"), ("async", "batch")]
_CROSSES = ("test_store_loops", "test_store_tiers", "test_coordinator", "test_fuzz")
"""Whose tests also call a store in the way it was not opened: the runner alone knows of that."""
_ALL_WAYS = os.environ.get("LANGMEM_TIERS_TEST_WAYS") == "all"
T = TypeVar("T")


def _ways(metafunc: pytest.Metafunc, ways: Sequence[T]) -> Sequence[T]:
    """Return all the ways of a test if the run is for all, else one of them, always the same.

    Every verb and its twin run the same flow, so a claim that holds one way holds the other; what
    differs, the runner, has tests of its own. Of many tests each way gets its share.
    """
    if _ALL_WAYS:
        return ways
    chosen = crc32(metafunc.definition.nodeid.encode()) % len(ways)
    return ways[chosen : chosen + 1]


@pytest.fixture(scope="session")
def template(server_url: str) -> Iterator[str]:
    """The name of a database that is set up for `text_index` and holds nothing."""
    with fresh_database(server_url) as url:
        with TieredStore(url, index=text_index()) as store:
            store.setup()
        yield name_of(url)


@pytest.fixture
def new_url(server_url: str, template: str) -> Iterator[Callable[[], str]]:
    """Make databases that are set up; each call returns a connection string."""
    with databases(server_url, template) as make:
        yield make


@pytest.fixture(scope="session")
def shared_url(server_url: str, template: str) -> Iterator[str]:
    """One database for all tests that leave nothing but rows behind."""
    with fresh_database(server_url, template) as url:
        yield url
        leave(url)


@pytest.fixture
def url(shared_url: str) -> str:
    """A database that is set up for `text_index` and holds nothing."""
    empty(shared_url)
    return shared_url


@pytest.fixture
def store(url: str, clock: Clock) -> Iterator[TieredStore]:
    """A store on `url`, opened blocking; its time is the test's."""
    with TieredStore(url, index=text_index(), clock=clock) as opened:
        yield opened


@pytest.fixture
async def way(request: pytest.FixtureRequest, url: str, clock: Clock) -> AsyncIterator[Way]:
    """A store on `url`, opened each way, for graphs that are run each way."""
    opened, how = request.param
    store = TieredStore(url, index=text_index(), clock=clock)
    async with opened_store(store, opened):
        yield Way(store, how)


@pytest.fixture
def own_store(database_url: str, index: dict[str, Any]) -> Iterator[TieredStore]:
    """A store on a database of its own, by the time of this machine."""
    with TieredStore(database_url, index=index) as opened:
        opened.setup()
        yield opened


@pytest.fixture
def ready(store: TieredStore) -> TieredStore:
    """The store that a graph is compiled with."""
    return store


@pytest.fixture
def memory(ready: TieredStore) -> MemoryCoordinator:
    """Whose memory it is where a graph is run for `ACME`."""
    return MemoryCoordinator(ready, context=ACME)


@pytest.fixture
async def ours(open_store: Opener, url: str) -> AsyncIterator[Team]:
    """Two projects on an empty store, opened and called each way, which stays whole."""
    async with team(open_store, url) as opened:
        yield opened
    assert broken(url) == {}


@pytest.fixture
async def call(open_store: Opener, url: str) -> AsyncIterator[Caller]:
    """A coordinator of a project and session, called each way."""
    async with calling(open_store, url, project_id="p", session_id="s") as opened:
        yield opened


@pytest.fixture
def clock() -> Clock:
    """A clock that stands still until the test moves it."""
    return Clock()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Choose the ways in which a test opens a store and calls it, or runs a graph on it."""
    if "way" in metafunc.fixturenames and not _says_itself(metafunc, "way"):
        metafunc.parametrize("way", _ways(metafunc, WAYS), ids="-".join, indirect=True)
    if "open_store" in metafunc.fixturenames:
        crosses = metafunc.definition.path.stem.startswith(_CROSSES)
        ways = _ways(metafunc, _TWINS + _CROSSED if crosses else _TWINS)
        ids = [f"opened-{opened}-{mode}" for opened, mode in ways]
        metafunc.parametrize("open_store", ways, ids=ids, indirect=True)


def _says_itself(metafunc: pytest.Metafunc, argument: str) -> bool:
    marks = metafunc.definition.iter_markers("parametrize")
    return any(argument in mark.args[0] for mark in marks)


@pytest.fixture
def open_store(request: pytest.FixtureRequest, new_url: Callable[[], str], clock: Clock) -> Opener:
    """Opens stores, blocking and async, called by `batch` and by `abatch`."""
    opened, mode = request.param
    return Opener(
        opened=cast("Opened", opened), mode=cast("Mode", mode), new_url=new_url, clock=clock
    )


@pytest.fixture
async def driver(open_store: Opener, url: str) -> AsyncIterator[StoreDriver]:
    """An empty store on `url`, indexed over "text", opened and called each way."""
    async with open_store(url=url, index=text_index()) as opened:
        yield opened
