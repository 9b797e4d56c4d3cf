"""Where a memory belongs: its type as it is named, or one or several types by what it says."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from langmem_tiers.core.memory import Destination, Source
from langmem_tiers.core.reading import ends_of

HAPPENED: Final = "it happened"
_INTENDED: Final = re.compile(
    r"\b(?:to-?do|later|need(?:s)? to|plan(?:s|ned|ning)? to|remind(?:er)?|don't forget|must not forget"
    r"|remember to|going to|will have to|by (?:mon|tues|wednes|thurs|fri|satur|sun)day|deadline|due)\b",
    re.IGNORECASE,
)
"""The first four are the specification's keywords of prospective memory."""
_WAYS: Final = re.compile(
    r"\b(?:implemented|how to|steps?:|workflow|procedure|in order to \w+,|to \w+, (?:run|use|call|open)"
    r"|run `|fixed \w+ by|use \w+(?:\.\w+)+|pattern:)|(?:^|\s)1[.)] .+2[.)] ",
    re.IGNORECASE | re.DOTALL,
)
_LESSON: Final = re.compile(
    r"\b(?:lesson|learned that|turned out|next time|should have)\b", re.IGNORECASE
)
_HAPPENED: Final = re.compile(
    r"\b(?:decided|agreed|happened|went|met|started|finished|failed|released|deployed|asked|told|said"
    r"|called|yesterday|this morning|last (?:week|month|night|year)|ago|was|were|did)\b",
    re.IGNORECASE,
)
_HOLDS: Final = re.compile(
    r"\b(?:is|are|likes?|loves?|hates?|prefers?|lives?|works?|owns?|has|have|uses?|runs?|costs?|means"
    r"|rotates?|expires|needs|requires?|returns?|contains?|supports?|takes|holds|belongs?|listens?|lasts?"
    r"|depends?|opens|closes|begins|knows?|speaks?|wants?|allows?|refuses|times out"
    r"|always|never|every|allergic|birthday|called|named)\b",
    re.IGNORECASE,
)
_NOW: Final = re.compile(
    r"\b(?:currently|right now|at the moment|working on|waiting for|in progress|debugging|next:)",
    re.IGNORECASE,
)


def route(
    content: str,
    memory_type: str | None = None,
    *,
    source: str = Source.USER,
    avoiding: Collection[str] = (),
) -> tuple[Destination, ...]:
    """Where a text goes: to the type that is named, or to each that it is of by its words.

    Words lead to none of the types that are to be avoided, as what is stored there expires. What a
    tool says is something that happened. A text of which nothing can be said is episodic; there is
    always one destination, the best first.

    Example:
        ```python
        from langmem_tiers.remember.route import route

        assert [one.memory_type for one in route("I need to renew the certificate later")] == [
            "prospective"
        ]
        ```
    """
    if memory_type is not None:
        return (Destination(memory_type, "its type was named"),)
    if source == Source.TOOL:
        return (Destination("episodic", "a tool said it"),)
    content = ends_of(content)
    found = {
        name: Destination(name, reason)
        for name, reason, pattern in (
            ("prospective", "it is intended", _INTENDED),
            ("procedural", "it says how something is done", _WAYS),
            ("learning", "it is a lesson", _LESSON),
            ("episodic", HAPPENED, _HAPPENED),
            ("episodic", "it is going on", _NOW),
            ("semantic", "it holds in general", _HOLDS),
        )
        if pattern.search(content)
    }
    if found.keys() & {"prospective", "procedural", "episodic"}:
        # What is going to be done, how, or only now, is not a general truth as well.
        found.pop("semantic", None)
    kept = tuple(one for name, one in found.items() if name not in avoiding)
    return kept or (Destination("episodic", "nothing says otherwise"),)
