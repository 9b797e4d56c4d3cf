"""The review panel: several reviewers score a memory, and their mean decides.

A reviewer is a function of a user's own, or a question that a chat model is asked, or both: then
the function is asked where no model is named. Of a `Panel` each member asks the model in its own
request, all at once. As re-rankers they score recalled memories for relevance, and the best come
first.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple, TypeAlias

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from pydantic import BaseModel, Field

from langmem_tiers.core import prompts
from langmem_tiers.core.chat_models import aask, ask, checked_model, trim_middle
from langmem_tiers.core.checks import checked_function
from langmem_tiers.core.concurrency import (
    DaemonPool,
    Work,
    agather_before,
    gather_before,
    run_async,
    run_sync,
)
from langmem_tiers.core.errors import InvalidInputError, ModelError, short
from langmem_tiers.core.memory import Recollection, ReviewResult
from langmem_tiers.recall.budget import Reranker, Shortlist
from langmem_tiers.recall.prompt_text import clean_label, escape_fences
from langmem_tiers.remember.new_memory import NewMemory

_log = logging.getLogger(__name__)

_AT_ONCE: Final = 32
"""Requests of one model that are under way at a time: two members for each of 15 memories, which is
what a recall of five has reviewed, and two to spare."""
MAX_SCORE: Final = 10.0
INJECTION: Final = "injection"
"""The reviewer whose word alone holds a memory back. It has no part in the mean beside others: that
would drown it, and lift what it only finds harmless."""
ATTACK_BELOW: Final = 5.0
"""The score of `injection` below which a memory counts as an attack: attacks get 0, others 10."""
OWN: Final = "own"
"""The review of a recall by reviewers' own functions."""
MODEL: Final = "model"
"""The review of a recall by a chat model, beside the functions of those that ask it nothing."""


class Score(NamedTuple):
    """A reviewer's score of a memory, and the reason."""

    score: float
    """0…10 for storage, 0…1 for relevance."""
    reason: str


