"""How much a text reads like attacks on a memory rather than like notes, learned from both.

A logistic regression over the words of a text, their pairs, the first word of each sentence (`^`),
and the concepts that a sentence speaks of and their pairs (`&`). Its weights ship as
`likeness.tsv`: they were fitted by `benchmarks/fit_likeness.py` on attacks and notes by many
authors, and are there to be read. How it fares with authors it has not seen: docs/gate.md.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from importlib.resources import files
from itertools import combinations, pairwise
from typing import Final, NamedTuple

from langmem_tiers.remember.injection_concepts import concepts_in
from langmem_tiers.remember.injection_words import Voice

BIAS: Final = "*"
"""The name of what is added to every sum; no word is called so."""
TOGETHER: Final = 3
"""Sentences that are read together: an order is given in a breath."""
ALIKE: Final = -1.0
"""The score from which on a text reads like an attack."""
HANDED_ON: Final = 0.5
"""The same for what a user pastes or quotes, who may well tell of an attack."""
UNLIKE: Final = -2.5
"""The score below which it reads like a note, though it has a sign or two of an attack."""
_SENTENCE: Final = re.compile("(?<=[.!?\u3002\uff01\uff1f])\\s+|\\n+")
_FEW: Final = 0.2
"""The share of a passage's features that have a weight, below which it is not judged."""
_LATIN_ENDS: Final = "\u0250"
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
    (
        re.compile(
            r"[$€£]\s?\d[\d.,]*|(?<![\d.,])\d[\d.,]{0,20}\s?(?:eur|usd|dollars|euros|gbp)\b",
            re.IGNORECASE,
        ),
        " 0sum ",
    ),
    (re.compile(r"\b\d\w*"), " 0 "),
)
"""What counts as one of its kind, whatever it is."""


class Likeness(NamedTuple):
    """How much a text reads like an attack, and where it does so most."""

    score: float
    """The logarithm of the odds, by the shares of the texts that it was fitted on."""
    passage: str
    """Up to three sentences."""
    known: bool
    """Whether it is in words that say something either way; texts in other languages are not."""


def likeness(text: str, voice: Voice) -> Likeness:
    """The passage of a text that reads most like an attack, of those in words that it knows."""
    several = (_likeness(one, voice) for one in passages(text))
    return max(several, key=lambda one: (one.known, one.score), default=_NOTHING)


def _likeness(passage: str, voice: Voice) -> Likeness:
    weights, found = shipped(), features(passage, voice)
    known = sum(one in weights for one in found) >= _FEW * len(found)
    return Likeness(scored(weights, found), passage, known and _in_latin_letters(passage))


def _in_latin_letters(text: str) -> bool:
    letters = [one for one in text if one.isalpha()]
    return sum(one < _LATIN_ENDS for one in letters) * 2 >= len(letters)


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
    """What counts of a text: its words and concepts, alone and in pairs, and whose word it is."""
    return frozenset({f"@{voice}"}).union(*map(_features, sentences_of(text)))


@lru_cache(maxsize=2_000)
def _features(sentence: str) -> frozenset[str]:
    words, concepts = _words(sentence), sorted(concepts_in(sentence))
    return frozenset(
        (
            *words,
            *map(" ".join, pairwise(words)),
            *(f"^{one}" for one in words[:1]),
            *(f"&{one}" for one in concepts),
            *(f"&{one}&{other}" for one, other in combinations(concepts, 2)),
        )
    )


def _words(text: str) -> list[str]:
    for pattern, kind in _CLASSES:
        text = pattern.sub(kind, text)
    return [one[:_STEM] for one in _WORD.findall(text.lower())]


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


_NOTHING: Final = Likeness(-math.inf, "", known=False)


@cache
def shipped() -> Mapping[str, float]:
    """The weights that ship, by feature."""
    return dict(read(files(__package__).joinpath("likeness.tsv").read_text("utf-8").splitlines()))
