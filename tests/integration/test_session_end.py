"""A session ends: what it noted is kept, its notes are cleared, and nothing is lost on the way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from typing_extensions import TypedDict

from langmem_tiers import MemoryContext, MemoryCoordinator, TieredStore, create_session_end_node
from langmem_tiers.consolidation.session_end import NO_REASON, PINNED, RECALLED, SessionReport
from langmem_tiers.coordinator import sessions
from langmem_tiers.core.errors import (
    ConflictError,
    InvalidInputError,
    InvalidTypeError,
)
from langmem_tiers.core.memory import Tier
from langmem_tiers.learning.outcome import Run
from langmem_tiers.postgres.flow import Query
from tests.support.coordinating import Caller, calling, coordinator, keys
from tests.support.cycling import CHAT, cycle, done, left_by, step
from tests.support.learning import broken
from tests.support.opening import Clock, Opener, tables, tier_of
from tests.support.sessions import NOTES, kept, noted, texts, there, types


@pytest.fixture
def memory(store: TieredStore, url: str) -> Iterator[MemoryCoordinator]:
    yield coordinator(store, project_id="billing", session_id="chat", agent_id="clerk")
    assert broken(url) == {}


def ending(memory: MemoryCoordinator, before: Callable[[Query], object]) -> SessionReport:
    """End a session, and do something before each of its queries."""
    flow = sessions.consolidate_session(memory, None)

    def disturbed() -> Any:
        answer: Any = None
        while True:
            try:
                effect = flow.send(answer)
            except StopIteration as done:
                return done.value
            if isinstance(effect, Query):
                before(effect)
            answer = yield effect

    report: SessionReport = memory.tiered_store.run(disturbed())
    return report


async def test_a_session_leaves_facts_and_a_digest_and_no_notes(
    open_store: Opener, url: str, clock: Clock
) -> None:
    whose: dict[str, Any] = {
        "project_id": "billing", "session_id": "chat", "agent_id": "clerk",
    }  # fmt: skip
    async with calling(open_store, url, **whose) as call:
        await asyncio.to_thread(noted, Caller(call.memory, "batch").memory, clock)
        report = await call("admin.consolidate_session")
        found = {key: await call("get", key) for key in (*report.semantic, *report.episodic)}
        assert await call("admin.consolidate_session") == SessionReport(session_id="chat")

    assert str(report).splitlines() == [
        "session chat: 6 notes cleared, 1 kept, 1 digest, 0 moved to working",
        "      1  importance >= 0.7",
        f"      4  not kept: {NO_REASON}",
    ]
    assert types(url) == {"semantic": 1, "episodic": 1}
    (one,) = [found[key] for key in report.semantic]
    assert (one.content, one.tags) == (NOTES["weighty"], ("may", "weighty"))
    assert (one.namespace, one.tier, one.session_id, one.agent_id) == (
        ("acme", "billing"), "working", "chat", "clerk",
    )  # fmt: skip
    assert one.metadata == {"category": "fact", "promoted_from": "working"}
    assert one.occurred_at == clock.now - timedelta(minutes=5)
    digest = found[report.episodic[0]]
    lines = digest.content.splitlines()
    assert lines[0] == "Session chat, 2026-03-01 12:01 to 2026-03-01 12:06 UTC:"
    assert lines[3] == "- 2026-03-01 12:03 Reading the logs of last night"
    assert len(lines) == 7


def test_a_note_that_was_pinned_is_lifted_and_stays_pinned(memory: MemoryCoordinator) -> None:
    memory.store("Allergic to peanuts", "working", key="pinned")
    memory.store("Reading mail", "working", key="other")
    store, namespace = memory.tiered_store, memory.context.namespace(Tier.SHORT_TERM)
    item = store.get(namespace, "pinned")
    assert item is not None
    store.put(namespace, "pinned", {**item.value, "pinned": True})
    report = memory.admin.consolidate_session()

    (one,) = kept(memory, report)["semantic"]
    assert (one.content, one.value["pinned"]) == ("Allergic to peanuts", True)
    assert report.reasons == {PINNED: 1}


@pytest.mark.parametrize(
    ("turns", "lifted"),
    [
        ((Run("one"), Run("another")), True),
        ((Run("try", "turn"), Run("again", "turn"), Run("one more", "next turn")), True),
        ((Run("try", "turn"), Run("again", "turn")), False),
        ((Run("one"), Run("one")), False),
        ((None, None, None), False),
    ],
)
def test_a_note_is_lifted_that_was_recalled_in_more_than_one_turn(
    memory: MemoryCoordinator, *, turns: tuple[Run | None, ...], lifted: bool
) -> None:
    memory.store("The ledger lives in the blue folder", "working", key="note")
    for turn in turns:
        assert keys(memory.get_context("Where is the ledger?", run_id=turn, min_match=0)) == [
            "note"
        ]
    report = memory.admin.consolidate_session()

    assert report.reasons == ({RECALLED: 1} if lifted else {})
    assert report.not_kept == ({} if lifted else {NO_REASON: 1})


def test_each_text_that_was_noted_is_found_in_what_is_stored(
    memory: MemoryCoordinator, clock: Clock, url: str
) -> None:
    huge = "so many words " * 1_400 + "end"
    long = {f"long{n}": f"line {n}\nof a file: {'x' * 3_000} end {n}" for n in range(7)}
    noted(memory, clock, {**NOTES, **long, "huge": huge}, source="agent")
    report = memory.admin.consolidate_session()

    stored = texts(url)
    assert all(text in stored for text in (*NOTES.values(), *long.values(), huge))
    parts = kept(memory, report)["episodic"]
    assert len(parts) > 2
    assert all(f"part {n} of {len(parts)}" in one.content for n, one in enumerate(parts, 1))
    assert types(url).keys() == {"semantic", "episodic"}


def test_other_sessions_projects_and_tenants_are_left_alone(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock, url: str
) -> None:
    others = [
        coordinator(store, project_id="billing", session_id="another"),
        coordinator(store, project_id="shipping", session_id="chat"),
        coordinator(store, "other", project_id="billing", session_id="chat"),
    ]
    for number, one in enumerate(others):
        one.store("Reading mail", "working", key=f"other{number}")
        one.store("Said hello", "episodic", tier="short_term", key=f"said{number}")
    noted(memory, clock)
    before = {row for rows in tables(url).values() for row in rows if "other" in row[0]}
    assert memory.admin.consolidate_session().cleared == 6
    assert before <= {row for rows in tables(url).values() for row in rows}
    assert {tier_of(url, f"said{n}")[0] for n in range(3)} == {"short_term"}


def test_without_a_project_a_session_ends_in_all_of_them(store: TieredStore, url: str) -> None:
    for project in ("billing", "ship.ping", None):
        one = coordinator(store, project_id=project, session_id="chat")
        one.store("The timeout of the mailer is 30s", "working", importance=0.9)
    report = coordinator(store).admin.consolidate_session("chat")
    assert (report.cleared, len(report.semantic), len(report.episodic)) == (3, 3, 3)
    with psycopg.connect(url) as conn:
        rows = conn.execute("SELECT DISTINCT namespace FROM memory.memories ORDER BY 1").fetchall()
    assert [row[0] for row in rows] == ["_.", "billing.", "ship%2Eping."]


def test_what_else_is_in_short_term_rises_with_its_key_and_its_way_back(
    memory: MemoryCoordinator, clock: Clock, url: str
) -> None:
    memory.store("Anna asked for the ledger", "episodic", tier="short_term", key="said")
    noted(memory, clock)
    report = memory.admin.consolidate_session()
    assert (report.risen, tier_of(url, "said")) == (1, ["working"])
    clock.advance(days=30)
    assert there(memory.get("said")).tier == "working"
    memory.learning.rollback(report.moves[0])
    assert tier_of(url, "said") == ["short_term"]


def test_a_note_that_rose_before_is_cleared_as_well(
    memory: MemoryCoordinator, clock: Clock, url: str
) -> None:
    memory.store("Read the mail", "working", tier="working", key="elsewhere")
    noted(memory, clock)
    memory.tiered_store.move(("acme", "billing", "chat"), "once", "working")
    assert memory.admin.consolidate_session().cleared == 7
    assert "Read the mail" in texts(url)


def test_wherever_it_is_broken_off_all_or_nothing_has_happened(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock, url: str
) -> None:
    memory.store("Anna asked for the ledger", "episodic", tier="short_term", key="said")
    noted(memory, clock)
    assert len(left_by(store, url, lambda: sessions.consolidate_session(memory, None))) == 2
    assert types(url) == {"semantic": 1, "episodic": 2}


def locks(query: Query) -> bool:
    """Whether it begins to write."""
    return any(one.name == "lock_keys" for one in query.calls)


def test_a_note_that_is_made_or_changes_meanwhile_is_kept_as_it_is_then(
    memory: MemoryCoordinator, clock: Clock, url: str
) -> None:
    def says(text: str) -> SessionReport:
        once = iter([text])

        def meanwhile(query: Query) -> None:
            if locks(query) and (said := next(once, None)):
                memory.store(said, "working", key="late")

        return ending(memory, meanwhile)

    noted(memory, clock)
    clock.advance(minutes=1)
    says("Just in time")
    assert types(url) == {"semantic": 1, "episodic": 1, "working": 1}
    says("Reading mail")
    assert "working" not in types(url)
    assert "Reading mail" in texts(url)
    assert "in time" not in texts(url)


def test_a_session_that_never_stands_still_says_so_and_stays(
    memory: MemoryCoordinator, clock: Clock, url: str
) -> None:
    def goes_on(query: Query) -> None:
        if locks(query):
            clock.advance(minutes=1)
            memory.store("Reading mail", "working", key="once")

    noted(memory, clock)
    with pytest.raises(ConflictError, match="went on"):
        ending(memory, goes_on)
    assert types(url) == {"working": 6}


async def test_two_that_end_a_session_at_once_keep_everything_once(
    memory: MemoryCoordinator, clock: Clock, url: str
) -> None:
    noted(memory, clock)
    reports = await asyncio.gather(
        *(asyncio.to_thread(memory.admin.consolidate_session) for _ in range(4))
    )
    assert sorted(one.cleared for one in reports) == [0, 0, 0, 6]
    assert types(url) == {"semantic": 1, "episodic": 1}


def test_a_session_must_be_named(store: TieredStore) -> None:
    memory = coordinator(store)
    with pytest.raises(InvalidInputError, match="no session is named"):
        memory.admin.consolidate_session()
    with pytest.raises(InvalidInputError, match="session_id"):
        memory.admin.consolidate_session("")
    with pytest.raises(InvalidTypeError, match="chat model"):
        memory.admin.consolidate_session("chat", model="gpt")  # type: ignore[arg-type]


def test_a_cycle_ends_sessions_as_the_verb_does(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock, url: str
) -> None:
    other = coordinator(store, project_id="billing", session_id="other")
    other.store("Still at it", "working", key="other")
    noted(memory, clock)
    at = cycle(store, ended=CHAT | {"nobody.was_here."})
    assert done(store, step("session_end"), at)["done"] == {"its session ended": 1}
    assert types(url) == {"semantic": 1, "episodic": 1, "working": 1}


# In a graph


class State(TypedDict, total=False):
    session_ended: bool
    session: dict[str, Any] | None


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
async def test_a_node_ends_the_session_once_it_has_ended(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock, url: str, way: str
) -> None:
    noted(memory, clock)
    builder = StateGraph(State, context_schema=MemoryContext)
    builder.add_node("end", create_session_end_node(context={"session_id": "{thread_id}"}))
    builder.add_edge(START, "end")
    graph = builder.compile(store=store, checkpointer=InMemorySaver())
    context = MemoryContext(tenant="acme", project_id="billing")

    async def run(given: State) -> Any:
        config: RunnableConfig = {"configurable": {"thread_id": "chat"}}
        if way == "ainvoke":
            return await graph.ainvoke(given, config, context=context)
        return await asyncio.to_thread(graph.invoke, given, config, context=context)

    assert (await run({"session_ended": False}))["session"] is None
    report = (await run({"session_ended": True}))["session"]
    assert (report["session_id"], report["cleared"], len(report["semantic"])) == ("chat", 6, 4)
    assert types(url) == {"semantic": 4, "episodic": 1}


def test_whether_a_session_ended_is_true_or_false(store: TieredStore) -> None:
    node = create_session_end_node(ended=lambda _: "soon", context={"session_id": "chat"})
    builder = StateGraph(State, context_schema=MemoryContext)
    builder.add_node("end", node)
    builder.add_edge(START, "end")
    graph = builder.compile(store=store)
    with pytest.raises(InvalidTypeError, match="'soon'"):
        graph.invoke({}, context=MemoryContext(tenant="acme"))
