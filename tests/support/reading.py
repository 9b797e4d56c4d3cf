"""Chat models that read: cues, and what a session said."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatResult
from langchain_core.runnables import Runnable, RunnableLambda
from pydantic import Field

from langmem_tiers.consolidation.judges import Learned, SummedUp


class Reader:
    """Answers each request with the numbers of these words' cues, and keeps what it is asked."""

    def __init__(self, *shown: str, numbers: list[int] | None = None) -> None:
        self.shown, self.numbers, self.asked = shown, numbers, list[str]()

    def with_structured_output(self, schema: Any, **_: Any) -> Runnable[Any, Any]:
        return RunnableLambda(lambda messages: self._answer(schema, messages))

    def _answer(self, schema: Any, messages: Any) -> Any:
        told = messages[1].content
        self.asked.append(told)
        cues = [one for one in told.splitlines() if one.startswith("<cue")]
        found = [n for n, one in enumerate(cues, 1) if any(word in one for word in self.shown)]
        numbers = found if self.numbers is None else self.numbers
        return schema(numbers=numbers)


def notes_in(shown: str) -> list[str]:
    """The notes that a model was shown."""
    return re.findall(r"<note [^>]*>\n(.*?)\n</note>", shown, re.DOTALL)


class Reading(BaseChatModel):
    """Sums up what it is shown by its ends, and learns that the last of it was said."""

    shown: list[str] = Field(default_factory=list)
    fails: bool = False
    before: Callable[[], object] = Field(default=lambda: None)

    @property
    def _llm_type(self) -> str:
        return "reading"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        raise NotImplementedError

    def with_structured_output(self, schema: Any, **_: Any) -> Runnable[Any, Any]:  # noqa: ARG002
        def call(messages: list[BaseMessage]) -> Any:
            if self.fails:
                raise ConnectionError("no answer")
            self.shown.append(messages[-1].text)
            self.before()
            notes = notes_in(messages[-1].text)
            last = Learned(content=f"It is known: {notes[-1][-60:]}", notes=[len(notes)])
            return SummedUp(summary=f"From {notes[0][:40]} on", concepts=[last])

        return RunnableLambda(call)
