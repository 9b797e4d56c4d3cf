from __future__ import annotations

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph

from langmem_tiers import (
    MemoryContext,
    MemoryCoordinator,
    TieredStore,
    create_outcome_node,
    create_promotion_node,
    create_recall_node,
)
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.learn.promotion_rules import PromotionPolicy
from tests.support.agents import Way
from tests.support.graphs import (
    ACME,
    QUICK,
    Learning,
    asks,
    chain,
    fails_once_after,
    learned,
    off_the_loop,
)
from tests.support.opening import Clock

THREAD: RunnableConfig = {"configurable": {"thread_id": "1"}}


def counts(store: TieredStore, key: str) -> tuple[int, int]:
    """Successes and failures of a memory."""
    found = MemoryCoordinator(store, context=ACME).get(key)
    assert found is not None
    return found.success_count, found.failure_count


# Outcomes


@pytest.mark.parametrize("success", [True, False])
async def test_an_outcome_counts_once_though_its_node_is_retried(
    way: Way, *, success: bool
) -> None:
    store = way.store
    key = await off_the_loop(learned, store)
    graph = chain(
        store,
        create_recall_node(),
        fails_once_after(create_outcome_node("worked")),
        retry_policy=QUICK,
    )
    given = {"messages": [asks()], "worked": success}
    state = await way(graph, given, context=ACME)
    counted = await off_the_loop(counts, store, key)

    assert state["credited"] == 0  # what the first try did, which was lost
    assert counted == (int(success), int(not success))


async def test_in_a_loop_each_attempt_is_credited_with_its_own_outcome(way: Way) -> None:
    store = way.store
    verdicts = iter([False, False, True])
    builder = StateGraph(Learning, context_schema=MemoryContext)
    builder.add_node("recall", create_recall_node())
    builder.add_node("judge", lambda _: {"worked": next(verdicts)})
    builder.add_node("outcome", create_outcome_node("worked"))
    builder.add_edge(START, "recall")
    builder.add_edge("recall", "judge")
    builder.add_edge("judge", "outcome")
    builder.add_conditional_edges("outcome", lambda s: END if s["worked"] else "recall")
    key = await off_the_loop(learned, store)
    graph = builder.compile(store=store, checkpointer=InMemorySaver())
    await way(graph, {"messages": [asks()]}, context=ACME, config=THREAD)
    counted = await off_the_loop(counts, store, key)

    assert counted == (1, 2)


def test_an_outcome_that_cannot_be_told_is_refused_with_what_to_do(ready: TieredStore) -> None:
    with pytest.raises(InvalidInputError, match="success is a key of the state, or"):
        create_outcome_node(None)  # type: ignore[arg-type]
    recall, given = create_recall_node(), {"messages": [asks()]}
    with pytest.raises(InvalidInputError, match="no 'worked' yet: write it before this node"):
        chain(ready, recall, create_outcome_node("worked")).invoke(given, context=ACME)
    with pytest.raises(InvalidInputError, match="True, False or None, not 'yes'"):
        chain(ready, recall, create_outcome_node(lambda _: "yes")).invoke(given, context=ACME)  # type: ignore[arg-type, return-value]
    with pytest.raises(InvalidInputError, match=r"recalled_run.*recall node before this one"):
        chain(ready, create_outcome_node(lambda _: True)).invoke(given, context=ACME)


# Promotion

EASY = PromotionPolicy(min_access_count=0, min_success_rate=0.5, min_projects=1)


async def test_a_promotion_node_moves_what_has_proven_itself_and_then_finds_nothing_to_do(
    way: Way, clock: Clock
) -> None:
    store = way.store
    key = await off_the_loop(learned, store)
    learn = chain(store, create_recall_node(), create_outcome_node("worked"))
    await way(learn, {"messages": [asks()], "worked": True}, context=ACME)
    clock.advance(days=8)
    graph = chain(store, create_promotion_node(policy=EASY))
    first = await way(graph, {}, context=ACME)
    second = await way(graph, {}, context=ACME)
    memory = MemoryCoordinator(store, context=ACME)
    (move,) = first["promoted"]
    raised = await memory.aget(move["successor"])
    undone = await memory.arollback(move["move"])

    assert (move["key"], first["demoted"]) == (key, [])
    assert (second["promoted"], second["demoted"]) == ([], [])
    assert raised is not None
    assert raised.tier == "long_term"
    assert undone
