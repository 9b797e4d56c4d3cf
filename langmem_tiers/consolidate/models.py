"""Models that a caller names: what says the same or contradicts, what happened in a session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import UTC
from typing import Final, Literal, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from pydantic import BaseModel, Field

from langmem_tiers.consolidate.steps import StoredMemory
from langmem_tiers.core import prompts
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.structured import make_askers
from langmem_tiers.core.values import batches
from langmem_tiers.postgres.flow import Flow, ask_model
from langmem_tiers.recall.fence import clean_label, escape_fences
from langmem_tiers.remember.new import checked_text

LONGEST: Final = 4_000
"""Characters of a memory that a model is shown; of a longer one, which it cannot be shown whole,
it is not asked."""
_AT_ONCE: Final = 24_000
"""Characters of what a model is shown in one request, or one pair or note of them."""

PairQuestion = Literal["same", "contradicts"]
"""Whether two memories say the same; whether the second, the newer one, contradicts the first."""
Pair = tuple[StoredMemory, StoredMemory]
_QUESTIONS: Final[dict[PairQuestion, str]] = {
    "same": prompts.JUDGE_SAME,
    "contradicts": prompts.JUDGE_CONTRADICTS,
}


class Judge(NamedTuple):
    """Answers a question for each of several pairs of memories, in their order.

    Both raise ModelError where the model gives nothing usable. Nobody judges in its place then:
    the step fails, and can be done again.
    """

    call: Callable[[PairQuestion, Sequence[Pair]], Sequence[bool]]
    acall: Callable[[PairQuestion, Sequence[Pair]], Awaitable[Sequence[bool]]]


def judge_pairs(
    judge: Judge | None, question: PairQuestion, pairs: Sequence[Pair]
) -> Flow[list[Pair]]:
    """The pairs of which the answer is yes; none without a judge."""
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
    """A judge that asks a chat model; both functions raise `ModelError` without an answer.

    All pairs are asked in one request, or in several where that would show the model more than
    24,000 characters. Of a memory with more than 4,000 it is not asked: the answer is no. Pairs
    that were not asked, or the wrong way round, are told to the model once, like any malformed
    answer.

    Example:
        ```python
        from langmem_tiers.consolidate.models import judge_of

        (alike,) = judge_of(model).call("same", [(older, newer)])
        ```
    """
    return Judge(*make_askers(model, Judgement, _pair_requests, _join_answers))


class _PairRequest(NamedTuple):
    """One question about several pairs, each of an older memory and a newer one."""

    question: PairQuestion
    pairs: Sequence[Pair]

    def messages(self) -> list[BaseMessage]:
        """What the model is told."""
        numbers = self._numbers()
        shown = prompts.JUDGE_PAIRS.format(
            memories="\n".join(
                _format_memory(number, memory) for memory, number in numbers.items()
            ),
            pairs="\n".join(f"{numbers[older]}, {numbers[other]}" for older, other in self.pairs),
        )
        return [
            SystemMessage(prompts.JUDGE.format(question=_QUESTIONS[self.question])),
            HumanMessage(shown),
        ]

    def read(self, answer: Judgement) -> set[Pair]:
        """The pairs that an answer names.

        Raises:
            InvalidInputError: if it names one that was not asked.
        """
        numbers = self._numbers()
        asked = {(numbers[older], numbers[other]): (older, other) for older, other in self.pairs}
        named_pairs: set[Pair] = set()
        for older, newer in (
            (judged_pair.older, judged_pair.newer) for judged_pair in answer.pairs
        ):
            pair = asked.get((older, newer))
            turned = asked.get((newer, older))
            if pair is None and turned is not None and self.question == "contradicts":
                raise InvalidInputError(prompts.SWAPPED.format(older=older, newer=newer))
            if pair is None and turned is None:
                raise InvalidInputError(prompts.NOT_ASKED.format(older=older, newer=newer))
            named_pairs.update(
                asked_pair for asked_pair in (pair, turned) if asked_pair is not None
            )
        return named_pairs

    def _numbers(self) -> dict[StoredMemory, int]:
        items = dict.fromkeys(memory for pair in self.pairs for memory in pair)
        return {memory: number for number, memory in enumerate(items, 1)}


def _pair_requests(question: PairQuestion, pairs: Sequence[Pair]) -> Iterator[_PairRequest]:
    """As few requests as can hold all that is asked."""
    whole = [pair for pair in pairs if all(len(memory.content) <= LONGEST for memory in pair)]
    for some in batches(whole, lambda pair: sum(len(memory.content) for memory in pair), _AT_ONCE):
        yield _PairRequest(question, some)


def _join_answers(
    answers: list[set[Pair]],
    /,
    question: PairQuestion,  # noqa: ARG001 - what was asked
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
    """What a model learned from notes."""

    content: str
    notes: tuple[int, ...]
    """The places of those it comes from, from 0."""


class Summary(NamedTuple):
    """What a model says of a session."""

    content: str
    concepts: tuple[Concept, ...]


class Summariser(NamedTuple):
    """Says what happened in a session and what was learned; both raise ModelError if it cannot."""

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
    """A summariser that asks a chat model; both functions raise `ModelError` without an answer.

    A session of more than 24,000 characters is summed up in several requests, each of which says
    what happened in its part; so is a note that is longer by itself: all of it is read.

    Example:
        ```python
        from langmem_tiers.consolidate.models import summariser_of

        summary = summariser_of(model).call(notes)
        ```
    """
    return Summariser(*make_askers(model, SummedUp, _note_requests, _join_summaries))


class _NotePart(NamedTuple):
    """A note, or as much of a long one as a request has room for."""

    place: int
    """The note's, from 0."""
    note: StoredMemory
    text: str


class _NoteRequest(NamedTuple):
    """Some notes of a session."""

    pieces: Sequence[_NotePart]

    def messages(self) -> list[BaseMessage]:
        """What the model is told."""
        shown = "\n".join(
            _format_note(number, piece) for number, piece in enumerate(self.pieces, 1)
        )
        return [SystemMessage(prompts.SUMMARISE), HumanMessage(shown)]

    def read(self, answer: SummedUp) -> Summary:
        """What an answer says.

        Raises:
            InvalidInputError: if it says nothing, or names notes that there are not.
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
    """As few requests as can hold all notes."""
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
