"""A user's words are stored once, whatever becomes of the turn, and so is an answer, if any."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest
from langchain.agents.middleware import (
    AgentMiddleware,
    HumanInTheLoopMiddleware,
    SummarizationMiddleware,
)
from langchain.agents.structured_output import ToolStrategy
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from pydantic import BaseModel, Field

from langmem_tiers import (
    MemoryContext,
    MemoryCoordinator,
    TieredMemoryMiddleware,
    TieredStore,
    create_remember_node,
)
from langmem_tiers.graph.recall import MemoryState
from tests.support.agents import ScriptedModel, Way, agent_on, scripted
from tests.support.graphs import ACME, call, off_the_loop, pay
from tests.support.opening import Clock, refusing

DOG = "My dog Rex is afraid of thunder."
CAT = "My cat Mia sleeps on the piano."
BIRD = "My parrot Coco speaks some Italian."
HEARS = "I will keep that in mind."


class Failing(ScriptedModel):
    """Fails at its first request."""

    failed: list[bool] = Field(default_factory=list)

    def _generate(self, *given: Any, **options: Any) -> Any:
        if not self.failed:
            self.failed.append(True)
            raise RuntimeError("the model is overloaded")
        return super()._generate(*given, **options)


class Forgetting(AgentMiddleware[Any, Any, Any]):
    """Removes the user's message once a tool was called."""

    def before_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:  # noqa: ARG002
        messages = state["messages"]
        if messages[-1].type != "tool":
            return None
        return {"messages": [RemoveMessage(REMOVE_ALL_MESSAGES), *messages[-2:]]}

    async def abefore_model(self, state: Any, runtime: Any) -> dict[str, Any] | None:
        return self.before_model(state, runtime)


def agent(store: TieredStore, model: Any, *beside: Any, **options: Any) -> Any:
    own = options.pop("own", {})
    middleware = (TieredMemoryMiddleware(**own), *beside)
    saver = options.pop("saver", None) or InMemorySaver()
    return agent_on(store, model, *middleware, checkpointer=saver, **options)


def said(*texts: str) -> dict[str, Any]:
    return {"messages": [HumanMessage(one) for one in texts]}


def thread(name: str = "t") -> Any:
    return {"configurable": {"thread_id": name}}


async def stored(store: TieredStore) -> dict[str, str | None]:
    """Return the memories, each once, with their speakers."""
    memory = MemoryCoordinator(store, context=replace(ACME, session_id="t"))
    found = await memory.aget_context("", limit=100, min_match=0)
    assert max(Counter(one.content for one in found).values(), default=1) == 1
    return {one.content: one.speaker for one in found}


async def test_what_a_summary_replaces_in_the_turn_is_stored_with_its_answer(way: Way) -> None:
    pays = [call("pay", number, amount=str(number)) for number in range(5)]
    sums = SummarizationMiddleware(
        scripted(*["They talked."] * 9), trigger=("messages", 4), keep=("messages", 2)
    )
    made = agent(way.store, scripted(*pays, HEARS), sums, tools=[pay])
    state = await way(made, said(DOG), config=thread(), context=ACME)

    assert DOG not in [one.text for one in state["messages"]]
    assert await stored(way.store) == {DOG: "user", HEARS: "assistant"}


async def test_what_is_removed_from_the_messages_in_the_turn_is_stored(way: Way) -> None:
    model = scripted(call("pay", amount="5"), HEARS)
    made = agent(way.store, model, Forgetting(), tools=[pay])
    state = await way(made, said(DOG), config=thread(), context=ACME)

    assert DOG not in [one.text for one in state["messages"]]
    assert await stored(way.store) == {DOG: "user", HEARS: "assistant"}


