"""Workers that learn, promote, undo and remove the same few memories leave no loose end."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

import psycopg
import pytest

from langmem_tiers import MemoryCoordinator, TieredStore
from langmem_tiers.config import PromotionSettings
from langmem_tiers.errors import RollbackError
from tests.support.coordinating import coordinator
from tests.support.learning import BILLING, SHIPPING, broken

EASY = PromotionSettings(min_access_count=0, min_success_rate=0.0, min_age_days=0.0, min_projects=1)
FRUITS = [f"{one} {one} {one}" for one in ("kiwi", "quince", "papaya", "mango", "cherry")]


@dataclass(frozen=True)
class Crowd:
    """What each worker does, chosen by its own seed."""

    memory: MemoryCoordinator
    url: str
    steps: int

    def work(self, seed: int) -> None:
        rng = random.Random(seed)  # noqa: S311 - seeded, not secret
        verbs = [self.learn, self.learn, self.learn, self.remove, self.undo, self.promote]
        for _ in range(self.steps):
            rng.choice(verbs)(rng)

    def learn(self, rng: random.Random) -> None:
        number, project = rng.randrange(len(FRUITS)), rng.choice([BILLING, SHIPPING])
        key = f"{project}-{number}"
        self.memory.store(FRUITS[number], "pattern", tier="working", key=key, project_id=project)
        if (one := self.memory.get(key)) is not None:
            self.memory.record_outcome([one], success=True)

    def promote(self, _: random.Random) -> None:
        self.memory.promote()

    def remove(self, rng: random.Random) -> None:
        if keys := self._known("SELECT key FROM memory.memories ORDER BY key"):
            self.memory.delete_memory(rng.choice(keys))

    def undo(self, rng: random.Random) -> None:
        if moves := self._known("SELECT event FROM memory.events ORDER BY number DESC LIMIT 5"):
            with suppress(RollbackError):
                self.memory.rollback(rng.choice(moves))

    def _known(self, query: str) -> list[str]:
        with psycopg.connect(self.url) as conn:
            return [str(row[0]) for row in conn.execute(query.encode())]


def at_once(store: TieredStore, url: str, *, workers: int, steps: int) -> None:
    crowd = Crowd(coordinator(store, project_id=BILLING, policy=EASY), url, steps)
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(crowd.work, range(workers)))
    late = {"exposures without their memory", "counters without their memory"}
    assert broken(url).keys() <= late
    store.optimize()
    assert broken(url) == {}


def test_whatever_happens_at_once_leaves_no_loose_end(
    store: TieredStore, database_url: str
) -> None:
    at_once(store, database_url, workers=8, steps=25)


@pytest.mark.proof
def test_sixteen_workers_leave_no_loose_end_in_ten_thousand_steps(
    store: TieredStore, database_url: str
) -> None:
    at_once(store, database_url, workers=16, steps=625)
