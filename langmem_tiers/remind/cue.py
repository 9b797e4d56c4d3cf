"""Whether a text shows a cue: "when Anna mentions the budget"; by stems, or as a model says.

By stems one sentence holds two thirds of the cue's longer words, its last one and every name among
them. It is denied as the cue is, and is the speaker's own if the cue is. Nothing else is known of a
language, so a sentence that says the same words of something else shows the cue too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Final, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage, SystemMessage
from pydantic import BaseModel, Field

from langmem_tiers.core import prompts
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.reading import ends_of, sentences_of, stem, words
from langmem_tiers.core.structured import aask, ask, trimmed
from langmem_tiers.postgres.flow import Ask, Flow
from langmem_tiers.recall.fence import quoted

LEAD: Final = re.compile(
    r"\b(?:when(?:ever)?|if|once|as soon as|next time(?: that)?)\b", re.IGNORECASE
)
"""What a cue begins with; what stands before it is no part of the cue."""
DENIED: Final = re.compile(r"\b(?:not?|never|cannot)\b|n['\u2019]t\b", re.IGNORECASE)
_OWN: Final = re.compile(r"\b(?:i|me|my|mine)\b", re.IGNORECASE)
_SHORT: Final = 3
"""Letters of words that say little, in lower case and beside longer ones."""
_AT_ONCE: Final = 100
"""Words of a sentence that are looked at at once: our own choice."""


class Sentence(NamedTuple):
    """A sentence as it is compared with cues."""

    stems: frozenset[str]
    denied: frozenset[str]
    """Those between commas where something is denied."""
    own: bool


class Cue(NamedTuple):
    """A cue as it is compared with sentences."""

    stems: frozenset[str]
    anchors: frozenset[str]
    """Those that must be there: its names, and its last word."""
    denied: bool
    own: bool

    def is_shown_by(self, said: Sentence) -> bool:
        """Whether a sentence shows it."""
        found = self.stems & said.stems
        return (
            self.anchors <= found
            and len(found) >= len(self.stems) - len(self.stems) // 3
            and self.denied is bool(said.denied & found)
            and (said.own or not self.own)
        )


def anchors(cue: str) -> tuple[str, ...]:
    """Stems that every text which shows the cue holds, sorted; none of a cue that says nothing.

    They are stored: whoever changes what a stem is makes those of older cues anew.
    """
    return tuple(sorted(read_cue(cue).anchors))


def features(text: str) -> frozenset[str]:
    """Every anchor that a text holds."""
    found = set[str]()
    for one in _read(text):
        found |= one.stems
    return frozenset(found)


def matches(cue: str, text: str) -> bool:
    """Whether a text shows a cue."""
    wanted = read_cue(cue)
    return bool(wanted.anchors) and any(map(wanted.is_shown_by, _read(text)))


@lru_cache(maxsize=4096)
def read_cue(text: str) -> Cue:
    """Take a cue apart."""
    lead = LEAD.search(text)
    clause = text[lead.end() :] if lead else text
    told = _telling(clause.split())
    names = told if lead else told[1:]  # a first word has its capital from its place
    needed = [*_stems(" ".join(told))]
    named = _stems(" ".join(one for one in names if not one.islower()))
    return Cue(
        frozenset(needed),
        frozenset([*named, *needed[-1:]]),
        bool(DENIED.search(clause)),
        bool(_OWN.search(clause)),
    )


def _telling(pieces: list[str]) -> list[str]:
    """The pieces that say what a cue is about: what is long, and what is not in lower case."""
    others = [one for one in pieces if not (_OWN.match(one) or DENIED.search(one))]
    told = [one for one in others if len(one) > _SHORT or not one.islower()]
    return told if len(told) > 1 else [one for one in others if len(one) >= _SHORT or one in told]


def _stems(text: str) -> list[str]:
    return list(map(stem, words(text)))


@lru_cache(maxsize=64)
def _read(text: str) -> tuple[Sentence, ...]:
    """The sentences of a text; of a long one, of both its ends.

    Of a long sentence they are parts that are looked at at once, and overlap by half.
    """
    found, step = [], _AT_ONCE // 2
    for one in sentences_of(ends_of(text)):
        said = one.split()
        for start in range(0, max(1, len(said) - step), step):
            part = " ".join(said[start : start + _AT_ONCE])
            denied = " , ".join(filter(DENIED.search, part.split(",")))
            own = bool(_OWN.search(part))
            found.append(Sentence(frozenset(_stems(part)), frozenset(_stems(denied)), own))
    return tuple(found)


class ShownCues(BaseModel):
    """What a model is asked for."""

    numbers: list[int] = Field(description=prompts.CUES_JUDGED)


def judged_cues(model: BaseChatModel, text: str, cues: Sequence[str]) -> Flow[frozenset[str]]:
    """Those of several cues that a text shows, as a chat model says in one request.

    Raises:
        ModelError: if it gave nothing usable. Nobody judges in its place then: nothing is raised,
            and all of it is due still.
    """
    listed = "\n".join(
        prompts.CUE_ONE.format(number=number, cue=quoted(one)) for number, one in enumerate(cues, 1)
    )
    shown = prompts.CUE_SHOWN.format(text=quoted(trimmed(text)), cues=listed)
    told = (model, ShownCues, [SystemMessage(prompts.CUES_JUDGE), HumanMessage(shown)])
    check = partial(_check_numbers, last=len(cues))
    answer: ShownCues = yield Ask(partial(ask, *told, check), partial(aask, *told, check))
    return frozenset(cues[number - 1] for number in answer.numbers)


def _check_numbers(answer: ShownCues, last: int) -> None:
    for number in answer.numbers:
        if not 1 <= number <= last:
            raise InvalidInputError(prompts.NO_SUCH_CUE.format(number=number, last=last))
