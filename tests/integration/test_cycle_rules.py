"""What each step of a cycle does to stored memories, and what it leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta

import psycopg
import pytest

from langmem_tiers import MemoryCoordinator, TieredStore
from langmem_tiers.consolidate.models import Judge, Pair
from langmem_tiers.consolidate.policy import ConsolidationPolicy, MergePolicy
from langmem_tiers.core.errors import ModelError
from tests.support.coordinating import coordinator
from tests.support.cycling import (
    CHAT,
    NOTHING,
    alike,
    column,
    contradicting,
    cycle,
    done,
    expired,
    fact,
    failed,
    important,
    judged,
    proposed,
    step,
    usage,
)
from tests.support.learning import broken
from tests.support.opening import Clock, tables, text_index, tier_of


@pytest.fixture
def store(url: str, clock: Clock) -> Iterator[TieredStore]:
    """A store on an empty database."""
    with psycopg.connect(url) as conn:
        conn.execute("DELETE FROM memory.leases")
        conn.execute("DELETE FROM memory.cycles")
    with TieredStore.from_conn_string(url, index=text_index(), clock=clock) as store:
        yield store
    assert broken(url) == {}


@pytest.fixture
def memory(store: TieredStore) -> MemoryCoordinator:
    """A project's coordinator in a session."""
    return coordinator(store, project_id="billing", session_id="chat")


# Expiry


def test_what_has_expired_is_removed_with_all_that_hangs_on_it(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock, url: str
) -> None:
    expired(store, memory, clock)
    fact(memory, "stays", "Anna likes green tea")
    assert sum(done(store, step("expire"), cycle(store))["done"].values()) == 2
    assert column(url, "tier").keys() == {"stays"}
    assert len(tables(url)["vectors"]) == 1


def test_what_is_read_before_it_is_removed_lives_on(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock, url: str
) -> None:
    expired(store, memory, clock)
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


def test_another_tenant_is_left_alone(store: TieredStore, clock: Clock, url: str) -> None:
    expired(store, coordinator(store, "other", session_id="chat"), clock)
    assert done(store, step("expire"), cycle(store)) == NOTHING
    assert len(column(url, "tier")) == 2


# Rising


def test_what_rises_is_found_in_every_session_and_does_not_expire(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock, url: str
) -> None:
    important(store, memory, clock)
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


def test_what_rose_is_compared_though_it_was_not_written_since_the_last_cycle(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock, url: str
) -> None:
    for key in ("one", "two"):
        memory.store("The launch is on 3 May", "semantic", tier="short_term", key=key)
        clock.advance(minutes=2)
    done(store, step("merge"), cycle(store))
    clock.advance(minutes=5)
    at = cycle(store, "second", ended=CHAT)
    done(store, step("rise"), at)
    assert done(store, step("merge"), at)["done"]
    assert column(url, "state") == {"one": None, "two": "consolidated"}


# Merging


def test_the_oldest_lives_on_with_the_evidence_of_all(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock, url: str
) -> None:
    alike(store, memory, clock)
    applied = done(store, step("merge"), cycle(store))
    assert (sum(applied["done"].values()), len(applied["moves"])) == (2, 1)
    assert column(url, "state") == {"one": None, "two": "consolidated", "three": "consolidated"}
    assert column(url, "state_at")["two"] == clock.now
    accesses, _, strength, _ = usage(url, "one") or ()
    assert accesses == 4
    assert strength == pytest.approx(2 + 2 * 0.5 ** (3 / 30))
    assert [one.key for one in memory.get_context("green tea")] == ["one"]


def test_what_is_apart_is_not_merged(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock
) -> None:
    fact(memory, "one", "Anna likes green tea")
    fact(memory, "a happening", "Anna likes green tea", memory_type="pattern")
    fact(memory, "another", "Anna likes black tea")
    fact(coordinator(store, project_id="shipping"), "another project", "Anna likes green tea")
    fact(coordinator(store, "other", project_id="billing"), "tenant", "Anna likes green tea")
    memory.store("Anna likes green tea", "semantic", tier="long_term", key="for all")
    clock.advance(hours=1)
    found = proposed(store, step("merge"), cycle(store))
    assert found == {"decisions": [], "kept": {"nothing says the same": 5}}


def test_what_says_the_same_of_another_time_is_not_merged(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock, url: str
) -> None:
    alike(store, memory, clock)
    with psycopg.connect(url) as conn:
        ended = [clock.now - timedelta(hours=1)]
        conn.execute("UPDATE memory.memories SET valid_to = %s WHERE key = 'one'", ended)
    memory.delete_memory("three")
    found = proposed(store, step("merge"), cycle(store))
    assert found == {"decisions": [], "kept": {"it says the same of another time": 1}}


def test_a_memory_goes_with_the_one_that_it_was_merged_into(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock, url: str
) -> None:
    alike(store, memory, clock)
    done(store, step("merge"), cycle(store))
    memory.delete_memory("one")
    assert column(url, "state") == {}


def test_what_is_said_anew_after_a_merge_is_counted_once(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock, url: str
) -> None:
    alike(store, memory, clock)
    done(store, step("merge"), cycle(store))
    clock.advance(hours=1)
    fact(memory, "two", "Anna likes green tea")
    assert column(url, "state")["two"] is None
    clock.advance(hours=1)
    before = usage(url, "one")
    second = cycle(store, "second")
    assert done(store, step("merge"), second)["done"]
    assert column(url, "state")["two"] == "consolidated"
    assert usage(url, "one") == before


