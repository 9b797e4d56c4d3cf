"""A chat model that judges cues."""

from __future__ import annotations

from typing import Any

from langchain_core.runnables import Runnable, RunnableLambda


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
