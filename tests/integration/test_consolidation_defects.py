"""Consolidation, truth and promotion where they meet: what one leaves, the others find."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import psycopg
import pytest

from langmem_tiers import MemoryCoordinator, TieredStore
from langmem_tiers.consolidate import stored
from langmem_tiers.consolidate.stored import read
from langmem_tiers.learn.reflexion import FailedAttempt
from langmem_tiers.postgres.flow import Call, Flow, Query, Rows
from tests.support.coordinating import coordinator
from tests.support.cycling import EASY, alike, column, cycle, done, fact, step
from tests.support.learning import broken
from tests.support.opening import Clock, tables, text_index

FAILED = FailedAttempt(task_id="t", approach="pip install x", error="ImportError: x")
PATTERN = "Retry a POST only with a key"


@pytest.fixture
def store(url: str, clock: Clock) -> Iterator[TieredStore]:
    """A store on an empty database."""
    with TieredStore.from_conn_string(url, index=text_index(), clock=clock) as store:
        yield store
    assert broken(url) == {}


@pytest.fixture
def memory(store: TieredStore) -> MemoryCoordinator:
    """A project's coordinator in a session."""
    return coordinator(store, project_id="billing", session_id="chat")


def found(memory: MemoryCoordinator, **asked: Any) -> list[str]:
    return sorted(one.key for one in memory.get_context("", limit=100, **asked))


def superseded(store: TieredStore, memory: MemoryCoordinator, clock: Clock) -> str:
    """A port that was superseded by another one; the move."""
    fact(memory, "one", "The deployment port is 80")
    clock.advance(days=1)
    fact(memory, "two", "The deployment port is 443")
    clock.advance(days=1)
    (move,) = done(store, step("supersede"), cycle(store))["moves"]
    assert found(memory) == ["two"]
    return move


# What is put over what was superseded


def test_other_content_over_what_was_superseded_begins_anew(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock, url: str
) -> None:
    superseded(store, memory, clock)
    before = clock.now - timedelta(hours=36)
    fact(memory, "one", "The deployment port is 8443")
    assert found(memory) == ["one", "two"]
    assert found(memory, as_of=before) == []  # what it said then was overwritten
    assert [column(url, name)["one"] for name in ("state", "state_at", "valid_to")] == [None] * 3
    clock.advance(days=1)
    done(store, step("supersede"), cycle(store, "second"))
    assert column(url, "state") == {"one": None, "two": "superseded"}
    assert found(memory) == ["one"]


def test_what_began_anew_is_not_superseded_any_more_whatever_comes_after(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock, url: str
) -> None:
    move = superseded(store, memory, clock)
    fact(memory, "one", "The deployment port is 8443")
    assert not memory.rollback(move)
    history = memory.history("one")
    assert [one.key for one in history.versions] == ["one"]
    assert [(one.kind, one.undone_at is not None) for one in history.events] == [
        ("superseded", True)
    ]
    memory.retract("one", reason="a rumour")
    assert memory.restore("one").state is None
    fact(memory, "one", "The deployment port is 8443", valid_to=clock.now + timedelta(days=1))
    assert column(url, "valid_to")["one"] == clock.now + timedelta(days=1)


def test_the_same_content_again_over_what_was_superseded_leaves_it_so(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock, url: str
) -> None:
    superseded(store, memory, clock)
    ended = column(url, "valid_to")["one"]
    fact(memory, "one", "The deployment port is 80", tags=["seen-again"])
    assert (column(url, "state")["one"], column(url, "valid_to")["one"]) == ("superseded", ended)


def test_what_begins_anew_is_true_when_it_says(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock, url: str
) -> None:
    superseded(store, memory, clock)
    told = clock.now - timedelta(days=30)
    fact(memory, "one", "The deployment port is 8443", valid_from=told)
    assert column(url, "valid_from")["one"] == told


def test_what_was_put_again_is_not_superseded_by_what_was_said_before(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock, url: str
) -> None:
    fact(memory, "one", "The deployment port is 80")
    clock.advance(days=1)
    fact(memory, "two", "The deployment port is 443")
    clock.advance(days=1)
    fact(memory, "one", "The deployment port is 8443")
    clock.advance(days=1)
    done(store, step("supersede"), cycle(store))
    assert column(url, "state") == {"one": None, "two": None}


# What is promoted is true


def helped(memory: MemoryCoordinator, key: str) -> None:
    one = memory.get(key)
    assert one is not None
    memory.record_outcome([one], success=True)


@pytest.mark.parametrize("days", [(-9, -1), (1, None)])
def test_what_is_not_true_now_is_not_promoted(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock, days: tuple[Any, Any]
) -> None:
    began, ended = (None if one is None else clock.now + timedelta(days=one) for one in days)
    fact(memory, "one", PATTERN, memory_type="pattern", valid_from=began, valid_to=ended)
    helped(memory, "one")
    clock.advance(hours=1)
    assert not memory.promote_to_long_term("one", policy=EASY).promoted
    assert memory.promote(policy=EASY) == []
    assert not done(store, step("promote"), cycle(store))["done"]


def test_a_successor_is_true_when_its_source_is(
    memory: MemoryCoordinator, clock: Clock, url: str
) -> None:
    began, ended = clock.now - timedelta(days=9), clock.now + timedelta(days=9)
    for key, until in (("one", ended), ("other", ended), ("open", None)):
        fact(memory, key, PATTERN, memory_type="pattern", valid_from=began, valid_to=until)
        helped(memory, key)
    clock.advance(hours=1)
    first, second = memory.promote(policy=EASY)
    assert (first.sources, second.sources) == (("one", "other"), ("open",))
    assert first.successor != second.successor
    ends: dict[str, datetime | None] = column(url, "valid_to")
    assert (ends[str(first.successor)], ends[str(second.successor)]) == (ended, None)
    assert column(url, "valid_from")[str(first.successor)] == began
    clock.advance(days=10)
    assert found(memory) == [second.successor]


