"""Whether what one project learned is for everybody, and which words of it identify somebody.

Nothing here knows a name. What a word is, is seen by how it is written and where it occurs: often
in the project and nowhere else. Linear models weigh that; benchmarks/fit_private.py fits them
on what several hands wrote, and says what they find of what a hand left out wrote.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from operator import mul
from typing import Any, Final, NamedTuple
from zlib import crc32

from langmem_tiers.core.reading import ends_of, stem, words
from langmem_tiers.learn.generalise import NAME, abstracted

IDENTIFIES: Final = 0.03
"""The chance from which on a word is taken to identify somebody. It is low, as what is told to all
cannot be taken back: docs/learning.md has what is found, and what is masked that was harmless."""
LIKELY: Final = 0.1
"""The chance from which on a word counts in what is seen of its text."""
GENERAL: Final = 0.9
"""The chance from which on a text is held to name nobody, and left as it is."""
SURELY: Final = 0.5
"""The chance from which on a model that says it in general words is told to leave a word out."""
BOUND: Final = 0.19
"""The chance up to which a text is not held to be about its project alone: of those that are, about
nine in ten have more."""

_TOKEN: Final = re.compile(r"[^\W_]+(?:[-_.:@/+]+[^\W_]+)*|_\w+")
_PART: Final = re.compile(r"[A-Z]?[^\W\d_A-Z]+|[A-Z]+|\d+")
_STARTS: Final = re.compile(r"(?:\A|[.!?:;\n]\s{0,8}[\"'(]{0,8})\Z")
_LOOKED_BACK: Final = 8
"""Characters before a word in which the end of another sentence is sought."""
_OFTEN: Final = 3
"""So often counts as often."""
_LONG: Final = 20
_NUMBERED: Final = 5
"""Digits of a number that identifies by itself; what a shorter one says is what was learned, but
behind a name: `bed 12`."""
_FIRST: Final = 6
"""Words at the beginning and at the end of a text that are looked at by themselves."""
HASHED: Final = 1024
"""Places that stems share: which words stand in a text that is about its project alone."""


class Token(NamedTuple):
    """A word of a text, with what joins its parts: `orders_db-2.internal`."""

    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Occurrences:
    """In how many texts words occur: in those of a project, and in the tenant's others."""

    own: Mapping[str, int]
    others: Mapping[str, int]
    small: frozenset[str]
    """Words that occur in lower case anywhere."""
    titled: frozenset[str]
    """Those, in lower case, that occur with a capital within a sentence."""

    @classmethod
    def of(cls, own: Iterable[str], others: Iterable[str]) -> Occurrences:
        """Count the words of these texts, whole and by their parts."""
        small, titled = set[str](), set[str]()
        here, elsewhere = (_counted(several, small, titled) for several in (own, others))
        return cls(here, elsewhere, frozenset(small), frozenset(titled))


