"""What a session said is read once at its end by a model that is named, and all of it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from langchain.agents import create_agent
from langchain_core.language_models import FakeListChatModel

from langmem_tiers import (
    ArchivalPolicy,
    ConsolidationPolicy,
    ConsolidationReport,
    MemoryContext,
    MemoryCoordinator,
    TieredMemoryMiddleware,
    TieredStore,
    create_consolidation_graph,
)
from langmem_tiers.core.errors import ModelError
from tests.support.coordinating import coordinator
from tests.support.opening import Clock, tables
from tests.support.reading import Reading, notes_in
from tests.support.sessions import there, types

ONLY_SESSIONS = ConsolidationPolicy(merge=None, supersede=None, promotion=None, decay=False)


def talk(store: TieredStore, *says: str, answer: str = "Noted.", thread: str = "chat") -> None:
    """Say things to an agent that remembers, each as an invocation of its own."""
    agent: Any = create_agent(
        FakeListChatModel(responses=[answer]),
        middleware=[TieredMemoryMiddleware()],
        context_schema=MemoryContext,
        store=store,
    )
    for one in says:
        message = {"role": "user", "content": one, "id": str(uuid4())}
        config: Any = {"configurable": {"thread_id": thread}}
        whose = MemoryContext(tenant="acme", project_id="billing", session_id=thread)
        agent.invoke({"messages": [message]}, config, context=whose)


def night(store: TieredStore, model: Reading | None) -> ConsolidationReport:
    """What a cycle of the tenant reports."""
    graph: Any = create_consolidation_graph(model, policy=ONLY_SESSIONS, store=store)
    state = graph.invoke({}, context=MemoryContext(tenant="acme"))
    return ConsolidationReport.of(state["consolidated"])


@pytest.fixture
def memory(store: TieredStore) -> MemoryCoordinator:
    return coordinator(store, project_id="billing", session_id="chat")


def test_what_an_agents_session_said_is_read_once_and_stays(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock
) -> None:
    talk(store, "I live in Lisbon with my dog Rex.", answer="Then we ship by boat.")
    model = Reading()

    report = memory.admin.consolidate_session(model=model)

    (shown,) = model.shown
    assert "Lisbon" in shown
    assert "we ship by boat" in shown
    assert (report.cleared, len(report.semantic), len(report.episodic)) == (0, 1, 1)
    digest = there(memory.get(report.episodic[0]))
    assert digest.content.splitlines()[1:] == ["From I live in Lisbon with my dog Rex. on"]
    learned = memory.learning.explain(report.semantic[0])
    assert [one.content for one in learned.origins] == ["Then we ship by boat."]
    assert len(memory.learning.explain(report.episodic[0]).origins) == 2
    assert len(memory.get_context("", memory_types=["episodic"])) == 3  # what was said stays

    assert memory.admin.consolidate_session(model=model).episodic == ()
    clock.advance(days=2)
    talk(store, "We moved to Porto.")
    memory.admin.consolidate_session(model=model)
    assert len(model.shown) == 2
    assert "Porto" in model.shown[1]
    assert "Lisbon" not in model.shown[1]


@pytest.mark.slow
def test_all_that_an_agent_was_told_is_there_after_a_year_of_sweeps_and_cycles(
    store: TieredStore, clock: Clock, tmp_path: Path
) -> None:
    said = [f"My cousin number {n} lives in house {n * 7}." for n in range(20)]
    talk(store, *said)
    policy = ConsolidationPolicy(archive=ArchivalPolicy(url=str(tmp_path), max_share=1))
    graph: Any = create_consolidation_graph(policy=policy, store=store)
    for _ in range(8):
        clock.advance(days=50)
        store.sweep_ttl()
        graph.invoke({}, context=MemoryContext(tenant="acme"))
    another = coordinator(store, project_id="billing", session_id="another")
    found = another.get_context("Where do my cousins live?", limit=100)
    assert {*said} <= {one.content for one in found}


def test_without_a_model_what_was_said_stays_as_it_is(
    store: TieredStore, memory: MemoryCoordinator, url: str
) -> None:
    talk(store, "I live in Lisbon with my dog Rex.")
    before = tables(url)
    report = memory.admin.consolidate_session()
    assert (report.cleared, report.semantic, report.episodic) == (0, (), ())
    assert tables(url) == before


@pytest.mark.parametrize("long", [False, True])
def test_a_session_of_any_length_is_read_whole_in_pieces(
    memory: MemoryCoordinator, *, long: bool
) -> None:
    said = [f"Row {n} of the ledger is {n * n} {'.' * 300}" for n in range(300)]
    texts = ["\n".join(said)] if long else said
    memory.store_many([{"content": one, "speaker": "user"} for one in texts])
    model = Reading()
    report = memory.admin.consolidate_session(model=model)
    assert all(len(one) < 50_000 for one in model.shown)
    assert "".join(note for one in model.shown for note in notes_in(one)) == "".join(texts)
    assert len(model.shown) > 3
    assert report.semantic


def test_a_cycle_with_a_model_reads_each_session_that_has_been_idle_for_a_day_once(
    store: TieredStore, clock: Clock, url: str
) -> None:
    talk(store, "I live in Lisbon with my dog Rex.", thread="monday", answer="")
    clock.advance(hours=30)
    talk(store, "Where do I live?", thread="tuesday", answer="")
    model = Reading()
    assert night(store, None).count("session_end") == 0
    assert night(store, model).count("session_end") == 1
    assert ("Lisbon" in model.shown[0], "Where" in model.shown[0]) == (True, False)
    clock.advance(hours=30)
    assert night(store, model).count("session_end") == 1
    assert "Where" in model.shown[1]
    clock.advance(days=400)
    assert night(store, model).count("session_end") == 0
    assert types(url) == {"episodic": 4, "semantic": 2}


def test_what_a_session_noted_and_said_is_read_together(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock
) -> None:
    memory.store("The mailer hangs", "working", source="agent")
    clock.advance(minutes=1)
    talk(store, "Raise its timeout.")
    clock.advance(days=2)
    model = Reading()
    assert night(store, model).count("session_end") == 1
    (shown,) = model.shown
    assert shown.index("mailer") < shown.index("timeout")
    assert memory.admin.session_notes() == []
    assert night(store, model).count("session_end") == 0


async def test_two_that_end_a_session_at_once_keep_what_it_said_once(
    store: TieredStore, memory: MemoryCoordinator, url: str
) -> None:
    talk(store, "I live in Lisbon with my dog Rex.")
    models = [Reading() for _ in range(3)]
    ends = [asyncio.to_thread(memory.admin.consolidate_session, model=one) for one in models]
    reports = await asyncio.gather(*ends)
    assert sum(len(one.semantic) for one in reports) == 1
    assert types(url) == {"episodic": 3, "semantic": 1}


def test_what_is_deleted_while_a_model_reads_is_not_kept_by_it(
    store: TieredStore, memory: MemoryCoordinator
) -> None:
    talk(store, "I live in Lisbon.", "My PIN is 4711.", answer="")
    (pin,) = [one for one in memory.get_context("") if "PIN" in one.content]
    model = Reading(before=lambda: memory.delete_memory(pin.key))
    report = memory.admin.consolidate_session(model=model)
    assert len(model.shown) == 2
    kept = [there(memory.get(key)).content for key in (*report.semantic, *report.episodic)]
    assert not any("4711" in one for one in kept)


def test_what_was_drawn_from_something_goes_with_it_when_that_is_taken_back(
    store: TieredStore, memory: MemoryCoordinator
) -> None:
    talk(store, "My PIN is 4711.", answer="")
    memory.admin.consolidate_session(model=Reading())
    (pin,) = [one for one in memory.get_context("") if one.content == "My PIN is 4711."]
    memory.truth.retract(pin.key, reason="It is a secret")
    assert memory.get_context("") == []
    assert memory.delete_memory(pin.key)
    assert memory.get_context("") == []


def test_a_model_that_fails_leaves_the_session_to_be_read_another_time(
    store: TieredStore, memory: MemoryCoordinator, url: str
) -> None:
    talk(store, "I live in Lisbon with my dog Rex.")
    before = tables(url)
    with pytest.raises(ModelError):
        memory.admin.consolidate_session(model=Reading(fails=True))
    assert tables(url) == before
    assert memory.admin.consolidate_session(model=Reading()).semantic
