"""What each step of a cycle does to stored memories, and what it leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from langmem_tiers import MemoryCoordinator, TieredStore
from langmem_tiers.consolidate import lease
from langmem_tiers.consolidate.cycle import steps
from langmem_tiers.consolidate.judge import Judge, Pair
from langmem_tiers.consolidate.policy import ConsolidationPolicy, MergePolicy
from langmem_tiers.consolidate.steps import Applied, Cycle, Decision, Proposal, Step
from langmem_tiers.errors import LeaseLostError, ModelError
from langmem_tiers.flow import Flow, Query
from langmem_tiers.learn.policy import PromotionPolicy
from langmem_tiers.memory import Moment
from tests.support.coordinating import coordinator
from tests.support.learning import broken
from tests.support.opening import Clock, tables, text_index, tier_of
from tests.support.plans import calls_of

EASY = PromotionPolicy(
    min_access_count=0, min_success_rate=0.0, min_age_days=0.0, min_projects=1, demote_after=1
)
STEPS = ("expire", "rise", "merge", "supersede", "demote", "promote", "decay")
NOTHING: Applied = {"done": {}, "left": {}, "moves": []}


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


def cycle(store: TieredStore, name: str = "first", **given: Any) -> Cycle:
    """A cycle of a tenant that begins now."""
    store.run(store.flows.flush())
    fields = {
        "tenant": "acme",
        "cycle": name,
        "moment": Moment(store.flows.now),
        "policy": ConsolidationPolicy(),
        "options": store.options,
    }
    return Cycle(**{**fields, **given})


def step(name: str, policy: ConsolidationPolicy | None = None, **given: Any) -> Step:
    """The step of that name."""
    policy = policy or ConsolidationPolicy(promotion=EASY)
    (found,) = [one for one in steps(policy, **given) if one.name == name]
    return found


def proposed(store: TieredStore, one: Step, at: Cycle) -> Proposal:
    """What a step proposes of everything that it selects."""
    ids = store.run(one.select(at, 0, 100))
    return store.run(one.propose(at, ids)) if ids else Proposal(decisions=[], kept={})


def judged(store: TieredStore, one: Step, at: Cycle) -> list[Decision]:
    """What a step decides of everything that it selects."""
    return proposed(store, one, at)["decisions"]


def done(store: TieredStore, one: Step, at: Cycle) -> Applied:
    """What comes of all that a step selects."""
    applied = store.run(one.apply(at, judged(store, one, at)))
    store.run(one.finish(at))
    return applied


def column(url: str, name: str) -> dict[str, Any]:
    """A column of each memory by key."""
    query = f"SELECT key, {name} FROM memory.memories"  # noqa: S608 - a name of ours
    with psycopg.connect(url) as conn:
        return dict(conn.execute(query.encode()).fetchall())


def usage(url: str, key: str) -> tuple[Any, ...] | None:
    """Accesses, strength and since when of a memory."""
    query = """SELECT u.access_count, u.success_count, u.strength, u.strength_at
               FROM memory.memories m JOIN memory.usage u USING (tenant, id) WHERE m.key = %s"""
    with psycopg.connect(url) as conn:
        return conn.execute(query, [key]).fetchone()


def without_events(url: str) -> dict[str, Any]:
    """Every stored row but those of events."""
    return {name: rows for name, rows in tables(url).items() if name != "events"}


def fact(memory: MemoryCoordinator, key: str, content: str, **given: Any) -> None:
    """Remember that something is so, in working."""
    memory.store(content, given.pop("memory_type", "semantic"), tier="working", key=key, **given)


Prepare = Callable[[TieredStore, MemoryCoordinator, Clock], None]


def _expired(_: TieredStore, memory: MemoryCoordinator, clock: Clock) -> None:
    memory.store("gone soon", "episodic", tier="short_term", key="one")
    memory.store("gone as well", "episodic", tier="short_term", key="two")
    clock.advance(hours=2)


def _important(_: TieredStore, memory: MemoryCoordinator, clock: Clock) -> None:
    memory.store("The launch is on 3 May", "episodic", tier="short_term", key="one", importance=0.9)
    memory.store("small talk", "episodic", tier="short_term", key="two")
    clock.advance(minutes=5)


def _alike(store: TieredStore, memory: MemoryCoordinator, clock: Clock) -> None:
    fact(memory, "one", "Anna likes green tea")
    clock.advance(hours=1)
    fact(memory, "two", "Anna likes green tea.")
    fact(memory, "three", "ANNA LIKES GREEN TEA")
    memory.get("two")
    memory.get("three")
    store.run(store.flows.flush())
    clock.advance(days=3)
    memory.get("one")
    memory.get("three")
    clock.advance(hours=1)


def _contradicting(_: TieredStore, memory: MemoryCoordinator, clock: Clock) -> None:
    fact(memory, "one", "The deployment port is 80")
    clock.advance(days=1)
    fact(memory, "two", "The deployment port is 443")
    clock.advance(days=1)
    fact(memory, "three", "The deployment port is 8443")
    clock.advance(hours=1)


def _proven(_: TieredStore, memory: MemoryCoordinator, clock: Clock) -> None:
    fact(memory, "one", "Retry a POST only with a key", memory_type="pattern")
    shown = memory.get_context("retry", run_id="run")
    assert [one.key for one in shown] == ["one"]
    memory.record_outcome(success=True, run_id="run")
    clock.advance(days=1)


def _failed(store: TieredStore, memory: MemoryCoordinator, clock: Clock) -> None:
    _proven(store, memory, clock)
    assert done(store, step("promote"), cycle(store, "before"))["done"]
    clock.advance(days=1)
    for run in ("a", "b"):
        memory.get_context("retry", run_id=run)
        memory.record_outcome(success=False, run_id=run)


def _read(_: TieredStore, memory: MemoryCoordinator, clock: Clock) -> None:
    fact(memory, "one", "Anna likes green tea")
    memory.get("one")
    clock.advance(days=30)


PREPARE: dict[str, Prepare] = {
    "expire": _expired,
    "rise": _important,
    "merge": _alike,
    "supersede": _contradicting,
    "demote": _failed,
    "promote": _proven,
    "decay": _read,
}
MOVING = ("rise", "merge", "supersede", "demote", "promote")


# Of every step


def test_steps_come_in_the_order_of_a_cycle_without_those_that_are_off() -> None:
    assert tuple(one.name for one in steps(ConsolidationPolicy())) == STEPS
    nothing = ConsolidationPolicy(
        expiry=False, rise=None, merge=None, supersede=None, promotion=None, decay=False
    )
    assert steps(nothing) == ()


@pytest.mark.parametrize("name", STEPS)
def test_decisions_that_are_applied_again_change_nothing(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock, url: str, name: str
) -> None:
    PREPARE[name](store, memory, clock)
    at, one = cycle(store), step(name)
    decisions = judged(store, one, at)
    assert decisions
    before = tables(url)
    first = store.run(one.apply(at, decisions))
    after = tables(url)
    assert after != before
    assert sum(first["done"].values()) == len(decisions)
    assert store.run(one.apply(at, decisions)) == first
    assert tables(url) == after


@pytest.mark.parametrize("name", STEPS)
def test_a_second_cycle_finds_nothing_left_to_do(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock, url: str, name: str
) -> None:
    PREPARE[name](store, memory, clock)
    assert done(store, step(name), cycle(store))["done"]
    clock.advance(minutes=10)
    before = tables(url)
    assert done(store, step(name), cycle(store, "second")) == NOTHING
    assert tables(url) == before


@pytest.mark.parametrize("name", STEPS)
def test_a_tenant_that_somebody_else_consolidates_is_left_alone(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock, url: str, name: str
) -> None:
    PREPARE[name](store, memory, clock)
    fence = store.run(lease.acquire("acme", "one", clock.now, 60))
    at = cycle(store, fence=fence)
    one = step(name)
    decisions = judged(store, one, at)
    clock.advance(minutes=2)
    newer = store.run(lease.acquire("acme", "two", clock.now, 60))
    before = tables(url)
    for late in (at, at._replace(fence=None)):
        with pytest.raises(LeaseLostError, match="'acme'"):
            store.run(one.apply(late, decisions))
    assert tables(url) == before
    assert store.run(one.apply(at._replace(fence=newer), decisions))["done"]


@pytest.mark.parametrize("name", [one for one in STEPS if one not in ("expire", "decay")])
def test_what_changed_since_it_was_judged_is_left(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock, url: str, name: str
) -> None:
    PREPARE[name](store, memory, clock)
    at, one = cycle(store), step(name)
    decisions = judged(store, one, at)
    with psycopg.connect(url) as conn:
        conn.execute("UPDATE memory.memories SET updated_at = updated_at + interval '1 second'")
    before = tables(url)
    applied = store.run(one.apply(at, decisions))
    assert sum(applied["left"].values()) == len(decisions)
    assert applied["done"] == {} and applied["moves"] == []  # noqa: PT018 - one claim
    assert tables(url) == before


@pytest.mark.parametrize("name", MOVING)
def test_a_move_that_is_rolled_back_leaves_the_very_rows_there_were(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock, url: str, name: str
) -> None:
    PREPARE[name](store, memory, clock)
    at = cycle(store)
    before = without_events(url)
    applied = done(store, step(name), at)
    assert applied["moves"]
    assert without_events(url) != before
    clock.advance(hours=1)
    for move in reversed(applied["moves"]):
        assert memory.rollback(move)
    assert without_events(url) == before


@pytest.mark.parametrize("name", ["merge", "supersede"])
def test_what_was_rolled_back_is_not_done_again(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock, url: str, name: str
) -> None:
    PREPARE[name](store, memory, clock)
    for move in reversed(done(store, step(name), cycle(store))["moves"]):
        memory.rollback(move)
    with psycopg.connect(url) as conn:
        conn.execute("UPDATE memory.memories SET updated_at = %s", [clock.now])
    found = proposed(store, step(name), cycle(store, "second"))
    assert found["decisions"] == []
    assert sum(found["kept"].values()) == 3


@pytest.mark.parametrize("name", [one for one in STEPS if one not in ("promote", "demote")])
def test_a_batch_takes_as_many_statements_as_one_memory(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock, name: str
) -> None:
    at, one = _many(store, memory, clock, name), step(name, ended=frozenset({"chat"}))
    ids = store.run(one.select(at, 0, 100))
    assert len(ids) >= 20
    few = calls_of(store, lambda: store.run(one.propose(at, ids[:2])))
    many = calls_of(store, lambda: store.run(one.propose(at, ids)))
    assert len(few) == len(many) <= 4
    decisions = store.run(one.propose(at, ids))["decisions"]
    assert len(decisions) >= 20
    assert len(calls_of(store, lambda: store.run(one.apply(at, decisions)))) <= 6


def _many(store: TieredStore, memory: MemoryCoordinator, clock: Clock, name: str) -> Cycle:
    """Twenty memories, or pairs, for a step to find."""
    tier = "short_term" if name in ("expire", "rise") else "working"
    for n in range(20):
        memory.store(f"The port of service {n} is 80", "semantic", tier=tier, key=f"a{n}")
    clock.advance(minutes=5)
    if name in ("merge", "supersede"):
        port = "80." if name == "merge" else "443"
        for n in range(20):
            fact(memory, f"b{n}", f"The port of service {n} is {port}")
    if name == "decay":
        memory.get_context("port", limit=100)
    clock.advance(days=2 if name in ("decay", "expire") else 0)
    return cycle(store)


# Expiry


def test_what_has_expired_is_removed_with_all_that_hangs_on_it(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock, url: str
) -> None:
    _expired(store, memory, clock)
    fact(memory, "stays", "Anna likes green tea")
    assert sum(done(store, step("expire"), cycle(store))["done"].values()) == 2
    assert column(url, "tier").keys() == {"stays"}
    assert len(tables(url)["vectors"]) == 1


def test_what_is_read_before_it_is_removed_lives_on(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock, url: str
) -> None:
    _expired(store, memory, clock)
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
    _expired(store, coordinator(store, "other", session_id="chat"), clock)
    assert done(store, step("expire"), cycle(store)) == NOTHING
    assert len(column(url, "tier")) == 2


# Rising


def test_what_rises_is_found_in_every_session_and_does_not_expire(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock, url: str
) -> None:
    _important(store, memory, clock)
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
    other.store("said elsewhere", "episodic", tier="short_term", key="going on")
    other.store("asked for again", "episodic", tier="short_term", key="read")
    for _ in range(3):
        other.get("read")
    clock.advance(minutes=1)
    rise = step("rise", ended=frozenset({"chat"}))
    assert done(store, rise, cycle(store))["done"] == {"its session ended": 1, "accesses >= 3": 1}
    assert column(url, "tier") == {
        "ended": "working", "going on": "short_term", "read": "working",
    }  # fmt: skip


def test_what_rose_is_compared_though_it_was_not_written_since_the_last_cycle(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock, url: str
) -> None:
    for key in ("one", "two"):
        memory.store("The launch is on 3 May", "semantic", tier="short_term", key=key)
        clock.advance(minutes=2)
    done(store, step("merge"), cycle(store))
    clock.advance(minutes=5)
    at = cycle(store, "second")
    done(store, step("rise", ended=frozenset({"chat"})), at)
    assert done(store, step("merge"), at)["done"]
    assert column(url, "state") == {"one": None, "two": "consolidated"}


# Merging


def test_the_oldest_lives_on_with_the_evidence_of_all(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock, url: str
) -> None:
    _alike(store, memory, clock)
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


def test_a_memory_whose_successor_is_deleted_is_current_again(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock, url: str
) -> None:
    _alike(store, memory, clock)
    done(store, step("merge"), cycle(store))
    memory.delete_memory("one")
    assert column(url, "state") == {"two": None, "three": None}


def test_what_is_said_anew_after_a_merge_is_counted_once(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock, url: str
) -> None:
    _alike(store, memory, clock)
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


def test_words_alone_find_what_says_the_same_in_a_store_without_vectors(
    new_url: Callable[[], str], clock: Clock
) -> None:
    url = new_url()
    with psycopg.connect(url) as conn:
        conn.execute("DROP SCHEMA memory, short_term, working, long_term CASCADE")
    with TieredStore.from_conn_string(url, index={"fields": ["content"]}, clock=clock) as store:
        store.setup()
        memory = coordinator(store, project_id="billing")
        _alike(store, memory, clock)
        _contradicting(store, coordinator(store, project_id="ports"), clock)
        at = cycle(store)
        assert sum(done(store, step("merge"), at)["done"].values()) == 2
        assert sum(done(store, step("supersede"), at)["done"].values()) == 2


# Superseding


def test_what_is_contradicted_was_true_until_the_newer_one(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock, url: str
) -> None:
    _contradicting(store, memory, clock)
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
    _contradicting(store, memory, clock)
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
def test_where_a_model_fails_the_rules_decide_and_the_report_says_so(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock, name: str
) -> None:
    fact(memory, "one", "Anna prefers green tea")
    clock.advance(hours=1)
    fact(memory, "two", "Anna prefers green tea over all")
    clock.advance(hours=1)
    model, asked = judge(fails=True)
    found = proposed(store, step(name, WIDE, judge=model), cycle(store))
    assert asked
    assert found == {"decisions": [], "kept": {"the model said nothing usable of it": 2}}


# Promotion, demotion and decay


def test_those_that_say_the_same_are_promoted_by_one_move(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock, url: str
) -> None:
    for key in ("one", "two"):
        fact(memory, key, "Retry a POST only with a key", memory_type="pattern")
    for key in ("one", "two"):
        memory.record_outcome([memory.get(key)], success=True)
    clock.advance(days=1)
    at = cycle(store)
    applied = done(store, step("promote"), at)
    assert (applied["done"], len(applied["moves"])) == ({"it has proven itself": 2}, 1)
    assert column(url, "state")["two"] == "consolidated"
    assert set(column(url, "created_at").values()) == {clock.now - timedelta(days=1), clock.now}


def test_a_demotion_keeps_what_has_not_failed(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock
) -> None:
    _failed(store, memory, clock)
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


# The lease


def test_a_lease_is_somebody_elses_once_it_is_over_and_each_has_a_higher_fence(
    store: TieredStore, clock: Clock
) -> None:
    assert store.run(lease.acquire("acme", "one", clock.now, 60)) == 1
    assert store.run(lease.acquire("acme", "one", clock.now, 60)) == 1
    assert store.run(lease.acquire("acme", "two", clock.now, 60)) is None
    assert store.run(lease.acquire("other", "two", clock.now, 60)) == 1
    clock.advance(seconds=50)
    assert store.run(lease.renew("acme", 1, clock.now, 60))
    clock.advance(seconds=59)
    assert store.run(lease.is_held("acme", clock.now))
    clock.advance(seconds=1)
    assert not store.run(lease.is_held("acme", clock.now))
    assert store.run(lease.acquire("acme", "two", clock.now, 60)) == 2
    assert not store.run(lease.renew("acme", 1, clock.now, 60))
    assert not store.run(lease.release("acme", 1))
    assert store.run(lease.release("acme", 2))
    assert not store.run(lease.renew("acme", 2, clock.now, 60))
    assert store.run(lease.acquire("acme", "one", clock.now, 60)) == 3


def test_a_lease_does_not_change_hands_while_a_step_writes(
    store: TieredStore, clock: Clock, url: str
) -> None:
    fence = store.run(lease.acquire("acme", "one", clock.now, 0))
    at = cycle(store, fence=fence)

    def writing() -> Flow[None]:
        yield Query((lease.guard(at),))
        with psycopg.connect(url, autocommit=True) as conn:
            conn.execute("SET lock_timeout = '50ms'")
            with pytest.raises(psycopg.errors.LockNotAvailable):
                conn.execute("UPDATE memory.leases SET fence = fence + 1 WHERE tenant = 'acme'")

    store.run(writing())


def test_every_tenant_that_has_memories_is_known(store: TieredStore) -> None:
    for tenant in ("beta", "acme", "gamma"):
        fact(coordinator(store, tenant), "one", "Anna likes green tea")
    assert store.run(lease.tenants()) == ["acme", "beta", "gamma"]
