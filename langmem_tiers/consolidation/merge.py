"""Merging and superseding: duplicates live on in the oldest, and a contradicted memory ends.

A text that is said twice in a row is a duplicate. A judge decides on all other near memories;
without a judge they are proposed. Both steps look at changed memories and their neighbours.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import chain, groupby
from operator import attrgetter
from typing import NamedTuple, TypeAlias

from langmem_tiers.consolidation import steps
from langmem_tiers.consolidation.judges import Judge, Pair, judge_pairs
from langmem_tiers.consolidation.policy import MergePolicy, SupersedePolicy
from langmem_tiers.consolidation.steps import (
    Cycle,
    MovingStep,
    Proposal,
    StepDecision,
    StoredMemory,
)
from langmem_tiers.core.texts import normalise
from langmem_tiers.core.values import source_of, trust_of
from langmem_tiers.postgres.flow import Call, Flow, Query, off_loop, rows_of
from langmem_tiers.remember.gate import OWN_EVIDENCE_TRUST

EVENT_TYPES = frozenset({"episodic", "interaction", "achievement"})
"""Types of events: the same a day later has happened twice."""
MIN_NEARNESS = 0.5
"""The least nearness of two memories that may speak of the same thing."""
MAX_CANDIDATES = 3
"""The most neighbours of a memory that a judge or the report is shown."""
_EVENT_GAP = timedelta(days=1)
MAX_NEIGHBOURS = 20
"""The most neighbours of a memory, by vectors and by words."""
MIN_OVERLAP = 0.2
"""The least share of common words of two neighbours by words."""
MAX_WORD_NEIGHBOURS = 400
"""The most memories that are read because they share a word with a changed memory, by its rarest
words first. With half as many a few are missed in homes of 20,000, and none in homes of 2,000."""
EXACT_LIMIT = 1_000
"""The most vectors of a home in a tier that are compared if no model is asked: 2 µs each for every
memory that changed."""

_Moves: TypeAlias = Collection[tuple[int, int]]
"""Moves as pairs of source and target."""
_BY_TRUTH = attrgetter("truth_order")

SAME = "it says the same as an older one"
ALONE = "nothing says the same"
OLDEST = "it is the oldest that says the same"
TAKEN_APART = "it was merged before, and that was rolled back"
ANOTHER_TIME = "it says the same of another time"
LIVED_ON = "it lived on in another one before"
MAYBE_SAME = "it may say the same as an older one"
PROPOSED = "another one may say the same: proposed"
LATE = "it was left when the others were merged"


# ---- groups of comparable memories ------------------------------------------------------------


class ComparisonGroup(NamedTuple):
    """Memories of one home, type and user: two of them may say the same, or contradict."""

    memories: Mapping[int, StoredMemory]
    near: Mapping[tuple[int, int], float]
    """Nearness of two, in either order: the higher of their cosine and their share of words."""

    @property
    def characters(self) -> int:
        """Count the characters that a judge would read."""
        return sum(len(memory.content) for memory in self.memories.values())


def read_undone_moves(cycle: Cycle, kind: str, ids: Iterable[int]) -> Flow[set[tuple[int, int]]]:
    """Return the moves of these memories that were rolled back, as pairs of source and target.

    They are not made again.
    """
    rows = yield from rows_of("undone_pairs", tenant=cycle.tenant, kind=kind, ids=sorted(ids))
    return {(row[0], row[1]) for row in rows}


def read_groups(
    cycle: Cycle, ids: Sequence[int], *, same_tier: bool, thorough: bool, also: str | None = None
) -> Flow[list[ComparisonGroup]]:
    """Return these memories and their neighbours in groups that can be compared.

    Neighbours are current. With `also`, neighbours by words may be in that state too. If
    `thorough`, as many vectors are compared as in a search.
    """
    exact = cycle.options.exact_limit if thorough else EXACT_LIMIT
    pairs = yield from _read_near_pairs(cycle, ids, same_tier=same_tier, exact=exact, also=also)
    stored = yield from steps.read_memories(cycle, {*ids, *(other for _, other in pairs)})
    eligible = [memory for memory in stored if memory.state is None or memory.state == also]

    def group_key(memory: StoredMemory) -> tuple[str, ...]:
        tier = memory.tier if same_tier else ""
        return memory.home, memory.memory_type, memory.user_id or "", tier

    groups = []
    eligible.sort(key=lambda memory: (group_key(memory), memory.id))
    for _, members in groupby(eligible, group_key):
        memories = {memory.id: memory for memory in members}
        near = {pair: nearness for pair, nearness in pairs.items() if memories.keys() >= set(pair)}
        groups.append(ComparisonGroup(memories, near))
    return groups


def _read_near_pairs(
    cycle: Cycle, ids: Sequence[int], *, same_tier: bool, exact: int, also: str | None
) -> Flow[dict[tuple[int, int], float]]:
    """Return the nearness of each pair of one of these memories and a neighbour."""
    index = cycle.options.index
    if index is None:
        return {}
    params = {
        **cycle.params,
        "ids": sorted(ids),
        "same_tier": same_tier,
        "also": also,
        "limit": MAX_NEIGHBOURS,
        "overlap": MIN_OVERLAP,
        "looked_at": MAX_WORD_NEIGHBOURS,
        "exact": exact,
    }
    calls = [Call("near_by_words", params)]
    if index.vector is not None:
        calls.append(Call("near_by_vector", params | {"also": None}))
    rows, *near = yield Query(tuple(calls), commit=True)
    if rows and near:
        pairs = {"ids": [row[0] for row in rows], "others": [row[1] for row in rows]}
        near += yield Query((Call("cosines", {**pairs, "tenant": cycle.tenant}),), commit=True)
    nearness_by_pair: dict[tuple[int, int], float] = {}
    for first, other, nearness in chain(rows, *near):
        nearness_by_pair[first, other] = max(nearness, nearness_by_pair.get((first, other), 0.0))
    return nearness_by_pair


# ---- merging ----------------------------------------------------------------------------------


class DuplicateSet(NamedTuple):
    """Memories that say the same, by id."""

    survivor: int
    """The oldest of them, in which the others live on."""
    others: tuple[int, ...]
    """The other memories, in the order in which they were recorded."""


class Timeline:
    """Memories of a group by their texts, in the order in which they were true."""

    def __init__(self, group: ComparisonGroup) -> None:
        self.memories = group.memories
        self.items = sorted(group.memories.values(), key=_BY_TRUTH)
        self.text = {memory.id: normalise(memory.content) for memory in self.items}
        self._first = {self.text[memory.id]: memory for memory in reversed(self.items)}
        self._last = {self.text[memory.id]: memory for memory in self.items}
        self._near: defaultdict[int, dict[int, float]] = defaultdict(dict)
        for (first, other), nearness in group.near.items():
            self._near[first][other] = self._near[other][first] = nearness

    def find_repeated(self, within: timedelta, apart: Iterable[int] = ()) -> list[DuplicateSet]:
        """Find texts that were said twice in a row, by the oldest memory of each.

        The texts are equal (`normalise`), of one speaker, source and trust, and at most `within`
        apart. Nothing near came and went in between. Memories that are `apart` are left out.
        """
        oldest: defaultdict[object, list[StoredMemory]] = defaultdict(list)
        repeats: defaultdict[int, list[int]] = defaultdict(list)
        left_out = set(apart)
        for memory in sorted(self.items, key=lambda memory: memory.record_order):
            if memory.id in left_out:
                continue
            earlier = oldest[self.text[memory.id], memory.speaker_key]
            soon = (
                each for each in earlier if abs(memory.happened_at - each.happened_at) <= within
            )
            first = next((each for each in soon if not self.similar_between(each, memory)), None)
            if first is None:
                earlier.append(memory)
            else:
                repeats[first.id].append(memory.id)
        return [DuplicateSet(survivor, tuple(others)) for survivor, others in repeats.items()]

    def find_similar(self, least: float, sure: Iterable[DuplicateSet] = ()) -> list[Pair]:
        """Find the nearest neighbours of each memory that may say the same, the older one first.

        They are at least as near as `least`. Of several equal texts each is paired with the oldest
        alone, and duplicates that are `sure` count as one memory. Memories of two speakers, of
        unequal trust, or of two events never say the same.
        """
        home = {id_: each.survivor for each in sure for id_ in each.others}
        similar_pairs: set[Pair] = set()
        for id_, others in self._near.items():
            nearest = sorted((-near, other) for other, near in others.items() if near >= least)
            pairs = (self._pair(home.get(id_, id_), home.get(other, other)) for _, other in nearest)
            alike = dict.fromkeys(pair for pair in pairs if _may_merge(*pair))
            similar_pairs.update(list(alike)[:MAX_CANDIDATES])
        return sorted(similar_pairs, key=lambda pair: (pair[0].id, pair[1].id))

    def nearness(self, memory: StoredMemory, other: StoredMemory) -> float:
        """Return how near two of the memories are; 1 for equal texts."""
        equal = self.text[memory.id] == self.text[other.id]
        return 1.0 if equal else self._near[memory.id].get(other.id, 0.0)

    def _pair(self, *ids: int) -> Pair:
        """Return the older one first; the older of two equal texts is the oldest with that text."""
        older, newer = sorted((self.memories[id_] for id_ in ids), key=_BY_TRUTH)
        equal = self.text[older.id] == self.text[newer.id]
        return (self._first[self.text[older.id]] if equal else older), newer

    def similar_between(self, memory: StoredMemory, other: StoredMemory) -> list[StoredMemory]:
        """Return memories near to either of two whose text was told only in between.

        Such a memory may have ended the first. If the last were merged into the first, the last
        would be lost.
        """
        first, last = sorted((memory, other), key=_BY_TRUTH)
        near = {
            id_
            for each in (first, last)
            for id_, nearness in self._near[each.id].items()
            if nearness >= MIN_NEARNESS and self._held_between(self.text[id_], first, last)
        }
        return [each for each in self.items if each.id in near]

    def _held_between(self, text: str, first: StoredMemory, last: StoredMemory) -> bool:
        return (
            first.truth_order < self._first[text].truth_order
            and self._last[text].truth_order < last.truth_order
        )


def _may_merge(memory: StoredMemory, other: StoredMemory) -> bool:
    """Return True if either could stand for the other, provided that they say the same."""
    as_trusted = [(trust_of(each.value), source_of(each.value)) for each in (memory, other)]
    if memory.id == other.id or as_trusted[0] != as_trusted[1]:
        return False
    speakers = {memory.speaker, other.speaker} - {None}
    return len(speakers) < 2 and not _are_distinct_events(memory, other)  # noqa: PLR2004 - two speakers


def _are_distinct_events(memory: StoredMemory, other: StoredMemory) -> bool:
    """Return True if two memories tell of events at different times."""
    if memory.memory_type not in EVENT_TYPES or not memory.occurred_at or not other.occurred_at:
        return False
    return abs(memory.occurred_at - other.occurred_at) >= _EVENT_GAP


def join_duplicates(
    items: Iterable[StoredMemory], repeats: Sequence[DuplicateSet], alike: Iterable[Pair]
) -> list[DuplicateSet]:
    """Join duplicates with further pairs of them: all live on in the oldest.

    Pairs of other memories than `items` are left out.
    """
    by_age = sorted(items, key=lambda memory: memory.record_order)
    age = {memory.id: number for number, memory in enumerate(by_age)}
    home = {id_: each.survivor for each in repeats for id_ in each.others}

    def root(id_: int) -> int:
        while id_ in home:
            id_ = home[id_]
        return id_

    for first, other in (pair for pair in alike if pair[0].id in age):
        older, newer = sorted((root(first.id), root(other.id)), key=age.__getitem__)
        if older != newer:
            home[newer] = older
    others: dict[int, list[int]] = {}
    for source in sorted(home, key=age.__getitem__):
        others.setdefault(root(source), []).append(source)
    oldest = sorted(others, key=age.__getitem__)
    return [DuplicateSet(survivor, tuple(others[survivor])) for survivor in oldest]


@dataclass(frozen=True)
class Merge(MovingStep):
    """Merges memories that say the same."""

    policy: MergePolicy
    judge: Judge | None = None
    """Decides if two memories say the same."""
    ending: SupersedePolicy | None = None
    """The policy of superseding, if that is done too: that step proposes near memories of its types
    whose texts differ."""
    name = "merge"
    statement = "record_merges"
    notes_seen = True

    def select(self, cycle: Cycle, after: int, limit: int) -> Flow[list[int]]:
        """Return the ids of memories that changed since the last cycle."""
        step = {"step": self.name, "memory_types": None}
        return steps.select_ids(cycle, "select_changed", after, limit, **step)

    def propose(self, cycle: Cycle, ids: Sequence[int]) -> Flow[Proposal]:
        """Decide which of these memories and their neighbours say the same."""
        thorough = self.judge is not None
        groups = yield from read_groups(cycle, ids, same_tier=True, thorough=thorough)
        involved = {id_ for group in groups for id_ in group.memories}
        before = yield from read_undone_moves(cycle, "merged", involved)
        reasons = dict.fromkeys((id_ for id_ in ids if id_ in involved), ALONE)
        comparisons = yield from off_loop(
            lambda: [_Comparison.of(group, self.policy, before) for group in groups],
            sum(group.characters for group in groups),
        )
        alike = yield from self._confirm_duplicates(comparisons)
        decisions: list[StepDecision] = []
        findings: list[steps.StepFinding] = []
        ending = () if self.ending is None else self.ending.memory_types
        for comparison in comparisons:
            _set_reasons(reasons, comparison.kept)
            if self.judge is None:
                findings += comparison.findings(reasons, ending)
            timeline = comparison.timeline
            for duplicates in join_duplicates(timeline.items, comparison.repeated, alike):
                decisions += _merge_decisions(timeline, duplicates, reasons, before)
        decisions.sort(key=lambda decision: decision["id"])
        kept = steps.count_reasons(reasons.values())
        return Proposal(decisions=decisions, kept=kept, findings=findings)

    def _confirm_duplicates(self, comparisons: Sequence[_Comparison]) -> Flow[list[Pair]]:
        """Ask the judge which pairs say the same; leave out pairs with a contradiction in between.

        Another memory between the two may have ended the older one.
        """
        timelines = {pair: each.timeline for each in comparisons for pair in each.candidates}
        alike = yield from judge_pairs(self.judge, "same", list(timelines))
        turns = {
            pair: [(pair[0], between) for between in timelines[pair].similar_between(*pair)]
            for pair in alike
        }
        asked = dict.fromkeys(chain.from_iterable(turns.values()))
        turned = yield from judge_pairs(self.judge, "contradicts", list(asked))
        return [pair for pair in alike if not {*turns[pair]} & {*turned}]

    def moves(self, cycle: Cycle, decisions: Sequence[StepDecision]) -> dict[int, str]:
        """Name the moves: one for each memory that others live on in."""
        first: dict[int | None, int] = {}
        pairs = [(decision["id"], decision["target"]) for decision in decisions]
        for id_, target in pairs:
            first[target] = min(id_, first.get(target, id_))
        return {
            id_: steps.move_id(cycle, self.name, first[target], target) for id_, target in pairs
        }

    def conflict(self, held: steps.LockedRows, decision: StepDecision, move: str) -> str | None:
        """Return why a memory is not merged any more; None if it can be."""
        why = super().conflict(held, decision, move)
        if why is None and move in held.moves:
            return LATE
        return LIVED_ON if why is None and held.memories[decision["id"]].lived_on else why


class _Comparison(NamedTuple):
    """The comparison of a group's memories, before a judge is asked."""

    timeline: Timeline
    repeated: Sequence[DuplicateSet]
    """Texts that were said twice in a row."""
    candidates: Sequence[Pair]
    """Further pairs that may say the same, the older one first."""
    kept: Mapping[int, str]
    """Memories that stay whatever a judge says, by id, each with the reason."""

    @classmethod
    def of(cls, group: ComparisonGroup, policy: MergePolicy, before: _Moves) -> _Comparison:
        """Compare the memories of a group. A merge that was rolled back is not repeated."""
        timeline = Timeline(group)
        within = timedelta(minutes=policy.within_minutes)
        repeated = timeline.find_repeated(within, {id_ for id_, _ in before})
        candidates: list[Pair] = []
        kept: dict[int, str] = {}
        for older, newer in timeline.find_similar(policy.near_duplicate, repeated):
            reason = _reason_to_keep(newer, older, before)
            if reason is None:
                candidates.append((older, newer))
            elif timeline.text[older.id] == timeline.text[newer.id]:
                kept[newer.id] = reason
        return cls(timeline, repeated, candidates, kept)

    def findings(
        self, reasons: dict[int, str], ending: Collection[str]
    ) -> Iterator[steps.StepFinding]:
        """Report the candidates for somebody to look at; both memories stay as they are.

        Near memories whose texts differ are reported once: by superseding, if it looks at the type.
        """
        text = self.timeline.text
        for older, newer in self.candidates:
            if older.memory_type in ending and text[older.id] != text[newer.id]:
                continue
            _set_reasons(reasons, {older.id: PROPOSED, newer.id: PROPOSED})
            near = self.timeline.nearness(older, newer)
            yield steps.make_finding(newer, MAYBE_SAME, (older.namespace, older.key), near)