StorageRule: TypeAlias = Callable[[NewMemory], tuple[float, str]]
"""A function that scores a candidate for storage, in 0…10, with a reason."""
RelevanceRule: TypeAlias = Callable[[str, str], tuple[float, str]]
"""A function that scores a content (the first) for a query, in 0…1, with a reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reviewer:
    """One member of the panel, for storage, for relevance or for both.

    Raises:
        InvalidInputError: for a blank name, an async function, or one that reviews nothing.

    Example:
        ```python
        from langmem_tiers.remember.new_memory import NewMemory
        from langmem_tiers.remember.review import Reviewer


        def about_security(memory: NewMemory) -> tuple[float, str]:
            known = ("auth", "password", "token", "encryption", "vulnerability")
            found = any(word in memory.content.lower() for word in known)
            return 8.0 if found else 5.0, "keywords of security"


        security = Reviewer(name="security", storage=about_security)
        ```
    """

    name: str
    storage: StorageRule | None = None
    relevance: RelevanceRule | None = None
    storage_question: str | None = None
    """The question to a model about storage, in place of the rule: how it comes to its score."""
    relevance_question: str | None = None

    def __post_init__(self) -> None:
        """Refuse what could say nothing."""
        name: object = self.name
        if not isinstance(name, str) or not name.strip():
            raise InvalidInputError(f"a reviewer has a name, not {short(name)}")
        rules = [rule for rule in (self.storage, self.relevance) if rule is not None]
        for rule in rules:
            checked_function(rule, f"a rule of reviewer {short(self.name)}")
        if not rules and self.storage_question is None and self.relevance_question is None:
            raise InvalidInputError(
                f"reviewer {self.name!r} reviews nothing: give it `storage` or `relevance`, a "
                "function that returns a score and a reason"
            )

    def score_storage(self, candidate: NewMemory) -> Score | str | None:
        """Score a candidate by the rule, or name the problem; None without a rule."""
        rule = self.storage
        return None if rule is None else _call_rule(partial(rule, candidate), MAX_SCORE)

    def score_relevance(self, content: str, query: str) -> Score | str | None:
        """Score a content for a query by the rule, or name the problem; None without a rule."""
        rule = self.relevance
        return None if rule is None else _call_rule(partial(rule, content, query), 1.0)


def consensus(answers: Mapping[str, Score | str | None]) -> ReviewResult:
    """Build a panel's result from its members' scores or problems."""
    scores: dict[str, float] = {}
    reasons: dict[str, str] = {}
    failures: dict[str, str] = {}
    for name, answer in answers.items():
        if isinstance(answer, Score):
            scores[name], reasons[name] = answer
        elif answer is not None:
            failures[name] = answer
    counted = [score for name, score in scores.items() if name != INJECTION] or [*scores.values()]
    return ReviewResult(
        consensus_score=sum(counted) / len(counted) if counted else None,
        agent_scores=scores,
        reasons=reasons,
        failures=failures,
    )


class Reviewers:
    """The members of a panel, by name, in the order in which they were registered.

    Example:
        ```python
        from langmem_tiers.remember.review import Reviewer, Reviewers

        reviewers = Reviewers()
        reviewers.register(Reviewer(name="polite", storage=lambda memory: (7.0, "always")))
        ```
    """

    def __init__(self, reviewers: Iterable[Reviewer] = ()) -> None:
        self._reviewers: dict[str, Reviewer] = {}
        for reviewer in reviewers:
            self.register(reviewer)

    def register(self, reviewer: Reviewer, *, replace: bool = False) -> None:
        """Add a member, or with `replace` put it in the place of one that bears its name.

        Raises:
            InvalidInputError: if the name is taken and `replace` is False.
        """
        if not isinstance(reviewer, Reviewer):
            raise InvalidInputError(
                f"a panel has members of type Reviewer, not {type(reviewer).__name__}"
            )
        if reviewer.name in self._reviewers and not replace:
            raise InvalidInputError(
                f"reviewer {reviewer.name!r} is registered already: choose another name, or pass "
                "replace=True"
            )
        self._reviewers[reviewer.name] = reviewer

    def remove(self, name: str) -> None:
        """Take a member out.

        Raises:
            InvalidInputError: if there is none of that name.
        """
        if name not in self._reviewers:
            names = ", ".join(self._reviewers) or "none"
            raise InvalidInputError(f"no reviewer {name!r}; known: {names}")
        del self._reviewers[name]

    def review_storage(self, candidate: NewMemory) -> ReviewResult:
        """Review a candidate by the members' rules."""
        answers = {}
        for name, reviewer in self._reviewers.items():
            if reviewer.storage is not None:
                answers[name] = reviewer.score_storage(candidate)
        return consensus(answers)

    def review_relevance(self, content: str, query: str) -> ReviewResult:
        """Review a content for a query by the members' rules; scores are in 0…1."""
        return consensus(
            {reviewer.name: reviewer.score_relevance(content, query) for reviewer in self}
        )

    def score_relevance(self, content: str, query: str) -> float:
        """Compute the mean of `review_relevance`; 0 if no member scores relevance."""
        return self.review_relevance(content, query).consensus_score or 0.0

    @property
    def score_recalls(self) -> bool:
        """Tell whether a member has a function that scores relevance."""
        return any(reviewer.relevance is not None for reviewer in self)

    def __repr__(self) -> str:
        """List the names of its members."""
        return f"Reviewers({', '.join(self._reviewers)})"

    def __contains__(self, name: object) -> bool:
        return name in self._reviewers

    def __iter__(self) -> Iterator[Reviewer]:
        return iter(tuple(self._reviewers.values()))

    def __len__(self) -> int:
        return len(self._reviewers)


def default_reviewers() -> Reviewers:
    """Make the panel of the three specified members, two of which score relevance, and `injection`.

    What something is worth is for a model to judge, where one is named, or for reviewers of a
    user's own. Without either nobody reviews.
    """
    return Reviewers(_DEFAULT)


_DEFAULT: Final = (
    Reviewer(
        name="analyzer",
        storage_question=prompts.ANALYZER_STORAGE,
        relevance_question=prompts.ANALYZER_RELEVANCE,
    ),
    Reviewer(
        name="patterns",
        storage_question=prompts.PATTERNS_STORAGE,
        relevance_question=prompts.PATTERNS_RELEVANCE,
    ),
    Reviewer(name="knowledge-archaeologist", storage_question=prompts.ARCHAEOLOGIST_STORAGE),
    Reviewer(name=INJECTION, storage_question=prompts.INJECTION_STORAGE),
)


def injection_reason(review: ReviewResult) -> str | None:
    """Name the attack for which a memory is quarantined despite its mean; None without one."""
    score = review.agent_scores.get(INJECTION, MAX_SCORE)
    return None if score >= ATTACK_BELOW else f"instructs: {review.reasons[INJECTION]}"


