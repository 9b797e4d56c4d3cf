"""Chat models as generalisers: what one project learned, said for everybody."""

from __future__ import annotations

from collections.abc import Sequence

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from pydantic import BaseModel, Field

from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.prompts import GENERAL_CONTENT, GENERALISE, GENERALISE_MEMORY, STILL_NAMED
from langmem_tiers.core.structured import aask, ask, checked_model
from langmem_tiers.learn.generalise import Generaliser, leaks
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
        from langmem_tiers.learn.generalising import generaliser_of

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
