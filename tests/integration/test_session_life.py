"""Notes live as long as their session; nothing is lost to a time to live that nobody chose."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from langgraph.store.base import TTLConfig

from langmem_tiers import (
    ConsolidationReport,
    MemoryCoordinator,
    MemoryHooks,
    MemoryOrchestrator,
    TieredStore,
    create_consolidation_graph,
)
from langmem_tiers.core.config import SESSION_IDLE_MINUTES
from langmem_tiers.core.memory import Tier
from langmem_tiers.core.types import MemoryType
from tests.support.coordinating import Caller, calling, coordinator
from tests.support.opening import Clock, Opener, text_index, tier_of
from tests.support.sessions import texts, there, types

CHEMIST = "Dana is currently working at Novartis as a chemist."
WHOSE: dict[str, Any] = {"project_id": "billing", "session_id": "chat"}
PROMPTS = (
    "The timeout of the invoice API is 30s",
    "Reading the logs of last night",
    "The ledger lives in the blue folder",
    "Comparing two session stores",
    "The mailer drops mails beyond 30 s",
)


@pytest.fixture
def memory(store: TieredStore) -> MemoryCoordinator:
    return coordinator(store, **WHOSE)


def cycle(store: TieredStore, memory: MemoryCoordinator) -> ConsolidationReport:
    """A whole cycle, and what it tells."""
    state = create_consolidation_graph(store=store).invoke({}, context=memory.context)
    return ConsolidationReport.of(state["consolidated"])


# Where a text goes by its wording


async def test_what_is_going_on_is_kept_where_nothing_expires(
    open_store: Opener, url: str, clock: Clock
) -> None:
    async with calling(open_store, url, project_id="billing") as call:
        whose: Any = MemoryOrchestrator(call.memory).begin()
        turn = Caller(whose, call.mode)
        said = await turn("memorize", CHEMIST)
        await turn("commit")
        stored = await call("store", "Waiting for the vendor: next: call them", None)
        clock.advance(days=365)
        known = [await call("get", key) for key in (*said.keys, stored.key)]
    assert [one.tier for one in said.destinations] == ["working"]
    assert [there(one).tier for one in known] == ["working", "working"]


def test_a_type_that_expires_is_the_callers_to_name_and_no_wording_leads_to_it(
    memory: MemoryCoordinator,
) -> None:
    later = "I need to renew the certificate later"
    assert memory.store(later, None).tier == "working"
    assert memory.store(CHEMIST, "working").tier == "short_term"


# A session of several hours


async def test_a_session_of_three_hours_loses_none_of_its_notes(
    open_store: Opener, url: str, clock: Clock
) -> None:
    async with calling(open_store, url, **WHOSE) as call:
        whose: Any = MemoryHooks(call.memory)
        hooks = Caller(whose, call.mode)
        began = clock.now
        await hooks("on_session_start")
        for number, prompt in enumerate(PROMPTS):
            clock.now = began + timedelta(minutes=45 * number)
            await hooks("on_user_prompt_submit", prompt)
        clock.now = began + timedelta(hours=3)
        noted = await call("admin.session_notes")
        stop = await hooks("on_session_stop")
        (digest,) = [there(await call("get", key)) for key in stop.report.episodic]
    assert [one.content for one in noted] == list(PROMPTS)
    assert (stop.report.cleared, stop.report.expired_unread) == (len(PROMPTS), 0)
    assert all(prompt in digest.content for prompt in PROMPTS)


@pytest.mark.parametrize("days", [1, 30, 400])
def test_a_session_that_nobody_ends_loses_nothing_and_a_cycle_ends_it(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock, url: str, days: int
) -> None:
    alone = coordinator(store, project_id="billing")
    for number, prompt in enumerate(PROMPTS):
        memory.store(prompt, "working", speaker="user", key=f"note{number}")
    alone.store("The office closes at six.", "working", speaker="user")
    memory.types.register(MemoryType(name="plan", tier=Tier.SHORT_TERM, title="Plans"))
    memory.store("Call the vendor", "plan", key="plan")
    clock.advance(days=days, minutes=1)
    assert store.sweep_ttl() == 0
    assert [one.content for one in memory.admin.session_notes()] == list(PROMPTS)

    report = cycle(store, memory)
    assert (report.count("session_end"), report.count("rise"), report.count("expire")) == (2, 1, 0)
    assert memory.admin.session_notes() == []
    assert tier_of(url, "plan") == ["working"]
    another = coordinator(store, project_id="billing", session_id="another")
    for said in (*PROMPTS, "The office closes at six."):
        assert any(said in one.content for one in another.get_context(said, min_match=0))
    assert not cycle(store, memory).count("session_end")


def test_a_session_is_idle_once_nobody_wrote_in_it_or_read_its_notes_for_a_day(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock
) -> None:
    namesake = coordinator(store, project_id="shipping", session_id="chat")
    memory.store(PROMPTS[0], "working", key="note")
    namesake.store(PROMPTS[1], "working", key="other")
    clock.advance(hours=20)
    memory.store("Order 7 was refunded", "episodic")  # in working, of the same session
    clock.advance(hours=20)
    assert cycle(store, memory).count("session_end") == 1
    assert namesake.admin.session_notes() == []
    assert there(memory.get("note")).content == PROMPTS[0]
    store.runner.run(store.flows.flush())
    clock.advance(minutes=SESSION_IDLE_MINUTES - 1)
    assert cycle(store, memory).count("session_end") == 0
    clock.advance(minutes=2)
    assert cycle(store, memory).count("session_end") == 1


def test_a_cycle_ends_an_idle_session_and_leaves_what_another_one_notes_beside_it(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock, url: str
) -> None:
    memory.store(PROMPTS[0], "working", tier="working", key="idle")
    memory.store(PROMPTS[1], "working", key="idle too")
    clock.advance(days=2)
    another = coordinator(store, project_id="billing", session_id="another")
    another.store(PROMPTS[2], "working", tier="working", key="active")
    assert cycle(store, memory).count("session_end") == 1
    assert [tier_of(url, key) for key in ("idle", "idle too", "active")] == [[], [], ["working"]]


def test_a_session_goes_on_after_it_was_ended_and_both_of_its_parts_are_kept(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock, url: str
) -> None:
    memory.store(PROMPTS[0], "working", speaker="user")
    clock.advance(days=30)
    cycle(store, memory)
    memory.store(PROMPTS[2], "working", speaker="user")
    clock.advance(days=200)
    cycle(store, memory)
    assert types(url) == {"episodic": 2}
    assert all(said in texts(url) for said in (PROMPTS[0], PROMPTS[2]))


def test_what_is_told_anew_after_something_else_is_shown_as_of_when_it_was_told_last(
    memory: MemoryCoordinator, clock: Clock
) -> None:
    for said in ("The port is 80", "The port is 443", "the port is 80"):
        memory.store(said, speaker="user")
        clock.advance(days=60)
    clock.advance(days=200)
    found = memory.get_context("Which port is it?", deduplicate=True)
    newest = max(found, key=lambda one: one.created_at)
    assert (newest.content, len(found)) == ("the port is 80", 2)


def test_a_life_that_was_chosen_holds_in_a_session_too(url: str, clock: Clock) -> None:
    ttl = TTLConfig(default_ttl=5, omit_expired=True)
    with TieredStore.from_conn_string(url, index=text_index(), clock=clock, ttl=ttl) as store:
        memory = coordinator(store, **WHOSE)
        memory.store(PROMPTS[0], "working", key="note", importance=0.95)
        clock.advance(minutes=6)
        assert memory.admin.session_notes() == []
        report = cycle(store, memory)
    assert (report.count("rise"), report.count("expire")) == (0, 1)


def test_a_note_that_was_moved_up_does_not_expire_when_it_is_told_again(
    memory: MemoryCoordinator, store: TieredStore, clock: Clock
) -> None:
    memory.store(PROMPTS[0], "working", key="note")
    store.move(memory.context.namespace(Tier.SHORT_TERM), "note", "working")
    memory.store(f"{PROMPTS[0]}, at most", "working", key="note")
    clock.advance(days=365)
    assert there(memory.get("note")).tier == "working"


# What a cycle does about what has expired


def test_what_is_important_rises_though_it_has_just_expired(
    store: TieredStore, clock: Clock, url: str
) -> None:
    memory = coordinator(store, project_id="billing")
    for key, importance in (("weighty", 0.95), ("light", 0.1)):
        memory.store(f"A {key} note", "episodic", key=key, importance=importance, tier="short_term")
    clock.advance(minutes=61)
    assert memory.get("weighty") is None
    report = cycle(store, memory)
    assert (report.count("rise"), report.count("expire")) == (1, 1)
    assert (tier_of(url, "weighty"), tier_of(url, "light")) == (["working"], [])
    assert there(memory.get("weighty")).importance == 0.95


def test_a_sweep_leaves_what_a_cycle_would_lift_until_one_ran(
    store: TieredStore, clock: Clock, url: str
) -> None:
    memory = coordinator(store, project_id="billing")
    for key, importance in (("weighty", 0.95), ("read", 0.1), ("light", 0.1)):
        memory.store(f"A {key} note", "episodic", key=key, importance=importance, tier="short_term")
    for _ in range(3):
        memory.get("read")
    place = memory.context.namespace(Tier.SHORT_TERM)
    chosen = {"content": "A chosen note", "importance": 0.95}
    store.tier("short_term").put(place, "chosen", chosen, ttl=9)
    clock.advance(minutes=61)
    store.runner.run(store.flows.flush())
    assert store.sweep_ttl() == 2
    cycle(store, memory)
    found = {key: tier_of(url, key) for key in ("weighty", "read", "light", "chosen")}
    assert found == {"weighty": ["working"], "read": ["working"], "light": [], "chosen": []}


def test_a_sweep_waits_for_a_cycle_of_the_same_tenant_and_a_month_at_most(
    store: TieredStore, clock: Clock, url: str
) -> None:
    memory, other = (coordinator(store, name, project_id="billing") for name in ("acme", "other"))
    for one in (memory, other):
        one.store(
            "A weighty note", "episodic", key=one.context.tenant, importance=0.7, tier="short_term"
        )
    clock.advance(minutes=61)
    assert cycle(store, other).count("rise") == 1
    assert store.sweep_ttl() == 0
    assert tier_of(url, "acme") == ["short_term"]
    clock.advance(days=30)
    assert store.sweep_ttl() == 1
    assert tier_of(url, "acme") == []


def test_a_cycle_counts_what_expired_unread(store: TieredStore, clock: Clock) -> None:
    memory = coordinator(store, project_id="billing")
    for key in ("one", "two", "read"):
        memory.store(f"Looking at file {key}", "episodic", key=key, tier="short_term")
    memory.get("read")
    clock.advance(minutes=62)
    report = cycle(store, memory)
    assert (report.count("expire"), report.expired_unread) == (3, 2)
    assert "2  its time to live is over, and nobody had read it" in str(report)
    assert cycle(store, memory).expired_unread == 0


def test_a_session_end_counts_what_expired_unread(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock
) -> None:
    namespace = memory.context.namespace(Tier.SHORT_TERM)
    for key in ("read", "unread"):
        store.tier("short_term").put(namespace, key, {"content": key, "session_id": "chat"})
    store.get(namespace, "read")
    clock.advance(minutes=62)
    memory.store(PROMPTS[0], "working")
    report = memory.admin.consolidate_session()
    assert (report.cleared, report.expired_unread) == (1, 1)
    assert "1 expired unread" in str(report)
    assert memory.admin.consolidate_session().cleared == 0