def _reason_to_keep(memory: StoredMemory, other: StoredMemory, before: _Moves) -> str | None:
    """Return why two memories are not merged, whatever they say; None if they may be."""
    if not {(memory.id, other.id), (other.id, memory.id)}.isdisjoint(before):
        return TAKEN_APART
    same_time = (memory.valid_from, memory.valid_to) == (other.valid_from, other.valid_to)
    return None if same_time else ANOTHER_TIME


def _merge_decisions(
    timeline: Timeline, duplicates: DuplicateSet, reasons: dict[int, str], before: _Moves
) -> Iterator[StepDecision]:
    """Merge duplicates into the oldest; note the reason of each that stays."""
    if reasons.keys().isdisjoint((duplicates.survivor, *duplicates.others)):
        return  # an earlier cycle looked at them, when they changed
    target = timeline.memories[duplicates.survivor]
    _set_reasons(reasons, {target.id: OLDEST})
    for source in (timeline.memories[id_] for id_ in duplicates.others):
        reason = _reason_to_keep(source, target, before)
        if reason is None:
            reasons.pop(source.id, None)
            yield steps.make_decision(source, SAME, target)
        else:
            _set_reasons(reasons, {source.id: reason})


def _set_reasons(reasons: dict[int, str], why: Mapping[int, str]) -> None:
    """Set why memories stay, for those that this batch judges."""
    reasons |= {id_: reason for id_, reason in why.items() if id_ in reasons}


