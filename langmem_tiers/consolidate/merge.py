"""Merging: what says the same in one home lives on in the oldest of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from langmem_tiers.consolidate import changed
from langmem_tiers.consolidate.changed import Group
from langmem_tiers.consolidate.contradictions import contradictions
from langmem_tiers.consolidate.duplicates import Cluster, clusters, same, two_happenings
from langmem_tiers.consolidate.items import Item
from langmem_tiers.consolidate.judge import Judge, Pair, judged
from langmem_tiers.consolidate.policy import MergePolicy
from langmem_tiers.consolidate.steps import Applied, Cycle, Decision, Proposal
from langmem_tiers.consolidate.stored import (
    CURRENT_TIERS,
    Holding,
    counted,
    decision,
    hold,
    move_id,
    sort_out,
    undone,
)
from langmem_tiers.flow import Call, Flow, Query, anew

SAME = "it says the same as an older one"
ALONE = "nothing says the same"
OLDEST = "it is the oldest that says the same"
TAKEN_APART = "it was merged before, and that was rolled back"
ANOTHER_TIME = "it says the same of another time"
LIVED_ON = "it lived on in another one before"
LATE = "it was left when the others were merged"


class Merge:
    """Merges what says the same."""

    name = "merge"

    def __init__(self, policy: MergePolicy, judge: Judge | None = None) -> None:
        """Hold what the rules go by, and whom to ask where they have no word."""
        self._policy = policy
        self._judge = judge

    def select(self, cycle: Cycle, after: int, limit: int) -> Flow[list[int]]:
        """What changed since the last cycle."""
        return changed.select(cycle, self.name, after, limit)

    def propose(self, cycle: Cycle, ids: Sequence[int]) -> Flow[Proposal]:
        """What of these, and of what is near to them, says the same."""
        asked = self._judge is not None
        groups = yield from changed.groups(cycle, ids, same_tier=True, cosines=asked)
        involved = {one for group in groups for one in group.memories}
        before = yield from undone(cycle, "merged", involved)
        fate = dict.fromkeys((one for one in ids if one in involved), ALONE)
        decisions: list[Decision] = []
        for group, cluster in (yield from self._clusters(groups, fate.keys(), before)):
            if fate.keys().isdisjoint((cluster.survivor, *cluster.others)):
                continue  # they were looked at when they changed
            _say(fate, cluster.survivor, OLDEST)
            for one in cluster.others:
                source, target = group.memories[one], group.memories[cluster.survivor]
                if (one, cluster.survivor) in before:
                    _say(fate, one, TAKEN_APART)
                elif source.told_to_last != target.told_to_last:
                    _say(fate, one, ANOTHER_TIME)
                else:
                    fate.pop(one, None)
                    decisions.append(decision(source, SAME, target))
        decisions.sort(key=lambda one: one["id"])
        return Proposal(decisions=decisions, kept=counted(fate.values()))

    def _clusters(
        self, groups: Sequence[Group], ids: Collection[int], before: set[tuple[int, int]]
    ) -> Flow[list[tuple[Group, Cluster]]]:
        """What says the same by the rules; where they have no word, a model is asked once."""
        known = [(group, clusters(group.items(), group.near, self._policy)) for group in groups]
        doubts = [
            (one, other)
            for each in known
            for one, other in _doubts(*each, self._policy, ids)
            if before.isdisjoint(((one.id, other.id), (other.id, one.id)))
        ]
        alike = yield from judged(self._judge, "same", doubts)
        return [
            (group, cluster)
            for group, found in known
            for cluster in joined(group.items(), found, alike)
        ]

    def apply(self, cycle: Cycle, decisions: Sequence[Decision]) -> Flow[Applied]:
        """Merge those that are as they were judged: one move for each that others live on in."""
        return anew(lambda: self._apply(cycle, decisions))

    def _apply(self, cycle: Cycle, decisions: Sequence[Decision]) -> Flow[Applied]:
        moves = self._moves(cycle, decisions)
        holding = yield from hold(cycle, decisions, moves.values())
        found = sort_out(
            decisions,
            lambda one: one["id"] in (holding.moves.get(moves[one["target"]]) or ()),
            lambda one: _against(holding, one, moves),
        )
        params = {
            "tenant": cycle.tenant,
            "sources": [one["id"] for one in found.todo],
            "targets": [one["target"] for one in found.todo],
            "events": [moves[one["target"]] for one in found.todo],
            "reasons": [one["reason"] for one in found.todo],
            "now": cycle.moment.now,
        }
        calls = [Call("record_merges", params)] if found.todo else []
        yield Query(tuple(calls), commit=True)
        return found.applied(lambda one: moves[one["target"]])

    def _moves(self, cycle: Cycle, decisions: Sequence[Decision]) -> dict[int | None, str]:
        """One for each memory that others live on in, named after the first of them."""
        first: dict[int | None, int] = {}
        for one in decisions:
            first[one["target"]] = min(one["id"], first.get(one["target"], one["id"]))
        return {target: move_id(cycle, self.name, one, target) for target, one in first.items()}

    def finish(self, cycle: Cycle) -> Flow[None]:
        """Everything has been looked at."""
        return changed.note_seen(cycle, self.name)


def _say(fate: dict[int, str], one: int, why: str) -> None:
    """Why a memory stays, if it is one of those that are judged."""
    if one in fate:
        fate[one] = why


def _doubts(
    group: Group, found: Sequence[Cluster], policy: MergePolicy, ids: Collection[int]
) -> list[Pair]:
    """Pairs that are near and differ by the rules, the older one first.

    Left out is what cannot be merged anyhow: what is told of different times, and what ended before
    the other began, as that began anew.
    """
    items = {one.id: one for one in group.items()}
    ends = {one.older: items[one.newer].order for one in contradictions([*items.values()])}
    home = {one: each.survivor for each in found for one in each.others}
    pairs = {
        tuple(sorted((items[home.get(one, one)] for one in pair), key=lambda one: one.order))
        for pair, cosine in group.near.items()
        if cosine >= policy.near_duplicate and any(one in ids for one in pair)
    }
    doubts = [
        (one, other)
        for one, other in pairs
        if one.id != other.id
        and one.trust == other.trust
        and not same(one, other)
        and not two_happenings(one, other)
        and not (one.id in ends and ends[one.id] <= other.order)
        and group.memories[one.id].told_to_last == group.memories[other.id].told_to_last
    ]
    return sorted(doubts, key=lambda pair: (pair[0].id, pair[1].id))


def joined(items: Sequence[Item], found: Sequence[Cluster], alike: Sequence[Pair]) -> list[Cluster]:
    """Clusters, and further pairs that say the same, as clusters: each lives on in the oldest.

    Pairs of other memories than these are left out.
    """
    age = {one.id: number for number, one in enumerate(sorted(items, key=lambda i: i.recorded))}
    home = {one: each.survivor for each in found for one in each.others}

    def root(one: int) -> int:
        while one in home:
            one = home[one]
        return one

    for one, other in (pair for pair in alike if pair[0].id in age):
        older, newer = sorted((root(one.id), root(other.id)), key=age.__getitem__)
        if older != newer:
            home[newer] = older
    others: dict[int, list[int]] = {}
    for source in sorted(home, key=age.__getitem__):
        others.setdefault(root(source), []).append(source)
    oldest = sorted(others, key=age.__getitem__)
    return [Cluster(survivor, tuple(others[survivor])) for survivor in oldest]


def _against(holding: Holding, one: Decision, moves: Mapping[int | None, str]) -> str | None:
    """Why a merge is not carried out."""
    against = holding.against(one, CURRENT_TIERS) or holding.target_against(one, (None,))
    if against is None and moves[one["target"]] in holding.moves:
        return LATE
    if against is None and holding.memories[one["id"]].lived_on:
        return LIVED_ON
    return against
