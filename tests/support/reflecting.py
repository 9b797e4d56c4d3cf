"""Chat models that draw lessons, as a test wrote them down, and keep what they were asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.runnables import Runnable


class Reflecting(GenericFakeChatModel):
    """A model that gives the lessons of its script, one answer a request; after them it fails."""

    asked: list[Any] = []  # noqa: RUF012 - pydantic copies it

    def bind_tools(self, *_: Any, **__: Any) -> Runnable[Any, AIMessage]:
        return self

    def _generate(self, messages: Any, *args: Any, **options: Any) -> Any:
        self.asked.append(messages)
        return super()._generate(messages, *args, **options)

    @property
    def told(self) -> list[str]:
        """The turns that it was told of."""
        return [str(one[-1].text) for one in self.asked]


def lesson(instead: str, *attempts: int, reason: str = "It is so") -> dict[str, Any]:
    """One lesson as a model gives it."""
    told = {"failure_reason": reason, "improved_approach": instead, "tags": ["a"]}
    return {**told, "attempts": [*attempts]}


def drawing(*answers: list[dict[str, Any]]) -> Reflecting:
    """A model that gives these lessons, a list an answer."""
    return Reflecting(messages=iter([_answer({"lessons": one}) for one in answers]))


def advising(instead: str = "Mind it", reason: str = "It is so") -> Reflecting:
    """A model that gives the same lesson again and again, by itself and in no list."""
    told = {"failure_reason": reason, "improved_approach": instead, "tags": []}
    return Reflecting(messages=iter([_answer(told)] * 9))


def _answer(args: Mapping[str, Any]) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": "Reflected", "args": dict(args), "id": "1"}])
