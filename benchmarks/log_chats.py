"""Generated chats: two people with names, short messages, questions asked by name."""

from __future__ import annotations

import random
from datetime import datetime, timedelta

from benchmarks.log_people import DAYS, START, Draft, Person, Plan, Said, plan, sentence
from benchmarks.log_questions import about, questions, with_pronoun
from benchmarks.log_topics import DOMAINS, NAMES, phrase

_TOLD = ("{x}.", "{x}!", "Well, {x}.", "{y} {x}.")
_SMALL_TALK = 0.6


def chats(seed: int, *, pairs: int = 4, sessions: int = 24) -> list[Person]:
    """Chats of two friends each."""
    return [_chat(random.Random(f"chat-{seed}-{n}"), n, sessions) for n in range(pairs)]


def _chat(rng: random.Random, number: int, sessions: int) -> Person:
    people = (NAMES[2 * number % len(NAMES)], NAMES[(2 * number + 1) % len(NAMES)])
    shared = Draft(rng)
    drafts = {name: Draft(rng, memories=shared.memories) for name, _ in people}
    plans: dict[str, Plan] = {}
    for name, _ in people:
        plans[name] = plan(rng, rng.sample(DOMAINS, 10), sessions)
    for n in range(sessions):
        day = START + timedelta(days=n * DAYS / sessions, minutes=rng.randrange(600))
        _Session(shared, f"chat-{number}-{n}", day, rng.sample(sorted(plans), 2)).hold(
            drafts, {name: planned[n : n + 1] for name, planned in plans.items()}
        )
    asked = [
        with_pronoun(one, name, possessive)
        for name, possessive in people
        for one in questions(drafts[name], about(name), logs=False)
    ]
    return Person(name=f"chat-{number}", memories=tuple(shared.memories), questions=tuple(asked))


class _Session:
    """One talk of two people."""

    def __init__(self, shared: Draft, name: str, day: datetime, names: list[str]) -> None:
        self._shared = shared
        self._name = name
        self._day = day
        self._names = names
        self._turns = 0

    def hold(self, drafts: dict[str, Draft], plans: dict[str, Plan]) -> None:
        rng = self._shared.rng
        self._say(self._names[0], phrase(rng, "openers"))
        self._say(self._names[1], phrase(rng, "replies"))
        for name, asker in (self._names, self._names[::-1]):
            ((domain, tellings),) = plans[name]
            for one in tellings:
                self._say(asker, phrase(rng, "prompts").replace("{topic}", domain.name))
                template = rng.choice(_TOLD)
                text = template.format(x=one.said, y=phrase(rng, "replies"))
                drafts[name].told.append((one, self._say(name, sentence(text))))
                self._say(asker, phrase(rng, "reactions"))
                self._say(name, phrase(rng, "musings").replace("{tip}", rng.choice(domain.tips)))
            if rng.random() < _SMALL_TALK:
                self._say(asker, phrase(rng, "prompts").replace("{topic}", domain.name))
                self._say(name, phrase(rng, "musings").replace("{tip}", rng.choice(domain.tips)))

    def _say(self, name: str, text: str) -> int:
        other = self._names[1] if name == self._names[0] else self._names[0]
        said = Said(
            text=text.replace("{other}", other),
            role=name,
            session=self._name,
            turn=self._turns,
            occurred_at=self._day,
        )
        self._turns += 1
        return self._shared.add(said)
