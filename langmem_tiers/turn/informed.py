"""What earlier stages say, put to use by later ones: they ask for that as well as for the prompt.

A follow-up question says half of what it means, and the conversation has the other half. What is
found thereby adds at most half of the best answer to the prompt alone: what answers that less than
half as well never comes before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from langmem_tiers.core.memory import Recollection
from langmem_tiers.turn.fragment import Section

WEIGHT: Final = 0.5
"""How much of its score in the circumstances a memory is given at most: our own choice."""
MOST_WORDS: Final = 8
"""Words of an earlier stage that are asked for; the time grows with them: our own choice."""
_TELLING: Final = re.compile(r"\w{4,}|\w*[A-Z0-9]{2,}\w*")
"""Words that say what is talked about: no short ones, but for abbreviations and numbers."""
MOST_INFORMED: Final = 10
"""Memories that an earlier stage's words call up at most."""
LEAST_MATCH: Final = 0.1
"""What a memory's match, a chance to be evidence, is at least with the cut-off: our own choice."""
LEAST_INFORMED_MATCH: Final = 0.2
"""Likewise where an earlier stage's words alone call it up: above what shares no word with them."""
_LAST: Final = 2
"""Messages of a conversation that are."""
_LISTED: Final = re.compile(r"^- (.+?)(?: \(\d+% done\))?$", re.MULTILINE)


class Circumstance(NamedTuple):
    """What an earlier stage said, as a question."""

    stage: str
    query: str


def circumstances(sections: Mapping[str, Section], stages: Iterable[str]) -> list[Circumstance]:
    """What these stages said, as far as they said anything."""
    told = [(name, _told(name, sections.get(name, Section()))) for name in stages]
    return [Circumstance(name, said) for name, said in told if said]


def matching(found: Iterable[Recollection], least: float) -> list[Recollection]:
    """Those that match so well at least."""
    return [one for one in found if one.match >= least]


def together(
    direct: Sequence[Recollection],
    informed: Mapping[str, Sequence[Recollection]],
    limit: int,
) -> list[Recollection]:
    """What answers the prompt, and what does in its circumstances, best first.

    The explanation of a memory says what which stage added; of several the one that adds most does.
    """
    best = max((one.score for one in direct), default=None)
    found = {(one.namespace, one.key): one for one in direct}
    added: dict[object, tuple[float, str]] = {}
    for stage, several in informed.items():
        for one in several:
            place = (one.namespace, one.key)
            more = WEIGHT * (one.score if best is None else min(best, one.score))
            added[place] = max(added.get(place, (0.0, "")), (more, stage))
            found.setdefault(place, replace(one, match=0.0, score=0.0, explanation={}))
    raised = [_raised(one, *added.get(place, (0.0, ""))) for place, one in found.items()]
    return sorted(raised, key=lambda one: -one.score)[:limit]


def _raised(one: Recollection, more: float, stage: str) -> Recollection:
    if not more:
        return one
    terms = {**one.explanation, stage: more}
    return replace(one, score=one.score + more, explanation=terms)


def _told(stage: str, section: Section) -> str:
    """What a stage said, in a few words: the end of a conversation, the beginning of a list."""
    if stage == "conversation":
        said = [one.text for one in section if one.fields.get("speaker")] or [str(section)]
        return " ".join(_telling(one, MOST_WORDS // _LAST) for one in said[-_LAST:]).strip()
    text = str(section)
    listed = _LISTED.findall(text) or [text]
    return _telling(" ".join(listed), MOST_WORDS)


def _telling(text: str, most: int) -> str:
    return " ".join(_TELLING.findall(text)[:most])
