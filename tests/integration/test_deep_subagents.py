"""Agents of the deepagents package give each other tasks, which are no words of the user's."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool

from langmem_tiers import MemoryContext, MemoryCoordinator
from langmem_tiers.graph.middleware import TieredMemoryMiddleware
from tests.support.agents import Way, calls, scripted

ACME = MemoryContext(tenant="acme", user_id="ada")
ASKED = "Which lakes are near our office in Turin?"
TASK = "No, sorry, it's Genoa. Find the lakes near Genoa."
PAGE = "The lakes near Genoa are Brugneto and Osiglia."


@tool
def fetch(url: str) -> str:
    """Fetch a page."""
    return PAGE if url else ""


@pytest.mark.peers
@pytest.mark.parametrize("after_a_page", [True, False])
async def test_the_task_of_a_subagent_is_an_agents_and_trusted_as_the_turn_that_wrote_it(
    way: Way, *, after_a_page: bool
) -> None:
    deep = import_module("deepagents")
    helper = {
        "name": "helper",
        "description": "finds lakes",
        "system_prompt": "Find lakes.",
        "model": scripted("There are two lakes."),
        "tools": [],
        "middleware": [TieredMemoryMiddleware(recall=False)],
    }
    looks: list[Any] = [calls("fetch", url="lakes")] if after_a_page else []
    agent = deep.create_deep_agent(
        scripted(*looks, calls("task", description=TASK, subagent_type="helper"), "Two lakes."),
        tools=[fetch],
        subagents=[helper],
        middleware=[TieredMemoryMiddleware(recall=False)],
        context_schema=MemoryContext,
        store=way.store,
    )
    memory = MemoryCoordinator(way.store, context=ACME)
    await memory.astore("Our office is in Turin.", speaker="user")
    await way(agent, {"messages": [HumanMessage(ASKED)]}, context=ACME)

    found = await memory.aget_context("", limit=50, min_match=0)
    told = {
        one.content: (one.speaker, one.value.get("source"), one.value.get("trust")) for one in found
    }
    trust = 0.6 if after_a_page else 0.8
    assert told == {
        "Our office is in Turin.": ("user", None, None),
        ASKED: ("user", None, None),
        TASK: ("assistant", "agent", trust),
        "There are two lakes.": ("assistant", "agent", trust),
        # The helper's answer reaches the agent as one of a tool.
        "Two lakes.": ("assistant", "agent", 0.6),
    }