async def test_what_a_model_failed_at_is_stored_and_so_is_what_is_said_next(way: Way) -> None:
    made = agent(way.store, Failing(responses=[AIMessage(HEARS)]))
    with pytest.raises(RuntimeError, match="overloaded"):
        await way(made, said(DOG), config=thread(), context=ACME)
    assert await stored(way.store) == {DOG: "user"}
    await way(made, said(CAT), config=thread(), context=ACME)

    assert await stored(way.store) == {DOG: "user", CAT: "user", HEARS: "assistant"}


async def test_what_is_said_in_place_of_an_answer_to_an_interrupt_is_stored_with_what_led_to_it(
    way: Way,
) -> None:
    asks = HumanInTheLoopMiddleware(interrupt_on={"pay": True})
    made = agent(way.store, scripted(call("pay", amount="5"), HEARS), asks, tools=[pay])
    for text in (DOG, CAT):
        await way(made, said(text), config=thread(), context=ACME)

    assert await stored(way.store) == {DOG: "user", CAT: "user", HEARS: "assistant"}


async def test_all_messages_of_one_input_are_stored(way: Way) -> None:
    made = agent(way.store, scripted(HEARS))
    await way(made, said(DOG, CAT, BIRD), config=thread(), context=ACME)
    assert await stored(way.store) == {
        **dict.fromkeys((DOG, CAT, BIRD), "user"),
        HEARS: "assistant",
    }


@pytest.mark.parametrize("taken", [1, 2])
def test_what_was_said_is_stored_though_the_client_leaves_the_stream(
    store: TieredStore, taken: int
) -> None:
    made = agent(store, scripted(call("pay", amount="5"), HEARS), tools=[pay])
    stream = made.stream(said(DOG), thread(), context=ACME, stream_mode="updates")
    for _ in range(taken):
        next(stream)
    stream.close()
    made.invoke(said(CAT), thread(), context=ACME)
    found = asyncio.run(stored(store))
    assert found.items() >= {DOG: "user", CAT: "user"}.items()


@pytest.mark.parametrize("during", ["the answer", "the first chunk"])
async def test_what_was_said_is_stored_though_the_task_of_a_stream_is_cancelled(
    store: TieredStore, during: str
) -> None:
    there, hang = asyncio.Event(), asyncio.Event()

    class Hanging(ScriptedModel):
        async def _agenerate(self, *given: Any, **options: Any) -> Any:
            if not there.is_set():
                there.set()
                await hang.wait()
            return self._generate(*given, **options)

    made = agent(store, Hanging(responses=[AIMessage(HEARS)]))

    async def listen() -> None:
        async for _ in made.astream(said(DOG), thread(), context=ACME, stream_mode="updates"):
            if during == "the first chunk":
                there.set()
                await hang.wait()

    listening = asyncio.create_task(listen())
    await there.wait()
    listening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await listening
    await made.ainvoke(said(CAT), thread(), context=ACME)

    assert await stored(store) == {DOG: "user", CAT: "user", HEARS: "assistant"}


class Pets(BaseModel):
    """Pets, and of whom."""

    names: list[str]


async def test_an_answer_in_a_form_is_stored_as_the_agents_for_its_own_turn_alone(way: Way) -> None:
    form = {"name": "Pets", "args": {"names": ["Rex"]}, "id": "form"}
    model = scripted(AIMessage("", tool_calls=[form]), call("pay", amount="5"))
    direct = pay.model_copy(update={"return_direct": True})
    made = agent(way.store, model, tools=[direct], response_format=ToolStrategy(Pets))
    await way(made, said(DOG), config=thread(), context=ACME)
    assert await stored(way.store) == {DOG: "user", '{"names": ["Rex"]}': "assistant"}

    await way(made, said(CAT), config=thread(), context=ACME)
    found = await stored(way.store)
    assert found == {
        DOG: "user", '{"names": ["Rex"]}': "assistant", CAT: "user", "paid 5": "assistant",
    }  # fmt: skip


