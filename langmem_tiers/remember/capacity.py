"""Evict the memories that are worth least where a place is over its capacity."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple, TypeVar
from uuid import uuid4

from langmem_tiers.core.checks import is_number
from langmem_tiers.core.memory import Moment, Place
from langmem_tiers.postgres.flow import Call, Flow, Query, Row
from langmem_tiers.store.write import Capacity, Write

HALF_LIFE: Final = timedelta(days=30)
"""After this an accessless memory's freshness counts half, as its strength does."""
_IMPORTANCE, _STRENGTH, _FRESH = 0.5, 0.3, 0.2
_DEFAULT_IMPORTANCE: Final = 0.5


@dataclass(frozen=True, slots=True)
class Occupant:
    """A memory that may be evicted; a row of standing_in_place."""

    key: str
    created_at: datetime
    importance: float | None = None
    """In 0…1; one half if nobody said."""
    strength: float = 0.0
    """Accesses, each counting half after 30 days."""
    trust: float = 1.0
    """In 0…1: it makes room for nothing that is trusted less."""
    entered: bool = False
    """True if it comes in with the write that needs room."""
    id: int | None = None
    """The id of a stored memory."""


class Located(NamedTuple):
    """A memory by its place, key and id."""

    place: Place
    key: str
    id: int


class Evicted(NamedTuple):
    """A memory that made room, why it and not another, and for which."""

    memory: Located
    reason: str
    by: str

    @property
    def place(self) -> Place:
        """The place of the memory."""
        return self.memory.place


P = TypeVar("P", Evicted, Write)


def group_by_tenant(items: Iterable[P]) -> list[tuple[str, list[P]]]:
    """Group items by the tenant of their places, as a statement is of one tenant."""
    groups: dict[str, list[P]] = {}
    for item in items:
        groups.setdefault(item.place.tenant, []).append(item)
    return sorted(groups.items())


def worth(memory: Occupant, now: datetime) -> float:
    """Compute the worth of a memory, in 0…1: half importance, then strength, then freshness."""
    importance = _DEFAULT_IMPORTANCE if memory.importance is None else memory.importance
    age = max(timedelta(), now - memory.created_at) / HALF_LIFE
    used = memory.strength / (memory.strength + 1)
    return _IMPORTANCE * importance + _STRENGTH * used + _FRESH * math.exp2(-age)


def evictions(
    standing: Sequence[Occupant], surplus: int, most: int, now: datetime
) -> list[tuple[str, str]]:
    """Choose the memories to evict, the least worth first: their keys and reasons.

    Among memories of equal worth one that stood there goes first, then the older, then the lower
    key: the same memories in any order give the same answer.
    """
    ranked = sorted(
        standing,
        key=lambda memory: (worth(memory, now), memory.entered, memory.created_at, memory.key),
    )
    return [
        (
            memory.key,
            (
                f"the place holds {most}, and this was worth least: {worth(memory, now):.2f} "
                "(importance "
                f"{_DEFAULT_IMPORTANCE if memory.importance is None else memory.importance:g}, "
                f"strength {memory.strength:g}, since {memory.created_at:%Y-%m-%d})"
            ),
        )
        for memory in ranked[:surplus]
    ]


def _bounded_places(put: Write) -> list[tuple[Place, Capacity]]:
    """List the bounded places of a write; a quarantined one is not recalled, and takes no room."""
    return [] if put.held or put.value is None else [(put.place, room) for room in put.capacities]


_Name = tuple[str, bool]
"""The name of an occupant: its key, and whether it came in with the write."""


