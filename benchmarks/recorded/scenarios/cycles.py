"""Cycles of consolidation: by the graph, by the worker, and reviews by models."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, TypedDict

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph

from benchmarks.recorded.models import Scoring
from benchmarks.recorded.scenarios.learning import EASY
from benchmarks.recorded.world import World
from benchmarks.ruling import Ruling
from langmem_tiers import (
    ArchivalPolicy,
    ConsolidationPolicy,
    ConsolidationReport,
    ConsolidationSchedule,
    ConsolidationWorker,
    MemoryContext,
    MemoryCoordinator,
    consolidation_due,
    create_consolidation_graph,
)

ACME = MemoryContext(tenant="acme", project_id="billing", session_id="chat")
POLICY = ConsolidationPolicy(promotion=EASY)
ONLY_PROMOTING = ConsolidationPolicy(
    expiry=False, rise=None, merge=None, supersede=None, promotion=EASY, decay=False
)
FACTS = (
    ("port 1", "The deployment port is 80"),
    ("port 2", "The deployment port is 443"),
    ("port 3", "The deployment port is 8443"),
    ("tea 1", "Anna likes green tea"),
    ("tea 2", "Anna likes green tea."),
    ("tea 3", "ANNA LIKES GREEN TEA"),
)


def cycles(world: World) -> None:
    """A world in which each step finds something to do, tended without a model and with one."""
    memory = world.memory(project_id="billing", session_id="chat")
    _lived(world, memory)
    moves = _ruled(world)
    for key, content in FACTS:
        told = content.replace("port", "host").replace("tea", "coffee")
        world.call(memory, "store", told, "semantic", tier="working", key=f"late {key}")
        world.clock.advance(hours=1)
    _proposed(world)
    for move in (*moves[-1:], *moves[:1]):
        world.call(memory, "rollback", move)
    _archived(world)
    _due(world)


def _lived(world: World, memory: MemoryCoordinator) -> None:
    _proven(world, memory, "Retry a POST only with a key", "turned")
    world.clock.advance(days=1)
    graph = world.made(create_consolidation_graph, policy=ONLY_PROMOTING, store=world.store)
    world.call(graph, "invoke", {}, context=ACME)
    world.clock.advance(days=4)
    for run in "ab":
        world.call(memory, "get_context", "retry a POST", run_id=run)
        world.call(memory, "record_outcome", success=False, run_id=run)
    _proven(world, memory, "Write invoices in the language of the customer", "proven")
    for key, content in FACTS:
        world.call(memory, "store", content, "semantic", tier="working", key=key)
        world.clock.advance(hours=1)
    for key in ("gone 1", "gone 2"):
        world.call(memory, "store", f"it is {key}", "episodic", tier="short_term", key=key)
    world.clock.advance(days=2)
    given: dict[str, Any] = {"tier": "short_term", "importance": 0.9}
    world.call(memory, "store", "The launch is on 3 May", "episodic", key="up", **given)
    world.call(memory, "store", "Ben says hello to all", "episodic", tier="short_term")
    world.clock.advance(minutes=5)


def _proven(world: World, memory: MemoryCoordinator, content: str, key: str) -> None:
    world.call(memory, "store", content, "pattern", tier="working", key=key)
    shown = world.call(memory, "get_context", content)
    proven = [one for one in shown if one.key == key]
    world.call(memory, "record_outcome", proven, success=True)


def _proposed(world: World) -> None:
    """Without a model, what rules find alike or contradicting is proposed only."""
    policy = ConsolidationPolicy(expiry=False, rise=None, promotion=None, decay=False)
    graph = world.made(create_consolidation_graph, policy=policy, store=world.store)
    state = world.call(graph, "invoke", {}, context=ACME)
    report = world.call(ConsolidationReport, "of", state)
    world.told("as text", str(report))
    world.call(ConsolidationReport, "of", None)
    world.call(graph, "invoke", {})
    world.made(create_consolidation_graph, interrupt_before=["odd"])
    world.made(create_consolidation_graph, model="odd")


def _ruled(world: World) -> tuple[str, ...]:
    saver = InMemorySaver()
    thread = {"configurable": {"thread_id": "t1"}}
    graph = create_consolidation_graph(
        Ruling(), policy=POLICY, store=world.store, checkpointer=saver, interrupt_before=["apply"]
    )
    given: dict[str, Any] | None = {}
    for _ in range(20):
        world.call(graph, "invoke", given, config=thread, context=ACME)
        given = None
        if not graph.get_state(thread).next:  # type: ignore[arg-type]
            break
    report = ConsolidationReport.of(graph.get_state(thread).values)  # type: ignore[arg-type]
    world.told("report", report)
    for step in ("merge", "supersede", "promote", "odd"):
        world.call(report, "count", step)
    world.call(report, "count", "decay", "kept")
    return report.moves


def _archived(world: World) -> None:
    world.clock.advance(days=200)
    archive = ArchivalPolicy(url=f"file://{world.folder}/archive", max_share=1.0)
    policy = ConsolidationPolicy(archive=archive, promotion=None)
    graph = create_consolidation_graph(policy=policy, store=world.store)
    world.call(graph, "invoke", {}, context=ACME)
    world.call(world.memory(), "archives")


class _Talk(TypedDict, total=False):
    messages: list[Any]
    consolidated: dict[str, Any]
    report: dict[str, Any]
    session_ended: bool


def _due(world: World) -> None:
    world.made(consolidation_due, "odd")
    schedule = ConsolidationSchedule(every_turns=2, on_session_end=True)
    route = world.made(consolidation_due, schedule)
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(_Talk, context_schema=MemoryContext)
    builder.add_node("talk", lambda _: {})
    builder.add_node("consolidation", create_consolidation_graph(policy=ONLY_PROMOTING))
    builder.add_edge(START, "talk")
    builder.add_conditional_edges("talk", route)
    graph = builder.compile(store=world.store, name="talk")
    said = [("user", "one"), ("ai", "two"), ("user", "three")]
    world.call(graph, "invoke", {"messages": said[:1]}, context=ACME)
    world.call(graph, "invoke", {"messages": said}, context=ACME)
    world.call(graph, "invoke", {"session_ended": True}, context=ACME)


def workers(world: World) -> None:
    """A worker that tends all tenants, and what models review."""
    for tenant in ("acme", "beta"):
        for key in ("one", "two"):
            world.call(world.memory(tenant), "store", "The lamp is red.", "semantic", key=key)
    schedule = ConsolidationSchedule(every=timedelta(hours=6))
    saver = InMemorySaver()
    given: dict[str, Any] = {"checkpointer": saver, "model": Ruling(), "policy": POLICY}
    worker = world.made(ConsolidationWorker, world.store, schedule, **given)
    world.made(ConsolidationWorker, world.store, ConsolidationSchedule(every_turns=1), **given)
    world.call(worker, "run_due")
    world.call(worker, "run_due")
    world.told("failures", worker.failures)
    world.clock.advance(hours=7)
    told: list[ConsolidationReport] = []

    def stopping(report: ConsolidationReport) -> None:
        told.append(report)
        last.stop()

    last = ConsolidationWorker(world.store, schedule, told=stopping, **given)
    world.call(last, "run", poll_seconds=0.01)
    world.told("told", told)
    world.call(last, "stop")
    _reviewed(world)


def _reviewed(world: World) -> None:
    for score in (9.0, 2.0, 0.9):
        model = Scoring(score=score)
        memory = world.memory("gamma", review_model=model, review_storage="before")
        world.call(memory, "store", f"The door of room {score:.0f} is painted blue", "semantic")
        world.call(memory, "get_context", "Which door is blue?", review="model")
        world.told("shown to the model", sorted(model.seen))
    later = world.memory("delta", review_model=Scoring(score=1.0), review_storage="background")
    plain = world.memory("delta")
    world.call(plain, "store", "The gate is open until nine", "semantic", key="open")
    world.call(plain, "begin_reviews", ["open"])
    world.call(plain, "finish_reviews")
    world.call(plain, "review_waiting")
    world.call(later, "review_waiting")
    world.call(later, "finish_reviews", timeout=10)
    stored = world.quietly(later, "store", "The bridge is closed in June", "semantic", key="june")
    world.told("stored", [stored, world.quietly(later, "finish_reviews", timeout=60)])
    world.call(later, "history", "june")
