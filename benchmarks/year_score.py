"""What a year left in the database, beside what was planted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import psycopg

from benchmarks.data import statements
from benchmarks.ruling import Says
from benchmarks.year import Truth, Year
from benchmarks.year_replay import Story
from langmem_tiers.consolidation.judges import PairQuestion
from langmem_tiers.core.texts import normalise

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
            return cls([Move(*row) for row in conn.execute(statements("year")["moves"])])

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
    """What was superseded by something else than a later value: it is true."""
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
        {pair for pair in superseded if pair[1] not in _later(pair[0], planted)},
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
        changed = set(truth.contradictions.items())
        later = {pair for pair in self.ended if pair[1] in _later(pair[0], changed)}
        planted = self.ended & changed
        return (
            precision(self.same, truth.duplicates),
            recall(self.same | again, truth.duplicates),
            Share(len(again) + len(later), len(self.ended)),
            Share(len(planted), len(truth.contradictions)),
        )


def _later(key: str, ended: Pairs) -> set[str]:
    """What ended a memory, what ended that, and so on; what it was merged with may have gone on."""
    found: set[str] = set()
    while more := {by for one, by in ended if one in {key, *found}} - found:
        found |= more
    return found


def _findings(story: Story, step: str) -> Pairs:
    counts = (one.counts[step] for one in story.cycles if step in one.counts)
    found = (one for some in counts for one in some.get("findings", ()))
    return {(one["key"], one["target_key"]) for one in found if one["target_key"] is not None}


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

    def says(question: PairQuestion, older: str, newer: str) -> bool:
        if question == "contradicts":
            return (older, newer) in ended
        equal = normalise(older) == normalise(newer)
        return equal or not groups[older].isdisjoint(groups[newer])

    return says