class _Evictor:
    """Decides, write by write, which memory makes room: an old one, or one of an earlier write."""

    def __init__(
        self,
        standing: Mapping[tuple[Place, Capacity], Sequence[Row]],
        replacing: Collection[tuple[Place, str]],
        now: datetime,
    ) -> None:
        """Hold the memories of each bounded place, and the keys that are taken."""
        self._there: dict[tuple[Place, Capacity], dict[_Name, Occupant]] = {
            where: {
                (key, False): Occupant(key, created_at, importance, strength, trust, id=number)
                for number, key, created_at, importance, strength, trust in rows
            }
            for where, rows in standing.items()
        }
        self._replacing, self._now = replacing, now
        self.evicted: dict[int, Evicted] = {}
        self.full: dict[tuple[Place, str], str] = {}
        """The reasons why some writes have no room."""

    def admit(self, put: Write) -> None:
        """Let a write in, and let the least worthy in each of its places go for it."""
        gone: dict[_Name, str] = {}
        for where in _bounded_places(put):
            leaving = self._leaving(put, where, gone)
            if leaving is None:
                self.full[put.name] = (
                    f"full: the place holds {where[1].most}, and what is there is trusted more, "
                    "came in with it and is worth as much, or is what it came from"
                )
                return
            gone |= leaving
        for name, reason in gone.items():
            self._let_go(put, name, reason)
        for where in _bounded_places(put):
            self._there[where][put.key, True] = _occupant_of(put, self._now)

    def _let_go(self, put: Write, name: _Name, reason: str) -> None:
        """Let a memory go for a write, or one that came in with it."""
        rooms = [there for (place, _), there in self._there.items() if place == put.place]
        left, *_ = [there.pop(name) for there in rooms if name in there]
        if left.id is not None:
            memory = Located(put.place, left.key, left.id)
            self.evicted[left.id] = Evicted(memory, reason, put.key)
            return
        self.full[put.place, left.key] = f"full: {reason}"
        for number, each in self.evicted.items():
            if (each.place, each.by) == (put.place, left.key):
                self.evicted[number] = each._replace(by=put.key)

    def _leaving(
        self, put: Write, where: tuple[Place, Capacity], gone: Collection[_Name]
    ) -> dict[_Name, str] | None:
        """Find what goes from a place for a write, and why; None if that is not enough.

        A spared memory takes no room.
        """
        spared = {(key, False) for place, key in put.repeated if place == put.place}
        there = [
            each
            for name, each in self._there[where].items()
            if name not in gone and name not in spared
        ]
        surplus = len(there) + 1 - where[1].most
        if surplus <= 0:
            return {}
        free = [each for each in there if self._yields(each, put)]
        reasons = dict(evictions(free, surplus, where[1].most, self._now))
        leaving = [each for each in free if each.key in reasons]
        least = worth(_occupant_of(put, self._now), self._now)
        as_good = any(each.entered and worth(each, self._now) >= least for each in leaving)
        if len(leaving) < surplus or as_good:
            return None
        return {(each.key, each.entered): reasons[each.key] for each in leaving}

    def _yields(self, there: Occupant, put: Write) -> bool:
        """Tell whether a memory may go for a write: trusted no more, and no source of it."""
        name = (put.place, there.key)
        taken = there.entered and name in self._replacing
        return there.trust <= put.trust and name not in put.sources and not taken


def make_room(
    writes: Sequence[Write], replacing: Collection[tuple[Place, str]], moment: Moment
) -> Flow[tuple[list[Evicted], dict[tuple[Place, str], str]]]:
    """Decide what goes, the least worthy of each place, and why some writes have no room.

    Writes of one batch compete as well: one goes for a later one that is worth more. A write is
    refused where the least worthy came in with it and is worth as much. A write never displaces a
    memory that is trusted more, that it came from, or that it spares.
    """
    incoming: dict[tuple[Place, Capacity], list[str]] = {}
    for put in writes:
        for where in _bounded_places(put):
            incoming.setdefault(where, []).append(put.key)
    if not incoming:
        return [], {}
    calls = []
    for (place, room), keys in incoming.items():
        bounded = {"memory_type": room.memory_type, "tier": room.tier, "most": room.most}
        params = {**place._asdict(), **bounded, "keys": keys, "alive_at": moment.alive_at}
        calls.append(Call("standing_in_place", params))
    standing = yield Query(tuple(calls))
    rooms = _Evictor(dict(zip(incoming, standing, strict=True)), replacing, moment.now)
    for put in writes:
        rooms.admit(put)
    return list(rooms.evicted.values()), rooms.full


def _occupant_of(put: Write, now: datetime) -> Occupant:
    """Turn a write into an occupant of its place."""
    value = json.loads(put.value or "{}").get("importance")
    importance = value if is_number(value) and 0 <= value <= 1 else None
    return Occupant(put.key, now, importance=importance, trust=put.trust, entered=True)


def eviction_calls(evicted: Sequence[Evicted], now: datetime) -> list[Call]:
    """Build the calls that record evictions and their reasons, once a tenant; deletions follow."""
    calls = []
    for tenant, mine in group_by_tenant(evicted):
        details = [{"reasons": [eviction.reason], "by": eviction.by} for eviction in mine]
        calls.append(
            record_gone_call(
                tenant, "evicted", [eviction.memory for eviction in mine], details, now
            )
        )
    return calls


def record_gone_call(
    tenant: str,
    kind: str,
    gone: Sequence[Located],
    details: Sequence[Mapping[str, object]],
    now: datetime,
) -> Call:
    """Build the call that records why memories are deleted."""
    return Call(
        "record_gone",
        {
            "tenant": tenant,
            "kind": kind,
            "ids": [memory.id for memory in gone],
            "namespaces": [memory.place.namespace for memory in gone],
            "keys": [memory.key for memory in gone],
            "details": [json.dumps(detail) for detail in details],
            "events": [str(uuid4()) for _ in gone],
            "now": now,
        },
    )