def _counted(texts: Iterable[str], small: set[str], titled: set[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for text in texts:
        every = tokens(text)
        found = {one.text for one in every}
        small |= {one for one in found if one.islower()}
        capitals = (one for one in every if one.text[0].isupper())
        titled |= {one.text.lower() for one in capitals if not _begins(text, one)}
        for one in {each for token in found for each in (token.lower(), *_parts(token))}:
            counts[one] = counts.get(one, 0) + 1
    return counts


def tokens(text: str) -> list[Token]:
    """The words of a text in order."""
    return [Token(found[0], *found.span()) for found in _TOKEN.finditer(text)]


def _begins(text: str, one: Token) -> bool:
    """Whether a word stands where a sentence begins."""
    return bool(_STARTS.search(text, max(0, one.start - _LOOKED_BACK), one.start))


def _parts(word: str) -> list[str]:
    return [one.lower() for one in _PART.findall(word)]


# ---- which words identify -------------------------------------------------------------------


def features(
    text: str, known: Occurrences, names: Iterable[str]
) -> Iterator[tuple[Token, Mapping[str, float]]]:
    """What is seen of each word of a text; the names are those of its project and tenant."""
    found = tokens(text)
    named = {part for one in names for part in _parts(one)}
    starts = [_begins(text, one) for one in found]
    inner = [one.text[0].isupper() for one, first in zip(found, starts, strict=True) if not first]
    titled = sum(inner) / max(1, len(inner))
    for place, (one, first) in enumerate(zip(found, starts, strict=True)):
        before = _beside(text, found, place - 1, place)
        after = _beside(text, found, place + 1, place)
        written = _written(one.text, text[one.start - 1 : one.start], before, after, first=first)
        yield (
            one,
            {
                **written,
                "titled": written["inner_capital"] * titled,
                "capital_where_few": one.text[0].isupper() * (1 - titled),
                **_occurs(one.text, known, named, written),
            },
        )


def _beside(text: str, found: Sequence[Token], place: int, of: int) -> str:
    """The word that stands right before or after, with but space between; empty if none does."""
    if not 0 <= place < len(found):
        return ""
    first, last = sorted((found[place], found[of]), key=lambda one: one.start)
    return "" if text[first.end : last.start].strip() else found[place].text


def _written(word: str, sign: str, before: str, after: str, *, first: bool) -> dict[str, float]:
    capital, digit = word[0].isupper(), any(map(str.isdigit, word))
    seen = {
        "bias": True,
        "inner_capital": capital and not first,
        "first_capital": capital and first,
        "capitals": word.isupper() and len(word) > 1 and not digit,
        "with_digit": digit and not word.isdigit(),
        "number": word.isdigit(),
        "long_number": word.isdigit() and len(word) > _OFTEN,
        "camel": any(map(str.isupper, word[1:])) and not word.isupper(),
        "underscore": "_" in word,
        "hyphen": "-" in word,
        "dot": "." in word,
        "path": any(one in word for one in "/@:"),
        "beyond_ascii": not word.isascii(),
        "other_script": not word.isascii() and not re.search("[A-Za-z]", word),
        "length": min(len(word), _LONG) / 10,
        "after_capital": before[:1].isupper(),
        "before_capital": after[:1].isupper(),
        "capitals_before": before[:1].isupper() and capital,
        "capitals_after": after[:1].isupper() and capital,
        "after_digit": any(map(str.isdigit, before)),
        "before_digit": any(map(str.isdigit, after)),
        "quoted": sign in ('"', "'", "`", "(") and bool(sign),
    }
    return {name: float(one) for name, one in seen.items()}


def _occurs(
    word: str, known: Occurrences, named: set[str], written: Mapping[str, float]
) -> dict[str, float]:
    capital, first = written["inner_capital"], bool(written["first_capital"])
    plain, parts = word.lower(), _parts(word) or [word.lower()]
    own, others = known.own.get(plain, 0), known.others.get(plain, 0)
    only_here = own > 0 and not others
    coded = "_" in word or "-" in word or any(map(str.isdigit, word))
    part_here = any(known.own.get(one, 0) and not known.others.get(one, 0) for one in parts)
    seen = {
        "own": min(_OFTEN, own),
        "others": min(_OFTEN, others),
        "only_here": only_here,
        "only_here_capital": only_here * capital,
        "only_here_coded": only_here and coded,
        "common": plain in common(),
        "common_capital": (plain in common()) * capital,
        "common_first": plain in common() and first,
        "parts_common": all(one in common() for one in parts),
        "titled_elsewhere": plain in known.titled,
        "titled_elsewhere_first": plain in known.titled and first,
        "small_elsewhere": plain in known.small,
        "small_elsewhere_capital": (plain in known.small) * capital,
        "parts_own": min(_OFTEN, max(known.own.get(one, 0) for one in parts)),
        "part_only_here": part_here and not word.islower(),
        "of_the_name": any(one in named for one in parts),
        "new_capital": (own == 0) * capital,
        "new": own == 0 and others == 0,
    }
    return {name: float(one) for name, one in seen.items()}


# ---- whether a text is bound ----------------------------------------------------------------


def text_features(chances: Sequence[float], content: str) -> dict[str, float]:
    """What is seen of a text by the chances of its words, and by its words without those."""
    sure = [one >= SURELY for one in chances]
    likely = [one >= LIKELY for one in chances]
    first, last = chances[:_FIRST], chances[-_FIRST:]
    highest = sorted(chances, reverse=True)[:_OFTEN]
    seen: dict[str, float] = {
        "bias": 1.0,
        "likely": sum(likely) / 5,
        "expected": sum(chances) / 3,
        "share": 3 * sum(likely) / max(1, len(chances)),
        "sure": float(any(sure)),
        "highest": max(chances, default=0.0),
        "three": sum(highest) / _OFTEN,
        "at_once": float(any(likely[:1])),
        "soon": float(any(likely[:4])),
        "words": len(chances) / 40,
        "first": max(first, default=0.0),
        "last": max(last, default=0.0),
        "nobody": float(not any(likely)),
    }
    return seen | _hashed(content)


def _hashed(content: str) -> dict[str, float]:
    """Stems by their places, as a vector of length 3."""
    counts: dict[str, float] = {}
    for one in words(content):
        place = f"#{crc32(stem(one).encode()) % HASHED}"
        counts[place] = counts.get(place, 0.0) + 1
    length = math.sqrt(sum(map(mul, counts.values(), counts.values()))) or 1.0
    return {place: 3 * one / length for place, one in counts.items()}


# ---- the verdict ----------------------------------------------------------------------------


class Verdict(NamedTuple):
    """What of a text identifies somebody, and how likely it is about its project alone."""

    bound: float
    """In 0…1."""
    general: float
    """How likely it is for everybody as it stands, in 0…1."""
    identifying: Mapping[str, float]
    """Words as they stand there, with the chance that they identify somebody."""
    words: int
    """How many there are, each counted once."""

    def stays(self, most: float = BOUND) -> bool:
        """Whether it is about its project alone, or hardly half of its words would be left."""
        bound = self.bound > most and self.general < GENERAL
        return bound or 2 * len(self.private) > self.words

    @property
    def private(self) -> list[str]:
        """The words to leave out; none of what names nobody."""
        return [] if self.general >= GENERAL else sorted(self.identifying)

    @property
    def sure(self) -> list[str]:
        """The words that most likely identify somebody."""
        return sorted(one for one, chance in self.identifying.items() if chance >= SURELY)


@dataclass(frozen=True, slots=True)
class PrivateWeights:
    """What `benchmarks/fit_private.py` fitted."""

    words: Mapping[str, float]
    bound: Mapping[str, float]
    general: Mapping[str, float]


@cache
def common() -> frozenset[str]:
    """Words that three hands or more wrote in lower case, in texts on everything and nothing.

    `benchmarks/fit_private.py` counts them: where a tenant's own texts are few, they are what a
    word is compared with.
    """
    return frozenset(files(__package__).joinpath("common.txt").read_text("utf-8").split())


@cache
def shipped() -> PrivateWeights:
    """The weights that ship with the package."""
    return PrivateWeights(
        **json.loads(files(__package__).joinpath("private.json").read_text("utf-8"))
    )


def judged(
    text: str, names: Sequence[str], known: Occurrences, weights: PrivateWeights | None = None
) -> Verdict:
    """The verdict on a text; the names are those of its project and tenant."""
    fitted = weights or shipped()
    said = ends_of(text)
    chances = [
        (one.text, _chance(seen, fitted.words)) for one, seen in features(said, known, names)
    ]
    identifying: dict[str, float] = {}
    before = ""
    for word, chance in chances:
        if chance >= _least(word, known, named=before in identifying):
            identifying[word] = max(chance, identifying.get(word, 0.0))
        before = word
    told = masked(said, identifying)
    seen = text_features([chance for _, chance in chances], abstracted(told, names))
    return Verdict(
        _chance(seen, fitted.bound), _chance(seen, fitted.general), identifying, len(dict(chances))
    )


def _least(word: str, known: Occurrences, *, named: bool) -> float:
    """The chance from which on a word identifies: more, of what others say too.

    A small number that follows no name never does.
    """
    if word.isdecimal() and len(word) < _NUMBERED and not named:
        return 2.0
    plain = word.lower()
    everybodys = plain in common() and (word.islower() or plain not in known.titled)
    return LIKELY if everybodys or known.others.get(plain, 0) else IDENTIFIES


def _chance(seen: Mapping[str, float], weights: Mapping[str, float]) -> float:
    speaks = sum(one * weights.get(name, 0.0) for name, one in seen.items())
    return 1 / (1 + math.exp(-max(-700.0, speaks)))


def masked(given: Any, identifying: Iterable[str]) -> Any:
    """Whatever JSON can say, with `<name>` for these words wherever they stand as words."""
    known = frozenset(identifying)
    if isinstance(given, str):
        return _masked(given, known) if known else given
    if isinstance(given, list):
        return [masked(one, known) for one in given]
    if isinstance(given, Mapping):
        return {name: masked(one, known) for name, one in given.items()}
    return given


def _masked(text: str, known: frozenset[str]) -> str:
    """Words that stand next to each other have one placeholder."""
    pieces, end, put = list[str](), 0, False
    for one in tokens(text):
        if one.text not in known:
            continue
        between = text[end : one.start]
        if not (put and between.strip(" ") == ""):
            pieces += [between, NAME]
        put, end = True, one.end
    return "".join((*pieces, text[end:]))