def most_relevant(reviews: Sequence[ReviewResult], limit: int) -> list[int]:
    """Rank the indexes of the most relevant memories, best first.

    As specified, what was reviewed are the best `3 x limit` of a recall, in their order; of
    equal ones the earlier comes first, and one that nobody reviewed comes last.
    """

    def rank(at: int) -> tuple[bool, float, int]:
        score = reviews[at].consensus_score
        return score is None, -(score or 0.0), at

    return sorted(range(len(reviews)), key=rank)[:limit]


def _call_rule(rule: Callable[[], object], most: float) -> Score | str:
    """Call a rule for its score, or name its problem: this is the edge to unknown code."""
    try:
        return checked_score(rule(), most)
    except InvalidInputError as error:
        return str(error)
    except Exception as error:  # noqa: BLE001 - a user's function can raise anything
        return f"{type(error).__name__}: {error}"


def checked_score(value: object, most: float) -> Score:
    """Check a score in 0…most with its reason.

    Raises:
        InvalidInputError: for anything else.
    """
    if isinstance(value, tuple | list) and len(value) == 2:  # noqa: PLR2004 - score and reason
        score, reason = value
        number = isinstance(score, int | float) and not isinstance(score, bool)
        if number and 0 <= score <= most and isinstance(reason, str):
            return Score(float(score), reason)
    raise InvalidInputError(
        f"a reviewer returns a score from 0 to {most:g} and a reason, not {short(value)}"
    )


class Reviewed(BaseModel):
    """What a model is asked for."""

    score: float = Field(description=prompts.REVIEW_SCORE)
    reason: str = Field(description=prompts.REVIEW_REASON)


class _ReviewTask(NamedTuple):
    """The review of one memory by one member: by a model, or its rule."""

    name: str
    rule: Callable[[], Score | str | None]
    most: float
    messages: Sequence[BaseMessage] | None

    def check(self, answer: Reviewed) -> None:
        """Refuse a score that is out of range."""
        if not 0 <= answer.score <= self.most:
            problem = prompts.OUT_OF_RANGE.format(score=answer.score, most=self.most)
            raise InvalidInputError(problem)


def _messages(prompt: str, question: str | None, shown: str) -> list[BaseMessage] | None:
    """Build the messages to a model; None if a member has no question for it."""
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
        from langmem_tiers.remember.review import Panel, default_reviewers

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
        self._daemons = DaemonPool(_AT_ONCE)

    def call(self, memories: Sequence[NewMemory]) -> list[ReviewResult]:
        """Review each of these memories for storage."""
        return self._asked("storage", [*map(self._storage, memories)])

    async def acall(self, memories: Sequence[NewMemory]) -> list[ReviewResult]:
        """Review memories for storage, awaited."""
        return await self._aasked("storage", [*map(self._storage, memories)])

    def relevance(self, pairs: Sequence[tuple[str, str]]) -> list[ReviewResult]:
        """Review each content for its query."""
        return self._asked("relevance", [self._relevance(*pair) for pair in pairs])

    async def arelevance(self, pairs: Sequence[tuple[str, str]]) -> list[ReviewResult]:
        """Review each content for its query, awaited."""
        return await self._aasked("relevance", [self._relevance(*pair) for pair in pairs])

    def _storage(self, memory: NewMemory) -> list[_ReviewTask]:
        shown = prompts.REVIEW_MEMORY.format(
            memory_type=clean_label(memory.memory_type or "any"),
            source=clean_label(memory.source),
            content=escape_fences(trim_middle(memory.content)),
        )
        tasks = []
        for reviewer in self._reviewers:
            asked = _messages(prompts.REVIEW_STORAGE, reviewer.storage_question, shown)
            tasks.append(
                _ReviewTask(
                    reviewer.name, partial(reviewer.score_storage, memory), MAX_SCORE, asked
                )
            )
        return tasks

    def _relevance(self, content: str, query: str) -> list[_ReviewTask]:
        texts = {
            "query": escape_fences(trim_middle(query)),
            "content": escape_fences(trim_middle(content)),
        }
        shown = prompts.REVIEW_QUERY.format(**texts)
        tasks = []
        for reviewer in self._reviewers:
            asked = _messages(prompts.REVIEW_RELEVANCE, reviewer.relevance_question, shown)
            rule = partial(reviewer.score_relevance, content, query)
            tasks.append(_ReviewTask(reviewer.name, rule, 1.0, asked))
        return tasks

    def _asked(self, what: str, panels: list[list[_ReviewTask]]) -> list[ReviewResult]:
        def answers(asked: Sequence[_ReviewTask]) -> Sequence[Score | ModelError | None]:
            calls = [partial(run_sync, self._answer(ask, task)) for task in asked]
            return gather_before(self._seconds[what], calls, self._daemons)

        return run_sync(self._reviews(what, panels, answers))

    async def _aasked(self, what: str, panels: list[list[_ReviewTask]]) -> list[ReviewResult]:
        def answers(asked: Sequence[_ReviewTask]) -> Awaitable[Sequence[Score | ModelError | None]]:
            calls = [partial(run_async, self._answer(aask, task)) for task in asked]
            return agather_before(self._seconds[what], calls, _AT_ONCE)

        return await run_async(self._reviews(what, panels, answers))

    def _answer(self, asks: Callable[..., Any], task: _ReviewTask) -> Work[Score | ModelError]:
        """Ask a model as one member; an unusable answer is returned as its error."""
        try:
            answer: Reviewed = yield asks(self._model, Reviewed, task.messages or (), task.check)
        except ModelError as error:
            return error
        return Score(answer.score, answer.reason.strip())

    def _reviews(
        self,
        what: str,
        panels: Sequence[Sequence[_ReviewTask]],
        answers: Callable[[Sequence[_ReviewTask]], Any],
    ) -> Work[list[ReviewResult]]:
        """Build each panel's result from the answers to its members' requests."""
        asked = [task for panel in panels for task in panel if task.messages is not None]
        heard: Sequence[Score | ModelError | None] = yield answers(asked)
        late = f"the model did not answer within {self._seconds[what] or 0:g} s"
        failed = Counter(_describe_failures(asked, heard, late))
        if failed:
            _log.warning(
                "%d of %d reviews for %s by a model failed: %s",
                failed.total(),
                len(asked),
                what,
                ", ".join(f"{count} of {name}" for name, count in failed.items()),
            )
        scores = iter(
            [score if isinstance(score, Score) else str(score or late) for score in heard]
        )
        return [
            consensus(
                {
                    task.name: task.rule() if task.messages is None else next(scores)
                    for task in panel
                }
            )
            for panel in panels
        ]


