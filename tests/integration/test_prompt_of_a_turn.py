"""An agent's model is shown memories for a turn's question, the same ones at each call."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from langchain.agents.middleware import (
    AgentMiddleware,
    HumanInTheLoopMiddleware,
    ModelRetryMiddleware,
    SummarizationMiddleware,
    ToolRetryMiddleware,
)
from langchain_core.messages import (
    AIMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Command

from langmem_tiers import MemoryCoordinator, TieredMemoryMiddleware, TieredStore
from langmem_tiers.core.memory import Recollections
from langmem_tiers.graph.recall import create_recall_node
from langmem_tiers.graph.turn import (
    create_assemble_node,
    create_commit_node,
    create_tool_tracking_node,
)
from tests.support.agents import ScriptedModel, Way, agent_on, scripted
from tests.support.coordinating import PATIENT
from tests.support.graphs import ACME, add, answers, call, chain, learned, off_the_loop, pay
from tests.support.opening import Clock

VAULT = "The vault is in the cellar"
NEWER = "Lunch is served at noon"
LESSON = "Do instead: add"
TELLING_ADD = add.model_copy(update={"handle_tool_error": True})
PAYS = [call("pay", number, amount="5") for number in range(1, 8)]


class Counting(MemoryCoordinator):
    """Counts what it is asked."""

    asked: list[str]

    def get_context(self, query: str, **options: Any) -> Recollections:
        self.asked.append(query)
        return super().get_context(query, **options)


@pytest.fixture
def counting() -> type[Counting]:
    return type("Counted", (Counting,), {"asked": []})


@pytest.fixture
def ready(store: TieredStore, clock: Clock) -> TieredStore:
    known(store, clock)
    return store


def known(store: TieredStore, clock: Clock) -> None:
    """Store a memory that answers the question, and newer ones that do not."""
    memory = MemoryCoordinator(store, context=ACME)
    for text in (VAULT, NEWER):
        memory.store(text, memory_type="semantic")
        clock.advance(minutes=1)


def agent(model: Any, store: TieredStore, *beside: Any, **options: Any) -> Any:
    patient = partial(MemoryCoordinator, settings=PATIENT)
    usual = {"limit": 1, "memory_types": ["semantic"], "coordinator": patient}
    own = {**usual, **options.pop("own", {})}
    middleware = (*options.pop("around", ()), TieredMemoryMiddleware(**own), *beside)
    tools = options.pop("tools", [TELLING_ADD, pay])
    return agent_on(store, model, *middleware, tools=tools, **options)


def thread(name: str = "1") -> Any:
    return {"configurable": {"thread_id": name}}


def said(text: str = "Where is the vault?", number: int | None = None) -> dict[str, Any]:
    return {"messages": [HumanMessage(text, id=number and f"m{number}")]}


def systems(model: ScriptedModel) -> list[str]:
    """The system message of each request; empty if it had none."""
    first = [messages[0] for messages in model.seen]
    return [one.text if isinstance(one, SystemMessage) else "" for one in first]


def summing(model: Any = None) -> SummarizationMiddleware:
    summary = model or scripted(*["They spoke of payments."] * 20)
    return SummarizationMiddleware(summary, trigger=("messages", 5), keep=("messages", 2))


class FirstAndLast(AgentMiddleware):
    """Lets the model see only the thread's first and last message."""

    def wrap_model_call(self, request: Any, handler: Any) -> Any:
        first, *rest = request.messages
        return handler(request.override(messages=[first, *rest[-2:]]))

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        first, *rest = request.messages
        return await handler(request.override(messages=[first, *rest[-2:]]))


class Trimming(AgentMiddleware):
    """Keeps only the thread's first and last message."""

    def before_model(self, state: Any, runtime: Any) -> Any:  # noqa: ARG002
        first, *rest = state["messages"]
        return {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), first, *rest[-2:]]}


