"""Eight workers that raise what is due and are killed: nothing early, each by its contract."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest

from langmem_tiers import TieredStore
from tests.support import reminder_worker
from tests.support.coordinating import coordinator
from tests.support.opening import text_index
from tests.support.servers import wait_until

WORKERS = 8
START = datetime(2026, 3, 1, 12, tzinfo=UTC)
SPAN = timedelta(hours=1)
"""In which everything comes due."""
NUMBER = 10_000 if os.environ.get("LANGMEM_TIERS_PROOF") == "full" else 2_000
"""Intentions of the proofs."""


class Entry(NamedTuple):
    """What one worker did."""

    kind: str
    key: str
    token: str
    at: float


class World:
    """A database with intentions, workers, and the clock that they all read."""

    def __init__(self, url: str, directory: Path, mode: str, seed: int) -> None:
        self.url, self.directory, self.mode = url, directory, mode
        self.rng = random.Random(seed)  # noqa: S311 - seeded, not secret
        self.clock = directory / "clock"
        self.due: dict[str, float] = {}
        self.kills = 0
        self._logs = count()
        # Forked from a process that has imported everything: a worker is at work at once.
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload([reminder_worker.__name__])
        self._workers: list[Any] = []
        self.set(START)

    def set(self, moment: datetime) -> None:
        """Let it be that time, for everybody at once."""
        new = self.directory / "clock.new"
        new.write_text(str(moment.timestamp()), "utf-8")
        new.rename(self.clock)

    def fill(self, number: int) -> None:
        """Intend so many things, each for a moment of its own."""
        index = text_index()
        with TieredStore.from_conn_string(self.url, index=index, clock=lambda: START) as store:
            store.setup()
            memory = coordinator(store)
            moments = [START + SPAN * self.rng.random() for _ in range(number)]
            levels = self.rng.choices(["high", "medium", "low"], k=number)

            def intend(n: int) -> None:
                memory.reminders.add(
                    f"intention {n}", at=moments[n], key=f"k{n}", priority=levels[n]
                )

            with ThreadPoolExecutor(8) as pool:
                list(pool.map(intend, range(number)))
        self.due = {f"k{n}": at.timestamp() for n, at in enumerate(moments)}

    def start(self) -> None:
        """One more worker, which is at work when this returns."""
        log = self.directory / f"log{next(self._logs)}"
        given = (self.url, self.clock, log, self.mode)
        one = self._context.Process(target=reminder_worker.main, args=given, daemon=True)
        one.start()
        self._workers.append(one)
        wait_until(lambda: log.exists() and "ready" in log.read_text("utf-8"))

    def kill(self) -> None:
        """Kill a worker at random."""
        one = self._workers.pop(self.rng.randrange(len(self._workers)))
        assert one.is_alive(), "a worker ended by itself"
        one.kill()
        one.join()
        self.kills += 1

    def stop(self) -> None:
        """Kill them all."""
        while self._workers:
            self._workers[-1].kill()
            self._workers.pop().join()

    def entries(self, kind: str) -> list[Entry]:
        """What the workers wrote down; a line that a kill cut short is left out."""
        lines = (
            line
            for log in self.directory.glob("log*")
            for line in log.read_text("utf-8").splitlines(keepends=True)
        )
        found = (json.loads(line) for line in lines if line.endswith("\n"))
        return [Entry(**one) for one in found if one["kind"] == kind]

    def rows(self) -> dict[str, tuple[Any, ...]]:
        """Status and time of delivery of each intention, by key."""
        query = """SELECT m.key, i.status, i.delivered_at FROM memory.intentions i
                   JOIN memory.memories m ON m.tenant = i.tenant AND m.id = i.id"""
        with psycopg.connect(self.url) as conn:
            return {key: row for key, *row in conn.execute(query).fetchall()}  # type: ignore[misc]

    def settle(self) -> None:
        """Wait until everything is delivered."""
        patience = time.monotonic() + 300
        while any(status != "delivered" for status, _ in self.rows().values()):
            assert time.monotonic() < patience, "what is due is not raised"
            time.sleep(0.05)


@contextmanager
def world(url: str, directory: Path, mode: str, seed: int) -> Iterator[World]:
    one = World(url, directory, mode, seed)
    try:
        yield one
    finally:
        one.stop()


def let_time_pass(one: World, steps: int) -> None:
    """Go through the time in which everything comes due, and kill a worker in each step."""
    for _ in range(WORKERS):
        one.start()
    for step in range(1, steps + 1):
        one.set(START + SPAN * step / steps)
        time.sleep(one.rng.uniform(0, 0.1))
        one.kill()
        one.start()
    one.set(START + SPAN + timedelta(seconds=2 * reminder_worker.LEASE))
    one.settle()
    one.stop()


def check_nothing_was_early(one: World) -> None:
    for entry in one.entries("raised") + one.entries("acknowledged"):
        assert entry.at >= one.due[entry.key]
    for key, (_, delivered_at) in one.rows().items():
        assert delivered_at.timestamp() >= one.due[key]


def check_at_most_once(one: World) -> None:
    """Delivered at once: nothing is raised twice, and a kill loses three at most."""
    raised = Counter(entry.key for entry in one.entries("raised"))
    assert set(raised.values()) == {1}
    lost = set(one.due) - set(raised)
    assert len(lost) <= 3 * (one.kills + WORKERS)


def check_leases(one: World) -> None:
    """Leased: nothing is lost, no token is given twice, one acknowledgement each at most."""
    raised, acknowledged = one.entries("raised"), one.entries("acknowledged")
    assert max(Counter(entry.token for entry in raised).values()) == 1
    assert max(Counter(entry.key for entry in acknowledged).values()) == 1
    assert set(one.due) <= {entry.key for entry in raised}
    again = sum(Counter(entry.key for entry in raised).values()) - len(one.due)
    assert again <= 3 * (one.kills + WORKERS)


CHECKS = {"at_once": check_at_most_once, "lease": check_leases}


@pytest.mark.slow
@pytest.mark.parametrize("mode", CHECKS)
def test_killed_workers_raise_nothing_early_and_each_by_its_contract(
    database_url: str, tmp_path: Path, mode: str
) -> None:
    with world(database_url, tmp_path, mode, seed=1) as one:
        one.fill(160)
        let_time_pass(one, steps=5)
        check_nothing_was_early(one)
        CHECKS[mode](one)


@pytest.mark.proof
@pytest.mark.parametrize("mode", CHECKS)
def test_ten_thousand_intentions_survive_workers_killed_at_random(
    database_url: str, tmp_path: Path, mode: str
) -> None:
    with world(database_url, tmp_path, mode, seed=2) as one:
        one.fill(NUMBER)
        let_time_pass(one, steps=60)
        check_nothing_was_early(one)
        CHECKS[mode](one)
