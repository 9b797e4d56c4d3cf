"""Merging: what says the same in one home lives on in the oldest of it.

What was said twice in a row does. What else says the same is for a judge: without one it is
proposed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from langmem_tiers.consolidate import changed
from langmem_tiers.consolidate.changed import Group
from langmem_tiers.consolidate.contradictions import contradictions
from langmem_tiers.consolidate.duplicates import Cluster, clusters, repeated, same, two_happenings
from langmem_tiers.consolidate.items import Item
from langmem_tiers.consolidate.judge import Judge, Pair, judged
from langmem_tiers.consolidate.policy import MergePolicy
from langmem_tiers.consolidate.steps import Applied, Cycle, Decision, Finding, Proposal
from langmem_tiers.consolidate.stored import (
    CURRENT_TIERS,
    Holding,
    counted,
    decision,
    finding,
    hold,
    move_id,
    sort_out,
    undone,
)
from langmem_tiers.postgres.flow import Call, Flow, Query, anew, apart

SAME = "it says the same as an older one"
ALONE = "nothing says the same"
OLDEST = "it is the oldest that says the same"
TAKEN_APART = "it was merged before, and that was rolled back"
ANOTHER_TIME = "it says the same of another time"
LIVED_ON = "it lived on in another one before"
MAYBE_SAME = "it may say the same as an older one"
PROPOSED = "another one may say the same: proposed"
LATE = "it was left when the others were merged"


class Merge:
    """Merges what says the same."""

    name = "merge"

    def __init__(self, policy: MergePolicy, judge: Judge | None = None) -> None:
        """Hold what the rules go by, and whom to ask of what they cannot decide."""
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
        seen, doubts = yield from apart(
            lambda: self._looked_at(groups, frozenset(fate), before),
            sum(one.characters for one in groups),
        )
        alike = yield from judged(self._judge, "same", doubts)
        decisions: list[Decision] = []
        findings: list[Finding] = []
        for one in seen:
            findings += one.findings(fate, before, judged=asked)
            for cluster in joined(one.group.items(), one.sure, alike):
                decisions += _merged(one.group, cluster, fate, before)
        decisions.sort(key=lambda one: one["id"])
        return Proposal(decisions=decisions, kept=counted(fate.values()), findings=findings)

    def _looked_at(
        self, groups: Sequence[Group], ids: Collection[int], before: set[tuple[int, int]]
    ) -> tuple[list[_Seen], list[Pair]]:
        """What is seen of groups, and for the model, if one is asked, what may say the same."""
        seen = [_Seen.of(group, self._policy, ids, before) for group in groups]
        doubts = dict.fromkeys(
            pair
            for one in (seen if self._judge is not None else ())
            for pair in (*one.suspected, *one.doubts(self._policy))
            if one.against(pair, before) is None and (pair[0].id, pair[1].id) not in before
        )
        return seen, list(doubts)

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

    def finish(self, cycle: Cycle) -> Flow[dict[str, int]]:
        """Everything has been looked at."""
        yield from changed.note_seen(cycle, self.name)
        return {}


class _Seen(NamedTuple):
    """What is seen of a group before anybody is asked."""

    group: Group
    ids: Collection[int]
    """Those that changed."""
    sure: list[Cluster]
    """What was said twice in a row."""
    suspected: list[Pair]
    """What else says the same by the rules, which may be wrong: the older one first."""

    @classmethod
    def of(
        cls,
        group: Group,
        policy: MergePolicy,
        ids: Collection[int],
        before: Collection[tuple[int, int]],
    ) -> _Seen:
        """Look at a group. What somebody took apart is not said twice in a row."""
        items = {one.id: one for one in group.items()}
        parted = {one for one, _ in before}
        free = [one for one in items.values() if one.id not in parted]
        sure = repeated(free, group.near, policy)
        home = {one: each.survivor for each in sure for one in each.others}
        pairs = dict.fromkeys(
            (home.get(each.survivor, each.survivor), home.get(one, one))
            for each in clusters([*items.values()], group.near, policy)
            for one in each.others
            if each.survivor in ids or one in ids
        )
        suspected = [(items[one], items[other]) for one, other in pairs if one != other]
        return cls(group, ids, sure, suspected)

    def against(self, pair: Pair, before: set[tuple[int, int]]) -> str | None:
        """Why the newer of two does not live on in the older, whoever judges."""
        older, newer = pair
        if (newer.id, older.id) in before:
            return TAKEN_APART
        source, target = (self.group.memories[one.id] for one in (newer, older))
        return None if source.told_to_last == target.told_to_last else ANOTHER_TIME

    def findings(
        self, fate: dict[int, str], before: set[tuple[int, int]], *, judged: bool
    ) -> Iterator[Finding]:
        """What somebody is to look at, if no model has; both stay as they are."""
        found = self.group.memories
        for older, newer in self.suspected:
            against = self.against((older, newer), before)
            if against is not None:
                _say(fate, newer.id, against)
            elif not judged:
                _say(fate, older.id, PROPOSED)
                _say(fate, newer.id, PROPOSED)
                yield finding(found[newer.id], MAYBE_SAME, found[older.id])

    def doubts(self, policy: MergePolicy) -> list[Pair]:
        """Pairs that are near and differ by the rules, the older one first.

        Left out is what ended before the other began, as that began anew.
        """
        items = {one.id: one for one in self.group.items()}
        ends = {one.older: items[one.newer].order for one in contradictions([*items.values()])}
        home = {one: each.survivor for each in self.sure for one in each.others}
        pairs = {
            tuple(sorted((items[home.get(one, one)] for one in pair), key=lambda one: one.order))
            for pair, cosine in self.group.near.items()
            if cosine >= policy.near_duplicate and any(one in self.ids for one in pair)
        }
        doubts = [
            (one, other)
            for one, other in pairs
            if one.id != other.id
            and one.trust == other.trust
            and not same(one, other)
            and not two_happenings(one, other)
            and not (one.id in ends and ends[one.id] <= other.order)
        ]
        return sorted(doubts, key=lambda pair: (pair[0].id, pair[1].id))


def _merged(
    group: Group, cluster: Cluster, fate: dict[int, str], before: set[tuple[int, int]]
) -> Iterator[Decision]:
    """What lives on in the oldest of a cluster, and why anything does not."""
    if fate.keys().isdisjoint((cluster.survivor, *cluster.others)):
        return  # they were looked at when they changed
    _say(fate, cluster.survivor, OLDEST)
    for one in cluster.others:
        source, target = group.memories[one], group.memories[cluster.survivor]
        if (one, cluster.survivor) in before:
            _say(fate, one, TAKEN_APART)
        elif source.told_to_last != target.told_to_last:
            _say(fate, one, ANOTHER_TIME)
        else:
            fate.pop(one, None)
            yield decision(source, SAME, target)


def _say(fate: dict[int, str], one: int, why: str) -> None:
    """Why a memory stays, if it is one of those that are judged."""
    if one in fate:
        fate[one] = why


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
