"""Merging: what says the same in one home lives on in the oldest of it.

What was said twice in a row does. What else may say the same is for a judge: without one it is
proposed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import NamedTuple

from langmem_tiers.consolidate import stored
from langmem_tiers.consolidate.duplicates import Cluster, Tellings, joined
from langmem_tiers.consolidate.judge import Judge, Pair, judged
from langmem_tiers.consolidate.policy import MergePolicy, SupersedePolicy
from langmem_tiers.consolidate.steps import Applied, Cycle, Decision, Finding, Proposal
from langmem_tiers.consolidate.stored import (
    CURRENT_TIERS,
    Group,
    Holding,
    Stored,
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
        """Hold what is looked at, and whom to ask whether it is the same."""
        self._policy = policy
        self._judge = judge

    def select(self, cycle: Cycle, after: int, limit: int) -> Flow[list[int]]:
        """What changed since the last cycle."""
        return stored.select(cycle, self.name, after, limit)

    def propose(self, cycle: Cycle, ids: Sequence[int]) -> Flow[Proposal]:
        """What of these, and of what is near to them, says the same."""
        thorough = self._judge is not None
        groups = yield from stored.groups(cycle, ids, same_tier=True, thorough=thorough)
        involved = {one for group in groups for one in group.memories}
        before = yield from undone(cycle, "merged", involved)
        fate = dict.fromkeys((one for one in ids if one in involved), ALONE)
        seen = yield from apart(
            lambda: [_Seen.of(group, self._policy, before) for group in groups],
            sum(one.characters for one in groups),
        )
        alike = yield from self._alike(seen)
        decisions: list[Decision] = []
        findings: list[Finding] = []
        for one in seen:
            one.say(fate)
            if self._judge is None:
                findings += one.findings(fate, cycle.policy.supersede)
            for cluster in joined(one.told.items, one.sure, alike):
                decisions += _merged(one.group, cluster, fate, before)
        decisions.sort(key=lambda one: one["id"])
        return Proposal(decisions=decisions, kept=counted(fate.values()), findings=findings)

    def _alike(self, seen: Sequence[_Seen]) -> Flow[list[Pair]]:
        """What the judge says is the same, but for what had ceased to be true in between."""
        doubts = [(pair, one) for one in seen for pair in one.doubts]
        alike = yield from judged(self._judge, "same", [pair for pair, _ in doubts])
        yes = {*alike}
        turns = {pair: one.turns(pair) for pair, one in doubts if pair in yes}
        asked = dict.fromkeys(turn for several in turns.values() for turn in several)
        turned = yield from judged(self._judge, "contradicts", list(asked))
        return [pair for pair in alike if not {*turns[pair]} & {*turned}]

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
        yield from stored.note_seen(cycle, self.name)
        return {}


class _Seen(NamedTuple):
    """What is seen of a group before anybody is asked."""

    group: Group
    told: Tellings
    sure: Sequence[Cluster]
    """What was said twice in a row."""
    doubts: Sequence[Pair]
    """What else may say the same, the older one first."""
    stays: Mapping[int, str]
    """What says the same and stays, whoever judges, and why."""

    @classmethod
    def of(cls, group: Group, policy: MergePolicy, before: Collection[tuple[int, int]]) -> _Seen:
        """Look at a group. What somebody took apart is not said twice in a row."""
        told = Tellings(group.items(), group.near)
        sure = told.repeated(timedelta(minutes=policy.within_minutes), {one for one, _ in before})
        doubts: list[Pair] = []
        stays: dict[int, str] = {}
        for older, newer in told.similar(policy.near_duplicate, sure):
            against = _apart(group.memories[newer.id], group.memories[older.id], before)
            if against is None:
                doubts.append((older, newer))
            elif told.text[older.id] == told.text[newer.id]:
                stays[newer.id] = against
        return cls(group, told, sure, doubts, stays)

    def say(self, fate: dict[int, str]) -> None:
        """Why what says the same stays."""
        for one, why in self.stays.items():
            _say(fate, one, why)

    def findings(self, fate: dict[int, str], ending: SupersedePolicy | None) -> Iterator[Finding]:
        """What somebody is to look at; both stay as they are.

        What is near and differs is proposed once: by superseding, where that looks at the type.
        """
        types = () if ending is None else ending.memory_types
        for older, newer in self.doubts:
            if older.memory_type in types and self.told.text[older.id] != self.told.text[newer.id]:
                continue
            _say(fate, older.id, PROPOSED)
            _say(fate, newer.id, PROPOSED)
            yield finding(self.group.memories[newer.id], MAYBE_SAME, self.group.memories[older.id])

    def turns(self, pair: Pair) -> list[Pair]:
        """What may have ended the older of a pair before the newer was told."""
        return [(pair[0], one) for one in self.told.between(*pair)]


def _apart(one: Stored, other: Stored, before: Collection[tuple[int, int]]) -> str | None:
    """Why two memories do not live on in one, whatever they say."""
    if not {(one.id, other.id), (other.id, one.id)}.isdisjoint(before):
        return TAKEN_APART
    return None if one.told_to_last == other.told_to_last else ANOTHER_TIME


def _merged(
    group: Group, cluster: Cluster, fate: dict[int, str], before: Collection[tuple[int, int]]
) -> Iterator[Decision]:
    """What lives on in the oldest of a cluster, and why anything does not."""
    if fate.keys().isdisjoint((cluster.survivor, *cluster.others)):
        return  # they were looked at when they changed
    target = group.memories[cluster.survivor]
    _say(fate, target.id, OLDEST)
    for source in (group.memories[one] for one in cluster.others):
        against = _apart(source, target, before)
        if against is None:
            fate.pop(source.id, None)
            yield decision(source, SAME, target)
        else:
            _say(fate, source.id, against)


def _say(fate: dict[int, str], one: int, why: str) -> None:
    """Why a memory stays, if it is one of those that are judged."""
    if one in fate:
        fate[one] = why


def _against(holding: Holding, one: Decision, moves: Mapping[int | None, str]) -> str | None:
    """Why a merge is not carried out."""
    against = holding.against(one, CURRENT_TIERS) or holding.target_against(one, (None,))
    if against is None and moves[one["target"]] in holding.moves:
        return LATE
    if against is None and holding.memories[one["id"]].lived_on:
        return LIVED_ON
    return against
