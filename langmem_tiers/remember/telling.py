"""What a text tells: its clauses, without what frames them.

A passive clause is read as its active one, too, and a phrase that is put in front as a part of the
clause that follows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Final

from langmem_tiers.core.reading import visible
from langmem_tiers.remember.telling_forms import Word, Words, active, base, lowered, words_in
from langmem_tiers.remember.telling_words import (
    CLAUSES,
    FRAMING,
    LABELS,
    MEASURES,
    ORDERS,
    SAYING,
    SCOPES,
    TURNING,
)

_TAG: Final = re.compile(r"</?[a-z_]+(?: [a-z_]+=\"[^\"]*\")*>")
_HEADING: Final = re.compile(r"^[ \t]*#+[ \t]*([^\n]+?):?$", re.MULTILINE)
_NUMBERED: Final = re.compile(r"(?<=[.!?;:] )\d{1,2}[.)] (?=[A-Z])")
_BULLET: Final = re.compile(r"^[ \t]*(?:[-*•#>]+|\d{1,2}[.)])\s+", re.MULTILINE)
_FIELD: Final = re.compile(r"(?:[{,]\s*+|(?<!\s)\s++)?+[\"']([A-Za-z][\w -]*+)[\"']\s*+:\s*+")
_QUOTED: Final = re.compile(r"[\"“«]([^\"”»\n]{1,1000}+)[\"”»]")
_SPACES: Final = re.compile(r"[^\S\n]+")
_MARKS: Final = re.compile(r"[*`~\"“”«»{}|]+|(?<!\w)_+|(?<!_)_++(?!\w)")
_BRACKETS: Final = re.compile(r"(?:(?<!\s)\s++)?+[(\[]([^()\[\]]*+)[)\]]\s*+:?\s*+")
_SENTENCE: Final = re.compile(r"(?<=[.!?\u3002\uff01\uff1f;])\s+|\n+")
_CLAUSE: Final = re.compile(
    r"([,;:](?=\s|$)\s*+|(?<!\s)\s++(?:[,;:](?=\s|$)\s*+|[—–-]\s++"
    rf"|(?=(?:{'|'.join(sorted(CLAUSES))})\b)))"
)
_CAPITAL: Final = re.compile(r"(?:(?<=[\w,;:] )|\b)[A-Z]\w+")
_ASIDE: Final = "\x02"
"""Begins what stands in brackets."""
_NUMBER: Final = re.compile(r"\d+(?:[.,]\d+)?")
_TIME: Final = re.compile(r"\d{1,2}(?::\d\d)+")
_LEAD_WORDS: Final = 6
_PAIR: Final = 2
_LONGEST_HEAD: Final = 12


@dataclass(frozen=True, eq=False)
class Clause:
    """What is told in one breath, in each order and mood that says the same."""

    forms: tuple[Words, ...]
    lead: bool = False
    """Whether it stands before a colon, in brackets or as a field's name."""
    loose: bool = True
    """Whether what precedes it could as well follow."""
    tight: bool = False
    """Whether nothing but a comma precedes it."""
    relative: bool = False
    """Whether it tells of what precedes it: "who sings"."""
    said: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        """Collect the words once."""
        said = frozenset(one.text for form in self.forms for one in form)
        object.__setattr__(self, "said", said)

    @cached_property
    def frames(self) -> bool:
        """Whether it tells where the text is from, and nothing else."""
        if not self.lead:
            return self.said <= _FRAMES
        labels = self.said & _LABELS
        rest = self.said - _FRAMES - labels - self.dates
        return not rest or (bool(labels) and all(map(_NUMBER.fullmatch, rest)))

    @cached_property
    def dates(self) -> frozenset[str]:
        """Its dates and times of day."""
        return frozenset(one for one in self.said if one[1:2] == "_" or _TIME.fullmatch(one))

    @cached_property
    def core(self) -> frozenset[str]:
        """The words that all of its forms have, without what frames it."""
        every = [frozenset(one.text for one in form) for form in self.forms]
        every[0] = frozenset(one.text for one in self.forms[0][self.head :])
        return frozenset.intersection(*every)

    @cached_property
    def head(self) -> int:
        """How many of its first words may be a frame."""
        words = self.forms[0]
        for place, one in enumerate(words[:_LONGEST_HEAD]):
            following = words[place + 1].text if place + 1 < len(words) else ""
            framing = one.text in _FRAMES
            if not framing and not (one.text in ("should", "must") and following in _FRAMING):
                return place
        return min(len(words), _LONGEST_HEAD)


