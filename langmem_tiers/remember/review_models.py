"""Chat models as reviewers: each member of a panel asks in its own request, all at once."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from pydantic import BaseModel, Field

from langmem_tiers.core import prompts
from langmem_tiers.core.errors import InvalidInputError, ModelError
from langmem_tiers.core.memory import Recollection, ReviewResult
from langmem_tiers.core.structured import aask, ask, checked_model, trimmed
from langmem_tiers.core.threads import Daemons, Work, adone, adone_by, done, done_by
from langmem_tiers.recall.fence import labelled, quoted
from langmem_tiers.recall.inquiry import Reranker, Shortlist
from langmem_tiers.remember.new import NewMemory
from langmem_tiers.remember.review import (
    BEST,
    MODEL,
    OWN,
    Reviewers,
    Score,
    consensus,
    most_relevant,
)

_log = logging.getLogger(__name__)

_AT_ONCE: Final = 32
"""Requests of one model that are under way at a time: two members for each of 15 memories, which is
what a recall of five has reviewed, and two to spare."""


class Reviewed(BaseModel):
    """What a model is asked for."""

    score: float = Field(description=prompts.REVIEW_SCORE)
    reason: str = Field(description=prompts.REVIEW_REASON)


class _Review(NamedTuple):
    """What one member is asked about one memory: by a model, or its rule."""

    name: str
    rule: Callable[[], Score | str | None]
    most: float
    messages: Sequence[BaseMessage] | None

    def check(self, answer: Reviewed) -> None:
        """Refuse a score that is out of range."""
        if not 0 <= answer.score <= self.most:
            told = prompts.OUT_OF_RANGE.format(score=answer.score, most=self.most)
            raise InvalidInputError(told)


def _messages(prompt: str, question: str | None, shown: str) -> list[BaseMessage] | None:
    """What a model is told; None where a member has no question for it."""
    if question is None:
        return None
    return [SystemMessage(prompt.format(question=question)), HumanMessage(shown)]


class Panel:
    """A panel whose members ask a chat model, each by itself and all at once.

    It is asked of several memories, or pairs of a content and a query, at once, and answers in
    their order. A member that has no question for models scores by its rule. One whose model gives
    no usable answer, or none in time, is reported in `failures`, and the mean is that of the
    others. A long memory is shown by its head and its tail.

    Example:
        ```python
        from langmem_tiers.remember.review import default_reviewers
        from langmem_tiers.remember.review_models import Panel

        (result,) = Panel(model, default_reviewers()).call([memory])
        ```
    """

    def __init__(
        self,
        model: BaseChatModel,
        reviewers: Reviewers,
        *,
        seconds: float | None = None,
        relevance_seconds: float | None = None,
    ) -> None:
        """Ask a model for members; those registered later belong to it too.

        Args:
            model: A LangChain chat model.
            reviewers: The members.
            seconds: How long a review for storage waits, of all that it is asked at once; as long
                as the model takes if not given.
            relevance_seconds: Likewise for relevance.
        """
        checked_model(model)
        self._model, self._reviewers = model, reviewers
        self._seconds = {"storage": seconds, "relevance": relevance_seconds}
        self._daemons = Daemons(_AT_ONCE)

    def call(self, several: Sequence[NewMemory]) -> list[ReviewResult]:
        """What the members say of storing each of these."""
        return self._asked("storage", [*map(self._storage, several)])

    async def acall(self, several: Sequence[NewMemory]) -> list[ReviewResult]:
        """What `call` says, awaited."""
        return await self._aasked("storage", [*map(self._storage, several)])

    def relevance(self, pairs: Sequence[tuple[str, str]]) -> list[ReviewResult]:
        """How well each content helps with its query."""
        return self._asked("relevance", [self._relevance(*pair) for pair in pairs])

    async def arelevance(self, pairs: Sequence[tuple[str, str]]) -> list[ReviewResult]:
        """What `relevance` says, awaited."""
        return await self._aasked("relevance", [self._relevance(*pair) for pair in pairs])

    def _storage(self, memory: NewMemory) -> list[_Review]:
        shown = prompts.REVIEW_MEMORY.format(
            memory_type=labelled(memory.memory_type or "any"),
            source=labelled(memory.source),
            content=quoted(trimmed(memory.content)),
        )
        several = []
        for one in self._reviewers:
            asked = _messages(prompts.REVIEW_STORAGE, one.storage_question, shown)
            several.append(_Review(one.name, partial(one.score_storage, memory), BEST, asked))
        return several

    def _relevance(self, content: str, query: str) -> list[_Review]:
        told = {"query": quoted(trimmed(query)), "content": quoted(trimmed(content))}
        shown = prompts.REVIEW_QUERY.format(**told)
        several = []
        for one in self._reviewers:
            asked = _messages(prompts.REVIEW_RELEVANCE, one.relevance_question, shown)
            rule = partial(one.score_relevance, content, query)
            several.append(_Review(one.name, rule, 1.0, asked))
        return several

    def _asked(self, what: str, panels: list[list[_Review]]) -> list[ReviewResult]:
        def answers(asked: Sequence[_Review]) -> Sequence[Score | ModelError | None]:
            calls = [partial(done, self._answer(ask, one)) for one in asked]
            return done_by(self._seconds[what], calls, self._daemons)

        return done(self._reviews(what, panels, answers))

    async def _aasked(self, what: str, panels: list[list[_Review]]) -> list[ReviewResult]:
        def answers(asked: Sequence[_Review]) -> Awaitable[Sequence[Score | ModelError | None]]:
            calls = [partial(adone, self._answer(aask, one)) for one in asked]
            return adone_by(self._seconds[what], calls, _AT_ONCE)

        return await adone(self._reviews(what, panels, answers))

    def _answer(self, asks: Callable[..., Any], one: _Review) -> Work[Score | ModelError]:
        """What a model says as one member, or why it says nothing usable."""
        try:
            answer: Reviewed = yield asks(self._model, Reviewed, one.messages or (), one.check)
        except ModelError as error:
            return error
        return Score(answer.score, answer.reason.strip())

    def _reviews(
        self,
        what: str,
        panels: Sequence[Sequence[_Review]],
        answers: Callable[[Sequence[_Review]], Any],
    ) -> Work[list[ReviewResult]]:
        """What each panel says, once the requests of its members are answered."""
        asked = [one for panel in panels for one in panel if one.messages is not None]
        heard: Sequence[Score | ModelError | None] = yield answers(asked)
        late = f"the model did not answer within {self._seconds[what] or 0:g} s"
        failed = Counter(_failures(asked, heard, late))
        if failed:
            _log.warning(
                "%d of %d reviews for %s by a model failed: %s",
                failed.total(),
                len(asked),
                what,
                ", ".join(f"{count} of {name}" for name, count in failed.items()),
            )
        said = iter([one if isinstance(one, Score) else str(one or late) for one in heard])
        return [
            consensus(
                {one.name: one.rule() if one.messages is None else next(said) for one in panel}
            )
            for panel in panels
        ]


def _failures(
    asked: Sequence[_Review], heard: Sequence[Score | ModelError | None], late: str
) -> Iterator[str]:
    """Who failed how, without a word of what was asked or said."""
    for one, answer in zip(asked, heard, strict=True):
        if isinstance(answer, ModelError):
            yield f"{one.name} ({type(answer.__cause__ or answer).__name__})"
        elif answer is None:
            yield f"{one.name} ({late})"


def reviews_of(reviewers: Reviewers, panel: Panel | None) -> Mapping[str, Reranker]:
    """The reviews that a coordinator can be asked for: `own`, and with a panel also `model`.

    What nobody scored keeps its place behind what somebody did.
    """

    def own(pairs: Sequence[tuple[str, str]]) -> list[ReviewResult]:
        return [reviewers.review_relevance(*pair) for pair in pairs]

    async def aown(pairs: Sequence[tuple[str, str]]) -> list[ReviewResult]:
        return own(pairs)

    names = ", ".join(one.name for one in reviewers)
    reviews = {OWN: _reranker(own, aown, f"functions of {names}")}
    if panel is not None:
        reviews[MODEL] = _reranker(panel.relevance, panel.arelevance, f"a model for {names}")
    return reviews


def _reranker(
    call: Callable[[Sequence[tuple[str, str]]], Sequence[ReviewResult]],
    acall: Callable[[Sequence[tuple[str, str]]], Awaitable[Sequence[ReviewResult]]],
    name: str,
) -> Reranker:
    """Order memories by what reviewers say of pairs of a content and a query."""

    def ordered(several: Sequence[Shortlist]) -> list[list[Recollection]]:
        return _ordered(several, call(_pairs(several)))

    async def aordered(several: Sequence[Shortlist]) -> list[list[Recollection]]:
        return _ordered(several, await acall(_pairs(several)))

    return Reranker(ordered, aordered, name)


def _pairs(shortlists: Sequence[Shortlist]) -> list[tuple[str, str]]:
    return [(one.content, query) for query, best in shortlists for one in best]


def _ordered(
    shortlists: Sequence[Shortlist], reviews: Sequence[ReviewResult]
) -> list[list[Recollection]]:
    given = iter(reviews)
    ordered = []
    for _, best in shortlists:
        own = list(islice(given, len(best)))
        ordered.append([_with_review(best[at], own[at]) for at in most_relevant(own, len(own))])
    return ordered


def _with_review(memory: Recollection, review: ReviewResult) -> Recollection:
    if review.consensus_score is None:
        return replace(memory, review=review)
    evidence = {**memory.evidence, "relevance": review.consensus_score}
    return replace(memory, review=review, evidence=evidence)