async def test_a_turn_is_shown_what_answers_its_question_after_a_summary_of_it(
    way: Way, clock: Clock
) -> None:
    await off_the_loop(known, way.store, clock)
    model = scripted(*PAYS, "Paid")
    made = agent(model, way.store, around=[summing()])
    state = await way(made, said(), context=ACME, config=thread())

    assert not any(one.text == "Where is the vault?" for one in state["messages"])
    assert len(set(systems(model))) == 1
    assert VAULT in systems(model)[0]
    assert NEWER not in systems(model)[0]


@pytest.mark.parametrize("trims", [FirstAndLast, Trimming])
async def test_a_turn_is_shown_what_answers_its_own_question_where_the_first_and_last_are_seen(
    way: Way, clock: Clock, trims: Any
) -> None:
    await off_the_loop(known, way.store, clock)
    model = scripted("Noon", *PAYS[:4], "In the cellar")
    made = agent(model, way.store, around=[trims()], checkpointer=InMemorySaver())
    for number, text in enumerate(("When is lunch served?", "Where is the vault?")):
        await way(made, said(text, number + 1), context=ACME, config=thread())

    lunch, *rest = systems(model)
    assert NEWER in lunch
    assert len(set(rest)) == 1
    assert VAULT in rest[0]


def test_what_a_user_said_in_the_turn_is_not_recalled_where_the_model_does_not_see_it(
    ready: TieredStore,
) -> None:
    memory = MemoryCoordinator(ready, context=ACME)
    model = scripted("In the cellar", "In the cellar, still")

    class LastAlone(AgentMiddleware):
        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            return handler(request.override(messages=[HumanMessage("Go on")]))

    own = {"memory_types": None, "limit": 8}
    made = agent(model, ready, around=[LastAlone()], own=own)
    for _ in range(2):  # the same message, which the first run stored
        made.invoke(said(number=1), thread(), context=ACME)
    assert memory.get_context("Where is the vault?", memory_types=["episodic"])
    assert "Where is the vault?" not in systems(model)[1]


def test_the_day_a_prompt_tells_is_that_on_which_the_turn_began(
    ready: TieredStore, clock: Clock
) -> None:
    @tool
    def wait() -> str:
        """Wait for a day."""
        clock.advance(days=1)
        return "a day passed"

    model = scripted(call("wait", 1), call("wait", 2), "Done")
    agent(model, ready, tools=[wait]).invoke(said(), context=ACME)
    assert len(set(systems(model))) == 1
    assert "Today is " in systems(model)[0]


async def test_what_a_failure_taught_stands_in_the_answer_of_the_failed_call_and_stays_there(
    way: Way, clock: Clock
) -> None:
    await off_the_loop(known, way.store, clock)
    await off_the_loop(learned, way.store)
    fails = [call("add", number, amount=f"{number},000") for number in (1, 2)]
    model = scripted(*fails, call("add", 3, amount="3000"), "Added")
    state = await way(agent(model, way.store), said(), context=ACME, config=thread())

    assert len(set(systems(model))) == 1
    first, second, third = answers(state)
    assert first.text.index(LESSON) < first.text.rindex("has a comma")
    assert LESSON not in second.text  # it stands there already
    assert LESSON not in third.text
    for seen, before in zip(model.seen[1:], model.seen, strict=False):
        assert [one.text for one in seen[: len(before)]] == [one.text for one in before]
    assert LESSON in model.seen[1][-1].text


def test_what_a_failure_taught_is_nothing_that_the_tool_said(ready: TieredStore) -> None:
    learned(ready)
    memory = MemoryCoordinator(ready, context=ACME)
    failed = call("add", 1, amount="5,678", currency="EUR")
    model = scripted(failed, call("add", 2, amount="5678", currency="EUR"), "Added")
    agent(model, ready, own={"reflect": True}).invoke(said(), thread(), context=ACME)
    kept = memory.get_context("", memory_types=["attempt", "reflexion"], limit=50)
    assert any("5,678" in one.content for one in kept)
    assert not any("Do instead" in one.content and "<" in one.content for one in kept)
    assert not any("memories>" in str(one.value) for one in kept)


