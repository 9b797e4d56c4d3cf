"""What is too little to be shown: a memory that hardly helps, and a question that needs none.

Most of what is said to an assistant needs no memory: thanks, a sum, a joke. `helps` tells it from
what does, by what was found, by the words asked, and by the question's vector where the model is
one that it was fitted for; the weights are in `weights/`, fitted by `benchmarks/fit.py`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from operator import mul
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from langmem_tiers.core.memory import ASSISTANT_ROLES, USER_ROLES, Recollection
from langmem_tiers.core.types import PROSPECTIVE, MemoryTypes
from langmem_tiers.recall.matching import K1, Candidate, Searched, Weights
from langmem_tiers.recall.question import (
    REMINDER_SET,
    TALKS,
    Question,
    name_words,
    small_talk,
)

ABOUT: Final = 0.15
"""The match from which on a question may be about what is intended: 85 to 97 % of those that are
(docs/reminders.md)."""


class Floor(NamedTuple):
    """What a memory's match is to be at least: by itself, and as a share of the best one."""

    match: float = 0.0
    share: float = 0.0
    intended: float = ABOUT
    """That of what is intended, and of what was said as a reminder was set, where no type is asked
    for: the reminder is raised by itself."""
    alone: tuple[float, float] | None = None
    """Both of what stands by itself, if they are others: of talk, what stands beside an answer
    helps as well, a fact is all that it says."""
    lesson: tuple[float, float] | None = None
    """Both of lessons, if they are others."""

    further: tuple[int, float] = (0, 1.0)
    """So many memories at most beyond the limit, if they match as large a share of the best; what
    was said next is among them."""
    many: int = 0
    """Memories that tell something from which `match` counts whole. Of fewer each is likelier
    meant, and all of them take fewer lines: it falls with both. 0 is: always."""
    few: int = 0
    """Memories that tell something up to which no `share` counts: all of them may be shown."""
    goes_on: int = 0
    """Characters up to which what was said next, after the best matches, is shown with them."""
    quiet: bool = False
    """Leave out what an assistant said, but for what matches well and the answer to the best."""

    def __bool__(self) -> bool:
        """Whether anything is left out."""
        return bool(self.match or self.share)

    def least(self, best: float, among: float, *, alone: bool = False) -> float:
        """The least match beside this best one, among so many."""
        if alone and self.alone:
            match, share = self.alone
            return max(match, share * best)
        part = min(1.0, among / self.many) if self.many else 1.0
        return max(self.match * part**2, self.share * best if among > self.few else 0.0)

    def least_lesson(self, best: float) -> float:
        """The least match of a lesson, where this is the best one's."""
        match, share = self.lesson or (self.match, self.share)
        return max(match, share * best)


_NOTHING: Final[Mapping[Any, float]] = MappingProxyType({})
NO_FLOOR: Final = Floor(intended=0.0)
HELPS: Final = 0.4
"""A question with a lesser chance that memory helps with it gets what matches well, and no more,
where there is a floor."""
STRONG: Final = 0.5
"""What matches so well is shown, whatever is asked: our own choice. Of 132 questions of lives by
other hands five had so small a chance, and what nobody needed for three of them matched 0.42 at
most."""
ABOUT_ANSWERS: Final = 0.6
"""The share of the best match of what others said from which on what an assistant said is shown."""
ANSWERS: Final = (0.1, 0.2)
"""The share from which on the answer to the best match is shown, and the chance that it is small
talk from which on it is not."""
DEFAULT_FLOOR: Final = Floor(0.025, alone=(0.005, 0.03), lesson=(0.1, 0.5), many=13)
TURN_FLOOR: Final = DEFAULT_FLOOR._replace(
    share=0.12, further=(5, 0.25), few=5, goes_on=200, quiet=True
)
"""What a model is shown with each call, beside a limit of 5: a question that many memories answer
gets ten. These numbers, and those of answers, were chosen among some 600 on the lives of
`benchmarks/data` and others: of 851 questions there 661 are shown what they need, in 143 tokens
(by what went before 660, in 154)."""

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
    "digits",
    "needs",
    "meant",
)
"""What is measured of a question and of what was found for it, in this order."""


def measured(
    question: Question,
    found: Sequence[Candidate],
    searched: Searched,
    *,
    needs: float,
    meant: float,
) -> tuple[float, ...]:
    """What speaks for a question that memory can help with; most parts in a range near 0…1.

    The nearest by meaning, the third and fifth of them, and the nearest that a user said; the two
    best by words; the share of the words that occurs; names; how many memories there are; digits;
    and what the question by itself says, by its words (`needs`) and by its vector (`meant`), each
    the logarithm of odds.
    """
    padded = [0.0] * 5
    near = sorted((one.cosine or 0.0 for one in found), reverse=True) + padded
    said = (one.cosine or 0.0 for one in found if (one.speaker or "").lower() in USER_ROLES)
    reach = max(searched.sought * (K1 + 1), 1e-9)
    own = sorted(((one.own or 0.0) / reach for one in found), reverse=True) + padded
    speakers = frozenset(word for one in searched.speakers for word in name_words(one))
    known = (question.names & searched.known_names) | (question.names & speakers)
    return (
        near[0],
        near[2],
        near[4],
        max(said, default=0.0),
        own[0],
        own[1],
        searched.known / searched.sought if searched.sought else 1.0,
        float(not question.names - known),
        float(bool(known)),
        math.log10(max(searched.memories, 1)),
        float(any(map(str.isdigit, question.text))),
        needs,
        meant,
    )


