"""A world in which each step of a cycle finds something to do, and savers to keep cycles in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, Literal

import psycopg
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver

from langmem_tiers import MemoryContext, MemoryCoordinator, TieredStore
from langmem_tiers.consolidate.policy import ConsolidationPolicy
from langmem_tiers.consolidation import create_consolidation_graph
from langmem_tiers.learn.policy import PromotionPolicy
from tests.support.coordinating import coordinator
from tests.support.opening import Clock, tables, text_index

ACME = MemoryContext(tenant="acme", project_id="billing", session_id="chat")
EASY = PromotionPolicy(
    min_access_count=0, min_success_rate=0.0, min_age_days=0.0, min_projects=1, demote_after=1
)
POLICY = ConsolidationPolicy(promotion=EASY)
PROMOTING = ConsolidationPolicy(
    expiry=False, rise=None, merge=None, supersede=None, promotion=EASY, decay=False
)
DONE = {
    "expire": 2,
    "rise": 1,
    "merge": 2,
    "supersede": 2,
    "demote": 1,
    "promote": 1,
    "decay": 4,
}
"""What each step of a first cycle does in the world."""

Saver = Literal["memory", "postgres", "async postgres"]


def fill(store: TieredStore, clock: Clock) -> None:
    """Remember something for each step; it takes eight days."""
    memory = coordinator(store, project_id="billing", session_id="chat")
    _turned(store, memory, clock)
    _proven(memory, "Write invoices in the language of the customer", "proven")
    for key, content in (
        ("port 1", "The deployment port is 80"),
        ("port 2", "The deployment port is 443"),
        ("port 3", "The deployment port is 8443"),
        ("tea 1", "Anna likes green tea"),
        ("tea 2", "Anna likes green tea."),
        ("tea 3", "ANNA LIKES GREEN TEA"),
    ):
        memory.store(content, "semantic", tier="working", key=key)
        clock.advance(hours=1)
    for key in ("gone 1", "gone 2"):
        memory.store(f"it is {key}", "episodic", tier="short_term", key=key)
    clock.advance(days=2)
    memory.store("The launch is on 3 May", "episodic", tier="short_term", key="up", importance=0.9)
    memory.store("Hello", "episodic", tier="short_term", key="hello")
    clock.advance(minutes=5)


def _proven(memory: MemoryCoordinator, content: str, key: str) -> None:
    memory.store(content, "pattern", tier="working", key=key)
    shown = memory.get_context(content)
    memory.record_outcome([one for one in shown if one.key == key], success=True)


def _turned(store: TieredStore, memory: MemoryCoordinator, clock: Clock) -> None:
    _proven(memory, "Retry a POST only with a key", "turned")
    clock.advance(days=1)
    create_consolidation_graph(policy=PROMOTING, store=store).invoke({}, context=ACME)
    clock.advance(days=4)
    for run in "ab":
        memory.get_context("retry a POST", run_id=run)
        memory.record_outcome(success=False, run_id=run)


def open_store(url: str, clock: Clock) -> TieredStore:
    """A store on a world."""
    return TieredStore(url, index=text_index(), clock=clock)


def world(new_url: Callable[[], str], clock: Clock) -> str:
    """A database in which each step finds something to do; its URL."""
    url = new_url()
    with open_store(url, clock) as store:
        fill(store, clock)
    return url


def everything(url: str) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of a store, with what steps have seen."""
    with psycopg.connect(url) as conn:
        seen = conn.execute("SELECT c::text FROM memory.cycles c ORDER BY 1").fetchall()
    return {**tables(url), "cycles": seen}


@asynccontextmanager
async def saver(kind: Saver, url: str) -> AsyncIterator[Any]:
    """A checkpointer of a kind, set up; the Postgres ones keep their tables in that database."""
    if kind == "memory":
        yield InMemorySaver()
    elif kind == "async postgres":
        async with AsyncPostgresSaver.from_conn_string(url) as opened:
            await opened.setup()
            yield opened
    else:
        manager = PostgresSaver.from_conn_string(url)
        blocking = await asyncio.to_thread(manager.__enter__)
        await asyncio.to_thread(blocking.setup)
        yield blocking
        await asyncio.to_thread(manager.__exit__, None, None, None)


WEEK = timedelta(days=7)
