"""The words of a text, and its shingles: what texts are compared by."""

from __future__ import annotations

import re
from unicodedata import normalize

Feature = str | tuple[str, ...]

SHINGLE = 3
"""Words in a shingle: enough to tell "not before noon" from "noon, not before"."""

_EDGES = ".,;:!?\"'()[]{}<>…“”«»¿¡"  # not "+" or "#": "C++" and "C#" are words
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]")


def words(text: str) -> list[str]:
    """The words in order, without case and the punctuation around them.

    In scripts that put no spaces between words (Chinese, Japanese), each character is a word.
    """
    spaced = _UNSPACED.sub(r" \g<0> ", normalize("NFKC", text).casefold())
    return [word.strip(_EDGES) or word for word in spaced.split()]


def shingles(ordered: list[str]) -> frozenset[Feature]:
    """Each run of three words; of a shorter text, the one run that it is."""
    if len(ordered) < SHINGLE:
        return frozenset([tuple(ordered)])
    return frozenset(zip(ordered, ordered[1:], ordered[2:], strict=False))


def features(text: str) -> frozenset[Feature]:
    """The words and the shingles, so that order counts: who owes whom."""
    ordered = words(text)
    return shingles(ordered) | frozenset(ordered)
