"""Workers that learn, promote, undo and remove the same few memories leave no loose end."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

import psycopg
import pytest

from langmem_tiers import MemoryCoordinator, TieredStore
from langmem_tiers.core.errors import RollbackError
from langmem_tiers.testing import Mode
from tests.support.coordinating import Caller, coordinator
from tests.support.learning import BILLING, EASY, SHIPPING, broken
from tests.support.servers import blocked, wait_until

FRUITS = [f"{one} {one} {one}" for one in ("kiwi", "quince", "papaya", "mango", "cherry")]


@dataclass(frozen=True)
class Crowd:
    """What each worker does, chosen by its own seed."""

    memory: MemoryCoordinator
    url: str
    steps: int

    def work(self, seed: int) -> None:
        rng = random.Random(seed)  # noqa: S311 - seeded, not secret
        verbs = [self.learn, self.learn, self.learn, self.remove, self.promote, *self.moves]
        for _ in range(self.steps):
            rng.choice(verbs)(rng)

    @property
    def moves(self) -> list[Callable[[random.Random], None]]:
        return [self.undo, self.shift]

    def contend(self, seed: int) -> None:
        """Nothing but moves of the same few memories, which others take to another partition."""
        rng = random.Random(seed)  # noqa: S311 - seeded, not secret
        for _ in range(self.steps):
            rng.choice([self.promote, *self.moves])(rng)

    def learn(self, rng: random.Random) -> None:
        number, project = rng.randrange(len(FRUITS)), rng.choice([BILLING, SHIPPING])
        key = f"{project}-{number}"
        self.memory.store(FRUITS[number], "pattern", tier="working", key=key, project_id=project)
        if (one := self.memory.get(key)) is not None:
            self.memory.learning.record_outcome([one], success=True)

    def promote(self, _: random.Random) -> None:
        self.memory.learning.promote()

    def remove(self, rng: random.Random) -> None:
        if keys := self._known("SELECT key FROM memory.memories ORDER BY key"):
            self.memory.delete_memory(rng.choice(keys))

    def undo(self, rng: random.Random) -> None:
        if moves := self._known("SELECT event FROM memory.events ORDER BY number DESC LIMIT 5"):
            with suppress(RollbackError):
                self.memory.learning.rollback(rng.choice(moves))

    def shift(self, rng: random.Random) -> None:
        number, project = rng.randrange(len(FRUITS)), rng.choice([BILLING, SHIPPING])
        tier = rng.choice(["working", "short_term"])
        self.memory.tiered_store.move(("acme", project), f"{project}-{number}", tier)

    def _known(self, query: str) -> list[str]:
        with psycopg.connect(self.url) as conn:
            return [str(row[0]) for row in conn.execute(query.encode())]


def crowd_on(store: TieredStore, url: str, steps: int) -> Crowd:
    return Crowd(coordinator(store, project_id=BILLING, policy=EASY), url, steps)


def at_once(store: TieredStore, url: str, *, workers: int, steps: int) -> None:
    crowd = crowd_on(store, url, steps)
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(crowd.work, range(workers)))
    late = {"exposures without their memory", "counters without their memory"}
    assert broken(url).keys() <= late
    store.optimize()
    assert broken(url) == {}


def test_whatever_happens_at_once_leaves_no_loose_end(
    own_store: TieredStore, database_url: str
) -> None:
    at_once(own_store, database_url, workers=8, steps=25)


def test_moves_of_the_same_memories_at_once_go_on_whoever_is_faster(
    own_store: TieredStore, database_url: str
) -> None:
    crowd = crowd_on(own_store, database_url, steps=40)
    for seed in range(20):
        crowd.learn(random.Random(seed))  # noqa: S311 - seeded, not secret
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(crowd.contend, range(8)))
    assert broken(database_url) == {}


async def learn(ours: Caller, key: str) -> None:
    """A pattern that EASY promotes."""
    await ours("store", FRUITS[0], "pattern", tier="working", key=key)
    await ours("learning.record_outcome", [await ours("get", key)], success=True)


@pytest.mark.parametrize("mode", ["batch", "abatch"])
async def test_a_promotion_goes_again_after_what_teaches_the_same_was_moved(
    own_store: TieredStore, database_url: str, mode: Mode
) -> None:
    ours = Caller(coordinator(own_store, project_id=BILLING, policy=EASY), mode)
    await learn(ours, "first")
    first = await ours("promote_to_long_term", "first")
    await learn(ours, "second")
    with psycopg.connect(database_url) as other:
        other.execute("UPDATE memory.memories SET tier = 'working' WHERE tier = 'long_term'")
        second = asyncio.create_task(ours("promote_to_long_term", "second"))
        await asyncio.to_thread(wait_until, lambda: blocked(database_url))
        other.commit()
        found = await second
    assert (found.promoted, found.reason) == (
        False,
        f"the same lesson, {first.successor}, stands in working: move it to long_term",
    )


@pytest.mark.proof
def test_sixteen_workers_leave_no_loose_end_in_ten_thousand_steps(
    own_store: TieredStore, database_url: str
) -> None:
    at_once(own_store, database_url, workers=16, steps=625)
