"""Superseding: what a newer memory contradicts was true until then, and no longer.

A judge says so. Without one nothing is ended: what may contradict is proposed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from langmem_tiers.consolidate import stored
from langmem_tiers.consolidate.merge import DOUBTED, NEAR
from langmem_tiers.consolidate.models import Judge, Pair, judged
from langmem_tiers.consolidate.policy import SupersedePolicy
from langmem_tiers.consolidate.steps import (
    Cycle,
    CycleStep,
    Proposal,
    StepCounts,
    StepDecision,
    counted,
    decision,
)
from langmem_tiers.consolidate.stored import CURRENT_TIERS, Group, Holding, Stored
from langmem_tiers.core.reading import normalised
from langmem_tiers.core.values import trust_of
from langmem_tiers.postgres.flow import Call, Flow, apart
from langmem_tiers.remember.trust import SPOKEN_FOR

_SUPERSEDED = "superseded"
STANDS = "nothing newer contradicts it"
STANDS_AGAIN = "it was superseded before, and that was rolled back"
MAYBE_ENDED = "a newer one may contradict it, or say the same"
PROPOSED = f"{MAYBE_ENDED}: proposed"
JUDGED = "a newer one contradicts it, says the model"


class Supersede(CycleStep):
    """Ends the truth of what newer memories contradict."""

    name = "supersede"

    def __init__(self, policy: SupersedePolicy, judge: Judge | None = None) -> None:
        """Hold which types can be contradicted, and whom to ask whether they are."""
        self._policy = policy
        self._judge = judge

    def select(self, cycle: Cycle, after: int, limit: int) -> Flow[list[int]]:
        """What changed since the last cycle, of the types that say how things are."""
        step = {"step": self.name, "memory_types": list(self._policy.memory_types)}
        return stored.select(cycle, "select_changed", after, limit, **step)

    def propose(self, cycle: Cycle, ids: Sequence[int]) -> Flow[Proposal]:
        """Which of these, and of what is near to them, contradict each other.

        What was superseded before is looked at as well: a memory ends where the first newer one
        that contradicts it begins, though that one has ended since.
        """
        groups = yield from stored.groups(
            cycle, ids, same_tier=False, also=_SUPERSEDED, thorough=self._judge is not None
        )
        memories = {id_: one for group in groups for id_, one in group.memories.items()}
        before = yield from stored.undone(cycle, _SUPERSEDED, memories)
        fate = dict.fromkeys((one for one in ids if one in memories), STANDS)
        fate |= {one: STANDS_AGAIN for one, by in before if one in fate and by in memories}
        doubts = yield from apart(
            lambda: {p: near for one in groups for p, near in _doubts(one, before, cycle).items()},
            sum(one.characters for one in groups),
        )
        if self._judge is None:
            fate |= {one.id: PROPOSED for one, _ in doubts if one.id in fate}
            findings = [
                stored.finding(one, MAYBE_ENDED, newer, near)
                for (one, newer), near in doubts.items()
            ]
            return Proposal(decisions=[], kept=counted(fate.values()), findings=findings)
        ended = first_of_each((yield from judged(self._judge, "contradicts", list(doubts))))
        for older, _ in ended:
            fate.pop(older.id, None)
        decisions = [decision(one, JUDGED, newer) for one, newer in ended]
        return Proposal(decisions=decisions, kept=counted(fate.values()))

    def apply(self, cycle: Cycle, decisions: Sequence[StepDecision]) -> Flow[StepCounts]:
        """End the truth of those that are as they were judged."""

        def against(holding: Holding, one: StepDecision) -> str | None:
            return holding.against(one, CURRENT_TIERS) or holding.target_against(
                one, (None, _SUPERSEDED)
            )

        return stored.move_all(
            cycle,
            decisions,
            lambda one: stored.move_id(cycle, self.name, one["id"], one["target"]),
            against,
            lambda _, params: [Call("record_supersessions", params)],
        )

    def finish(self, cycle: Cycle) -> Flow[dict[str, int]]:
        """Everything has been looked at."""
        return stored.note_seen(cycle, self.name)


def _doubts(group: Group, before: Collection[tuple[int, int]], cycle: Cycle) -> dict[Pair, float]:
    """The nearest of each that changed that could end it, or end by it, the older one first.

    With how near the two are.
    """
    text = {id_: normalised(one.content) for id_, one in group.memories.items()}
    found: dict[Pair, float] = {}
    taken = Counter[int]()
    for pair, how in sorted(group.near.items(), key=lambda one: (-one[1], one[0])):
        if how < NEAR or taken[pair[0]] == DOUBTED or text[pair[0]] == text[pair[1]]:
            continue
        older, newer = sorted((group.memories[one] for one in pair), key=lambda one: one.order)
        outspoken = trust_of(newer.value) >= min(trust_of(older.value), SPOKEN_FOR)
        if (older.id, newer.id) not in before and outspoken and _ends(older, newer, cycle):
            found[older, newer] = how
            taken[pair[0]] += 1
    return found


def _ends(older: Stored, newer: Stored, cycle: Cycle) -> bool:
    """Whether the newer memory begins by now, and before the older one has ended.

    Nor does it end what was put again since, of which nobody told when it is true.
    """
    told = older.valid_from or older.occurred_at
    again = told is None and older.updated_at > newer.since
    lasts = older.valid_to is None or older.valid_to > newer.since
    return older.state is None and lasts and not again and newer.since <= cycle.moment.now


def first_of_each(pairs: Iterable[Pair]) -> list[Pair]:
    """Of each older memory, the first newer one that contradicts it: that is where it ended."""
    first: dict[int, Pair] = {}
    for older, newer in sorted(pairs, key=lambda pair: pair[1].order):
        first.setdefault(older.id, (older, newer))
    return [first[one] for one in sorted(first)]
