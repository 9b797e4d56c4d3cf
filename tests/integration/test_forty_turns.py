"""A conversation of forty turns with every disturbance: each sentence is stored once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import cycle
from typing import Any

import pytest
from langchain.agents.middleware import HumanInTheLoopMiddleware, SummarizationMiddleware
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from langmem_tiers import MemoryContext, MemoryCoordinator, TieredMemoryMiddleware
from tests.support.agents import Way, agent_on, scripted
from tests.support.graphs import ACME, off_the_loop

PEOPLE = cycle((None, "ada", "ben"))
FACTS = """
The lift in our building is repaired on Thursdays.
My daughter plays the cello in the school orchestra.
The bakery at the corner closes at noon on Saturdays.
Our router stands behind the bookshelf in the hall.
I keep the spare keys in a blue tin.
The tomatoes on the balcony need water twice a day.
My bicycle has a flat tyre at the back.
We bought the sofa second hand from a neighbour.
The dentist moved to the second floor of number nine.
My uncle repairs clocks in a workshop near the river.
Our printer only works with the old cable.
The choir rehearses in the gymnasium on Tuesdays.
I am allergic to hazelnuts and walnuts.
The ferry to the island takes forty minutes.
My passport expires in the autumn of next year.
The heating is serviced by a firm called Bertolini.
Our cat refuses to eat anything with salmon.
The parking permit is glued to the left window.
My grandmother grew up in a village in the Carpathians.
The library lends board games for two weeks.
I learned to swim when I was thirty.
The garden shed has a leak above the door.
My sister studies geology in Edinburgh.
The coffee machine needs a new seal.
We meet the accountant every second month.
The hiking boots are drying on the terrace.
Our landlord lives in Argentina in winter.
My favourite colour for walls is a pale green.
The train to the airport leaves from platform six.
I sold my motorcycle to a colleague.
The school asks parents to bring a cake on Friday.
My left knee hurts when I walk downstairs.
The neighbours feed a hedgehog in their yard.
Our wedding was on a boat in the rain.
The internet contract ends with the month of June.
I write a diary in a red notebook.
The museum lets children in for nothing.
My boss prefers calls to long letters.
The attic is full of boxes from the last move.
Our first flat had a view of a brewery.
""".strip().splitlines()
BESIDE = "By the way, the door of the cellar sticks."
KINDS = ("plain", "parallel", "approved", "ignored", "leaves", "fails", "two", "delegates")
PAGE = "Page {number} says that the fair is open."
TASK = "Look up entry {number} of the ledger."
EMPTY = "ok"
CALLS: dict[str, dict[str, tuple[str, Callable[[int], Any]]]] = {
    "parallel": {"fetch": ("number", int), "ledger": ("task", lambda it: TASK.format(number=it))},
    "delegates": {"archive": ("task", lambda it: f"Search the archive for box {it}.")},
    "approved": {"send": ("number", int)},
    "ignored": {"send": ("number", int)},
    "leaves": {"fetch": ("number", int)},
}
"""The tools that a turn of each kind calls, and the arguments of each."""


class Assistant(FakeMessagesListChatModel):
    """Follows the conversation's plan for each message, and answers after its tools."""

    responses: list[BaseMessage] = []  # noqa: RUF012
    kinds: dict[str, tuple[int, str]]
    failed: set[int]

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self.answer(messages))])

    def answer(self, messages: list[BaseMessage]) -> AIMessage:
        """Return the next message."""
        asked = next(one for one in reversed(messages) if one.type in ("human", "tool"))
        if asked.type == "tool":
            return AIMessage(f"I have looked into it: {asked.id}.")
        number, kind = self.kinds[asked.text]
        if kind == "fails" and number not in self.failed:
            self.failed.add(number)
            raise RuntimeError("the model is overloaded")
        calls = CALLS.get(kind, {})
        return AIMessage(
            "" if calls else f"That is noted as number {number} of the list.",
            tool_calls=[
                {"name": name, "args": {what: filled(number)}, "id": f"{name}-{number}"}
                for name, (what, filled) in calls.items()
            ],
        )

    def bind_tools(self, *_: Any, **__: Any) -> Any:
        """Bind nothing: the plan says which tools to call."""
        return self


@tool
def fetch(number: int) -> str:
    """Fetch a page."""
    return PAGE.format(number=number)


@tool
def send(number: int) -> str:
    """Send a letter."""
    return f"Letter {number} is sent."


