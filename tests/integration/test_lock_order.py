"""Who locks what first, and what is done again when somebody else was faster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from langmem_tiers import MemoryCoordinator, TieredStore
from langmem_tiers.core.errors import RollbackError
from langmem_tiers.core.settings import PromotionSettings
from tests.support.coordinating import coordinator
from tests.support.learning import broken
from tests.support.opening import text_index
from tests.support.servers import blocked, wait_until

EASY = PromotionSettings(min_access_count=0, min_success_rate=0.0, min_age_days=0.0, min_projects=1)
REMOVALS: dict[str, Callable[[TieredStore, MemoryCoordinator], object]] = {
    "delete": lambda _, memory: memory.delete_memory("kiwi"),
    "sweep": lambda store, _: store.sweep_ttl(),
}


@pytest.fixture
def store(url: str) -> Iterator[TieredStore]:
    with TieredStore.from_conn_string(url, index=text_index()) as store:
        yield store


def shown(store: TieredStore) -> MemoryCoordinator:
    """A memory that was put before three runs, and counted."""
    memory = coordinator(store, project_id="billing")
    memory.store("kiwi kiwi kiwi", "pattern", tier="working", key="kiwi")
    for run in ("a", "b", "c"):
        assert memory.get_context("kiwi", run_id=run)
    memory.record_outcome(run_id="a", success=True)
    return memory


@pytest.mark.parametrize("name", REMOVALS)
def test_a_removal_waits_for_exposures_before_it_locks_counters(
    store: TieredStore, url: str, name: str
) -> None:
    memory = shown(store)
    with psycopg.connect(url) as settling, ThreadPoolExecutor() as pool:
        if name == "sweep":
            settling.execute("UPDATE memory.memories SET expires_at = '2020-01-01'")
            settling.commit()
        settling.execute("UPDATE memory.exposures SET position = 9 WHERE run = 'b'")
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
    (promotion,) = memory.promote(policy=EASY)
    assert promotion.move is not None
    return promotion.move


def move_aside(conn: psycopg.Connection[Any]) -> None:
    """Move the source to another tier, which is another partition, and do not commit yet."""
    conn.execute("UPDATE memory.memories SET tier = 'short_term' WHERE key = 'kiwi'")


def test_a_rollback_goes_again_after_a_source_was_moved(store: TieredStore, url: str) -> None:
    memory = shown(store)
    move = promoted(memory)
    with psycopg.connect(url) as other, ThreadPoolExecutor() as pool:
        move_aside(other)
        rollback = pool.submit(memory.rollback, move)
        wait_until(lambda: blocked(url))
        other.commit()
        assert rollback.result(timeout=10)
    assert current(url) == [("kiwi", "short_term", None)]
    assert broken(url) == {}


async def test_an_async_rollback_goes_again_after_a_source_was_moved(url: str) -> None:
    async with TieredStore.from_conn_string(url, index=text_index()) as store:
        memory = coordinator(store, project_id="billing")
        await asyncio.to_thread(shown, store)
        move = await asyncio.to_thread(promoted, memory)
        with psycopg.connect(url) as other:
            move_aside(other)
            rollback = asyncio.create_task(memory.arollback(move))
            await asyncio.to_thread(wait_until, lambda: blocked(url))
            other.commit()
        assert await rollback
    assert current(url) == [("kiwi", "short_term", None)]


def test_a_rollback_that_finds_a_later_move_meanwhile_changes_nothing(
    store: TieredStore, url: str
) -> None:
    memory = shown(store)
    move = promoted(memory)
    _, successor = current(url)
    with psycopg.connect(url) as other, ThreadPoolExecutor() as pool:
        move_aside(other)
        other.execute(
            """INSERT INTO memory.events (tenant, event, kind, id, at, detail)
               SELECT e.tenant, 'later', 'demoted', e.target, e.at, '{}' FROM memory.events e"""
        )
        rollback = pool.submit(memory.rollback, move)
        wait_until(lambda: blocked(url))
        other.commit()
        with pytest.raises(RollbackError, match="later"):
            rollback.result(timeout=10)
    assert current(url) == [("kiwi", "short_term", "consolidated"), successor]


def current(url: str) -> list[tuple[str, str, str | None]]:
    with psycopg.connect(url) as conn:
        return conn.execute(
            "SELECT key, tier::text, state FROM memory.memories ORDER BY id"
        ).fetchall()
