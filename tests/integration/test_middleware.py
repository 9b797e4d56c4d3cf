from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from langmem_tiers import MemoryContext, MemoryCoordinator, TieredStore
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.memory import Recollections
from langmem_tiers.graph.middleware import TieredMemoryMiddleware
from tests.support.agents import Way, calls, scripted
from tests.support.opening import text_index
from tests.support.wayward_chat import calls as calls_tool
from tests.support.wayward_chat import says, wayward

ACME = MemoryContext(tenant="acme", project_id="billing")
VAULT = "The vault is in the cellar"
ASKED: dict[str, Any] = {"messages": [HumanMessage("Where is the vault?")]}


@tool
def look(place: str) -> str:
    """Look at a place."""
    return f"{place}: nothing to see"


class Counting(MemoryCoordinator):
    """Counts what it is asked."""

    asked: list[str]

    def get_context(self, query: str, **options: Any) -> Recollections:
        self.asked.append(query)
        return super().get_context(query, **options)

    async def aget_context(self, query: str, **options: Any) -> Recollections:
        self.asked.append(query)
        return await super().aget_context(query, **options)


@pytest.fixture
def counting() -> type[Counting]:
    return type("Counted", (Counting,), {"asked": []})


@pytest.fixture
def ready(url: str) -> Iterator[TieredStore]:
    with TieredStore(url, index=text_index()) as store:
        remember(store)
        yield store


def remember(store: TieredStore) -> None:
    MemoryCoordinator(store, context=ACME).store(VAULT, memory_type="semantic")


def agent(model: Any, store: TieredStore, *, extra: Sequence[Any] = (), **options: Any) -> Any:
    own = {name: options.pop(name) for name in ("checkpointer", "system_prompt") if name in options}
    return create_agent(
        model,
        tools=[look],
        middleware=[*extra, TieredMemoryMiddleware(**options)],
        context_schema=MemoryContext,
        store=store,
        **own,
    )


def system_of(messages: Sequence[BaseMessage]) -> str:
    assert isinstance(messages[0], SystemMessage)
    return str(messages[0].text)


def contents(store: TieredStore) -> list[tuple[str | None, str]]:
    memory = MemoryCoordinator(store, context=ACME)
    found = memory.get_context("", memory_types=["episodic"], limit=100)
    said = sorted(found, key=lambda one: (one.created_at, one.speaker != "user"))
    return [(one.speaker, one.content) for one in said]


async def test_memories_are_shown_once_a_turn_and_never_saved_however_the_agent_is_run(
    way: Way, counting: type[Counting]
) -> None:
    store = way.store
    model = scripted(calls("look", place="cellar"), calls("look", place="attic"), "In the cellar")
    await asyncio.to_thread(remember, store)
    made = agent(model, store, coordinator=counting, system_prompt="Be brief", limit=1)
    state = await way(made, ASKED, context=ACME)

    assert [system_of(seen) for seen in model.seen] == [system_of(model.seen[0])] * 3
    assert system_of(model.seen[0]).startswith("Be brief\n\n<recalled_memories>\n")
    assert VAULT in system_of(model.seen[0])
    assert counting.asked == ["Where is the vault?"]
    assert VAULT not in str(state)


async def test_a_turn_is_recalled_once_and_no_checkpoint_and_no_stream_shows_what_was(
    ready: TieredStore, counting: type[Counting]
) -> None:
    saver = InMemorySaver()
    model = scripted(calls("look", place="attic"), "done", "one", "two", "three")
    made = agent(model, ready, coordinator=counting, checkpointer=saver)
    modes = ["values", "updates", "messages", "custom", "tasks"]
    thread: Any = {"configurable": {"thread_id": "1"}}
    streamed = made.astream(ASKED, thread, context=ACME, stream_mode=modes)
    shown = [one async for one in streamed]
    kept = list(saver.list(thread))
    assert len(shown) > len(modes) < len(kept) + len(modes)
    assert VAULT not in str(shown) + str(kept)
    made.invoke({"messages": [HumanMessage("And the key?")]}, thread, context=ACME)
    again = {"messages": [HumanMessage("And the key?", id="1")]}
    for number in "2", "3":
        made.invoke(again, {"configurable": {"thread_id": number}}, context=ACME)
    assert counting.asked == ["Where is the vault?", *(["And the key?"] * 3)]
    assert contents(ready) == []  # nothing is remembered unless asked


def test_without_memories_the_request_stays_as_it_was_and_labels_may_come_from_configurable(
    ready: TieredStore,
) -> None:
    model = scripted("nothing")
    by_user = MemoryContext(tenant="{user_id}", project_id="billing")
    for user in ("new", "acme"):
        made = agent(model, ready, context=by_user)
        made.invoke(ASKED, {"configurable": {"user_id": user}})
    assert [type(one) for one in model.seen[0]] == [HumanMessage]
    assert VAULT in system_of(model.seen[1])


def test_a_run_that_was_interrupted_recalls_once_more_when_it_goes_on(
    ready: TieredStore, counting: type[Counting]
) -> None:
    model = scripted(calls("look", place="attic"), calls("wait"), "done")
    model.responses[1] = AIMessage(
        "", tool_calls=[{"name": "look", "args": {"place": "loft"}, "id": "2"}]
    )
    made = agent(
        model,
        ready,
        coordinator=counting,
        checkpointer=InMemorySaver(),
        extra=[HumanInTheLoopMiddleware(interrupt_on={"look": True})],
    )
    config = {"configurable": {"thread_id": "1"}}
    made.invoke(ASKED, config, context=ACME)
    for _ in range(2):
        made.invoke(Command(resume={"decisions": [{"type": "approve"}]}), config, context=ACME)

    assert len(model.seen) == 3
    assert all(VAULT in system_of(seen) for seen in model.seen)
    assert len(counting.asked) == 3