def test_what_a_failure_taught_is_shown_whoever_makes_an_answer_of_the_error(
    ready: TieredStore,
) -> None:
    learned(ready)
    model = scripted(call("add", 1, amount="5,678"), "It has a comma")
    retry = ToolRetryMiddleware(
        max_retries=0, on_failure=lambda error: f"{type(error).__name__}: {error}"
    )
    made = agent(model, ready, around=[retry], tools=[add])
    (answer,) = answers(made.invoke(said(), context=ACME))
    assert answer.status == "error"
    assert LESSON in answer.text
    assert LESSON in model.seen[1][-1].text


def test_a_turn_that_is_resumed_is_shown_the_same_by_another_process(
    ready: TieredStore, counting: type[Counting]
) -> None:
    memory, saver = MemoryCoordinator(ready, context=ACME), InMemorySaver()
    memory.reminders.add("Call the bank")
    approved: Any = Command(resume={"decisions": [{"type": "approve"}]})
    asking = HumanInTheLoopMiddleware(interrupt_on={"pay": True})
    model = scripted(*PAYS[:3], "Paid")
    given: Any = said()
    for _ in range(4):
        own = {"coordinator": counting}
        made = agent(model, ready, summing(), asking, checkpointer=saver, own=own)
        made.invoke(given, thread(), context=ACME)
        memory.store("The vault is in the cellar, says Ann too", memory_type="semantic")
        given = approved

    assert len(systems(model)) == 4
    assert len(set(systems(model))) == 1
    assert VAULT in systems(model)[0]
    assert "] Call the bank\n" in systems(model)[0]
    assert counting.asked == ["Where is the vault?"]
    assert VAULT not in str(list(saver.list(thread())))


@pytest.mark.parametrize("how", ["forget", "retract", "supersede"])
def test_what_is_not_true_any_more_is_not_shown_to_a_turn_that_is_resumed(
    ready: TieredStore, how: str
) -> None:
    memory, saver = MemoryCoordinator(ready, context=ACME), InMemorySaver()
    (vault,) = memory.get_context("Where is the vault?", limit=1)
    asking = HumanInTheLoopMiddleware(interrupt_on={"pay": True})
    model = scripted(PAYS[0], "Paid")
    made = agent(model, ready, asking, checkpointer=saver)
    made.invoke(said(), thread(), context=ACME)
    if how == "forget":
        memory.forget(key=vault.key)
    elif how == "retract":
        memory.truth.retract(vault.key, reason="it was never there")
    else:
        new = memory.store("The vault is in the attic", memory_type="semantic")
        memory.truth.supersede(vault.key, by=str(new.key))
    approved: Any = Command(resume={"decisions": [{"type": "approve"}]})
    made.invoke(approved, thread(), context=ACME)
    before, after = systems(model)
    assert VAULT in before
    assert VAULT not in after


def test_a_new_message_after_an_interrupt_begins_a_turn_of_its_own(ready: TieredStore) -> None:
    asking = HumanInTheLoopMiddleware(interrupt_on={"pay": True})
    model = scripted(PAYS[0], "At noon")
    made = agent(model, ready, asking, checkpointer=InMemorySaver())
    made.invoke(said(number=1), thread(), context=ACME)
    made.invoke(said("When is lunch served?", 2), thread(), context=ACME)
    vault, lunch = systems(model)
    assert VAULT in vault
    assert NEWER in lunch


def test_a_turn_goes_on_where_a_client_answers_a_call_after_a_summary(ready: TieredStore) -> None:
    model = scripted(*PAYS[:3], call("pay", 9, amount="1"), "Paid")
    made = agent(
        model,
        ready,
        around=[summing()],
        checkpointer=InMemorySaver(),
        interrupt_before=["tools"],
    )
    made.invoke(said(number=1), thread(), context=ACME)
    for number in (1, 2, 3, 9):
        done = ToolMessage("paid", tool_call_id=f"call-{number}")
        made.update_state(thread(), {"messages": [done]}, as_node="tools")
        made.invoke({"messages": []}, thread(), context=ACME)
    assert len(set(systems(model))) == 1
    assert VAULT in systems(model)[0]


