"""Chat models that say what a scenario wrote down, and tools that fail where it says so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable, RunnableLambda
from langchain_core.tools import ToolException, tool
from pydantic import Field


class Scripted(FakeMessagesListChatModel):
    """Says its responses in order, which call what tools they like, and keeps what it was shown."""

    seen: list[list[str]] = Field(default_factory=list)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        self.seen.append([f"{one.type}: {one.text}" for one in messages])
        return super()._generate(messages, stop, run_manager, **kwargs)

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | Any],  # noqa: ARG002
        **_: Any,
    ) -> Runnable[Any, AIMessage]:
        return self


class Scoring(BaseChatModel):
    """Gives every text that it reviews the same score."""

    score: float
    seen: list[str] = Field(default_factory=list)
    """What it was asked; by several threads, in no order."""

    @property
    def _llm_type(self) -> str:
        return "scoring"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage(messages[-1].text))])

    def with_structured_output(self, schema: Any, **_: Any) -> Runnable[Any, Any]:
        def call(asked: list[BaseMessage]) -> Any:
            self.seen.append("\n".join(one.text for one in asked))
            return schema(score=self.score, reason="as the scenario says")

        async def acall(asked: list[BaseMessage]) -> Any:
            return call(asked)

        return RunnableLambda(call, acall)


def scripted(*responses: str | AIMessage) -> Scripted:
    """A model that says these in turn, as messages of their own names."""
    said = [AIMessage(one) if isinstance(one, str) else one for one in responses]
    named = [one.model_copy(update={"id": f"said-{n}"}) for n, one in enumerate(said)]
    return Scripted(responses=list(named))


def calls(name: str, number: int = 1, /, **arguments: Any) -> AIMessage:
    """A response that calls one tool."""
    call = {"name": name, "args": arguments, "id": f"call-{number}", "type": "tool_call"}
    return AIMessage("", tool_calls=[call])


@tool
def add(amount: str) -> str:
    """Add an amount."""
    if "," in amount:
        raise ToolException(f"ValueError: the amount {amount!r} has a comma")
    return f"added {amount}"


@tool
def pay(amount: str) -> str:
    """Pay an amount."""
    return f"paid {amount}"