def test_what_cannot_work_is_refused_at_once() -> None:
    with pytest.raises(InvalidInputError, match="profile"):
        TieredMemoryMiddleware(profile="nearest")
    with pytest.raises(InvalidInputError, match="did you mean 'context'"):
        TieredMemoryMiddleware(tenant="acme")  # type: ignore[call-arg]
    for odd in ({"team": "acme"}, {"session_id": ""}, {"tenant": 5}, "acme"):
        with pytest.raises(InvalidInputError):
            TieredMemoryMiddleware(context=odd)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="top"):
        TieredMemoryMiddleware(top=3)  # type: ignore[call-arg]


# Remembering


async def test_what_was_said_is_remembered_when_the_agent_is_done(way: Way) -> None:
    store = way.store
    model = scripted(calls("look", place="cellar"), "It is there")
    made = agent(model, store, remember=True)
    config = {"configurable": {"thread_id": "chat-7"}}
    await way(made, ASKED, config=config, context=ACME)
    found = await MemoryCoordinator(store, context=ACME).aget_context("vault", limit=9)
    kept = await asyncio.to_thread(contents, store)

    assert kept == [("user", "Where is the vault?"), ("assistant", "It is there")]
    assert {(one.memory_type, one.session_id) for one in found} == {("episodic", "chat-7")}


def test_each_message_is_remembered_once_by_its_thread_its_id_and_its_words(
    ready: TieredStore,
) -> None:
    tea, clock = "The tea is in the kitchen drawer.", "The clock hangs beside the door."
    texts = (tea, tea, clock, f"As I recall: {VAULT}", "")
    answers = [AIMessage(one, id="a") for one in texts]
    made = agent(scripted(*answers), ready, remember=True)
    mine = MemoryContext(tenant="acme", project_id="billing", session_id="mine")
    things = ("tea", "clock", "rope", "lamp")
    first, second, third, fourth = (f"Where did we put the {one} last summer?" for one in things)
    for thread, question, context in (
        *[("1", first, ACME)] * 2,  # a run that is repeated
        *(("2", second, mine), ("3", third, ACME), (None, fourth, ACME)),
    ):
        config = {"configurable": {"thread_id": thread} if thread else {}}
        made.invoke({"messages": [HumanMessage(question, id="1")]}, config, context=context)
    said = [text for _, text in contents(ready)]
    assert said == [first, tea, second, clock, third, fourth]
    found = MemoryCoordinator(ready, context=ACME).get_context(
        "", memory_types=["episodic"], limit=9
    )
    assert {one.session_id for one in found} == {"1", "mine", "3", None}


def test_what_stands_among_the_messages_is_not_recalled_as_well(ready: TieredStore) -> None:
    model = scripted("First answer on vaults", "Second answer")
    saver = InMemorySaver()
    made = agent(model, ready, remember=True, checkpointer=saver, limit=1)
    for thread, question in (("1", "Is the vault safe?"), ("1", "Is the vault big?")):
        config = {"configurable": {"thread_id": thread}}
        made.invoke({"messages": [HumanMessage(question)]}, config, context=ACME)
    assert "Is the vault safe?" not in system_of(model.seen[1])
    assert VAULT in system_of(model.seen[1])

    other = {"configurable": {"thread_id": "2"}}
    made.invoke({"messages": [HumanMessage("Is the vault safe now?")]}, other, context=ACME)
    assert "Is the vault safe?" in system_of(model.seen[2])


def test_an_agent_works_against_an_openai_compatible_server(ready: TieredStore) -> None:
    looks = calls_tool("look", '{"place": "cellar"}')
    with wayward(looks, says("In the cellar, behind the wine")) as server:
        model = ChatOpenAI(model="local", base_url=server.url, api_key=lambda: "none")
        made = agent(model, ready, remember=True, system_prompt="Be brief")
        state = made.invoke(ASKED, {"configurable": {"thread_id": "1"}}, context=ACME)

    assert state["messages"][-1].text == "In the cellar, behind the wine"
    systems = [asked["messages"][0] for asked in server.asked]
    assert systems[0] == systems[1]
    assert systems[0]["role"] == "system"
    assert VAULT in systems[0]["content"]
    assert contents(ready) == [
        ("user", "Where is the vault?"),
        ("assistant", "In the cellar, behind the wine"),
    ]


def test_a_middleware_keeps_the_memories_of_few_turns(ready: TieredStore) -> None:
    made = TieredMemoryMiddleware()
    own = create_agent(scripted("x"), middleware=[made], context_schema=MemoryContext, store=ready)
    for _ in range(3):
        own.invoke({"messages": [HumanMessage("Where is the vault?")]}, context=ACME)
    assert len(made._turns) == 3

    made._turns.update({str(number): made._turns[next(iter(made._turns))] for number in range(256)})
    own.invoke({"messages": [HumanMessage("Where is the vault?")]}, context=ACME)
    assert len(made._turns) == 256
