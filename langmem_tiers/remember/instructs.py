"""Texts that instruct whoever reads them: what is told by a user is kept, by others is held back.

Nothing here is proof: the signs are those of texts that were written to steer an assistant. What
is found lowers the trust in a memory (see `trust.py`); it is kept, and not recalled until somebody
has looked at it.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from unicodedata import normalize

from langmem_tiers.core.memory import Source
from langmem_tiers.remember.disguises import conceals, decoded, plain, squashed, turned
from langmem_tiers.remember.injection_anchors import anchored
from langmem_tiers.remember.injection_compounds import compound_weights
from langmem_tiers.remember.injection_concepts import concepts_in
from langmem_tiers.remember.injection_languages import (
    KEEPING,
    SET_ASIDE,
    SQUASHED,
    SQUASHED_ANY,
    STANDING,
)
from langmem_tiers.remember.injection_signs import SIGNS
from langmem_tiers.remember.injection_words import ENOUGH, Voice
from langmem_tiers.remember.likeness import ALIKE, HANDED_ON, UNLIKE, likeness, sentences_of

_VOICES: Final[Mapping[str, Voice]] = {
    Source.USER: "user",
    Source.SYSTEM: "user",
    Source.AGENT: "agent",
}
_COUNTED: Final = {
    voice: tuple(
        (one.kind, anchored(one.pattern), weight)
        for one in SIGNS
        if (weight := getattr(one, voice)) > 0
    )
    for voice in ENOUGH
}
_NEIGHBOURS: Final = 3
"""Sentences whose signs are added up: an order is given in a breath."""
_QUOTED: Final = re.compile(
    r"\"[^\"]{1,300}\"|“[^”]{1,300}”|„[^“”]{1,300}[“”]|`[^`]{1,300}`|«[^»]{1,300}»"
)
_PASTED: Final = re.compile(
    r"\b(?:e-?mails?|messages?|pages?|web ?sites?|sites?|articles?|documents?|pdfs?|files?|slack|teams"
    r"|forum|tickets?|comments?|posts?|readme|texts?|pasted?|copied|forwarded|summari[sz]e|translate"
    r"|sent me|this)\b[^.!?:\n]{0,40}[:?]\s+(.+)",
    re.IGNORECASE | re.DOTALL,
)
"""What a user hands on: another's words, after a colon."""
_TO_ASSISTANTS: Final = frozenset(
    {"addressed", "boot file", "override", "persona", "role imitation"}
)
"""The kinds that count in what a user hands on."""
_DEFINES: Final = re.compile(
    r"\b(?:injections?|jailbreak\w*|phishing|poisoning|social engineering)\b.{0,60}"
    r"\b(?:attacks?|risks?|vulnerabilit\w+|techniques?|threats?|kinds? of)\b|\w\.md is (?:an?|the) \w+ (?:in|with|for|that|which)\b",
    re.IGNORECASE,
)
"""What tells of attacks, and is none."""
_MANY: Final = 4.0
"""The weight of signs that hold a text back whatever else it reads like."""
_LONGEST: Final = 50_000
"""Characters that are looked at, in their plain form: of what is longer, the beginning and the end.
What is longer from outside is held back, as nobody has read it."""
_MOST: Final = 500
"""Sentences that are weighed: of more, neighbours are weighed as one."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One kind of instruction in a text, and how sure the signs are."""

    kind: str
    weight: float
    excerpt: str
    sentence: str = ""
    """All of the sentence where it shows."""

    def __str__(self) -> str:
        """Its kind and where it shows."""
        return f"{self.kind}: {self.excerpt!r}"


@lru_cache(maxsize=256)
def instructions_in(content: str, source: str = Source.USER) -> tuple[Finding, ...]:
    """What instructs the reader in a text from this source, the surest first; none if nothing does.

    Orders of users and operators are memories like any other ("Always use tabs"); of them only
    what no user writes by hand is found. What a user or an agent quotes is not held to instruct.
    """
    voice = voice_of(source)
    text = _bounded(content)
    found = [*_read(plain(text), voice), *_disguised(text, voice)]
    if voice == "user":
        found.extend(_handed_on(plain(text)))
    if voice == "outside" and text != content:
        found.append(Finding("unread", ENOUGH[voice], f"{len(content):,} characters"))
    best: dict[str, Finding] = {}
    for one in found:
        if one.kind not in best or one.weight > best[one.kind].weight:
            best[one.kind] = one
    return tuple(sorted(best.values(), key=lambda one: (-one.weight, one.kind)))


def voice_of(source: str) -> Voice:
    """Whose word a source has: a user's, an agent's, or that of anybody else."""
    return _VOICES.get(source, "outside")


def _read(text: str, voice: Voice) -> Iterator[Finding]:
    """What instructs by its signs or by its likeness to attacks; few signs in a note are none."""
    signs = _openly(text, voice)
    if voice == "user":
        yield from signs
        return
    like = likeness(text, voice)
    if like.known and like.score >= ALIKE:
        yield Finding("likeness", ENOUGH[voice], _excerpt(like.passage))
    if not _in_a_note(signs, voice):
        yield from signs


