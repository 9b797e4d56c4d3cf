"""The rules of merging and superseding as a judge: what they find is done, for who measures them.

The package proposes what they find and does it only if a judge says so. This one always does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable, RunnableLambda

from langmem_tiers.consolidate.contradictions import contradictions
from langmem_tiers.consolidate.duplicates import same
from langmem_tiers.consolidate.items import Item
from langmem_tiers.consolidate.judge import Judge, Pair, Question
from langmem_tiers.consolidate.judging import JudgedPair, Judgement
from langmem_tiers.consolidate.summarising import SummedUp
from langmem_tiers.core.prompts import JUDGE_CONTRADICTS, UNKNOWN_SPEAKER
from langmem_tiers.learn.generalise import abstracted
from langmem_tiers.learn.generalising import General

_MEMORY = re.compile(
    r'<memory number="(\d+)" since="([^"]*)" speaker="([^"]*)">\n(.*?)\n</memory>$',
    re.DOTALL | re.MULTILINE,
)
_PAIRS = re.compile(r"<pairs>\n(.*)\n</pairs>\Z", re.DOTALL)
_GENERAL = re.compile(r"<memory>\n(.*)\n</memory>\n<names>\n(.*)\n</names>\Z", re.DOTALL)


def ruled(question: Question, pairs: Sequence[Pair]) -> list[bool]:
    """Of which pairs it is so by the rules."""
    if question == "same":
        return [same(one, other) for one, other in pairs]
    ended = ({found.older for found in contradictions(pair)} for pair in pairs)
    return [one.id in found for (one, _), found in zip(pairs, ended, strict=True)]


async def _aruled(question: Question, pairs: Sequence[Pair]) -> list[bool]:
    return ruled(question, pairs)


RULES = Judge(ruled, _aruled)


class Ruling(BaseChatModel):
    """A chat model that answers what the rules say; it sums nothing up that notes do not say."""

    @property
    def _llm_type(self) -> str:
        return "ruling"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage(messages[-1].text))])

    def with_structured_output(self, schema: Any, **_: Any) -> Runnable[Any, Any]:
        """Answers with an object of the schema."""

        def call(messages: list[BaseMessage]) -> dict[str, Any]:
            parsed = _ANSWERS[schema](messages[0].text, messages[1].text)
            return {"raw": AIMessage("{}"), "parsed": parsed, "parsing_error": None}

        async def acall(messages: list[BaseMessage]) -> dict[str, Any]:
            return call(messages)

        return RunnableLambda(call, acall)


def _judgement(asked: str, shown: str) -> Judgement:
    items = {int(one[1]): _item(one) for one in _MEMORY.finditer(shown)}
    (listed,) = _PAIRS.findall(shown)
    numbers = [(int(one), int(other)) for one, other in re.findall(r"(\d+), (\d+)", listed)]
    question: Question = "contradicts" if JUDGE_CONTRADICTS in asked else "same"
    said = ruled(question, [(items[one], items[other]) for one, other in numbers])
    yes = (pair for pair, so in zip(numbers, said, strict=True) if so)
    return Judgement(pairs=[JudgedPair(older=one, newer=other) for one, other in yes])


def _item(found: re.Match[str]) -> Item:
    since = datetime.fromisoformat(found[2]).replace(tzinfo=UTC)
    speaker = None if found[3] == UNKNOWN_SPEAKER else found[3]
    return Item(int(found[1]), since, found[4], "semantic", speaker)


def _general(_: str, shown: str) -> General:
    ((content, names),) = _GENERAL.findall(shown)
    return General(content=abstracted(content, names.splitlines()))


def _summed_up(_: str, shown: str) -> SummedUp:
    return SummedUp(summary=f"{shown.count('<note ')} notes", concepts=[])


_ANSWERS = {Judgement: _judgement, General: _general, SummedUp: _summed_up}
