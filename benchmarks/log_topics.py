"""What generated people talk about, and the sentences around that."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from benchmarks.data import records


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """Something said in passing, and how it is asked for later, in partly other words."""

    said: str
    values: tuple[str, ...]
    asked: tuple[str, ...]
    when: str = ""
    """What comes after "when did I …", for what happened on a day."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """A topic: what users ask for, what any assistant answers, what users let slip."""

    name: str
    asks: tuple[str, ...]
    tips: tuple[str, ...]
    facts: tuple[Fact, ...]
    picks: tuple[str, ...]
    """What an assistant may recommend by name."""
    pick_asked: tuple[str, ...]


def _domain(given: Mapping[str, Any]) -> Domain:
    return Domain(**{**given, "facts": tuple(Fact(**one) for one in given["facts"])})


DOMAINS: Final = tuple(map(_domain, records("logs/topics")))


_RECORDS: Final = records("logs/phrases")
PHRASES: Final[Mapping[str, tuple[str, ...]]] = {
    name: tuple(one["text"] for one in _RECORDS if one["list"] == name)
    for name in dict.fromkeys(one["list"] for one in _RECORDS)
}
"""By the list that they are in."""
AGO: Final = {one["text"]: one["days"] for one in _RECORDS if one["list"] == "ago"}
NAMES: Final = tuple((one["text"], one["possessive"]) for one in _RECORDS if one["list"] == "names")


def phrase(rng: random.Random, name: str) -> str:
    """One of a list."""
    return rng.choice(PHRASES[name])
