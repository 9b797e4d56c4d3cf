"""A chat model as the judge of which cues a text shows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from pydantic import BaseModel, Field

from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.prompts import (
    CUE_ONE,
    CUE_SHOWN,
    CUES_JUDGE,
    CUES_JUDGED,
    NO_SUCH_CUE,
)
from langmem_tiers.core.structured import aask, ask, checked_model, trimmed
from langmem_tiers.recall.fence import quoted


class CueJudge(NamedTuple):
    """Finds those of several cues that a text shows.

    Both raise ModelError where the model gives nothing usable. Nobody judges in its place then:
    nothing is raised, and all of it is due still.
    """

    call: Callable[[str, Sequence[str]], frozenset[str]]
    acall: Callable[[str, Sequence[str]], Awaitable[frozenset[str]]]


class ShownCues(BaseModel):
    """What a model is asked for."""

    numbers: list[int] = Field(description=CUES_JUDGED)


def cue_judge(model: BaseChatModel) -> CueJudge:
    """A judge that asks a chat model, all cues in one request.

    Example:
        ```python
        from langmem_tiers.remind.judging import cue_judge

        shown = cue_judge(model).call("Anna asked about money", ["when Anna mentions the budget"])
        ```
    """
    checked_model(model)

    def call(text: str, cues: Sequence[str]) -> frozenset[str]:
        asked = _Request(text, cues)
        return asked.shown(ask(model, ShownCues, asked.messages(), asked.shown))

    async def acall(text: str, cues: Sequence[str]) -> frozenset[str]:
        asked = _Request(text, cues)
        return asked.shown(await aask(model, ShownCues, asked.messages(), asked.shown))

    return CueJudge(call, acall)


class _Request(NamedTuple):
    text: str
    cues: Sequence[str]

    def messages(self) -> list[BaseMessage]:
        """What the model is told."""
        cues = "\n".join(
            CUE_ONE.format(number=number, cue=quoted(one))
            for number, one in enumerate(self.cues, 1)
        )
        shown = CUE_SHOWN.format(text=quoted(trimmed(self.text)), cues=cues)
        return [SystemMessage(CUES_JUDGE), HumanMessage(shown)]

    def shown(self, answer: ShownCues) -> frozenset[str]:
        """The cues that an answer names.

        Raises:
            InvalidInputError: if it names one that there is not.
        """
        for number in answer.numbers:
            if not 1 <= number <= len(self.cues):
                raise InvalidInputError(NO_SUCH_CUE.format(number=number, last=len(self.cues)))
        return frozenset(self.cues[number - 1] for number in answer.numbers)
