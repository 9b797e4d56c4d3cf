"""Real outcomes: fifteen trials of an agent that reflects, replayed through the store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from benchmarks.databases import create
from benchmarks.learning_data import WINDOW, Trial, parts
from benchmarks.recall_system import Clock
from langmem_tiers import MemoryContext, MemoryCoordinator, TieredStore, local_index
from langmem_tiers.learning.moves import Explanation
from langmem_tiers.learning.promotion_policy import BETA, SPECIFIED, PromotionPolicy

AS_LOGGED, AS_RUN = REPLAYS = ("as logged", "as run")
POLICIES = {
    "SPECIFIED": SPECIFIED,
    "BETA": BETA,
    "SPECIFIED, but accesses > 0": replace(SPECIFIED, min_access_count=0),
}
START = datetime(2023, 3, 1, tzinfo=UTC)
DAY = timedelta(days=1)

Lesson = tuple[str, int]
"""A household, and the place of one of its reflexions."""
Counts = tuple[int, int]
"""Successes and failures."""


@dataclass(frozen=True, slots=True)
class Replay:
    """What a replay came to."""

    name: str
    successes: Mapping[str, int]
    """Of each household, the outcomes recorded as a success, credited or not."""
    counts: Mapping[Lesson, Counts]
    """Of each lesson, what the store says."""
    shown_wrong: int
    """Recalls that did not show what the log says was shown."""
    shown: int
    would: Mapping[str, Sequence[Explanation]]
    """By policy, the lessons that it would promote at the end, explained before the promotion."""
    promoted: Sequence[Explanation] = field(default=())
    """What `promote` promoted as specified."""


def exposed(before: Trial | None, household: str) -> list[int]:
    """Which reflexions a household is shown: the last three of those after the trial before."""
    known = len(before[household].memory) if before else 0
    return list(range(max(known - WINDOW, 0), known))


def plain_counts(logs: Sequence[Trial], replay: str) -> tuple[dict[str, int], dict[Lesson, Counts]]:
    """The successes of each household and the outcomes of each lesson, from the files alone."""
    successes: Counter[str] = Counter(dict.fromkeys(logs[0], 0))
    good: Counter[Lesson] = Counter()
    bad: Counter[Lesson] = Counter()
    for number, trial in enumerate(logs):
        before = logs[number - 1] if number else None
        for one in trial.values():
            if _over(before, one.name, replay):
                continue
            successes[one.name] += one.success
            (good if one.success else bad).update((one.name, n) for n in exposed(before, one.name))
    lessons = [(one.name, n) for one in logs[-1].values() for n in range(len(one.memory))]
    return dict(successes), {one: (good[one], bad[one]) for one in lessons}


def _over(before: Trial | None, household: str, replay: str) -> bool:
    """Whether nothing is run any more: it was solved before."""
    return replay == AS_RUN and before is not None and before[household].success


def measure(server_url: str, logs: Sequence[Trial]) -> Iterator[Replay]:
    """Replay the trials in both ways."""
    clock = Clock(START)
    url = create(server_url, "learning_alfworld")
    with TieredStore.from_conn_string(url, index=local_index(), clock=clock) as store:
        store.setup()
        for name in REPLAYS:
            clock.now = START
            yield _Replaying(store, clock, logs, name).replay()


def chosen(logs: Sequence[Trial], most: int | None) -> list[Trial]:
    """The logs of the first households that ever failed, or of all."""
    if most is None:
        return list(logs)
    names = [name for name, one in logs[-1].items() if one.memory][:most]
    return [{name: trial[name] for name in names} for trial in logs]


@dataclass(slots=True)
class _Replaying:
    store: TieredStore
    clock: Clock
    logs: Sequence[Trial]
    name: str
    keys: dict[Lesson, str] = field(default_factory=dict)
    successes: Counter[str] = field(default_factory=Counter)
    shown: int = 0
    wrong: int = 0

    def replay(self) -> Replay:
        self.successes.update(dict.fromkeys(self.logs[0], 0))
        for number in range(len(self.logs)):
            self.clock.now = START + DAY * number
            self._trial(number)
        self.clock.now = START + DAY * len(self.logs)
        explained = {
            name: {one: self._explain(*one, policy) for one in self.keys}
            for name, policy in POLICIES.items()
        }
        would = {
            name: [one for one in found.values() if one.decision and one.decision.promote]
            for name, found in explained.items()
        }
        counts = {
            lesson: (one.success_count, one.failure_count)
            for lesson, one in explained["SPECIFIED"].items()
        }
        moves = [one for one in self._memory("_").learning.promote() if one.promoted]
        promoted = [self._memory("_").learning.explain(str(one.successor)) for one in moves]
        return Replay(
            self.name, dict(self.successes), counts, self.wrong, self.shown, would, promoted
        )

    def _trial(self, number: int) -> None:
        trial, before = self.logs[number], self.logs[number - 1] if number else None
        for one in trial.values():
            if not _over(before, one.name, self.name):
                self._run(number, one.name, before, success=one.success)
        self.clock.now += DAY / 2
        for one in trial.values():
            known = len(before[one.name].memory) if before else 0
            for place in range(known, len(one.memory)):
                self._learn(one.name, place, one.memory[place])
                self.clock.now += timedelta(seconds=1)

    def _run(self, number: int, household: str, before: Trial | None, *, success: bool) -> None:
        memory, run = self._memory(household), f"{number}:{household}"
        found = memory.get_context("", limit=WINDOW, run_id=run, holdout=0)
        wanted = {self.keys[household, place] for place in exposed(before, household)}
        self.shown += 1
        self.wrong += {one.key for one in found} != wanted
        report = memory.learning.record_outcome(success=success, run_id=run)
        self.wrong += report.credited != len(wanted)
        self.successes[household] += report.success

    def _learn(self, household: str, place: int, reflexion: str) -> None:
        tried, reason, instead = parts(reflexion)
        stored = self._memory(household).store_reflexion(
            task_id=f"{household}, reflexion {place + 1}",
            original_approach=tried,
            failure_reason=reason,
            improved_approach=instead,
        )
        self.keys[household, place] = str(stored.key)

    def _explain(self, household: str, place: int, policy: PromotionPolicy) -> Explanation:
        return self._memory(household).learning.explain(self.keys[household, place], policy=policy)

    def _memory(self, household: str) -> MemoryCoordinator:
        context = MemoryContext(tenant=self.name, project_id=household)
        return MemoryCoordinator(self.store, context=context)
