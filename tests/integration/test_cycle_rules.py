"""What each step of a cycle does to stored memories, and what it leaves."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import psycopg
import pytest

from langmem_tiers import MemoryCoordinator, TieredStore
from langmem_tiers.consolidation import merge
from langmem_tiers.consolidation.steps import read_memories
from langmem_tiers.learning.reflexion import FailedAttempt
from langmem_tiers.postgres.flow import Call, Flow, Query, Rows
from tests.support.coordinating import coordinator
from tests.support.cycling import (
    CHAT,
    EASY,
    alike,
    column,
    contradicting,
    cycle,
    done,
    expired,
    fact,
    important,
    judged,
    step,
    usage,
)
from tests.support.learning import broken
from tests.support.opening import Clock, tier_of
from tests.support.reflecting import advising


@pytest.fixture
def memory(store: TieredStore, url: str) -> Iterator[MemoryCoordinator]:
    """A project's coordinator in a session, on a store that stays whole."""
    yield coordinator(store, project_id="billing", session_id="chat")
    assert broken(url) == {}


# Expiry


def test_what_is_read_before_it_is_removed_lives_on(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock, url: str
) -> None:
    expired(memory, clock)
    at, one = cycle(store), step("expire")
    decisions = judged(store, one, at)
    with psycopg.connect(url) as conn:
        conn.execute(
            "UPDATE memory.memories SET expires_at = %s WHERE key = 'one'",
            [clock.now + timedelta(hours=1)],
        )
    applied = store.run(one.apply(at, decisions))
    assert (sum(applied["done"].values()), sum(applied["left"].values())) == (1, 1)
    assert column(url, "tier").keys() == {"one"}


# Rising


def test_what_rises_is_found_in_every_session_and_does_not_expire(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock, url: str
) -> None:
    important(memory, clock)
    assert done(store, step("rise"), cycle(store))["done"] == {"importance >= 0.6": 1}
    assert (tier_of(url, "one"), tier_of(url, "two")) == (["working"], ["short_term"])
    clock.advance(days=90)
    elsewhere = coordinator(store, project_id="billing", session_id="another")
    assert [one.key for one in elsewhere.get_context("launch")] == ["one"]


def test_a_session_that_has_ended_and_frequent_reading_let_memories_rise(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock, url: str
) -> None:
    other = coordinator(store, project_id="billing", session_id="other")
    memory.store("said in a chat", "episodic", tier="short_term", key="ended")
    same_name = coordinator(store, project_id="shipping", session_id="chat")
    same_name.store("said in another project", "episodic", tier="short_term", key="not ours")
    other.store("said elsewhere", "episodic", tier="short_term", key="going on")
    other.store("asked for again", "episodic", tier="short_term", key="read")
    for _ in range(3):
        other.get("read")
    clock.advance(minutes=1)
    assert done(store, step("rise"), cycle(store, ended=CHAT))["done"] == {
        "its session ended": 1,
        "accesses >= 3": 1,
    }
    assert column(url, "tier") == {
        "ended": "working", "going on": "short_term", "read": "working", "not ours": "short_term",
    }  # fmt: skip


# Merging


def test_the_oldest_lives_on_with_the_evidence_of_all_and_what_is_said_anew_counts_once(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock, url: str
) -> None:
    alike(memory, clock)
    applied = done(store, step("merge"), cycle(store))
    assert (sum(applied["done"].values()), len(applied["moves"])) == (2, 1)
    merged = {"one": None, "two": "consolidated", "three": "consolidated"}
    assert column(url, "state") == merged
    assert column(url, "state_at")["two"] == clock.now
    accesses, _, strength, _ = before = usage(url, "one") or ()
    assert accesses == 4
    assert strength == pytest.approx(2 + 2 * 0.5 ** (3 / 30))
    clock.advance(hours=1)
    fact(memory, "two", "Anna likes green tea")
    assert column(url, "state")["two"] is None
    clock.advance(hours=1)
    assert done(store, step("merge"), cycle(store, "second"))["done"]
    assert (column(url, "state"), usage(url, "one")) == (merged, before)
    assert [one.key for one in memory.get_context("green tea")] == ["one"]


