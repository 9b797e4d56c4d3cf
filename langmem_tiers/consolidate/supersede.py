"""Superseding: what a newer memory contradicts was true until then, and no longer.

A judge says so. Without one nothing is ended: what the rules find is proposed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from langmem_tiers.consolidate import changed
from langmem_tiers.consolidate.changed import Group
from langmem_tiers.consolidate.contradictions import Contradiction, contradictions
from langmem_tiers.consolidate.duplicates import same
from langmem_tiers.consolidate.items import Item
from langmem_tiers.consolidate.judge import Judge, Pair, judged
from langmem_tiers.consolidate.policy import SupersedePolicy
from langmem_tiers.consolidate.steps import Applied, Cycle, Decision, Finding, Proposal
from langmem_tiers.consolidate.stored import (
    CURRENT_TIERS,
    Stored,
    counted,
    decision,
    finding,
    hold,
    move_id,
    sort_out,
    undone,
)
from langmem_tiers.core.values import trust_of
from langmem_tiers.postgres.flow import Call, Flow, Query, anew, apart
from langmem_tiers.remember.trust import SPOKEN_FOR

_SUPERSEDED = "superseded"
STANDS = "nothing newer contradicts it"
STANDS_AGAIN = "it was superseded before, and that was rolled back"
PROPOSED = "a newer one may contradict it: proposed"
JUDGED = "a newer one contradicts it, says the model"
DOUBTED = 3
"""The nearest of each changed memory that a model is asked about."""
NEAR = 0.5
"""The cosine that they must reach."""


class Supersede:
    """Ends the truth of what newer memories contradict."""

    name = "supersede"

    def __init__(self, policy: SupersedePolicy, judge: Judge | None = None) -> None:
        """Hold which types can be contradicted, and whom to ask whether they are."""
        self._policy = policy
        self._judge = judge

    def select(self, cycle: Cycle, after: int, limit: int) -> Flow[list[int]]:
        """What changed since the last cycle, of the types that say how things are."""
        types = self._policy.memory_types
        return changed.select(cycle, self.name, after, limit, types)

    def propose(self, cycle: Cycle, ids: Sequence[int]) -> Flow[Proposal]:
        """Which of these, and of what is near to them, contradict each other.

        What was superseded before is looked at as well: a memory ends where the first newer one
        that contradicts it begins, though that one has ended since.
        """
        asked = self._judge is not None
        groups = yield from changed.groups(
            cycle, ids, same_tier=False, also=_SUPERSEDED, cosines=asked
        )
        involved = {one for group in groups for one in group.memories}
        before = yield from undone(cycle, _SUPERSEDED, involved)
        fate = dict.fromkeys((one for one in ids if one in involved), STANDS)
        decisions: list[Decision] = []
        findings: list[Finding] = []
        for group, found in (yield from self._contradictions(cycle, groups, fate, before)):
            for one in first_of_each(found, group.items()):
                older, newer = group.memories[one.older], group.memories[one.newer]
                if not (_ends(older, newer, cycle) and {one.older, one.newer} & {*ids}):
                    continue
                if self._judge is not None:
                    fate.pop(one.older, None)
                    decisions.append(decision(older, one.reason, newer))
                    continue
                findings.append(finding(older, one.reason, newer))
                if one.older in fate:
                    fate[one.older] = PROPOSED
        decisions.sort(key=lambda one: one["id"])
        return Proposal(decisions=decisions, kept=counted(fate.values()), findings=findings)

    def _contradictions(
        self,
        cycle: Cycle,
        groups: Sequence[Group],
        fate: dict[int, str],
        before: Collection[tuple[int, int]],
    ) -> Flow[list[tuple[Group, list[Contradiction]]]]:
        """What newer ones contradict: by the judge, or by the rules if there is none."""
        known, doubts = yield from apart(
            lambda: self._looked_at(cycle, groups, fate, before),
            sum(one.characters for one in groups),
        )
        if self._judge is None:
            return known
        answer = yield from judged(self._judge, "contradicts", doubts)
        said = [Contradiction(one.id, other.id, JUDGED) for one, other in answer]
        return [
            (group, [one for one in said if _of(one, group) and _outspoken(one, group)])
            for group, _ in known
        ]

    def _looked_at(
        self,
        cycle: Cycle,
        groups: Sequence[Group],
        fate: dict[int, str],
        before: Collection[tuple[int, int]],
    ) -> tuple[list[tuple[Group, list[Contradiction]]], list[Pair]]:
        """What newer ones contradict by the rules; and what the model is asked, if there is one."""
        known = [(group, _standing(_contradicted(group), fate, before)) for group in groups]
        doubts = dict.fromkeys(
            (one, other)
            for group, found in (known if self._judge is not None else ())
            for one, other in (*_pairs(group, found, fate), *_doubts(group, fate))
            if (one.id, other.id) not in before
            and _ends(group.memories[one.id], group.memories[other.id], cycle)
        )
        return known, list(doubts)

    def apply(self, cycle: Cycle, decisions: Sequence[Decision]) -> Flow[Applied]:
        """End the truth of those that are as they were judged."""
        return anew(lambda: self._apply(cycle, decisions))

    def _apply(self, cycle: Cycle, decisions: Sequence[Decision]) -> Flow[Applied]:
        moves = {
            one["id"]: move_id(cycle, self.name, one["id"], one["target"]) for one in decisions
        }
        holding = yield from hold(cycle, decisions, moves.values())
        found = sort_out(
            decisions,
            lambda one: moves[one["id"]] in holding.moves,
            lambda one: (
                holding.against(one, CURRENT_TIERS)
                or holding.target_against(one, (None, _SUPERSEDED))
            ),
        )
        params = {
            "tenant": cycle.tenant,
            "ids": [one["id"] for one in found.todo],
            "targets": [one["target"] for one in found.todo],
            "events": [moves[one["id"]] for one in found.todo],
            "reasons": [one["reason"] for one in found.todo],
            "now": cycle.moment.now,
        }
        calls = [Call("record_supersessions", params)] if found.todo else []
        yield Query(tuple(calls), commit=True)
        return found.applied(lambda one: moves[one["id"]])

    def finish(self, cycle: Cycle) -> Flow[dict[str, int]]:
        """Everything has been looked at."""
        yield from changed.note_seen(cycle, self.name)
        return {}


def _ends(older: Stored, newer: Stored, cycle: Cycle) -> bool:
    """Whether the newer memory ends the older one by now; what has ended earlier has done so.

    Nor does it end what was put again since, of which nobody told when it is true.
    """
    told = older.valid_from or older.occurred_at
    again = told is None and older.updated_at > newer.since
    lasts = older.valid_to is None or older.valid_to > newer.since
    return older.state is None and lasts and not again and newer.since <= cycle.moment.now


def _contradicted(group: Group) -> list[Contradiction]:
    """What newer ones contradict, leaving aside what those say who do not speak for themselves."""
    items = group.items()
    found = [one for one in contradictions(items) if _outspoken(one, group)]
    speakers = [one for one in items if one.trust >= SPOKEN_FOR]
    if len(speakers) < len(items):
        found += (one for one in contradictions(speakers) if one not in found)
    return found


def _of(one: Contradiction, group: Group) -> bool:
    return one.older in group.memories


def _outspoken(one: Contradiction, group: Group) -> bool:
    """Whether the newer memory is trusted as the older is, or as those who speak for themselves."""
    newer, older = (trust_of(group.memories[which].value) for which in (one.newer, one.older))
    return newer >= min(older, SPOKEN_FOR)


def first_of_each(found: Iterable[Contradiction], items: Iterable[Item]) -> list[Contradiction]:
    """Of each memory, the first newer one that contradicts it: that is where it ended."""
    order = {one.id: one.order for one in items}
    first: dict[int, Contradiction] = {}
    for one in found:
        known = first.get(one.older)
        if known is None or order[one.newer] < order[known.newer]:
            first[one.older] = one
    return [first[one] for one in sorted(first)]


def _standing(
    found: Iterable[Contradiction], fate: dict[int, str], before: Collection[tuple[int, int]]
) -> list[Contradiction]:
    """Those of which nobody rolled the supersession back; the others stand again."""
    standing = []
    for one in found:
        if (one.older, one.newer) not in before:
            standing.append(one)
        elif one.older in fate:
            fate[one.older] = STANDS_AGAIN
    return standing


def _pairs(group: Group, found: Iterable[Contradiction], ids: Collection[int]) -> list[Pair]:
    """What the rules find of those that changed, for the judge."""
    items = {one.id: one for one in group.items()}
    return [
        (items[one.older], items[one.newer])
        for one in found
        if one.older in ids or one.newer in ids
    ]


def _doubts(group: Group, ids: Collection[int]) -> list[Pair]:
    """The nearest of each that changed, the older one first.

    What says the same is not asked about.
    """
    items = {one.id: one for one in group.items()}
    doubts: set[Pair] = set()
    for one in items.keys() & ids:
        near = sorted(
            (-cosine, other)
            for pair, cosine in group.near.items()
            if one in pair and cosine >= NEAR
            for other in pair
            if other != one
        )
        for _, other in list(dict.fromkeys(near))[:DOUBTED]:
            older, newer = sorted((items[one], items[other]), key=lambda each: each.order)
            if not same(older, newer):
                doubts.add((older, newer))
    return sorted(doubts, key=lambda pair: (pair[0].id, pair[1].id))