@dataclass(frozen=True, eq=False)
class Told:
    """A text in its sentences, each in its clauses, without those that merely frame."""

    sentences: tuple[tuple[Clause, ...], ...]
    whole: Clause
    said: frozenset[str]
    """All words, without what frames them at the beginning."""
    every: frozenset[str]
    written: tuple[str, ...]
    """The words as they are written, without numbers, dates and what turns the meaning."""
    labels: frozenset[str]
    """What stands in its headings and is no usual word of one."""
    dates: frozenset[str]
    """The dates that it bears beside what it tells."""
    unled: Told | None = None
    """It without what precedes its first colon, where that may be a heading of any words."""

    @cached_property
    def clauses(self) -> tuple[Clause, ...]:
        """All clauses, each once."""
        every = {one.forms[0]: one for some in self.sentences for one in some}
        return tuple(every.values())

    @cached_property
    def joined(self) -> tuple[Clause, ...]:
        """The sentences of several clauses, each as one."""
        return tuple(joined(some) for some in self.sentences if len(some) > 1)


@lru_cache(maxsize=2048)
def told(text: str) -> Told:
    """What a text tells."""
    labels: set[str] = set()
    every = [
        _unframed([one for one in _clauses(sentence) if one.said], labels)
        for sentence in _SENTENCE.split(_plain(text))
    ]
    sentences = [some for some in every if some]
    rest = [sentences[0][1:], *sentences[1:]] if sentences and _heads(sentences[0]) else None
    return replace(_made(sentences, labels), unled=None if rest is None else _made(rest, labels))


def _dated(word: str) -> bool:
    return word[1:2] == "_"


def _heads(clauses: Sequence[Clause]) -> bool:
    """Whether the first clause may be a heading: not who speaks, nor what limits the rest."""
    if len(clauses) == 1 or not clauses[0].lead or len(clauses[0].forms[0]) > _LEAD_WORDS // 2:
        return False
    words = clauses[0].forms[0]
    limits = any(
        one.at or one.text in TURNING or not one.text.isalpha() or one.raw in SCOPES
        for one in words
    )
    return not limits and not any("self" in one.said for one in clauses[1:])


def _made(every: Sequence[Sequence[Clause]], labels: AbstractSet[str]) -> Told:
    sentences = [_merged(some) for some in every]
    whole = joined([one for some in sentences for one in some])
    core = list(whole.forms[0][whole.head :])
    if len(core) > 1 and core[1].text in _SAYING:
        del core[1]
    said = frozenset(one.text for one in core)
    written = tuple(one.raw for one in core if _lasting(one))
    dates = frozenset(filter(_dated, labels))
    return Told(
        tuple(sentences), whole, said, whole.said, written, frozenset(labels - dates), dates
    )


def _unframed(clauses: Sequence[Clause], labels: set[str]) -> list[Clause]:
    """The clauses that tell something; what their headings add is put among the labels."""
    kept: list[Clause] = []
    measured = False
    for place, one in enumerate(clauses):
        measure, measured = measured, one.lead and one.said <= _MEASURES
        if one.frames or (measure and all(w[0].isdigit() or w in _LABELS for w in one.said)):
            labels |= set(filter(_dated, one.said))
        elif one.lead and one.said & _LABELS and place < len(clauses) - 1:
            labels |= one.said - _LABELS - _FRAMES
        else:
            kept.append(one)
    return kept


def _merged(clauses: Sequence[Clause]) -> tuple[Clause, ...]:
    """With a phrase that is put in front as a part of the clause that follows."""
    merged: list[Clause] = []
    before: Clause | None = None
    for one in clauses:
        last = merged[-1].forms[0] if merged else ()
        fronted = merged and not merged[-1].lead and (last[0].at or last[0].text == "if")
        if fronted and one.tight and merged[-1] is before:
            merged[-1] = replace(joined((merged[-1], one)), loose=merged[-1].loose)
        else:
            merged.append(one)
        before = one
    return tuple(merged)


