"""What says nothing: greetings, courtesies, acknowledgements, filler, signs without words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

from langmem_tiers.core.reading import LOOKED_AT, ends_of, visible, words
from langmem_tiers.remember.trivial_words import BESIDE, KINDS, LONGEST

MOST_WORDS: Final = 24
"""Longer texts are not looked at: nobody says so little in so many words."""
_NAMED: Final = ("a greeting", "a farewell", "thanks or a courtesy")
"""What a name may follow: "Hi Anna"."""
_MOST_NAMES: Final = 2
_EMOTICON: Final = re.compile(
    r"(?<!\S)(?:[:;=8xX][-'^o]?[)(DPpOo3/\\|*]+|<3+|\^_?\^|-_-|[Tt]_[Tt]|o_[Oo]|¯\\_\(.\)_/¯)(?!\S)"
)
_LAUGHTER: Final = re.compile(
    r"(?:a?(?:h[aeio]){2,}h?|(?:ja){2,}|(?:ха){2,}|k{3,}|w{3,}|(?:lo)+l+)"
)
_DRAWN_OUT: Final = re.compile(r"(\w)\1{2,}")
_ONE_LETTER: Final = re.compile(r"(\D)\1{4,}")


@lru_cache(maxsize=256)
def triviality(content: str) -> str | None:
    """What kind of nothing a text says, such as "a greeting"; None if it may say something.

    It is trivial if it is made of nothing else than such phrases, and the names that they are
    said to. What is short is not trivial for that: "Paris", "42" and "No sugar" are answers.
    """
    if len(content) > LOOKED_AT:
        ends = ends_of(content)  # what is between them says no more, if it is in no other letters
        return triviality(ends) if set(content) <= set(ends) else None
    text = _EMOTICON.sub(" ", visible(content))
    said = words(text)
    if not said:
        return "nothing but signs" if visible(content).strip() else "empty"
    if len(said) > MOST_WORDS:
        return None
    if len(said) == 1 and _ONE_LETTER.fullmatch(said[0]):
        return "noise"
    capitals = {words(one)[0] for one in text.split() if one[:1].isupper() and words(one)}
    return _kind([_undrawn(one) for one in said], capitals)


def _kind(said: Sequence[str], capitals: set[str]) -> str | None:
    """The first kind in which the words can be read from their beginning to their end."""
    reached: dict[int, str | None] = {0: None}
    for place in range(len(said)):
        if place not in reached:
            continue
        for length, kind in _steps(said, place, capitals, reached[place]):
            first = reached[place] or kind
            if reached.get(place + length) is None:
                reached[place + length] = first
    return reached.get(len(said))


def _steps(
    said: Sequence[str], place: int, capitals: set[str], before: str | None
) -> Iterator[tuple[int, str | None]]:
    """How far one can read from here, and as what; companions are of no kind."""
    for length in range(1, min(LONGEST, len(said) - place) + 1):
        phrase = tuple(said[place : place + length])
        kind = next((name for name, known in KINDS.items() if phrase in known), None)
        if kind is not None:
            yield length, kind
        elif phrase in BESIDE:
            yield length, None
    if _LAUGHTER.fullmatch(said[place]):
        yield 1, "filler"
    if before in _NAMED:
        names = said[place : place + _MOST_NAMES]
        for length in range(1, len(names) + 1):
            if all(one in capitals for one in names[:length]):
                yield length, None


def _undrawn(word: str) -> str:
    """A word that is drawn out, such as "heyyy", as it is written."""
    short = _DRAWN_OUT.sub(r"\1", word)
    if short == word:
        return word
    known = any((short,) in some for some in KINDS.values())
    return short if known or (short,) in BESIDE else word
