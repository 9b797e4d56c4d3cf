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
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import Field

from langmem_tiers import (
    EmbeddedPostgres,
    MemoryContext,
    MemoryCoordinator,
    MemoryHooksMiddleware,
    MemoryOrchestrator,
    TieredMemoryMiddleware,
    TieredStore,
    TurnMiddleware,
)
from langmem_tiers.core.errors import DatabaseError, InvalidInputError, NotSetUpError
from tests.support.agents import How, ScriptedModel, calls, run
from tests.support.opening import Opened, opened_store, text_index
from tests.support.servers import own_server

ACME = MemoryContext(tenant="acme", project_id="billing", session_id="chat")
VAULT = "The vault is in the cellar"
ANSWER = "It is in the cellar, behind the wine."
QUICK = {"timeout": 3.0, "kwargs": {"connect_timeout": 2}}
KINDS: dict[str, Callable[..., AgentMiddleware[Any, Any, Any]]] = {
    "recalling": partial(TieredMemoryMiddleware, remember=True, reflect=True),
    "turns": TurnMiddleware,
}
WAYS: list[tuple[Opened, How]] = [("sync", "invoke"), ("async", "ainvoke"), ("async", "astream")]


class Interrupting(ScriptedModel):
    """Does something before each of its answers."""

    before: list[Callable[[], None]] = Field(default_factory=list)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        if self.before:
            self.before.pop(0)()
        return super()._generate(messages, stop, run_manager, **kwargs)


@tool
def look(place: str) -> str:
    """Look at a place."""
    return f"{place}: nothing to see"


def asked(number: int) -> dict[str, Any]:
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


def agent(
    model: Any, store: TieredStore, middleware: AgentMiddleware[Any, Any, Any], **options: Any
) -> Any:
    return create_agent(
        model, [look], middleware=[middleware], context_schema=MemoryContext, store=store, **options
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("opened", "how", "kind"),
    [(*WAYS[0], "recalling"), (*WAYS[1], "turns"), (*WAYS[2], "recalling")],
)
async def test_the_answer_is_returned_though_postgres_stops_while_the_model_answers(
    tmp_path: Path, opened: Opened, how: How, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with served(tmp_path, opened) as (server, store):
        said = list(map(AIMessage, (ANSWER, "I do not know.", "Still there.")))
        model = Interrupting(responses=[*said], before=[server.stop])
        made = agent(model, store, KINDS[kind](), checkpointer=InMemorySaver())
        config = {"configurable": {"thread_id": "t"}}
        with caplog.at_level(logging.WARNING, logger="langmem_tiers"):
            first = await run(made, how, asked(1), context=ACME, config=config)
            second = await run(made, how, asked(2), context=ACME, config=config)
        await asyncio.to_thread(server.start)
        third = await run(made, how, asked(3), context=ACME, config=config)
        memory = MemoryCoordinator(store, context=ACME)
        stored = await memory.aget_context("", memory_types=["episodic"], limit=100)
        ended = await MemoryOrchestrator(memory).aturns()

    assert [one["messages"][-1].text for one in (first, second, third)] == [
        ANSWER, "I do not know.", "Still there.",
    ]  # fmt: skip
    assert VAULT in model.seen[0][0].text
    assert [VAULT in shown[0].text for shown in model.seen[1:]] == [False, True]
    assert first["memory_errors"]
    assert all("Error: " in one for one in first["memory_errors"].values())
    assert "recall" not in first["memory_errors"]
    assert "recall" in second["memory_errors"]
    assert not third["memory_errors"]
    assert caplog.text.count("goes on without its memory") >= 2
    contents = {one.content for one in stored}
    assert "Still there." in contents
    assert not contents & {ANSWER, "I do not know."}
    if kind == "turns":
        assert (first["committed"], second["committed"]) == ({}, {})
        assert third["committed"]["summary"]["episodic"] == 2
        # What could not be committed leaves its trace when the next turn begins.
        assert [one.kind for one in ended] == ["committed", "abandoned"]


@pytest.mark.slow
async def test_an_agent_fails_with_its_memory_where_that_is_asked_for(
    tmp_path: Path,
) -> None:
    async with served(tmp_path, "async") as (server, store):
        for kind in KINDS.values():
            model = Interrupting(responses=[AIMessage(ANSWER)], before=[server.stop])
            made = agent(model, store, kind(on_error="raise"))
            with pytest.raises(DatabaseError):
                await made.ainvoke(asked(1), context=ACME)
            await asyncio.to_thread(server.start)


@pytest.mark.slow
async def test_tools_run_without_the_database_and_a_stream_tells_it(tmp_path: Path) -> None:
    hooks = partial(MemoryHooksMiddleware, before_tools=["look"], on_error="continue")
    kinds: list[Callable[..., AgentMiddleware[Any, Any, Any]]] = [*KINDS.values(), hooks]
    async with served(tmp_path, "async") as (server, store):
        for kind in kinds:
            said = [calls("look", place="cellar"), AIMessage(ANSWER)]
            model = Interrupting(responses=[*said], before=[server.stop])
            made = agent(model, store, kind())
            modes = ["custom", "values"]
            parts = [one async for one in made.astream(asked(1), context=ACME, stream_mode=modes)]
            messages = parts[-1][1]["messages"]
            assert [one.type for one in messages] == ["human", "ai", "tool", "ai"]
            assert [one.text for one in messages[2:]] == ["cellar: nothing to see", ANSWER]
            told = [one for mode, one in parts if mode == "custom"]
            assert {one["memory"] for one in told} == {"failed"}
            failures = {"DatabaseUnavailableError", "PoolExhaustedError"}
            assert {one["error"] for one in told} <= failures
            assert "recall" not in {one["during"] for one in told}
            await asyncio.to_thread(server.start)


@pytest.mark.parametrize("kind", KINDS)
def test_what_will_not_mend_itself_is_raised(url: str, kind: str) -> None:
    wrong: Any = "ignore"
    with pytest.raises(InvalidInputError, match="'continue' or 'raise'"):
        KINDS[kind](on_error=wrong)
    bare = TieredStore(url, index=text_index(), schema_prefix="bare_")
    with bare, pytest.raises(NotSetUpError):
        agent(ScriptedModel(responses=[AIMessage(ANSWER)]), bare, KINDS[kind]()).invoke(
            asked(1), context=ACME
        )