def _lasting(word: Word) -> bool:
    """Whether each text that says the same has this word, but for numbers in words."""
    return not (
        word.text in TURNING or word.text in _SELF or word.text[0] == "#" or _dated(word.text)
    )


def joined(clauses: Sequence[Clause]) -> Clause:
    """Several clauses as one."""
    if len(clauses) == 1:
        return clauses[0]
    first, last = _joined(clauses, 0), _joined(clauses, -1)
    return Clause((first,) if first == last else (first, last))


def _joined(clauses: Sequence[Clause], form: int) -> Words:
    return tuple(
        word._replace(starts=True) if place and not number and not one.relative else word
        for place, one in enumerate(clauses)
        for number, word in enumerate(one.forms[form])
    )


def _plain(text: str) -> str:
    """The text without marks, tags and bullets, dates in one form; sentences end at line ends."""
    text = _SPACES.sub(" ", visible(text).replace("\u2019", "'"))
    if "<" in text:
        text = _TAG.sub("\n", text)
    if "#" in text:
        text = _HEADING.sub(r"\1:", text)
    text = _NUMBERED.sub("", _BULLET.sub("", text))
    if ":" in text:
        text = _FIELD.sub(_field, text)
    return _MARKS.sub("", _QUOTED.sub(_quoted, text)).strip()


def _field(found: re.Match[str]) -> str:
    return f"\n{found[1].replace('_', ' ')}: "


def _quoted(found: re.Match[str]) -> str:
    """What is quoted is a sentence, unless it is a word or two."""
    return f"\n{found[1]}\n" if found[1].count(" ") >= _PAIR else found[0]


def _clauses(sentence: str) -> Iterator[Clause]:
    """The clauses of a sentence; what is in brackets is one of its own."""
    names = _names(sentence)
    text = _BRACKETS.sub(_aside, lowered(sentence))
    pieces = _CLAUSE.split(text)
    for place in range(0, len(pieces), 2):
        piece = pieces[place]
        before = pieces[place - 1] if place else ""
        after = pieces[place + 1] if place + 1 < len(pieces) else ""
        aside = piece.startswith(_ASIDE)
        lead = aside or (":" in after or after.strip() in ("—", "–", "-"))
        if ":" in after:
            piece = piece.replace("_", " ") if "m_" not in piece else piece
        words, passive = words_in(piece, names)
        if lead and not aside and len(words) > _LEAD_WORDS:
            lead = False
        if words:
            first = piece.split(maxsplit=1)[0]
            loose = "," not in before or (first in CLAUSES and first != "then")
            tight = "," in before and first not in (*CLAUSES, "or")
            forms = tuple(_forms(words, passive, piece))
            yield Clause(forms, lead, loose, tight, first in ("who", "which"))


def _forms(words: Words, passive: int | None, piece: str) -> Iterator[Words]:
    """A clause in other orders and moods that say the same; the active one last."""
    yield words
    if len(words) > _PAIR and words[1].text in _SAYING and not words[0].at:
        yield (words[0], *words[2:])
    if piece.startswith(ORDERS):
        yield (Word("should"), *words)
        yield (Word("must"), *words)
    if passive is None:
        return
    acting = active(words, passive)
    if acting[0].text in ("must", "should"):
        yield acting[1:]
    yield acting


def _names(sentence: str) -> dict[str, int]:
    """The words with a capital, and whether one stands within the sentence."""
    if sentence.isupper():
        return {}
    found: dict[str, int] = {}
    for one in _CAPITAL.finditer(sentence):
        place = 2 if one.start() and sentence[one.start() - 2 : one.start() - 1] not in ".!?" else 1
        found[one[0].casefold()] = max(place, found.get(one[0].casefold(), 0))
    return found


def _aside(found: re.Match[str]) -> str:
    divider = ": " if ":" in found[0].replace(found[1], "") else ", "
    return f"{divider}{_ASIDE}{found[1]}{divider}"


_SELF: Final = frozenset(("self",))
_LABELS: Final = frozenset(base(one) for one in LABELS)
_FRAMING: Final = frozenset(base(one) for one in FRAMING)
_FRAMES: Final = _FRAMING | _SELF
_MEASURES: Final = frozenset(base(one) for one in MEASURES)
_SAYING: Final = frozenset(map(base, SAYING))