# ---- superseding -------------------------------------------------------------------------------

_SUPERSEDED = "superseded"
STANDS = "nothing newer contradicts it"
STANDS_AGAIN = "it was superseded before, and that was rolled back"
MAYBE_ENDED = "a newer one may contradict it, or say the same"
MAYBE_PROPOSED = f"{MAYBE_ENDED}: proposed"
JUDGED = "a newer one contradicts it, says the model"


@dataclass(frozen=True)
class Supersede(MovingStep):
    """Ends the truth of memories that newer ones contradict."""

    policy: SupersedePolicy
    judge: Judge | None = None
    """Decides if a newer memory contradicts an older one."""
    name = "supersede"
    statement = "record_supersessions"
    target_states = (None, _SUPERSEDED)
    notes_seen = True

    def select(self, cycle: Cycle, after: int, limit: int) -> Flow[list[int]]:
        """Return the ids of memories of the policy's types that changed since the last cycle."""
        step = {"step": self.name, "memory_types": list(self.policy.memory_types)}
        return steps.select_ids(cycle, "select_changed", after, limit, **step)

    def propose(self, cycle: Cycle, ids: Sequence[int]) -> Flow[Proposal]:
        """Decide which of these memories and their neighbours contradict each other.

        Superseded memories are compared as well: a memory ends at the beginning of the first newer
        one that contradicts it, though that one has ended since.
        """
        groups = yield from read_groups(
            cycle, ids, same_tier=False, also=_SUPERSEDED, thorough=self.judge is not None
        )
        memories = {id_: memory for group in groups for id_, memory in group.memories.items()}
        before = yield from read_undone_moves(cycle, _SUPERSEDED, memories)
        reasons = dict.fromkeys((id_ for id_ in ids if id_ in memories), STANDS)
        reasons |= {id_: STANDS_AGAIN for id_, by in before if id_ in reasons and by in memories}
        candidates = yield from off_loop(
            lambda: {
                pair: near
                for group in groups
                for pair, near in _contradiction_candidates(group, before, cycle).items()
            },
            sum(group.characters for group in groups),
        )
        if self.judge is None:
            reasons |= {older.id: MAYBE_PROPOSED for older, _ in candidates if older.id in reasons}
            findings = [
                steps.make_finding(older, MAYBE_ENDED, (newer.namespace, newer.key), near)
                for (older, newer), near in candidates.items()
            ]
            kept = steps.count_reasons(reasons.values())
            return Proposal(decisions=[], kept=kept, findings=findings)
        confirmed = yield from judge_pairs(self.judge, "contradicts", list(candidates))
        ended = first_contradictions(confirmed)
        for older, _ in ended:
            reasons.pop(older.id, None)
        decisions = [steps.make_decision(older, JUDGED, newer) for older, newer in ended]
        return Proposal(decisions=decisions, kept=steps.count_reasons(reasons.values()))


