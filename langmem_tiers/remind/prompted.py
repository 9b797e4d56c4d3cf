"""What a prompt intends: how much it matters, and what it waits for.

By words alone, in English. What is intended at all says `remember/routing.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from typing import Final, NamedTuple

from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.reading import ends_of
from langmem_tiers.remember.route import route
from langmem_tiers.remind.intentions import Priority
from langmem_tiers.remind.moments import moment_in
from langmem_tiers.remind.triggers import At, BeforeTool, If, Trigger, When

SESSION_STARTS: Final = "session_starts"
"""The predicate that what names no occasion waits for: a session that begins."""

_SENTENCE: Final = re.compile(r"[^\s.!?\n](?:[^.!?\n]|[.!?](?=\S))*[.!?]*")
_REQUEST: Final = re.compile(
    r"\b(?:remind|please|(?:can|could|will|would) you|don't forget|note)\b", re.IGNORECASE
)
_NOT_SO: Final = re.compile(
    r"\b(?:no need to|(?:do|does|did|will|would|should)(?:n't| not) (?:\w+ )?(?:need|plan|have) to"
    r"|no longer (?:needs?|plans?|has|have) to|need(?:s)? not|needn't"
    r"|(?:why|how|whether|that) (?:\w+ )?(?:you|one|we|i|people) needs? to"
    r"|(?:am|is|are|was|were)(?:n't| not) (?:\w+ )?(?:going|planning) to"
    r"|(?:was|were) (?:\w+ )?(?:going|planning) to"
    r"|going to (?:the|an?|school|work|bed|church|college|university)"
    r"|(?:much|a little|years?|days?|hours?|the|a|turned out) later|later (?:that|on that) \w+"
    r"|sooner or later|due (?:to|diligence)|plans to \w+ (?:was|were)"
    r"|to-?do (?:fields?|lists?|items?|apps?|comments?|tables?|pages?))\b"
    r"|(?<!\w)'[^'\n]*'(?!\w)|\"[^\"\n]*\"|`[^`\n]*`",
    re.IGNORECASE,
)
"""What sounds as if something were intended: it is denied, told of the past, quoted, or a name."""
_TO_RECALL: Final = re.compile(
    r"\b(?:don't let (?:me|us) forget|(?:make|take) a note (?:to|of)|follow up (?:with|on)|ping me"
    r"|nudge me)\b",
    re.IGNORECASE,
)
_ASKED: Final = re.compile(
    r"\b(?:remind|reminder|don't (?:let (?:me|us) )?forget|remember to|must not forget|to-?do"
    r"|ping me"
    r"|nudge me|(?:make|take) a note)\b",
    re.IGNORECASE,
)
"""What asks to be reminded."""
_BINDS: Final = re.compile(
    r"\b(?:(?:i|we)(?:'ve got| have(?: got)?| want| ought) to|(?:i|we) (?:must|should)"
    r"|let's|let us)\b",
    re.IGNORECASE,
)
"""What somebody takes on; it is intended for later if it says when, or that there is no hurry."""
_LOW: Final = re.compile(
    r"\b(?:(?:when(?:ever)?|if|once) (?:you|we|i) (?:get|have|find) (?:a |the |some |any )?"
    r"(?:chance|time|moment|minute)|when there(?:'s| is) time|(?:no|not any|without) (?:rush|hurry)"
    r"|not (?:so |very |that |at all )?(?:urgent|important|critical)|low[- ]priority"
    r"|priority(?: is)?:? low|nice to have|some ?day|some ?time|eventually|at some point"
    r"|at your leisure|p[3-5])\b|\[low\]",
    re.IGNORECASE,
)
_HIGH: Final = re.compile(
    r"\b(?:urgent(?:ly)?|a\.?s\.?a\.?p|as soon as possible|immediately|right away|at once"
    r"|critical(?:ly)?|crucial(?:ly)?|(?:very |most |really )?important(?:ly)?|emergency|must not"
    r"|(?:high|top|highest)[- ]priority|priority(?: is)?:? (?:high|top)|without delay|p[01])\b"
    r"|\[high\]|!",
    re.IGNORECASE,
)
_CUE: Final = re.compile(
    r"\b(?:when(?:ever)?|once|as soon as|the next time(?: that)?|next time|if)\s+"
    r"(?P<clause>[^,;:.!?\n]+)",
    re.IGNORECASE,
)
_NO_CUE: Final = re.compile(r"^(?:possible|not|so|needed|necessary|again|i can)\b", re.IGNORECASE)
_BEFORE: Final = r"\bbefore (?:\w+ ){{0,3}}?`?{name}(?:`|\b)"


class Intended(NamedTuple):
    """What a prompt intends."""

    priority: Priority
    trigger: Trigger
    content: str
    """The sentences that intend something, in their own words."""


def intended_in(
    prompt: str, now: datetime, *, tools: Iterable[str] = (), asked: bool = False
) -> Intended | None:
    """What a prompt intends; None if nothing.

    A question intends nothing, a request does. Its trigger is the first of these that can be read
    from it: a tool of `tools` that something is to be done before; a time, in UTC, from `now` on;
    a cue ("when Anna mentions the budget"). Else it waits for a session to begin. With `asked`
    nothing is intended but what the prompt asks to be reminded of, or names a todo.

    Example:
        ```python
        from datetime import UTC, datetime
        from langmem_tiers.remind.prompted import intended_in

        now = datetime(2026, 3, 2, 9, tzinfo=UTC)
        found = intended_in("Urgent: I need to renew the certificate tomorrow at 5pm", now)
        assert (found.priority, str(found.trigger)) == ("high", "at 2026-03-03T17:00:00+00:00")
        ```
    """
    prompt = ends_of(prompt)
    found = [one for one in _SENTENCE.findall(prompt) if _intends(one, now)]
    if asked:
        found = [one for one in found if _ASKED.search(_NOT_SO.sub(" ", _straight(one)))]
    if not found:
        return None
    triggers = (_trigger(one, now, tuple(tools)) for one in found)
    trigger = next((one for one in triggers if one is not None), None)
    content = " ".join(one.strip() for one in found)
    return Intended(priority_of(prompt, found), trigger or If(SESSION_STARTS), content)


def priority_of(prompt: str, sentences: Iterable[str] | None = None) -> Priority:
    """How much a prompt says that what it intends matters; `medium` if it does not say.

    An exclamation mark counts in `sentences` alone, those that intend something.
    """
    told = prompt if sentences is None else " ".join(sentences)
    if _LOW.search(prompt):
        return Priority.LOW
    if _HIGH.search(told) or _HIGH.search(prompt.replace("!", ".")):
        return Priority.HIGH
    return Priority.MEDIUM


def _intends(sentence: str, now: datetime) -> bool:
    if sentence.endswith("?") and not _REQUEST.search(sentence):
        return False
    told = _NOT_SO.sub(" ", _straight(sentence))
    if _TO_RECALL.search(told) or any(one.memory_type == "prospective" for one in route(told)):
        return True
    later = _LOW.search(told) or moment_in(told, now) is not None
    return bool(later and _BINDS.search(told))


def _straight(sentence: str) -> str:
    return sentence.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")


def _trigger(sentence: str, now: datetime, tools: tuple[str, ...]) -> Trigger | None:
    for name in tools:
        if re.search(_BEFORE.format(name=re.escape(name)), sentence, re.IGNORECASE):
            return BeforeTool(name)
    told = _LOW.sub(" ", sentence)
    moment = moment_in(told, now)
    return _cue(told) if moment is None else At(moment)


def _cue(sentence: str) -> When | None:
    """The first clause that could be recognised."""
    for found in _CUE.finditer(sentence):
        clause = found["clause"].strip()
        if _NO_CUE.search(clause):
            continue
        try:
            return When(f"when {clause}")
        except InvalidInputError:  # it names nothing
            continue
    return None
