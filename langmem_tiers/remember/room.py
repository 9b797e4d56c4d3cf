"""Room for what comes in where a place holds only so many: the least worth of it goes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

from langmem_tiers.flow import Call, Row
from langmem_tiers.memory import Moment, Tier
from langmem_tiers.namespaces import Place
from langmem_tiers.remember.capacity import Standing, evictions

if TYPE_CHECKING:
    from langmem_tiers.remember.flow import Write


class Room(NamedTuple):
    """How many memories a place holds: of one type, or of any in one tier."""

    most: int
    memory_type: str | None = None
    tier: Tier | None = None


class Held(NamedTuple):
    """Which memory is meant."""

    place: Place
    key: str
    id: int


class Evicted(NamedTuple):
    """A memory that made room, why it and not another, and for which."""

    memory: Held
    reason: str
    by: str


def rooms_of(
    memory_type: str, tier: Tier, by_type: Mapping[str, int], by_tier: Mapping[str, int]
) -> tuple[Room, ...]:
    """What bounds the place that a memory goes to; nothing, if no bound is set."""
    of_type = (
        [Room(by_type[memory_type], memory_type=memory_type)] if memory_type in by_type else []
    )
    of_tier = [Room(by_tier[tier], tier=tier)] if tier in by_tier else []
    return (*of_type, *of_tier)


def incoming(writes: Sequence[Write]) -> dict[tuple[Place, Room], list[str]]:
    """The keys that come into each bounded place."""
    found: dict[tuple[Place, Room], list[str]] = {}
    for one in writes:
        for room in () if one.held or one.value is None else one.rooms:
            found.setdefault((one.place, room), []).append(one.key)
    return found


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
    wanted: Mapping[tuple[Place, Room], Sequence[str]],
    standing: Sequence[Sequence[Row]],
    now: datetime,
) -> list[Evicted]:
    """What goes, each memory once; the least worth of each place first."""
    found: dict[int, Evicted] = {}
    for ((place, room), keys), rows in zip(wanted.items(), standing, strict=True):
        ids = {key: number for number, key, *_ in rows if number not in found}
        there = [Standing(key, *told) for number, key, *told in rows if number not in found]
        for one in evictions(there, room.most, now, incoming=len(keys)):
            memory = Held(place, one.key, ids[one.key])
            found[memory.id] = Evicted(memory, one.reason, keys[0])
    return list(found.values())


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
        for tenant in sorted({one.memory.place.tenant for one in evicted})
        for mine in [[one for one in evicted if one.memory.place.tenant == tenant]]
    ]


def gone_call(
    tenant: str,
    kind: str,
    gone: Sequence[Held],
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
