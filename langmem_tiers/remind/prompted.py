"""What a prompt intends, by the four keywords of the specification, and how much it matters."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from langmem_tiers.core.reading import ends_of, sentences_of
from langmem_tiers.remind.cue import DENIED
from langmem_tiers.remind.intentions import Priority

SESSION_STARTS: Final = "session_starts"
"""The predicate that what names no time waits for: a session that begins."""

_KEYWORD: Final = re.compile(r"\b(?:to-?do|later|needs? to|plan(?:ning)? to)\b", re.IGNORECASE)
_LOW: Final = re.compile(
    r"\b(?:no rush|not urgent|some ?day|when(?:ever)? you (?:get a chance|have time)"
    r"|low[- ]priority)\b|\[low\]",
    re.IGNORECASE,
)
_HIGH: Final = re.compile(
    r"\b(?:urgent|asap|immediately|critical|high[- ]priority)\b|\[high\]|!", re.IGNORECASE
)


class Intended(NamedTuple):
    """What a prompt intends."""

    priority: Priority
    content: str
    """The sentences that intend something, in their own words."""


def intended_in(prompt: str) -> Intended | None:
    """What a prompt intends: its sentences with a keyword; None if there is none.

    A question or a denial intends nothing. Of a long prompt both ends are read.

    Example:
        ```python
        from langmem_tiers.remind.prompted import intended_in

        found = intended_in("Urgent: I need to renew the certificate. It is for the shop.")
        assert found == ("high", "Urgent: I need to renew the certificate.")
        assert intended_in("What do I need to do later?") is None
        ```
    """
    ends = ends_of(prompt)
    found = [one.strip() for one in sentences_of(ends) if _intends(one)]
    return Intended(_priority_of(ends, " ".join(found)), " ".join(found)) if found else None


def _intends(sentence: str) -> bool:
    if sentence.endswith("?"):
        return False
    said = ((one, _KEYWORD.search(one)) for one in sentence.split(","))
    return any(found and not DENIED.search(one[: found.start()]) for one, found in said)


def _priority_of(prompt: str, intended: str) -> Priority:
    """How much a prompt says that what it intends matters; `medium` if it does not say.

    An exclamation mark counts in what it intends alone.
    """
    if _LOW.search(prompt):
        return Priority.LOW
    if _HIGH.search(intended) or _HIGH.search(prompt.replace("!", ".")):
        return Priority.HIGH
    return Priority.MEDIUM