def _contradiction_candidates(
    group: ComparisonGroup, before: _Moves, cycle: Cycle
) -> dict[Pair, float]:
    """Return the nearness of the pairs that may contradict, the older memory first.

    They are the nearest neighbours of each changed memory that could end it, or end by it.
    """
    text = {id_: normalise(memory.content) for id_, memory in group.memories.items()}
    candidates: dict[Pair, float] = {}
    taken = Counter[int]()
    for pair, nearness in sorted(group.near.items(), key=lambda item: (-item[1], item[0])):
        full = taken[pair[0]] == MAX_CANDIDATES
        if nearness < MIN_NEARNESS or full or text[pair[0]] == text[pair[1]]:
            continue
        older, newer = sorted((group.memories[id_] for id_ in pair), key=_BY_TRUTH)
        trusted = trust_of(newer.value) >= min(trust_of(older.value), OWN_EVIDENCE_TRUST)
        if (older.id, newer.id) not in before and trusted and _may_end(older, newer, cycle):
            candidates[older, newer] = nearness
            taken[pair[0]] += 1
    return candidates


def _may_end(older: StoredMemory, newer: StoredMemory, cycle: Cycle) -> bool:
    """Return True if the newer memory begins by now, and before the older one has ended.

    A memory that was put again since is not ended, unless somebody told when it is true.
    """
    stated_since = older.valid_from or older.occurred_at
    again = stated_since is None and older.updated_at > newer.true_since
    lasts = older.valid_to is None or older.valid_to > newer.true_since
    return older.state is None and lasts and not again and newer.true_since <= cycle.moment.now


