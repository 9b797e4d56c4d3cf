"""Chat models as generalisers and reflectors.

A generaliser says what one project learned for everybody, a reflector makes a lesson of a failed
attempt.
"""

from __future__ import annotations

from collections.abc import Sequence

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
    checked_model(model)

    def call(content: str, private: Sequence[str]) -> str:
        answer = ask(model, General, _messages(content, private), lambda one: _told(one, private))
        return _told(answer, private)

    async def acall(content: str, private: Sequence[str]) -> str:
        answer = await aask(
            model, General, _messages(content, private), lambda one: _told(one, private)
        )
        return _told(answer, private)

    return Generaliser(call, acall)


def _messages(content: str, private: Sequence[str]) -> list[BaseMessage]:
    names = "\n".join(quoted(one) for one in private)
    asked = GENERALISE_MEMORY.format(content=quoted(content), names=names)
    return [SystemMessage(GENERALISE), HumanMessage(asked)]


def _told(answer: General, private: Sequence[str]) -> str:
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
    checked_model(model)

    def call(attempt: FailedAttempt) -> Reflexion:
        shown = _shown_attempt(attempt)
        answer = ask(model, Reflected, shown, lambda one: _lesson(attempt, one))
        return _lesson(attempt, answer)

    async def acall(attempt: FailedAttempt) -> Reflexion:
        answer = await aask(
            model, Reflected, _shown_attempt(attempt), lambda one: _lesson(attempt, one)
        )
        return _lesson(attempt, answer)

    return Reflector(call, acall)


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


def _lesson(attempt: FailedAttempt, answer: Reflected) -> Reflexion:
    return Reflexion(
        task_id=attempt.task_id,
        original_approach=attempt.approach,
        failure_reason=answer.failure_reason.strip(),
        improved_approach=answer.improved_approach.strip(),
        tags=tuple(answer.tags),
        failure=attempt.failure,
    )
