"""Who locks what first, and what is done again when somebody else was faster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from langmem_tiers import MemoryCoordinator, TieredStore
from langmem_tiers.core.errors import RollbackError
from langmem_tiers.learning.promotion_policy import PromotionPolicy
from tests.support.coordinating import coordinator
from tests.support.learning import broken
from tests.support.opening import Opened, opened_store, text_index
from tests.support.servers import blocked, held, wait_until

EASY = PromotionPolicy(min_access_count=0, min_success_rate=0.0, min_age_days=0.0, min_projects=1)
REMOVALS: dict[str, Callable[[TieredStore, MemoryCoordinator], object]] = {
    "delete": lambda _, memory: memory.delete_memory("kiwi"),
    "sweep": lambda store, _: store.sweep_ttl(),
}


@pytest.fixture
def clock() -> None:
    """The time of this machine: what was stored just now is old enough to be promoted."""


def shown(store: TieredStore) -> MemoryCoordinator:
    """A memory that was put before three runs, and counted."""
    memory = coordinator(store, project_id="billing")
    memory.store("kiwi kiwi kiwi", "pattern", tier="working", key="kiwi")
    for run in ("a", "b", "c"):
        assert memory.get_context("kiwi", run_id=run)
    memory.learning.record_outcome(run_id="a", success=True)
    return memory


@pytest.mark.parametrize("name", REMOVALS)
def test_a_removal_waits_for_exposures_before_it_locks_counters(
    store: TieredStore, url: str, name: str
) -> None:
    memory = shown(store)
    with psycopg.connect(url, autocommit=True) as conn:
        if name == "sweep":
            conn.execute("UPDATE memory.memories SET expires_at = '2020-01-01'")
    exposure = "UPDATE memory.exposures SET position = 9 WHERE run = 'b'"
    with held(url, exposure) as settling, ThreadPoolExecutor() as pool:
        removal = pool.submit(REMOVALS[name], store, memory)
        wait_until(lambda: blocked(url))
        counters = settling.execute("SELECT id FROM memory.usage FOR UPDATE NOWAIT")
        assert counters.rowcount == 1
        settling.commit()
        removal.result(timeout=10)
        left = settling.execute(
            """SELECT (SELECT count(*) FROM memory.memories), (SELECT count(*) FROM memory.usage),
                      (SELECT count(*) FROM memory.exposures)"""
        ).fetchone()
    assert left == (0, 0, 0)


def promoted(memory: MemoryCoordinator) -> str:
    (promotion,) = memory.learning.promote(policy=EASY)
    assert promotion.move is not None
    return promotion.move


MOVED_ASIDE = "UPDATE memory.memories SET tier = 'short_term' WHERE key <> 'kiwi'"
"""Moves the successor to another tier, which is another partition."""
LATER = """INSERT INTO memory.events (tenant, event, kind, id, at, detail)
           SELECT e.tenant, 'later', 'demoted', e.target, e.at, '{}' FROM memory.events e"""


@pytest.mark.parametrize("opened", ["sync", "async"])
async def test_a_rollback_goes_again_after_a_successor_was_moved(url: str, opened: Opened) -> None:
    store = TieredStore.from_conn_string(url, index=text_index())
    async with opened_store(store, opened):
        memory = await asyncio.to_thread(shown, store)
        move = await asyncio.to_thread(promoted, memory)
        with held(url, MOVED_ASIDE) as other:
            rollback = asyncio.create_task(memory.learning.arollback(move))
            await asyncio.to_thread(wait_until, lambda: blocked(url))
            other.commit()
            assert await rollback
    assert current(url) == [("kiwi", "working", None)]
    assert broken(url) == {}


def test_a_rollback_that_finds_a_later_move_meanwhile_changes_nothing(
    store: TieredStore, url: str
) -> None:
    memory = shown(store)
    move = promoted(memory)
    kiwi, (successor, *_) = current(url)
    with held(url, MOVED_ASIDE) as other, ThreadPoolExecutor() as pool:
        other.execute(LATER)
        rollback = pool.submit(memory.learning.rollback, move)
        wait_until(lambda: blocked(url))
        other.commit()
        with pytest.raises(RollbackError, match="later"):
            rollback.result(timeout=10)
    assert current(url) == [kiwi, (successor, "short_term", None)]


def current(url: str) -> list[tuple[str, str, str | None]]:
    with psycopg.connect(url) as conn:
        return conn.execute(
            "SELECT key, tier::text, state FROM memory.memories ORDER BY id"
        ).fetchall()
