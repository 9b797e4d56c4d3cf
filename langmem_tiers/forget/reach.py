"""How far forgetting reaches: what goes along, and what is to say less, by where it came from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple

from langmem_tiers.core.reading import normalised
from langmem_tiers.core.values import content_of
from langmem_tiers.forget.passages import Passages
from langmem_tiers.forget.subject import strings_of

ASKED: Final = "it was asked for"
TWIN: Final = "it was merged with one that goes, and says the same"
CAME_OF_IT: Final = "it came from what goes alone"
NOTHING_LEFT: Final = "it came from what goes and others, and says nothing else"
SAYS_LESS: Final = "it came from what goes and others: sentences that repeat it go"
ALIKE: Final = "it says the same by itself: forget it too, if it is meant"
UNTOUCHED: Final = "it came from what goes and others, and repeats nothing of it"
_RISEN: Final = ("promoted", "reinforced")
_OWN: Final = ("merged", "reinforced")
"""The moves that what came of them was there before: it has what it says by itself too."""
STRUCTURE: Final = frozenset(
    (
        *("memory_type", "tier", "source", "platform_source", "project_id", "agent_id"),
        *("session_id", "occurred_at", "valid_from", "valid_to", "signature", "tool", "turn"),
        "trust",
    )
)
"""What of a value says where and when, and nothing in words."""


class Known(NamedTuple):
    """A memory as forgetting looks at it; a row, the columns are in this order."""

    id: int
    tier: str
    namespace: str
    key: str
    value: dict[str, Any]
    state: str | None
    user_id: str | None
    session: str | None
    speaker: str | None
    version: datetime | None = None
    """When it was last put; None of a line of a file."""

    @property
    def texts(self) -> list[str]:
        """All that it says."""
        told = {name: one for name, one in self.value.items() if name not in STRUCTURE}
        return [content_of(self.value), *strings_of(told)]

    @property
    def says(self) -> str:
        """What it says, as texts are compared."""
        return normalised(content_of(self.value))


class Kin(NamedTuple):
    """That a memory came from another one; a row of kin."""

    id: int
    source: int
    derived: bool
    kind: str | None


@dataclass(frozen=True, slots=True)
class Reach:
    """What goes, and what says less; each by its id, with the reason."""

    erased: dict[int, str] = field(default_factory=dict)
    rewritten: dict[int, str] = field(default_factory=dict)
    values: dict[int, dict[str, Any]] = field(default_factory=dict)
    """What those that are rewritten say from now on."""


def reach(
    asked: Mapping[int, str],
    family: Family,
    passages: Callable[[Collection[int]], Passages],
) -> Reach:
    """What goes with those that are `asked` for, each with its reason, and what says less.

    `passages` are what these memories say.
    """
    erased = dict(asked)
    known = family.known
    while True:
        family.spread(erased)
        below = family.below(erased) - erased.keys()
        said = passages(erased)
        left = {one: _left(known[one].value, said) for one in sorted(below) if one in known}
        empty = [one for one, value in left.items() if value is None]
        if not empty:
            values = {one: value for one, value in left.items() if value is not None}
            reasons = {
                one: UNTOUCHED if value == known[one].value else SAYS_LESS
                for one, value in values.items()
            }
            return Reach(erased, reasons, values)
        erased |= dict.fromkeys(empty, NOTHING_LEFT)


class Family:
    """Memories, and which came from which."""

    def __init__(
        self,
        known: Mapping[int, Known],
        kin: Iterable[Kin],
        within: Callable[[Known], bool] = lambda _: True,
    ) -> None:
        """`within` says of what lives on in one that goes whether it may go along."""
        self.known = known
        self._within = within
        self._came = defaultdict[int, list[Kin]](list)
        self._became = defaultdict[int, list[Kin]](list)
        for one in kin:
            self._came[one.id].append(one)
            self._became[one.source].append(one)

    def spread(self, erased: dict[int, str]) -> None:
        """Add what goes along, until nothing does any more."""
        rest = list(erased)
        while rest:
            one = rest.pop()
            along = dict.fromkeys(self._twins(one), TWIN)
            for edge in self._became[one]:
                if all(e.source in erased and e.kind not in _OWN for e in self._came[edge.id]):
                    along.setdefault(edge.id, CAME_OF_IT)
            new = {each: why for each, why in along.items() if each not in erased}
            new = {each: why for each, why in new.items() if each in self.known}
            erased |= new
            rest += new

    def below(self, erased: Iterable[int]) -> set[int]:
        """All that came from these, directly or not."""
        found: set[int] = set()
        rest = list(erased)
        while rest:
            new = {each.id for each in self._became[rest.pop()]} - found
            found |= new
            rest += new
        return found

    def _twins(self, one: int) -> Iterator[int]:
        """What says the same as a memory, as moves said: merged with it, or promoted to it."""
        for edge in (*self._came[one], *self._became[one]):
            other = edge.source if edge.id == one else edge.id
            risen = edge.kind in _RISEN and other == edge.source
            if edge.kind == "merged" or (risen and self._says_the_same(one, other)):
                yield other

    def _says_the_same(self, one: int, other: int) -> bool:
        """Whether another memory within reach says the same."""
        if one not in self.known or other not in self.known:
            return False
        here, there = self.known[one], self.known[other]
        return here.says == there.says and self._within(there)


def _left(value: dict[str, Any], said: Passages) -> dict[str, Any] | None:
    """A value without what repeats what is forgotten; None if its content is gone with it."""
    left = {name: one if name in STRUCTURE else _cut(one, said) for name, one in value.items()}
    left = {name: one for name, one in left.items() if one != "" or value[name] == ""}
    for name in ("content", "text"):
        if isinstance(value.get(name), str):
            return left if left.get(name) else None
    return left if left.keys() - STRUCTURE or left == value else None


def _cut(value: Any, said: Passages) -> Any:
    """JSON of which each text is cut, and those that say nothing then are left out."""
    if isinstance(value, str):
        left = said.left_of(value)
        return "" if left in said.keys else left
    if isinstance(value, list):
        return [cut for one in value if (cut := _cut(one, said)) != "" or one == ""]
    if isinstance(value, dict):
        return {name: cut for name, one in value.items() if (cut := _cut(one, said)) != ""}
    return value
