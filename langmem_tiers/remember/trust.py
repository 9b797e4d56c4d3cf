"""How far a memory is trusted, in 0…1: as far as its source, and no further than what it came from.

Trust is the least of all that speaks about it, so it can only fall on the way: whatever is derived,
merged or summed up from a memory is trusted at most as that memory is. A person who releases a
memory from quarantine is the only way up.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from langmem_tiers.core.checks import is_number
from langmem_tiers.core.context import user_of
from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError, short
from langmem_tiers.core.memory import THRESHOLD, Source
from langmem_tiers.core.namespaces import Place
from langmem_tiers.core.values import encode_value
from langmem_tiers.store.write import Write

SOURCES: Final[Mapping[str, float]] = {
    Source.USER: 1.0,
    Source.SYSTEM: 1.0,
    Source.AGENT: 0.8,
    Source.TOOL: 0.6,
    Source.WEB: 0.4,
    Source.UNKNOWN: 0.4,
}
"""What is trusted how far: who answers for what is said, and how easily another could say it."""

SPOKEN_FOR: Final = 0.7
"""From this trust on (users, operators, agents), what is said again is kept as evidence of its own,
and ends what it contradicts; below it (tools, pages) it adds nothing, and ends nothing that is
trusted more."""

INSTRUCTS: Final = 0.1
"""The most that a text is trusted in which instructions were found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustPolicy:
    """How far each source is trusted, and below what a memory is held back.

    Raises:
        InvalidInputError: for a trust or threshold outside of 0…1, or a threshold that what is
            released could not reach.
        InvalidTypeError: for what is no mapping of names.

    Example:
        ```python
        from langmem_tiers.remember.trust import TrustPolicy

        careful = TrustPolicy(sources={"partner": 0.5}, thresholds={"procedural": 0.7})
        assert careful.quarantines(0.6, "procedural")
        ```
    """

    sources: Mapping[str, float] = field(default_factory=dict)
    """Sources of one's own, and other values for those that are known."""
    threshold: float = THRESHOLD
    thresholds: Mapping[str, float] = field(default_factory=dict)
    """By memory type, in place of `threshold`."""

    def __post_init__(self) -> None:
        """Refuse what is outside of 0…1."""
        checked_trust(self.threshold, "threshold")
        given: dict[str, object] = {"sources": self.sources, "thresholds": self.thresholds}
        for what, named in given.items():
            if not (isinstance(named, Mapping) and all(isinstance(one, str) for one in named)):
                meant = "a mapping of names to trusts"
                raise InvalidTypeError(f"{what} is {meant}, not {short(named)}")
            for name, value in named.items():
                checked_trust(value, f"{what}[{short(name)}]")

    def of_source(self, source: str) -> float:
        """How far a source is trusted; one that is not known, as `unknown` is."""
        known = {**SOURCES, **self.sources}
        return known.get(source, known[Source.UNKNOWN])

    def below(self, memory_type: str) -> float:
        """The threshold of a memory type."""
        return self.thresholds.get(memory_type, self.threshold)

    def quarantines(self, trust: float, memory_type: str) -> bool:
        """Whether a memory of this trust and type is held back."""
        return trust < self.below(memory_type)


def derived_trust(own: float, origins: Iterable[float] = ()) -> float:
    """The trust in what comes from a source of this trust and from memories of those.

    It is the least of them, so the order in which memories are derived from each other does not
    matter, and none of them rises.

    Raises:
        InvalidInputError: for a trust that is no number in 0…1.
    """
    return min([checked_trust(own, "trust"), *(checked_trust(one, "trust") for one in origins)])


def released_trust(trust: float, memory_type: str, policy: TrustPolicy) -> float:
    """The trust in a memory that a person released: just enough to be recalled."""
    return max(checked_trust(trust, "trust"), policy.below(memory_type))


def checked_trust(value: object, what: str) -> float:
    """A number in 0…1.

    Raises:
        InvalidInputError: for anything else.
    """
    if not is_number(value) or not 0 <= value <= 1:  # type: ignore[operator]
        raise InvalidInputError(f"{what} is a trust from 0 to 1, not {short(value)}")
    return float(value)  # type: ignore[arg-type]


A_USERS_OWN: Final = "what is a user's own"
"""What is told of a memory, in place of its key, where everybody reads it."""


class Origin(NamedTuple):
    """A memory that another is derived from; a row of origins_of_writes, in this order."""

    source: str
    there: bool
    circular: bool
    trust: float
    held: bool


def _check(one: Origin) -> None:
    if not one.there:
        raise InvalidInputError(f"{one.source!r} is gone by now: derive from what is there")
    if one.circular:
        raise InvalidInputError(
            f"{one.source!r} came from the memory that is to be derived from it: leave it out"
        )


def settled_by(
    one: Write, origins: Sequence[Origin], changing: Container[tuple[Place, str]]
) -> Write:
    """A write that is derived from its origins, without those that it only repeats and cannot have.

    It is trusted no further than these either, as long as they are there.
    """
    if not one.sources:
        return one
    several = dict(zip(one.sources, origins, strict=True))
    for place, origin in several.items():
        if place not in one.echoes:
            _check(origin)
        if user_of(place[0]) not in (None, user_of(one.place)):
            several[place] = origin._replace(source=A_USERS_OWN)
    derived = _derived(one, [each for each in several.values() if each.there])
    had = (
        place
        for place, origin in several.items()
        if place not in one.echoes
        or (origin.there and not origin.circular and place not in changing)
    )
    return replace(derived, sources=tuple(had))


def _derived(one: Write, origins: Sequence[Origin]) -> Write:
    """A write, trusted no further than what it is derived from."""
    if not origins:
        return one
    least = min(origins, key=lambda each: each.trust)
    settled = _trusted(one, derived_trust(one.trust, [least.trust]))
    if settled.held is not None:
        return settled
    held = next((each for each in origins if each.held), None)
    if held is not None:
        return replace(settled, held=f"derived: it came from {held.source}, which is quarantined")
    if settled.trust < one.threshold:
        reason = (
            f"trust: {settled.trust:g} is below {one.threshold:g}, as it came from {least.source}"
        )
        return replace(settled, held=reason)
    return settled


def _trusted(one: Write, trust: float) -> Write:
    """A put that is trusted no further than this; its value says so."""
    if trust >= one.trust or one.value is None:
        return one
    return replace(one, trust=trust, value=encode_value({**json.loads(one.value), "trust": trust}))
