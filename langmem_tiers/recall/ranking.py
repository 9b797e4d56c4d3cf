"""Ranking profiles: what a memory's match and its life count for; and ranking by them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from difflib import get_close_matches
from numbers import Real
from operator import itemgetter
from typing import Any, NamedTuple

from langmem_tiers.core.checks import checked_function, checked_number
from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError, short
from langmem_tiers.core.memory import Recollection
from langmem_tiers.core.reading import LINE
from langmem_tiers.core.types import REFLEXION

Terms = Mapping[str, float]


class Asked(NamedTuple):
    """What a ranking profile knows of the question; `now` is UTC."""

    now: datetime
    project_id: str | None = None
    query: str = ""


ProfileFunction = Callable[[Recollection, Asked], Terms | float]
"""Returns the terms whose sum is the score, or the score itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A way to score memories; `source` says where each of its numbers comes from.

    `terms` scores a memory by itself. `among`, if there is one, is given the memories in the
    order of those scores and returns further terms for each, which may depend on the others.
    """

    name: str
    source: str
    terms: ProfileFunction
    among: Callable[[Sequence[Recollection], Asked], Sequence[Terms]] | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be asked at once."""
        checked_function(self.terms, f"profile {short(self.name)}")
        if self.among is not None:
            checked_function(self.among, f"`among` of profile {short(self.name)}")

    def __call__(self, memory: Recollection, asked: Asked) -> Terms | float:
        """The terms of one memory by itself."""
        return self.terms(memory, asked)


AURORA = {"match": 0.4, "recency": 0.2, "access": 0.15, "project": 0.15}
"""As the memory coordinator's specification has them, under "Relevance Scoring"."""
CALIBRATED = {"match": 0.97, "recency": 0.012, "access": 0.009, "project": 0.009}
"""The specified parts in their own proportions, adding up to 0.03, so that they decide between
near-equals only. With 0.1, recall@10 falls by 0.012 to 0.019 (docs/recall.md)."""
CREDIT = 0.012
"""What outcomes move in the profile "calibrated", up or down, at most: our own choice, as much as
recency does."""
RECENCY_DAYS = 30
"""Recency is 1 for today's memories, and falls evenly to 0 in so many days."""
FULL_ACCESSES = 10
"""Accesses from which on a memory has its full share for them."""
REFLEXION_SHARE = 0.2
"""What is added to a reflexion, as a share of all the rest."""

IMPORTANCE_WEIGHT = 0.3
"""Share of importance in the profile of that name: our own choice, as for recency."""
UNKNOWN_IMPORTANCE = 0.5
"""What a memory without an importance counts as: the middle, our own choice."""
RECENCY_WEIGHT = 0.3
"""Share of recency, as specified for time-weighted retrieval."""
DAILY_FADING = 0.1
"""How fast recency fades: 1 / (1 + 0.1 a day), as specified for time-weighted retrieval."""
SUCCESS_WEIGHT = 0.3
"""Share of proven success: our own choice, as for recency."""
BALANCE_STEP = 0.05
"""What each memory of the same side costs the next one: our own choice of near-equal."""


def _match_terms(weight: float, memory: Recollection) -> dict[str, float]:
    """The match, weighted, and apart from it what the stored boost adds, if it has one."""
    terms = {"match": weight * memory.match}
    if memory.boost != 1:
        terms["boost"] = weight * (min(memory.match * memory.boost, 1.0) - memory.match)
    return terms


def _age_in_days(memory: Recollection, asked: Asked) -> int:
    """Whole days since it was recorded; 0 if that lies ahead."""
    return max(0, (asked.now - memory.created_at).days)


