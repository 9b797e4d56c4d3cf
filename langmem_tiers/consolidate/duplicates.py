"""Which memories were said twice in a row, and what lives on in the oldest."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import NamedTuple

from langmem_tiers.consolidate.judge import Pair
from langmem_tiers.consolidate.steps import Item

HAPPENINGS = frozenset({"episodic", "interaction", "achievement"})
"""Types of what happened: the same a day later has happened twice."""
NEAR = 0.5
"""How near two memories are that may speak of one thing."""
_ANOTHER_TIME = timedelta(days=1)


class Cluster(NamedTuple):
    """Memories that say the same, by id."""

    survivor: int
    """The oldest of them, in which the others live on."""
    others: tuple[int, ...]
    """In the order in which they were recorded."""


def repeated(
    items: Sequence[Item], near: Mapping[tuple[int, int], float], within: timedelta
) -> list[Cluster]:
    """Memories of one home and type that were said twice in a row, oldest first.

    Equal texts (`normalised`) of one speaker and source, trusted alike, at most so far apart; and
    nothing else that is near was told in between. Said again later, it may have happened again.
    """
    oldest: defaultdict[object, list[Item]] = defaultdict(list)
    found: defaultdict[int, list[int]] = defaultdict(list)
    for one in sorted(items, key=lambda one: one.recorded):
        known = oldest[one.text, one.trust, one.told_by]
        soon = (other for other in known if abs(one.told_at - other.told_at) <= within)
        first = next((other for other in soon if not between(other, one, items, near)), None)
        if first is None:
            known.append(one)
        else:
            found[first.id].append(one.id)
    return [Cluster(one, tuple(others)) for one, others in found.items()]


def similar(
    items: Sequence[Item],
    near: Mapping[tuple[int, int], float],
    sure: Iterable[Cluster],
    least: float,
) -> list[Pair]:
    """Pairs that may say the same, as near as that, the older one first.

    Of several equal texts each stands beside the oldest alone, and clusters are one. What is not
    trusted alike, or happened twice, does not say the same.
    """
    oldest: dict[str, Item] = {}
    for one in sorted(items, key=lambda one: one.order):
        oldest.setdefault(one.text, one)
    home = {one: each.survivor for each in sure for one in each.others}
    by_id = {one.id: one for one in items}
    found: dict[Pair, None] = {}
    for pair, how in near.items():
        one, other = sorted((by_id[home.get(id_, id_)] for id_ in pair), key=lambda one: one.order)
        older = oldest[one.text] if one.text == other.text else one
        if how >= least and older.id != other.id and _alike(older, other):
            found[older, other] = None
    return sorted(found, key=lambda pair: (pair[0].id, pair[1].id))


def _alike(one: Item, other: Item) -> bool:
    """Whether either could stand for the other, if they say the same."""
    return (one.trust, one.source) == (other.trust, other.source) and not two_happenings(one, other)


def between(
    one: Item, other: Item, items: Iterable[Item], near: Mapping[tuple[int, int], float]
) -> list[Item]:
    """What else was told between two memories, and is near to either."""
    first, last = sorted((one, other), key=lambda each: each.order)
    return [
        each
        for each in items
        if first.order < each.order < last.order
        and max(how_near(each, first, near), how_near(each, last, near)) >= NEAR
        and each.text not in (first.text, last.text)
    ]


def how_near(one: Item, other: Item, near: Mapping[tuple[int, int], float]) -> float:
    """How near two memories are, as far as that is known."""
    return max(near.get((one.id, other.id), 0.0), near.get((other.id, one.id), 0.0))


def two_happenings(one: Item, other: Item) -> bool:
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
