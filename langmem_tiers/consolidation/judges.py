"""Models that a caller names: a judge of pairs of memories, and a summariser of sessions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import UTC
from typing import Final, Literal, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from pydantic import BaseModel, Field

from langmem_tiers.consolidation.steps import StoredMemory
from langmem_tiers.core import prompts
from langmem_tiers.core.chat_models import make_askers
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.values import batches
from langmem_tiers.postgres.flow import Flow, ask_model
from langmem_tiers.recall.prompt_text import clean_label, escape_fences
from langmem_tiers.remember.new_memory import checked_text

LONGEST: Final = 4_000
"""The most characters of a memory that a judge is shown. It is not asked about a longer memory,
which it could not read whole."""
_AT_ONCE: Final = 24_000
"""The most characters of memories in one request."""

PairQuestion = Literal["same", "contradicts"]
"""Do two memories say the same? Does the second, the newer one, contradict the first?"""
Pair = tuple[StoredMemory, StoredMemory]
_QUESTIONS: Final[dict[PairQuestion, str]] = {
    "same": prompts.JUDGE_SAME,
    "contradicts": prompts.JUDGE_CONTRADICTS,
}


class Judge(NamedTuple):
    """Two functions, blocking and awaited, that answer a question for each pair, in order.

    Both raise ModelError if the model gives no usable answer. Nobody judges in its place: the step
    fails, and can be done again.
    """

    call: Callable[[PairQuestion, Sequence[Pair]], Sequence[bool]]
    acall: Callable[[PairQuestion, Sequence[Pair]], Awaitable[Sequence[bool]]]


def judge_pairs(
    judge: Judge | None, question: PairQuestion, pairs: Sequence[Pair]
) -> Flow[list[Pair]]:
    """Ask the judge; return the pairs for which the answer is yes, none without a judge."""
    if judge is None or not pairs:
        return []
    answers = yield from ask_model(judge, question, pairs)
    return [pair for pair, yes in zip(pairs, answers, strict=True) if yes]


class JudgedPair(BaseModel):
    """A pair, by the numbers that the model is shown."""

    older: int = Field(description=prompts.JUDGED_OLDER)
    newer: int = Field(description=prompts.JUDGED_NEWER)


class Judgement(BaseModel):
    """What a model is asked for."""

    pairs: list[JudgedPair] = Field(description=prompts.JUDGED_PAIRS)


def judge_of(model: BaseChatModel) -> Judge:
    """Create a judge that asks a chat model; its functions raise `ModelError` without an answer.

    One request has all pairs, or as many as 24,000 characters hold. For a pair with a memory of
    more than 4,000 characters the answer is no, unasked. If the model names a pair that it was not
    asked about, or the wrong way round, it is told so once, as after any malformed answer.

    Example:
        ```python
        from langmem_tiers.consolidation.judges import judge_of

        (alike,) = judge_of(model).call("same", [(older, newer)])
        ```
    """
    return Judge(*make_askers(model, Judgement, _pair_requests, _join_answers))


class _PairRequest(NamedTuple):
    """One question about several pairs, each of an older memory and a newer one."""

    question: PairQuestion
    pairs: Sequence[Pair]

    def messages(self) -> list[BaseMessage]:
        """Return the messages to the model."""
        numbers = self._numbers()
        shown = prompts.JUDGE_PAIRS.format(
            memories="\n".join(
                _format_memory(number, memory) for memory, number in numbers.items()
            ),
            pairs="\n".join(f"{numbers[older]}, {numbers[newer]}" for older, newer in self.pairs),
        )
        return [
            SystemMessage(prompts.JUDGE.format(question=_QUESTIONS[self.question])),
            HumanMessage(shown),
        ]

    def read(self, answer: Judgement) -> set[Pair]:
        """Return the pairs that an answer names.

        Raises:
            InvalidInputError: if it names one that was not asked.
        """
        numbers = self._numbers()
        asked = {(numbers[older], numbers[newer]): (older, newer) for older, newer in self.pairs}
        named_pairs: set[Pair] = set()
        for older, newer in ((named.older, named.newer) for named in answer.pairs):
            pair = asked.get((older, newer))
            turned = asked.get((newer, older))
            if pair is None and turned is not None and self.question == "contradicts":
                raise InvalidInputError(prompts.SWAPPED.format(older=older, newer=newer))
            if pair is None and turned is None:
                raise InvalidInputError(prompts.NOT_ASKED.format(older=older, newer=newer))
            named_pairs.update(match for match in (pair, turned) if match is not None)
        return named_pairs

    def _numbers(self) -> dict[StoredMemory, int]:
        items = dict.fromkeys(memory for pair in self.pairs for memory in pair)
        return {memory: number for number, memory in enumerate(items, 1)}


def _pair_requests(question: PairQuestion, pairs: Sequence[Pair]) -> Iterator[_PairRequest]:
    """Split the pairs into as few requests as can hold them."""
    whole = [pair for pair in pairs if all(len(memory.content) <= LONGEST for memory in pair)]
    for some in batches(whole, lambda pair: sum(len(memory.content) for memory in pair), _AT_ONCE):
        yield _PairRequest(question, some)


def _join_answers(
    answers: list[set[Pair]],
    /,
    question: PairQuestion,  # noqa: ARG001 - the answers tell
    pairs: Sequence[Pair],
) -> list[bool]:
    confirmed = set().union(*answers)
    return [pair in confirmed for pair in pairs]


def _format_memory(number: int, memory: StoredMemory) -> str:
    return prompts.JUDGE_MEMORY.format(
        number=number,
        since=f"{memory.true_since:%Y-%m-%d %H:%M}",
        speaker=clean_label(memory.speaker or prompts.UNKNOWN_SPEAKER),
        content=escape_fences(memory.content),
    )


class Concept(NamedTuple):
    """A fact that a model learned from notes."""

    content: str
    notes: tuple[int, ...]
    """The positions of the notes that it comes from, from 0."""


class Summary(NamedTuple):
    """A model's summary of a session, and the concepts that it learned."""

    content: str
    concepts: tuple[Concept, ...]


