from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.prebuilt import ToolNode

from langmem_tiers import (
    FailedAttempt,
    MemoryContext,
    MemoryCoordinator,
    TieredStore,
    create_recall_node,
    create_reflexion_node,
)
from langmem_tiers.core.errors import ModelError
from tests.support.agents import WAYS, How, Way, run
from tests.support.graphs import (
    ACME,
    BROKEN,
    QUICK,
    TASK,
    Learning,
    add,
    asks,
    call,
    chain,
    failed_then_worked,
    learned,
    memories,
    off_the_loop,
    tried,
)
from tests.support.opening import Opened, opened_store, text_index

# Recalling


async def test_the_lesson_of_the_failure_at_hand_comes_first_however_the_graph_is_run(
    way: Way,
) -> None:
    store = way.store
    key = await off_the_loop(learned, store)
    memory = MemoryCoordinator(store, context=ACME)
    await memory.astore("The invoices to add up are in the cellar", memory_type="semantic")
    graph = chain(store, create_recall_node(limit=1, memory_types=["semantic"]))
    given = {"messages": [asks(), *tried(1, "9,876", BROKEN, failed=True)]}
    state = await way(graph, given, context=ACME)

    found, *others = state["recalled"]
    assert (found["key"], len(others)) == (key, 1)
    text = state["recalled_text"]
    assert text.index("Do instead") < text.index("cellar")


def test_lessons_of_a_tool_about_to_run_come_first_those_of_such_a_call_before_others(
    ready: TieredStore,
) -> None:
    other = learned(
        ready,
        original_approach='add({"currency": "yen"})',
        improved_approach='add({"currency": "JPY"})',
        failure_reason="KeyError: 'rate'",
        failure="KeyError: 'rate'",
    )
    key = learned(ready)
    learned(ready, tool="pay", task_id="Pay")
    graph = chain(ready, create_recall_node(limit=0))

    for arguments, best in (
        ({"amount": "1,234"}, [key, other]),
        ({"currency": "yen"}, [other, key]),
    ):
        state = graph.invoke({"messages": [asks(), call("add", **arguments)]}, context=ACME)
        assert [one["key"] for one in state["recalled"]] == best


# Reflexions


async def test_after_a_tool_node_the_real_error_and_what_worked_later_become_a_lesson(
    way: Way,
) -> None:
    store = way.store
    tools = ToolNode([add], handle_tool_errors=True)
    graph = chain(
        store, tools, lambda _: {"messages": [call("add", 2, amount="1234")]}, tools,
        create_reflexion_node(),
    )  # fmt: skip
    given = {"messages": [asks(), call("add", amount="1,234")]}
    state = await way(graph, given, context=ACME)
    (lesson,) = await off_the_loop(memories, store, "reflexion")
    (attempt,) = await off_the_loop(memories, store, "episodic")

    assert state["reflexions"] == [lesson.key]
    assert lesson.value["task_id"] == TASK
    assert lesson.value["original_approach"] == 'add({"amount": "1,234"})'
    assert BROKEN in lesson.value["failure_reason"]
    assert lesson.value["improved_approach"] == 'add({"amount": "1234"})'
    assert lesson.value["tool"] == "add"
    assert attempt.tags == ("failed-attempt",)


def test_what_works_in_another_turn_is_no_lesson_of_a_failure_before_it(
    ready: TieredStore,
) -> None:
    graph = chain(ready, create_reflexion_node(), checkpointer=InMemorySaver())
    turns: list[list[Any]] = [
        [asks(), *tried(1, "1,234", BROKEN, failed=True)],
        [asks("Say hello")],
        [asks("Try again"), *tried(2, "1234", "added 1234")],
        [asks("Thanks"), *tried(3, "1", "added 1")],
    ]
    thread: RunnableConfig = {"configurable": {"thread_id": "1"}}
    lessons = [graph.invoke({"messages": one}, thread, context=ACME)["reflexions"] for one in turns]

    assert lessons == [[], [], [], []]
    assert memories(ready, "reflexion") == []
    assert len(memories(ready, "episodic")) == 1


