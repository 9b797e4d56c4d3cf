"""How much a text reads like attacks on a memory rather than like notes, learned from both.

A logistic regression over the words of a text, their pairs, and the first word of each sentence
(`^`). Its weights ship as `likeness.tsv`: they were fitted by `benchmarks/fit_likeness.py` on
attacks and notes by many authors, and are there to be read. How it fares with authors it has not
seen: docs/gate.md.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from importlib.resources import files
from itertools import islice, pairwise
from typing import Final, Literal, NamedTuple, TypeAlias

from langmem_tiers.core.reading import spaced

Voice: TypeAlias = Literal["user", "agent", "outside"]
"""Whose word a text is: a user's, an agent's, or that of anybody else."""
BIAS: Final = "*"
"""The name of what is added to every sum; no word is called so."""
TOGETHER: Final = 3
"""Sentences that are read together: an order is given in a breath."""
_TOLD: Final = 3
"""Words that are named as those that weighed most."""
_SENTENCE: Final = re.compile("(?<=[.!?\u3002\uff01\uff1f])\\s+|\\n+")
_STEM: Final = 6
"""Characters of a word that count."""
_WORD: Final = re.compile(r"\w+|[<>{}\[\]#:!?$/@%*|`=]")
_CLASSES: Final = (
    (re.compile(r"(?<![^\s@])[^\s@]+@\S+"), " 0mail "),
    (
        re.compile(
            r"https?://\S+|\bwww\.\S+|(?<![\w-])[\w-]{1,63}(?:\.[\w-]{1,63}){0,5}"
            r"\.(?:com|net|org|io|example|dev|test|ai|co|info|biz)\b\S*",
            re.IGNORECASE,
        ),
        " 0url ",
    ),
    (re.compile(r"[$€£]\s?\d[\d.,]*"), " 0sum "),
    (re.compile(r"\b\d\w*"), " 0 "),
)
"""What counts as one of its kind, whatever it is."""


class Likeness(NamedTuple):
    """How much a text reads like an attack, and where it does so most."""

    score: float
    """The logarithm of the odds, by the shares of the texts that it was fitted on."""
    passage: str
    """Up to three sentences."""
    words: tuple[str, ...] = ()
    """Those of the passage that weighed most."""

    @property
    def chance(self) -> float:
        """That it is an attack, in 0…1."""
        return 1 / (1 + math.exp(-self.score))


def likeness(text: str, voice: Voice) -> Likeness:
    """The passage of a text that reads most like an attack."""
    weights = shipped()
    several = ((scored(weights, features(one, voice)), one) for one in passages(text))
    score, passage = max(several, default=(-math.inf, ""), key=lambda one: one[0])
    return Likeness(score, passage, tuple(_weightiest(passage, weights)))


def _weightiest(passage: str, weights: Mapping[str, float]) -> Iterator[str]:
    """The words and pairs that speak most for an attack, as they are written."""
    shown = {
        name: written
        for one in sentences_of(passage)
        for name, written in _features(one)
        if weights.get(name, 0.0) > 0 and all(word in passage for word in written.split())
    }
    told = dict.fromkeys(shown[one] for one in sorted(shown, key=lambda one: -weights[one]))
    yield from islice((one for one in told if any(map(str.isalpha, one))), _TOLD)


def sentences_of(text: str) -> list[str]:
    """The sentences and lines of a text that say something."""
    return [one for one in _SENTENCE.split(text) if one.strip()]


def passages(text: str) -> list[str]:
    """Each sentence, and each three that follow each other: neither hides among others."""
    sentences = sentences_of(text)
    runs = [
        "\n".join(sentences[place : place + TOGETHER])
        for place in range(max(1, len(sentences) - TOGETHER + 1))
    ]
    return list(dict.fromkeys((*sentences, *runs))) if sentences else []


def features(text: str, voice: Voice) -> frozenset[str]:
    """What counts of a text: its words, alone and in pairs, and whose word it is."""
    found = (name for one in sentences_of(text) for name, _ in _features(one))
    return frozenset((f"@{voice}", *found))


@lru_cache(maxsize=2_000)
def _features(sentence: str) -> tuple[tuple[str, str], ...]:
    """What counts of a sentence, each as it is named and as it is written."""
    words = [(one[:_STEM].lower(), one) for one in _words(sentence)]
    pairs = [(f"{one[0]} {other[0]}", f"{one[1]} {other[1]}") for one, other in pairwise(words)]
    return (*words, *pairs, *((f"^{name}", written) for name, written in words[:1]))


def _words(text: str) -> list[str]:
    for pattern, kind in _CLASSES:
        text = pattern.sub(kind, text)
    return _WORD.findall(spaced(text))


def scored(weights: Mapping[str, float], found: frozenset[str]) -> float:
    """The score of these features; what has no weight counts for nothing, and dilutes the rest."""
    return weights[BIAS] + sum(weights.get(one, 0.0) for one in found) / math.sqrt(len(found))


def written(weights: Mapping[str, float]) -> str:
    """Weights as they ship: a line each, by name."""
    return "".join(f"{name}\t{weight:g}\n" for name, weight in sorted(weights.items()))


def read(lines: Iterable[str]) -> Iterator[tuple[str, float]]:
    """Weights as `written` writes them."""
    for line in lines:
        name, weight = line.rstrip("\n").split("\t")
        yield name, float(weight)


@cache
def shipped() -> Mapping[str, float]:
    """The weights that ship, by feature."""
    return dict(read(files(__package__).joinpath("likeness.tsv").read_text("utf-8").splitlines()))
