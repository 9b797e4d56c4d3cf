"""Room for what comes in where a place holds only so many: the least worth of it goes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import uuid4

from langmem_tiers.core.memory import Moment, Tier
from langmem_tiers.core.namespaces import Place
from langmem_tiers.postgres.flow import Call, Row
from langmem_tiers.remember.capacity import Standing, evictions
from langmem_tiers.store.write import Room, Write


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
    left = {where: {row[0]: Standing(*row[1:]) for row in rows} for where, rows in standing.items()}
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
    one: Write, there: Mapping[int, Standing], most: int, came: int, now: datetime
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
    staying = len(there) - len(free) + came
    return [
        Evicted(Held(one.place, each.key, free[each.key]), each.reason, one.key)
        for each in evictions(standing, most, now, incoming=staying + 1)
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