def test_what_was_merged_and_taken_apart_is_promoted_all_the_same(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock
) -> None:
    fact(memory, "one", PATTERN, memory_type="pattern")
    fact(memory, "two", PATTERN, memory_type="pattern")
    clock.advance(hours=1)
    (move,) = done(store, step("merge"), cycle(store))["moves"]
    assert memory.rollback(move)
    helped(memory, "one")
    helped(memory, "two")
    (promotion,) = [one for one in memory.promote(policy=EASY) if one.promoted]
    assert promotion.sources == ("one", "two")


# Lessons of what was taken back


def test_a_lesson_of_a_retracted_attempt_is_suspect_until_that_is_restored(
    memory: MemoryCoordinator,
) -> None:
    memory.reflect([FAILED])
    (attempt,) = found(memory)
    memory.retract(attempt, reason="it was another tool")
    (lesson,) = memory.reflect([replace(FAILED, succeeded_with="pip install y")])
    assert found(memory) == []
    assert memory.explain(str(lesson.key)).state == "suspect"
    memory.restore(attempt)
    assert found(memory) == [lesson.key]


# The way back


def content(url: str) -> dict[str, Any]:
    """Every stored row but those of events."""
    return {name: rows for name, rows in tables(url).items() if name != "events"}


def used(url: str, tenant: str) -> list[tuple[Any, ...]]:
    query = """SELECT m.key, m.state, u.access_count, u.success_count, u.failure_count,
                      u.last_accessed_at, u.strength_at, round(u.strength::numeric, 9)
               FROM memory.usage u JOIN memory.memories m USING (tenant, id)
               WHERE m.tenant = %s ORDER BY 1"""
    with psycopg.connect(url) as conn:
        return conn.execute(query, [tenant]).fetchall()


def test_a_merge_that_is_rolled_back_leaves_the_very_rows_there_were(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock, url: str
) -> None:
    alike(store, memory, clock)
    at = cycle(store)
    before = content(url)
    moves = done(store, step("merge"), at)["moves"]
    assert content(url) != before
    assert [memory.rollback(one) for one in moves] == [True]
    assert content(url) == before


def test_what_happens_between_a_merge_and_its_rollback_stays_with_the_oldest(
    store: TieredStore, clock: Clock, url: str
) -> None:
    def ends(tenant: str, *, merged: bool) -> list[tuple[Any, ...]]:
        mine = coordinator(store, tenant, project_id="billing", session_id="chat")
        clock.now = began
        alike(store, mine, clock)
        at = cycle(store, tenant=tenant)
        moves = done(store, step("merge"), at)["moves"] if merged else []
        for _ in range(2):
            clock.advance(days=2)
            helped(mine, "one")
            store.run(store.flows.flush())
        assert all(mine.rollback(one) for one in moves)
        return used(url, tenant)

    began = clock.now
    assert ends("merged", merged=True) == ends("apart", merged=False)


def test_a_rise_that_is_rolled_back_leaves_the_very_rows_there_were(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock, url: str
) -> None:
    memory.store("The launch is on 3 May", tier="short_term", key="one", importance=0.9)
    clock.advance(minutes=1)
    at = cycle(store)
    before = content(url)
    (move,) = done(store, step("rise"), at)["moves"]
    assert column(url, "tier") == {"one": "working"}
    helped(memory, "one")
    store.run(store.flows.flush())
    assert memory.rollback(move)
    after = content(url)
    assert {name: after[name] for name in ("memories", "vectors", "lineage")} == {
        name: before[name] for name in ("memories", "vectors", "lineage")
    }
    ((key, _, accesses, successes, *_),) = used(url, "acme")
    assert (key, accesses, successes) == ("one", 1, 1)


# What is near


def test_what_is_near_by_words_is_what_shares_most_of_them(
    store: TieredStore, memory: MemoryCoordinator
) -> None:
    chosen = random.Random(7)  # noqa: S311 - a sample
    texts = {f"k{n}": frozenset(chosen.choices(WORDS, k=6)) for n in range(30)}
    for key, words in texts.items():
        fact(memory, key, " ".join(sorted(words)))
    at = cycle(store)
    ids = store.run(step("merge").select(at, 0, 100))
    keys = {one.id: one.key for one in store.run(read(at, ids))}
    params = {"tenant": "acme", "ids": ids, "alive_at": None, "same_tier": True, "also": None}
    limits = {"limit": 100, "overlap": stored.OVERLAP, "looked_at": stored.LOOKED_AT}

    def near() -> Flow[Rows]:
        (rows,) = yield Query((Call("near_by_words", {**params, **limits}),), commit=True)
        found: Rows = rows
        return found

    def overlap(one: frozenset[str], other: frozenset[str]) -> float:
        return len(one & other) / len(one | other)

    found = {(keys[one], keys[other]): share for one, other, share in store.run(near())}
    pairs = ((one, other) for one in texts for other in texts if one != other)
    wanted = {pair: overlap(texts[pair[0]], texts[pair[1]]) for pair in pairs}
    assert found == {pair: pytest.approx(one) for pair, one in wanted.items() if one >= 0.2}


WORDS = [f"w{n}x" for n in range(25)]