def first_contradictions(pairs: Iterable[Pair]) -> list[Pair]:
    """Return each older memory with the first newer one that contradicts it: there it ended."""
    first: dict[int, Pair] = {}
    for older, newer in sorted(pairs, key=lambda pair: pair[1].truth_order):
        first.setdefault(older.id, (older, newer))
    return [first[id_] for id_ in sorted(first)]


DERIVED = "it came from what was superseded"
DERIVED_PROPOSED = f"{DERIVED}: proposed"


class Outdated(steps.CycleStep):
    """Proposes memories that came from one superseded since; it changes nothing itself."""

    name = "outdated"
    notes_seen = True

    def select(self, cycle: Cycle, after: int, limit: int) -> Flow[list[int]]:
        """Find the memories that came from one superseded since the last cycle."""
        return steps.select_ids(cycle, "select_outdated", after, limit, step=self.name)

    def propose(self, cycle: Cycle, ids: Sequence[int]) -> Flow[Proposal]:
        """Name each with the nearest superseded memory that it came from."""
        rows = yield from rows_of("outdated_origins", **cycle.params, ids=[*ids])
        findings = [
            steps.StepFinding(
                namespace=namespace,
                key=key,
                target_namespace=origin_namespace,
                target_key=origin_key,
                reason=DERIVED,
            )
            for namespace, key, origin_namespace, origin_key in rows
        ]
        kept = steps.count_reasons(DERIVED_PROPOSED for _ in findings)
        return Proposal(decisions=[], kept=kept, findings=findings)

    def apply(self, cycle: Cycle, decisions: Sequence[StepDecision]) -> Flow[steps.StepCounts]:  # noqa: ARG002 - nothing is ever decided
        """Change nothing: somebody else retracts, supersedes, or keeps each memory."""
        yield from ()
        return steps.StepCounts()
