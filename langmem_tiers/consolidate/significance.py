"""What a note of a session is worth telling for: a significant event, or a concept of some kind.

By words alone, in English.
"""

from __future__ import annotations

import re
from typing import Final

from langmem_tiers.core.reading import ends_of

_EVENTS: Final = (
    (
        "decision",
        re.compile(
            r"\b(?:(?:have |has |had )?(?:decided|agreed|chose|chosen|settled on|opted for)"
            r"|(?:the )?decision(?: is| was)?:?|(?:we'll|we will|let's) (?:go with|use|adopt)"
            r"|(?:we're|we are) going with|approved|rejected|switched to|migrated to)\b",
            re.IGNORECASE,
        ),
    ),
    (
        "resolution",
        re.compile(
            r"\b(?:fixed|solved|resolved|worked around|recovered|root cause)\b", re.IGNORECASE
        ),
    ),
    (
        "failure",
        re.compile(
            r"\b(?:failed|crashed|broke|went down|was down|outage|regressed|rolled back)\b",
            re.IGNORECASE,
        ),
    ),
    (
        "milestone",
        re.compile(
            r"\b(?:released|shipped|launched|deployed|merged|implemented|completed|finished"
            r"|went live|signed)\b",
            re.IGNORECASE,
        ),
    ),
)
_UNREAL: Final = re.compile(
    r"\b(?:not|never|if|unless|whether|would|could|should|might|may|need to|plan to|todo|later"
    r"|have to|want to|will be|going to|until)\b|n't\b",
    re.IGNORECASE,
)
_SENTENCE: Final = re.compile(r"[^\s.!?\n](?:[^.!?\n]|[.!?](?=\S))*[.!?]*")
_PREFERENCE: Final = re.compile(
    r"\b(?:prefers?|likes?|loves?|hates?|dislikes?|favou?rite|would rather|fond of|allergic)\b",
    re.IGNORECASE,
)
_RULE: Final = re.compile(
    r"\b(?:always|never|must(?: not)?|should(?: not)?|may not|nobody may|only|every|avoid|do not"
    r"|don't|forbidden|allowed|policy|convention|rule)\b",
    re.IGNORECASE,
)


def decision_type(text: str) -> str | None:
    """What kind of significant event a text tells of; None if it tells of none.

    `decision`, `resolution`, `failure` or `milestone`. What is denied, asked, supposed or still to
    come did not happen.

    Example:
        ```python
        from langmem_tiers.consolidate.significance import decision_type

        assert decision_type("We decided to use Redis for sessions.") == "decision"
        assert decision_type("We have not decided yet.") is None
        ```
    """
    for sentence in _SENTENCE.findall(ends_of(text)):
        for kind, pattern in _EVENTS:
            found = pattern.search(sentence)
            if found and not _UNREAL.search(sentence[: found.start()]) and sentence[-1] != "?":
                return kind
    return None


def category(text: str) -> str:
    """What kind of concept a text tells: `preference`, `rule` or `fact`."""
    text = ends_of(text)
    if _PREFERENCE.search(text):
        return "preference"
    return "rule" if _RULE.search(text) else "fact"
