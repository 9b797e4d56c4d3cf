"""How far a memory is trusted, in 0…1: as far as its source, and no further than what it came from.

Trust is the least of all that speaks about it, so it can only fall on the way: whatever is derived,
merged or summed up from a memory is trusted at most as that memory is. A person who releases a
memory from quarantine is the only way up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from langmem_tiers.core.checks import checked_kind, checked_mapping, is_number
from langmem_tiers.core.errors import InvalidInputError, short
from langmem_tiers.core.memory import THRESHOLD, Source

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
        for what, named in (("sources", self.sources), ("thresholds", self.thresholds)):
            for name, value in checked_mapping(named, what, "{'web': 0.4}").items():
                checked_kind(name, str, f"a name in {what}, {short(name)},")
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
