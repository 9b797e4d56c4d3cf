"""Chat models as reviewers: each member of a panel asks in its own request, all at once."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from pydantic import BaseModel, Field

from langmem_tiers.core.errors import InvalidInputError, ModelError
from langmem_tiers.core.memory import ReviewResult
from langmem_tiers.core.prompts import (
    OUT_OF_RANGE,
    REVIEW_MEMORY,
    REVIEW_QUERY,
    REVIEW_REASON,
    REVIEW_RELEVANCE,
    REVIEW_SCORE,
    REVIEW_STORAGE,
)
from langmem_tiers.core.structured import aask, ask, checked_model, trimmed
from langmem_tiers.core.threads import Daemons, Work, adone, adone_by, done, done_by
from langmem_tiers.recall.fence import labelled, quoted
from langmem_tiers.remember.candidate import Candidate
from langmem_tiers.remember.review import (
    BEST,
    Panel,
    Reviewer,
    Reviewers,
    Score,
    consensus,
)

_log = logging.getLogger(__name__)

_AT_ONCE: Final = 32
"""Requests of one model that are under way at a time: two members for each of 15 memories, which is
what a recall of five has reviewed, and two to spare."""


class Reviewed(BaseModel):
    """What a model is asked for."""

    score: float = Field(description=REVIEW_SCORE)
    reason: str = Field(description=REVIEW_REASON)


def panel_of(
    model: BaseChatModel,
    reviewers: Reviewers,
    *,
    seconds: float | None = None,
    relevance_seconds: float | None = None,
) -> Panel:
    """A panel whose members ask a chat model, each by itself and all at once.

    A member that has no question for models scores by its rule. One whose model gives no usable
    answer, or none in time, is reported in `failures`, and the mean is that of the others. A long
    memory is shown by its head and its tail.

    Args:
        model: A LangChain chat model.
        reviewers: The members; those registered later belong to it too.
        seconds: How long a review for storage waits, of all that it is asked at once; as long as
            the model takes if not given.
        relevance_seconds: Likewise for relevance.

    Example:
        ```python
        from langmem_tiers.remember.panel import default_reviewers
        from langmem_tiers.remember.review_models import panel_of

        (result,) = panel_of(model, default_reviewers()).call([candidate])
        ```
    """
    checked_model(model)
    asking = _Asking(model, Daemons(_AT_ONCE))

    def storage(several: Sequence[Candidate]) -> list[list[_Request]]:
        return [[_storage(one, candidate) for one in reviewers] for candidate in several]

    def relevance(pairs: Sequence[tuple[str, str]]) -> list[list[_Request]]:
        return [[_relevance(one, *pair) for one in reviewers] for pair in pairs]

    return Panel(
        call=lambda several: asking.asked("storage", storage(several), seconds),
        acall=lambda several: asking.aasked("storage", storage(several), seconds),
        relevance=lambda pairs: asking.asked("relevance", relevance(pairs), relevance_seconds),
        arelevance=lambda pairs: asking.aasked("relevance", relevance(pairs), relevance_seconds),
    )


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


class _Failure(NamedTuple):
    """Why a model gave no usable answer."""

    told: str
    """May quote what it was asked, or what it said."""
    kind: str
    """Does not."""


class _Asking(NamedTuple):
    """Asks for several panels, all members of all of them at once."""

    model: BaseChatModel
    daemons: Daemons

    def asked(
        self, what: str, panels: Sequence[Sequence[_Request]], seconds: float | None
    ) -> list[ReviewResult]:
        """What each panel says for storage or relevance, which is named in the log."""

        def answers(requests: Sequence[_Request]) -> list[Score | _Failure | None]:
            calls = [partial(done, self._said(ask, one)) for one in requests]
            return done_by(seconds, calls, self.daemons)

        return done(_reviews(what, panels, seconds, answers))

    async def aasked(
        self, what: str, panels: Sequence[Sequence[_Request]], seconds: float | None
    ) -> list[ReviewResult]:
        """What `asked` says, awaited."""

        def answers(requests: Sequence[_Request]) -> Awaitable[list[Score | _Failure | None]]:
            calls = [partial(adone, self._said(aask, one)) for one in requests]
            return adone_by(seconds, calls, _AT_ONCE)

        return await adone(_reviews(what, panels, seconds, answers))

    def _said(self, asks: Callable[..., Any], one: _Request) -> Work[Score | _Failure]:
        """What a model says as one member, or why it says nothing usable."""
        try:
            answer: Reviewed = yield asks(self.model, Reviewed, one.messages or (), one.checked)
        except ModelError as error:
            cause = error.__cause__
            return _Failure(str(error), type(error if cause is None else cause).__name__)
        return Score(answer.score, answer.reason.strip())


def _reviews(
    what: str,
    panels: Sequence[Sequence[_Request]],
    seconds: float | None,
    answers: Callable[[Sequence[_Request]], Any],
) -> Work[list[ReviewResult]]:
    """What each panel says, once the requests of its members are answered."""
    requests = [one for panel in panels for one in panel if one.messages is not None]
    heard = yield answers(requests)
    return _results(panels, requests, _told(what, requests, heard, seconds))


def _storage(one: Reviewer, candidate: Candidate) -> _Request:
    messages = None
    if one.storage_question is not None:
        shown = REVIEW_MEMORY.format(
            memory_type=labelled(candidate.memory_type or "any"),
            source=labelled(candidate.source),
            content=quoted(trimmed(candidate.content)),
        )
        messages = _messages(REVIEW_STORAGE, one.storage_question, shown)
    return _Request(one.name, lambda: one.score_storage(candidate), BEST, messages)


def _relevance(one: Reviewer, content: str, query: str) -> _Request:
    messages = None
    if one.relevance_question is not None:
        shown = REVIEW_QUERY.format(query=quoted(trimmed(query)), content=quoted(trimmed(content)))
        messages = _messages(REVIEW_RELEVANCE, one.relevance_question, shown)
    return _Request(one.name, lambda: one.score_relevance(content, query), 1.0, messages)


def _messages(prompt: str, question: str, shown: str) -> list[BaseMessage]:
    return [SystemMessage(prompt.format(question=question)), HumanMessage(shown)]


def _results(
    panels: Sequence[Sequence[_Request]],
    requests: Sequence[_Request],
    answers: Sequence[Score | str],
) -> list[ReviewResult]:
    """What each panel says: its models' answers, and of those without a question their rules'."""
    said = {id(one): answer for one, answer in zip(requests, answers, strict=True)}
    return [
        consensus(
            {one.name: one.rule() if one.messages is None else said[id(one)] for one in panel}
        )
        for panel in panels
    ]


def _told(
    what: str,
    requests: Sequence[_Request],
    answers: Sequence[Score | _Failure | None],
    seconds: float | None,
) -> list[Score | str]:
    """The answers, with what was wrong where there is none; one warning says which failed how."""
    late = f"the model did not answer within {seconds:g} s" if seconds is not None else ""
    heard = [_Failure(late, late) if one is None else one for one in answers]
    failed = Counter(
        f"{one.name} ({answer.kind})"
        for one, answer in zip(requests, heard, strict=True)
        if isinstance(answer, _Failure)
    )
    if failed:
        _log.warning(
            "%d of %d reviews for %s by a model failed: %s",
            failed.total(),
            len(requests),
            what,
            ", ".join(f"{count} of {name}" for name, count in failed.items()),
        )
    return [one.told if isinstance(one, _Failure) else one for one in heard]
