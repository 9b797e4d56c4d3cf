"""Ranking: a profile's terms become each memory's score and explanation, and the order."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Real
from typing import NamedTuple

from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError
from langmem_tiers.core.memory import Recollection
from langmem_tiers.recall.profiles import (
    PROFILES,
    Asked,
    Profile,
    ProfileFunction,
    profile_named,
)

__all__ = ["PROFILES", "Asked", "Profile", "ProfileFunction", "profile_named", "rank"]


class _Scored(NamedTuple):
    """A memory and what a profile made of it; copied once it is known to be returned."""

    memory: Recollection
    score: float
    terms: Mapping[str, float]

    @property
    def recollection(self) -> Recollection:
        return replace(self.memory, score=self.score, explanation=self.terms)


def rank(
    recollections: Sequence[Recollection],
    profile: str | ProfileFunction,
    asked: Asked,
    limit: int | None = None,
) -> list[Recollection]:
    """Score memories and order them, best first; ties by namespace and key.

    All are returned, or the first `limit`. `profile` is a name of `PROFILES`, a `Profile`, or a
    function of a memory and of what was asked. Each memory's `score` is the sum of the terms in
    its `explanation`; a function that returns a plain number has the one term `profile`.

    Raises:
        InvalidInputError: No profile has that name, or the function returned something else
            than a finite number or a mapping of names to finite numbers.

    Example:
        ```python
        from langmem_tiers.recall.rank import rank

        ranked = rank(memories, lambda memory, asked: len(memory.tags), asked)
        ```
    """
    chosen = _resolve(profile)
    ranked = [_scored(one, chosen(one, asked), chosen) for one in recollections]
    ranked.sort(key=_place)
    if chosen.among is not None:
        alone = [one.recollection for one in ranked]
        further = zip(alone, chosen.among(alone, asked), strict=True)
        ranked = [_scored(one, {**one.explanation, **terms}, chosen) for one, terms in further]
        ranked.sort(key=_place)
    return [one.recollection for one in ranked[:limit]]


def _place(one: _Scored) -> tuple[float, tuple[str, ...], str]:
    return (-one.score, one.memory.namespace, one.memory.key)


def _resolve(profile: str | ProfileFunction) -> Profile:
    if isinstance(profile, str):
        return profile_named(profile)
    if isinstance(profile, Profile):
        return profile
    if callable(profile):
        name = getattr(profile, "__name__", type(profile).__name__)
        return Profile(name=name, source="The caller's own.", terms=profile)
    raise InvalidTypeError(
        f"A ranking profile is a name or a function, not a {type(profile).__name__}: "
        f"give one of {', '.join(PROFILES)}, or a function of (memory, asked)."
    )


def _scored(memory: Recollection, returned: object, profile: Profile) -> _Scored:
    # A dict is recognised at once, any other mapping by a look-up that takes many times longer.
    terms = returned if isinstance(returned, (dict, Mapping)) else {"profile": returned}
    checked = {_named(name, profile): _finite(one, memory, profile) for name, one in terms.items()}
    return _Scored(memory, math.fsum(checked.values()), checked)


def _named(name: object, profile: Profile) -> str:
    if isinstance(name, str):
        return name
    raise InvalidTypeError(
        f"The ranking profile {profile.name!r} returned a term called {name!r}: name terms by text."
    )


_LARGEST = 1e15
"""A term beyond it is a mistake; below it no sum of terms overflows."""


def _finite(term: object, memory: Recollection, profile: Profile) -> float:
    number = term if type(term) is float else _as_float(term)
    if abs(number) <= _LARGEST:
        return number
    raise InvalidInputError(
        f"The ranking profile {profile.name!r} returned {term!r} for memory {memory.key!r}: "
        "return a number that is neither NaN nor beyond 1e15, or a mapping of names to such."
    )


def _as_float(term: object) -> float:
    """A number as a float, and anything else as NaN."""
    if isinstance(term, bool) or not isinstance(term, Real):
        return math.nan
    try:
        return float(term)
    except OverflowError:
        return math.inf
