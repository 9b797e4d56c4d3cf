"""Merging and superseding: what says the same lives on in the oldest, what is contradicted ends.

A text that is said twice in a row says the same. All else that may, or may contradict, is for a
judge: without one it is proposed. Both look at what changed, and at what is near to it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import chain, groupby
from typing import NamedTuple

from langmem_tiers.consolidate import steps
from langmem_tiers.consolidate.models import Judge, Pair, judge_pairs
from langmem_tiers.consolidate.policy import MergePolicy, SupersedePolicy
from langmem_tiers.consolidate.steps import Cycle, MovingStep, Proposal, StepDecision, StoredMemory
from langmem_tiers.core.reading import normalise
from langmem_tiers.core.values import source_of, trust_of
from langmem_tiers.postgres.flow import Call, Flow, Query, off_loop, rows_of
from langmem_tiers.remember.gate import SPOKEN_FOR

EVENT_TYPES = frozenset({"episodic", "interaction", "achievement"})
"""Types of what happened: the same a day later has happened twice."""
MIN_NEARNESS = 0.5
"""How near two memories are that may speak of one thing."""
MAX_CANDIDATES = 3
"""The nearest of each memory that are put to somebody."""
_EVENT_GAP = timedelta(days=1)
MAX_NEIGHBOURS = 20
"""Neighbours of each memory that are looked at, by vectors and by words."""
MIN_OVERLAP = 0.2
"""The share of words in common that two memories need to be looked at for their words."""
MAX_WORD_NEIGHBOURS = 400
"""Memories that share a word with one that changed, by its rarest words first: so many are looked
at. With half as many a few are missed in homes of 20,000, and none in homes of 2,000."""
EXACT_LIMIT = 1_000
"""Vectors of a home in a tier up to which the nearest are sought if no model is asked: 2 µs each
for every memory that changed."""

SAME = "it says the same as an older one"
ALONE = "nothing says the same"
OLDEST = "it is the oldest that says the same"
TAKEN_APART = "it was merged before, and that was rolled back"
ANOTHER_TIME = "it says the same of another time"
LIVED_ON = "it lived on in another one before"
MAYBE_SAME = "it may say the same as an older one"
PROPOSED = "another one may say the same: proposed"
LATE = "it was left when the others were merged"


# ---- what can be compared ---------------------------------------------------------------------


class ComparisonGroup(NamedTuple):
    """What can say the same, or contradict each other: memories of one home, type and user."""

    memories: Mapping[int, StoredMemory]
    near: Mapping[tuple[int, int], float]
    """How near two are, in either order: their cosine or the share of words, whichever is more."""

    @property
    def characters(self) -> int:
        """How much is to be read to judge them."""
        return sum(len(memory.content) for memory in self.memories.values())


def read_undone_moves(cycle: Cycle, kind: str, ids: Iterable[int]) -> Flow[set[tuple[int, int]]]:
    """Moves of these memories that were rolled back, and are not made again: what went where."""
    rows = yield from rows_of("undone_pairs", tenant=cycle.tenant, kind=kind, ids=sorted(ids))
    return {(row[0], row[1]) for row in rows}


def read_groups(
    cycle: Cycle, ids: Sequence[int], *, same_tier: bool, thorough: bool, also: str | None = None
) -> Flow[list[ComparisonGroup]]:
    """These memories and their neighbours, apart by what can be compared.

    Neighbours are current; with `also`, those in that state that share words are looked at as well.
    If `thorough`, the nearest are sought among as many vectors as a search goes through.
    """
    exact = cycle.options.exact_limit if thorough else EXACT_LIMIT
    pairs = yield from _read_near_pairs(cycle, ids, same_tier=same_tier, exact=exact, also=also)
    stored = yield from steps.read_memories(cycle, {*ids, *(other for _, other in pairs)})
    seen = [memory for memory in stored if memory.state is None or memory.state == also]

    def apart(memory: StoredMemory) -> tuple[str, ...]:
        return (
            memory.home,
            memory.memory_type,
            memory.user_id or "",
            memory.tier if same_tier else "",
        )

    made = []
    for _, members in groupby(sorted(seen, key=lambda memory: (apart(memory), memory.id)), apart):
        memories = {memory.id: memory for memory in members}
        near = {pair: nearness for pair, nearness in pairs.items() if memories.keys() >= set(pair)}
        made.append(ComparisonGroup(memories, near))
    return made


def _read_near_pairs(
    cycle: Cycle, ids: Sequence[int], *, same_tier: bool, exact: int, also: str | None
) -> Flow[dict[tuple[int, int], float]]:
    """Pairs of these and their neighbours, and how near they are."""
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


# ---- what says the same -----------------------------------------------------------------------


class DuplicateSet(NamedTuple):
    """Memories that say the same, by id."""

    survivor: int
    """The oldest of them, in which the others live on."""
    others: tuple[int, ...]
    """In the order in which they were recorded."""


class Timeline:
    """Memories of one home and type, by their texts and the order in which they were true."""

    def __init__(self, group: ComparisonGroup) -> None:
        self.memories = group.memories
        self.items = sorted(group.memories.values(), key=lambda memory: memory.truth_order)
        self.text = {memory.id: normalise(memory.content) for memory in self.items}
        self._first = {self.text[memory.id]: memory for memory in reversed(self.items)}
        self._last = {self.text[memory.id]: memory for memory in self.items}
        self._near: defaultdict[int, dict[int, float]] = defaultdict(dict)
        for (first, other), nearness in group.near.items():
            self._near[first][other] = self._near[other][first] = nearness

    def find_repeated(self, within: timedelta, apart: Iterable[int] = ()) -> list[DuplicateSet]:
        """What was said twice in a row, what begins with the oldest first.

        Equal texts (`normalised`) of one speaker and source, trusted alike, so far apart at most,
        where nothing near came and went in between. Those that are `apart` are left out.
        """
        oldest: defaultdict[object, list[StoredMemory]] = defaultdict(list)
        repeats: defaultdict[int, list[int]] = defaultdict(list)
        left_out = set(apart)
        for memory in sorted(self.items, key=lambda memory: memory.record_order):
            if memory.id in left_out:
                continue
            earlier = oldest[self.text[memory.id], memory.speaker_key]
            soon = (
                other for other in earlier if abs(memory.happened_at - other.happened_at) <= within
            )
            first = next((other for other in soon if not self.similar_between(other, memory)), None)
            if first is None:
                earlier.append(memory)
            else:
                repeats[first.id].append(memory.id)
        return [DuplicateSet(survivor, tuple(others)) for survivor, others in repeats.items()]

    def find_similar(self, least: float, sure: Iterable[DuplicateSet] = ()) -> list[Pair]:
        """What may say the same, as near as that: of each the nearest, the older one first.

        Of several equal texts each stands beside the oldest alone, and what is `sure` to be the
        same is one. What two speakers said, is not trusted alike, or happened twice, does not say
        the same.
        """
        home = {id_: each.survivor for each in sure for id_ in each.others}
        similar_pairs: set[Pair] = set()
        for id_, others in self._near.items():
            nearest = sorted(
                (-nearness, other) for other, nearness in others.items() if nearness >= least
            )
            pairs = (self._pair(home.get(id_, id_), home.get(other, other)) for _, other in nearest)
            alike = dict.fromkeys(pair for pair in pairs if _may_merge(*pair))
            similar_pairs.update(list(alike)[:MAX_CANDIDATES])
        return sorted(similar_pairs, key=lambda pair: (pair[0].id, pair[1].id))

    def nearness(self, memory: StoredMemory, other: StoredMemory) -> float:
        """How near two of them are; 1 of equal texts."""
        equal = self.text[memory.id] == self.text[other.id]
        return 1.0 if equal else self._near[memory.id].get(other.id, 0.0)

    def _pair(self, *ids: int) -> Pair:
        """The older one first; beside an equal text, the oldest of it."""
        older, newer = sorted(
            (self.memories[id_] for id_ in ids), key=lambda memory: memory.truth_order
        )
        equal = self.text[older.id] == self.text[newer.id]
        return (self._first[self.text[older.id]] if equal else older), newer

    def similar_between(self, memory: StoredMemory, other: StoredMemory) -> list[StoredMemory]:
        """What is near to either of two, and was told after the first and before the last alone.

        It may have ended what the first says; merged into that, the last would be lost.
        """
        first, last = sorted((memory, other), key=lambda each: each.truth_order)
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
    """Whether either could stand for the other, if they say the same."""
    as_trusted = [(trust_of(each.value), source_of(each.value)) for each in (memory, other)]
    if memory.id == other.id or as_trusted[0] != as_trusted[1]:
        return False
    speakers = {memory.speaker, other.speaker} - {None}
    return len(speakers) < 2 and not _are_distinct_events(memory, other)  # noqa: PLR2004 - two speakers


def _are_distinct_events(memory: StoredMemory, other: StoredMemory) -> bool:
    """Whether two memories tell what happened at different times."""
    if memory.memory_type not in EVENT_TYPES or not memory.occurred_at or not other.occurred_at:
        return False
    return abs(memory.occurred_at - other.occurred_at) >= _EVENT_GAP


def join_duplicates(
    items: Iterable[StoredMemory], repeats: Sequence[DuplicateSet], alike: Iterable[Pair]
) -> list[DuplicateSet]:
    """What is the same, with further pairs that are: each lives on in the oldest.

    Pairs of other memories than these are left out.
    """
    age = {
        memory.id: number
        for number, memory in enumerate(sorted(items, key=lambda i: i.record_order))
    }
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
    """Merges what says the same."""

    policy: MergePolicy
    judge: Judge | None = None
    """Says whether two say the same."""
    ending: SupersedePolicy | None = None
    """Given where superseding is done too: of its types it proposes what is near and differs."""
    name = "merge"
    statement = "record_merges"
    notes_seen = True

    def select(self, cycle: Cycle, after: int, limit: int) -> Flow[list[int]]:
        """What changed since the last cycle."""
        step = {"step": self.name, "memory_types": None}
        return steps.select_ids(cycle, "select_changed", after, limit, **step)

    def propose(self, cycle: Cycle, ids: Sequence[int]) -> Flow[Proposal]:
        """What of these, and of what is near to them, says the same."""
        thorough = self.judge is not None
        compared = yield from read_groups(cycle, ids, same_tier=True, thorough=thorough)
        involved = {id_ for group in compared for id_ in group.memories}
        before = yield from read_undone_moves(cycle, "merged", involved)
        fate = dict.fromkeys((id_ for id_ in ids if id_ in involved), ALONE)
        seen = yield from off_loop(
            lambda: [_Comparison.of(group, self.policy, before) for group in compared],
            sum(group.characters for group in compared),
        )
        alike = yield from self._alike(seen)
        decisions: list[StepDecision] = []
        findings: list[steps.StepFinding] = []
        ending = () if self.ending is None else self.ending.memory_types
        for comparison in seen:
            _set_reasons(fate, comparison.kept)
            if self.judge is None:
                findings += comparison.findings(fate, ending)
            for same in join_duplicates(comparison.timeline.items, comparison.repeated, alike):
                decisions += _merge_decisions(comparison.timeline, same, fate, before)
        decisions.sort(key=lambda decision: decision["id"])
        return Proposal(
            decisions=decisions, kept=steps.count_reasons(fate.values()), findings=findings
        )

    def _alike(self, seen: Sequence[_Comparison]) -> Flow[list[Pair]]:
        """What the judge says is the same, but for what had ceased to be true in between."""
        doubts = {pair: comparison for comparison in seen for pair in comparison.candidates}
        alike = yield from judge_pairs(self.judge, "same", list(doubts))
        turns = {
            pair: [(pair[0], between) for between in doubts[pair].timeline.similar_between(*pair)]
            for pair in alike
        }
        asked = dict.fromkeys(chain.from_iterable(turns.values()))
        turned = yield from judge_pairs(self.judge, "contradicts", list(asked))
        return [pair for pair in alike if not {*turns[pair]} & {*turned}]

    def moves(self, cycle: Cycle, decisions: Sequence[StepDecision]) -> dict[int, str]:
        """One move for each memory that others live on in."""
        first: dict[int | None, int] = {}
        for decision in decisions:
            first[decision["target"]] = min(
                decision["id"], first.get(decision["target"], decision["id"])
            )
        return {
            decision["id"]: steps.move_id(
                cycle, self.name, first[decision["target"]], decision["target"]
            )
            for decision in decisions
        }

    def conflict(self, held: steps.LockedRows, decision: StepDecision, move: str) -> str | None:
        """Why a memory is not merged any more; None if it can be."""
        why = super().conflict(held, decision, move)
        if why is None and move in held.moves:
            return LATE
        return LIVED_ON if why is None and held.memories[decision["id"]].lived_on else why


class _Comparison(NamedTuple):
    """What is seen of a group before anybody is asked."""

    timeline: Timeline
    repeated: Sequence[DuplicateSet]
    """What was said twice in a row."""
    candidates: Sequence[Pair]
    """What else may say the same, the older one first."""
    kept: Mapping[int, str]
    """What says the same and stays, whoever judges, and why."""

    @classmethod
    def of(
        cls, group: ComparisonGroup, policy: MergePolicy, before: Collection[tuple[int, int]]
    ) -> _Comparison:
        """Look at a group. What somebody took apart is not said twice in a row."""
        timeline = Timeline(group)
        sure = timeline.find_repeated(
            timedelta(minutes=policy.within_minutes), {id_ for id_, _ in before}
        )
        doubts: list[Pair] = []
        stays: dict[int, str] = {}
        for older, newer in timeline.find_similar(policy.near_duplicate, sure):
            against = _reason_to_keep(newer, older, before)
            if against is None:
                doubts.append((older, newer))
            elif timeline.text[older.id] == timeline.text[newer.id]:
                stays[newer.id] = against
        return cls(timeline, sure, doubts, stays)

    def findings(
        self, fate: dict[int, str], ending: Collection[str]
    ) -> Iterator[steps.StepFinding]:
        """What somebody is to look at; both stay as they are.

        What is near and differs is proposed once: by superseding, where that looks at the type.
        """
        for older, newer in self.candidates:
            if (
                older.memory_type in ending
                and self.timeline.text[older.id] != self.timeline.text[newer.id]
            ):
                continue
            _set_reasons(fate, {older.id: PROPOSED, newer.id: PROPOSED})
            near = self.timeline.nearness(older, newer)
            yield steps.make_finding(newer, MAYBE_SAME, (older.namespace, older.key), near)


def _reason_to_keep(
    memory: StoredMemory, other: StoredMemory, before: Collection[tuple[int, int]]
) -> str | None:
    """Why two memories do not live on in one, whatever they say."""
    if not {(memory.id, other.id), (other.id, memory.id)}.isdisjoint(before):
        return TAKEN_APART
    same_time = (memory.valid_from, memory.valid_to) == (other.valid_from, other.valid_to)
    return None if same_time else ANOTHER_TIME


def _merge_decisions(
    timeline: Timeline,
    same: DuplicateSet,
    fate: dict[int, str],
    before: Collection[tuple[int, int]],
) -> Iterator[StepDecision]:
    """What lives on in the oldest that says the same, and why anything does not."""
    if fate.keys().isdisjoint((same.survivor, *same.others)):
        return  # they were looked at when they changed
    target = timeline.memories[same.survivor]
    _set_reasons(fate, {target.id: OLDEST})
    for source in (timeline.memories[id_] for id_ in same.others):
        against = _reason_to_keep(source, target, before)
        if against is None:
            fate.pop(source.id, None)
            yield steps.make_decision(source, SAME, target)
        else:
            _set_reasons(fate, {source.id: against})


def _set_reasons(fate: dict[int, str], why: Mapping[int, str]) -> None:
    """Why memories stay, of those that are judged."""
    fate |= {id_: reason for id_, reason in why.items() if id_ in fate}


# ---- what ends what ----------------------------------------------------------------------------

_SUPERSEDED = "superseded"
STANDS = "nothing newer contradicts it"
STANDS_AGAIN = "it was superseded before, and that was rolled back"
MAYBE_ENDED = "a newer one may contradict it, or say the same"
MAYBE_PROPOSED = f"{MAYBE_ENDED}: proposed"
JUDGED = "a newer one contradicts it, says the model"


@dataclass(frozen=True)
class Supersede(MovingStep):
    """Ends the truth of what newer memories contradict."""

    policy: SupersedePolicy
    judge: Judge | None = None
    """Says whether one contradicts another."""
    name = "supersede"
    statement = "record_supersessions"
    target_states = (None, _SUPERSEDED)
    notes_seen = True

    def select(self, cycle: Cycle, after: int, limit: int) -> Flow[list[int]]:
        """What changed since the last cycle, of the types that say how things are."""
        step = {"step": self.name, "memory_types": list(self.policy.memory_types)}
        return steps.select_ids(cycle, "select_changed", after, limit, **step)

    def propose(self, cycle: Cycle, ids: Sequence[int]) -> Flow[Proposal]:
        """Which of these, and of what is near to them, contradict each other.

        What was superseded before is looked at as well: a memory ends where the first newer one
        that contradicts it begins, though that one has ended since.
        """
        thorough = self.judge is not None
        compared = yield from read_groups(
            cycle, ids, same_tier=False, also=_SUPERSEDED, thorough=thorough
        )
        memories = {id_: memory for group in compared for id_, memory in group.memories.items()}
        before = yield from read_undone_moves(cycle, _SUPERSEDED, memories)
        fate = dict.fromkeys((id_ for id_ in ids if id_ in memories), STANDS)
        fate |= {id_: STANDS_AGAIN for id_, by in before if id_ in fate and by in memories}
        doubts = yield from off_loop(
            lambda: {
                p: near
                for group in compared
                for p, near in _contradiction_candidates(group, before, cycle).items()
            },
            sum(group.characters for group in compared),
        )
        if self.judge is None:
            fate |= {older.id: MAYBE_PROPOSED for older, _ in doubts if older.id in fate}
            findings = [
                steps.make_finding(older, MAYBE_ENDED, (newer.namespace, newer.key), near)
                for (older, newer), near in doubts.items()
            ]
            return Proposal(
                decisions=[], kept=steps.count_reasons(fate.values()), findings=findings
            )
        ended = first_contradictions(
            (yield from judge_pairs(self.judge, "contradicts", list(doubts)))
        )
        for older, _ in ended:
            fate.pop(older.id, None)
        decisions = [steps.make_decision(older, JUDGED, newer) for older, newer in ended]
        return Proposal(decisions=decisions, kept=steps.count_reasons(fate.values()))


def _contradiction_candidates(
    group: ComparisonGroup, before: Collection[tuple[int, int]], cycle: Cycle
) -> dict[Pair, float]:
    """The nearest of each that changed that could end it, or end by it, the older one first.

    With how near the two are.
    """
    text = {id_: normalise(memory.content) for id_, memory in group.memories.items()}
    doubts: dict[Pair, float] = {}
    taken = Counter[int]()
    for pair, nearness in sorted(group.near.items(), key=lambda item: (-item[1], item[0])):
        if (
            nearness < MIN_NEARNESS
            or taken[pair[0]] == MAX_CANDIDATES
            or text[pair[0]] == text[pair[1]]
        ):
            continue
        older, newer = sorted(
            (group.memories[id_] for id_ in pair), key=lambda memory: memory.truth_order
        )
        outspoken = trust_of(newer.value) >= min(trust_of(older.value), SPOKEN_FOR)
        if (older.id, newer.id) not in before and outspoken and _may_end(older, newer, cycle):
            doubts[older, newer] = nearness
            taken[pair[0]] += 1
    return doubts


def _may_end(older: StoredMemory, newer: StoredMemory, cycle: Cycle) -> bool:
    """Whether the newer memory begins by now, and before the older one has ended.

    Nor does it end what was put again since, of which nobody told when it is true.
    """
    stated_since = older.valid_from or older.occurred_at
    again = stated_since is None and older.updated_at > newer.true_since
    lasts = older.valid_to is None or older.valid_to > newer.true_since
    return older.state is None and lasts and not again and newer.true_since <= cycle.moment.now


def first_contradictions(pairs: Iterable[Pair]) -> list[Pair]:
    """Of each older memory, the first newer one that contradicts it: that is where it ended."""
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
        return Proposal(
            decisions=[],
            kept=steps.count_reasons(DERIVED_PROPOSED for _ in findings),
            findings=findings,
        )

    def apply(self, cycle: Cycle, decisions: Sequence[StepDecision]) -> Flow[steps.StepCounts]:  # noqa: ARG002 - nothing is ever decided
        """Change nothing: somebody else retracts, supersedes, or keeps each memory."""
        yield from ()
        return steps.StepCounts()
