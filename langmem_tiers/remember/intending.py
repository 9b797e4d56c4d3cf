"""Whether a text intends something, by the specification's keywords."""

from __future__ import annotations

import re
from typing import Final

from langmem_tiers.core.reading import ends_of

LEAD: Final = re.compile(
    r"\b(?:when(?:ever)?|if|once|as soon as|next time(?: that)?)\b", re.IGNORECASE
)
"""What a cue begins with; what stands before it is no part of the cue."""
DENIED: Final = re.compile(r"\b(?:not?|never|cannot)\b|n['\u2019]t\b", re.IGNORECASE)
_SENTENCE: Final = re.compile(r"[^\s.!?\n](?:[^.!?\n]|[.!?](?=\S))*[.!?]*")
_TODO: Final = re.compile(r"\bto-?do\b", re.IGNORECASE)
_KEYWORD: Final = re.compile(r"\b(?:to-?do|later|needs? to|plan(?:ning)? to)\b", re.IGNORECASE)
"""The specification's keywords of prospective memory."""


def sentences(text: str) -> list[str]:
    """The sentences of a text, each with the signs at its end."""
    return _SENTENCE.findall(text)


def intending(text: str, *, asked: bool = False) -> list[str]:
    """The sentences that intend something; a question or a denial does not.

    With `asked` those alone that name a todo. Of a long text both ends are read.
    """
    return [one for one in sentences(ends_of(text)) if _intends(one, asked=asked)]


def _intends(sentence: str, *, asked: bool) -> bool:
    if sentence.endswith("?"):
        return False
    keyword = _TODO if asked else _KEYWORD
    said = ((one, keyword.search(one)) for one in sentence.split(","))
    return any(found and not DENIED.search(one[: found.start()]) for one, found in said)
