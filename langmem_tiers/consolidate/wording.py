"""The words of a text as the rules compare them: in order, without case and what says little."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple
from unicodedata import normalize

from langmem_tiers.consolidate.lexicon import (
    NUMBERS,
    OPPOSITES,
    SAME,
    SLIGHT,
    SLIGHT_PHRASES,
    UNITS,
    WEEKDAYS,
)


class Word(NamedTuple):
    """One word. Two are the same if `form` is, or `sense`, unless both are names."""

    form: str
    """As it is written, without case."""
    sense: str
    """Without an ending, or what stands for all that mean the same."""
    name: bool = False
    """Whether it begins with a capital, in a text that knows small letters."""
    exact: bool = False
    """A number or an identifier: every character counts."""
    definite: bool = False
    """Whether "the", "my" or "our" stands before it."""
    comma: bool = False
    """Whether a comma follows."""


_EDGES = '.,;:!?。、"()[]{}<>…“”«»¿¡*`'
_APOSTROPHES = re.compile(r"[\u2018\u2019\u02bc]")
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]")
_BULLET = re.compile(r"^\s*(?:[-*•–—]|\d{1,2}[.)])\s+")
_PREFIX = re.compile(
    r"^\W*(?:(?:please\s+)?(?:remember|note|keep in mind|bear in mind|be aware|don't forget|"
    r"recall|mind)(?:\s+that\b\s*[,:]?|\s*[:,]|\s+this\s*:)|"
    r"(?:just\s+)?so (?:that )?you know\s*[:,]|"
    r"(?:fyi|for your information|for the record|for (?:future )?reference|reminder|note to self|"
    r"important|attention|info|tip|heads[ -]up|as a reminder|good to know|nb|btw|by the way|"
    r"to remember|update|correction|memo|actually|it is worth noting that|worth noting)\s*[:,–—-]|"
    r"actually\b|please note that\b)\s*",
    re.IGNORECASE,
)
_CONTRACTIONS = (
    (re.compile(r"\bwon't\b", re.IGNORECASE), "will not"),
    (re.compile(r"\b(?:can't|cannot)\b", re.IGNORECASE), "can not"),
    (re.compile(r"n't\b", re.IGNORECASE), " not"),
    (re.compile(r"\b(it|that|there|what|he|she|here|who)'s\b", re.IGNORECASE), r"\1 is"),
    (re.compile(r"'re\b", re.IGNORECASE), " are"),
    (re.compile(r"'ve\b", re.IGNORECASE), " have"),
    (re.compile(r"'ll\b", re.IGNORECASE), " will"),
    (re.compile(r"\bi'm\b", re.IGNORECASE), "I am"),
    (re.compile(r"\b(any) more\b", re.IGNORECASE), r"\1more"),
)
_NUMBER = re.compile(r"([$€£]?\d+(?:[.,:]\d+)*)([a-z%]*)")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_CODE = re.compile(r"[\d_/@\\=+#]|\w\.\w|::")
_DEFINITE = frozenset(("the", "my", "our", "your"))
_SHORT = 3
_LONGEST = max(len(one) for one in SAME)
_MOST_PREFIXES = 20


def bare(text: str) -> str:
    """Without bullets and what merely asks to remember; with contractions written out."""
    text = _APOSTROPHES.sub("'", normalize("NFKC", text)).strip()
    text = _BULLET.sub("", text)
    for _ in range(_MOST_PREFIXES):
        rest = _PREFIX.sub("", text)
        if rest == text or not rest.strip(_EDGES + " "):
            break
        text = rest
    text = " ".join(text.split())
    for pattern, full in _CONTRACTIONS:
        text = pattern.sub(full, text)
    return text


@lru_cache(maxsize=4096)
def read(text: str) -> tuple[Word, ...]:
    """Every word that says something."""
    return tuple(_sensed(tuple(_raw(bare(text)))))


@lru_cache(maxsize=4096)
def plain(text: str) -> tuple[Word, ...]:
    """Every word that says something, phrases word by word."""
    return tuple(
        one._replace(sense=SAME.get((one.form,), one.sense))
        for place, one in enumerate(_raw(bare(text)))
        if not _slight(one, place)
    )


def _slight(word: Word, place: int) -> bool:
    """Whether a word says little; a capital A within a sentence is a name."""
    return word.form in SLIGHT and not (place and word.name and word.form == "a")


def _raw(text: str) -> Iterator[Word]:
    spaced = _UNSPACED.sub(r" \g<0> ", text).split()
    cased = any(map(str.islower, text)) and any(map(str.isupper, text))
    definite = False
    for piece in spaced:
        said = piece.strip(_EDGES)
        owned = said[-2:].casefold() == "'s" or (said.endswith("s'") and len(said) > _SHORT)
        said = said.removesuffix(said[-2:] if said[-2:].casefold() == "'s" else "'").strip("'-–—")
        if not said:
            continue
        comma = piece[-1] in ",;:" and not owned
        folded = said.casefold()
        name = cased and said[0].isupper()
        words = list(_split(folded, name=name))
        for number, word in enumerate(words):
            last = number == len(words) - 1
            yield word._replace(definite=definite and number == 0, comma=comma and last)
        if owned:
            yield Word("'s", "'s", comma=piece[-1] in ",;:")
        definite = folded in _DEFINITE


def _split(folded: str, *, name: bool) -> Iterator[Word]:
    """A number and its unit are two words."""
    if found := _NUMBER.fullmatch(folded):
        number, unit = _THOUSANDS.sub("", found[1]), found[2]
        if not unit or unit in UNITS:
            yield Word(number, number, exact=True)
            if unit:
                yield Word(unit, _unit(unit))
            return
    if _CODE.search(folded):
        yield Word(folded, folded, name=name, exact=True)
    elif folded in NUMBERS:
        yield Word(NUMBERS[folded], NUMBERS[folded], exact=True)
    else:
        yield Word(folded, _unit(folded) if folded in UNITS else stem(folded), name=name)


def _unit(name: str) -> str:
    dimension, factor = UNITS[name]
    return f"{factor:g} {dimension}"


def stem(word: str) -> str:
    """Without the ending of a plural or a third person. Weekdays keep theirs: it tells habits."""
    if len(word) <= _SHORT or word in WEEKDAYS or word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ies") and len(word) > _SHORT + 1:
        return word[:-3] + "y"
    if word.endswith(("ses", "xes", "ches", "shes", "zes")):
        return word[:-2]
    return word.removesuffix("s")


def _sensed(words: Sequence[Word]) -> Iterator[Word]:
    """Phrases of one sense become one word; what says little is left out."""
    place = 0
    while place < len(words):
        length, sense = _phrase(words, place)
        last = words[place + length - 1]
        if sense is None:
            pass
        elif length == 1:
            yield words[place]._replace(sense=sense)
        else:
            form = " ".join(one.form for one in words[place : place + length])
            yield Word(form, sense, comma=last.comma)
        place += length


def _phrase(words: Sequence[Word], place: int) -> tuple[int, str | None]:
    """How many words from here belong together, and their sense; None if they say little."""
    for length in range(min(_LONGEST, len(words) - place), 0, -1):
        forms = tuple(one.form for one in words[place : place + length])
        if forms in SLIGHT_PHRASES or (length == 1 and _slight(words[place], place)):
            return length, None
        if forms in SAME:
            return length, SAME[forms]
    return 1, words[place].sense


def asks(text: str) -> bool:
    """Whether it ends with a question mark, whatever closes after it."""
    return text.rstrip(_EDGES.replace("?", "") + "' ").endswith("?")


def sentences(text: str) -> list[str]:
    """Its sentences, with their marks."""
    return [one for one in re.split(r"(?<=[.!?])\s+|\n+", text.strip()) if one.strip(_EDGES + " -")]


def alike(one: Word, other: Word) -> bool:
    """Whether two words say the same."""
    if one.form == other.form:
        return True
    if one.exact or other.exact:
        return False
    named = one.name and other.name
    return one.sense == other.sense and (not named or _known(one, other))


def _known(one: Word, other: Word) -> bool:
    """Whether a table says that they are the same: then none of them is a name."""
    return (one.form,) in SAME and (other.form,) in SAME


def slip(one: str, other: str) -> bool:
    """Whether one word is the other with two letters swapped, or one left out, added or mistaken.

    Short words differ by one letter too easily, and first letters are hardly ever wrong.
    """
    if (
        frozenset((one, other)) in OPPOSITES
        or min(len(one), len(other)) < _SLIP_LETTERS
        or one[0] != other[0]
    ):
        return False
    if len(one) > len(other):
        one, other = other, one
    if len(one) == len(other):
        wrong = [
            place for place, pair in enumerate(zip(one, other, strict=True)) if len({*pair}) > 1
        ]
        if len(wrong) == 1:
            return len(one) >= _MISTAKEN_LETTERS
        swapped = len(wrong) == 2 and wrong[1] == wrong[0] + 1  # noqa: PLR2004 - two letters
        return swapped and one[wrong[0]] == other[wrong[1]] and one[wrong[1]] == other[wrong[0]]
    if len(other) - len(one) > 1 or (other == one + "s" and one[-1] != "s"):
        return False
    return any(other[:place] + other[place + 1 :] == one for place in range(1, len(other)))


_SLIP_LETTERS, _MISTAKEN_LETTERS = 5, 6
"""Letters of a word in which a slip is believed; in which one letter may be mistaken."""
