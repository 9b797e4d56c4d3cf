"""Nothing acknowledged is lost or unlogged, nothing is half there, when a process is killed."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from langmem_tiers import EmbeddedPostgres, MemoryContext, MemoryCoordinator, TieredStore
from langmem_tiers.core.errors import (
    DatabaseUnavailableError,
    OutcomeUnknownError,
    TieredMemoryError,
)
from tests.support.auditing import logged, unlogged
from tests.support.invariants import broken_rows, values
from tests.support.opening import Opened, opened_store
from tests.support.servers import kill, own_server, sessions, wait_until

NAMESPACE = ("acme", "stream")
WRITERS = 4
KEYS = 20
PAUSE_SECONDS = 0.05
"""How long a writer waits after an error, as a caller would."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedPostgres]:
    with own_server(tmp_path) as started:
        yield started


class Stream:
    """One writer's puts: what may be there, what was acknowledged, what it was told instead."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.number = 0
        self.answered = 0
        self.acknowledged: dict[str, int] = {}
        self.tried: dict[str, set[int]] = {}
        self.errors: list[BaseException] = []

    @property
    def newest(self) -> int:
        return max(self.acknowledged.values(), default=0)

    async def write(self, store: TieredStore, stop: asyncio.Event) -> None:
        while not stop.is_set():
            self.number += 1
            key = f"{self.name}-{self.number % KEYS}"
            self.tried.setdefault(key, set()).add(self.number)
            text = f"put {self.number} of {self.name}"
            try:
                await store.aput(NAMESPACE, key, {"text": text, "number": self.number})
            except TieredMemoryError as error:
                self.errors.append(error)
                if not isinstance(error, OutcomeUnknownError):
                    self.tried[key].remove(self.number)
                await asyncio.sleep(PAUSE_SECONDS)
            else:
                self.answered += 1
                self.acknowledged[key] = self.number
                self.tried[key] = {self.number}

    def check(self, stored: dict[str, dict[str, Any]]) -> None:
        for key in self.acknowledged:
            assert stored[key]["number"] in self.tried[key]


def crash(
    server: EmbeddedPostgres, streams: list[Stream], rng: random.Random, probe: Callable[[], None]
) -> None:
    """Kill the server at some moment of the streams, start it, wait until all write again."""
    time.sleep(rng.uniform(0.05, 0.4))
    kill(server)
    probe()
    server.start()
    tried = [one.number for one in streams]  # what was acknowledged before is among these
    wait_until(lambda: all(one.newest > number for one, number in zip(streams, tried, strict=True)))


def check_streams(server: EmbeddedPostgres, streams: list[Stream]) -> None:
    stored = values(server.url)
    for one in streams:
        one.check(stored)
        assert one.answered <= logged(server.url, f"{one.name}-") <= one.number
    assert broken_rows(server.url) == {}
    assert unlogged(server.url) == []
    errors = [error for one in streams for error in one.errors]
    assert {type(error) for error in errors} <= {DatabaseUnavailableError, OutcomeUnknownError}, (
        errors
    )
    assert all(error.__cause__ is not None for error in errors)
    assert sum(len(one.acknowledged) for one in streams) > 0


def unavailable(store: TieredStore) -> None:
    """Put until the sessions have followed the postmaster: then the server is said to be gone."""

    def put_goes_through() -> bool:
        store.put(NAMESPACE, "probe", {"text": "while the server goes down"})
        return True

    with pytest.raises(DatabaseUnavailableError):
        wait_until(lambda: not put_goes_through())


SOME_KILLS = pytest.mark.parametrize("kills", [3, pytest.param(100, marks=pytest.mark.proof)])


@pytest.mark.slow
@SOME_KILLS
@pytest.mark.parametrize("opened", ["sync", "async"])
async def test_no_acknowledged_put_is_lost_when_the_server_is_killed(
    server: EmbeddedPostgres, index: dict[str, Any], opened: Opened, kills: int
) -> None:
    rng, stop = random.Random(kills), asyncio.Event()  # noqa: S311 - seeded, not secret
    streams = [Stream(f"writer{i}") for i in range(WRITERS)]
    store = TieredStore(server.url, index=index)
    async with opened_store(store, opened):
        await store.asetup()
        tasks = [asyncio.create_task(one.write(store, stop)) for one in streams]
        try:
            for _ in range(kills):
                await asyncio.to_thread(crash, server, streams, rng, lambda: unavailable(store))
        finally:
            stop.set()
            await asyncio.gather(*tasks)
    check_streams(server, streams)
    with TieredStore(server.url, index=index) as left:
        assert MemoryCoordinator(left, context=MemoryContext(tenant="acme")).admin.verify_audit()


BATCHES = """
import sys
from itertools import count
from langgraph.store.base import PutOp
from langmem_tiers import TieredStore
from tests.support.opening import text_index

with TieredStore.from_conn_string(sys.argv[1], index=text_index()) as store:
    for turn in count(int(sys.argv[2])):
        store.batch([
            PutOp(("acme", "batch"), str(i), {"text": f"turn {turn}, {i}", "turn": turn})
            for i in range(500)
        ])
        print(turn, flush=True)
"""


def kill_client_mid_batch(url: str, first_turn: int, delay: float) -> int:
    """Let a process write batches and kill it; the last turn it saw acknowledged."""
    command = [sys.executable, "-W", "error", "-c", BATCHES, url, str(first_turn)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        last = int(process.stdout.readline())
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        with suppress(ValueError):
            for line in process.stdout:
                last = int(line)
    wait_until(lambda: sessions(url) == 0)
    return last


@SOME_KILLS
def test_a_batch_of_a_killed_client_is_there_whole_or_not_at_all(
    database_url: str, index: dict[str, Any], kills: int
) -> None:
    rng, last = random.Random(kills), 0  # noqa: S311 - seeded, not secret
    with TieredStore.from_conn_string(database_url, index=index) as store:
        store.setup()
    for _ in range(kills):
        last = kill_client_mid_batch(database_url, last + 1, rng.uniform(0, 0.6))
        with psycopg.connect(database_url) as conn:
            query = "SELECT (value ->> 'turn')::int, count(*) FROM memory.memories GROUP BY 1"
            turns = conn.execute(query).fetchall()
        assert turns in ([(last, 500)], [(last + 1, 500)])
        last = turns[0][0]
    assert broken_rows(database_url) == {}
    assert unlogged(database_url) == []


def test_a_store_can_be_closed_when_its_server_is_gone(
    server: EmbeddedPostgres, index: dict[str, Any]
) -> None:
    before = set(threading.enumerate())
    with TieredStore.from_conn_string(server.url, index=index) as store:
        store.setup()
        store.put(NAMESPACE, "a", {"text": "read and counted"})
        assert store.get(NAMESPACE, "a") is not None
        kill(server)
    assert set(threading.enumerate()) - before == set()
