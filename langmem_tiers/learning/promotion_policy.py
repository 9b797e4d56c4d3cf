"""Decide on promotions and demotions by the evidence of a memory, with reasons.

Both are meant to be decided anew after every outcome, and frequent looks make chance look like
proof. The numbers below allow for that: they come from exact chances over 100 looks, which
docs/learning.md has.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Annotated, Any, Final, Literal, NamedTuple, get_args

from langmem_tiers.core.checks import (
    checked_choice,
    checked_switch,
    checked_whole,
    is_number,
    number_between,
    record,
    validated_by,
    whole_between,
)
from langmem_tiers.core.context import user_labels
from langmem_tiers.core.errors import ConfigurationError, InvalidTypeError, short
from langmem_tiers.core.settings import MOST_TIMES, PromotionSettings
from langmem_tiers.core.values import content_of, trust_of
from langmem_tiers.learning.outcome import ENOUGH, chance_at_most

Rule = Literal["thresholds", "beta"]
PromotionVerdict = Literal["promote", "demote", "stay"]
Comparison = Literal[">", ">=", "<="]


def _check_rule(value: object, name: str) -> str:
    return checked_choice(value, get_args(Rule), name, ConfigurationError)


def _check_types(value: object, name: str) -> object:
    if isinstance(value, tuple | list) and all(isinstance(item, str) for item in value):
        return value
    raise ConfigurationError(f"{name} is a tuple of names, not {short(value)}")


@record
class PromotionPolicy(PromotionSettings):
    """The evidence that promotes a memory, and that which demotes it again.

    With the `rule` "thresholds" the observed success rate counts. With "beta" its certainty counts:
    the chance that the true rate exceeds `min_success_rate`, over a uniform prior, must reach
    `confidence`. So 1 of 1 is no 100 %: at 0.95, 13 of 13 are the fewest that prove a rate above
    0.8. All other criteria hold for both rules.

    Raises:
        ConfigurationError: if a value cannot work; the message begins with its name.
    """

    rule: Annotated[Rule, validated_by(_check_rule)] = "thresholds"
    confidence: Annotated[float, number_between(0.5, 1, but=(0.5, 1))] = 0.95
    """The least certainty of a promotion by "beta". At least this share of the promoted memories
    has a true rate above `min_success_rate`, regardless of the number of looks, if the true rates
    of all memories are spread evenly. A memory of one fixed rate gains by the looks: within 100
    outcomes one of 0.7 is promoted in 1.5 % of all cases, one of 0.75 in 5 %, one of exactly 0.8 in
    18 %; at 0.98 in 0.4, 1.6 and 8 %."""
    memory_types: Annotated[tuple[str, ...], validated_by(_check_types)] = (
        "pattern",
        "procedural",
        "reflexion",
        "semantic",
        "skill",
    )
    """Types that `promote` considers without a key. Episodes, plans and notes belong where they
    happened; a memory of any type can be promoted by its key."""
    near_duplicate: Annotated[float, number_between(0, 1, but=(0,))] = 0.3
    """The least cosine of two memories of one type that may say the same. Only equal texts,
    regardless of case, white space and the end of a sentence, count as the same. Of the others the
    nearest five are named, and count once somebody judged them the same (`same=…` of
    `promote_to_long_term`, or the judge of a cycle). Of 200 restatements by two hands 91 in 100 are
    above it with the default model (docs/learning.md)."""
    by_use: Annotated[bool, validated_by(checked_switch)] = True
    """Promote a memory without any recorded outcome by its use: it has at least `min_importance`,
    and was shown on `min_days` days and in `min_sessions` sessions. If fewer than `min_projects`
    projects know it, it needs general words."""
    min_importance: Annotated[float, number_between(0, 1)] = 0.7
    """The least importance for a promotion by use: our own choice, as are the next two."""
    min_days: Annotated[int, whole_between(1, MOST_TIMES)] = 5
    """The least number of days (UTC) for a promotion by use."""
    min_sessions: Annotated[int, whole_between(1, MOST_TIMES)] = 3
    """The least number of sessions for a promotion by use."""
    demote_after: Annotated[int, whole_between(1, MOST_TIMES)] = 10
    """The least outcomes since the promotion before a demotion: the first few are too easily
    bad."""
    demote_within: int = 30
    """The most outcomes that count, the latest since the promotion. If all counted, a long good
    past would protect a memory; if few did, a good memory would have a bad spell sooner or
    later."""
    demote_below: Annotated[float, number_between(0, 1)] = 0.5
    """The success rate at which "thresholds" demotes: at least half of the runs failed. Within 100
    outcomes, this meets a memory with a true rate of 0.9 in 0.2 % of all cases. It is never above
    `min_success_rate`, so that no evidence both promotes and demotes."""
    demote_confidence: Annotated[float, number_between(0.5, 1, but=(0.5, 1))] = 0.99
    """The certainty at which "beta" demotes: that the true rate is not above `min_success_rate`. It
    is higher than for a promotion, because the looks never end: within 100 outcomes, a memory with
    a true rate of 0.85 is demoted in 2 % of all cases, at 0.98 in 6 %. One of 0.5 is found out
    within 25 outcomes in nine of ten."""

    def __post_init__(self) -> None:
        """Check that the outcomes that count are as many as a demotion needs."""
        least = self.demote_after
        checked_whole(self.demote_within, "demote_within", least, MOST_TIMES, ConfigurationError)


SPECIFIED = PromotionPolicy()
"""The policy of the specification: accesses > 5, success > 80 %, age > 7 days, projects >= 2."""
BETA = PromotionPolicy(rule="beta")
"""The same policy, but the success rate has to exceed 80 % with certainty."""


class PromotionCandidate(NamedTuple):
    """A memory that may be promoted, with its evidence.

    It is a row of `promotion_evidence`, with its columns in this order. The store counts accesses,
    which may lag behind the outcomes.
    """

    id: int
    namespace: str
    key: str
    value: dict[str, Any]
    tier: str
    state: str | None
    created_at: datetime
    updated_at: datetime
    access_count: int
    success_count: int
    failure_count: int
    projects: list[str]
    """Ids of the projects that used it."""
    near: list[dict[str, Any]]
    successor: dict[str, Any] | None
    valid_from: datetime | None
    valid_to: datetime | None
    user_id: str | None
    days: int
    """Number of days (UTC) on which it was shown to a run, as far back as exposures are kept."""
    sessions: int
    outcomes: int
    """Known outcomes of the runs that were shown it, used or not."""
    learned: list[str]
    """Projects that learned from the same failure."""

    @property
    def place(self) -> str:
        """Return the place of its successor: that of its user, or that of all users."""
        return "".join(f"{label}." for label in user_labels(self.user_id))

    @property
    def memory_type(self) -> str:
        """Return the memory type."""
        return str(self.value.get("memory_type") or "episodic")

    @property
    def content(self) -> str:
        """Return the content."""
        return content_of(self.value)

    @property
    def trust(self) -> float:
        """Return the trust in 0…1."""
        return trust_of(self.value)


class Criterion(NamedTuple):
    """One condition of a decision, with the observed value; None if there is none."""

    name: str
    value: float | None
    comparison: Comparison
    threshold: float
    unit: str = ""

    @property
    def met(self) -> bool:
        """Tell whether the condition holds. It does not without a value."""
        return self.value is not None and _HOLDS[self.comparison](self.value, self.threshold)

    def __str__(self) -> str:
        """Return a text such as `accesses 7 > 5 yes`, with enough digits to tell both apart."""
        digits = 2
        if self.value is not None and self.value != self.threshold:
            apart = (n for n in _DIGITS if round(self.value, n) != round(self.threshold, n))
            digits = next(apart, max(_DIGITS))
        value, threshold = (
            f"{figure:.{digits}f}" if isinstance(figure, float) else f"{figure}"
            for figure in ("unknown" if self.value is None else self.value, self.threshold)
        )
        answer = "yes" if self.met else "no"
        return f"{self.name} {value} {self.comparison} {threshold}{self.unit} {answer}"


_HOLDS: Final[dict[Comparison, Callable[[float, float], bool]]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<=": operator.le,
}
_DIGITS: Final = range(2, 10)


@dataclass(frozen=True, slots=True)
class PromotionDecision:
    """A decision on a memory, and its criteria."""

    verdict: PromotionVerdict
    reasons: tuple[Criterion, ...]

    @property
    def promote(self) -> bool:
        """Tell whether the memory is to be promoted."""
        return self.verdict == "promote"

    @property
    def demote(self) -> bool:
        """Tell whether the memory is to be demoted."""
        return self.verdict == "demote"

    @property
    def lacks(self) -> tuple[Criterion, ...]:
        """Return the criteria that are not met."""
        return tuple(reason for reason in self.reasons if not reason.met)

    def __str__(self) -> str:
        """Return a text such as `accesses 7 > 5 yes; success 0.75 > 0.80 no`."""
        return "; ".join(map(str, self.reasons))


def decide(
    candidate: PromotionCandidate, policy: PromotionPolicy, now: datetime
) -> PromotionDecision:
    """Decide whether to promote a memory, by its outcomes, as specified.

    A memory without any recorded outcome is judged by its use, if it is important enough.
    """
    successes, failures = candidate.success_count, candidate.failure_count
    age = (now - candidate.created_at) / timedelta(days=1)
    old = Criterion("age", age, ">", policy.min_age_days, " days")
    stated: Any = candidate.value.get("importance")
    importance = float(stated) if is_number(stated) else None
    tried = successes + failures + candidate.outcomes > 0
    if policy.by_use and not tried and (importance or 0.0) >= policy.min_importance:
        return _decision(
            "promote",
            Criterion("importance", importance, ">=", policy.min_importance),
            Criterion("shown on", candidate.days, ">=", policy.min_days, " days"),
            Criterion("sessions", candidate.sessions, ">=", policy.min_sessions),
            old,
        )
    rate, least = _success_rate(successes, failures), policy.min_success_rate
    success = Criterion("success", rate, ">", least)
    if policy.rule == "beta":
        surely = None if rate is None else 1 - chance_at_most(successes, failures, least)
        success = Criterion(f"chance of success above {least:.2f}", surely, ">=", policy.confidence)
    return _decision(
        "promote",
        Criterion("accesses", candidate.access_count, ">", policy.min_access_count),
        success,
        old,
        Criterion("projects", len(candidate.projects), ">=", policy.min_projects),
    )


def should_demote(successes: int, failures: int, policy: PromotionPolicy) -> PromotionDecision:
    """Decide whether to demote a promoted memory, by its later outcomes.

    Pass the outcomes since its promotion, only the latest `policy.demote_within` of them. Pass all
    if the latest cannot be told apart: a memory that served long is then demoted later.
    """
    rate, least = _success_rate(successes, failures), policy.min_success_rate
    failure = Criterion("success", rate, "<=", min(policy.demote_below, least))
    if policy.rule == "beta":
        surely = None if rate is None else chance_at_most(successes, failures, least)
        failure = Criterion(
            f"chance of success at most {least:.2f}", surely, ">=", policy.demote_confidence
        )
    enough = Criterion("outcomes", successes + failures, ">=", policy.demote_after)
    return _decision("demote", enough, failure)


def should_hold_back(outcomes: int, harm: float, policy: PromotionPolicy) -> PromotionDecision:
    """Decide whether a memory harms beyond doubt, by the runs that went without it."""
    enough = Criterion("outcomes", outcomes, ">=", ENOUGH)
    harmful = Criterion("chance of harm", harm, ">=", policy.demote_confidence)
    return _decision("demote", enough, harmful)


def _decision(verdict: PromotionVerdict, *reasons: Criterion) -> PromotionDecision:
    return PromotionDecision(verdict if all(reason.met for reason in reasons) else "stay", reasons)


def _success_rate(successes: int, failures: int) -> float | None:
    return successes / (successes + failures) if successes + failures else None


def promotion_policy(settings: PromotionSettings | None) -> PromotionPolicy:
    """Return a policy, made from the settings if they are none."""
    if settings is None:
        return SPECIFIED
    if isinstance(settings, PromotionPolicy):
        return settings
    if not isinstance(settings, PromotionSettings):
        raise InvalidTypeError(f"policy is a PromotionPolicy, not {type(settings).__name__}")
    return PromotionPolicy(
        **{field.name: getattr(settings, field.name) for field in fields(settings)}
    )