def test_an_evaluator_says_with_a_function_of_the_state_what_failed(ready: TieredStore) -> None:
    one = FailedAttempt(
        task_id="answer-7",
        approach="answered without a source",
        error="the evaluator: no claim is supported",
        succeeded_with="quoted the page",
    )
    given: Any
    for given, kept in ((None, []), (one, ["quoted the page"]), ([one, one], ["quoted the page"])):
        found = partial(lambda given, _: given, given)
        graph = chain(ready, create_reflexion_node(attempts=found))
        state = graph.invoke({"messages": failed_then_worked()}, context=ACME)
        assert len(state["reflexions"]) == len(kept)
        lessons = memories(ready, "reflexion")
        assert [one.value["improved_approach"] for one in lessons] == kept


class Flaky:
    """A node that fails as often as it is told to."""

    def __init__(self, failures: int) -> None:
        self.left = failures
        self.tries = 0

    def __call__(self, _: Learning) -> dict[str, Any]:
        self.tries += 1
        if self.tries <= self.left:
            raise ConnectionError(f"host 10.0.0.{self.tries} refused the connection")
        return {"worked": True}


@pytest.mark.parametrize(
    ("opened", "how", "given_by"),
    [
        (*way, given_by)
        for way, given_by in zip(WAYS, ("the node", "the defaults") * 2, strict=False)
    ],
)
async def test_as_an_error_handler_it_keeps_the_failure_of_a_node_after_its_retries(
    url: str, opened: Opened, how: How, given_by: str
) -> None:
    node = Flaky(99)
    builder: Any = StateGraph(Learning, context_schema=MemoryContext)
    options: dict[str, Any] = {"retry_policy": QUICK, "error_handler": create_reflexion_node()}
    if given_by == "the defaults":
        builder.set_node_defaults(**options)
    builder.add_node("fetch", node, **(options if given_by == "the node" else {}))
    builder.add_edge(START, "fetch")
    store = TieredStore(url, index=text_index())
    async with opened_store(store, opened):
        state = await run(builder.compile(store=store), how, {"messages": [asks()]}, context=ACME)
        (attempt,) = await off_the_loop(memories, store, "episodic")
        memory = MemoryCoordinator(store, context=ACME)
        error = ConnectionError("host 10.9.9.9 refused the connection")
        found = await memory.aget_lessons(error, tools="fetch")

    assert node.tries == 3
    assert state["reflexions"] == []
    assert "ConnectionError: host 10.0.0.3 refused" in attempt.content
    assert (attempt.value["tool"], attempt.value["task_id"]) == ("fetch", TASK)
    assert [one.key for one in found] == [attempt.key]


class Reflecting(GenericFakeChatModel):
    """A model that gives lessons in words of its own each time, and counts them."""

    asked: list[Any] = []  # noqa: RUF012 - pydantic copies it

    def bind_tools(self, *_: Any, **__: Any) -> Runnable[Any, AIMessage]:
        return self

    def _generate(self, messages: Any, *args: Any, **options: Any) -> Any:
        self.asked.append(messages)
        return super()._generate(messages, *args, **options)


def reflecting(answers: int = 9) -> Reflecting:
    """A model with that many answers; after them it fails."""

    def said(number: int) -> AIMessage:
        given = {
            "failure_reason": f"Reason {number}",
            "improved_approach": "Mind it",
            "tags": ["a"],
        }
        return AIMessage("", tool_calls=[{"name": "Reflected", "args": given, "id": "1"}])

    return Reflecting(messages=iter(list(map(said, range(answers)))))


async def test_a_model_draws_the_lesson_of_an_attempt_once(way: Way) -> None:
    store = way.store
    model = reflecting()
    graph = chain(store, create_reflexion_node(model=model))
    twice = [asks(), *tried(1, "1,234", BROKEN, failed=True)]
    twice += tried(2, "1,234", BROKEN, failed=True)
    states = [await way(graph, {"messages": twice}, context=ACME) for _ in range(2)]
    (lesson,) = await off_the_loop(memories, store, "reflexion")

    assert len(model.asked) == 1
    assert [one["reflexions"] for one in states] == [[lesson.key]] * 2
    assert lesson.value["failure_reason"] == "Reason 0"
    assert lesson.tags == ("a",)


def test_where_the_model_fails_the_attempts_are_kept_all_the_same(ready: TieredStore) -> None:
    graph = chain(ready, create_reflexion_node(model=reflecting(0)))
    with pytest.raises(ModelError):
        graph.invoke({"messages": failed_then_worked()}, context=ACME)

    assert len(memories(ready, "episodic")) == 1
