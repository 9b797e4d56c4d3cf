"""A plain reading of a year's events, beside what the package says of them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import psycopg

from benchmarks.year import END, OLD, RARELY, START, UNIMPORTANT
from benchmarks.year_replay import Lived, Story
from benchmarks.year_score import Left
from langmem_tiers import MemoryContext, MemoryCoordinator, TieredStore

MOST = 1_000
"""Memories of one project, more than there are."""
STEPS_OF = {"risen": ("rise", "session_end"), "merged": ("merge",), "superseded": ("supersede",)}
"""By kind of event, the steps that write it."""


def sums(story: Story, left: Left) -> Mapping[str, tuple[int, int]]:
    """By kind, how many memories the events name, and how many the reports."""
    return {
        kind: (left.count(kind), sum(story.done(one) for one in steps))
        for kind, steps in STEPS_OF.items()
    }


def unaccounted(story: Story) -> list[tuple[str, datetime, str]]:
    """Steps of cycles whose report does not add up to what they selected and decided on."""
    return [
        (one.tenant, one.at, step)
        for one in story.cycles
        for step in {*one.judged, *one.counts}
        if one.verdicts(step) != len(one.judged.get(step, ()))
    ]


class Point(NamedTuple):
    """What is asked of the past."""

    tenant: str
    project: str
    as_of: datetime
    known_at: datetime


def points(story: Story, seed: int, count: int) -> Iterator[Point]:
    """Points in both times, some of them before anything was told, some after everything."""
    drawn = random.Random(seed)  # noqa: S311 - the same points for the same seed
    places = sorted({(one.stored.tenant, one.stored.project) for one in story.memories.values()})
    for _ in range(count):
        as_of, known_at = (
            START + (END - START + timedelta(days=20)) * drawn.uniform(-0.01, 1) for _ in range(2)
        )
        yield Point(*drawn.choice(places), as_of, known_at)


class Oracle:
    """What was true and known when, read off the events and the moves in plain Python."""

    def __init__(self, story: Story, left: Left) -> None:
        self._story = story
        self._superseded = {one.key: one for one in left.moves if one.kind == "superseded"}
        self._merged = {one.key: one.at for one in left.moves if one.kind == "merged"}
        self._risen = {one.key for one in left.moves if one.kind == "risen"}
        self._in: dict[tuple[str, str], list[Lived]] = {}
        for one in story.memories.values():
            self._in.setdefault((one.stored.tenant, one.stored.project), []).append(one)

    def visible(self, point: Point) -> set[str]:
        """The keys of what a project recalls at a point."""
        there = self._in.get((point.tenant, point.project), ())
        return {one.stored.key for one in there if self._sees(one, point)}

    def _sees(self, one: Lived, point: Point) -> bool:
        key = one.stored.key
        if one.stored.tier == "short_term" and key not in self._risen:
            return False
        if one.recorded > point.known_at or one.stored.at > point.as_of:
            return False
        if key in self._merged and self._merged[key] <= point.known_at:
            return False
        end = self._superseded.get(key)
        if end is None or end.at > point.known_at:
            return True
        return point.as_of < self._story.memories[end.target or ""].stored.at


def visible(store: TieredStore, point: Point) -> set[str]:
    """The same, as the package recalls it."""
    context = MemoryContext(tenant=point.tenant, project_id=point.project)
    found = MemoryCoordinator(store, context=context).get_context(
        "", limit=MOST, as_of=point.as_of, known_at=point.known_at, tiers=["working", "long_term"]
    )
    return {one.key for one in found}


def due(story: Story, left: Left, gain: Mapping[str, int], now: datetime) -> set[str]:
    """What the default policy means, all of it: what is current and lives on in nothing else."""
    merged = {key for one in left.moves if one.kind == "merged" for key in (one.key, one.target)}
    gone = merged | {one.key for one in left.moves if one.kind == "superseded"}
    risen = {one.key for one in left.moves if one.kind == "risen"}
    return {
        key
        for key, one in story.memories.items()
        if key not in gone
        and now - one.recorded > OLD
        and gain.get(key, 0) <= 0
        and len(story.read[key]) < RARELY
        and max(story.read[key], default=now - 2 * OLD) < now - OLD
        and (one.stored.importance or 0) < UNIMPORTANT
        and (one.stored.tier == "working" or key in risen)
    }


def gains(events: Iterator[Any]) -> dict[str, int]:
    """What came of each memory: successes less failures."""
    found: dict[str, int] = {}
    for one in events:
        if one.kind == "outcome":
            found[one.key] = found.get(one.key, 0) + (1 if one.success else -1)
    return found


def archived(url: str) -> set[str]:
    """The keys of what left for a file."""
    with psycopg.connect(url) as conn:
        return {row[0] for row in conn.execute("SELECT key FROM memory.archived")}
