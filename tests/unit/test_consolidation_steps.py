"""The pure parts of a cycle's steps: names of moves, clusters that join, ends that come first."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from langmem_tiers.consolidate.duplicates import Cluster, joined
from langmem_tiers.consolidate.policy import ConsolidationPolicy
from langmem_tiers.consolidate.report import with_counts
from langmem_tiers.consolidate.steps import Cycle, Decision, Finding, Item
from langmem_tiers.consolidate.stored import move_id, sort_out
from langmem_tiers.consolidate.supersede import first_of_each
from langmem_tiers.core.config import StoreOptions
from langmem_tiers.core.memory import Moment

BEGAN = datetime(2026, 3, 1, tzinfo=UTC)
ITEMS = [Item(n, BEGAN + timedelta(days=n), f"text {n}") for n in range(12)]
CYCLE = Cycle("acme", "first", Moment(BEGAN), ConsolidationPolicy(), StoreOptions())

pairs = st.lists(st.tuples(st.sampled_from(ITEMS), st.sampled_from(ITEMS)), max_size=12)


def decided(id_: int, reason: str = "because") -> Decision:
    return Decision(
        id=id_,
        namespace="",
        key=f"k{id_}",
        version=BEGAN.isoformat(),
        reason=reason,
        target=None,
        target_namespace=None,
        target_key=None,
        target_version=None,
        detail={},
    )


@given(pairs)
def test_what_says_the_same_as_the_same_lives_on_in_the_oldest_of_all(
    alike: list[tuple[Item, Item]],
) -> None:
    found = joined(ITEMS, [], alike)
    home = {one: each.survivor for each in found for one in each.others}
    for one, other in alike:
        assert home.get(one.id, one.id) == home.get(other.id, other.id)
    for cluster in found:
        assert cluster.survivor < min(cluster.others)
        assert cluster.survivor not in home
    assert len(home) == sum(len(each.others) for each in found)


@given(pairs)
def test_the_order_of_pairs_does_not_matter(alike: list[tuple[Item, Item]]) -> None:
    turned = [(other, one) for one, other in reversed(alike)]
    assert joined(ITEMS, [], alike) == joined(ITEMS[::-1], [], turned)


def test_a_pair_joins_whole_clusters() -> None:
    found = [Cluster(1, (4, 5)), Cluster(2, (6,))]
    assert joined(ITEMS, found, []) == found
    assert joined(ITEMS, found, [(ITEMS[6], ITEMS[5])]) == [Cluster(1, (2, 4, 5, 6))]


def test_a_memory_ends_where_the_first_that_contradicts_it_begins() -> None:
    one, two, three, four = ITEMS[:4]
    found = [(one, four), (one, three), (two, four)]
    assert first_of_each(found) == first_of_each(found[::-1]) == [(one, three), (two, four)]


def test_a_move_has_the_same_name_each_time_and_no_other_has_it() -> None:
    names = {
        move_id(CYCLE._replace(cycle=cycle), step, source, target)
        for cycle in ("first", "second")
        for step in ("merge", "supersede")
        for source in (1, 2)
        for target in (None, 3)
    }
    assert len(names) == 16
    assert move_id(CYCLE, "merge", 1, 3) in names


def test_what_was_done_before_is_done_whatever_stands_against_it_now() -> None:
    decisions = [decided(one) for one in (1, 2, 3)]
    found = sort_out(
        decisions,
        lambda one: one["id"] == 1,
        lambda one: "it changed meanwhile" if one["id"] != 2 else None,
    )
    assert [one["id"] for one in found.todo] == [2]
    assert found.applied(lambda one: f"move {one['id']}") == {
        "done": {"because": 2},
        "left": {"it changed meanwhile": 1},
        "moves": ["move 1", "move 2"],
    }


def test_a_thousand_proposals_of_a_step_rest_in_the_checkpoint() -> None:
    found = Finding(namespace="", key="a", target_namespace="", target_key="b", reason="near")
    counts = with_counts({}, {"merge": {
        "done": {}, "left": {}, "kept": {"near": 1_500}, "moves": [], "findings": [found] * 1_500,
    }})  # fmt: skip
    assert len(counts["merge"]["findings"]) == 1_000
    assert counts["merge"]["kept"] == {"near": 1_500}
