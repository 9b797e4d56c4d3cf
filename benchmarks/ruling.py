"""A chat model that settles what a cycle proposes: by what is known, or by counting words.

The package ends nothing and merges hardly anything unless a model says so; whoever measures or
tests what comes of that names this one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable, RunnableLambda

from langmem_tiers.consolidation.judges import (
    Judge,
    JudgedPair,
    Judgement,
    Pair,
    PairQuestion,
    SummedUp,
)
from langmem_tiers.core.prompts import JUDGE_CONTRADICTS
from langmem_tiers.core.texts import normalise
from langmem_tiers.learning.generalise import General

Says = Callable[[PairQuestion, str, str], bool]
"""Whether a question about an older text and a newer one is answered with yes."""

_MEMORY = re.compile(
    r'<memory number="(\d+)" since="([^"]*)" speaker="([^"]*)">\n(.*?)\n</memory>$',
    re.DOTALL | re.MULTILINE,
)
_PAIRS = re.compile(r"<pairs>\n(.*)\n</pairs>\Z", re.DOTALL)
_GENERAL = re.compile(r"<memory>\n(.*)\n</memory>\n<names>\n(.*)\n</names>\Z", re.DOTALL)


def counted(question: PairQuestion, older: str, newer: str) -> bool:
    """The same is what is equal; what differs in one word, or denies it, contradicts."""
    one, other = (normalise(text).split() for text in (older, newer))
    if question == "same" or one == other:
        return question == "same" and one == other
    differ = sum(word != twin for word, twin in zip(one, other, strict=False))
    denied = sorted([*one, "not"]) == sorted(other)
    return denied or (len(one) == len(other) and differ == 1)


def _ruled(question: PairQuestion, pairs: Sequence[Pair]) -> list[bool]:
    return [counted(question, one.content, other.content) for one, other in pairs]


async def _aruled(question: PairQuestion, pairs: Sequence[Pair]) -> list[bool]:
    return _ruled(question, pairs)


COUNTED = Judge(_ruled, _aruled)


class Ruling(BaseChatModel):
    """A chat model that knows what it is told; it sums nothing up that notes do not say."""

    says: Says = counted

    @property
    def _llm_type(self) -> str:
        return "ruling"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage(messages[-1].text))])

    def with_structured_output(self, schema: Any, **_: Any) -> Runnable[Any, Any]:
        """Answers with an object of the schema."""

        def call(messages: list[BaseMessage]) -> Any:
            return _ANSWERS[schema](self.says, messages[0].text, messages[1].text)

        async def acall(messages: list[BaseMessage]) -> Any:
            return call(messages)

        return RunnableLambda(call, acall)


def _judgement(says: Says, asked: str, shown: str) -> Judgement:
    items = {int(one[1]): one[4] for one in _MEMORY.finditer(shown)}
    (listed,) = _PAIRS.findall(shown)
    numbers = [(int(one), int(other)) for one, other in re.findall(r"(\d+), (\d+)", listed)]
    question: PairQuestion = "contradicts" if JUDGE_CONTRADICTS in asked else "same"
    yes = [
        JudgedPair(older=one, newer=other)
        for one, other in numbers
        if says(question, items[one], items[other])
    ]
    return Judgement(pairs=yes)


def _general(_: Says, __: str, shown: str) -> General:
    ((content, names),) = _GENERAL.findall(shown)
    for name in names.splitlines():
        content = re.sub(re.escape(name), "the project", content, flags=re.IGNORECASE)
    return General(content=content)


def _summed_up(_: Says, __: str, shown: str) -> SummedUp:
    return SummedUp(summary=f"{shown.count('<note ')} notes", concepts=[])


_ANSWERS = {Judgement: _judgement, General: _general, SummedUp: _summed_up}
