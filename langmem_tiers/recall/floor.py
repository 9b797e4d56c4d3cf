"""What is too little to be shown: a least match, and a question that memory cannot help with.

Most of what is said to an assistant needs no memory: thanks, a sum, a joke. `helps` tells it from
what does, by what was found and by the words asked, in one fitted chance; the weights are in
`weights.json`, fitted by `benchmarks/fit.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from langmem_tiers.core.memory import USER_ROLES
from langmem_tiers.recall.candidates import Candidate, Searched
from langmem_tiers.recall.dedupe import words
from langmem_tiers.recall.matching import K1, Weights
from langmem_tiers.recall.question import Question, name_words

ABOUT: Final = 0.15
"""The match from which on a question may be about what is intended: 85 to 97 % of those that are
(docs/reminders.md)."""


class Floor(NamedTuple):
    """What a memory's match is to be at least: by itself, and as a share of the best one."""

    match: float = 0.0
    share: float = 0.0
    intended: float = ABOUT
    """That of what is intended, where its type is not asked for: it is raised by itself."""

    def __bool__(self) -> bool:
        """Whether anything is left out."""
        return bool(self.match or self.share)

    def least(self, best: float) -> float:
        """The least match beside this best one."""
        return max(self.match, self.share * best)


NO_FLOOR: Final = Floor(intended=0.0)
HELPS: Final = 0.5
"""A question with a lesser chance gets nothing where there is a floor."""
ANSWERS: Final = 0.3
"""With a match so good memory helps whatever is asked: of what needs no memory in lives, no best
match was above 0.18."""
DEFAULT_FLOOR: Final = Floor(0.0001)
"""Of the local embeddings, which the fit knows. No match is so low: what memory cannot help with
gets nothing, and else nothing is left out. In lives (`benchmarks/data/life.jsonl`) a least match of
0.01 costs 6 answers of 100; a share of 0.05 of the best one costs 1 of 305, and 5 % of what is
shown."""

MEASURED: Final = (
    "nearest",
    "third",
    "fifth",
    "said",
    "own",
    "second",
    "known",
    "no_unknown_name",
    "known_name",
    "memories",
    "length",
    "digits",
    "foreign",
)
"""What is measured of a question and of what was found for it, in this order."""


def measured(
    question: Question,
    asked: Sequence[str],
    found: Sequence[Candidate],
    searched: Searched,
    weights: Weights,
) -> tuple[float, ...]:
    """What speaks for a question that memory can help with; each part in a range near 0…1.

    The nearest by meaning, the third and fifth of them, and the nearest that a user said; the two
    best by words; the share of the words that occurs; names; and of the words that are `asked`, in
    their order, how many there are and whether the fit knows one.
    """
    near = sorted((one.cosine or 0.0 for one in found), reverse=True)
    said = (one.cosine or 0.0 for one in found if (one.speaker or "").lower() in USER_ROLES)
    reach = max(searched.sought * (K1 + 1), 1e-9)
    own = sorted(((one.own or 0.0) / reach for one in found), reverse=True)
    speakers = frozenset(word for one in searched.speakers for word in name_words(one))
    known = (question.names & searched.known_names) | (question.names & speakers)
    return (
        _at(near, 0),
        _at(near, 2),
        _at(near, 4),
        max(said, default=0.0),
        _at(own, 0),
        _at(own, 1),
        searched.known / searched.sought if searched.sought else 1.0,
        float(not question.names - known),
        float(bool(known)),
        math.log10(max(searched.memories, 1)),
        math.log1p(len(asked)),
        float(any(map(str.isdigit, question.text))),
        float(weights.words.keys().isdisjoint(asked)),
    )


def helps(
    question: Question, found: Sequence[Candidate], searched: Searched, weights: Weights
) -> float:
    """The chance, in 0…1, that memory helps with a question; `HELPS` is the bound.

    Words that the fit does not know, such as those of most languages, say nothing.
    """
    asked = words(question.text)
    parts = measured(question, asked, found, searched, weights)
    evidence = sum(weights.helps[name] * one for name, one in zip(MEASURED, parts, strict=True))
    worded = sum(weights.words.get(one, 0.0) for one in frozenset(asked))
    return 1 / (1 + math.exp(-(evidence + worded + weights.helps["bias"])))


def _at(ordered: Sequence[float], place: int) -> float:
    return ordered[place] if place < len(ordered) else 0.0