def _describe_failures(
    asked: Sequence[_ReviewTask], heard: Sequence[Score | ModelError | None], late: str
) -> Iterator[str]:
    """Describe the failures of members, without any content."""
    for task, answer in zip(asked, heard, strict=True):
        if isinstance(answer, ModelError):
            yield f"{task.name} ({type(answer.__cause__ or answer).__name__})"
        elif answer is None:
            yield f"{task.name} ({late})"


def make_rerankers(reviewers: Reviewers, panel: Panel | None) -> Mapping[str, Reranker]:
    """Make the rerankers of a coordinator: `own`, and with a panel also `model`.

    What nobody scored keeps its place behind what somebody did.
    """

    def own(pairs: Sequence[tuple[str, str]]) -> list[ReviewResult]:
        return [reviewers.review_relevance(*pair) for pair in pairs]

    async def aown(pairs: Sequence[tuple[str, str]]) -> list[ReviewResult]:
        return own(pairs)

    names = ", ".join(reviewer.name for reviewer in reviewers)
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

    def ordered(shortlists: Sequence[Shortlist]) -> list[list[Recollection]]:
        return _order_by_reviews(shortlists, call(_content_query_pairs(shortlists)))

    async def aordered(shortlists: Sequence[Shortlist]) -> list[list[Recollection]]:
        return _order_by_reviews(shortlists, await acall(_content_query_pairs(shortlists)))

    return Reranker(ordered, aordered, name)


def _content_query_pairs(shortlists: Sequence[Shortlist]) -> list[tuple[str, str]]:
    return [(memory.content, query) for query, best in shortlists for memory in best]


def _order_by_reviews(
    shortlists: Sequence[Shortlist], reviews: Sequence[ReviewResult]
) -> list[list[Recollection]]:
    remaining = iter(reviews)
    ordered = []
    for _, best in shortlists:
        own = list(islice(remaining, len(best)))
        ordered.append([_with_review(best[at], own[at]) for at in most_relevant(own, len(own))])
    return ordered


def _with_review(memory: Recollection, review: ReviewResult) -> Recollection:
    if review.consensus_score is None:
        return replace(memory, review=review)
    evidence = {**memory.evidence, "relevance": review.consensus_score}
    return replace(memory, review=review, evidence=evidence)
