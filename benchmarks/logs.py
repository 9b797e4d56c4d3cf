"""Histories with questions, made by a script: the same seed, the same data.

Assistant logs are long messages of `user` and `assistant`; what matters is let slip by the user
while asking for something else. Chats (`benchmarks.log_chats`) are short messages of two people
with names. Stand-alone facts are one sentence each, in no session.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import datetime, timedelta

from benchmarks.log_chats import chats
from benchmarks.log_people import DAYS, START, Draft, Person, Plan, Said, Telling, plan, sentence
from benchmarks.log_questions import FIRST_PERSON, questions
from benchmarks.log_topics import DOMAINS, PHRASES, Domain, phrase

__all__ = ["assistant_logs", "chats", "stand_alone_facts"]

_TOPICS = 18
_PICKING, _ECHOING, _MIXING = 0.35, 0.35, 0.5
"""Shares of sessions with a recommendation, of answers that repeat, of requests in any order."""
_SECOND_PERSON = {
    "I": "you",
    "my": "your",
    "me": "you",
    "we": "you",
    "our": "your",
    "I'm": "you're",
    "I've": "you've",
    "mine": "yours",
    "us": "you",
    "am": "are",
}


def assistant_logs(seed: int, *, users: int = 6, sessions: int = 60) -> list[Person]:
    """Logs of users with an assistant: `sessions` sessions of 6 to 10 long messages each."""
    return [_log_user(random.Random(f"log-{seed}-{n}"), f"log-{n}", sessions) for n in range(users)]


def stand_alone_facts(seed: int, *, users: int = 6, facts: int = 150) -> list[Person]:
    """Users with short independent facts in no session and no order."""
    return [
        _fact_user(random.Random(f"facts-{seed}-{n}"), f"facts-{n}", facts) for n in range(users)
    ]


def _log_user(rng: random.Random, name: str, sessions: int) -> Person:
    draft = Draft(rng)
    planned: Plan = plan(rng, rng.sample(DOMAINS, _TOPICS), sessions)
    for number, (domain, tellings) in enumerate(planned):
        day = START + timedelta(days=number * DAYS / sessions, minutes=rng.randrange(600))
        _log_session(draft, f"{name}-{number}", domain, tellings, day)
    asked = tuple(questions(draft, FIRST_PERSON, logs=True))
    return Person(name=name, memories=tuple(draft.memories), questions=asked)


def _log_session(
    draft: Draft, session: str, domain: Domain, tellings: Sequence[Telling], day: datetime
) -> None:
    rng = draft.rng
    pairs = rng.randint(3, 5)
    slots: list[list[Telling]] = [[] for _ in range(pairs)]
    for one in tellings:
        rng.choice(slots).append(one)
    pick_at = rng.randrange(pairs) if rng.random() < _PICKING else -1
    for n, slips in enumerate(slots):
        when = day + timedelta(minutes=3 * n)
        text = _request(rng, domain, slips, first=n == 0)
        said = Said(text=text, role="user", session=session, turn=2 * n, occurred_at=when)
        at = draft.add(said)
        draft.told += [(one, at) for one in slips]
        pick = rng.choice(domain.picks) if n == pick_at else None
        text = _answer(rng, domain, slips, pick)
        said = Said(text=text, role="assistant", session=session, turn=2 * n + 1, occurred_at=when)
        at = draft.add(said)
        if pick:
            draft.picked.append((domain, pick, at))


def _request(rng: random.Random, domain: Domain, slips: Sequence[Telling], *, first: bool) -> str:
    if first:
        ask = rng.choice(domain.asks)
    else:
        ask = phrase(rng, "follow_ups").format(tip=rng.choice(domain.tips))
    parts = [ask, *rng.sample(PHRASES["chatter"], rng.randint(0, 3))]
    if rng.random() < _MIXING:
        rng.shuffle(parts)
    for one in slips:
        slip = sentence(phrase(rng, "slips").format(x=one.said))
        parts.insert(rng.randint(0, len(parts)), slip)
    return phrase(rng, "hellos") + " ".join(parts)


def _answer(rng: random.Random, domain: Domain, slips: Sequence[Telling], pick: str | None) -> str:
    parts = [phrase(rng, "intros").format(topic=domain.name)]
    if slips and rng.random() < _ECHOING:
        parts.append(sentence(phrase(rng, "echoes").format(x=_second_person(slips[0].said))))
    tips = rng.sample(domain.tips, rng.randint(3, 7))
    body = [f"{n}. {sentence(tip)}. {phrase(rng, 'reasons')}" for n, tip in enumerate(tips, 1)]
    if pick:
        body.insert(rng.randint(1, len(body)), phrase(rng, "recommends").format(pick=pick))
    return "\n".join([*parts, *body, phrase(rng, "closings").format(topic=domain.name)])


def _second_person(text: str) -> str:
    return " ".join(_SECOND_PERSON.get(word, word) for word in text.split())


def _fact_user(rng: random.Random, name: str, facts: int) -> Person:
    draft = Draft(rng)
    every = [
        (domain, Telling(fact=fact, value=rng.sample(fact.values, 1)[0]))
        for domain in DOMAINS
        for fact in domain.facts
    ]
    items: list[tuple[Domain, Telling | None]] = [
        *every,
        *((domain, None) for domain in DOMAINS for _ in range(3)),
    ]
    rng.shuffle(items)
    for domain, one in items[:facts]:
        day = START + timedelta(days=rng.randrange(DAYS))
        text = _liking(rng, domain) if one is None else sentence(one.said) + "."
        at = draft.add(Said(text=text, occurred_at=day))
        if one is not None:
            draft.told.append((one, at))
    asked = tuple(questions(draft, FIRST_PERSON, logs=False))
    return Person(name=name, memories=tuple(draft.memories), questions=asked)


def _liking(rng: random.Random, domain: Domain) -> str:
    return rng.choice(
        (
            f"I like it when people {rng.choice(domain.tips)}.",
            f"{phrase(rng, 'relatives')} is interested in {domain.name}.",
            f"{phrase(rng, 'relatives')} told me to {rng.choice(domain.tips)}.",
            f"I use {rng.choice(domain.picks)} for {domain.name}.",
        )
    )
