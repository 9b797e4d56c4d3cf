"""Room for what comes in where a place holds only so many: the least worth of it goes."""

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
_UNSAID: Final = 0.5


@dataclass(frozen=True, slots=True)
class Occupant:
    """What is known of a memory that may have to go; a row of standing_in_place."""

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
    """Of a memory that stands there."""


class Located(NamedTuple):
    """Which memory is meant."""

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
        """Where it was."""
        return self.memory.place


P = TypeVar("P", Evicted, Write)


def by_tenant(several: Iterable[P]) -> list[tuple[str, list[P]]]:
    """Some things by the tenant of their places, as a statement is of one tenant."""
    found: dict[str, list[P]] = {}
    for one in several:
        found.setdefault(one.place.tenant, []).append(one)
    return sorted(found.items())


def worth(one: Occupant, now: datetime) -> float:
    """What a memory is worth keeping, in 0…1: half importance, then strength, then freshness."""
    importance = _UNSAID if one.importance is None else one.importance
    age = max(timedelta(), now - one.created_at) / HALF_LIFE
    used = one.strength / (one.strength + 1)
    return _IMPORTANCE * importance + _STRENGTH * used + _FRESH * math.exp2(-age)


def evictions(
    standing: Sequence[Occupant], surplus: int, most: int, now: datetime
) -> list[tuple[str, str]]:
    """The keys of so many memories that have to go, the least worth first, and why it is they.

    Among memories of equal worth one that stood there goes first, then the older, then the lower
    key: the same memories in any order give the same answer.
    """
    ranked = sorted(
        standing, key=lambda one: (worth(one, now), one.entered, one.created_at, one.key)
    )
    return [
        (
            one.key,
            (
                f"the place holds {most}, and this was worth least: {worth(one, now):.2f} "
                f"(importance {_UNSAID if one.importance is None else one.importance:g}, "
                f"strength {one.strength:g}, since {one.created_at:%Y-%m-%d})"
            ),
        )
        for one in ranked[:surplus]
    ]


def _rooms(one: Write) -> list[tuple[Place, Capacity]]:
    """Return where a write needs room: what is held is not recalled, and needs none."""
    return [] if one.held or one.value is None else [(one.place, room) for room in one.capacities]


_Name = tuple[str, bool]
"""Of an occupant: its key, and whether it came in with the write."""


class _Rooms:
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

    def admit(self, one: Write) -> None:
        """Let a write in, and let the least worthy in each of its places go for it."""
        gone: dict[_Name, str] = {}
        for where in _rooms(one):
            found = self._leaving(one, where, gone)
            if found is None:
                self.full[one.name] = (
                    f"full: the place holds {where[1].most}, and what is there is trusted more, "
                    "came in with it and is worth as much, or is what it came from"
                )
                return
            gone |= found
        for name, reason in gone.items():
            self._let_go(one, name, reason)
        for where in _rooms(one):
            self._there[where][one.key, True] = _occupant(one, self._now)

    def _let_go(self, one: Write, name: _Name, reason: str) -> None:
        """Let a memory go for a write, or one that came in with it."""
        rooms = [there for (place, _), there in self._there.items() if place == one.place]
        left, *_ = [there.pop(name) for there in rooms if name in there]
        if left.id is not None:
            memory = Located(one.place, left.key, left.id)
            self.evicted[left.id] = Evicted(memory, reason, one.key)
            return
        self.full[one.place, left.key] = f"full: {reason}"
        for number, each in self.evicted.items():
            if (each.place, each.by) == (one.place, left.key):
                self.evicted[number] = each._replace(by=one.key)

    def _leaving(
        self, one: Write, where: tuple[Place, Capacity], gone: Collection[_Name]
    ) -> dict[_Name, str] | None:
        """Find what goes from a place for a write, and why; None if that is not enough.

        A spared memory takes no room.
        """
        spared = {(key, False) for place, key in one.repeated if place == one.place}
        there = [
            each
            for name, each in self._there[where].items()
            if name not in gone and name not in spared
        ]
        surplus = len(there) + 1 - where[1].most
        if surplus <= 0:
            return {}
        free = [each for each in there if self._yields(each, one)]
        told = dict(evictions(free, surplus, where[1].most, self._now))
        leaving = [each for each in free if each.key in told]
        least = worth(_occupant(one, self._now), self._now)
        as_good = any(each.entered and worth(each, self._now) >= least for each in leaving)
        if len(leaving) < surplus or as_good:
            return None
        return {(each.key, each.entered): told[each.key] for each in leaving}

    def _yields(self, there: Occupant, one: Write) -> bool:
        """Tell whether a memory may go for a write: trusted no more, and no source of it."""
        name = (one.place, there.key)
        taken = there.entered and name in self._replacing
        return there.trust <= one.trust and name not in one.sources and not taken


def make_room(
    writes: Sequence[Write], replacing: Collection[tuple[Place, str]], moment: Moment
) -> Flow[tuple[list[Evicted], dict[tuple[Place, str], str]]]:
    """Decide what goes, the least worthy of each place, and why some writes have no room.

    Writes of one batch compete as well: one goes for a later one that is worth more. A write is
    refused where the least worthy came in with it and is worth as much. A write never displaces a
    memory that is trusted more, that it came from, or that it spares.
    """
    incoming: dict[tuple[Place, Capacity], list[str]] = {}
    for one in writes:
        for where in _rooms(one):
            incoming.setdefault(where, []).append(one.key)
    if not incoming:
        return [], {}
    calls = []
    for (place, room), keys in incoming.items():
        bounded = {"memory_type": room.memory_type, "tier": room.tier, "most": room.most}
        params = {**place._asdict(), **bounded, "keys": keys, "alive_at": moment.alive_at}
        calls.append(Call("standing_in_place", params))
    standing = yield Query(tuple(calls))
    rooms = _Rooms(dict(zip(incoming, standing, strict=True)), replacing, moment.now)
    for one in writes:
        rooms.admit(one)
    return list(rooms.evicted.values()), rooms.full


def _occupant(one: Write, now: datetime) -> Occupant:
    """Return a write as it will stand in its place."""
    told = json.loads(one.value or "{}").get("importance")
    importance = told if is_number(told) and 0 <= told <= 1 else None
    return Occupant(one.key, now, importance=importance, trust=one.trust, entered=True)


def evicted_calls(evicted: Sequence[Evicted], now: datetime) -> list[Call]:
    """The calls that say what made room and why, once a tenant; the deletions follow."""
    calls = []
    for tenant, mine in by_tenant(evicted):
        told = [{"reasons": [one.reason], "by": one.by} for one in mine]
        calls.append(gone_call(tenant, "evicted", [one.memory for one in mine], told, now))
    return calls


def gone_call(
    tenant: str,
    kind: str,
    gone: Sequence[Located],
    told: Sequence[Mapping[str, object]],
    now: datetime,
) -> Call:
    """The call that says why memories are about to be deleted."""
    return Call(
        "record_gone",
        {
            "tenant": tenant,
            "kind": kind,
            "ids": [one.id for one in gone],
            "namespaces": [one.place.namespace for one in gone],
            "keys": [one.key for one in gone],
            "details": [json.dumps(one) for one in told],
            "events": [str(uuid4()) for _ in gone],
            "now": now,
        },
    )