def _relevance(weights: Mapping[str, float], credit: float = 0.0) -> ProfileFunction:
    """The terms of the specified relevance formula, with these weights of its parts, each 0…1.

    `credit` is what outcomes count for beside them, from that much up to that much down.
    """

    def terms(memory: Recollection, asked: Asked) -> Terms:
        fresh = max(0.0, 1 - _age_in_days(memory, asked) / RECENCY_DAYS)
        parts = {
            **_match_terms(weights["match"], memory),
            "recency": weights["recency"] * fresh,
            "access": weights["access"] * min(memory.access_count / FULL_ACCESSES, 1.0),
        }
        if asked.project_id and memory.project_id == asked.project_id:
            parts["project"] = weights["project"]
        if credit and memory.success_count + memory.failure_count:
            parts["success"] = credit * (2 * _success(memory, asked) - 1)
        if memory.memory_type == REFLEXION:
            parts["reflexion"] = REFLEXION_SHARE * math.fsum(parts.values())
        return parts

    return terms


def time_weighted(recency_weight: float = RECENCY_WEIGHT) -> Profile:
    """A profile in which recent memories are preferred; the weight, in 0…1, says how much.

    Raises:
        InvalidInputError: The weight is not in 0…1.

    Example:
        ```python
        from langmem_tiers.recall.ranking import time_weighted

        mostly_recent = time_weighted(0.8)
        ```
    """
    checked_number(recency_weight, "recency_weight", 0, 1, use="a number in 0…1")
    source = "Match and 1 / (1 + 0.1 × days), the latter 0.3 unless said otherwise: as specified."
    return Profile(name="time", source=source, terms=_beside("recency", recency_weight, _recency))


def _beside(
    name: str, weight: float, part: Callable[[Recollection, Asked], float]
) -> ProfileFunction:
    """The match, and beside it one other part, in 0…1, that has this weight."""

    def terms(memory: Recollection, asked: Asked) -> Terms:
        return {**_match_terms(1 - weight, memory), name: weight * part(memory, asked)}

    return terms


def _recency(memory: Recollection, asked: Asked) -> float:
    return 1 / (1 + DAILY_FADING * _age_in_days(memory, asked))


def _importance(memory: Recollection, _: Asked) -> float:
    return UNKNOWN_IMPORTANCE if memory.importance is None else memory.importance


def _success(memory: Recollection, _: Asked) -> float:
    return (memory.success_count + 1) / (memory.success_count + memory.failure_count + 2)


def _balance(ranked: Sequence[Recollection], asked: Asked) -> list[Terms]:
    """What a memory is docked for those of its own side (the project's, or not) above it."""
    above = {True: 0, False: 0}
    terms: list[Terms] = []
    for memory in ranked if asked.project_id else ():
        own = memory.project_id == asked.project_id
        terms.append({"balance": 0.0 - BALANCE_STEP * above[own]})
        above[own] += 1
    return terms or [{} for _ in ranked]


PROFILES: dict[str, Profile] = {
    one.name: one
    for one in (
        Profile(
            name="aurora",
            source="0.4 match, 0.2 recency within 30 days, 0.15 accesses up to 10, 0.15 same "
            "project, and a fifth more for a reflexion: as specified for the memory coordinator.",
            terms=_relevance(AURORA),
        ),
        Profile(
            name="calibrated",
            source="The terms of aurora with 0.97 match, 0.012 recency, 0.009 accesses and 0.009 "
            "project, and up to 0.012 for what came of it or against it, so that only near-equals "
            "change places: our own choice.",
            terms=_relevance(CALIBRATED, CREDIT),
        ),
        Profile(
            name="match",
            source="How well it answers the query and nothing else, not even a stored boost.",
            terms=lambda memory, _: {"match": memory.match},
        ),
        Profile(
            name="importance",
            source="0.7 match and 0.3 importance, which is 0.5 if unknown: our own choice.",
            terms=_beside("importance", IMPORTANCE_WEIGHT, _importance),
        ),
        time_weighted(),
        Profile(
            name="success",
            source="0.7 match and 0.3 expected success, (successes + 1) / (tries + 2), which is "
            "the mean of the Beta posterior over a uniform prior; the shares are our own choice.",
            terms=_beside("success", SUCCESS_WEIGHT, _success),
        ),
        Profile(
            name="project_balanced",
            source="Match, less 0.05 for each memory above it from the same side: the asked "
            "project's own, or all others. Near-equals alternate; the step is our own choice.",
            terms=lambda memory, _: _match_terms(1.0, memory),
            among=_balance,
        ),
    )
}
"""The profiles that have a name."""


