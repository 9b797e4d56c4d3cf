"""Which memories were said twice in a row, which may say the same, and what lives on in which."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import NamedTuple

from langmem_tiers.consolidate.judge import Pair
from langmem_tiers.consolidate.steps import Item
from langmem_tiers.core.reading import normalised

HAPPENINGS = frozenset({"episodic", "interaction", "achievement"})
"""Types of what happened: the same a day later has happened twice."""
NEAR = 0.5
"""How near two memories are that may speak of one thing."""
DOUBTED = 3
"""The nearest of each memory that are put to somebody."""
_ANOTHER_TIME = timedelta(days=1)


class Cluster(NamedTuple):
    """Memories that say the same, by id."""

    survivor: int
    """The oldest of them, in which the others live on."""
    others: tuple[int, ...]
    """In the order in which they were recorded."""


class Tellings:
    """Memories of one home and type, by their texts and by the order in which they were true."""

    def __init__(self, items: Iterable[Item], near: Mapping[tuple[int, int], float]) -> None:
        """`near` has how near two of them are, in either order, as far as that is known."""
        self.items = sorted(items, key=lambda one: one.order)
        self.text = {one.id: normalised(one.content) for one in self.items}
        self._first = {self.text[one.id]: one for one in reversed(self.items)}
        self._last = {self.text[one.id]: one for one in self.items}
        self._near: defaultdict[int, dict[int, float]] = defaultdict(dict)
        for (one, other), how in near.items():
            self._near[one][other] = self._near[other][one] = how

    def repeated(self, within: timedelta, apart: Iterable[int] = ()) -> list[Cluster]:
        """What was said twice in a row, the oldest cluster first.

        Equal texts (`normalised`) of one speaker and source, trusted alike, so far apart at most,
        where nothing near came and went in between. Those that are `apart` are left out.
        """
        oldest: defaultdict[object, list[Item]] = defaultdict(list)
        found: defaultdict[int, list[int]] = defaultdict(list)
        left_out = set(apart)
        for one in sorted(self.items, key=lambda one: one.recorded):
            if one.id in left_out:
                continue
            known = oldest[self.text[one.id], one.trust, one.told_by]
            soon = (other for other in known if abs(one.told_at - other.told_at) <= within)
            first = next((other for other in soon if not self.between(other, one)), None)
            if first is None:
                known.append(one)
            else:
                found[first.id].append(one.id)
        return [Cluster(one, tuple(others)) for one, others in found.items()]

    def similar(self, least: float, sure: Iterable[Cluster] = ()) -> list[Pair]:
        """What may say the same, as near as that: of each the nearest, the older one first.

        Of several equal texts each stands beside the oldest alone, and clusters are one. What two
        speakers said, is not trusted alike, or happened twice, does not say the same.
        """
        home = {one: each.survivor for each in sure for one in each.others}
        by_id = {one.id: one for one in self.items}
        found: set[Pair] = set()
        for id_, others in self._near.items():
            nearest = sorted((-how, other) for other, how in others.items() if how >= least)
            pairs = (
                self._pair(by_id[home.get(id_, id_)], by_id[home.get(other, other)])
                for _, other in nearest
            )
            alike = dict.fromkeys(pair for pair in pairs if _alike(*pair))
            found.update(list(alike)[:DOUBTED])
        return sorted(found, key=lambda pair: (pair[0].id, pair[1].id))

    def _pair(self, one: Item, other: Item) -> Pair:
        """The older one first; beside an equal text, the oldest of it."""
        older, newer = sorted((one, other), key=lambda each: each.order)
        equal = self.text[older.id] == self.text[newer.id]
        return (self._first[self.text[older.id]] if equal else older), newer

    def between(self, one: Item, other: Item) -> list[Item]:
        """What is near to either of two, and was told after the first and before the last alone.

        It may have ended what the first says; merged into that, the last would be lost.
        """
        first, last = sorted((one, other), key=lambda each: each.order)
        near = {
            id_
            for each in (first, last)
            for id_, how in self._near[each.id].items()
            if how >= NEAR and self._within(self.text[id_], first, last)
        }
        return [each for each in self.items if each.id in near]

    def _within(self, text: str, first: Item, last: Item) -> bool:
        return first.order < self._first[text].order and self._last[text].order < last.order


def _alike(one: Item, other: Item) -> bool:
    """Whether either could stand for the other, if they say the same."""
    if one.id == other.id or (one.trust, one.source) != (other.trust, other.source):
        return False
    speakers = {one.speaker, other.speaker} - {None}
    return len(speakers) < 2 and not _two_happenings(one, other)  # noqa: PLR2004 - two speakers


def _two_happenings(one: Item, other: Item) -> bool:
    """Whether two memories tell what happened at different times."""
    if one.memory_type not in HAPPENINGS or not one.occurred_at or not other.occurred_at:
        return False
    return abs(one.occurred_at - other.occurred_at) >= _ANOTHER_TIME


def joined(items: Iterable[Item], found: Sequence[Cluster], alike: Iterable[Pair]) -> list[Cluster]:
    """Clusters, and further pairs that say the same, as clusters: each lives on in the oldest.

    Pairs of other memories than these are left out.
    """
    age = {one.id: number for number, one in enumerate(sorted(items, key=lambda i: i.recorded))}
    home = {one: each.survivor for each in found for one in each.others}

    def root(one: int) -> int:
        while one in home:
            one = home[one]
        return one

    for one, other in (pair for pair in alike if pair[0].id in age):
        older, newer = sorted((root(one.id), root(other.id)), key=age.__getitem__)
        if older != newer:
            home[newer] = older
    others: dict[int, list[int]] = {}
    for source in sorted(home, key=age.__getitem__):
        others.setdefault(root(source), []).append(source)
    oldest = sorted(others, key=age.__getitem__)
    return [Cluster(survivor, tuple(others[survivor])) for survivor in oldest]
