"""What a user's message does to what was remembered: it takes some back, corrects some, or neither.

A chat model that is named says so, in one request. What it is less sure of than `CONFIDENT` counts
as neither, and so does what the user only quotes or pastes: it is not shown to the model.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC
from typing import Final, Literal, NamedTuple, TypeAlias

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from pydantic import BaseModel, Field

from langmem_tiers.core import prompts
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.memory import Recollection
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


class Act(BaseModel):
    """What a message does to one memory."""

    memory: int = Field(description=prompts.ACT_MEMORY)
    act: Literal["retract", "correct"] = Field(description=prompts.ACT_KIND)
    confidence: float = Field(description=prompts.ACT_CONFIDENCE)
    stands: str = Field(description=prompts.ACT_STANDS)


class Acts(BaseModel):
    """What a model is asked for."""

    acts: list[Act] = Field(description=prompts.ACTS_JUDGED)
    tells_more: bool = Field(description=prompts.ACTS_TELL_MORE)


class Message(NamedTuple):
    """A message of a user's, and the memories that it may take back or correct."""

    text: str
    earlier: Sequence[Recollection]
    session_id: str | None
    """In which it is said."""

    def messages(self) -> list[BaseMessage]:
        """What the model is told."""
        memories = "\n".join(
            prompts.ACTS_EARLIER.format(
                number=number,
                said=f"{(one.occurred_at or one.created_at).astimezone(UTC):%Y-%m-%d %H:%M}",
                here="this" if one.session_id and one.session_id == self.session_id else "another",
                content=quoted(ends_of(one.content, _SHOWN)),
            )
            for number, one in enumerate(self.earlier, 1)
        )
        shown = prompts.ACTS_SHOWN.format(memories=memories, message=quoted(self.text))
        return [SystemMessage(prompts.ACTS), HumanMessage(shown)]

    def read(self, answer: Acts) -> Acts:
        """What an answer says as far as it is sure, of each memory once.

        Raises:
            InvalidInputError: if it names a memory that there is not, or words that none has.
        """
        for one in answer.acts:
            self._check(one)
        sure = {
            one.memory: one
            for one in answer.acts
            if one.confidence >= CONFIDENT and not self._stands_whole(one)
        }
        return Acts(acts=list(sure.values()), tells_more=answer.tells_more)

    def _check(self, one: Act) -> None:
        last = len(self.earlier)
        if not 1 <= one.memory <= last:
            problem = prompts.NO_SUCH_MEMORY.format(number=one.memory, last=last)
            raise InvalidInputError(problem)
        if not 0 <= one.confidence <= 1:
            problem = prompts.NO_SUCH_CONFIDENCE.format(confidence=one.confidence)
            raise InvalidInputError(problem)
        stands = one.stands.strip()
        if one.act == "retract" and spaced(stands) not in spaced(
            self.earlier[one.memory - 1].content
        ):
            problem = prompts.NOT_ITS_WORDS.format(stands=stands, number=one.memory)
            raise InvalidInputError(problem)

    def _stands_whole(self, one: Act) -> bool:
        """Whether nothing of a memory is taken back."""
        whole = self.earlier[one.memory - 1].content
        return one.act == "retract" and one.stands.strip() == whole


Ways: TypeAlias = tuple[Callable[[Message], Acts], Callable[[Message], Awaitable[Acts]]]
"""Both ask a model what a message does, and raise ModelError if it does not say."""


def decider_of(model: BaseChatModel) -> Ways:
    """Two functions that ask a chat model once, one that blocks and one that is awaited.

    Raises:
        InvalidTypeError: for what is no chat model.
    """
    return ways_to_ask(model, Acts, lambda message: [message], lambda read, _: read[0])


def own_words(text: str) -> str:
    """A message without what it quotes; nothing if that is too long to take something back."""
    said = _ELSEWHERE.sub(" … ", text).strip()
    return said if len(said) <= LONGEST else ""
