"""The review panel: several reviewers score a memory, and their mean decides.

A reviewer is a function of a user's own, or a question that a chat model is asked
(`langmem_tiers.remember.review_models`), or both: then the function is asked where no model is
named. As re-rankers they score recalled memories for relevance, and the best come first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from langmem_tiers.core import prompts
from langmem_tiers.core.checks import checked_function
from langmem_tiers.core.errors import InvalidInputError, short
from langmem_tiers.core.memory import ReviewResult
from langmem_tiers.remember.new import NewMemory

BEST: Final = 10.0
INJECTION: Final = "injection"
"""The reviewer whose word alone holds a memory back. It has no part in the mean beside others: that
would drown it, and lift what it only finds harmless."""
ATTACK: Final = 5.0
"""What it gives less than tries to instruct its reader: attacks get 0, and what informs 10."""
OWN: Final = "own"
"""The review of a recall by reviewers' own functions."""
MODEL: Final = "model"
"""The review of a recall by a chat model, beside the functions of those that ask it nothing."""


class Score(NamedTuple):
    """What a reviewer says of a memory, and why."""

    score: float
    """0…10 for storage, 0…1 for relevance."""
    reason: str


StorageRule: TypeAlias = Callable[[NewMemory], tuple[float, str]]
"""How much a candidate is worth storing, in 0…10, and why."""
RelevanceRule: TypeAlias = Callable[[str, str], tuple[float, str]]
"""How well a memory's content (the first) helps with a query, in 0…1, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reviewer:
    """One member of the panel, for storage, for relevance or for both.

    Raises:
        InvalidInputError: for a blank name, an async function, or one that reviews nothing.

    Example:
        ```python
        from langmem_tiers.remember.new import NewMemory
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
    """What a model is asked about storing, in place of the rule: how it comes to its score."""
    relevance_question: str | None = None

    def __post_init__(self) -> None:
        """Refuse what could say nothing."""
        name: object = self.name
        if not isinstance(name, str) or not name.strip():
            raise InvalidInputError(f"a reviewer has a name, not {short(name)}")
        rules = [one for one in (self.storage, self.relevance) if one is not None]
        for rule in rules:
            checked_function(rule, f"a rule of reviewer {short(self.name)}")
        if not rules and self.storage_question is None and self.relevance_question is None:
            raise InvalidInputError(
                f"reviewer {self.name!r} reviews nothing: give it `storage` or `relevance`, a "
                "function that returns a score and a reason"
            )

    def score_storage(self, candidate: NewMemory) -> Score | str | None:
        """What its rule says of a candidate, or what was wrong; None if it has no rule."""
        rule = self.storage
        return None if rule is None else _said(partial(rule, candidate), BEST)

    def score_relevance(self, content: str, query: str) -> Score | str | None:
        """What its rule says of a memory for a query, or what was wrong; None if it has none."""
        rule = self.relevance
        return None if rule is None else _said(partial(rule, content, query), 1.0)


def consensus(said: Mapping[str, Score | str | None]) -> ReviewResult:
    """The result of a panel whose members said this: scores, or what was wrong."""
    scores = {name: one for name, one in said.items() if isinstance(one, Score)}
    given = [one.score for name, one in scores.items() if name != INJECTION or len(scores) == 1]
    return ReviewResult(
        consensus_score=sum(given) / len(given) if given else None,
        agent_scores={name: one.score for name, one in scores.items()},
        reasons={name: one.reason for name, one in scores.items()},
        failures={name: one for name, one in said.items() if isinstance(one, str)},
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
        for one in reviewers:
            self.register(one)

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
            known = ", ".join(self._reviewers) or "none"
            raise InvalidInputError(f"no reviewer {name!r}; known: {known}")
        del self._reviewers[name]

    def review_storage(self, candidate: NewMemory) -> ReviewResult:
        """What the members' rules say of a candidate."""
        return consensus({one.name: one.score_storage(candidate) for one in self})

    def review_relevance(self, content: str, query: str) -> ReviewResult:
        """What the members' rules say of a memory for a query; scores are in 0…1."""
        return consensus({one.name: one.score_relevance(content, query) for one in self})

    def score_relevance(self, content: str, query: str) -> float:
        """The mean of `review_relevance`; 0 if no member scores relevance."""
        return self.review_relevance(content, query).consensus_score or 0.0

    @property
    def score_recalls(self) -> bool:
        """Whether a member has a function that scores relevance."""
        return any(one.relevance is not None for one in self)

    def __repr__(self) -> str:
        """The names of its members."""
        return f"Reviewers({', '.join(self._reviewers)})"

    def __contains__(self, name: object) -> bool:
        return name in self._reviewers

    def __iter__(self) -> Iterator[Reviewer]:
        return iter(tuple(self._reviewers.values()))

    def __len__(self) -> int:
        return len(self._reviewers)


def default_reviewers() -> Reviewers:
    """A panel of the three that are specified, two of which score relevance, and `injection`.

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


def instructing(review: ReviewResult) -> str | None:
    """Why it is held back though the mean may be high; None if no attack was seen in it."""
    score = review.agent_scores.get(INJECTION, BEST)
    return None if score >= ATTACK else f"instructs: {review.reasons[INJECTION]}"


def most_relevant(reviews: Sequence[ReviewResult], limit: int) -> list[int]:
    """The places of the most relevant, best first.

    As specified, what was reviewed are the best `3 x limit` of a recall, in their order; of
    equal ones the earlier comes first, and one that nobody reviewed comes last.
    """

    def rank(at: int) -> tuple[bool, float, int]:
        score = reviews[at].consensus_score
        return score is None, -(score or 0.0), at

    return sorted(range(len(reviews)), key=rank)[:limit]


def _said(rule: Callable[[], object], most: float) -> Score | str:
    """What a rule says, or what was wrong with it: this is the edge to code that we do not know."""
    try:
        return checked_score(rule(), most)
    except InvalidInputError as error:
        return str(error)
    except Exception as error:  # noqa: BLE001 - a user's function can raise anything
        return f"{type(error).__name__}: {error}"


def checked_score(said: object, most: float) -> Score:
    """A score in 0…most with its reason.

    Raises:
        InvalidInputError: for anything else.
    """
    if isinstance(said, tuple | list) and len(said) == 2:  # noqa: PLR2004 - score and reason
        score, reason = said
        number = isinstance(score, int | float) and not isinstance(score, bool)
        if number and 0 <= score <= most and isinstance(reason, str):
            return Score(float(score), reason)
    raise InvalidInputError(
        f"a reviewer returns a score from 0 to {most:g} and a reason, not {short(said)}"
    )
