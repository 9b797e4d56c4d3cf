"""What says nothing: signs without words, a letter or two, the same over and over, a greeting."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from langmem_tiers.core.reading import LOOKED_AT, ends_of, visible, words

_SPECIFIED: Final = frozenset(("hi", "hello", "hi there"))
"""What specifications name as trivial: "Hi there" is amplihack's and the orchestrator's example."""
_SHORT: Final = 2
"""Letters of a word that is too short to say anything, in scripts that are spelt."""
_FEW: Final = 2
"""Different letters of laughter and the like."""
_MANY: Final = 5
"""Letters of a word from which few different ones are noise: "Anna" and "Otto" are names."""
_SPELT: Final = "\u0e00"
"""From here on there are scripts in which two signs are a word."""


@lru_cache(maxsize=256)
def triviality(content: str) -> str | None:
    """What kind of nothing a text says, such as "a greeting"; None if it may say something.

    What is short is not trivial for that: "Paris", "42" and "No sugar" are answers. Nor is what
    people say out of courtesy: "Thanks a lot" is stored.
    """
    if len(content) > LOOKED_AT:
        ends = ends_of(content)  # what is between them says no more, if it is in no other letters
        return triviality(ends) if set(content) <= set(ends) else None
    said = words(content)
    if not said or not any(map(str.isalnum, content)):
        return "nothing but signs" if visible(content).strip() else "empty"
    if " ".join(said) in _SPECIFIED:
        return "a greeting"
    return _noise(said[0]) if len(set(said)) == 1 else None


def _noise(word: str) -> str | None:
    """What kind of noise one word is, said once or over and over."""
    if any(map(str.isdigit, word)):
        return None
    if len(word) <= _SHORT and word.isalpha() and max(word) < _SPELT:
        return "a word of two letters or fewer"
    return "noise" if len(word) >= _MANY and len(set(word)) <= _FEW else None