def test_what_is_shown_is_the_same_where_the_models_call_is_tried_again(
    ready: TieredStore, counting: type[Counting]
) -> None:
    class Failing(ScriptedModel):
        def _generate(self, *given: Any, **options: Any) -> Any:
            found = super()._generate(*given, **options)
            if len(self.seen) < 3:
                raise RuntimeError("overloaded")
            return found

    model = Failing(responses=[AIMessage("In the cellar")])
    retry = ModelRetryMiddleware(max_retries=3, initial_delay=0.0, jitter=False)
    own = {"coordinator": counting}
    agent(model, ready, around=[retry], own=own).invoke(said(), context=ACME)
    assert len(model.seen) == 3
    assert len(set(systems(model))) == 1
    assert counting.asked == ["Where is the vault?"]


def test_turns_at_once_in_one_agent_are_shown_each_its_own(ready: TieredStore) -> None:
    model = scripted(*["Fine"] * 12)
    made = agent(model, ready, checkpointer=InMemorySaver())
    questions = ["Where is the vault?", "When is lunch served?"] * 6

    def ask(number: int) -> Any:
        return made.invoke(said(questions[number], number + 1), thread(str(number)), context=ACME)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(ask, range(len(questions))))
    shown = {(VAULT in one[0].text, NEWER in one[0].text, one[-1].text) for one in model.seen}
    assert shown == {
        (True, False, "Where is the vault?"),
        (False, True, "When is lunch served?"),
    }


def test_a_turn_that_no_human_began_is_shown_the_newest(ready: TieredStore) -> None:
    model = scripted(PAYS[0], "Paid", "Paid")
    made = agent(model, ready, checkpointer=InMemorySaver())
    made.invoke({"messages": [AIMessage("Shall I go on?")]}, thread(), context=ACME)
    MemoryCoordinator(ready, context=ACME).store("Tea is at five", memory_type="semantic")
    made.invoke({"messages": [AIMessage("And now?")]}, thread(), context=ACME)
    assert [NEWER in one for one in systems(model)] == [True, True, False]
    assert "Tea is at five" in systems(model)[2]


def test_an_agent_that_another_calls_is_shown_what_answers_its_own_task(
    ready: TieredStore,
) -> None:
    middleware = TieredMemoryMiddleware(limit=1, memory_types=["semantic"])
    model, below = scripted(call("ask", 1), "In the cellar"), scripted("At noon")
    sub = agent_on(ready, below, middleware)

    @tool
    def ask() -> str:
        """Ask another agent."""
        task = HumanMessage("When is lunch served?")
        return str(sub.invoke({"messages": [task]}, context=ACME)["messages"][-1].text)

    agent_on(ready, model, middleware, tools=[ask]).invoke(said(), context=ACME)
    assert len(set(systems(model))) == 1
    assert VAULT in systems(model)[0]
    assert NEWER in systems(below)[0]


def summed(_: Any) -> dict[str, Any]:
    """Put a summary in the place of all messages, marked as LangChain's middleware does."""
    marked = {"lc_source": "summarization"}
    summary = HumanMessage("They spoke of lunch.", additional_kwargs=marked)
    return {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), summary]}


def test_a_recall_node_asks_the_same_after_a_summary(ready: TieredStore) -> None:
    recall = create_recall_node(limit=1, memory_types=["semantic"])
    graph = chain(ready, recall, summed, create_recall_node(limit=1, memory_types=["semantic"]))
    texts = [
        one["recalled_text"]
        for one in graph.stream(said(), context=ACME, stream_mode="values")
        if "recalled_text" in one
    ]
    assert len(set(texts)) == 1
    assert VAULT in texts[-1]


def test_a_turn_of_a_graph_goes_on_after_a_summary_and_nothing_of_it_is_lost(
    ready: TieredStore,
) -> None:
    calls = [call("pay", 1, amount="5"), ToolMessage("paid 5", tool_call_id="call-1")]
    graph = chain(
        ready,
        create_assemble_node(filters={"memory_types": ["semantic"]}),
        lambda _: {"messages": calls},
        create_tool_tracking_node(),
        summed,
        create_assemble_node(filters={"memory_types": ["semantic"]}),
        create_commit_node(),
    )
    state = graph.invoke(said(), context=ACME)
    assert VAULT in state["context"]
    assert state["committed"]["summary"]["tool calls"] == 1
