"""Promotion: what moves, what stays, what is kept of it, and the way back to the very rows."""

from __future__ import annotations

import asyncio
import hashlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.embeddings import Embeddings

from langmem_tiers import FailedAttempt, TieredStore
from langmem_tiers.core.errors import InvalidInputError, RollbackError
from langmem_tiers.core.memory import Tier
from langmem_tiers.learning.promote import Promotion
from tests.support.coordinating import coordinator
from tests.support.learning import (
    BILLING,
    EASY,
    LESSON,
    OTHER_LESSON,
    SHIPPING,
    Team,
    broken,
    team,
    tried,
    works,
)
from tests.support.opening import Clock, Opener, empty, tables, text_index
from tests.support.reflecting import advising

FRUITS = ["kiwi", "quince", "papaya", "fig", "mango", "cherry", "durian", "lychee", "plum", "guava"]

# What is promoted


async def test_a_proven_lesson_is_promoted_for_everybody(ours: Team) -> None:
    key = await ours.proven()
    promotion = await ours.billing("promote_to_long_term", key)
    assert promotion.promoted, promotion
    assert (promotion.key, promotion.sources, promotion.reinforced) == (key, (key,), False)
    found = await ours.shipping("get", promotion.successor)
    assert (found.tier, found.namespace, found.memory_type) == ("long_term", ("acme",), "reflexion")
    assert found.content == (await ours.billing("get", key)).content
    assert found.tags == ("parsing",)
    assert found.metadata == {
        "source_project": BILLING,
        "original_id": key,
        "promotion_date": ours.clock.now.isoformat(),
    }
    assert (found.access_count, found.success_count, found.failure_count) == (6, 6, 0)


async def test_the_original_is_recalled_in_its_project_and_the_general_one_elsewhere(
    ours: Team,
) -> None:
    promotion = await ours.promoted()
    told = {ours.billing: promotion.key, ours.shipping: promotion.successor}
    for call, shown in told.items():
        assert await ours.context_keys(call) == [shown]
        lessons = await call("learning.get_lessons", "KeyError: 'amount'", tools="python")
        assert [one.key for one in lessons] == [shown]
        assert await ours.context_keys(call, "") == [shown]
    assert await ours.states() == {promotion.key: None, promotion.successor: None}
    explained = await ours.billing("learning.explain", promotion.key)
    assert (explained.state, explained.state_at) == ("consolidated", ours.clock.now)
    assert [one.key for one in explained.successors] == [promotion.successor]
    assert [
        one.key for one in (await ours.billing("learning.explain", promotion.successor)).sources
    ] == [promotion.key]


async def test_a_lesson_of_seven_days_stays_and_is_promoted_once_when_older(ours: Team) -> None:
    key = await ours.learn(ours.billing)
    await ours.learn(ours.shipping, improved_approach="The same failure taught this project too")
    await tried(ours.billing, key, successes=5, failures=1)
    ours.clock.advance(days=7)
    assert not (await ours.billing("promote_to_long_term", key)).promoted
    ours.clock.advance(seconds=1)
    for expected in ([key], []):
        assert [
            one.key for one in await ours.billing("learning.promote") if one.promoted
        ] == expected


@pytest.mark.parametrize("how", ["run", "near-duplicate", "same failure"])
async def test_two_projects_are_those_that_used_it_said_it_or_learned_the_same(
    ours: Team, how: str
) -> None:
    given: dict[str, Any] = {"failure": None, "tool": None} if how == "near-duplicate" else {}
    key = await ours.learn(ours.billing, **given)
    await tried(ours.billing, key, successes=6)
    ours.clock.advance(days=8)
    assert not (await ours.billing("promote_to_long_term", key)).promoted
    if how == "run":
        await ours.shipping(
            "learning.record_outcome", [await ours.billing("get", key)], success=True
        )
    elif how == "near-duplicate":
        await ours.learn(ours.shipping, **given)
    else:
        await ours.learn(
            ours.shipping, **{**OTHER_LESSON, "failure": LESSON["failure"], "tool": LESSON["tool"]}
        )
    assert (await ours.billing("promote_to_long_term", key)).promoted


# Reinforcement


