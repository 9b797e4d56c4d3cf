"""Models review within a turn: its answer is neither lost nor held up by any of them."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest
from langchain_core.messages import HumanMessage

from langmem_tiers import (
    MemoryCoordinator,
    TieredMemoryMiddleware,
    TieredStore,
    create_assemble_node,
    create_commit_node,
)
from langmem_tiers.core.settings import CoordinatorSettings
from tests.support.agents import How, ScriptedModel, agent_between, agent_on, run, scripted
from tests.support.graphs import ACME
from tests.support.opening import Opened, opened_store, text_index
from tests.support.reviewing import BAD, model_of
from tests.support.wayward_chat import Wayward, minded

FACT = "The API key of billing rotates on Mondays at 9:00."
QUESTION = "When does the API key of billing rotate?"
ASKED: dict[str, Any] = {"messages": [HumanMessage(QUESTION, id="m1")]}
ANSWER = "The API key of billing rotates on Mondays."
WAYS: list[tuple[Opened, How]] = [("sync", "invoke"), ("async", "ainvoke")]


def reviewed_by(server: Wayward, timeout_ms: int) -> Any:
    """What makes coordinators for which that server's model reviews."""
    settings = CoordinatorSettings(
        query_timeout_ms=60_000, review_timeout_ms=timeout_ms, relevance_timeout_ms=timeout_ms
    )
    return partial(MemoryCoordinator, settings=settings, review_model=model_of(server))


def said(store: TieredStore) -> list[str]:
    """What the store has of a turn, quarantined or not."""
    memory = MemoryCoordinator(store, context=ACME)
    kept = memory.get_context("", limit=100, memory_types=["episodic"])
    return sorted(one.content for one in (*kept, *memory.admin.list_quarantined()))


def remembering(what: str, store: TieredStore, model: ScriptedModel, coordinator: Any) -> Any:
    """An agent that recalls by a model's review and stores what was said."""
    if what == "an agent that remembers":
        return agent_on(
            store, model, TieredMemoryMiddleware(review="model", coordinator=coordinator)
        )
    assemble = create_assemble_node(filters={"review": "model"}, coordinator=coordinator)
    commit = create_commit_node(
        memorize=lambda state: {"content": state["messages"][-1].text, "memory_type": "episodic"},
        coordinator=coordinator,
    )
    return agent_between(store, model, {"assemble": assemble}, {"commit": commit})


@pytest.mark.parametrize(
    ("what", "way", "answer"),
    [
        ("a turn", WAYS[0], "never comes"),
        ("a turn", WAYS[1], "is garbage"),
        ("an agent that remembers", WAYS[1], "fails"),
        ("an agent that remembers", WAYS[0], "never comes"),
    ],
)
async def test_an_agent_recalls_answers_and_remembers_though_no_reviewer_is_of_use(
    url: str, way: tuple[Opened, How], answer: str, what: str
) -> None:
    opened, how = way
    timeout_ms = 500 if answer == "never comes" else 60_000
    store, model = TieredStore(url, index=text_index()), scripted(ANSWER)
    with minded(BAD[answer]) as server:
        async with opened_store(store, opened):
            await MemoryCoordinator(store, context=ACME).astore(FACT, "semantic", key="fact")
            made = remembering(what, store, model, reviewed_by(server, timeout_ms))
            state = await run(made, how, ASKED, context=ACME)

            assert state["messages"][-1].text == ANSWER
            assert FACT in model.seen[0][0].text
            assert ANSWER in await asyncio.to_thread(said, store)
            assert not server.closed.is_set()
