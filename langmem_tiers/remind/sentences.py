"""Sentences as words with their bases: what cues are compared on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple
from unicodedata import normalize

from langmem_tiers.core.reading import ends_of
from langmem_tiers.remind.cue_words import DETERMINERS
from langmem_tiers.remind.forms import BEFORE_STATES, CONTRACTED, IRREGULAR, PHRASES, UNBENT

_LOOKED_AT: Final = 50_000
"""Characters of a text that are read."""
_TOKEN = re.compile(r"\d+(?:[.,]\d+)*|[^\W_]+(?:['-][^\W_]+)*|[,;:()]|[.!?…]+|\n+")
_END = re.compile(r"[.!?…\n]+")
_BREAK = re.compile(r"[,;:()]")
_CONTRACTIONS = {
    "won't": "will not",
    "can't": "can not",
    "cannot": "can not",
    "let's": "let us",
}
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
_LONG_STEM = 4
_DERIVED: Final = (
    ("ication", 2, "y"),
    ("ation", _LONG_STEM, ""),
    ("ance", 5, ""),
    ("ence", 5, ""),
    ("ment", 3, ""),
    ("ion", 3, ""),
    ("al", 3, ""),
)
"""Endings of nouns of verbs, what is left at least, and what takes the ending's place."""
_PARTICLES = frozenset(["in", "up", "on", "to", "of", "by", "at", "off", "out"])
LONGEST = 100
"""Words of a sentence at most: what is longer is read as several. Our own choice; every rule looks
through a sentence, some of them for each of its words."""
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


def is_bent(word: Word) -> bool:
    """Whether it is a past form, or a participle that is like one."""
    return _is_bent(word.form)


@lru_cache(maxsize=4096)
def _is_bent(form: str) -> bool:
    bare = form.removeprefix("re")
    bent = form.endswith("ed") or bare in UNBENT
    return bent or any(IRREGULAR.get(one, one) != one for one in (form, bare))


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
    if word.startswith("re") and word[2:] in IRREGULAR:
        word = f"re{IRREGULAR[word[2:]]}"
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
            word = f"{stem}e" if _SHORT.fullmatch(stem) else _without_ate(f"{stem}e", stem)
            break
    for ending, least, instead in _DERIVED:
        stem = word.removesuffix(ending)
        if stem != word and len(stem) >= least and (ending != "al" or stem[-1] in "vsw"):
            return _bare(stem) + instead
    return _bare(_without_ate(word, word))


def _without_ate(word: str, otherwise: str) -> str:
    """What "migrate" and "migration" share."""
    stem = word.removesuffix("ate")
    shares = stem != word and len(stem) >= _LONG_STEM and stem[-1] not in "aeo"
    return stem if shares else otherwise


def _bare(word: str) -> str:
    """Without a doubled consonant, or the e of all but short words."""
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "aeiou":  # noqa: PLR2004
        return word[:-1]
    return word.removesuffix("e") if len(word) > 4 else word  # noqa: PLR2004 - not "here", "note"


@lru_cache(maxsize=1024)
def read(text: str) -> tuple[Sentence, ...]:
    """The sentences of a text, those that say something; of a long one, of both its ends."""
    text = ends_of(text, _LOOKED_AT)
    text = _UNSPACED.sub(
        r" \g<0> ", normalize("NFKC", text).replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    )
    found: list[Sentence] = []
    clauses: list[list[Word]] = [[]]
    shouted = text.isupper()
    for piece in [*_TOKEN.findall(text), "."]:
        if _END.fullmatch(piece):
            found += _sentences(clauses, asks="?" in piece)
            clauses = [[]]
        elif _BREAK.fullmatch(piece):
            if piece == ":" and len(clauses) == 1 and all(word.named for word in clauses[0]):
                clauses[0].append(Word("say", form="says"))  # a transcript: "Anna: …"
            clauses.append([])
        else:
            clauses[-1] += _words(piece, shouted=shouted)
    return tuple(found)


def _sentences(clauses: list[list[Word]], *, asks: bool) -> Iterator[Sentence]:
    """The sentence of these clauses; several if it is too long to be looked through as one."""
    said: list[Clause] = []
    count = 0
    for clause in clauses:
        for start in range(0, len(clause), LONGEST):
            words = clause[start : start + LONGEST]
            if count + len(words) > LONGEST:
                yield Sentence(tuple(said), asks)
                said, count = [], 0
            said.append(_phrased(_spelled_out(words)))
            count += len(words)
    if said:
        yield Sentence(tuple(said), asks)


def _words(token: str, *, shouted: bool) -> list[Word]:
    """The words of a token: of "half-marathon" two, of "won't" as well."""
    named = token[:1].isupper() and not shouted
    lower = token.lower()
    owner = lower.endswith("'s") and lower not in _CONTRACTIONS
    lower = lower.removesuffix("'s") if owner else lower
    spelled = _CONTRACTIONS.get(lower, lower)
    for ending, instead in _ENDINGS:
        if spelled.endswith(ending):
            spelled = spelled.removesuffix(ending) + instead
    parts = spelled.replace(",", "").split("-")
    short = any(len(part) <= 2 and part not in _PARTICLES for part in parts)  # noqa: PLR2004
    forms = ("" if short else " ").join(parts).split()
    return [
        Word(base(form), named and place == 0, owner and place == len(forms) - 1, form)
        for place, form in enumerate(forms)
    ]


def _spelled_out(words: list[Word]) -> list[Word]:
    """The words with "is" where an ending, or "got", stood for it: "Jake's in", "got evicted"."""
    found: list[Word] = []
    for n, word in enumerate(words):
        after = words[n + 1].form if n + 1 < len(words) else ""
        if word.owner and (word.form in CONTRACTED or after in BEFORE_STATES):
            found += [word._replace(owner=False), Word("be", form="is")]
        elif word.base == "get" and (after.endswith("ed") or after in IRREGULAR):
            found.append(word._replace(base="be"))
        else:
            found.append(word)
    return found


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
        if not here or (here[0] > start and _leads_on(words[here[0] + 1 : here[0] + 2])):
            return []
        taken.append(here[0])
    return taken


def _leads_on(after: list[Word]) -> bool:
    """Whether "on" before this belongs to it: "turned eighteen on Sunday"."""
    return any(word.named or word.form in DETERMINERS for word in after)


def _parted(phrase: tuple[str, ...]) -> bool:
    return phrase[-1] in {"up", "off", "on", "in", "out", "back", "down"} and phrase[0] != "be"


_BASED = tuple(
    (tuple(base(word) for word in words), base(joined))
    for words, joined in sorted(PHRASES, key=lambda one: -len(one[0]))
)
