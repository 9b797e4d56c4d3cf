"""Worlds of lessons with known effects, and what each rule makes of them."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from langmem_tiers.core.memory import Recollection, Tier
from langmem_tiers.learn.evidence import Evidence
from langmem_tiers.learn.policy import BETA, SPECIFIED, PromotionPolicy, decide, should_demote
from langmem_tiers.recall.profiles import Asked, rank


class Family(StrEnum):
    HELPS = "helps"
    NOISE = "noise"
    HARMS = "harms"


EFFECTS = {Family.HELPS: 3.0, Family.NOISE: 0.0, Family.HARMS: -1.5}
"""On the log-odds that a run succeeds."""
WORLD = {Family.HELPS: 6, Family.NOISE: 10, Family.HARMS: 4}
"""How many lessons of each there are."""
SHOWN = 3
PROJECTS = ("p1", "p2", "p3", "p4")
START = datetime(2026, 1, 1, tzinfo=UTC)
BETWEEN = timedelta(hours=2.4)

FIRST = 5
"""Where the ranking bar looks, and after so many outcomes:"""
OUTCOMES = 10


class Stream(NamedTuple):
    name: str
    base_rates: Sequence[float] = (0.35, 0.5, 0.65)
    runs: int = 600
    turns_at: int | None = None
    """From this run on, half of the lessons that helped harm."""


PROMOTION = Stream("promotion")
TURNING = Stream("turning", turns_at=300)
EASY = Stream("easy", base_rates=(0.85, 0.9, 0.95))
CLOSED = Stream("closed", runs=100)
"""To be lived with `first_five`."""

POLICIES = {"BETA": BETA, "SPECIFIED": SPECIFIED}
COUNTER = "more successes than failures"
LATEST, ALL = COUNTED = ("by the latest outcomes", "by all since the promotion")


def _promoting(policy: PromotionPolicy) -> Callable[[Evidence, datetime], bool]:
    return lambda evidence, now: decide(evidence, policy, now).promote


def _more_successes(evidence: Evidence, _: datetime) -> bool:
    return evidence.success_count > evidence.failure_count


RULES = {
    **{name: _promoting(policy) for name, policy in POLICIES.items()},
    COUNTER: _more_successes,
}


@dataclass(slots=True)
class Lesson:
    """A lesson of a world, and what its life has shown."""

    key: str
    family: Family
    popularity: int
    turns: bool = False
    outcomes: list[bool] = field(default_factory=list)
    projects: set[str] = field(default_factory=set)
    promoted: dict[str, int] = field(default_factory=dict)
    """By rule: how many outcomes there were at the promotion."""
    demoted: dict[str, set[str]] = field(default_factory=lambda: {one: set() for one in COUNTED})
    """By what was counted: the policies that undid their promotion."""
    stayed: bool = False
    """Whether it harms and was among the first five at its tenth outcome."""

    def credit(self, *, success: bool, project: str) -> None:
        self.outcomes.append(success)
        self.projects.add(project)

    def evidence(self, since: int = 0) -> Evidence:
        counted = self.outcomes[since:]
        return Evidence(
            access_count=len(counted),
            success_count=sum(counted),
            failure_count=len(counted) - sum(counted),
            projects=frozenset(self.projects),
            recorded_at=START,
        )

    def effect(self, *, turned: bool) -> float:
        return EFFECTS[Family.HARMS if turned and self.turns else self.family]


Choose = Callable[[Sequence[Lesson], random.Random], list[Lesson]]


def live(stream: Stream, seed: int, choose: Choose | None = None) -> list[Lesson]:
    """One world, to its end; each run is shown three lessons at random, or what is chosen."""
    choose = choose or _sample
    drawn = random.Random(f"{stream.name} {seed}")
    lessons = _born(stream, drawn)
    for run in range(stream.runs):
        turned = stream.turns_at is not None and run >= stream.turns_at
        shown = choose(lessons, drawn)
        base = drawn.choice(stream.base_rates)
        chance = chance_of_success(base, (one.effect(turned=turned) for one in shown))
        success, project = drawn.random() < chance, drawn.choice(PROJECTS)
        for one in shown:
            one.credit(success=success, project=project)
        for one in shown:
            _look(one, START + run * BETWEEN)
            _place(one, lessons, drawn)
    return lessons


def _born(stream: Stream, drawn: random.Random) -> list[Lesson]:
    """A world's lessons; of each family, every other one is shown twice as often."""
    lessons = [
        Lesson(
            key="",
            family=family,
            popularity=1 + number % 2,
            turns=stream.turns_at is not None and family is Family.HELPS and number % 4 < 2,
        )
        for family, count in WORLD.items()
        for number in range(count)
    ]
    drawn.shuffle(lessons)
    for number, one in enumerate(lessons):
        one.key = f"lesson-{number:02}"
    return lessons


