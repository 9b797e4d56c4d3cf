"""Demotion, and the way back from every move, to the very rows there were."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from langmem_tiers import MemoryCoordinator, TieredStore
from langmem_tiers.core.errors import RollbackError
from langmem_tiers.learn.promote import Promotion
from langmem_tiers.learn.promotion_rules import PromotionPolicy
from tests.support.coordinating import coordinator
from tests.support.learning import BILLING, EASY, SHIPPING, Team, broken, tried
from tests.support.opening import Clock, empty, tables

# Refusals, of which none writes anything


async def refused(ours: Team, move: str, match: str) -> None:
    before = await ours.rows()
    with pytest.raises(RollbackError, match=match):
        await ours.billing("rollback", move)
    assert await ours.rows() == before


async def test_a_move_that_others_stand_on_is_not_undone(ours: Team) -> None:
    first = await ours.promoted()
    second = await ours.learn(ours.shipping)
    await tried(ours.shipping, second, successes=6)
    ours.clock.advance(days=8)
    move = await ours.shipping("promote_to_long_term", second)
    await refused(ours, first.move, move.move)
    assert await ours.billing("rollback", move.move)
    assert await ours.billing("rollback", first.move)
    assert set((await ours.states()).values()) == {None}


async def test_a_successor_that_was_edited_is_kept(ours: Team) -> None:
    first = await ours.promoted()
    store = ours.store
    value = {"content": "kiwi", "memory_type": "reflexion"}
    await asyncio.to_thread(store.put, ("acme",), first.successor, value)
    await refused(ours, first.move, "changed since")


async def test_the_last_copy_is_kept_though_the_clock_that_put_over_it_was_slow(
    ours: Team,
) -> None:
    move = await ours.promoted()
    ours.clock.advance(hours=-1)
    value = {"content": "Quinces keep until spring"}
    await asyncio.to_thread(ours.store.put, ("acme", BILLING), move.key, value)
    assert await ours.states() == {move.key: None, move.successor: None}
    ours.clock.advance(hours=2)
    await refused(ours, move.move, "last copy")


# Demotion


async def test_the_latest_outcomes_decide(ours: Team) -> None:
    policy = PromotionPolicy(demote_after=3, demote_within=4)
    first = await ours.promoted()
    for success in [True] * 20 + [False] * 2:
        ours.clock.advance(minutes=1)
        await tried(ours.shipping, first.successor, successes=success, failures=not success)
        if success:
            assert not [one for one in await ours.billing("demote", policy=policy) if one.demoted]
    assert [one.demoted for one in await ours.billing("demote")] == [False]
    assert [one.demoted for one in await ours.billing("demote", policy=policy)] == [True]
    assert await ours.states() == {first.key: None, first.successor: "demoted"}
    assert await ours.context_keys(ours.billing) == [first.key]
    assert await ours.context_keys(ours.shipping) == []


# Many workers

FRUITS = [f"{one} {one} {one}" for one in ("kiwi", "quince", "papaya", "fig", "mango", "cherry")]


def works(memory: MemoryCoordinator, key: str, *, success: bool = True) -> None:
    """Say what came of a run that was given this memory."""
    one = memory.get(key)
    assert one is not None
    memory.record_outcome([one], success=success)


def test_many_workers_undo_a_move_once(own_store: TieredStore, database_url: str) -> None:
    memory = coordinator(own_store, project_id=BILLING)
    keys = []
    for i in range(5):
        keys.append(str(memory.store(f"kiwi {i} " * 9, "pattern", tier="working").key))
        works(memory, keys[-1])
    assert memory.stats().accesses == len(keys)
    before = {name: rows for name, rows in tables(database_url).items() if name != "events"}
    for _ in range(3):
        for key in keys:
            move = memory.promote_to_long_term(key, policy=EASY).move
            if move is None:
                continue  # it went along with another one
            with ThreadPoolExecutor(6) as pool:
                undone = list(pool.map(lambda _, one=move: memory.rollback(one), range(6)))
            assert sorted(undone) == [False] * 5 + [True]
        found = {name: rows for name, rows in tables(database_url).items() if name != "events"}
        assert found == before
    assert broken(database_url) == {}


def test_removing_both_ends_of_a_move_at_once_is_never_a_deadlock(
    own_store: TieredStore, database_url: str
) -> None:
    memory = coordinator(own_store, project_id=BILLING)
    moves: list[Promotion] = []
    for fruit in FRUITS:
        key = str(memory.store(fruit, "pattern", tier="working").key)
        works(memory, key)
        moves.append(memory.promote_to_long_term(key, policy=EASY))
    ends = [key for one in moves for key in (one.key, one.successor) if key is not None]
    with ThreadPoolExecutor(8) as pool:
        gone = list(pool.map(memory.delete_memory, ends))
    assert all(gone[1::2])  # an original may have gone with its successor by then
    found = tables(database_url)
    assert [name for name, rows in found.items() if rows] == ["events"]
    with psycopg.connect(database_url) as conn:
        assert conn.execute("SELECT count(*) FROM memory.events").fetchone() == (len(FRUITS),)


LEARNED = st.lists(
    st.tuples(
        st.sampled_from([BILLING, SHIPPING]),
        st.sampled_from(FRUITS[:4]),
        st.integers(0, 2),
        st.integers(0, 1),
    ),
    min_size=1,
    max_size=6,
)


@settings(
    derandomize=True,
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(LEARNED)
def test_whatever_is_promoted_its_rollback_leaves_the_very_rows_there_were(
    store: TieredStore, url: str, clock: Clock, learned: list[tuple[str, str, int, int]]
) -> None:
    empty(url)
    members = {one: coordinator(store, project_id=one) for one in (BILLING, SHIPPING)}
    for number, (project, fruit, successes, failures) in enumerate(learned):
        memory = members[project]
        memory.store(fruit, "pattern", tier="working", key=f"k{number}")
        for success in [True] * successes + [False] * failures:
            works(memory, f"k{number}", success=success)
    clock.advance(hours=1)
    memory = members[BILLING]

    def rows() -> dict[str, Any]:
        memory.stats()  # which writes the accesses
        return {name: found for name, found in tables(url).items() if name != "events"}

    before = rows()
    moves = [one.move for one in memory.promote(policy=EASY) if one.promoted]
    assert bool(moves) == any(successes for *_, successes, _ in learned) == (rows() != before)
    assert [memory.rollback(str(one)) for one in reversed(moves)] == [True] * len(moves)
    assert rows() == before
    assert broken(url) == {}
