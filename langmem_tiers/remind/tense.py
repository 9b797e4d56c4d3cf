"""Whether a clause is denied, supposed, foretold, or told of times long past."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from langmem_tiers.remind import bases as known
from langmem_tiers.remind.forms import IRREGULAR
from langmem_tiers.remind.sentences import Clause, Sentence, Word, base, is_bent

_REACH = 4
"""Words between a negation and what it denies, where only what is near counts."""


def is_negation(word: Word, after: Word) -> bool:
    """Whether a word denies what comes with it: "stopped raining", not "the rain stopped"."""
    return word.base in known.NEGATIONS and (word.base != "stop" or after.form.endswith("ing"))


def is_denied(clause: Clause, place: int, *, near: bool = False) -> bool:
    """Whether what stands at a place is denied; with `near`, by what stands shortly before it."""
    start = max(0, place - _REACH) if near else 0
    told = clause[start:place] if near else _without_extras(clause, place)
    return (
        any(
            word.base in known.NEARLY or is_negation(word, after)
            for word, after in pairwise([*told, Word("")])
        )
        or any(word.base in known.PARTLY for word in clause[max(0, place - 1) : place])
        or _is_too_much(clause[:place])
        or any(
            (word.base in known.NEGATING or word.base == "yet") and after.base == "to"
            for word, after in pairwise(clause[: place + 1])
        )
    )


def _without_extras(clause: Clause, place: int) -> Clause:
    """A clause up to what goes without, behind a place: "finished without errors" is finished."""
    ends = (n for n, word in enumerate(clause) if n > place and word.base in {"without", "instead"})
    return clause[: next(ends, len(clause))]


def _is_too_much(before: Clause) -> bool:
    """Whether somebody was too tired to, or it was too late for it."""
    return any(
        word.base == "too" and {one.base for one in before[n + 2 : n + 5]} & {"to", "for"}
        for n, word in enumerate(before)
    )


def is_unreal(clause: Clause, place: int, *, talk: bool = False) -> bool:
    """Whether it is supposed, wished for or foretold; of talk, what is foretold in it is not."""
    before = clause[:place]
    if any(_supposes(word) for word in before):
        return True
    if not talk and (any(word.base in known.THINKING for word in before) or _on_the_way(clause)):
        return True
    if any(word.base in known.FUTURE for word in (before if talk else clause)):
        return True
    if not talk and _is_scheduled(clause, place):
        return True
    if _longs(clause[: place + 1], talk=talk):
        return True
    return not talk and (_at_time(clause, known.NEXT) or _within(clause))


def is_due(clause: Clause, place: int) -> bool:
    """Whether it is to be done: "the concert it was to play"."""
    return any(
        word.base == "be" and after.base == "to" and later.base not in known.DETERMINERS
        for word, after, later in zip(clause[:place], clause[1:place], clause[2:], strict=False)
    )


def _on_the_way(clause: Clause) -> bool:
    return any(
        word.base == "on" and far.base == "way"
        for word, far in zip(clause, clause[2:], strict=False)
    )


def _is_scheduled(clause: Clause, place: int) -> bool:
    """Whether it is told in the present of a day to come: "it ends on Friday"."""
    place = min(place, len(clause) - 1)
    verb = clause[place]
    if is_bent(verb) or verb.form in IRREGULAR or verb.form.endswith("ing"):
        return False
    if any(is_bent(word) and word.base not in known.AUXILIARIES for word in clause[:place]):
        return False
    return any(
        word.form in {"on", "in", "at"} and (after.base in known.TIMES or after.base.isdigit())
        for word, after in pairwise(clause[place + 1 :])
    )


def _supposes(word: Word) -> bool:
    if word.base == "may" or word.form == "may":
        return not word.named
    return word.base in known.UNREAL


def _longs(words: Sequence[Word], *, talk: bool) -> bool:
    """Whether somebody wants, plans or is going to do it."""
    for n, (word, after) in enumerate(pairwise(words)):
        if after.base == "to" and n + 2 < len(words):
            if word.base == "about":
                return True
            if word.form == "going" and words[n + 2].base not in {"the", "my", "our", "a", "an"}:
                return True
            if word.base in known.LONGING and word.form != "going" and not talk:
                return True
            if not talk and word.base == "have" and words[n + 2].base == "be":
                return True
            if talk and word.base in {base("plan"), base("hope"), base("intend"), base("refuse")}:
                return True
    return False


def _at_time(clause: Clause, before: frozenset[str], times: frozenset[str] = known.TIMES) -> bool:
    """Whether a time is named as the next, or the last."""
    return any(
        word.base in before and after.base in times and not after.owner
        for word, after in pairwise(clause)
    )


def _within(clause: Clause) -> bool:
    """In two days, in an hour."""
    return any(
        word.base == "in"
        and any(one.base in known.TIMES for one in clause[n + 2 : n + 4])
        and (
            clause[n + 1].base in {"a", "an", "two", "three", "few"} or clause[n + 1].base.isdigit()
        )
        for n, word in enumerate(clause[:-2])
    )


def is_past(sentence: Sentence, *, talk: bool = False, event: bool = False) -> bool:
    """Whether it is told of times long past: years ago, last week, in 2015.

    What only was so yesterday, or last Monday, is past as well; an event is news then.
    """
    words = sentence.words
    past = known.PAST - known.LATELY if event else known.PAST
    if any(word.base in past and not word.owner for word in words):
        return True
    for n, word in enumerate(words):
        if word.base == "ago" and any(one.base in known.LONG for one in words[max(0, n - 2) : n]):
            return True
        if word.form == "used" and n + 1 < len(words) and words[n + 1].base == "to":
            return True
        if word.form in {"in", "since"} and n + 1 < len(words) and _is_year(words[n + 1]):
            return not talk or n + 2 == len(words)
    times = known.TIMES - known.DAYS if event else known.TIMES
    return any(_at_time(clause, known.LAST, times) for clause in sentence.clauses)


def _is_year(word: Word) -> bool:
    return len(word.base) == 4 and word.base[:2] in {"19", "20"} and word.base.isdigit()  # noqa: PLR2004
