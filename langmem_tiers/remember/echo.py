"""What is known already: texts that came from a recall, and copies of what is stored.

A text that repeats what was recalled tells what the memory told, not what is so: it is no new
evidence, however often it is said.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple
from unicodedata import category

from langmem_tiers.core.reading import listed, spaced
from langmem_tiers.remember.candidate import Known

_TAG: Final = re.compile(r"</?[a-z_]+(?: [a-z_]+=\"[^\"<]*\")*>")
_SENTENCE: Final = re.compile("(?<=[.!?\u3002\uff01\uff1f])\\s+|\\n+")
_TOKEN: Final = re.compile(r"(?<!\w)-(?=\d)|\w+(?:['.]\w+)*|[^\w\s]")
_MEANT: Final = frozenset("-%#&@/")
"""Punctuation without which a text says something else."""
_NEGATIONS: Final = listed(
    "not no never none nobody nothing nor without cannot nicht kein nie ohne pas jamais sans nunca "
    "sin non нет не"
)
_FRAME: Final = 6
"""Words that may stand before what is repeated: "As I recall, …"."""
_UNIT: Final = 3
"""Words of a sentence that counts wherever it stands."""

Words = tuple[str, ...]


class Echo(NamedTuple):
    """A text that is known already, and the memory that holds it."""

    known: Known
    kind: str
    """`recalled` or `stored`."""


def echo_of(content: str, recalled: Sequence[Known]) -> Echo | None:
    """The recalled text that this one repeats; None if it says anything new.

    Case, signs and blanks aside, it is the same, or made of whole sentences of what was recalled.
    A few words may stand before each of them ("As I recall, …"), as long as none of them is a
    number, a name or a negation.
    """
    return _told_by(content, recalled, "recalled")


def copy_of(content: str, stored: Sequence[Known]) -> Echo | None:
    """The stored text that tells all of this already; None if there is none."""
    echoes = (_told_by(content, (one,), "stored") for one in stored)
    return next((one for one in echoes if one is not None), None)


def _told_by(content: str, known: Sequence[Known], kind: str) -> Echo | None:
    said = _folded(_tokens(content)) if known else ()
    for one in known:
        if one.content.strip() == content.strip() or (said and said == _whole(one.content)):
            return Echo(one, kind)
    shelf = _shelf(tuple(one.content for one in known))
    place = _first_told(_tokens(content), said, shelf)
    return None if place is None else Echo(known[place], kind)


def _first_told(written: Words, said: Words, shelf: _Shelf) -> int | None:
    """Which known text tells the first sentence, if known texts tell all; None if they do not."""
    first: int | None = None
    at = begins = 0
    while at < len(said) and at - begins <= _FRAME:
        found = _sentence_at(said, at, shelf)
        if found is None:
            at += 1
        elif _frames(written[begins:at]):
            first = found[1] if first is None else first
            at = begins = at + found[0]
        else:
            return None
    return first if at == begins else None


def _sentence_at(said: Words, at: int, shelf: _Shelf) -> tuple[int, int] | None:
    """The length of the known sentence that stands here, and its text; None if there is none."""
    several = shelf.get(said[at : at + _UNIT], ())
    return next(
        ((len(one), text) for one, text in several if said[at : at + len(one)] == one), None
    )


def _frames(words: Words) -> bool:
    """Whether words say nothing of what follows them, as far as one can see."""
    rest = words[1:] if len(words) > 1 else words
    named = any(one[0].isupper() and len(one) > 1 for one in rest)
    return not named and all(
        one.replace("'", "").isalpha()
        and one.casefold() not in _NEGATIONS
        and not one.casefold().endswith("n't")
        for one in words
    )


def _tokens(text: str) -> Words:
    """The words and what else means something, as they are written."""
    found = _TOKEN.findall(_TAG.sub("\n", spaced(text)))
    return tuple(one for one in found if one in _MEANT or category(one[0])[0] != "P")


def _folded(words: Words) -> Words:
    return tuple(one.casefold() for one in words)


@lru_cache(maxsize=512)
def _whole(text: str) -> Words:
    return _folded(_tokens(text))


_Shelf = dict[Words, list[tuple[Words, int]]]
"""By its first words, each sentence of the known texts and the place of its text; long ones first."""


@lru_cache(maxsize=16)
def _shelf(texts: tuple[str, ...]) -> _Shelf:
    shelf: _Shelf = {}
    for place, text in enumerate(texts):
        for one in _sentences(text):
            shelf.setdefault(one[:_UNIT], []).append((one, place))
    for several in shelf.values():
        several.sort(key=lambda each: -len(each[0]))
    return shelf


def _sentences(text: str) -> Iterator[Words]:
    for one in _SENTENCE.split(_TAG.sub("\n", text)):
        words = _whole(one)
        if len(words) >= _UNIT:
            yield words
