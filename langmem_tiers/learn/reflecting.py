"""Chat models as reflectors: from a failed attempt to a lesson."""

from __future__ import annotations

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from pydantic import BaseModel, Field

from langmem_tiers.core.prompts import (
    FAILURE_REASON,
    IMPROVED_APPROACH,
    NOT_KNOWN,
    REFLECT,
    REFLECT_ATTEMPT,
    REFLEXION_TAGS,
)
from langmem_tiers.core.structured import aask, ask, checked_model, trimmed
from langmem_tiers.learn.reflexion import FailedAttempt, Reflector, Reflexion
from langmem_tiers.recall.fence import quoted


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
        from langmem_tiers.learn.reflecting import reflector_of

        lesson = reflector_of(model).call(attempt)
        ```
    """
    checked_model(model)

    def call(attempt: FailedAttempt) -> Reflexion:
        answer = ask(model, Reflected, _messages(attempt), lambda one: _lesson(attempt, one))
        return _lesson(attempt, answer)

    async def acall(attempt: FailedAttempt) -> Reflexion:
        answer = await aask(model, Reflected, _messages(attempt), lambda one: _lesson(attempt, one))
        return _lesson(attempt, answer)

    return Reflector(call, acall)


def _messages(attempt: FailedAttempt) -> list[BaseMessage]:
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


def _lesson(attempt: FailedAttempt, answer: Reflected) -> Reflexion:
    return Reflexion(
        task_id=attempt.task_id,
        original_approach=attempt.approach,
        failure_reason=answer.failure_reason.strip(),
        improved_approach=answer.improved_approach.strip(),
        tags=tuple(answer.tags),
        failure=attempt.failure,
    )
