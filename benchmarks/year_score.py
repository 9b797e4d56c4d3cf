"""What a year left in the database, beside what was planted and a plain reading of its events."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import psycopg

from benchmarks.ruling import Says
from benchmarks.year import END, OLD, RARELY, START, UNIMPORTANT, Truth, Year
from benchmarks.year_replay import Lived, Story
from langmem_tiers import MemoryContext, MemoryCoordinator, TieredStore
from langmem_tiers.consolidate.judge import Question
from langmem_tiers.core.normal import normalised

MOST = 1_000
"""Memories of one project, more than there are."""
_MOVES = """
SELECT e.kind, coalesce(m.key, k.key, ''), coalesce(t.key, a.key), e.at
FROM (
    SELECT e.kind, e.target, e.at, e.tenant, coalesce(w.id, e.id) AS id
    FROM memory.events e
    LEFT JOIN LATERAL jsonb_array_elements_text(e.detail -> 'sources') s (id) ON true
    CROSS JOIN LATERAL (SELECT s.id::bigint AS id) w
    WHERE e.undone_at IS NULL
) e
LEFT JOIN memory.memories m ON m.tenant = e.tenant AND m.id = e.id
LEFT JOIN memory.memories t ON t.tenant = e.tenant AND t.id = e.target
LEFT JOIN memory.archived k ON k.tenant = e.tenant AND k.id = e.id
LEFT JOIN memory.archived a ON a.tenant = e.tenant AND a.id = e.target
ORDER BY e.at
"""


Pairs = set[tuple[str, str]]
"""What went or was proposed, and the memory by which."""


class Share(NamedTuple):
    """So many of so many."""

    of: int
    all: int

    @property
    def value(self) -> float:
        return self.of / self.all if self.all else 1.0

    def __str__(self) -> str:
        return f"{self.value:.4f} ({self.of:,} of {self.all:,})"


def right(found: Pairs, truth: Mapping[str, str]) -> Pairs:
    """Merges of one planted group: two misspelt ones may find each other before the original."""
    return {(one, other) for one, other in found if truth.get(one, one) == truth.get(other, other)}


def precision(found: Pairs, truth: Mapping[str, str]) -> Share:
    return Share(len(right(found, truth)), len(found))


def recall(found: Pairs, truth: Mapping[str, str]) -> Share:
    """How many of those that repeat another one were found, each once."""
    return Share(len(truth.keys() & {one for one, _ in right(found, truth)}), len(truth))


class Move(NamedTuple):
    """What a cycle wrote down."""

    kind: str
    key: str
    target: str | None
    at: datetime


@dataclass(frozen=True, slots=True)
class Left:
    """What a year left: its moves, one for each memory that went."""

    moves: list[Move]

    @classmethod
    def of(cls, url: str) -> Left:
        """Read it from the database."""
        with psycopg.connect(url) as conn:
            return cls([Move(*row) for row in conn.execute(_MOVES)])

    def count(self, kind: str) -> int:
        """How many memories went so."""
        return sum(one.kind == kind for one in self.moves)

    def pairs(self, kind: str) -> Pairs:
        """What went, and where."""
        return {(one.key, one.target or "") for one in self.moves if one.kind == kind}

    def ended(self, truth: Truth) -> tuple[Pairs, Pairs]:
        """What was superseded, and what should have been, each as what it lives on in."""
        home = dict(self.pairs("merged"))
        lived_on = [
            {(home.get(one, one), home.get(other, other)) for one, other in pairs}
            for pairs in (self.pairs("superseded"), truth.contradictions.items())
        ]
        return lived_on[0], lived_on[1]


class Score(NamedTuple):
    """How much of what was planted was found, and what else."""

    precision: Share
    recall: Share
    ended: Share
    """Of the planted changes, those that were superseded by the right memory."""
    collateral: Pairs
    """What was superseded, and is true."""
    risen: Share
    """Of the notes that should rise."""
    stayed: Share
    """Of those that should not."""


def score(left: Left, truth: Truth) -> Score:
    """Hold what a year left beside what was planted."""
    merged = left.pairs("merged")
    superseded, planted = left.ended(truth)
    risen = {one for one, _ in left.pairs("risen")}
    return Score(
        precision(merged, truth.duplicates),
        recall(merged, truth.duplicates),
        Share(len(planted & superseded), len(planted)),
        superseded - planted,
        Share(len(risen & truth.rising.keys()), len(truth.rising)),
        Share(len(truth.expiring - risen), len(truth.expiring)),
    )


class Proposals(NamedTuple):
    """What the cycles of a year proposed, and left to somebody."""

    same: Pairs
    """What may say the same, and as which."""
    ended: Pairs
    """What may be contradicted, and by what; or what says the same, and was told again."""

    @classmethod
    def of(cls, story: Story) -> Proposals:
        """Read them from the reports."""
        return cls(_findings(story, "merge"), _findings(story, "supersede"))

    def shares(self, truth: Truth) -> tuple[Share, Share, Share, Share]:
        """Of both kinds, how much of what is proposed is so, and how much of what is so is.

        What is proposed as contradicted may be ended by any later value, or be said again.
        """
        again = right({(newer, older) for older, newer in self.ended}, truth.duplicates)
        later = {pair for pair in self.ended if pair[1] in _later(pair[0], truth)}
        planted = self.ended & set(truth.contradictions.items())
        return (
            precision(self.same, truth.duplicates),
            recall(self.same | again, truth.duplicates),
            Share(len(again) + len(later), len(self.ended)),
            Share(len(planted), len(truth.contradictions)),
        )


def _later(key: str, truth: Truth) -> Iterator[str]:
    """What ended a memory, what ended that, and so on."""
    while key in truth.contradictions:
        yield (key := truth.contradictions[key])


def _findings(story: Story, step: str) -> Pairs:
    counts = (one.counts[step] for one in story.cycles if step in one.counts)
    return {(one["key"], one["target_key"]) for some in counts for one in some.get("findings", ())}


def knowing(year: Year) -> Says:
    """What a model says that knows the year: what is planted, and that equal texts are the same.

    It goes by texts alone; of the memories of a namespace no two texts mean different things.
    """
    truth = year.truth
    text = {one.key: one.content for one in year.events() if one.kind == "store"}
    groups: defaultdict[str, set[str]] = defaultdict(set)
    for key, content in text.items():
        groups[content].add(truth.duplicates.get(key, key))
    ended = {(text[one], text[by]) for one, by in truth.contradictions.items()}

    def says(question: Question, older: str, newer: str) -> bool:
        if question == "contradicts":
            return (older, newer) in ended
        equal = normalised(older) == normalised(newer)
        return equal or not groups[older].isdisjoint(groups[newer])

    return says


STEPS_OF = {"risen": ("rise", "session_end"), "merged": ("merge",), "superseded": ("supersede",)}
"""By kind of event, the steps that write it."""


def sums(story: Story, left: Left) -> Mapping[str, tuple[int, int]]:
    """By kind, how many memories the events name, and how many the reports."""
    return {
        kind: (left.count(kind), sum(story.done(one) for one in steps))
        for kind, steps in STEPS_OF.items()
    }


def unaccounted(story: Story) -> list[tuple[str, datetime, str]]:
    """Steps of cycles whose report does not add up to what they selected and decided on."""
    return [
        (one.tenant, one.at, step)
        for one in story.cycles
        for step in {*one.judged, *one.counts}
        if one.verdicts(step) != len(one.judged.get(step, ()))
    ]


class Point(NamedTuple):
    """What is asked of the past."""

    tenant: str
    project: str
    as_of: datetime
    known_at: datetime


def points(story: Story, seed: int, count: int) -> Iterator[Point]:
    """Points in both times, some of them before anything was told, some after everything."""
    drawn = random.Random(seed)
    places = sorted({(one.stored.tenant, one.stored.project) for one in story.memories.values()})
    for _ in range(count):
        as_of, known_at = (
            START + (END - START + timedelta(days=20)) * drawn.uniform(-0.01, 1) for _ in range(2)
        )
        yield Point(*drawn.choice(places), as_of, known_at)


class Oracle:
    """What was true and known when, read off the events and the moves in plain Python."""

    def __init__(self, story: Story, left: Left) -> None:
        self._story = story
        self._superseded = {one.key: one for one in left.moves if one.kind == "superseded"}
        self._merged = {one.key: one.at for one in left.moves if one.kind == "merged"}
        self._risen = {one.key for one in left.moves if one.kind == "risen"}
        self._in: dict[tuple[str, str], list[Lived]] = {}
        for one in story.memories.values():
            self._in.setdefault((one.stored.tenant, one.stored.project), []).append(one)

    def visible(self, point: Point) -> set[str]:
        """The keys of what a project recalls at a point."""
        there = self._in.get((point.tenant, point.project), ())
        return {one.stored.key for one in there if self._sees(one, point)}

    def _sees(self, one: Lived, point: Point) -> bool:
        key = one.stored.key
        if one.stored.tier == "short_term" and key not in self._risen:
            return False
        if one.recorded > point.known_at or one.stored.at > point.as_of:
            return False
        if key in self._merged and self._merged[key] <= point.known_at:
            return False
        end = self._superseded.get(key)
        if end is None or end.at > point.known_at:
            return True
        return point.as_of < self._story.memories[end.target or ""].stored.at


def visible(store: TieredStore, point: Point) -> set[str]:
    """The same, as the package recalls it."""
    context = MemoryContext(tenant=point.tenant, project_id=point.project)
    found = MemoryCoordinator(store, context=context).get_context(
        "", limit=MOST, as_of=point.as_of, known_at=point.known_at, tiers=["working", "long_term"]
    )
    return {one.key for one in found}


def due(story: Story, left: Left, accesses: Mapping[str, int], now: datetime) -> set[str]:
    """What the default policy means, all of it: what is current and lives on in nothing else."""
    merged = {key for one in left.moves if one.kind == "merged" for key in (one.key, one.target)}
    gone = merged | {one.key for one in left.moves if one.kind == "superseded"}
    risen = {one.key for one in left.moves if one.kind == "risen"}
    return {
        key
        for key, one in story.memories.items()
        if key not in gone
        and now - one.recorded > OLD
        and accesses.get(key, 0) < RARELY
        and (one.stored.importance or 0) < UNIMPORTANT
        and (one.stored.tier == "working" or key in risen)
    }


def read_often(events: Iterator[Any]) -> Counter[str]:
    """How often each memory was read."""
    return Counter(one.key for one in events if one.kind == "access")


def archived(url: str) -> set[str]:
    """The keys of what left for a file."""
    with psycopg.connect(url) as conn:
        return {row[0] for row in conn.execute("SELECT key FROM memory.archived")}