@pytest.mark.parametrize("near", ["by-hand", None], ids=["near", "same key"])
async def test_what_has_expired_in_long_term_is_not_lived_on_in(
    ours: Team, near: str | None
) -> None:
    key = await ours.proven()
    first = await ours.billing("promote_to_long_term", key)
    general = first.successor
    found = await value_of(ours, general)
    await ours.billing("learning.rollback", first.move)
    view = ours.store.tier("long_term")
    other = near or general
    await asyncio.to_thread(view.put, ("acme",), other, found, ["content"], ttl=1.0)
    ours.clock.advance(minutes=20)
    move = await ours.billing("promote_to_long_term", key)
    assert (move.successor, move.reinforced) == (general, False)
    await asyncio.to_thread(ours.store.sweep_ttl)
    assert await ours.states() == {key: None, general: None}


async def test_what_says_the_same_in_long_term_is_reinforced_under_whatever_key(ours: Team) -> None:
    key = await ours.proven()
    first = await ours.billing("promote_to_long_term", key)
    found = await value_of(ours, first.successor)
    await ours.billing("learning.rollback", first.move)
    view = ours.store.tier("long_term")
    await asyncio.to_thread(view.put, ("acme",), "by-hand", found, ["content"])
    move = await ours.billing("promote_to_long_term", key)
    assert (move.successor, move.reinforced) == ("by-hand", True)
    assert await ours.states() == {key: None, "by-hand": None}


# Values that no coordinator stored


async def test_any_value_can_be_promoted_and_shares_what_means_the_same_to_all(ours: Team) -> None:
    odd: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"tags": "kiwi"}, {}),
        ({"tags": [None, {"a": 1}, 3, "kiwi", BILLING]}, {"tags": ["kiwi"]}),
        ({"entities": ["Kiwi", ["no"], "kiwi"]}, {"entities": ["kiwi"]}),
        ({"importance": "high", "boost": [1]}, {}),
        ({"importance": 0.5, "boost": 2}, {"importance": 0.5, "boost": 2}),
        ({"success_metrics": {"hits": 3}}, {"success_metrics": {"hits": 3}}),
        ({"emotional_valence": BILLING, "success_metrics": {"in": BILLING}}, {}),
        ({"signature": {"of": BILLING}, "tool": "python"}, {}),
    ]
    keys = [f"k{number}" for number in range(len(odd))]
    for key, word, (own, _) in zip(keys, FRUITS, odd, strict=False):
        value = {"content": f"{word} " * 3, "memory_type": "pattern", **own}
        await asyncio.to_thread(ours.store.put, ("acme", BILLING), key, value)
        await tried(ours.billing, key, successes=1)
    ours.clock.advance(hours=1)
    moves = {one.key: one for one in await ours.billing("learning.promote", policy=EASY)}
    assert [moves[key].sources for key in keys] == [(key,) for key in keys]
    for key, (_, shared) in zip(keys, odd, strict=True):
        found = await asyncio.to_thread(ours.store.get, ("acme",), moves[key].successor)
        assert found is not None
        always = {"content", "memory_type", "metadata"}
        assert {k: v for k, v in found.value.items() if k not in always} == shared


async def test_an_attempt_lives_on_in_its_lesson_in_every_tier(ours: Team) -> None:
    attempt = FailedAttempt(
        task_id="read",
        approach="read it by its key",
        error="KeyError: 'amount'",
        tool="python",
        succeeded_with="used dict.get",
    )
    (lesson,) = await ours.billing("learning.reflect", [attempt], model=advising("Use dict.get"))
    before = (await ours.rows())["lineage"]
    assert len(before) == 1
    for tier in ("long_term", "working", "short_term"):
        assert await asyncio.to_thread(ours.store.move, ("acme", BILLING), lesson.key, tier)
        assert (await ours.rows())["lineage"] == before


# Near-duplicates


class Scaled(Embeddings):
    """Unlike texts, unlike directions; vectors are as long as `scale` says."""

    def __init__(self, scale: float) -> None:
        self.scale = scale

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [
            [(byte / 127.5 - 1) * self.scale for byte in hashlib.sha256(text.encode()).digest()]
            for text in texts
        ]

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]


