"""What a set of phrases is made of, and what fills its slots."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from benchmarks.data import records


class Saying(NamedTuple):
    """Something told, which may be repeated: the same in several orders of its words."""

    forms: tuple[str, ...]
    negated: str
    opposite: str = ""
    """The same, but for a word that is the opposite."""
    narrower: str = ""
    symmetric: bool = False
    """Whether it says the same with its two people exchanged."""


class Fact(NamedTuple):
    """A single-valued fact: of one subject `{s}`, one value `{v}` at a time."""

    subject: str
    """The pool its subjects come from."""
    values: str
    """The pool its values come from."""
    states: tuple[str, ...]
    changes: tuple[str, ...]
    """How a new value is told; `{w}` is the value before."""
    refined: str
    scoped: tuple[str, str]
    """The same in two scopes."""
    hedged: str
    question: str
    reported: str
    past: str


class Many(NamedTuple):
    """A relation of which a subject has many."""

    subject: str
    values: str
    state: str
    negated: str
    """Told when one of them no longer holds."""


class Phrases(NamedTuple):
    sayings: tuple[Saying, ...]
    facts: tuple[Fact, ...]
    many: tuple[Many, ...]
    prefixes: tuple[str, ...]
    synonyms: Mapping[str, str]
    pools: Mapping[str, tuple[str, ...]]


def phrases(name: str) -> Phrases:
    """A set of phrases."""
    every = records(f"year/{name}")

    def of(what: str) -> list[dict[str, Any]]:
        return [
            {k: v for k, v in one.items() if k != "what"} for one in every if one["what"] == what
        ]

    return Phrases(
        sayings=tuple(Saying(**one) for one in of("saying")),
        facts=tuple(Fact(**one) for one in of("fact")),
        many=tuple(Many(**one) for one in of("many")),
        prefixes=tuple(one["text"] for one in of("prefix")),
        synonyms={one["word"]: one["other"] for one in of("synonym")},
        pools={one["name"]: one["words"] for one in of("pool")},
    )


TUNE, VALIDATION, HELD_OUT = map(phrases, ("tune", "validation", "held_out"))

SLOT = re.compile(r"\{(\w+)\}")


def slots(template: str) -> list[str]:
    return SLOT.findall(template)
