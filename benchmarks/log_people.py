"""Generated people while they grow: what they told, where, and what they can be asked for."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from benchmarks.log_topics import AGO, Domain, Fact

START: Final = datetime(2024, 1, 8, 9, tzinfo=UTC)
DAYS: Final = 364

_ELSEWHERE: Final = 0.2
"""Share of facts that are mentioned while something else is discussed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One message, or one fact; `role` is who said it: `user`, `assistant`, a name or nobody."""

    text: str
    role: str = ""
    session: str | None = None
    turn: int = 0
    occurred_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question; `gold` are the places of its evidence among what was said."""

    text: str
    gold: tuple[int, ...]
    kind: str
    asked_at: datetime
    about: str = ""
    """What is asked for, the same for every person it is asked of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Everything said in one history, and what is asked of it."""

    name: str
    memories: tuple[Said, ...]
    questions: tuple[Asked, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """A fact with its value, due to be told."""

    fact: Fact
    value: str
    when: str = ""

    @property
    def said(self) -> str:
        text = self.fact.said.format(v=self.value)
        return f"{self.when} {text}" if self.when else text


@dataclass(slots=True)
class Draft:
    """A history as it grows."""

    rng: random.Random
    memories: list[Said] = field(default_factory=list)
    told: list[tuple[Telling, int]] = field(default_factory=list)
    picked: list[tuple[Domain, str, int]] = field(default_factory=list)

    def add(self, memory: Said) -> int:
        self.memories.append(memory)
        return len(self.memories) - 1


Plan = list[tuple[Domain, list[Telling]]]
"""What each session is about, and what is told in it."""


def plan(rng: random.Random, topics: Sequence[Domain], sessions: int) -> Plan:
    """Several sessions on each topic; each fact in one, events also in two, with new values."""
    order = [topics[n % len(topics)] for n in range(sessions)]
    rng.shuffle(order)
    planned: Plan = [(domain, []) for domain in order]
    for domain in topics:
        own = [n for n, one in enumerate(order) if one is domain]
        for fact in domain.facts:
            for at, one in _tellings(rng, fact, own):
                place = rng.randrange(sessions) if rng.random() < _ELSEWHERE else at
                planned[place][1].append(one)
    return planned


def _tellings(rng: random.Random, fact: Fact, own: Sequence[int]) -> Iterator[tuple[int, Telling]]:
    times = rng.choice((1, 2)) if fact.when else 1
    values = rng.sample(fact.values, times)
    for at, value in zip(rng.sample(own, min(times, len(own))), values, strict=False):
        when = rng.choice(tuple(AGO)) if fact.when else ""
        yield at, Telling(fact=fact, value=value, when=when)


def sentence(text: str) -> str:
    """With a capital letter."""
    return text[:1].upper() + text[1:]