def subagent(store: Any, name: str, answer: str) -> Any:
    """Make a tool that asks an agent with a memory of its own."""
    helper = agent_on(store, scripted(*[answer] * 20), TieredMemoryMiddleware())

    def waits(task: str) -> str:
        """Give a helper a task."""
        done = helper.invoke({"messages": [{"role": "user", "content": task}]}, context=ACME)
        return str(done["messages"][-1].text)

    async def asks(task: str) -> str:
        """Give a helper a task."""
        asked = {"messages": [{"role": "user", "content": task}]}
        return str((await helper.ainvoke(asked, context=ACME))["messages"][-1].text)

    made = tool(name)(asks)
    made.func = waits
    return made


def plan() -> list[tuple[list[HumanMessage], str]]:
    """List what is said in each turn, by whom, and what becomes of it."""
    turns = []
    for number, (fact, kind) in enumerate(zip(FACTS, cycle(KINDS), strict=False)):
        name = next(PEOPLE)
        said = [HumanMessage(fact, name=name)]
        if kind == "two":
            said.insert(0, HumanMessage(BESIDE.replace("cellar", f"room {number}"), name=name))
        turns.append((said, kind))
    return [*turns[:20], ([HumanMessage(EMPTY)], "plain"), *turns[20:]]


async def left(way: Way, agent: Any, given: Any, **whose: Any) -> None:
    """Run a turn whose client leaves the stream once the model has called a tool."""
    if way.how == "invoke":

        def leave() -> None:
            stream = agent.stream(given, stream_mode="updates", **whose)
            next(one for one in stream if "model" in one)
            stream.close()

        await off_the_loop(leave)
        return
    stream = agent.astream(given, stream_mode="updates", **whose)
    async for chunk in stream:
        if "model" in chunk:
            break
    await stream.aclose()


async def had(way: Way, agent: Any, said: list[HumanMessage], kind: str) -> None:
    """Run one turn, as a user and a client have it."""
    given: Any = {"messages": said}
    whose: Any = {"config": {"configurable": {"thread_id": "long"}}, "context": ACME}
    if kind == "leaves":
        await left(way, agent, given, **whose)
    elif kind == "fails":
        with pytest.raises(RuntimeError, match="overloaded"):
            await way(agent, given, **whose)
    else:
        await way(agent, given, **whose)
    if kind == "approved":
        approved: Any = Command(resume={"decisions": [{"type": "approve"}]})
        await way(agent, approved, **whose)


@pytest.mark.slow
async def test_each_sentence_of_forty_turns_is_stored_once_under_its_speaker_and_trust(
    way: Way,
) -> None:
    turns = plan()
    kinds = {str(said[-1].text): (number, kind) for number, (said, kind) in enumerate(turns)}
    sums = SummarizationMiddleware(
        scripted(*["They talked about their homes."] * 99),
        trigger=("messages", 10),
        keep=("messages", 4),
    )
    names = ("ledger", "archive")
    helpers = [subagent(way.store, one, f"The {one} has nothing on it.") for one in names]
    agent = agent_on(
        way.store,
        Assistant(kinds=kinds, failed=set()),
        TieredMemoryMiddleware(),
        sums,
        HumanInTheLoopMiddleware(interrupt_on={"send": True}),
        tools=[fetch, send, *helpers],
        checkpointer=InMemorySaver(),
    )
    for said, kind in turns:
        await had(way, agent, said, kind)

    elsewhere = MemoryCoordinator(way.store, context=MemoryContext(tenant="gate"))
    texts = [one for said, _ in turns for one in said]
    let = [(await elsewhere.astore(one.text, speaker="user")).stored for one in texts]
    assert [one.text for one, stored in zip(texts, let, strict=True) if not stored] == [EMPTY]

    found = await way.store.asearch(("acme",), limit=1_000)
    people = [one.value for one in found if one.value.get("source", "user") == "user"]
    wanted = {one.text: one.name or "user" for one in texts if one.text != EMPTY}
    assert Counter(one["content"] for one in people) == Counter([*wanted])
    assert {one["content"]: one["speaker"] for one in people} == wanted
    assert {one.get("trust", 1.0) for one in people} == {1.0}
    agents = [one.value for one in found if one.value.get("source", "user") != "user"]
    assert {one["speaker"] for one in agents} == {"assistant"}
    tasks = {one["content"]: one["trust"] for one in agents if "ledger." in one["content"]}
    assert set(tasks.values()) == {0.8}
    assert len(tasks) == sum(kind == "parallel" for _, kind in turns)
    assert any("room" in one for one in wanted)
