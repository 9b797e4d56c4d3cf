"""Chat models as generalisers: they say what one project learned for everybody."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeVar

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from pydantic import BaseModel, Field

from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.prompts import (
    GENERAL_BOUND,
    GENERAL_CONTENT,
    GENERALISE,
    GENERALISE_MEMORY,
    STILL_NAMED,
)
from langmem_tiers.core.structured import ways_to_ask
from langmem_tiers.learn.identifying import identifying
from langmem_tiers.learn.promotable import Generaliser
from langmem_tiers.recall.fence import quoted
from langmem_tiers.remember.new import checked_text

T = TypeVar("T")


class General(BaseModel):
    """What a model is asked for."""

    content: str = Field(description=GENERAL_CONTENT)
    bound: bool = Field(default=False, description=GENERAL_BOUND)


def generaliser_of(model: BaseChatModel) -> Generaliser:
    """A generaliser that asks a chat model; both functions raise `ModelError` without an answer.

    It may say that a memory is about its project alone: the answer is then None. Else it is checked
    by `identifying`. What still identifies somebody is told to the model once; if its second answer
    does as well, there is none, and nothing else stands in for it.

    Example:
        ```python
        from langmem_tiers.learn.models import generaliser_of

        general = generaliser_of(model).call("In billing-service, run migrations first", ["acme"])
        ```
    """
    return Generaliser(*ways_to_ask(model, General, _memory, _answer))


class _Memory(NamedTuple):
    """What was learned in one project, to be said for everybody."""

    content: str
    private: Sequence[str]

    def messages(self) -> list[BaseMessage]:
        """What the model is told."""
        names = "\n".join(quoted(one) for one in self.private)
        asked = GENERALISE_MEMORY.format(content=quoted(self.content), names=names)
        return [SystemMessage(GENERALISE), HumanMessage(asked)]

    def read(self, answer: General) -> str | None:
        """What an answer says; None if that it is about its project alone.

        Raises:
            InvalidInputError: if it says nothing, or still identifies somebody.
        """
        if answer.bound:
            return None
        content = checked_text(answer.content, "content").strip()
        if found := identifying(content, self.private):
            raise InvalidInputError(STILL_NAMED.format(leaks=", ".join(found)))
        return content


def _memory(content: str, private: Sequence[str]) -> Iterator[_Memory]:
    yield _Memory(content, private)


def _answer(several: list[T], /, *_: object, **__: object) -> T:
    """The answer to the one request."""
    return several[0]
