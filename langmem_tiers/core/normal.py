"""Texts as they are compared for equality."""

from __future__ import annotations

from typing import Final
from unicodedata import normalize

_ENDS: Final = " .,;:!\N{IDEOGRAPHIC FULL STOP}"
"""What ends a sentence, by NFKC, which knows neither an ellipsis nor wide marks."""
_LONGEST: Final = 400
"""Characters without white space of which the forms are compared: to find that of a thousand
combining marks in a row takes Python the square of the time."""


def normalised(text: str) -> str:
    """A text without case, runs of white space, and what ends a sentence.

    A question mark stays, as a question says something else.
    """
    said = " ".join(" ".join(map(_folded, text.split())).split())
    return said.rstrip(_ENDS) or said


def _folded(word: str) -> str:
    if word.isascii() or len(word) > _LONGEST:
        return word.casefold()
    return normalize("NFKC", normalize("NFKC", word).casefold())
