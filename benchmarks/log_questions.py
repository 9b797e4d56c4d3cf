"""What generated people can be asked for, and in which words."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final

from benchmarks.log_people import DAYS, START, Asked, Draft, Telling
from benchmarks.log_topics import AGO, Domain, Fact, phrase

NOW: Final = START + timedelta(days=DAYS + 7)

FIRST_PERSON: Final = {
    "i": "I",
    "my": "my",
    "me": "me",
    "do": "do",
    "did": "did",
    "have": "have",
    "am": "am",
    "was": "was",
}

_NEAR_WORDS: Final = 0.5
"""Share of questions in nearly the words in which it was said."""
_HINTED: Final = 0.45
"""Share of questions for a recommendation that do not say it was one."""
_REMINDED: Final = 0.12
_DAYS_APART: Final = 35
"""So far must two events lie from each other for a month to tell them apart."""


def about(name: str) -> dict[str, str]:
    """The forms of a question about somebody else."""
    forms = {"i": name, "my": f"{name}'s", "me": name}
    return forms | {"do": "does", "did": "did", "have": "has", "am": "is", "was": "was"}


def questions(draft: Draft, person: Mapping[str, str], *, logs: bool) -> Iterator[Asked]:
    """Everything that was told, asked for; in `logs`, also what the assistant recommended."""
    by_fact: dict[str, list[tuple[Telling, int]]] = {}
    for told in draft.told:
        by_fact.setdefault(told[0].fact.said, []).append(told)
    for same in by_fact.values():
        yield from _of_fact(draft, same, person)
    for picked in draft.picked if logs else ():
        yield _of_pick(draft.rng, *picked)


def _of_pick(rng: random.Random, domain: Domain, pick: str, at: int) -> Asked:
    lead = phrase(rng, "recalling").format(topic=domain.name)
    asked = rng.choice(domain.pick_asked)
    if rng.random() < _HINTED:
        asked = phrase(rng, "pick_hints").format(
            topic=domain.name, pick=pick.rsplit(maxsplit=1)[-1]
        )
    return Asked(text=lead + asked, gold=(at,), kind="assistant", asked_at=NOW)


def _of_fact(
    draft: Draft, same: Sequence[tuple[Telling, int]], person: Mapping[str, str]
) -> Iterator[Asked]:
    rng, fact = draft.rng, same[0][0].fact
    gold = tuple(sorted({at for _, at in same}))
    text = _ask(rng, fact, person)
    if person is FIRST_PERSON and rng.random() < _REMINDED:
        text = phrase(rng, "reminders") + text
    kind = "single" if len(gold) == 1 else "several"
    yield Asked(text=text, gold=gold, kind=kind, asked_at=NOW, about=fact.said)
    if not same[0][0].when:
        return
    if len(gold) == 1:
        text = phrase(rng, "when_asked").format(x=fact.when, **person)
        yield Asked(text=text, gold=gold, kind="when", asked_at=NOW, about=fact.said)
        return
    yield from _dated(draft, same, gold, person)


def _dated(
    draft: Draft,
    same: Sequence[tuple[Telling, int]],
    gold: tuple[int, ...],
    person: Mapping[str, str],
) -> Iterator[Asked]:
    """Ask for one of two events by its date."""
    at = gold[draft.rng.randrange(len(gold))]
    happened = {
        g: told - timedelta(days=AGO[one.when])
        for one, g in same
        if (told := draft.memories[g].occurred_at)
    }
    apart = [abs(happened[g] - happened[at]).days for g in gold if g != at]
    if all(days > _DAYS_APART for days in apart):
        text = _ask(draft.rng, same[0][0].fact, person).rstrip("?")
        on_date = phrase(draft.rng, "on_date").format(d=happened[at])
        yield Asked(text=f"{text} {on_date}?", gold=(at,), kind="dated", asked_at=NOW)


def _ask(rng: random.Random, fact: Fact, person: Mapping[str, str]) -> str:
    """Ask in nearly the same words (the last phrasing) half of the time, else in other words."""
    near = rng.random() < _NEAR_WORDS
    return (fact.asked[-1] if near else rng.choice(fact.asked[:-1])).format(**person)


def with_pronoun(question: Asked, name: str, possessive: str) -> Asked:
    """Say the name once: "Where did Dora get her gown?"."""
    first, middle, rest = question.text.partition(name)
    return replace(question, text=first + middle + rest.replace(f"{name}'s", possessive))
