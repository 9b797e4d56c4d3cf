"""What a user's message does to what was remembered: it takes some back, corrects some, or neither.

A chat model that is named says so, in one request. What it is less sure of than `CONFIDENT` counts
as neither, and so does what the user only quotes or pastes: it is not shown to the model.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final, Literal, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from pydantic import BaseModel, Field

from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.prompts import (
    ACT_CONFIDENCE,
    ACT_KIND,
    ACT_MEMORY,
    ACT_STANDS,
    ACTS,
    ACTS_EARLIER,
    ACTS_JUDGED,
    ACTS_SHOWN,
    ACTS_TELL_MORE,
    NO_SUCH_CONFIDENCE,
    NO_SUCH_MEMORY,
    NOT_ITS_WORDS,
)
from langmem_tiers.core.reading import ends_of, spaced
from langmem_tiers.core.structured import ways_to_ask
from langmem_tiers.recall.fence import quoted

CONFIDENT: Final = 0.8
"""Below this nothing changes; our own choice."""
LONGEST: Final = 500
"""Characters of a message's own words up to which it may take something back: who pastes more is
not asked about; our own choice."""
_SHOWN: Final = 1_000
"""Characters of a memory that a model is shown, from both its ends."""
_LONG_QUOTE: Final = 80
_ELSEWHERE: Final = re.compile(
    r"```.*?(?:```|\Z)|^[ \t]*>[^\n]*"
    rf'|"[^"]{{{_LONG_QUOTE},}}"|“[^“”]{{{_LONG_QUOTE},}}”|«[^«»]{{{_LONG_QUOTE},}}»',
    re.DOTALL | re.MULTILINE,
)
"""What a message quotes: code, quoted lines, and long passages in quotation marks."""

Kind = Literal["retract", "correct"]


class Earlier(NamedTuple):
    """A memory that a message may take back or correct."""

    content: str
    said_at: datetime
    here: bool
    """Whether it is of the same session."""
    session: str | None = None


class Act(NamedTuple):
    """What a message does to one of the memories before it."""

    kind: Kind
    place: int
    """That of the memory, from 0."""
    stands: str = ""
    """What of it still holds, word for word, where it is taken back."""


class Reading(NamedTuple):
    """What a message does."""

    acts: tuple[Act, ...] = ()
    tells_more: bool = True
    """Whether it says anything beside that."""


class Decider(NamedTuple):
    """Says what a message does to the memories before it; both raise ModelError if it cannot."""

    call: Callable[[str, Sequence[Earlier]], Reading]
    acall: Callable[[str, Sequence[Earlier]], Awaitable[Reading]]


def own_words(text: str) -> str:
    """A message without what it quotes; nothing if that is too long to take something back."""
    said = _ELSEWHERE.sub(" … ", text).strip()
    return said if len(said) <= LONGEST else ""


class OneAct(BaseModel):
    """What the message does to one memory."""

    memory: int = Field(description=ACT_MEMORY)
    act: Kind = Field(description=ACT_KIND)
    confidence: float = Field(description=ACT_CONFIDENCE)
    stands: str = Field(description=ACT_STANDS)


class Acts(BaseModel):
    """What a model is asked for."""

    acts: list[OneAct] = Field(description=ACTS_JUDGED)
    tells_more: bool = Field(description=ACTS_TELL_MORE)


def decider_of(model: BaseChatModel) -> Decider:
    """A decider that asks a chat model once; both functions raise `ModelError` without an answer.

    Example:
        ```python
        from langmem_tiers.remember.acts import decider_of

        reading = decider_of(model).call("Forget that, I was kidding", earlier)
        ```
    """
    return Decider(*ways_to_ask(model, Acts, _request, _only))


class _Message(NamedTuple):
    """A message, and the memories before it."""

    text: str
    earlier: Sequence[Earlier]

    def messages(self) -> list[BaseMessage]:
        """What the model is told."""
        memories = "\n".join(_shown(number, one) for number, one in enumerate(self.earlier, 1))
        shown = ACTS_SHOWN.format(memories=memories, message=quoted(self.text))
        return [SystemMessage(ACTS), HumanMessage(shown)]

    def read(self, answer: Acts) -> Reading:
        """What an answer says, as far as it is sure.

        Raises:
            InvalidInputError: if it names a memory that there is not, or words that none has.
        """
        acts = [self._act(one) for one in answer.acts]
        sure = (act for act, one in zip(acts, answer.acts, strict=True) if _sure(one))
        last = {act.place: act for act in sure if act.stands != self.earlier[act.place].content}
        return Reading(tuple(last.values()), answer.tells_more)

    def _act(self, one: OneAct) -> Act:
        if not 1 <= one.memory <= len(self.earlier):
            problem = NO_SUCH_MEMORY.format(number=one.memory, last=len(self.earlier))
            raise InvalidInputError(problem)
        if not 0 <= one.confidence <= 1:
            raise InvalidInputError(NO_SUCH_CONFIDENCE.format(confidence=one.confidence))
        content, stands = self.earlier[one.memory - 1].content, one.stands.strip()
        if one.act == "correct":
            stands = ""
        elif spaced(stands) not in spaced(content):
            raise InvalidInputError(NOT_ITS_WORDS.format(stands=stands, number=one.memory))
        return Act(one.act, one.memory - 1, stands)


def _sure(one: OneAct) -> bool:
    return one.confidence >= CONFIDENT


def _request(text: str, earlier: Sequence[Earlier]) -> Iterator[_Message]:
    yield _Message(text, earlier)


def _only(several: list[Reading], /, text: str, earlier: Sequence[Earlier]) -> Reading:  # noqa: ARG001 - what was asked
    return several[0]


def _shown(number: int, one: Earlier) -> str:
    return ACTS_EARLIER.format(
        number=number,
        said=f"{one.said_at.astimezone(UTC):%Y-%m-%d %H:%M}",
        here="this" if one.here else "another",
        content=quoted(ends_of(one.content, _SHOWN)),
    )
