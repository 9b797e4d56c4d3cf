"""Sentences as words with their bases: what cues are compared on."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple
from unicodedata import normalize

from langmem_tiers.remind.cue_words import IRREGULAR, PHRASES

_TOKEN = re.compile(r"\d+(?:[.,]\d+)*|[^\W_]+(?:['-][^\W_]+)*|[,;:()]|[.!?…]+|\n+")
_END = re.compile(r"[.!?…\n]+")
_BREAK = re.compile(r"[,;:()]")
_CONTRACTIONS = {"won't": "will not", "can't": "can not", "cannot": "can not", "let's": "let us"}
_ENDINGS: Final = (
    ("n't", " not"),
    ("'ll", " will"),
    ("'ve", " have"),
    ("'re", " are"),
    ("'m", " am"),
    ("'d", " would"),
    ("s'", "s"),
)
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]")
_SHORT = re.compile(r"[^aeiou]?[aeiou][^aeiouwxy]")
"""What is left of "hoping", not of "hopping"."""
_VOWELS = frozenset("aeiouy")
_GAP = 3
"""Words that may stand between the words of a phrase: "brought the budget up"."""


class Word(NamedTuple):
    """A word of a sentence."""

    base: str
    """Without its ending, or what its phrase is read as."""
    named: bool = False
    """Whether it is written with a capital."""
    owner: bool = False
    """Whether it says whose something is."""
    form: str = ""
    """As it is written, in lower case."""


Clause = tuple[Word, ...]


class Sentence(NamedTuple):
    """A sentence as its clauses."""

    clauses: tuple[Clause, ...]
    asks: bool

    @property
    def words(self) -> Clause:
        """All of its words."""
        return tuple(word for clause in self.clauses for word in clause)


@lru_cache(maxsize=4096)
def base(word: str) -> str:
    """A word in lower case without the endings of its forms."""
    word = IRREGULAR.get(word, word)
    if len(word) < 4 or not word.isalpha():  # noqa: PLR2004 - too short to have an ending
        return word
    for ending, instead in (("ies", "y"), ("ied", "y"), ("ying", "y")):
        if word.endswith(ending) and len(word) > len(ending) + 1:
            return word.removesuffix(ending) + instead
    bare = _without_ending(word)
    return IRREGULAR.get(bare, bare)


def _without_ending(word: str) -> str:
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
        if word.endswith(("she", "che", "sse", "xe", "zze", "oe")):
            word = word[:-1]
    for ending in ("ing", "ed"):
        stem = word.removesuffix(ending)
        if stem != word and not word.endswith("eed") and len(stem) > 1 and _VOWELS & set(stem):
            word = f"{stem}e" if _SHORT.fullmatch(stem) else stem
            break
    for ending in ("ment", "ion", "al"):
        stem = word.removesuffix(ending)
        if stem != word and len(stem) > 2 and (ending != "al" or stem[-1] in "vsw"):  # noqa: PLR2004
            return _bare(stem)
    return _bare(word)


def _bare(word: str) -> str:
    """Without a doubled consonant, or the e of all but short words."""
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "aeiou":  # noqa: PLR2004
        return word[:-1]
    return word.removesuffix("e") if len(word) > 4 else word  # noqa: PLR2004 - not "here", "note"


@lru_cache(maxsize=1024)
def read(text: str) -> tuple[Sentence, ...]:
    """The sentences of a text, those that say something."""
    text = _UNSPACED.sub(
        r" \g<0> ", normalize("NFKC", text).replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    )
    found: list[Sentence] = []
    clauses: list[list[Word]] = [[]]
    for token in [*_TOKEN.findall(text), "."]:
        if _END.fullmatch(token):
            said = tuple(_phrased(one) for one in clauses if one)
            if said:
                found.append(Sentence(said, asks="?" in token))
            clauses = [[]]
        elif _BREAK.fullmatch(token):
            clauses.append([])
        else:
            clauses[-1] += _word(token)
    return tuple(found)


def _word(token: str) -> list[Word]:
    named = token[:1].isupper()
    lower = token.lower()
    owner = lower.endswith("'s")
    lower = lower.removesuffix("'s")
    spelled = _CONTRACTIONS.get(lower, lower)
    for ending, instead in _ENDINGS:
        if spelled.endswith(ending):
            spelled = spelled.removesuffix(ending) + instead
    forms = spelled.replace(",", "").split()
    return [
        Word(base(form), named and place == 0, owner and place == len(forms) - 1, form)
        for place, form in enumerate(forms)
    ]


def _phrased(words: list[Word]) -> Clause:
    """The words with each phrase read as one word, where its first word stands."""
    said = frozenset(word.base for word in words)
    for phrase, joined in _BASED:
        if not said.issuperset(phrase):
            continue
        place = 0
        while place < len(words):
            taken = _taken(words, place, phrase)
            if taken:
                first = words[place]._replace(base=joined)
                gone = set(taken[1:])
                words = [
                    first if n == place else word for n, word in enumerate(words) if n not in gone
                ]
            place += 1
    return tuple(words)


def _taken(words: list[Word], place: int, phrase: tuple[str, ...]) -> list[int]:
    """Where the words of a phrase are that begins here; nothing if none does."""
    taken: list[int] = []
    for part in phrase:
        start = taken[-1] + 1 if taken else place
        until = start + (_GAP if len(taken) == 1 and len(phrase) == 2 and _parted(phrase) else 1)  # noqa: PLR2004
        here = [n for n in range(start, min(until, len(words))) if words[n].base == part]
        if not here:
            return []
        taken.append(here[0])
    return taken


def _parted(phrase: tuple[str, ...]) -> bool:
    return phrase[-1] in {"up", "off", "on", "in", "out", "back", "down"} and phrase[0] != "be"


_BASED = tuple(
    (tuple(base(word) for word in words), base(joined))
    for words, joined in sorted(PHRASES, key=lambda one: -len(one[0]))
)
