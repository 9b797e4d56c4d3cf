"""A caller's model that is asked which memories say the same, or contradict each other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Literal, NamedTuple

from langmem_tiers.consolidate.steps import Item
from langmem_tiers.postgres.flow import Ask, Flow

Question = Literal["same", "contradicts"]
"""Whether two memories say the same; whether the second, the newer one, contradicts the first."""
Pair = tuple[Item, Item]


class Judge(NamedTuple):
    """Answers a question for each of several pairs of memories, in their order.

    Both raise ModelError where the model gives nothing usable. Nobody judges in its place then:
    the step fails, and can be done again.
    """

    call: Callable[[Question, Sequence[Pair]], Sequence[bool]]
    acall: Callable[[Question, Sequence[Pair]], Awaitable[Sequence[bool]]]


def judged(judge: Judge | None, question: Question, pairs: Sequence[Pair]) -> Flow[list[Pair]]:
    """The pairs of which the answer is yes; none without a judge."""
    if judge is None or not pairs:
        return []
    answers: Sequence[bool] = yield Ask(
        lambda: judge.call(question, pairs), lambda: judge.acall(question, pairs)
    )
    return [pair for pair, yes in zip(pairs, answers, strict=True) if yes]