def test_words_alone_find_what_says_the_same_in_a_store_without_vectors(
    new_url: Callable[[], str], clock: Clock
) -> None:
    url = new_url()
    with psycopg.connect(url) as conn:
        conn.execute("DROP SCHEMA memory, short_term, working, long_term CASCADE")
    with TieredStore.from_conn_string(url, index={"fields": ["content"]}, clock=clock) as store:
        store.setup()
        memory = coordinator(store, project_id="billing")
        alike(memory, clock)
        contradicting(coordinator(store, project_id="ports"), clock)
        at = cycle(store)
        assert sum(done(store, step("merge"), at)["done"].values()) == 2
        assert sum(done(store, step("supersede"), at)["done"].values()) == 2


# Superseding


def test_what_is_contradicted_was_true_until_the_newer_one_also_if_it_is_told_late(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock, url: str
) -> None:
    first = clock.now
    contradicting(memory, clock)
    done(store, step("supersede"), cycle(store))
    began, ended = column(url, "created_at"), column(url, "valid_to")
    assert ended == {"one": began["two"], "two": began["three"], "three": None}
    assert column(url, "state") == {"one": "superseded", "two": "superseded", "three": None}
    assert column(url, "state_at")["one"] == clock.now
    assert [one.key for one in memory.get_context("deployment port")] == ["three"]

    late = first + timedelta(hours=1)
    fact(memory, "late", "The deployment port is 8080", occurred_at=late)
    clock.advance(hours=1)
    done(store, step("supersede"), cycle(store, "second"))
    assert column(url, "state")["late"] == "superseded"
    assert column(url, "valid_to")["late"] == began["two"]


def test_nothing_is_superseded_before_the_newer_one_is_true(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock, url: str
) -> None:
    fact(memory, "one", "The deployment port is 80")
    soon = clock.now + timedelta(days=2)
    fact(memory, "two", "The deployment port is 443", occurred_at=soon)
    clock.advance(days=1)
    done(store, step("supersede"), cycle(store))
    assert set(column(url, "state").values()) == {None}
    clock.advance(days=2)
    assert done(store, step("supersede"), cycle(store, "second"))["done"]
    assert column(url, "valid_to") == {"one": soon, "two": None}


# Promotion, demotion and decay


def test_strength_halves_in_30_days_however_often_it_is_brought_up_to_date(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock, url: str
) -> None:
    for key in ("one", "two"):
        fact(memory, key, f"Anna likes green tea {key}")
        memory.get(key)
    for n in range(3):
        clock.advance(days=10)
        done(store, step("decay"), cycle(store, f"{n}"))
    assert usage(url, "one") == (1, 0, pytest.approx(0.5), clock.now)
    clock.advance(days=30)
    memory.get("one")
    cycle(store)
    assert usage(url, "one") == (2, 0, pytest.approx(1.25), clock.now)


FAILED = FailedAttempt(task_id="t", approach="pip install x", error="ImportError: x")
PATTERN = "Retry a write only with a key"


def found(memory: MemoryCoordinator, **asked: Any) -> list[str]:
    return sorted(one.key for one in memory.get_context("", limit=100, **asked))


# What is put over what was superseded


def test_other_content_over_what_was_superseded_begins_anew(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock, url: str
) -> None:
    for key, port in (("one", 80), ("two", 443)):
        fact(memory, key, f"The deployment port is {port}")
        clock.advance(days=1)
    (move,) = done(store, step("supersede"), cycle(store))["moves"]
    assert found(memory) == ["two"]
    before = clock.now - timedelta(hours=36)
    fact(memory, "one", "The deployment port is 8443")
    assert found(memory) == ["one", "two"]
    assert found(memory, as_of=before) == []  # what it said then was overwritten
    assert [column(url, name)["one"] for name in ("state", "state_at", "valid_to")] == [None] * 3
    assert not memory.learning.rollback(move)
    history = memory.truth.history("one")
    assert [one.key for one in history.versions] == ["one"]
    assert [one.undone_at is not None for one in history.events] == [True]
    clock.advance(days=1)
    done(store, step("supersede"), cycle(store, "second"))
    assert column(url, "state") == {"one": None, "two": "superseded"}
    assert found(memory) == ["one"]


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
    memory.learning.record_outcome([one], success=True)