@pytest.mark.parametrize(
    ("metric", "scale"), [("cosine", 1.0), ("l2", 0.01), ("inner_product", 3.0)]
)
def test_near_duplicates_go_by_direction_whatever_the_metric(
    database_url: str, clock: Clock, metric: str, scale: float
) -> None:
    index = text_index(dims=32, embed=Scaled(scale), distance_type=metric, fields=["content"])
    with TieredStore.from_conn_string(database_url, index=index, clock=clock) as store:
        store.setup()
        memory = coordinator(store, project_id=BILLING, policy=EASY)
        texts = ["alpha apples", "zebra kite", "gamma guitars"]
        for number, text in enumerate([*texts, "alpha apples"]):
            memory.store(text, "pattern", tier="working", key=f"k{number}")
            works(memory, f"k{number}")
        clock.advance(hours=1)
        moves = memory.learning.promote()
        assert [one.sources for one in moves] == [("k0", "k3"), ("k1",), ("k2",)]
        memory.store("zebra kite", "pattern", tier="working", key="late")
        works(memory, "late")
        clock.advance(hours=1)
        (late,) = memory.learning.promote()
        assert (late.successor, late.reinforced) == (moves[1].successor, True)


# Deletion


async def value_of(ours: Team, key: str) -> dict[str, Any]:
    found = await asyncio.to_thread(ours.store.get, ("acme",), key)
    assert found is not None
    return found.value


@pytest.mark.parametrize("how", ["delete_memory", "BaseStore.delete", "sweep"])
async def test_whose_sources_stay_in_their_projects_when_their_successor_is_gone(
    ours: Team, how: str
) -> None:
    same = await ours.learn(ours.shipping)
    promotion = await ours.promoted()
    assert set(promotion.sources) == {promotion.key, same}
    gone, root = promotion.successor, ("acme",)
    if how == "delete_memory":
        assert await ours.billing("delete_memory", gone)
    elif how == "BaseStore.delete":
        await asyncio.to_thread(ours.store.delete, root, gone)
    else:
        value = await value_of(ours, gone)
        await asyncio.to_thread(ours.store.put, root, gone, value, ["content"], ttl=1.0)
        ours.clock.advance(minutes=2)
        assert await asyncio.to_thread(ours.store.sweep_ttl) == 1
    assert await ours.states() == {promotion.key: None, same: None}
    assert await ours.context_keys(ours.billing) == [promotion.key]
    assert await ours.context_keys(ours.shipping) == [same]
    assert (await ours.rows())["lineage"] == []


async def test_what_was_promoted_is_shown_in_its_project_too_once_the_original_is_deleted(
    ours: Team,
) -> None:
    promotion = await ours.promoted()
    assert await ours.billing("delete_memory", promotion.key)
    for call in (ours.billing, ours.shipping):
        assert await ours.context_keys(call) == [promotion.successor]


# Other ways to store


async def test_words_alone_are_enough(open_store: Opener, database_url: str) -> None:
    async with team(open_store, database_url, index={"fields": ["content"]}, setup=True) as ours:
        first = await ours.promoted()
        second = await ours.learn(ours.shipping)
        await tried(ours.shipping, second, successes=6)
        ours.clock.advance(days=8)
        move = await ours.shipping("promote_to_long_term", second)
        assert (move.successor, move.reinforced) == (first.successor, True)
        assert await ours.context_keys(ours.billing) == [first.key]


async def test_tenants_do_not_see_each_others_lessons(ours: Team) -> None:
    key = await ours.proven()
    rival, other = (ours.member("rival", project_id=one) for one in (BILLING, SHIPPING))
    theirs = await ours.learn(rival)
    await tried(rival, theirs, successes=6)
    ours.clock.advance(days=8)
    assert not (await rival("promote_to_long_term", theirs)).promoted
    with pytest.raises(InvalidInputError, match="no memory"):
        await rival("promote_to_long_term", key)
    await tried(other, theirs, of=rival, successes=1)
    move = await rival("promote_to_long_term", theirs)
    assert (move.promoted, move.reinforced) == (True, False)
    (mine,) = [one for one in await ours.billing("learning.promote") if one.promoted]
    assert (mine.key, mine.successor == move.successor) == (key, False)
    with pytest.raises(InvalidInputError, match="no move"):
        await ours.billing("learning.rollback", move.move)


# Many workers


def test_many_workers_promote_each_memory_once(own_store: TieredStore, database_url: str) -> None:
    projects = {one: coordinator(own_store, project_id=one) for one in (BILLING, SHIPPING)}
    for word in FRUITS[:6]:
        for project, own in projects.items():
            content = f"{word} " * 8 + ("!" if project == SHIPPING else "")
            own.store(content, "pattern", tier="working", key=f"{project}-{word}")
            works(own, f"{project}-{word}")
    memory = projects[BILLING]
    with ThreadPoolExecutor(8) as pool:
        found = pool.map(lambda _: memory.learning.promote(policy=EASY), range(8))
        moves = [one for each in found for one in each if one.promoted]
    moved = [key for one in moves for key in one.sources]
    assert sorted(moved) == sorted(f"{one}-{word}" for one in projects for word in FRUITS[:6])
    assert {one.successor for one in moves if one.reinforced} <= {
        one.successor for one in moves if not one.reinforced
    }
    assert memory.stats().by_tier[Tier.LONG_TERM] == 6
    assert broken(database_url) == {}


