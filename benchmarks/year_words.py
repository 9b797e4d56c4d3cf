"""The words of a tenant's year: its phrases, what fills their slots, and how a text is varied."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping
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


def _phrases() -> Phrases:
    every = records("year")

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


PHRASES = _phrases()
SLOT = re.compile(r"\{(\w+)\}")
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")


class Cast:
    """What fills the slots for one tenant."""

    def __init__(self, drawn: random.Random) -> None:
        self._pools, self._drawn = PHRASES.pools, drawn
        pools = PHRASES.pools
        self._people = self._shuffled(f"{a} {b}" for a in pools["first"] for b in pools["last"])
        self._services = self._shuffled(
            f"the {a} {b}" for a in pools["service"] for b in pools["kind"]
        )

    def _shuffled(self, names: Iterator[str]) -> Iterator[str]:
        """All of them in some order; where that is not enough, the next have a number."""
        every = list(names)
        self._drawn.shuffle(every)
        turn = 1
        while True:
            yield from every if turn == 1 else (f"{one} {turn}" for one in every)
            turn += 1

    def value(self, kind: str) -> str:
        """One of a kind; a person or a service is a new one."""
        drawn = self._drawn
        if kind in ("p", "q"):
            return next(self._people)
        if kind == "svc":
            return next(self._services)
        if kind == "day":
            return drawn.choice(DAYS)
        made = {
            "n": (2, 90, ""),
            "seconds": (5, 90, "s"),
            "megabytes": (10, 900, " MB"),
            "minutes": (3, 50, " minutes"),
            "port": (1024, 9999, ""),
            "time": (1, 23, ":30"),
        }
        if kind in made:
            low, high, unit = made[kind]
            return f"{drawn.randint(low, high)}{unit}"
        return drawn.choice(self._pools[kind]).replace("{n}", str(drawn.randint(100, 999)))

    def other(self, kind: str, than: str) -> str:
        """Another one of a kind."""
        while (value := self.value(kind)) == than:
            pass
        return value

    def filled(self, template: str) -> dict[str, str]:
        return {one: self.value(one) for one in SLOT.findall(template)}


def said(template: str, values: dict[str, str]) -> str:
    """A template with its slots filled, as a sentence without its full stop."""
    text = SLOT.sub(lambda found: values[found[1]], template)
    return text[0].upper() + text[1:]


_KEYBOARD = dict(zip("qwertyuiopasdfghjklzxcvbnm", "wertyuioplsdfghjkkxcvbnmm", strict=False))


def typo(text: str, drawn: random.Random) -> str | None:
    """With a slip in one word of six small letters or more, never in its first letter."""
    found = list(re.finditer(r"\b[a-z]{6,}\b", text))
    if not found:
        return None
    chosen = drawn.choice(found)
    word = chosen[0]
    for _ in range(20):
        place = drawn.randrange(1, len(word) - 1)
        before, here, after = word[:place], word[place], word[place + 1 :]
        slip = drawn.choice(
            (
                before + after[0] + here + after[1:],
                before + after,
                before + here + here + after,
                before + _KEYBOARD.get(here, "x") + after,
            )
        )
        if slip != word:
            return text[: chosen.start()] + slip + text[chosen.end() :]
    return None


def synonymous(text: str, drawn: random.Random) -> str | None:
    """With one word replaced by another one of the table."""
    known = [one for one in PHRASES.synonyms if re.search(rf"\b{one}\b", text)]
    if not known:
        return None
    chosen = drawn.choice(known)
    return re.sub(rf"\b{chosen}\b", PHRASES.synonyms[chosen], text, count=1)


def punctuated(text: str, drawn: random.Random) -> str:
    words = text.split(" ")
    place = drawn.randrange(1, len(words))
    return drawn.choice(
        (
            f"{text}!",
            text.replace(" ", "  "),
            f"- {text}.",
            " ".join([*words[:place], *words[place:]]) + " ...",
        )
    )


def cased(text: str, drawn: random.Random) -> str:
    return drawn.choice((text.upper(), text.lower()))
