"""Where Postgres stops while the model answers, the user gets the answer and is told the rest."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from langmem_tiers import (
    EmbeddedPostgres,
    MemoryContext,
    MemoryCoordinator,
    TieredMemoryMiddleware,
    TieredStore,
)
from langmem_tiers.core.errors import DatabaseError, InvalidInputError
from tests.support.agents import WAYS, How, agent_on, calls, run, scripted
from tests.support.coded import coded
from tests.support.graphs import pay
from tests.support.opening import Opened, opened_store, text_index
from tests.support.servers import own_server

ACME = MemoryContext(tenant="acme", project_id="billing", session_id="chat")
VAULT = "The vault is in the cellar"
ANSWERS = ["It is in the cellar, behind the wine.", "I do not know.", "Still there."]
QUICK = {"timeout": 3.0, "kwargs": {"connect_timeout": 2}}
LEARNING: Callable[..., Any] = partial(TieredMemoryMiddleware, reflect=True, hold_repeats=True)


def asked(number: int = 1) -> dict[str, Any]:
    return {"messages": [HumanMessage(f"Where is the vault, {number}?", id=f"m{number}")]}


@asynccontextmanager
async def served(path: Path, opened: Opened) -> AsyncIterator[tuple[EmbeddedPostgres, TieredStore]]:
    """A server of the test's own, and a store on it that remembers something."""
    server = own_server(path)
    url = await asyncio.to_thread(server.start)
    store = TieredStore(url, index=text_index(), pool_config=QUICK)
    try:
        async with opened_store(store, opened):
            await store.asetup()
            await MemoryCoordinator(store, context=ACME).astore(VAULT, memory_type="semantic")
            yield server, store
    finally:
        await asyncio.to_thread(server.stop)


@pytest.mark.slow
@pytest.mark.parametrize(("opened", "how"), WAYS)
async def test_the_answer_is_returned_though_postgres_stops_while_the_model_answers(
    tmp_path: Path, opened: Opened, how: How, caplog: pytest.LogCaptureFixture
) -> None:
    async with served(tmp_path, opened) as (server, store):
        model = scripted(*ANSWERS, meanwhile=server.stop)
        made = agent_on(store, model, LEARNING(), checkpointer=InMemorySaver())
        whose: Any = {"context": ACME, "config": {"configurable": {"thread_id": "t"}}}
        with caplog.at_level(logging.WARNING, logger="langmem_tiers"):
            first = await run(made, how, asked(1), **whose)
            second = await run(made, how, asked(2), **whose)
        await asyncio.to_thread(server.start)
        third = await run(made, how, asked(3), **whose)
        memory = MemoryCoordinator(store, context=ACME)
        stored = await memory.aget_context("", memory_types=["episodic"], limit=100)

    assert [one["messages"][-1].text for one in (first, second, third)] == ANSWERS
    assert [VAULT in shown[0].text for shown in model.seen] == [True, False, True]
    assert first["memory_errors"]
    assert all("Error: " in one for one in first["memory_errors"].values())
    assert "recall" not in first["memory_errors"]
    assert "recall" in second["memory_errors"]
    assert not third["memory_errors"]
    assert caplog.text.count("goes on without its memory") >= 2
    assert {one.content for one in stored} & {*ANSWERS} == {ANSWERS[2]}


@pytest.mark.slow
async def test_tools_run_without_the_database_and_a_stream_tells_it_unless_it_is_to_be_raised(
    tmp_path: Path,
) -> None:
    async with served(tmp_path, "async") as (server, store):
        model = scripted(calls("pay", amount="5"), "Paid.", meanwhile=server.stop)
        made = agent_on(store, model, LEARNING(), tools=[pay])
        modes = ["custom", "values"]
        parts = [one async for one in made.astream(asked(), context=ACME, stream_mode=modes)]
        await asyncio.to_thread(server.start)
        texts = [one.text for one in parts[-1][1]["messages"]]
        told = [one for mode, one in parts if mode == "custom"]
        assert texts[2:] == ["paid 5", "Paid."]
        assert {one["memory"] for one in told} == {"failed"}
        assert {one["error"] for one in told} == {"DatabaseUnavailableError"}
        during = {"reminders of a tool call", "lessons of a tool call", "remember"}
        assert {one["during"] for one in told} == during
        strict = scripted("Lost.", meanwhile=server.stop)
        raising = agent_on(store, strict, LEARNING(on_error="raise"))
        with pytest.raises(DatabaseError):
            await raising.ainvoke(asked(), context=ACME)


def test_what_will_not_mend_itself_is_raised(url: str) -> None:
    with pytest.raises(InvalidInputError, match="'continue' or 'raise'"):
        LEARNING(on_error="ignore")
    with (
        TieredStore(url, index=text_index(), schema_prefix="bare_") as bare,
        coded("not_set_up"),
    ):
        agent_on(bare, scripted("Fine."), LEARNING()).invoke(asked(), context=ACME)
