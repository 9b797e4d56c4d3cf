"""How far forgetting reaches: what goes along, and what is suspect then, by where it came from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from langmem_tiers.core.values import content_of
from langmem_tiers.forget.passages import Passages
from langmem_tiers.forget.places import Known

ASKED: Final = "it was asked for"
TWIN: Final = "it was merged with one that goes, and says the same"
CAME_OF_IT: Final = "it came from what goes alone"
REPEATS: Final = "it came from what goes and others, and repeats it"
UNTOUCHED: Final = "it came from what goes and others, and repeats nothing of it"
ALIKE: Final = "it says the same by itself: forget it too, if it is meant"
_RISEN: Final = ("promoted", "reinforced")
_OWN: Final = ("merged", "reinforced")
"""The moves that what came of them was there before: it has what it says by itself too."""


class Kin(NamedTuple):
    """That a memory came from another one; a row of kin."""

    id: int
    source: int
    derived: bool
    kind: str | None


class Reach(NamedTuple):
    """What goes, and what is suspect; each by its id, with the reason."""

    erased: dict[int, str]
    suspect: dict[int, str]


def reach(
    asked: Mapping[int, str],
    family: Family,
    passages: Callable[[Collection[int]], Passages],
) -> Reach:
    """What goes with those that are `asked` for, and what came from them and others.

    That goes as well if it repeats them. `passages` are what these memories say.
    """
    erased = dict(asked)
    while True:
        family.spread(erased)
        below = (family.below(erased) & family.known.keys()) - erased.keys()
        said = passages(erased)
        repeats = [
            one for one in sorted(below) if said.repeated_in(content_of(family.known[one].value))
        ]
        if not repeats:
            return Reach(erased, dict.fromkeys(sorted(below), UNTOUCHED))
        erased |= dict.fromkeys(repeats, REPEATS)


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
            new = {k: why for k, why in along.items() if k in self.known and k not in erased}
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