def tells(one: Candidate) -> bool:
    """Whether it is no small talk, which answers nothing; what nobody said was put there."""
    return not one.speaker or (small_talk(one.value) or 0.0) < TALKS


def shown(
    memories: Sequence[Recollection],
    floor: Floor,
    helping: float,
    types: MemoryTypes,
    *,
    among: float,
    asked: Sequence[str] | None,
    alone: Mapping[tuple[tuple[str, ...], str], float] = _NOTHING,
) -> list[Recollection]:
    """Those that match well enough, where memory is likely to help with what is asked.

    What was learned may help with any text: a task tells nothing of its user. What is intended, and
    what was said as a reminder was set, is to match better, unless types are `asked` for: the
    reminder is raised by itself. What stands `alone`, by
    namespace and key, is all that it says: it goes by a chance of its own.
    """
    if floor and helping < HELPS:
        memories = [
            one for one in memories if types.learned(one.memory_type) or one.match >= STRONG
        ]
    facts = [None if types.learned(one.memory_type) else alone.get(one.place) for one in memories]
    best = max((one.match for one in memories), default=0.0)
    best_fact = max(filter(None, facts), default=0.0)
    kept = []
    by_itself, beside = floor.least(best_fact, among, alone=True), floor.least(best, among)
    for one, fact in zip(memories, facts, strict=True):
        reminds = asked is None and (_reminds(one) if floor else one.memory_type == PROSPECTIVE)
        if reminds and (one.match if fact is None else fact) < floor.intended:
            continue
        level, least = one.match, beside
        if fact is not None and floor.alone is not None:
            level, least = fact, by_itself
        if level >= least:
            kept.append(one)
    if floor.quiet:
        kept = _without_filler(kept)
    if floor.goes_on:
        following = said_next(memories, kept, floor.goes_on)
        kept += [one for one in following if one not in kept]
    return kept


def said_next(
    memories: Sequence[Recollection], shown: Sequence[Recollection], most: int
) -> list[Recollection]:
    """Find what was said next in the conversations of the two best matches, by no assistant.

    It often goes on with the thought, and matches by chance. The second is to match half as well as
    the best. What is longer than `most` characters stays out, and what a reminder was set by.
    """
    best = sorted(shown, key=lambda one: one.match, reverse=True)[:2]
    leads = [one for one in best if one.match >= best[0].match / 2]
    said = [
        one
        for one in memories
        if one.session_id and one.speaker and one.speaker.lower() not in ASSISTANT_ROLES
    ]
    found = []
    for lead in leads:
        since = (one for one in said if one is not lead and _follows(one, lead))
        following = min(since, key=lambda one: (one.when, one.key), default=None)
        if following and len(following.content) <= most and not _reminds(following):
            found.append(following)
    return found


def _reminds(one: Recollection) -> bool:
    """Tell whether it is intended, or was said as a reminder was set: it is raised by itself."""
    return one.memory_type == PROSPECTIVE or one.value.get(REMINDER_SET) is True


def _without_filler(memories: Sequence[Recollection]) -> list[Recollection]:
    """Leave out what an assistant said, but for what matches well and the answer to the best.

    An answer that hardly matches, or may be small talk, is no answer.
    """
    answers = [one for one in memories if (one.speaker or "").lower() in ASSISTANT_ROLES]
    others = [one for one in memories if one not in answers]
    if not answers or not others:
        return [*memories]
    best = max(others, key=lambda one: one.match)
    since = [one for one in answers if one.session_id and _follows(one, best)]
    answer = min(since, key=lambda one: (one.when, one.key), default=None)
    share, talk = ANSWERS
    if answer and (answer.match < share * best.match or (small_talk(answer.value) or 0.0) >= talk):
        answer = None
    least = ABOUT_ANSWERS * best.match
    return [one for one in memories if one not in answers or one is answer or one.match >= least]


def _follows(one: Recollection, other: Recollection) -> bool:
    """Tell whether a memory was said in a conversation after another one, or at its moment."""
    same = (one.session_id, one.project_id) == (other.session_id, other.project_id)
    return same and one.when >= other.when


def helps(
    question: Question,
    telling: Sequence[Candidate],
    searched: Searched,
    weights: Weights,
    *,
    needs: float,
    meant: float,
) -> float:
    """The chance, in 0…1, that memory helps with a question; what a vector alone seeks, it does.

    It goes by what is `telling`: by what was found but for small talk.
    """
    if not question.text.strip():
        return 1.0
    parts = measured(question, telling, searched, needs=needs, meant=meant)
    score = sum(map(mul, map(weights.helps.__getitem__, MEASURED), parts)) + weights.helps["bias"]
    return 1 / (1 + math.exp(-score))
