"""Room for what comes in where a place holds only so many: the least worth of it goes."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple, Protocol, TypeVar
from uuid import uuid4

from langmem_tiers.core.memory import Moment
from langmem_tiers.core.namespaces import Place
from langmem_tiers.postgres.flow import Call, Row
from langmem_tiers.store.write import Room, Write

HALF_LIFE: Final = timedelta(days=30)
"""After this an accessless memory's freshness counts half, as its strength does."""
_IMPORTANCE, _STRENGTH, _FRESH = 0.5, 0.3, 0.2
_UNSAID: Final = 0.5


@dataclass(frozen=True, slots=True)
class Occupant:
    """What is known of a memory that may have to go; a row of standing_in_place after its id."""

    key: str
    created_at: datetime
    importance: float | None = None
    """In 0…1; one half if nobody said."""
    strength: float = 0.0
    """Accesses, each counting half after 30 days."""
    trust: float = 1.0
    """In 0…1: it makes room for nothing that is trusted less."""


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


class _Placed(Protocol):
    @property
    def place(self) -> Place: ...


P = TypeVar("P", bound=_Placed)


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

    Of equal worth the older goes first, then the lower key: the same memories in any order give
    the same answer.
    """
    ranked = sorted(standing, key=lambda one: (worth(one, now), one.created_at, one.key))
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


def incoming(writes: Sequence[Write]) -> dict[tuple[Place, Room], list[str]]:
    """The keys that come into each bounded place, to be recalled there."""
    found: dict[tuple[Place, Room], list[str]] = {}
    for one in writes:
        for where in _rooms(one):
            found.setdefault(where, []).append(one.key)
    return found


def _rooms(one: Write) -> list[tuple[Place, Room]]:
    return [] if one.held or one.value is None else [(one.place, room) for room in one.rooms]


def standing_calls(
    wanted: Mapping[tuple[Place, Room], Sequence[str]], moment: Moment
) -> list[Call]:
    """The calls that read what stands in each place that would hold too many."""
    return [
        Call(
            "standing_in_place",
            {
                **place._asdict(),
                "memory_type": room.memory_type,
                "tier": room.tier,
                "keys": list(keys),
                "most": room.most,
                "alive_at": moment.alive_at,
            },
        )
        for (place, room), keys in wanted.items()
    ]


def making_room(
    writes: Sequence[Write],
    standing: Mapping[tuple[Place, Room], Sequence[Row]],
    now: datetime,
) -> tuple[list[Evicted], dict[tuple[Place, str], str]]:
    """What goes, the least worth of each place first, and why there is no room for some writes.

    A write makes nothing go that is trusted more, that it came from, or that it spares.
    """
    left = {where: {row[0]: Occupant(*row[1:]) for row in rows} for where, rows in standing.items()}
    came = dict.fromkeys(left, 0)
    found: list[Evicted] = []
    full: dict[tuple[Place, str], str] = {}
    for one in writes:
        going: dict[int, Evicted] = {}
        for where in _rooms(one):
            there = {number: each for number, each in left[where].items() if number not in going}
            more = _leaving(one, there, where[1].most, came[where], now)
            if more is None:
                full[one.place, one.key] = (
                    f"full: the place holds {where[1].most}, and what is there is trusted more, "
                    "came in with it, or is what it came from"
                )
                break
            going |= {each.memory.id: each for each in more}
        else:
            found += going.values()
            for where in _rooms(one):
                came[where] += 1
            for there in left.values() if going else ():
                for number in going:
                    there.pop(number, None)
    return found, full


def _leaving(
    one: Write, there: Mapping[int, Occupant], most: int, came: int, now: datetime
) -> list[Evicted] | None:
    """What of a place goes for a write, after so many that came; None if that is not enough.

    What is spared takes no room.
    """
    barred, spared = set(one.sources), {key for place, key in one.spares if place == one.place}
    there = {number: each for number, each in there.items() if each.key not in spared}
    surplus = len(there) + came + 1 - most
    if surplus <= 0:
        return []
    free = {
        each.key: number
        for number, each in there.items()
        if each.trust <= one.trust and (one.place, each.key) not in barred
    }
    if len(free) < surplus:
        return None
    standing = [there[number] for number in free.values()]
    return [
        Evicted(Located(one.place, key, free[key]), reason, one.key)
        for key, reason in evictions(standing, surplus, most, now)
    ]


def evicted_calls(evicted: Sequence[Evicted], now: datetime) -> list[Call]:
    """The calls that say what made room and why, once a tenant; the deletions follow."""
    return [
        gone_call(
            tenant,
            "evicted",
            [one.memory for one in mine],
            [{"reasons": [one.reason], "by": one.by} for one in mine],
            now,
        )
        for tenant, mine in by_tenant(evicted)
    ]


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