def _in_a_note(signs: Sequence[Finding], voice: Voice) -> bool:
    """Whether the sentences with these signs read like notes: by themselves, whatever is around."""
    if sum(one.weight for one in signs) >= _MANY:
        return False
    read = [likeness(one.sentence, voice) for one in signs]
    return all(one.known and one.score < UNLIKE for one in read)


def _handed_on(text: str) -> Iterator[Finding]:
    """What instructs assistants of what a user pastes or quotes: others' words."""
    pasted = _PASTED.search(text)
    if pasted:
        yield from _openly(pasted[1].replace('"', " "), "outside", _TO_ASSISTANTS)
    parts = [*([pasted[1]] if pasted else ()), *_QUOTED.findall(text)]
    for part in parts:
        like = likeness(part, "outside")
        if like.score >= HANDED_ON and like.known:
            yield Finding("likeness", ENOUGH["user"], _excerpt(like.passage))


def _openly(text: str, voice: Voice, kinds: Container[str] | None = None) -> list[Finding]:
    """What instructs as it is written: the kinds of the weightiest run of sentences."""
    said = text if voice == "outside" else _QUOTED.sub(" ", text)
    sentences = _sentences(said)
    weighed = [
        {
            kind: weight
            for kind, weight in _weights(one, voice).items()
            if not kinds or kind in kinds
        }
        for one in sentences
    ]
    heaviest: tuple[float, int] = (0.0, 0)
    for place in range(len(sentences)):
        together = _summed(weighed[place : place + _NEIGHBOURS])
        heaviest = max(heaviest, (sum(together.values()), -place))
    if heaviest[0] < ENOUGH[voice]:
        return []
    place = -heaviest[1]
    run = slice(place, place + _NEIGHBOURS)
    return [
        Finding(kind, weight, _excerpt(sentence), sentence)
        for kind, weight in _summed(weighed[run]).items()
        for sentence in [_where(kind, sentences[run], weighed[run])]
    ]


def _where(kind: str, sentences: Sequence[str], weighed: Sequence[Mapping[str, float]]) -> str:
    """The sentence in which a sign of that kind weighs most."""
    return max(zip(sentences, weighed, strict=True), key=lambda one: one[1].get(kind, 0.0))[0]


def _sentences(text: str) -> list[str]:
    """The sentences that may instruct; of very many, several as one."""
    found = [one for one in sentences_of(text) if not _DEFINES.search(one)]
    several = max(1, math.ceil(len(found) / _MOST))
    return [" ".join(found[one : one + several]) for one in range(0, len(found), several)]


def _weights(sentence: str, voice: Voice) -> dict[str, float]:
    """What each kind of sign weighs in a sentence; two signs of a kind weigh both."""
    found: dict[str, float] = defaultdict(float)
    lowered = sentence.lower()
    for kind, pattern, weight in _COUNTED[voice]:
        if pattern.found(sentence, lowered):
            found[kind] += weight
    if SET_ASIDE.search(sentence):
        found["override"] += 3
    if voice == "outside" and STANDING.search(sentence):
        found["standing order"] += 2
    if voice == "outside" and KEEPING.search(sentence):
        found["memory poisoning"] += 2
    if voice != "user":
        for kind, weight in compound_weights(concepts_in(sentence), voice).items():
            found[kind] += weight
    return dict(found)


def _summed(some: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The weights of several sentences; the same kind counts once, where it weighs most."""
    found: dict[str, float] = {}
    for one in some:
        for kind, weight in one.items():
            found[kind] = max(found.get(kind, 0.0), weight)
    return found


def _disguised(text: str, voice: Voice) -> Iterator[Finding]:
    how = conceals(text)
    if how is not None:
        yield Finding("hidden", 3.0, how)
    letters = squashed(text if voice == "outside" else _QUOTED.sub(" ", text))
    if SQUASHED.search(letters):
        yield Finding("override", 3.0, _excerpt(text))
    if any(SQUASHED_ANY.search(one) for one in turned(letters)):
        yield Finding("encoded", 3.0, _excerpt(text))
    for one in decoded(text):
        inner = _openly(plain(one), "outside")
        if inner or SQUASHED.search(squashed(one)):
            yield Finding("encoded", 3.0, _excerpt(one))


def _bounded(content: str) -> str:
    """The text, or its beginning and end if it is long, as it is or in its plain form."""
    text = _ends(content)
    plainly = text if text.isascii() else normalize("NFKC", text)
    return text if len(plainly) <= _LONGEST + 1 else _ends(plainly)


def _ends(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    return text[: _LONGEST // 2] + "\n" + text[-_LONGEST // 2 :]


def _excerpt(text: str) -> str:
    said = " ".join(text.split())
    return said if len(said) <= 80 else said[:79] + "…"  # noqa: PLR2004 - one line
