"""A text as learned weights read it: its sentences, and the words and signs of each."""

from __future__ import annotations

import re
from typing import Final

from langmem_tiers.core.reading import spaced

BIAS: Final = "of every text"
"""The name of what is added to every sum; a feature has two words at most."""
_SENTENCE: Final = re.compile("(?<=[.!?\u3002\uff01\uff1f])\\s+|\\n+")
_WORD: Final = re.compile(r"\w+|[<>{}\[\]#:!?$/@%*|`=]")
_CLASSES: Final = (
    (re.compile("@"), re.compile(r"(?<![^\s@])[^\s@]+@\S+"), " 0mail "),
    (
        re.compile(r"\.\S|://"),
        re.compile(
            r"https?://\S+|\bwww\.\S+|(?<![\w-])[\w-]{1,63}(?:\.[\w-]{1,63}){0,5}"
            r"\.(?:com|net|org|io|example|dev|test|ai|co|info|biz)\b\S*",
            re.IGNORECASE,
        ),
        " 0url ",
    ),
    (re.compile("[$€£]"), re.compile(r"[$€£]\s?\d[\d.,]*"), " 0sum "),
    (re.compile(r"\d"), re.compile(r"\b\d\w*"), " 0 "),
)
"""What counts as one of its kind, whatever it is: a sign of it, which is found at once, and all."""


def sentences_of(text: str) -> list[str]:
    """Take a text apart into the sentences and lines that say something."""
    return [one for one in _SENTENCE.split(text) if one.strip()]


def tokens(text: str) -> list[str]:
    """Find the words and signs of a text as they stand, or the kind of what counts as one."""
    for sign, pattern, kind in _CLASSES:
        if sign.search(text):
            text = pattern.sub(kind, text)
    return _WORD.findall(spaced(text))
