"""Chat models as reviewers: each member of a panel asks in its own request, all at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables.config import ContextThreadPoolExecutor
from pydantic import BaseModel, Field

from langmem_tiers.errors import InvalidInputError, ModelError
from langmem_tiers.prompts import (
    OUT_OF_RANGE,
    REVIEW_MEMORY,
    REVIEW_QUERY,
    REVIEW_REASON,
    REVIEW_RELEVANCE,
    REVIEW_SCORE,
    REVIEW_STORAGE,
)
from langmem_tiers.remember.candidate import Candidate
from langmem_tiers.remember.review import (
    BEST,
    Panel,
    Reviewer,
    Reviewers,
    ReviewResult,
    Score,
    consensus,
)
from langmem_tiers.structured import aask, ask, checked_model, fenced, trimmed
from langmem_tiers.turn.fence import labelled

_AT_ONCE: Final = 8
"""Requests that are under way at a time."""


class Reviewed(BaseModel):
    """What a model is asked for."""

    score: float = Field(description=REVIEW_SCORE)
    reason: str = Field(description=REVIEW_REASON)


def panel_of(model: BaseChatModel, reviewers: Reviewers) -> Panel:
    """A panel whose members ask a chat model, each by itself and all at once.

    A member that has no question for models scores by its rule. One whose model gives no usable
    answer is reported in `failures`, and the mean is that of the others. A long memory is shown by
    its head and its tail.

    Example:
        ```python
        from langmem_tiers.remember.reviewers import default_reviewers
        from langmem_tiers.reviewing import panel_of

        result = panel_of(model, default_reviewers()).call(candidate)
        ```
    """
    checked_model(model)

    def call(candidate: Candidate) -> ReviewResult:
        return _asked(model, [[_storage(one, candidate) for one in reviewers]])[0]

    async def acall(candidate: Candidate) -> ReviewResult:
        return (await _aasked(model, [[_storage(one, candidate) for one in reviewers]]))[0]

    def relevance(contents: Sequence[str], query: str) -> list[ReviewResult]:
        return _asked(model, _several(reviewers, contents, query))

    async def arelevance(contents: Sequence[str], query: str) -> list[ReviewResult]:
        return await _aasked(model, _several(reviewers, contents, query))

    return Panel(call, acall, relevance, arelevance)


class _Request(NamedTuple):
    """What one member does: it asks a model, or follows its rule."""

    name: str
    rule: Callable[[], Score | str | None]
    most: float
    messages: Sequence[BaseMessage] | None = None

    def checked(self, answer: Reviewed) -> None:
        """Refuse a score that is out of range."""
        if not 0 <= answer.score <= self.most:
            raise InvalidInputError(OUT_OF_RANGE.format(score=answer.score, most=self.most))


def _storage(one: Reviewer, candidate: Candidate) -> _Request:
    messages = None
    if one.storage_question is not None:
        shown = REVIEW_MEMORY.format(
            memory_type=labelled(candidate.memory_type or "any"),
            source=labelled(candidate.source),
            content=fenced(trimmed(candidate.content)),
        )
        messages = _messages(REVIEW_STORAGE, one.storage_question, shown)
    return _Request(one.name, lambda: one.score_storage(candidate), BEST, messages)


def _several(reviewers: Reviewers, contents: Sequence[str], query: str) -> list[list[_Request]]:
    return [[_relevance(one, content, query) for one in reviewers] for content in contents]


def _relevance(one: Reviewer, content: str, query: str) -> _Request:
    messages = None
    if one.relevance_question is not None:
        shown = REVIEW_QUERY.format(query=fenced(trimmed(query)), content=fenced(trimmed(content)))
        messages = _messages(REVIEW_RELEVANCE, one.relevance_question, shown)
    return _Request(one.name, lambda: one.score_relevance(content, query), 1.0, messages)


def _messages(prompt: str, question: str, shown: str) -> list[BaseMessage]:
    return [SystemMessage(prompt.format(question=question)), HumanMessage(shown)]


def _asked(model: BaseChatModel, panels: Sequence[Sequence[_Request]]) -> list[ReviewResult]:
    """What each panel says; all members of all panels at once."""

    def one(request: _Request) -> Score | str | None:
        if request.messages is None:
            return request.rule()
        try:
            return _score(ask(model, Reviewed, request.messages, request.checked))
        except ModelError as error:
            return str(error)

    requests = [request for panel in panels for request in panel]
    with ContextThreadPoolExecutor(max_workers=_AT_ONCE) as executor:
        said = list(executor.map(one, requests))
    return _results(panels, said)


async def _aasked(model: BaseChatModel, panels: Sequence[Sequence[_Request]]) -> list[ReviewResult]:
    """What each panel says; see `_asked`."""
    free = asyncio.Semaphore(_AT_ONCE)

    async def one(request: _Request) -> Score | str | None:
        if request.messages is None:
            return request.rule()
        try:
            async with free:
                return _score(await aask(model, Reviewed, request.messages, request.checked))
        except ModelError as error:
            return str(error)

    requests = [request for panel in panels for request in panel]
    return _results(panels, await asyncio.gather(*map(one, requests)))


def _results(
    panels: Sequence[Sequence[_Request]], said: Sequence[Score | str | None]
) -> list[ReviewResult]:
    answers = iter(said)
    return [consensus({one.name: next(answers) for one in panel}) for panel in panels]


def _score(answer: Reviewed) -> Score:
    return Score(answer.score, answer.reason.strip())
