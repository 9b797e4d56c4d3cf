"""What was worth it becomes a learning of everybody: by the verb, and by its node in a graph."""

from __future__ import annotations

from typing import Any

from langmem_tiers import MemoryContext, MemoryCoordinator, TieredStore, create_evolution_node
from tests.support.agents import Way
from tests.support.graphs import ACME, chain, memories, off_the_loop

POST = {"asked": "A post on coffee", "said": "Its growers tell of it", "platform": "mastodon"}
LIKED = {"engagement_rate": 0.09, "revenue_generated": 245.5}


def test_what_was_worth_it_becomes_a_learning_of_everybody(
    store: TieredStore, memory: MemoryCoordinator
) -> None:
    stored, again = memory.learning.evolve(POST, LIKED), memory.learning.evolve(POST, LIKED)
    ignored = memory.learning.evolve(POST, {"engagement_rate": 0.01})
    (found,) = memories(store, "learning", MemoryContext(tenant="acme", project_id="shipping"))

    reached = "importance 0.9 (engagement 0.9, revenue 0.9) reaches the threshold of 0.7"
    assert (stored.stored, again.key, found.key) == (True, stored.key, stored.key)
    assert stored.reason == reached
    assert (ignored.stored, ignored.key) == (False, None)
    assert "below the threshold" in ignored.reason
    assert (found.tier, found.importance, found.project_id) == ("long_term", 0.9, "billing")
    assert found.content == "Asked: A post on coffee\nSaid: Its growers tell of it"
    assert found.success_metrics == LIKED
    assert (found.platform_source, found.emotional_valence) == ("mastodon", "positive")


def test_recall_finds_and_ranks_learnings_by_what_came_of_them(memory: MemoryCoordinator) -> None:
    for rate in (0.085, 0.2, 0.071):
        assert memory.learning.evolve(
            {"said": "A post on coffee"}, {"engagement_rate": rate}
        ).stored
    memory.store("A post on coffee beans", memory_type="learning")

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
    one, other = (memory.learning.evolve({"said": f"{long}{end}"}, LIKED) for end in ("a", "b"))

    assert one.key != other.key
    assert memory.learning.evolve({"said": f"{long}a"}, {**LIKED, "clicks": 3}).key != one.key
    turned = dict(reversed({**LIKED, "clicks": 3}.items()))
    assert memory.learning.evolve({"said": f"{long}a"}, turned).stored
    assert memory.stats().total_count == 3


async def test_an_evolution_node_remembers_a_judged_success_however_the_graph_is_run(
    way: Way,
) -> None:
    node = create_evolution_node(
        interaction="interaction", success_metrics="metrics", judged="worked"
    )
    graph = chain(way.store, node)
    given = {"interaction": POST, "metrics": LIKED}
    failed, worked = [
        await way(graph, {**given, "worked": one}, context=ACME) for one in (False, True)
    ]
    (found,) = await off_the_loop(memories, way.store, "learning")

    reason = "the run was not judged a success"
    assert failed["evolved"] == {"stored": False, "key": None, "reason": reason}
    assert (worked["evolved"]["stored"], worked["evolved"]["key"]) == (True, found.key)
