"""A year of memories with known truth, lived through on a store (docs/consolidation-benchmarks.md).

What is proposed is settled by a model that knows the year.

The sample is what `make check` runs; the year itself, 50,000 memories, is a proof.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from benchmarks.ruling import Ruling
from benchmarks.year import Year
from benchmarks.year_replay import Clock, Replay, Size, Story, open_year
from benchmarks.year_score import Left, Score, knowing, score
from langmem_tiers.consolidation.policy import ArchivalPolicy, ConsolidationPolicy
from tests.support.servers import fresh_database
from tests.support.year_oracle import (
    Oracle,
    Point,
    archived,
    due,
    gains,
    points,
    sums,
    unaccounted,
    visible,
)

pytestmark = pytest.mark.slow

SEED = 7
SAMPLE, FULL = (480, 4, 250), (50_000, 200, 1_000)
"""Memories, tenants, and points in time that are looked back on."""


@dataclass(frozen=True)
class Lived:
    """What a year left, and what was seen of it."""

    story: Story
    score: Score
    events: Mapping[str, tuple[int, int]]
    unaccounted: Sequence[tuple[str, datetime, str]]
    otherwise: Sequence[Point]
    """Where the package and the oracle see something else."""
    seen: float
    """Memories that a point shows, on average."""
    due: set[str]
    archived: set[str]
    whole: Size
    """Without an archive, tidied up."""
    rest: Size
    """With one."""


@pytest.fixture(
    scope="module",
    params=[SAMPLE, pytest.param(FULL, marks=pytest.mark.proof)],
    ids=["sample", "full"],
)
def lived(
    request: pytest.FixtureRequest, server_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lived]:
    """A year, lived through and looked back on; then all that is due is archived."""
    memories, tenants, count = request.param
    year = Year(SEED, memories, tenants)
    with fresh_database(server_url) as url:
        story = live(url, year)
        left = Left.of(url)
        # looking back counts as reading, and would keep the old
        with fresh_database(server_url, str(conninfo_to_dict(url)["dbname"])) as copy:
            whole, rest = archive(copy, story, tmp_path_factory)
            gone = archived(copy)
        yield Lived(
            story,
            score(left, year.truth),
            sums(story, left),
            unaccounted(story),
            *look_back(url, story, left, count),
            due(story, left, gains(year.events()), story.sizes[-1].at),
            gone,
            whole,
            rest,
        )


def live(url: str, year: Year) -> Story:
    """Live through a year in an empty database."""
    clock = Clock()
    with open_year(url, clock) as store:
        store.setup()
        return Replay(store, clock, model=Ruling(says=knowing(year))).live(year)


def look_back(url: str, story: Story, left: Left, count: int) -> tuple[list[Point], float]:
    """Where the package and the oracle see something else, and how many memories a point shows."""
    clock, oracle = Clock(), Oracle(story, left)
    clock.now = story.sizes[-1].at
    with open_year(url, clock) as store:
        asked = [
            (point, oracle.visible(point), visible(store, point))
            for point in points(story, SEED, count)
        ]
    wrong = [point for point, known, found in asked if known != found]
    return wrong, sum(len(known) for _, known, _ in asked) / len(asked)


def archive(url: str, story: Story, folders: pytest.TempPathFactory) -> tuple[Size, Size]:
    """Archive all that is due in one more cycle of each tenant; what is held before and after."""
    clock = Clock()
    clock.now = story.sizes[-1].at
    policy = ArchivalPolicy(url=str(folders.mktemp("archive")), max_share=1, default_importance=0.5)
    with open_year(url, clock) as store:
        replay = Replay(store, clock, ConsolidationPolicy(archive=policy))
        whole = tidied(url, replay)
        for tenant in sorted({one.stored.tenant for one in story.memories.values()}):
            story.cycles.append(replay.cycle(tenant))
        return whole, tidied(url, replay)


def tidied(url: str, replay: Replay) -> Size:
    """What a database holds without dead rows."""
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute("VACUUM FULL")
    return replay.measure()


def test_what_was_planted_is_found_and_hardly_anything_else(lived: Lived) -> None:
    """Repetitions are merged, changes superseded; of the notes some rise, the others expire."""
    assert lived.score.precision.value >= 0.98
    assert lived.score.recall.value >= 0.9
    assert lived.score.ended.value >= 0.9
    assert lived.score.collateral == set()
    assert lived.score.risen.value == lived.score.stayed.value == 1
    assert lived.story.done("expire") == lived.score.stayed.all


def test_every_report_adds_up_to_what_was_looked_at_and_all_of_them_to_the_events(
    lived: Lived,
) -> None:
    assert lived.unaccounted == []
    assert all(in_tables == in_reports > 0 for in_tables, in_reports in lived.events.values())


def test_the_past_is_what_a_plain_reading_of_the_year_says(lived: Lived) -> None:
    assert lived.otherwise == []
    assert lived.seen > 5


def test_a_store_takes_no_more_for_a_memory_at_the_end_than_in_the_middle(lived: Lived) -> None:
    sizes = lived.story.sizes
    middle, end = sizes[len(sizes) // 2], lived.whole
    assert end.rows == len(lived.story.memories) - lived.story.done("expire")
    assert end.bytes / end.rows <= middle.bytes / middle.rows


def test_what_is_old_and_hardly_read_leaves_for_a_file_and_takes_no_room_any_more(
    lived: Lived,
) -> None:
    assert lived.archived == lived.due
    assert lived.rest.rows == lived.whole.rows - len(lived.due)
    assert lived.rest.bytes < lived.whole.bytes
