"""Nodes that learn: what failed is kept, models draw lessons, and these are credited and raised."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.prebuilt import ToolNode

from langmem_tiers import (
    FailedAttempt,
    MemoryContext,
    MemoryCoordinator,
    TieredStore,
    create_outcome_node,
    create_promotion_node,
    create_recall_node,
    create_reflexion_node,
    create_skill_node,
)
from langmem_tiers.core.errors import ModelError
from langmem_tiers.learning.promotion_policy import PromotionPolicy
from tests.support.agents import Way
from tests.support.graphs import (
    ACME,
    BROKEN,
    QUICK,
    TASK,
    Learning,
    add,
    answer,
    asks,
    call,
    chain,
    counts,
    failed_then_worked,
    fails_once_after,
    learned,
    memories,
    off_the_loop,
    tried,
)
from tests.support.opening import Clock
from tests.support.reflecting import Reflecting, drawing, lesson

THREAD: RunnableConfig = {"configurable": {"thread_id": "1"}}

# Recalling


def test_the_lesson_of_the_failure_at_hand_comes_first(
    store: TieredStore, memory: MemoryCoordinator
) -> None:
    key = learned(store)
    memory.store("The invoices to add up are in the cellar", memory_type="semantic")
    graph = chain(store, create_recall_node(limit=1, memory_types=["semantic"]))
    given = {"messages": [asks(), *tried(1, "9,876", BROKEN, failed=True)]}
    state = graph.invoke(given, context=ACME)

    found, _ = state["recalled"]
    assert found["key"] == key
    assert "\nLessons:\n" in state["recalled_text"]


def test_lessons_of_a_tool_about_to_run_come_first_those_of_such_a_call_before_others(
    store: TieredStore,
) -> None:
    other = learned(
        store,
        original_approach='add({"currency": "yen"})',
        improved_approach='add({"currency": "JPY"})',
        failure_reason="KeyError: 'rate'",
        failure="KeyError: 'rate'",
    )
    key = learned(store)
    learned(store, tool="pay", task_id="Pay")
    graph = chain(store, create_recall_node(limit=0))

    for arguments, best in (
        ({"amount": "1,234"}, [key, other]),
        ({"currency": "yen"}, [other, key]),
    ):
        state = graph.invoke({"messages": [asks(), call("add", **arguments)]}, context=ACME)
        assert [one["key"] for one in state["recalled"]] == best


# Reflexions


async def test_after_a_tool_node_the_real_error_and_what_worked_later_are_kept_as_what_they_are(
    way: Way,
) -> None:
    tools = ToolNode([add], handle_tool_errors=True)
    again = call("add", 2, amount="1234", currency="USD")
    graph = chain(way.store, tools, lambda _: {"messages": [again]}, tools, create_reflexion_node())
    given = {"messages": [asks(), call("add", amount="1,234", currency="USD")]}
    state = await way(graph, given, context=ACME)
    (attempt,) = await off_the_loop(memories, way.store, "attempt")

    assert await off_the_loop(memories, way.store, "reflexion") == []
    assert state["reflexions"] == [attempt.key]
    assert (attempt.value["task_id"], attempt.value["tool"]) == ("Add up the invoices", "add")
    assert attempt.content.startswith('Asked: Add up the invoices\nadd({"amount": "1,234", ')
    assert BROKEN in attempt.content.partition(" failed: ")[2]
    assert attempt.content.endswith('; later add({"amount": "1234", "currency": "USD"}) worked')
    assert attempt.tags == ("failed-attempt",)


def test_what_works_in_another_turn_says_nothing_of_a_failure_before_it(
    store: TieredStore,
) -> None:
    graph = chain(store, create_reflexion_node(), checkpointer=InMemorySaver())
    turns: list[list[Any]] = [
        [asks(), *tried(1, "1,234", BROKEN, failed=True)],
        [asks("Say hello")],
        [asks("Try again"), *tried(2, "1234", "added 1234")],
        [asks("Thanks"), *tried(3, "1", "added 1")],
    ]
    lessons = [graph.invoke({"messages": one}, THREAD, context=ACME)["reflexions"] for one in turns]

    assert lessons == [[], [], [], []]
    assert memories(store, "attempt") == []


def test_what_an_evaluator_finds_in_the_state_is_kept(store: TieredStore) -> None:
    one = FailedAttempt(
        task_id="answer-7",
        approach="answered without a source",
        error="the evaluator: no claim is supported",
        succeeded_with="quoted the page",
    )
    given: Any
    for given, kept in ((None, []), (one, ["quoted the page"]), ([one, one], ["quoted the page"])):
        found = partial(lambda given, _: given, given)
        graph = chain(store, create_reflexion_node(attempts=found))
        state = graph.invoke({"messages": failed_then_worked()}, context=ACME)
        assert len(state["reflexions"]) == len(kept)
        assert [one.value["worked"] for one in memories(store, "attempt")] == kept


async def test_as_an_error_handler_it_keeps_the_failure_of_a_node_after_its_retries(
    way: Way,
) -> None:
    tries: list[int] = []

    def fetch(_: Learning) -> dict[str, Any]:
        tries.append(len(tries) + 1)
        raise ConnectionError(f"host 10.0.0.{tries[-1]} refused the connection")

    builder: Any = StateGraph(Learning, context_schema=MemoryContext)
    builder.set_node_defaults(retry_policy=QUICK, error_handler=create_reflexion_node())
    builder.add_node(fetch)
    builder.set_entry_point("fetch")
    graph = builder.compile(store=way.store)
    state = await way(graph, {"messages": [asks()]}, context=ACME)
    (attempt,) = await off_the_loop(memories, way.store, "attempt")
    memory = MemoryCoordinator(way.store, context=ACME)
    error = ConnectionError("host 10.9.9.9 refused the connection")
    (found,) = await memory.learning.aget_lessons(error, tools="fetch")

    assert (tries, state["reflexions"]) == ([1, 2, 3], [attempt.key])
    assert "ConnectionError: host 10.0.0.3 refused" in attempt.content
    assert (attempt.value["tool"], attempt.value["task_id"]) == ("fetch", TASK)
    assert found.key == attempt.key


@pytest.mark.parametrize("error", [ValueError("byte \0 at 3"), OSError("no file 'caf\udce9'")])
def test_the_error_of_a_node_is_kept_though_postgres_cannot_hold_its_text(
    store: TieredStore, error: Exception
) -> None:
    def fails(_: Any) -> dict[str, Any]:
        raise error

    graph = chain(store, fails, error_handler=create_reflexion_node())
    graph.invoke({"messages": [asks()]}, context=ACME)
    (kept,) = memories(store, "attempt")
    assert f" failed: {type(error).__name__}: " in kept.content


def reflecting(answers: int) -> Reflecting:
    """A model with that many answers, in words of its own each time; after them it fails."""
    return drawing(*([lesson("Mind", 1, reason=f"Reason {n}")] for n in range(answers)))


async def test_a_model_draws_the_lesson_of_an_attempt_once(way: Way) -> None:
    model = reflecting(9)
    graph = chain(way.store, create_reflexion_node(model=model))
    twice = [asks(), *tried(1, "1,234", BROKEN, failed=True)]
    twice += tried(2, "1,234", BROKEN, failed=True)
    states = [await way(graph, {"messages": twice}, context=ACME) for _ in range(2)]
    (kept,) = await off_the_loop(memories, way.store, "reflexion")

    assert len(model.asked) == 1
    assert [one["reflexions"] for one in states] == [[kept.key]] * 2
    assert (kept.value["failure_reason"], kept.tags) == ("Reason 0", ("a",))


def test_where_the_model_fails_the_attempts_are_kept_all_the_same(store: TieredStore) -> None:
    for on_error in ("continue", "raise"):
        graph = chain(store, create_reflexion_node(model=reflecting(0), on_error=on_error))
        with pytest.raises(ModelError) if on_error == "raise" else nullcontext():
            graph.invoke({"messages": failed_then_worked()}, context=ACME)

    assert len(memories(store, "attempt")) == 1


def test_failures_of_one_kind_make_one_lesson_by_one_request_and_are_known_the_next_time(
    store: TieredStore,
) -> None:
    model = reflecting(9)
    graph = chain(store, create_reflexion_node(model=model))
    several = [asks(), *tried(1, "1,234", BROKEN, failed=True)]
    several += tried(2, "9,876", BROKEN.replace("1,234", "9,876"), failed=True)
    state = graph.invoke({"messages": several}, context=ACME)
    (key,) = state["reflexions"]

    assert len(model.asked) == 1
    assert 'times="2"' in model.told[0]
    assert len(memories(store, "attempt")) == 2
    assert [
        one.key for one in MemoryCoordinator(store, context=ACME).learning.get_lessons(BROKEN)
    ] == [key]
    again = [asks("Add once more"), *tried(1, "5,5", BROKEN.replace("1,234", "5,5"), failed=True)]
    graph.invoke({"messages": again}, context=ACME)
    assert "Reason 0" in model.told[1].partition("<known_lesson>")[2]


def test_a_model_may_find_nothing_to_learn_and_answers_that_report_errors_are_told(
    store: TieredStore,
) -> None:
    model = drawing([])
    node = create_reflexion_node(model=model, failed=lambda one: "Error" in str(one.text))
    said = [asks(), *tried(1, "1,234", f"Error: {BROKEN}"), *tried(2, "5", "added 5")]
    state = chain(store, node).invoke({"messages": said}, context=ACME)

    assert state["reflexions"] == memories(store, "reflexion") == []
    assert f"Error: {BROKEN}" in model.told[0]
    assert model.told[0].count("<attempt ") == 1


def test_a_call_of_what_can_be_no_tool_takes_no_run_of_its_trace(store: TieredStore) -> None:
    messages: list[Any] = [asks()]
    for number, name in enumerate(("", "a\0b", "caf\udce9", "x" * 401)):
        messages += [call(name, number), answer("no such tool", number, failed=True)]
    messages += [call("add", 9, **{"am\0ount": "1"}), answer("added", 9)]
    chain(store, create_skill_node(lambda _: True)).invoke({"messages": messages}, context=ACME)
    (kept,) = memories(store, "episodic")
    assert [tool for tool, _, _ in kept.value["trace"]["calls"]] == ["add"]


# Outcomes


async def test_an_outcome_counts_once_though_its_node_is_retried(way: Way) -> None:
    key = await off_the_loop(learned, way.store)
    outcome = fails_once_after(create_outcome_node("worked"))
    graph = chain(way.store, create_recall_node(), outcome, retry_policy=QUICK)
    state = await way(graph, {"messages": [asks()], "worked": True}, context=ACME)

    assert state["credited"] == 0  # what the first try did, which was lost
    assert await off_the_loop(counts, way.store, key) == [(1, 0)]


def test_in_a_loop_each_attempt_is_credited_with_its_own_outcome(store: TieredStore) -> None:
    verdicts = iter([False, False, True])
    builder = StateGraph(Learning, context_schema=MemoryContext)
    builder.add_node("recall", create_recall_node(holdout=0))
    builder.add_node("judge", lambda _: {"worked": next(verdicts)})
    builder.add_node("outcome", create_outcome_node("worked"))
    builder.add_edge(START, "recall")
    builder.add_edge("recall", "judge")
    builder.add_edge("judge", "outcome")
    builder.add_conditional_edges("outcome", lambda s: END if s["worked"] else "recall")
    key = learned(store)
    graph: Any = builder.compile(store=store, checkpointer=InMemorySaver())
    graph.invoke({"messages": [asks()]}, THREAD, context=ACME)

    assert counts(store, key) == [(1, 2)]


# Promotion


async def test_a_promotion_node_moves_what_has_proven_itself_and_then_finds_nothing_to_do(
    way: Way, clock: Clock
) -> None:
    easy = PromotionPolicy(min_access_count=0, min_success_rate=0.5, min_projects=1)
    key = await off_the_loop(learned, way.store)
    learn = chain(way.store, create_recall_node(), create_outcome_node("worked"))
    await way(learn, {"messages": [asks()], "worked": True}, context=ACME)
    clock.advance(days=8)
    graph = chain(way.store, create_promotion_node(policy=easy))
    first, second = [await way(graph, {}, context=ACME) for _ in range(2)]
    (move,) = first["promoted"]
    memory = MemoryCoordinator(way.store, context=ACME)
    raised = await memory.aget(move["successor"])

    assert (move["key"], first["demoted"]) == (key, [])
    assert (second["promoted"], second["demoted"]) == ([], [])
    assert raised is not None
    assert raised.tier == "long_term"
    assert await memory.learning.arollback(move["move"])
