"""Coordinators of one context on one store know the same; those of another one do not."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest
from langchain_core.tools import tool

from langmem_tiers import (
    MemoryContext,
    MemoryCoordinator,
    TieredMemoryMiddleware,
    TieredStore,
    create_recall_node,
)
from tests.support.agents import Way, agent_on, scripted
from tests.support.coordinating import at_once
from tests.support.graphs import ACME, asks, call, chain, off_the_loop
from tests.support.opening import Clock

FACT = "The vault of the cellar has two keys."
OTHERS = [
    MemoryContext(tenant="other", project_id="billing"),
    MemoryContext(tenant="acme", project_id="billing", user_id="ada"),
    MemoryContext(tenant="acme", project_id="sales"),
]
"""Another tenant, user and project."""


def known(store: TieredStore) -> MemoryCoordinator:
    """Make a coordinator of a context in which a fact is stored for all of the tenant."""
    memory = MemoryCoordinator(store, context=ACME)
    memory.store(FACT, memory_type="semantic")
    return memory


def turns(url: str) -> dict[str, int]:
    """Return the numbers of memories by their contents."""
    with psycopg.connect(url) as conn:
        rows = conn.execute("SELECT value ->> 'content', turn FROM memory.memories")
        return {str(content): int(turn) for content, turn in rows}


def test_what_one_coordinator_recalled_is_no_new_evidence_to_another(store: TieredStore) -> None:
    memory = known(store)
    (found,) = memory.get_context("keys of the vault")
    again = MemoryCoordinator(store, context=ACME).store(f"As I recall, {FACT}", source="agent")
    assert (again.stored, again.repeats) == (False, found.key)


@pytest.mark.parametrize("other", OTHERS, ids=["tenant", "user", "project"])
def test_what_was_recalled_is_news_to_another_tenant_user_or_project(
    store: TieredStore, other: MemoryContext
) -> None:
    known(store).get_context("keys of the vault")
    again = MemoryCoordinator(store, context=other).store(f"As I recall, {FACT}", source="agent")
    assert again.stored


async def test_what_a_node_recalled_is_no_new_evidence_to_the_next_one(way: Way) -> None:
    memory = await off_the_loop(known, way.store)

    async def notes(_: Any) -> dict[str, Any]:
        kept = await off_the_loop(
            MemoryCoordinator(way.store, context=ACME).store, FACT, source="agent"
        )
        return {"interaction": {"stored": kept.stored}}

    def notes_at_once(_: Any) -> dict[str, Any]:
        kept = MemoryCoordinator(way.store, context=ACME).store(FACT, source="agent")
        return {"interaction": {"stored": kept.stored}}

    node: Any = notes_at_once if way.how == "invoke" else notes
    graph = chain(way.store, create_recall_node(), node)
    given = {"messages": [asks("Where are the keys of the vault?")]}
    state = await way(graph, given, context=ACME)
    assert [one["content"] for one in state["recalled"]] == [FACT]
    assert state["interaction"] == {"stored": False}
    assert (await memory.astats()).total_count == 1


def test_what_an_agent_was_shown_is_no_new_evidence_to_its_tools(store: TieredStore) -> None:
    memory = known(store)
    told: list[bool] = []

    @tool
    def note(text: str) -> str:
        """Keep a note."""
        own = MemoryCoordinator(store, context=ACME)
        told.append(own.store(text, source="agent").stored)
        return "noted"

    model = scripted(call("note", 1, text=FACT), call("note", 2, text="It has a lamp."), "Done")
    made = agent_on(store, model, TieredMemoryMiddleware(remember=False), tools=[note])
    made.invoke({"messages": [asks("Where are the keys of the vault?")]}, context=ACME)
    assert told == [False, True]
    assert memory.stats().total_count == 2


def test_what_coordinators_of_one_context_store_are_neighbours_in_its_order(
    store: TieredStore, url: str, clock: Clock
) -> None:
    contexts = [ACME, *OTHERS]
    texts = [f"Step {step} of {place} is done." for step in range(4) for place in range(4)]
    for number, text in enumerate(texts):
        MemoryCoordinator(store, context=contexts[number % 4]).store(text)
        clock.advance(minutes=1)
    numbered = turns(url)
    for place in range(4):
        first, *rest = (numbered[f"Step {step} of {place} is done."] for step in range(4))
        assert rest == [first + 1, first + 2, first + 3]
    assert len(set(numbered.values())) == 16


async def test_coordinators_at_once_give_no_number_twice(store: TieredStore, url: str) -> None:
    numbers = iter(range(40))

    async def keep() -> None:
        text = f"Note number {next(numbers)} of the day."
        await asyncio.to_thread(MemoryCoordinator(store, context=ACME).store, text)

    await at_once(40, keep)
    found = sorted(turns(url).values())
    assert found == [*range(found[0], found[0] + 40)]
