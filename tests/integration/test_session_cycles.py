"""Sessions that end in a cycle of consolidation, and in a graph."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from typing_extensions import TypedDict

from langmem_tiers import (
    ConsolidationReport,
    InvalidTypeError,
    MemoryContext,
    MemoryCoordinator,
    TieredStore,
    create_consolidation_graph,
    create_session_end_node,
)
from langmem_tiers.consolidate import lease
from langmem_tiers.consolidate.cycle import steps
from langmem_tiers.consolidate.policy import ConsolidationPolicy
from langmem_tiers.consolidate.steps import Cycle, StepApplied
from langmem_tiers.core.errors import LeaseLostError
from langmem_tiers.core.memory import Moment
from tests.support.coordinating import coordinator
from tests.support.learning import broken
from tests.support.opening import Clock, tables, text_index, tier_of
from tests.support.sessions import CHAT, noted, types


@pytest.fixture
def store(url: str, clock: Clock) -> Iterator[TieredStore]:
    with TieredStore.from_conn_string(url, index=text_index(), clock=clock) as store:
        yield store
    assert broken(url) == {}


@pytest.fixture
def memory(store: TieredStore) -> MemoryCoordinator:
    return coordinator(store, project_id="billing", session_id="chat", agent_id="clerk")


# In a cycle


def cycle(store: TieredStore, *ended: str, name: str = "first", **given: Any) -> Cycle:
    """A cycle of a tenant that begins now, with sessions that have ended."""
    store.run(store.flows.flush())
    fields = {
        "tenant": "acme",
        "cycle": name,
        "moment": Moment(store.flows.now),
        "policy": ConsolidationPolicy(),
        "options": store.options,
        "ended": frozenset(ended or (CHAT,)),
    }
    return Cycle(**{**fields, **given})


def proposed(store: TieredStore, at: Cycle) -> Sequence[Any]:
    """What the step decides of all sessions that have ended."""
    step = _step()
    ids = store.run(step.select(at, 0, 100))
    return store.run(step.propose(at, ids))["decisions"] if ids else []


def _step() -> Any:
    (found,) = [one for one in steps(ConsolidationPolicy()) if one.name == "session_end"]
    return found


DONE: StepApplied = {"done": {"its session ended": 1}, "left": {}, "moves": []}


def test_a_cycle_ends_sessions_as_the_verb_does(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock, url: str
) -> None:
    other = coordinator(store, project_id="billing", session_id="other")
    other.store("Still at it", "working", key="other")
    noted(memory, clock)
    at = cycle(store, CHAT, "nobody.was_here.")
    decisions = proposed(store, at)
    assert store.run(_step().apply(at, decisions)) == DONE
    assert types(url) == {"semantic": 3, "episodic": 1, "working": 1}
    after = tables(url)
    assert store.run(_step().apply(at, decisions)) == DONE
    assert tables(url) == after
    assert proposed(store, cycle(store, name="second")) == []


def test_a_cycle_in_which_no_session_ended_ends_none(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock
) -> None:
    noted(memory, clock)
    assert proposed(store, cycle(store, ended=frozenset())) == []


def test_a_cycle_leaves_a_session_that_went_on_meanwhile(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock, url: str
) -> None:
    noted(memory, clock)
    at = cycle(store)
    decisions = proposed(store, at)
    clock.advance(minutes=1)
    memory.store("Reading mail", "working", key="once")
    before = tables(url)
    assert store.run(_step().apply(at, decisions))["left"] == {"it changed meanwhile": 1}
    assert tables(url) == before


def test_a_cycle_that_lost_its_lease_ends_no_session(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock, url: str
) -> None:
    noted(memory, clock)
    fence = store.run(lease.acquire("acme", "one", clock.now, 60))
    at = cycle(store, fence=fence)
    decisions = proposed(store, at)
    clock.advance(minutes=2)
    store.run(lease.acquire("acme", "two", clock.now, 60))
    before = tables(url)
    with pytest.raises(LeaseLostError):
        store.run(_step().apply(at, decisions))
    assert tables(url) == before


# In a graph


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
async def test_the_graph_of_consolidation_ends_the_session_that_is_over(
    store: TieredStore, memory: MemoryCoordinator, clock: Clock, url: str, way: str
) -> None:
    memory.store("Anna asked for the ledger", "episodic", tier="short_term", key="said")
    noted(memory, clock)
    graph = create_consolidation_graph(store=store)

    async def run(**given: Any) -> ConsolidationReport:
        if way == "ainvoke":
            state = await graph.ainvoke(given, context=memory.context)
        else:
            state = await asyncio.to_thread(graph.invoke, given, context=memory.context)
        return ConsolidationReport.of(state)

    assert (await run()).count("session_end") == 0
    report = await run(session_ended=True)
    assert (report.count("session_end"), tier_of(url, "said")) == (1, ["working"])
    assert types(url) == {"semantic": 3, "episodic": 2}


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
    assert (report["session_id"], report["cleared"], len(report["semantic"])) == ("chat", 6, 3)
    assert types(url) == {"semantic": 3, "episodic": 2}  # the digest, and what happened


def test_whether_a_session_ended_is_true_or_false(store: TieredStore) -> None:
    node = create_session_end_node(ended=lambda _: "soon", context={"session_id": "chat"})
    builder = StateGraph(State, context_schema=MemoryContext)
    builder.add_node("end", node)
    builder.add_edge(START, "end")
    graph = builder.compile(store=store)
    with pytest.raises(InvalidTypeError, match="'soon'"):
        graph.invoke({}, context=MemoryContext(tenant="acme"))
