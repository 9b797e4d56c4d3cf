"""Whether a text intends something: by the specification's keywords, or as it asks to be told.

What asks for it by the form "remind me" must not read like what does not (`means`); what asks for
it otherwise ("set a reminder", "put it on my list") is told by `means` alone.
"""

from __future__ import annotations

import re
from typing import Final

from langmem_tiers.core.reading import ends_of
from langmem_tiers.recall.question import is_question
from langmem_tiers.remember.means import INTENDS, INTENDS_NOT, means

LEAD: Final = re.compile(
    r"\b(?:when(?:ever)?|if|once|as soon as|next time(?: that)?)\b", re.IGNORECASE
)
"""What a cue begins with; what stands before it is no part of the cue."""
DENIED: Final = re.compile(r"\b(?:not?|never|cannot)\b|n['\u2019]t\b", re.IGNORECASE)
_SENTENCE: Final = re.compile(r"[^\s.!?\n](?:[^.!?\n]|[.!?](?=\S))*[.!?]*")
_TODO: Final = re.compile(r"\bto-?do\b", re.IGNORECASE)
_KEYWORD: Final = re.compile(r"\b(?:to-?do|later|needs? to|plan(?:ning)? to)\b", re.IGNORECASE)
"""The specification's keywords of prospective memory."""
_REMIND: Final = re.compile(
    r"(?:^|[^\w\s]\s*|\b(?:and|please|then|you(?: to)?)\s+)remind (?:me|us)\b(.*)"
    r"|(?:\bnot|n['\u2019]t) (?:let \w+ )?forget\b",
    re.IGNORECASE | re.DOTALL,
)
"""What asks to be reminded, in a question too; not "these remind me" of something."""
_REMINDS: Final = re.compile(r"\bremind (?:me|us)\b", re.IGNORECASE)


def sentences(text: str) -> list[str]:
    """The sentences of a text, each with the signs at its end."""
    return _SENTENCE.findall(text)


def intending(text: str, *, asked: bool = False) -> list[str]:
    """The sentences that intend something; a question or a denial does not, a request does.

    With `asked` those alone that ask to be reminded, or name a todo. Of a long text both ends are
    read.
    """
    return [one for one in sentences(ends_of(text)) if _intends(one, asked=asked)]


def requesting(text: str) -> list[str]:
    """The sentences that ask to be reminded of something; of a long text those at both ends."""
    return [one for one in sentences(ends_of(text)) if _requests(one)]


def _asks(told: str) -> bool:
    """Whether what somebody wants to be reminded of is an answer: "what her name is"."""
    asked = told.strip().rstrip("?")
    return is_question(asked) and (told.endswith("?") or not LEAD.match(asked))


def _requests(sentence: str) -> bool:
    reminded, likely = _REMIND.search(sentence), means(sentence).intends
    if reminded and not _asks(reminded[1] or ""):
        return likely >= INTENDS_NOT
    return likely >= INTENDS and not _REMINDS.search(sentence)


def _intends(sentence: str, *, asked: bool) -> bool:
    if _requests(sentence):
        return True
    if sentence.endswith("?"):
        return False
    keyword = _TODO if asked else _KEYWORD
    said = ((one, keyword.search(one)) for one in sentence.split(","))
    return any(found and not DENIED.search(one[: found.start()]) for one, found in said)