def _sample(lessons: Sequence[Lesson], drawn: random.Random) -> list[Lesson]:
    """Three different ones, by their popularity (Efraimidis and Spirakis, 2006)."""
    return sorted(lessons, key=lambda one: -(drawn.random() ** (1 / one.popularity)))[:SHOWN]


def chance_of_success(base: float, effects: Iterable[float]) -> float:
    return 1 / (1 + math.exp(-math.log(base / (1 - base)) - sum(effects)))


def _look(lesson: Lesson, now: datetime) -> None:
    """What each rule makes of a lesson after an outcome."""
    evidence = lesson.evidence()
    for name, rule in RULES.items():
        if name not in lesson.promoted:
            if rule(evidence, now):
                lesson.promoted[name] = len(lesson.outcomes)
        elif name in POLICIES:
            _look_again(lesson, name)


def _look_again(lesson: Lesson, name: str) -> None:
    """What a policy makes of a promoted lesson, by the latest outcomes and by all of them."""
    policy, since = POLICIES[name], lesson.promoted[name]
    latest = max(since, len(lesson.outcomes) - policy.demote_within)
    for counted, start in zip(COUNTED, (latest, since), strict=True):
        if should_demote(lesson.evidence(start), policy).demote:
            lesson.demoted[counted].add(name)


def first_five(lessons: Sequence[Lesson], _: random.Random) -> list[Lesson]:
    """The first five by the `success` profile, at equal match."""
    first = rank([_recollection(one) for one in lessons], "success", Asked(START))[:FIRST]
    keys = {one.key for one in first}
    return [one for one in lessons if one.key in keys]


def _place(lesson: Lesson, lessons: Sequence[Lesson], drawn: random.Random) -> None:
    """See whether a harming lesson has left the first five by its tenth outcome."""
    if lesson.family is Family.HARMS and len(lesson.outcomes) == OUTCOMES:
        lesson.stayed = lesson in first_five(lessons, drawn)


def _recollection(lesson: Lesson) -> Recollection:
    return Recollection(
        key=lesson.key,
        namespace=("acme",),
        tier=Tier.WORKING,
        memory_type="reflexion",
        content=lesson.key,
        value={},
        created_at=START,
        updated_at=START,
        match=0.5,
        success_count=sum(lesson.outcomes),
        failure_count=len(lesson.outcomes) - sum(lesson.outcomes),
    )


class Share(NamedTuple):
    """A part of a whole."""

    part: int
    whole: int

    @classmethod
    def of(cls, flags: Iterable[bool]) -> Share:
        found = list(flags)
        return cls(sum(found), len(found))

    @property
    def value(self) -> float:
        return self.part / self.whole if self.whole else math.nan

    def __str__(self) -> str:
        return f"{self.value:.3f} ({self.part:,} of {self.whole:,})"


class Promoted(NamedTuple):
    """How well a rule promotes."""

    precision: Share
    recall: Share
    false: Share


def promoted(lessons: Sequence[Lesson], rule: str) -> Promoted:
    chosen = [one for one in lessons if rule in one.promoted]
    return Promoted(
        precision=Share.of(one.family is Family.HELPS for one in chosen),
        recall=Share.of(rule in one.promoted for one in lessons if one.family is Family.HELPS),
        false=Share.of(rule in one.promoted for one in lessons if one.family is not Family.HELPS),
    )


class Demoted(NamedTuple):
    """How a policy undoes the promotions of lessons that helped."""

    turned: Share
    steady: Share


def demoted(lessons: Sequence[Lesson], rule: str, counted: str) -> Demoted:
    helping = [one for one in lessons if one.family is Family.HELPS and rule in one.promoted]
    return Demoted(
        turned=Share.of(rule in one.demoted[counted] for one in helping if one.turns),
        steady=Share.of(rule in one.demoted[counted] for one in helping if not one.turns),
    )


def ranked_out(lessons: Sequence[Lesson]) -> Share:
    """Harming lessons that were shown, and had left the first five by their tenth outcome."""
    harming = [one for one in lessons if one.family is Family.HARMS and one.outcomes]
    return Share.of(not one.stayed for one in harming)


def success_rate(lessons: Sequence[Lesson], family: Family) -> float:
    """The mean rate of a family's lessons, with the company they had."""
    ours = [one for one in lessons if one.family is family]
    rates = [rate for one in ours if (rate := one.evidence().success_rate) is not None]
    return math.fsum(rates) / len(rates)