# The way back


async def test_what_cannot_be_undone_says_why_and_nothing_is_written(ours: Team) -> None:
    first = await ours.promoted()
    second = await ours.learn(ours.shipping)
    await tried(ours.shipping, second, successes=6)
    ours.clock.advance(days=8)
    move = await ours.shipping("promote_to_long_term", second)

    async def refused(undone: str, why: str) -> None:
        before = await ours.rows()
        with pytest.raises(RollbackError, match=why):
            await ours.billing("learning.rollback", undone)
        assert await ours.rows() == before

    await refused(first.move, move.move)
    assert await ours.billing("learning.rollback", move.move)
    edited = {"content": "kiwi", "memory_type": "reflexion"}
    await asyncio.to_thread(ours.store.put, ("acme",), first.successor, edited)
    await refused(first.move, "changed since")


async def test_the_last_copy_is_kept_though_the_clock_that_put_over_it_was_slow(
    ours: Team,
) -> None:
    move = await ours.promoted()
    ours.clock.advance(hours=-1)
    value = {"content": "Quinces keep until spring"}
    await asyncio.to_thread(ours.store.put, ("acme", BILLING), move.key, value)
    assert await ours.states() == {move.key: None, move.successor: None}
    ours.clock.advance(hours=2)
    with pytest.raises(RollbackError, match="last copy"):
        await ours.billing("learning.rollback", move.move)


def but_for_events(url: str) -> dict[str, list[tuple[Any, ...]]]:
    return {name: rows for name, rows in tables(url).items() if name != "events"}


def test_many_workers_undo_a_move_once(own_store: TieredStore, database_url: str) -> None:
    memory = coordinator(own_store, project_id=BILLING)
    keys = [f"k{number}" for number in range(5)]
    for key in keys:
        memory.store(f"kiwi {key} " * 9, "pattern", tier="working", key=key)
        works(memory, key)
    assert memory.stats().accesses == len(keys)
    before = but_for_events(database_url)
    for key in keys * 3:
        move = memory.promote_to_long_term(key, policy=EASY).move
        if move is None:
            continue  # it went along with another one
        with ThreadPoolExecutor(6) as pool:
            undone = list(pool.map(lambda _, one=move: memory.learning.rollback(one), range(6)))
        assert sorted(undone) == [False] * 5 + [True]
    assert but_for_events(database_url) == before
    assert broken(database_url) == {}


def test_removing_both_ends_of_a_move_at_once_is_never_a_deadlock(
    own_store: TieredStore, database_url: str
) -> None:
    memory = coordinator(own_store, project_id=BILLING)
    moves: list[Promotion] = []
    for fruit in FRUITS[:6]:
        key = str(memory.store(f"{fruit} " * 3, "pattern", tier="working").key)
        works(memory, key)
        moves.append(memory.promote_to_long_term(key, policy=EASY))
    ends = [key for one in moves for key in (one.key, one.successor) if key is not None]
    with ThreadPoolExecutor(8) as pool:
        gone = list(pool.map(memory.delete_memory, ends))
    assert all(gone[1::2])  # an original may have gone with its successor by then
    assert [name for name, rows in tables(database_url).items() if rows] == ["events"]
    with psycopg.connect(database_url) as conn:
        assert conn.execute("SELECT count(*) FROM memory.events").fetchone() == (len(moves),)


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


@pytest.mark.slow
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
        memory.store(f"{fruit} " * 3, "pattern", tier="working", key=f"k{number}")
        for success in [True] * successes + [False] * failures:
            works(memory, f"k{number}", success=success)
    clock.advance(hours=1)
    memory = members[BILLING]
    memory.stats()  # which writes the accesses
    before = but_for_events(url)
    moves = [one.move for one in memory.learning.promote(policy=EASY) if one.promoted]
    assert bool(moves) == any(successes for *_, successes, _ in learned)
    assert bool(moves) == (but_for_events(url) != before)
    assert [memory.learning.rollback(str(one)) for one in reversed(moves)] == [True] * len(moves)
    assert but_for_events(url) == before
    assert broken(url) == {}
