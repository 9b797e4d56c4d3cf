"""Texts that instruct whoever reads them: what is told by a user is kept, by others is held back.

Nothing here is proof: a text reads like those that were written to steer an assistant. What is
found lowers the trust in a memory (see `trust.py`); it is kept, and not recalled until somebody
has looked at it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from unicodedata import normalize

from langmem_tiers.core.memory import Source
from langmem_tiers.remember.disguises import conceals, hidden_in, plain
from langmem_tiers.remember.likeness import Voice, likeness

_VOICES: Final[Mapping[str, Voice]] = {
    Source.USER: "user",
    Source.SYSTEM: "user",
    Source.AGENT: "agent",
}
ALIKE: Final = 0.0
"""The score from which on a text is rather an attack than a note."""
HANDED_ON: Final = 2.2
"""The same for what a user pastes or quotes, who may well tell of an attack."""
_QUOTED: Final = re.compile(
    r"\"[^\"]{1,300}\"|“[^”]{1,300}”|„[^“”]{1,300}[“”]|`[^`]{1,300}`|«[^»]{1,300}»"
)
_PASTED: Final = re.compile(r"[:?]\s|\n")
"""After the first of these may follow what a user hands on."""
_LONGEST: Final = 50_000
"""Characters that are looked at, in their plain form: of what is longer, the beginning and the end.
What is longer from outside is held back, as nobody has read it."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What in a text may instruct its reader."""

    kind: str
    """`likeness`, `encoded` (the same behind a disguise), `hidden` or `unread`."""
    chance: float
    """That it is an attack, in 0…1, as far as one can tell from other texts."""
    excerpt: str
    words: tuple[str, ...] = ()
    """Those that weighed most."""

    def __str__(self) -> str:
        """Where it shows, and why."""
        return f"{self.excerpt!r} ({', '.join((self.kind, *self.words))})"


@lru_cache(maxsize=256)
def instructions_in(content: str, source: str = Source.USER) -> tuple[Finding, ...]:
    """What instructs the reader in a text from this source, the surest first; none if nothing does.

    Orders of users and operators are memories like any other ("Always use tabs"); of them only
    what they quote or paste is looked at, and what somebody disguised.
    """
    voice = voice_of(source)
    text = _bounded(content)
    found = [*_openly(plain(text), voice), *_disguised(text)]
    if voice == "outside" and text != content:
        found.append(Finding("unread", 0.5, f"{len(content):,} characters"))
    return tuple(sorted(found, key=lambda one: -one.chance))


def voice_of(source: str) -> Voice:
    """Whose word a source has: a user's, an agent's, or that of anybody else."""
    return _VOICES.get(source, "outside")


def _openly(text: str, voice: Voice) -> Iterator[Finding]:
    """What reads like an attack as it is written: all of it, or what a user hands on."""
    if voice != "user":
        yield from _alike(text, voice, ALIKE, "likeness")
        return
    _, *pasted = _PASTED.split(text, maxsplit=1)
    yield from _alike(
        "\n".join((*pasted, *_QUOTED.findall(text))), "outside", HANDED_ON, "likeness"
    )


def _disguised(text: str) -> Iterator[Finding]:
    how = conceals(text)
    if how is not None:
        yield Finding("hidden", 1.0, how)
    for one in hidden_in(text):
        yield from _alike(one, "outside", ALIKE, "encoded")


def _alike(text: str, voice: Voice, least: float, kind: str) -> Iterator[Finding]:
    like = likeness(text, voice)
    if like.score >= least:
        yield Finding(kind, like.chance, _excerpt(like.passage), like.words)


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
