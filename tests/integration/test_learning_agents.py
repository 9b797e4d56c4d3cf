from __future__ import annotations

from typing import Any

import pytest
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import (
    BaseMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import ToolException

from langmem_tiers import MemoryCoordinator, TieredMemoryMiddleware, TieredStore
from tests.support.agents import ScriptedModel, Way, agent_on, scripted
from tests.support.graphs import (
    ACME,
    add,
    answers,
    asks,
    call,
    counts,
    learned,
    off_the_loop,
    pay,
)

THREAD: RunnableConfig = {"configurable": {"thread_id": "1"}}
LESSON = "Do instead: add"


class Reported(AgentMiddleware[Any, Any, Any]):
    """Reports what a tool raises to the model."""

    def wrap_tool_call(self, request: Any, handler: Any) -> Any:
        try:
            return handler(request)
        except ToolException as error:
            said = f"ToolException: {error}"
            return ToolMessage(said, tool_call_id=request.tool_call["id"], status="error")

    async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
        try:
            return await handler(request)
        except ToolException as error:
            said = f"ToolException: {error}"
            return ToolMessage(said, tool_call_id=request.tool_call["id"], status="error")


def agent(model: ScriptedModel, store: TieredStore, **options: Any) -> Any:
    saver = options.pop("checkpointer", None)
    return agent_on(
        store,
        model,
        TieredMemoryMiddleware(**options),
        Reported(),
        tools=[add, pay],
        checkpointer=saver,
    )


def systems(model: ScriptedModel) -> list[str]:
    """The system message of each request; empty if it had none."""

    def system(messages: list[BaseMessage]) -> str:
        return messages[0].text if isinstance(messages[0], SystemMessage) else ""

    return [system(messages) for messages in model.seen]


async def test_an_agent_is_shown_the_lesson_of_its_last_failure_first(way: Way) -> None:
    store = way.store
    model = scripted(call("add", 1, amount="5,678"), call("add", 2, amount="5678"), "Done")
    await off_the_loop(learned, store)
    memory = MemoryCoordinator(store, context=ACME)
    await memory.astore("Invoices to add up lie in the cellar", memory_type="semantic")
    made = agent(model, store, memory_types=["semantic"])
    state = await way(made, {"messages": [asks()]}, context=ACME)

    before, failed, worked = systems(model)
    assert LESSON not in before
    assert failed.index(LESSON) < failed.index("lie in the cellar")
    assert worked == before
    assert LESSON not in str(state)


@pytest.mark.parametrize("success", [True, False])
async def test_what_an_agent_was_shown_is_credited_with_the_outcome_of_the_turn(
    way: Way, *, success: bool
) -> None:
    store = way.store
    model = scripted(call("add", 1, amount="5,678"), call("add", 2, amount="5678"), "Done")
    key = await off_the_loop(learned, store)
    memory = MemoryCoordinator(store, context=ACME)
    fact = await memory.astore("Invoices lie in the cellar", memory_type="semantic")
    made = agent(model, store, memory_types=["semantic"], outcome=lambda _: success)
    await way(made, {"messages": [asks()]}, context=ACME)
    counted = [await off_the_loop(counts, store, one) for one in (key, str(fact.key))]

    assert counted == [(int(success), int(not success))] * 2


def test_what_an_agents_turn_goes_without_is_shown_nowhere(ready: TieredStore) -> None:
    learned(ready)
    model = scripted(call("add", 1, amount="1,234"), "Done")
    made = agent(model, ready, holdout=1.0, remember=True)
    state = made.invoke({"messages": [asks()]}, THREAD, context=ACME)

    assert systems(model) == ["", ""]
    assert "Do instead" not in str(state)
    assert "has a comma" in answers(state)[0].text
