"""Chat models that sum up a session: what happened, and what was learned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC
from typing import Final, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from pydantic import BaseModel, Field

from langmem_tiers.consolidate.session_rules import Concept, Summariser, Summary, Told
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.prompts import (
    CONCEPT,
    CONCEPT_NOTES,
    CONCEPTS,
    NO_NOTES,
    NO_SUCH_NOTE,
    SUMMARISE,
    SUMMARISE_NOTE,
    SUMMARY,
    UNKNOWN_SPEAKER,
)
from langmem_tiers.core.structured import aask, ask, checked_model, trimmed
from langmem_tiers.recall.fence import labelled, quoted
from langmem_tiers.remember.new import checked_text

_AT_ONCE: Final = 24_000
"""Characters of notes in one request, or one note of them."""


class Learned(BaseModel):
    """Something that was learned, and from which notes, by their numbers."""

    content: str = Field(description=CONCEPT)
    notes: list[int] = Field(description=CONCEPT_NOTES)


class SummedUp(BaseModel):
    """What a model is asked for."""

    summary: str = Field(description=SUMMARY)
    concepts: list[Learned] = Field(description=CONCEPTS)


def summariser_of(model: BaseChatModel) -> Summariser:
    """A summariser that asks a chat model; both functions raise `ModelError` without an answer.

    A session of more than 24,000 characters is summed up in several requests, each of which says
    what happened in its part. Of a long note the model is shown the head and the tail.

    Example:
        ```python
        from langmem_tiers.consolidate.summarising import summariser_of

        summary = summariser_of(model).call(notes)
        ```
    """
    checked_model(model)

    def call(notes: Sequence[Told]) -> Summary:
        return _together(
            [one.said(ask(model, SummedUp, one.messages(), one.said)) for one in _requests(notes)]
        )

    async def acall(notes: Sequence[Told]) -> Summary:
        return _together(
            [
                one.said(await aask(model, SummedUp, one.messages(), one.said))
                for one in _requests(notes)
            ]
        )

    return Summariser(call, acall)


class _Request(NamedTuple):
    """Some notes of a session."""

    after: int
    """How many come before them."""
    notes: Sequence[Told]

    def messages(self) -> list[BaseMessage]:
        """What the model is told."""
        shown = "\n".join(_shown(number, one) for number, one in enumerate(self.notes, 1))
        return [SystemMessage(SUMMARISE), HumanMessage(shown)]

    def said(self, answer: SummedUp) -> Summary:
        """What an answer says.

        Raises:
            InvalidInputError: if it says nothing, or names notes that there are not.
        """
        concepts = tuple(self._concept(one) for one in answer.concepts)
        return Summary(checked_text(answer.summary, "summary").strip(), concepts)

    def _concept(self, one: Learned) -> Concept:
        content = checked_text(one.content, "content").strip()
        if not one.notes:
            raise InvalidInputError(NO_NOTES.format(content=content))
        for number in one.notes:
            if not 1 <= number <= len(self.notes):
                raise InvalidInputError(NO_SUCH_NOTE.format(number=number, last=len(self.notes)))
        places = sorted({self.after + number - 1 for number in one.notes})
        return Concept(content, tuple(places))


def _requests(notes: Sequence[Told]) -> Iterator[_Request]:
    """As few requests as can hold all notes."""
    begin = size = 0
    for place, one in enumerate(notes):
        more = len(trimmed(one.content))
        if place > begin and size + more > _AT_ONCE:
            yield _Request(begin, notes[begin:place])
            begin, size = place, 0
        size += more
    if notes[begin:]:
        yield _Request(begin, notes[begin:])


def _shown(number: int, one: Told) -> str:
    return SUMMARISE_NOTE.format(
        number=number,
        time=f"{one.at.astimezone(UTC):%Y-%m-%d %H:%M}",
        speaker=labelled(one.speaker or UNKNOWN_SPEAKER),
        content=quoted(trimmed(one.content)),
    )


def _together(several: Sequence[Summary]) -> Summary:
    concepts = tuple(concept for one in several for concept in one.concepts)
    return Summary("\n".join(one.content for one in several), concepts)
