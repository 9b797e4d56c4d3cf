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
from functools import cache
from importlib.resources import files
from itertools import combinations, pairwise
from typing import Final, NamedTuple

from langmem_tiers.remember.injection_concepts import concepts_in
from langmem_tiers.remember.injection_words import Voice

BIAS: Final = "*"
"""The name of what is added to every sum; no word is called so."""
TOGETHER: Final = 3
"""Sentences that are read together: an order is given in a breath."""
ALIKE: Final = -0.5
"""The score from which on a text reads like an attack."""
HANDED_ON: Final = 0.5
"""The same for what a user pastes or quotes, who may well tell of an attack."""
UNLIKE: Final = -2.0
"""The score below which it reads like a note, though it has a sign or two of an attack."""
_SENTENCE: Final = re.compile("(?<=[.!?\u3002\uff01\uff1f])\\s+|\\n+")
_FEW: Final = 0.2
"""The share of a passage's features that have a weight, below which it is not judged."""
_LATIN_ENDS: Final = "\u0250"
_STEM: Final = 6
"""Characters of a word that count."""
_WORD: Final = re.compile(r"\w+|[<>{}\[\]#:!?$/@%*|`=]")
_CLASSES: Final = (
    (re.compile(r"[^\s@]+@\S+"), " 0mail "),
    (
        re.compile(
            r"https?://\S+|\bwww\.\S+"
            r"|\b[\w-]+(?:\.[\w-]+){0,5}\.(?:com|net|org|io|example|dev|test|ai|co|info|biz)\b\S*",
            re.IGNORECASE,
        ),
        " 0url ",
    ),
    (
        re.compile(r"[$€£]\s?\d[\d.,]*|\d[\d.,]*\s?(?:eur|usd|dollars|euros|gbp)\b", re.IGNORECASE),
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
    """The passage of a text that reads most like an attack."""
    return max((_likeness(one, voice) for one in passages(text)), default=_NOTHING)


def _likeness(passage: str, voice: Voice) -> Likeness:
    weights, found = shipped(), features(passage, voice)
    known = sum(one in weights for one in found) >= _FEW * len(found)
    return Likeness(scored(weights, found), passage, known and _in_latin_letters(passage))


def _in_latin_letters(text: str) -> bool:
    letters = [one for one in text if one.isalpha()]
    return sum(one < _LATIN_ENDS for one in letters) * 2 >= len(letters)


def passages(text: str) -> list[str]:
    """A short text as it is; of a longer one every three sentences that follow each other."""
    sentences = [one for one in _SENTENCE.split(text) if one.strip()]
    if len(sentences) <= TOGETHER:
        return [text] if sentences else []
    return [
        " ".join(sentences[place : place + TOGETHER])
        for place in range(len(sentences) - TOGETHER + 1)
    ]


def features(text: str, voice: Voice) -> frozenset[str]:
    """What counts of a text: its words and concepts, alone and in pairs, and whose word it is."""
    found = {f"@{voice}"}
    for pattern, kind in _CLASSES:
        text = pattern.sub(kind, text)
    words = _words(text)
    found.update(words, map(" ".join, pairwise(words)))
    for sentence in _SENTENCE.split(text):
        found.update(f"^{one}" for one in _words(sentence)[:1])
        concepts = sorted(concepts_in(sentence))
        found.update(f"&{one}" for one in concepts)
        found.update(f"&{one}&{other}" for one, other in combinations(concepts, 2))
    return frozenset(found)


def _words(text: str) -> list[str]:
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


_NOTHING: Final = Likeness(-math.inf, "", known=True)


@cache
def shipped() -> Mapping[str, float]:
    """The weights that ship, by feature."""
    return dict(read(files(__package__).joinpath("likeness.tsv").read_text("utf-8").splitlines()))