@pytest.mark.parametrize("days", [(-9, -1), (1, None)])
def test_what_is_not_true_now_is_not_promoted(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock, days: tuple[Any, Any]
) -> None:
    began, ended = (None if one is None else clock.now + timedelta(days=one) for one in days)
    fact(memory, "one", PATTERN, memory_type="pattern", valid_from=began, valid_to=ended)
    helped(memory, "one")
    clock.advance(hours=1)
    assert not memory.promote_to_long_term("one", policy=EASY).promoted
    assert memory.learning.promote(policy=EASY) == []
    assert not done(store, step("promote"), cycle(store))["done"]


def test_a_successor_is_true_when_its_source_is(
    memory: MemoryCoordinator, clock: Clock, url: str
) -> None:
    began, ended = clock.now - timedelta(days=9), clock.now + timedelta(days=9)
    for key, until in (("one", ended), ("other", ended), ("open", None)):
        fact(memory, key, PATTERN, memory_type="pattern", valid_from=began, valid_to=until)
        helped(memory, key)
    clock.advance(hours=1)
    first, second = memory.learning.promote(policy=EASY)
    assert (first.sources, second.sources) == (("one", "other"), ("open",))
    assert first.successor != second.successor
    ends: dict[str, datetime | None] = column(url, "valid_to")
    assert (ends[str(first.successor)], ends[str(second.successor)]) == (ended, None)
    assert column(url, "valid_from")[str(first.successor)] == began
    clock.advance(days=10)
    assert found(memory) == ["open"]
    assert found(memory, tiers=["long_term"]) == [second.successor]


# Lessons of what was taken back


def test_a_lesson_of_a_retracted_attempt_is_suspect_until_that_is_restored(
    memory: MemoryCoordinator,
) -> None:
    memory.learning.reflect([FAILED])
    (attempt,) = found(memory)
    memory.truth.retract(attempt, reason="it was another tool")
    (lesson,) = memory.learning.reflect([FAILED], model=advising("pip install y"))
    assert found(memory) == []
    assert memory.learning.explain(str(lesson.key)).state == "suspect"
    memory.truth.restore(attempt)
    assert found(memory) == [lesson.key]


# The way back


def used(url: str, tenant: str) -> list[tuple[Any, ...]]:
    query = """SELECT m.key, m.state, u.access_count, u.success_count, u.failure_count,
                      u.last_accessed_at, u.strength_at, round(u.strength::numeric, 9)
               FROM memory.usage u JOIN memory.memories m USING (tenant, id)
               WHERE m.tenant = %s ORDER BY 1"""
    with psycopg.connect(url) as conn:
        return conn.execute(query, [tenant]).fetchall()


def test_what_happens_between_a_merge_and_its_rollback_stays_with_the_oldest(
    store: TieredStore, clock: Clock, url: str
) -> None:
    def ends(tenant: str, *, merged: bool) -> list[tuple[Any, ...]]:
        mine = coordinator(store, tenant, project_id="billing", session_id="chat")
        clock.now = began
        alike(mine, clock)
        at = cycle(store, tenant=tenant)
        moves = done(store, step("merge"), at)["moves"] if merged else []
        for _ in range(2):
            clock.advance(days=2)
            helped(mine, "one")
            store.run(store.flows.flush())
        assert all(mine.learning.rollback(one) for one in moves)
        return used(url, tenant)

    began = clock.now
    assert ends("merged", merged=True) == ends("apart", merged=False)


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
    keys = {one.id: one.key for one in store.run(read_memories(at, ids))}
    params = {"tenant": "acme", "ids": ids, "alive_at": None, "same_tier": True, "also": None}
    limits = {"limit": 100, "overlap": merge.MIN_OVERLAP, "looked_at": merge.MAX_WORD_NEIGHBOURS}

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
