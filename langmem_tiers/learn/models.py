"""Chat models as generalisers and reflectors.

A generaliser says what one project learned for everybody, a reflector makes a lesson of a failed
attempt.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Concatenate, ParamSpec, TypeVar

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from pydantic import BaseModel, Field

from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.prompts import (
    FAILURE_REASON,
    GENERAL_CONTENT,
    GENERALISE,
    GENERALISE_MEMORY,
    IMPROVED_APPROACH,
    NOT_KNOWN,
    REFLECT,
    REFLECT_ATTEMPT,
    REFLEXION_TAGS,
    STILL_NAMED,
)
from langmem_tiers.core.structured import aask, ask, checked_model, trimmed
from langmem_tiers.learn.generalise import Generaliser, leaks
from langmem_tiers.learn.reflexion import FailedAttempt, Reflector, Reflexion
from langmem_tiers.recall.fence import quoted
from langmem_tiers.remember.new import checked_text

P = ParamSpec("P")
T = TypeVar("T")
Answer = TypeVar("Answer", bound=BaseModel)


class General(BaseModel):
    """What a model is asked for."""

    content: str = Field(description=GENERAL_CONTENT)


def generaliser_of(model: BaseChatModel) -> Generaliser:
    """A generaliser that asks a chat model; both functions raise `ModelError` without an answer.

    The answer is checked by `leaks`. What still identifies somebody is told to the model once;
    if its second answer leaks as well, there is none, and nothing else stands in for it.

    Example:
        ```python
        from langmem_tiers.learn.models import generaliser_of

        general = generaliser_of(model).call("In billing-service, run migrations first", ["acme"])
        ```
    """
    return Generaliser(*_asking(model, General, _messages, _told))


def _messages(content: str, private: Sequence[str]) -> list[BaseMessage]:
    names = "\n".join(quoted(one) for one in private)
    asked = GENERALISE_MEMORY.format(content=quoted(content), names=names)
    return [SystemMessage(GENERALISE), HumanMessage(asked)]


def _told(answer: General, _: str, private: Sequence[str]) -> str:
    content = checked_text(answer.content, "content").strip()
    if found := leaks(content, private):
        raise InvalidInputError(STILL_NAMED.format(leaks=", ".join(found)))
    return content


class Reflected(BaseModel):
    """What a model is asked for; all else of the lesson is the attempt's own."""

    failure_reason: str = Field(description=FAILURE_REASON)
    improved_approach: str = Field(description=IMPROVED_APPROACH)
    tags: list[str] = Field(description=REFLEXION_TAGS)


def reflector_of(model: BaseChatModel) -> Reflector:
    """A reflector that asks a chat model; both functions raise `ModelError` without an answer.

    The reason, the improvement and the tags are the model's; task, approach and failure stay
    the attempt's. Of long texts the model is shown the head and the tail.

    Example:
        ```python
        from langmem_tiers.learn.models import reflector_of

        lesson = reflector_of(model).call(attempt)
        ```
    """
    return Reflector(*_asking(model, Reflected, _shown_attempt, _lesson))


def _shown_attempt(attempt: FailedAttempt) -> list[BaseMessage]:
    shown = REFLECT_ATTEMPT.format(
        task_id=_shown(attempt.task_id),
        tool=_shown(attempt.tool),
        approach=_shown(attempt.approach),
        error=_shown(attempt.error),
        succeeded_with=_shown(attempt.succeeded_with),
    )
    return [SystemMessage(REFLECT), HumanMessage(shown)]


def _shown(text: str | None) -> str:
    return NOT_KNOWN if text is None else quoted(trimmed(text))


def _lesson(answer: Reflected, attempt: FailedAttempt) -> Reflexion:
    return Reflexion(
        task_id=attempt.task_id,
        original_approach=attempt.approach,
        failure_reason=answer.failure_reason.strip(),
        improved_approach=answer.improved_approach.strip(),
        tags=tuple(answer.tags),
        failure=attempt.failure,
    )


def _asking(
    model: BaseChatModel,
    kind: type[Answer],
    shown: Callable[P, list[BaseMessage]],
    read: Callable[Concatenate[Answer, P], T],
) -> tuple[Callable[P, T], Callable[P, Awaitable[T]]]:
    """What asks a model, blocking and awaited; what `read` refuses is told to it once."""
    checked_model(model)

    def call(*given: P.args, **named: P.kwargs) -> T:
        messages = shown(*given, **named)
        answer = ask(model, kind, messages, lambda one: read(one, *given, **named))
        return read(answer, *given, **named)

    async def acall(*given: P.args, **named: P.kwargs) -> T:
        messages = shown(*given, **named)
        answer = await aask(model, kind, messages, lambda one: read(one, *given, **named))
        return read(answer, *given, **named)

    return call, acall