def profile_of(given: str | ProfileFunction) -> Profile:
    """A profile by its name, a function as one, or what is one.

    Raises:
        InvalidInputError: It is none of these; of a name the message has the nearest one.
    """
    if isinstance(given, Profile):
        return given
    if isinstance(given, str):
        if (found := PROFILES.get(given)) is not None:
            return found
        (nearest,) = get_close_matches(given[:LINE], PROFILES, n=1, cutoff=0.0)
        raise InvalidInputError(
            f"There is no ranking profile {short(given)}. Did you mean {nearest!r}? "
            f"There are {', '.join(PROFILES)}; or give a function of your own."
        )
    if callable(given):
        name = getattr(given, "__name__", type(given).__name__)
        return Profile(name=name, source="The caller's own.", terms=given)
    raise InvalidTypeError(
        f"a profile is a name or a function, not {type(given).__name__}: "
        f"give one of {', '.join(PROFILES)}, or a function of (memory, asked)"
    )


def rank(
    recollections: Sequence[Recollection],
    profile: str | ProfileFunction,
    asked: Asked,
    limit: int | None = None,
) -> list[Recollection]:
    """Score memories and order them, best first; ties by match, namespace and key.

    All are returned, or the first `limit`. `profile` is a name of `PROFILES`, a `Profile`, or a
    function of a memory and of what was asked. Each memory's `score` is the sum of the terms in
    its `explanation`; a function that returns a plain number has the one term `profile`.

    Raises:
        InvalidInputError: No profile has that name, or the function returned something else
            than a finite number or a mapping of names to finite numbers.

    Example:
        ```python
        from langmem_tiers.recall.ranking import rank

        ranked = rank(memories, lambda memory, asked: len(memory.tags), asked)
        ```
    """
    chosen = profile if isinstance(profile, Profile) else profile_of(profile)
    terms = [chosen.terms(one, asked) for one in recollections]
    if chosen.among is None:
        return _ordered(recollections, terms, chosen, limit)
    alone = _ordered(recollections, terms, chosen)
    further = zip(alone, chosen.among(alone, asked), strict=True)
    return _ordered(alone, [{**one.explanation, **more} for one, more in further], chosen, limit)


def _ordered(
    memories: Sequence[Recollection],
    returned: Sequence[object],
    profile: Profile,
    limit: int | None = None,
) -> list[Recollection]:
    """The best by the sum of these terms; each is copied once it is known to be returned."""
    found = []
    for memory, made in zip(memories, returned, strict=True):
        # A dict is recognised at once, any other mapping by a look-up that takes much longer.
        terms = made if isinstance(made, (dict, Mapping)) else {"profile": made}
        checked = {name: _finite(name, one, memory, profile) for name, one in terms.items()}
        score = math.fsum(checked.values())
        order = (-score, -memory.match, memory.namespace, memory.key)
        found.append((order, memory, score, checked))
    found.sort(key=itemgetter(0))
    return [replace(one, score=score, explanation=terms) for _, one, score, terms in found[:limit]]


_LARGEST = 1e15
"""A term beyond it is a mistake; below it no sum of terms overflows."""


def _finite(name: object, term: object, memory: Recollection, profile: Profile) -> float:
    if not isinstance(name, str):
        raise InvalidTypeError(
            f"The ranking profile {profile.name!r} returned a term called {short(name)}: name "
            "terms by text."
        )
    number: Any = term
    real = type(term) is float or (isinstance(term, Real) and not isinstance(term, bool))
    if real and abs(number) <= _LARGEST:
        return float(number)
    raise InvalidInputError(
        f"The ranking profile {profile.name!r} returned {short(term)} for memory {memory.key!r}: "
        "return a number that is neither NaN nor beyond 1e15, or a mapping of names to such."
    )
