"""What a text intends: how much it matters, and what it waits for.

By the specification's keywords and by what asks to be reminded, in English.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

from langmem_tiers.core.reading import ends_of
from langmem_tiers.remember.intending import LEAD, intending, sentences
from langmem_tiers.remind.cue import read_cue
from langmem_tiers.remind.intentions import PRIORITIES, Priority
from langmem_tiers.remind.times import START, time_in
from langmem_tiers.remind.triggers import At, BeforeTool, If, Topic, Trigger

SESSION_STARTS: Final = "session_starts"
"""The predicate that what names no occasion waits for: a session that begins."""

_LOW: Final = re.compile(
    r"\b(?:no rush|not urgent|some ?day|when(?:ever)? you (?:get a chance|have time)"
    r"|low[- ]priority)\b|\[low\]",
    re.IGNORECASE,
)
_HIGH: Final = re.compile(
    r"\b(?:urgent|asap|immediately|critical|high[- ]priority)\b|\[high\]|!", re.IGNORECASE
)
_LONGEST: Final = 200
"""Characters of a cue: our own choice."""
_CUE: Final = re.compile(rf"{LEAD.pattern}\s+([^,;:.!?\n]+)", re.IGNORECASE)
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

    A question intends nothing, a request to be reminded does. Its trigger is the first of these
    that can be read from it: a tool of `tools` that something is to be done before; a time, in
    the zone of `now` and from then on; a cue's topic ("when Anna mentions the budget"). Else it
    waits for a session to begin. With `asked` nothing is intended but what the prompt asks to be
    reminded of, or names a todo.

    Example:
        ```python
        from datetime import UTC, datetime
        from langmem_tiers.remind.prompted import intended_in

        now = datetime(2026, 3, 2, 9, tzinfo=UTC)
        found = intended_in("Urgent: I need to renew the certificate tomorrow at 5pm", now)
        assert (found.priority, str(found.trigger)) == ("high", "at 2026-03-03T17:00:00+00:00")
        ```
    """
    found = intending(prompt, asked=asked)
    if not found:
        return None
    content = " ".join(one.strip() for one in found)
    triggers = (_trigger(one, now, tuple(tools), content) for one in found)
    trigger = next((one for one in triggers if one is not None), None)
    return Intended(priority_of(ends_of(prompt), content), trigger or If(SESSION_STARTS), content)


def intended_by(
    content: str, metadata: Mapping[str, Any], said: datetime, now: datetime
) -> Intended:
    """What a memory intends that was said at a moment: for a time still to come, else its topic.

    Its priority is that of its metadata, else what it says.
    """
    level = metadata.get("priority")
    ends = ends_of(content)
    priority = Priority(level) if level in PRIORITIES else priority_of(ends, ends)
    told = intending(content) or sentences(ends)
    times = (_still(time_in(one, said), said, now) for one in told)
    time = next((one for one in times if one is not None), None)
    return Intended(priority, time or Topic.of(content, cue_in(content)), content)


def is_before(about: str, tool: str) -> bool:
    """Whether a text names a tool behind a "before"."""
    return bool(re.search(_BEFORE.format(name=re.escape(tool)), about, re.IGNORECASE))


def priority_of(prompt: str, intended: str) -> Priority:
    """How much a prompt says that what it intends matters; `medium` if it does not say.

    An exclamation mark counts in what it intends alone.
    """
    if _LOW.search(prompt):
        return Priority.LOW
    if _HIGH.search(intended) or _HIGH.search(prompt.replace("!", ".")):
        return Priority.HIGH
    return Priority.MEDIUM


def _still(at: At | None, said: datetime, now: datetime) -> At | None:
    """A time that is still to come, or a day that is not over; of what recurs the next one."""
    if at is None or at.moment is None or at.moment > now:
        return at
    begun = at.moment.astimezone(said.tzinfo)
    today = datetime.combine(now.astimezone(said.tzinfo), START, said.tzinfo)
    if at.every is None and begun == today:
        return at
    again = at.again(now)
    return None if again is None else At(again, at.every, at.timezone)


def _trigger(sentence: str, now: datetime, tools: tuple[str, ...], content: str) -> Trigger | None:
    for name in tools:
        if is_before(sentence, name):
            return BeforeTool(name)
    cue = cue_in(sentence)
    return time_in(sentence, now) or (None if cue is None else Topic.of(content, cue))


def cue_in(text: str) -> str | None:
    """The first clause that says enough to be recognised: two words at least."""
    clauses = _CUE.findall(_LOW.sub(" ", ends_of(text)))
    cues = (f"when {one.strip()}" for one in clauses if len(one) <= _LONGEST)
    return next((one for one in cues if len(read_cue(one).stems) > 1), None)
