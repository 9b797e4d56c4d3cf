"""Chat models as judges: what says the same, and what newer memories contradict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from pydantic import BaseModel, Field

from langmem_tiers.consolidate.items import Item
from langmem_tiers.consolidate.judge import Judge, Pair, Question
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.prompts import (
    JUDGE,
    JUDGE_CONTRADICTS,
    JUDGE_MEMORY,
    JUDGE_PAIRS,
    JUDGE_SAME,
    JUDGED_NEWER,
    JUDGED_OLDER,
    JUDGED_PAIRS,
    NOT_ASKED,
    SWAPPED,
    UNKNOWN_SPEAKER,
)
from langmem_tiers.core.structured import aask, ask, checked_model
from langmem_tiers.recall.fence import labelled, quoted

LONGEST: Final = 4_000
"""Characters of a memory that a model is shown; of a longer one, which it cannot be shown whole,
it is not asked."""
_AT_ONCE: Final = 24_000
"""Characters of memories in one request, or one pair of them."""
_QUESTIONS: Final[dict[Question, str]] = {"same": JUDGE_SAME, "contradicts": JUDGE_CONTRADICTS}


class JudgedPair(BaseModel):
    """A pair, by the numbers that the model is shown."""

    older: int = Field(description=JUDGED_OLDER)
    newer: int = Field(description=JUDGED_NEWER)


class Judgement(BaseModel):
    """What a model is asked for."""

    pairs: list[JudgedPair] = Field(description=JUDGED_PAIRS)


def judge_of(model: BaseChatModel) -> Judge:
    """A judge that asks a chat model; both functions raise `ModelError` without an answer.

    All pairs are asked in one request, or in several where that would show the model more than
    24,000 characters. Of a memory with more than 4,000 it is not asked: the answer is no. Pairs
    that were not asked, or the wrong way round, are told to the model once, like any malformed
    answer.

    Example:
        ```python
        from langmem_tiers.consolidate.judging import judge_of

        (alike,) = judge_of(model).call("same", [(older, newer)])
        ```
    """
    checked_model(model)

    def call(question: Question, pairs: Sequence[Pair]) -> list[bool]:
        said: set[Pair] = set()
        for one in _requests(question, pairs):
            said |= one.named(ask(model, Judgement, one.messages(), one.named))
        return [pair in said for pair in pairs]

    async def acall(question: Question, pairs: Sequence[Pair]) -> list[bool]:
        said: set[Pair] = set()
        for one in _requests(question, pairs):
            said |= one.named(await aask(model, Judgement, one.messages(), one.named))
        return [pair in said for pair in pairs]

    return Judge(call, acall)


class _Request(NamedTuple):
    """One question about several pairs, each of an older memory and a newer one."""

    question: Question
    pairs: Sequence[Pair]

    def messages(self) -> list[BaseMessage]:
        """What the model is told."""
        numbers = self._numbers()
        shown = JUDGE_PAIRS.format(
            memories="\n".join(_shown(number, one) for one, number in numbers.items()),
            pairs="\n".join(f"{numbers[one]}, {numbers[other]}" for one, other in self.pairs),
        )
        return [
            SystemMessage(JUDGE.format(question=_QUESTIONS[self.question])),
            HumanMessage(shown),
        ]

    def named(self, answer: Judgement) -> set[Pair]:
        """The pairs that an answer names.

        Raises:
            InvalidInputError: if it names one that was not asked.
        """
        numbers = self._numbers()
        asked = {(numbers[one], numbers[other]): (one, other) for one, other in self.pairs}
        found: set[Pair] = set()
        for older, newer in ((one.older, one.newer) for one in answer.pairs):
            pair = asked.get((older, newer))
            turned = asked.get((newer, older))
            if pair is None and turned is not None and self.question == "contradicts":
                raise InvalidInputError(SWAPPED.format(older=older, newer=newer))
            if pair is None and turned is None:
                raise InvalidInputError(NOT_ASKED.format(older=older, newer=newer))
            found.update(one for one in (pair, turned) if one is not None)
        return found

    def _numbers(self) -> dict[Item, int]:
        items = dict.fromkeys(one for pair in self.pairs for one in pair)
        return {one: number for number, one in enumerate(items, 1)}


def _requests(question: Question, pairs: Sequence[Pair]) -> Iterator[_Request]:
    """As few requests as can hold all that is asked."""
    some: list[Pair] = []
    size = 0
    for pair in pairs:
        if any(len(one.content) > LONGEST for one in pair):
            continue
        more = sum(len(one.content) for one in pair)
        if some and size + more > _AT_ONCE:
            yield _Request(question, some)
            some, size = [], 0
        some.append(pair)
        size += more
    if some:
        yield _Request(question, some)


def _shown(number: int, one: Item) -> str:
    return JUDGE_MEMORY.format(
        number=number,
        since=f"{one.since:%Y-%m-%d %H:%M}",
        speaker=labelled(one.speaker or UNKNOWN_SPEAKER),
        content=quoted(one.content),
    )
