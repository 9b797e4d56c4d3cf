"""A caller's model that is asked about memories on which the rules have no word."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, NamedTuple

from langmem_tiers.consolidate.items import Item
from langmem_tiers.errors import InvalidInputError, ModelError
from langmem_tiers.flow import Ask, Flow

Question = Literal["same", "contradicts"]
"""Whether two memories say the same; whether the second, the newer one, contradicts the first."""
Pair = tuple[Item, Item]

UNSAID = "the model said nothing usable of it"


class Judge(NamedTuple):
    """Answers a question for each of several pairs of memories, in their order.

    Both raise ModelError where the model gives nothing usable: the rules alone decide then.
    """

    call: Callable[[Question, Sequence[Pair]], Sequence[bool]]
    acall: Callable[[Question, Sequence[Pair]], Awaitable[Sequence[bool]]]


def judged(judge: Judge, question: Question, pairs: Sequence[Pair]) -> Flow[list[Pair] | None]:
    """The pairs of which the answer is yes; None where the model gave nothing usable."""
    if not pairs:
        return []

    def call() -> Sequence[bool] | None:
        try:
            return judge.call(question, pairs)
        except (ModelError, InvalidInputError):
            return None

    async def acall() -> Sequence[bool] | None:
        try:
            return await judge.acall(question, pairs)
        except (ModelError, InvalidInputError):
            return None

    answers: Sequence[bool] | None = yield Ask(call, acall)
    if answers is None:
        return None
    return [pair for pair, yes in zip(pairs, answers, strict=True) if yes]
