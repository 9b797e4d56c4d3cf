"""The assistant that langgraph.json serves: whole turns, from a session's start to its end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.tools import ToolException
from langgraph.checkpoint.memory import InMemorySaver

from graphs import assistant
from graphs.assistant import GOODBYE, NOTED, calculate, make_agent
from langmem_tiers import ConsolidationReport, MemoryContext, MemoryCoordinator, TieredStore
from tests.support.agents import WAYS, How, calls, run, scripted
from tests.support.opening import Opened, opened_store

BIKE = "My bike stands in the cellar."
CHAIN = "I need to oil the chain of the bike later!"
SOLD = "We decided to sell the car in May."
SUMS = "What do 3 * 4 and 12 + 5.5 make?"


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An embedded store's directory, with its server kept running."""
    path = tmp_path_factory.mktemp("assistant") / "memory"
    with TieredStore.embedded(path):
        yield path


def chat(tenant: str, session: str) -> dict[str, Any]:
    """A session, in a thread of its name."""
    context = MemoryContext(tenant=tenant, project_id="home", session_id=session)
    return {"context": context, "config": {"configurable": {"thread_id": session}}}


async def says(agent: Any, how: How, text: str, where: dict[str, Any]) -> dict[str, Any]:
    return await run(agent, how, {"messages": [{"role": "user", "content": text}]}, **where)


def last(state: dict[str, Any]) -> str:
    return str(state["messages"][-1].text)


@pytest.mark.parametrize(
    ("opened", "how", "named"),
    [(*way, named) for way, named in zip(WAYS, (True, False, False), strict=True)],
)
async def test_what_is_told_decided_and_intended_in_one_session_is_known_in_the_next(
    directory: Path, opened: Opened, how: How, *, named: bool
) -> None:
    """The session is the context's, and where that names none it is the thread."""
    tenant = f"{opened}-{how}-{named}"
    async with opened_store(TieredStore.embedded(directory), opened) as store:
        agent = make_agent(store=store, checkpointer=InMemorySaver())
        monday, tuesday = chat(tenant, "monday"), chat(tenant, "tuesday")
        memory = MemoryCoordinator(store, context=monday["context"])
        if not named:
            for one in (monday, tuesday):
                one["context"] = MemoryContext(tenant=tenant, project_id="home")
        first = [await says(agent, how, one, monday) for one in (BIKE, CHAIN, SOLD, "Bye")]
        second = [await says(agent, how, one, tuesday) for one in ("Where is my bike?", "Bye")]
        kept = [await memory.aget(key) for key in first[-1]["session"]["semantic"]]
        working = await memory.aget_context("", memory_types=["working"], limit=100)

    assert [last(one) for one in first] == [NOTED, NOTED, NOTED, GOODBYE]
    assert last(second[0]) == f'Do not forget: {CHAIN}\nYou told me: "{BIKE}"'
    assert CHAIN not in last(second[1])
    assert first[1]["hooks"]["user_prompt"]["priority"] == "high"
    assert {one.content for one in kept if one} >= {BIKE, SOLD}
    assert working == []
    assert first[-1]["session"]["session_id"] == "monday"
    assert first[-1]["session_ended"] is False
    told, asked = (state["committed"] for state in (first[1], second[0]))
    assert (len(told["episodic"]), told["semantic"]) == (1, [])  # what is intended, beside it
    assert asked["episodic"] == asked["semantic"] == []  # a question is no fact
    assert ConsolidationReport.of(first[-1]).tenant == tenant  # due at a session's end


def test_a_turn_with_tools_is_planned_tracked_committed_and_remembered_as_a_workflow(
    directory: Path,
) -> None:
    where = chat("tools", "monday")
    with TieredStore.embedded(directory) as store:
        agent = make_agent(store=store)
        state = agent.invoke({"messages": [SUMS]}, **where)
        memory = MemoryCoordinator(store, context=where["context"])
        done = memory.get_context("", memory_types=["procedural"], limit=10)
        tracked = memory.get_context("calculate", memory_types=["episodic"], tags=["tool-call"])

    assert last(state) == "3 * 4 = 12, 12 + 5.5 = 17.5."
    assert {one.content for one in done} == {
        f"Work out {one}: 1. calculate({json.dumps({'expression': one})})"
        for one in ("3 * 4", "12 + 5.5")
    }
    assert all(one.metadata["success"] for one in done)
    assert "Result: 12" in "\n".join(one.content for one in tracked)
    assert state["committed"]["summary"]["tool calls"] == 2
    assert state["turn"] is None


def test_a_chat_model_sees_the_context_and_the_reminders_and_calls_the_tools(
    directory: Path,
) -> None:
    model = scripted(calls("calculate", expression="1 / 0"), "That cannot be.")
    where = chat("model", "monday")
    with TieredStore.embedded(directory) as store:
        memory = MemoryCoordinator(store, context=where["context"])
        memory.store("Anna's bike is red.", "semantic")
        memory.reminders.add("Ask Anna for the key", priority="high")
        state = make_agent(model=model, store=store).invoke(
            {"messages": ["What is 1 / 0, and is the bike of Anna red?"]}, **where
        )

    shown = str(model.seen[0][0].text)
    assert shown.startswith(assistant.INSTRUCTIONS)
    assert "Anna's bike is red." in shown
    assert "Ask Anna for the key" in shown
    assert last(state) == "That cannot be."
    assert "ZeroDivisionError" in str(state["messages"][-2].text)


@pytest.mark.parametrize("text", ["2 ** 9", "__import__('os')", "1 +", "1 / 0", "'a' * 3", "x"])
def test_what_is_no_sum_is_not_worked_out(text: str) -> None:
    with pytest.raises(ToolException):
        calculate.invoke({"expression": text})
