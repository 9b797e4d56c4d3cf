from __future__ import annotations

from typing import Any

import pytest

from langmem_tiers import MemoryContext, MemoryCoordinator, TieredStore, create_evolution_node
from langmem_tiers.core.errors import InvalidInputError
from tests.support.agents import Way
from tests.support.graphs import (
    ACME,
    chain,
    memories,
    off_the_loop,
)
from tests.support.opening import Opener, text_index, tiered

POST = {"asked": "A post on coffee", "said": "Its growers tell of it", "platform": "mastodon"}
LIKED = {"engagement_rate": 0.09, "revenue_generated": 245.5}
IGNORED = {"engagement_rate": 0.01}


async def test_what_was_worth_it_becomes_a_learning_of_everybody(
    open_store: Opener, url: str
) -> None:
    async with open_store(url=url, index=text_index()) as driver:
        memory = MemoryCoordinator(tiered(driver), context=ACME)
        if open_store.mode == "abatch":
            stored = await memory.aevolve(POST, LIKED)
            again = await memory.aevolve(POST, LIKED)
            ignored = await memory.aevolve(POST, IGNORED)
        else:
            stored = await off_the_loop(memory.evolve, POST, LIKED)
            again = await off_the_loop(memory.evolve, POST, LIKED)
            ignored = await off_the_loop(memory.evolve, POST, IGNORED)
        other = MemoryContext(tenant="acme", project_id="shipping")
        (found,) = await off_the_loop(memories, tiered(driver), "learning", other)

    assert (stored.stored, again.key, found.key) == (True, stored.key, stored.key)
    assert (
        stored.reason == "importance 0.9 (engagement 0.9, revenue 0.9) reaches the threshold of 0.7"
    )
    assert (ignored.stored, ignored.key) == (False, None)
    assert "below the threshold" in ignored.reason
    assert (found.tier, found.importance, found.project_id) == ("long_term", 0.9, "billing")
    assert found.content == "Asked: A post on coffee\nSaid: Its growers tell of it"
    assert found.success_metrics == LIKED
    assert (found.platform_source, found.emotional_valence) == ("mastodon", "positive")


def test_recall_finds_and_ranks_learnings_by_what_came_of_them(memory: MemoryCoordinator) -> None:
    for rate in (0.085, 0.2, 0.071):
        assert memory.evolve({"said": "A post on coffee"}, {"engagement_rate": rate}).stored
    memory.store("A post on water", memory_type="learning")

    def rates(**options: Any) -> list[Any]:
        found = memory.get_context("A post on coffee?", **options)
        return [one.success_metrics.get("engagement_rate") for one in found]

    assert sorted(rates(min_importance=0.8)) == [0.085, 0.2]
    high = {"success_metrics": {"engagement_rate": {"$gt": 0.08}}}
    assert sorted(rates(filter=high)) == [0.085, 0.2]
    assert rates(profile="importance") == [0.2, 0.085, 0.071, None]


def test_long_interactions_that_begin_alike_are_different_memories(
    memory: MemoryCoordinator,
) -> None:
    long = "The same words. " * 40
    one, other = (memory.evolve({"said": f"{long}{end}"}, LIKED) for end in ("a", "b"))

    assert one.key != other.key
    assert memory.evolve({"said": f"{long}a"}, {**LIKED, "clicks": 3}).key != one.key
    turned = dict(reversed({**LIKED, "clicks": 3}.items()))
    assert memory.evolve({"said": f"{long}a"}, turned).stored
    assert memory.stats().total_count == 3


def evolution(**options: Any) -> Any:
    return create_evolution_node(interaction="interaction", success_metrics="metrics", **options)


async def test_an_evolution_node_remembers_a_judged_success_however_the_graph_is_run(
    way: Way,
) -> None:
    store = way.store
    graph = chain(store, evolution(judged="worked"))
    given = {"interaction": POST, "metrics": LIKED}
    failed = await way(graph, {**given, "worked": False}, context=ACME)
    worked = await way(graph, {**given, "worked": True}, context=ACME)
    (found,) = await off_the_loop(memories, store, "learning")

    reason = "the run was not judged a success"
    assert failed["evolved"] == {"stored": False, "key": None, "reason": reason}
    assert (worked["evolved"]["stored"], worked["evolved"]["key"]) == (True, found.key)


def test_an_evolution_node_that_cannot_work_is_refused_with_what_to_do(ready: TieredStore) -> None:
    wrong: list[dict[str, Any]] = [
        {"interaction": POST, "success_metrics": "metrics"},
        {"interaction": "interaction", "success_metrics": 3},
        {"interaction": "interaction", "success_metrics": "metrics", "judged": True},
        {"interaction": "interaction", "success_metrics": "metrics", "threshold": 2},
    ]
    for options in wrong:
        with pytest.raises(InvalidInputError):
            create_evolution_node(**options)
    with pytest.raises(InvalidInputError, match="no 'metrics' yet"):
        chain(ready, evolution()).invoke({"interaction": POST}, context=ACME)
