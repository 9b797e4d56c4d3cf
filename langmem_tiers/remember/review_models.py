"""Chat models as reviewers: each member of a panel asks in its own request, all at once.

What was stored first awaits their review: until then a memory stands as the rules left it. A model
may quarantine what they let pass, with all that came of it by then, and release what was held for
want of a review alone. Nothing is done to what changed meanwhile.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final, NamedTuple
from uuid import uuid4

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from pydantic import BaseModel, Field

from langmem_tiers.core.config import StoreOptions
from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.errors import InvalidInputError, ModelError
from langmem_tiers.core.memory import QUARANTINED, Moment, ReviewResult
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
from langmem_tiers.core.values import content_of, source_of, trust_of
from langmem_tiers.postgres.flow import Call, Flow, Query
from langmem_tiers.recall.fence import labelled, quoted
from langmem_tiers.remember.candidate import Candidate
from langmem_tiers.remember.gate import GatePolicy
from langmem_tiers.remember.review import (
    BEST,
    Panel,
    Reviewer,
    Reviewers,
    Score,
    consensus,
    instructing,
    reviewed,
)
from langmem_tiers.store.write import LOCK, lock_call

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


AT_ONCE: Final = 8
"""Memories that a panel is asked of at a time: of four members, that is 32 requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewReport:
    """What models said of what awaited them, by the keys of the memories."""

    kept: tuple[str, ...] = ()
    """What stays in recall."""
    released: tuple[str, ...] = ()
    """What was held for want of a review, and is recalled from now on."""
    quarantined: tuple[str, ...] = ()
    """What is not recalled until somebody releases it."""
    unanswered: tuple[str, ...] = ()
    """What no model answered for: it stands as it was, and awaits a review still."""
    changed: tuple[str, ...] = ()
    """What was changed, looked at or reviewed by somebody else meanwhile: it is left alone."""

    def __str__(self) -> str:
        """How many of each, but for what there is none of."""
        counts = {name: len(getattr(self, name)) for name in self.__slots__}
        told = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
        return told or "nothing awaited a review"


class Waiting(NamedTuple):
    """A memory that awaits a review; a row of waiting_reviews, the columns are in this order."""

    id: int
    namespace: str
    key: str
    value: Mapping[str, Any]
    state: str | None
    version: datetime

    @property
    def memory_type(self) -> str:
        """Its type, `episodic` if it says none."""
        return str(self.value.get("memory_type") or "episodic")

    @property
    def candidate(self) -> Candidate:
        """What reviewers see of it."""
        return Candidate(
            content=content_of(self.value),
            memory_type=self.memory_type,
            source=source_of(self.value),
            tags=tuple(self.value.get("tags") or ()),
            importance=self.value.get("importance"),
        )


class Reviewing(NamedTuple):
    """What holds for the reviews of a tenant."""

    context: MemoryContext
    panel: Panel
    policy: GatePolicy
    options: StoreOptions


class Conclusion(NamedTuple):
    """What follows from a review."""

    becomes: str | None
    """The state that the memory has then."""
    reason: str


def review_waiting(
    how: Reviewing, moments: Callable[[], Moment], limit: int, keys: Sequence[str] | None = None
) -> Flow[ReviewReport]:
    """Ask the panel about what awaits it, or about these keys of that; each by itself is kept."""
    now = moments()
    params = {**how.context.whose, "limit": limit, "alive_at": now.alive_at}
    if keys is None:
        tidy = Call("forget_reviews", {"tenant": how.context.root})
        calls: tuple[Call, ...] = (tidy, Call("waiting_reviews", params))
    else:
        calls = (Call("waiting_reviews_of", {**params, "keys": list(dict.fromkeys(keys))}),)
    *_, rows = yield Query(calls, commit=True)
    waiting = [Waiting(*row) for row in rows]
    found: dict[str, list[str]] = {}
    for start in range(0, len(waiting), AT_ONCE):
        some = waiting[start : start + AT_ONCE]
        reviews = yield from reviewed(how.panel, [one.candidate for one in some])
        for one, review in zip(some, reviews, strict=True):
            became = yield from _concluded(one, review, how, moments().now)
            found.setdefault(became, []).append(one.key)
    return ReviewReport(**{name: tuple(each) for name, each in found.items()})


def conclusion(one: Waiting, review: ReviewResult, policy: GatePolicy) -> Conclusion:
    """What follows from what a panel said, if any of it answered."""
    held = instructing(review)
    if held is None and review.refuses(policy.consensus):
        held = f"below {policy.consensus:g}: {review}"
    trust, below = trust_of(one.value), policy.trust.below(one.memory_type)
    if held is None and trust < below:
        held = (
            f"trust: {trust:g} is below {below:g}, what memories of type {one.memory_type!r} need"
        )
    as_it_is = None if one.state == QUARANTINED else one.state
    return Conclusion(as_it_is if held is None else QUARANTINED, held or str(review))


def _concluded(one: Waiting, review: ReviewResult, how: Reviewing, now: datetime) -> Flow[str]:
    """Do what follows from a review; which part of the report it belongs to."""
    tenant = how.context.root
    named = {"tenant": tenant, "id": one.id, "version": one.version}
    if review.consensus_score is None:
        detail = json.dumps({"reasons": [f"unreviewed: {review}"], **_as_event(review)})
        yield Query((Call("note_unanswered", {**named, "detail": detail}),), commit=True)
        return "unanswered"
    becomes, reason = conclusion(one, review, how.policy)
    move = str(uuid4())
    params = {
        **named,
        "state": one.state,
        "becomes": becomes,
        "event": str(uuid4()),
        "detail": json.dumps({"reasons": [str(review)], **_as_event(review)}),
        "move": move,
        "moved": json.dumps({"reasons": [reason], "trust": trust_of(one.value)}),
        "now": now,
    }
    lock = lock_call([(tenant, one.namespace, one.key), (tenant, "", LOCK)], how.options)
    doubt = Call("doubt", {"tenant": tenant, "ids": [one.id], "events": []})
    below = Call("hold_below", {"tenant": tenant, "move": move, "now": now, "key": one.key})
    calls = (lock, Call("conclude_review", params), below, doubt)
    _, said, *_ = yield Query(calls, commit=True)
    if not said:
        return "changed"
    if becomes == QUARANTINED:
        return "quarantined"
    return "released" if one.state == QUARANTINED else "kept"


def _as_event(review: ReviewResult) -> dict[str, object]:
    """A review as part of an event."""
    return {
        "score": review.consensus_score,
        "scores": dict(review.agent_scores),
        "failures": dict(review.failures),
    }