async def test_what_a_tool_answers_directly_is_the_answer_and_trusted_as_a_tools(way: Way) -> None:
    @tool(return_direct=True)
    def weather(place: str) -> str:
        """The weather of a place."""
        return f"Thunder in {place} until Friday."

    made = agent(way.store, scripted(call("weather", place="Turin")), tools=[weather])
    await way(made, said(DOG), config=thread(), context=ACME)

    found = await MemoryCoordinator(way.store, context=ACME).aget_context("", limit=9, min_match=0)
    trusted = {one.content: one.value.get("trust", 1.0) for one in found}
    assert trusted == {DOG: 1.0, "Thunder in Turin until Friday.": 0.6}


async def test_what_could_not_be_stored_is_stored_at_the_end_of_the_turn(
    way: Way, url: str
) -> None:
    with ExitStack() as refused:
        refused.enter_context(refusing(url))
        model = scripted(HEARS, meanwhile=refused.close)
        made = agent(way.store, model, own={"recall": False, "remind": False})
        state = await way(made, said(DOG), config=thread(), context=ACME)

    assert state["memory_errors"] == {}
    assert await stored(way.store) == {DOG: "user", HEARS: "assistant"}


async def test_what_could_not_be_stored_in_a_turn_is_stored_in_the_next_with_its_own_day(
    way: Way, url: str, clock: Clock
) -> None:
    model = scripted(HEARS, "Noted, both.")
    made = agent(way.store, model, own={"recall": False, "remind": False})
    with refusing(url):
        state = await way(made, said(DOG), config=thread(), context=ACME)
        assert state["messages"][-1].text == HEARS
        assert state["memory_errors"].keys() == {"remember"}
    assert await stored(way.store) == {}
    then = clock.now
    clock.advance(days=4)
    state = await way(made, said(CAT), config=thread(), context=ACME)
    assert state["memory_errors"] == {}
    assert await stored(way.store) == {DOG: "user", CAT: "user", "Noted, both.": "assistant"}
    found = await MemoryCoordinator(way.store, context=ACME).aget_context("", limit=9)
    assert {one.content: one.occurred_at for one in found}[DOG] == then


async def test_what_is_deleted_after_its_turn_stays_gone_though_it_stands_among_the_messages(
    way: Way,
) -> None:
    made = agent(way.store, scripted(HEARS, "Noted, the cat."))
    await way(made, said(DOG), config=thread(), context=ACME)
    memory = MemoryCoordinator(way.store, context=ACME)
    (dog,) = [one for one in await memory.aget_context("", limit=9) if one.content == DOG]
    await memory.adelete_memory(dog.key)
    await way(made, said(CAT), config=thread(), context=ACME)

    assert DOG not in await stored(way.store)


async def test_a_turn_is_not_shown_what_was_said_in_it(way: Way) -> None:
    model = scripted(call("pay", amount="5"), HEARS)
    made = agent(way.store, model, tools=[pay], own={"min_match": 0})
    await way(made, said(DOG, CAT), config=thread(), context=ACME)

    assert await off_the_loop(len, model.seen) == 2
    assert not [one for seen in model.seen for one in seen if one.type == "system"]


async def test_a_node_stores_all_that_was_said_since_the_last_answer(way: Way) -> None:
    fails = [True]

    def respond(_: Any) -> dict[str, Any]:
        if fails:
            raise RuntimeError(fails.pop())
        return {"messages": [AIMessage(HEARS)]}

    builder: Any = StateGraph(MemoryState, context_schema=MemoryContext)
    builder.add_sequence([("respond", respond), ("remember", create_remember_node())])
    builder.set_entry_point("respond")
    graph = builder.compile(store=way.store, checkpointer=InMemorySaver())
    with pytest.raises(RuntimeError):
        await way(graph, said(DOG), config=thread(), context=ACME)
    await way(graph, said(CAT, BIRD), config=thread(), context=ACME)

    assert await stored(way.store) == {
        **dict.fromkeys((DOG, CAT, BIRD), "user"),
        HEARS: "assistant",
    }