def test_what_is_taken_back_after_a_decay_leaves_what_the_oldest_would_have(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock, url: str
) -> None:
    alike(store, memory, clock)
    at = cycle(store)
    _, _, own, since = usage(url, "one") or ()
    (move,) = done(store, step("merge"), at)["moves"]
    clock.advance(days=30)
    assert done(store, step("decay"), cycle(store, "second"))["done"]
    memory.rollback(move)
    faded = own * 0.5 ** ((clock.now - since) / timedelta(days=30))
    assert usage(url, "one") == (1, 0, pytest.approx(faded), clock.now)


def test_words_alone_find_what_says_the_same_in_a_store_without_vectors(
    new_url: Callable[[], str], clock: Clock
) -> None:
    url = new_url()
    with psycopg.connect(url) as conn:
        conn.execute("DROP SCHEMA memory, short_term, working, long_term CASCADE")
    with TieredStore.from_conn_string(url, index={"fields": ["content"]}, clock=clock) as store:
        store.setup()
        memory = coordinator(store, project_id="billing")
        alike(store, memory, clock)
        contradicting(store, coordinator(store, project_id="ports"), clock)
        at = cycle(store)
        assert sum(done(store, step("merge"), at)["done"].values()) == 2
        assert sum(done(store, step("supersede"), at)["done"].values()) == 2


# Superseding


def test_what_is_contradicted_was_true_until_the_newer_one(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock, url: str
) -> None:
    contradicting(store, memory, clock)
    done(store, step("supersede"), cycle(store))
    began, ended = column(url, "created_at"), column(url, "valid_to")
    assert ended == {"one": began["two"], "two": began["three"], "three": None}
    assert column(url, "state") == {"one": "superseded", "two": "superseded", "three": None}
    assert column(url, "state_at")["one"] == clock.now
    assert [one.key for one in memory.get_context("deployment port")] == ["three"]


def test_what_is_told_late_ends_where_the_next_one_began(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock, url: str
) -> None:
    began = clock.now
    contradicting(store, memory, clock)
    done(store, step("supersede"), cycle(store))
    fact(
        memory,
        "late",
        "The deployment port is 8080",
        occurred_at=began + timedelta(hours=1),
    )
    clock.advance(hours=1)
    done(store, step("supersede"), cycle(store, "second"))
    assert column(url, "state")["late"] == "superseded"
    assert column(url, "valid_to")["late"] == began + timedelta(days=1)


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


def test_what_happened_is_not_contradicted(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock
) -> None:
    for key, port in (("one", 80), ("two", 443)):
        fact(memory, key, f"The deployment port is {port}", memory_type="episodic")
        clock.advance(days=1)
    assert proposed(store, step("supersede"), cycle(store)) == {"decisions": [], "kept": {}}


# A model as judge


def judge(*yes: str, fails: bool = False) -> tuple[Judge, list[tuple[str, set[str]]]]:
    """A model that says yes of pairs with one of these words, and what it was asked."""
    asked: list[tuple[str, set[str]]] = []

    def call(question: str, pairs: Sequence[Pair]) -> list[bool]:
        asked.extend((question, {one.content, other.content}) for one, other in pairs)
        if fails:
            raise ModelError("no answer")
        return [any(word in other.content for word in yes) for _, other in pairs]

    async def acall(question: str, pairs: Sequence[Pair]) -> list[bool]:
        return call(question, pairs)

    return Judge(call, acall), asked


WIDE = ConsolidationPolicy(merge=MergePolicy(near_duplicate=0.3))


def test_a_model_is_asked_where_the_rules_have_no_word(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock, url: str
) -> None:
    fact(memory, "one", "Anna prefers green tea")
    clock.advance(hours=1)
    fact(memory, "two", "Anna prefers green tea over all")
    fact(memory, "three", "Anna prefers green tea, or so she claimed")
    clock.advance(hours=1)
    at = cycle(store)
    for name, word in (("merge", "over all"), ("supersede", "claimed")):
        model, asked = judge(word)
        assert done(store, step(name, WIDE, judge=model), at)["done"]
        assert {question for question, _ in asked} == {"same" if name == "merge" else "contradicts"}
    assert column(url, "state") == {"one": "superseded", "two": "consolidated", "three": None}


@pytest.mark.parametrize("name", ["merge", "supersede"])
def test_where_a_model_fails_the_step_fails_and_can_be_done_again(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock, name: str
) -> None:
    fact(memory, "one", "Anna prefers green tea")
    clock.advance(hours=1)
    fact(memory, "two", "Anna prefers green tea over all")
    clock.advance(hours=1)
    failing, asked = judge(fails=True)
    at = cycle(store)
    with pytest.raises(ModelError):
        proposed(store, step(name, WIDE, judge=failing), at)
    assert asked
    model, _ = judge("over all")
    assert len(judged(store, step(name, WIDE, judge=model), at)) == 1


# Promotion, demotion and decay


def test_those_that_say_the_same_are_promoted_by_one_move(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock, url: str
) -> None:
    for key in ("one", "two"):
        fact(memory, key, "Retry a POST only with a key", memory_type="pattern")
    memory.record_outcome(memory.get_context("retry", limit=2), success=True)
    clock.advance(days=1)
    at = cycle(store)
    applied = done(store, step("promote"), at)
    assert (applied["done"], len(applied["moves"])) == ({"it has proven itself": 2}, 1)
    assert column(url, "state")["two"] == "consolidated"
    assert set(column(url, "created_at").values()) == {clock.now - timedelta(days=1), clock.now}


def test_a_demotion_keeps_what_has_not_failed(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock
) -> None:
    failed(store, memory, clock)
    for run in "cde":
        memory.get_context("retry", run_id=run)
        memory.record_outcome(success=True, run_id=run)
    found = proposed(store, step("demote"), cycle(store))
    assert found == {"decisions": [], "kept": {"later outcomes have not turned against it": 1}}


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