class Summariser(NamedTuple):
    """Two functions, blocking and awaited, that sum up the notes of a session.

    Both raise ModelError if the model gives no usable answer.
    """

    call: Callable[[Sequence[StoredMemory]], Summary]
    acall: Callable[[Sequence[StoredMemory]], Awaitable[Summary]]


class Learned(BaseModel):
    """Something that was learned, and from which notes, by their numbers."""

    content: str = Field(description=prompts.CONCEPT)
    notes: list[int] = Field(description=prompts.CONCEPT_NOTES)


class SummedUp(BaseModel):
    """What a model is asked for."""

    summary: str = Field(description=prompts.SUMMARY)
    concepts: list[Learned] = Field(description=prompts.CONCEPTS)


def summariser_of(model: BaseChatModel) -> Summariser:
    """Create a summariser that asks a chat model; it raises `ModelError` without an answer.

    A session of more than 24,000 characters is split into several requests, each of which sums up
    its part. A longer note is split as well: the model reads all of it.

    Example:
        ```python
        from langmem_tiers.consolidation.judges import summariser_of

        summary = summariser_of(model).call(notes)
        ```
    """
    return Summariser(*make_askers(model, SummedUp, _note_requests, _join_summaries))


class _NotePart(NamedTuple):
    """A note, or a part of a long one that fits into a request."""

    place: int
    """The position of the note, from 0."""
    note: StoredMemory
    text: str


class _NoteRequest(NamedTuple):
    """A request to sum up some notes of a session."""

    pieces: Sequence[_NotePart]

    def messages(self) -> list[BaseMessage]:
        """Return the messages to the model."""
        shown = "\n".join(
            _format_note(number, piece) for number, piece in enumerate(self.pieces, 1)
        )
        return [SystemMessage(prompts.SUMMARISE), HumanMessage(shown)]

    def read(self, answer: SummedUp) -> Summary:
        """Return the summary that an answer gives.

        Raises:
            InvalidInputError: if it says nothing, or names notes that do not exist.
        """
        concepts = tuple(self._concept(concept) for concept in answer.concepts)
        return Summary(checked_text(answer.summary, "summary").strip(), concepts)

    def _concept(self, learned: Learned) -> Concept:
        content = checked_text(learned.content, "content").strip()
        if not learned.notes:
            raise InvalidInputError(prompts.NO_NOTES.format(content=content))
        for number in learned.notes:
            if not 1 <= number <= len(self.pieces):
                raise InvalidInputError(
                    prompts.NO_SUCH_NOTE.format(number=number, last=len(self.pieces))
                )
        places = sorted({self.pieces[number - 1].place for number in learned.notes})
        return Concept(content, tuple(places))


def _note_requests(notes: Sequence[StoredMemory]) -> Iterator[_NoteRequest]:
    """Split the notes into as few requests as can hold them."""
    pieces = (
        _NotePart(place, note, note.content[begin : begin + _AT_ONCE])
        for place, note in enumerate(notes)
        for begin in range(0, len(note.content), _AT_ONCE)
    )
    return map(_NoteRequest, batches(pieces, lambda piece: len(piece.text), _AT_ONCE))


def _format_note(number: int, piece: _NotePart) -> str:
    return prompts.SUMMARISE_NOTE.format(
        number=number,
        time=f"{piece.note.happened_at.astimezone(UTC):%Y-%m-%d %H:%M}",
        speaker=clean_label(piece.note.speaker or prompts.UNKNOWN_SPEAKER),
        content=escape_fences(piece.text),
    )


def _join_summaries(summaries: list[Summary], /, notes: Sequence[StoredMemory]) -> Summary:  # noqa: ARG001 - what was told
    concepts = tuple(concept for summary in summaries for concept in summary.concepts)
    return Summary("\n".join(summary.content for summary in summaries), concepts)
