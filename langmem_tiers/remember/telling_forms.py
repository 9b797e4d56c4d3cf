"""The words of a clause in a normal form: without endings, numbers and dates written one way.

Articles, auxiliaries and pronouns are left out, "I" and "the user" are one, and a preposition
belongs to the word after it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from langmem_tiers.core.reading import words as words_of
from langmem_tiers.remember.telling_words import (
    BE,
    CLAUSES,
    MONTHS,
    NUMBERS,
    ORDINALS,
    PARTICIPLES,
    PREPOSITIONS,
    SAME,
    SCALES,
    SELF,
    SLIGHT,
    STRICT,
    TURNING,
)

_PAIR: Final = 2
_MONTH: Final = "|".join(sorted(MONTHS, key=len, reverse=True))
_DATES: Final = (
    re.compile(r"\b(?P<y>\d{4})-(?P<m>\d\d)-(?P<d>\d\d)(?:[t ]\d\d:\d\d(?::\d\d)?z?)?\b"),
    re.compile(r"\b(?P<d>\d{1,2})\.(?P<m>\d{1,2})\.(?P<y>\d{4})\b"),
    re.compile(
        rf"\b(?P<d>\d{{1,2}})(?:st|nd|rd|th)?\.?(?: of)? (?P<m>{_MONTH})\b(?:,? (?P<y>\d{{4}})\b)?"
    ),
    re.compile(
        rf"\b(?P<m>{_MONTH})\.? (?:the )?(?P<d>\d{{1,2}})(?:st|nd|rd|th)?\b(?:,? (?P<y>\d{{4}})\b)?"
    ),
    re.compile(rf"\b(?P<m>{_MONTH}),? (?P<y>\d{{4}})\b"),
)
_CONTRACTED: Final = (
    (re.compile(r"\bcan't\b"), "can not"),
    (re.compile(r"\bwon't\b"), "will not"),
    (re.compile(r"n't\b"), " not"),
    (re.compile(r"'ll\b"), " will"),
    (re.compile(r"'s got\b"), " has"),
    (re.compile(r"(?<=\w)'(?:s|re|ve|d|m)\b|(?<=s)'(?=\s)"), ""),
)
_AMOUNTS: Final = (
    (re.compile(r"€ ?(\d[\d.,]*\d|\d)"), r"\1 euro"),
    (re.compile(r"\$ ?(\d[\d.,]*\d|\d)"), r"\1 dollar"),
    (re.compile(r"£ ?(\d[\d.,]*\d|\d)"), r"\1 pound"),
    (re.compile(r"(?<=\d) ?%"), " percent"),
    (re.compile(r"(?<=\d) ?€"), " euro"),
    (re.compile(r"> ?(?=\d)"), "more than "),
    (re.compile(r"< ?(?=\d)"), "less than "),
    (re.compile(r"\b(\d{1,2}) ?am\b"), r"\1:00"),
    (re.compile(r"(?<=\d),(?=\d{3}\b)"), ""),
)
_ONE: Final = re.compile(r"\bone (?=(?:can|could|may|must|should|will|would)\b)")
_DIGIT: Final = re.compile(r"\d")
_PM: Final = re.compile(r"\b(\d{1,2}) ?pm\b")
_UNIT: Final = re.compile(r"(\d+(?:[.,:]\d+)*)([a-z%€$£]+)")
_HYPHEN: Final = re.compile(r"(?<=[a-z])-(?=[a-z])")
_SHORT: Final = 4
_TEN: Final = 10


class Word(NamedTuple):
    """One word, the preposition before it, and whether a phrase may begin with it."""

    text: str
    at: str = ""
    joint: bool = False
    name: int = 0
    """Whether it has a capital: 1 for the first word of a sentence, 2 for another."""
    starts: bool = False
    """Whether a later clause begins with it."""
    raw: str = ""
    """As it is written."""

    @property
    def named(self) -> bool:
        """Whether it is a name for certain."""
        return self.name > 1


Words = tuple[Word, ...]


def lowered(text: str) -> str:
    """The text in small letters: dates, amounts and what is contracted written one way."""
    text = text.casefold().replace("cannot", "can not")
    text = _ONE.sub("", text)
    if "'" in text:
        for pattern, full in _CONTRACTED:
            text = pattern.sub(full, text)
    if not _DIGIT.search(text):
        return text
    for pattern in _DATES:
        text = pattern.sub(_dated, text)
    for pattern, full in _AMOUNTS:
        text = pattern.sub(full, text)
    return _PM.sub(lambda found: f"{int(found[1]) % 12 + 12}:00", text)


def _dated(found: re.Match[str]) -> str:
    given = found.groupdict()
    month = given["m"]
    number = int(month) if month.isdigit() else MONTHS[month]
    year = f" y_{given['y']}" if given.get("y") else ""
    day = f" d_{int(given['d'])}" if given.get("d") else ""
    return f"m_{number}{day}{year} "


def words_in(piece: str, names: Mapping[str, int]) -> tuple[Words, int | None]:
    """The words of a clause, and which of them is a passive verb."""
    made: list[Word] = []
    passive: int | None = None
    at, joint, being, dated = "", True, False, False
    for raw in _numbered(words_of(_HYPHEN.sub(" ", piece))):
        if raw in PREPOSITIONS:
            if raw != "of" or at not in STRICT:
                at = raw if raw != "till" else "until"
            joint, being = True, False
            continue
        if raw in BE:
            being = True
        if raw in SLIGHT or raw in CLAUSES - _ORDERED:
            continue
        if (
            being
            and passive is None
            and (raw in PARTICIPLES or (raw.endswith("ed") and len(raw) >= _SHORT))
        ):
            passive = len(made)
        word = "self" if raw in SELF else base(raw)
        is_date = raw[1:2] == "_"
        made.append(Word(word, at, joint or dated or word in _JOINTS, names.get(raw, 0), raw=raw))
        at, joint, dated = "", False, is_date
        being = being and raw in TURNING
    return tuple(made), passive


_JOINTS: Final = frozenset(("self", "if", "because"))
_ORDERED: Final = frozenset(("then", "while", "whereas"))


def active(words: Words, verb: int) -> Words:
    """A passive clause as the active one: who does it, what is done, to whom."""
    subject = [one for one in words[:verb] if one.text not in TURNING]
    modal = [one for one in words[:verb] if one.text in TURNING]
    rest = list(words[verb + 1 :])
    by = next(
        (n for n, one in enumerate(rest) if one.at == "by" and not one.text[0].isdigit()), None
    )
    agent: list[Word] = []
    if by is not None:
        end = next((n for n in range(by + 1, len(rest)) if rest[n].joint), len(rest))
        agent = [rest[by]._replace(at=""), *rest[by + 1 : end]]
        del rest[by:end]
    return (*agent, *modal, words[verb], *subject, *rest)


def _numbered(words: Sequence[str]) -> Iterator[str]:
    """The words, with numbers in figures and without units that hang on them."""
    number: int | None = None
    for one in words:
        grown = _grown(number, one)
        if grown is None and number is not None:
            yield str(number)
        number = NUMBERS.get(one) if grown is None else grown
        if number is None:
            yield from _figures(one)
    if number is not None:
        yield str(number)


def _grown(number: int | None, word: str) -> int | None:
    """The number that goes on with this word: "twenty" and "five"."""
    if word in SCALES:
        return SCALES[word] * (1 if number is None else number)
    value = NUMBERS.get(word)
    if number is None or value is None:
        return value
    return number + value if number >= 2 * _TEN and not number % _TEN and value < _TEN else None


def _figures(one: str) -> Iterator[str]:
    found = _UNIT.fullmatch(one)
    if found is None:
        yield ORDINALS.get(one, one.split("'", maxsplit=1)[0])
    elif found[2] in ("st", "nd", "rd", "th"):
        yield f"#{found[1]}"
    else:
        yield found[1]
        yield found[2]


@lru_cache(maxsize=8192)
def base(word: str) -> str:
    """A word without the ending of a plural, a person or a tense."""
    word = SAME.get(word, word)
    if not word.isascii() or not word.isalpha() or len(word) < _SHORT or word in TURNING:
        return word
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
        if word.endswith("ie") and len(word) > _SHORT:
            word = word[:-2] + "y"
        elif word.endswith(("sse", "xe", "che", "she", "ze")):
            word = word[:-1]
    for ending in ("ing", "ed"):
        stem = word.removesuffix(ending)
        if stem != word and len(stem) > 1 and any(one in "aeiouy" for one in stem):
            return _undone(stem)
    stem = word.removesuffix("e") if len(word) > _SHORT else word
    return word if stem in TURNING else stem


def _undone(stem: str) -> str:
    """The verb that a participle is of: "stopped" of "stop", "using" of "use", "tried" of "try"."""
    if len(stem) >= _SHORT and stem[-1] == stem[-2] and stem[-1] not in "lsz":
        return stem[:-1]
    if stem.endswith("i"):
        return stem[:-1] + "y"
    silent = len(stem) < _SHORT and stem[-1] not in "aeiouywx" and stem[-2] in "aeiouy"
    if silent and not (len(stem) > _PAIR and stem[-3] in "aeiou"):
        return stem + "e"
    return stem.removesuffix("e") if len(stem) > _SHORT else stem
