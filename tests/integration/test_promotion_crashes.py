"""Promotions by several processes that are killed, and on a server that is: all or nothing each."""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from langmem_tiers import EmbeddedPostgres, TieredStore
from tests.support.coordinating import coordinator
from tests.support.invariants import values
from tests.support.learning import BILLING, SHIPPING, broken
from tests.support.opening import tables, text_index
from tests.support.promoting import PROVEN, promoting
from tests.support.servers import kill, own_server, sessions, wait_until

WORKERS = 4
LETTERS = "abcdefghijklmnopqrstuvwxyz"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedPostgres]:
    with own_server(tmp_path) as started:
        yield started


def fill(url: str, number: int) -> None:
    """Store so many proven memories, every fifth of which says what another one said before."""
    rng = random.Random(number)  # noqa: S311 - seeded, not secret
    texts = [" ".join("".join(rng.choices(LETTERS, k=9)) for _ in range(4)) for _ in range(number)]
    memories = [
        {
            "content": texts[i - 1] if i % 5 == 4 else texts[i],
            "memory_type": "pattern",
            "tier": "working",
            "key": f"k{i}",
            "project_id": SHIPPING if i % 5 == 4 else BILLING,
        }
        for i in range(number)
    ]
    with TieredStore.from_conn_string(url, index=text_index()) as store:
        store.setup()
        coordinator(store).store_many(memories)
    with psycopg.connect(url) as conn:
        conn.execute(
            """INSERT INTO memory.exposures (tenant, run, id, project, position, held_out,
                                             exposed_at, succeeded, settled_at, settled_by)
               SELECT tenant, 'run-' || id || p, id, p, 1, false, now(), true, now(),
                      'run-' || id || p
               FROM memory.memories, unnest(ARRAY['billing-service', 'shipping-service']) p"""
        )
        conn.execute(
            """INSERT INTO memory.usage (tenant, id, access_count, success_count, strength,
                                         last_accessed_at)
               SELECT tenant, id, 7, 2, 7, now() FROM memory.memories"""
        )


def killed_workers(url: str, rng: random.Random, longest: float) -> None:
    """Let four workers promote, and kill one after the other."""
    with promoting(url, WORKERS) as workers:
        for one in workers:
            time.sleep(rng.uniform(0, longest))
            one.kill()
    wait_until(lambda: sessions(url) == 0)


def killed_server(server: EmbeddedPostgres, rng: random.Random, longest: float) -> None:
    """Let four workers promote on a server that is killed; then end them too."""
    with promoting(server.url, WORKERS):
        time.sleep(rng.uniform(0, longest))
        kill(server)
        time.sleep(rng.uniform(0, longest))
        server.start()
        time.sleep(rng.uniform(0, longest))
    wait_until(lambda: sessions(server.url) == 0)


def finished(url: str) -> None:
    """Two workers promote what is left, to the end."""
    with promoting(url, 2) as workers:
        for one in workers:
            one.join(300)
            assert one.exitcode == 0


def state(url: str) -> str:
    """A hash of every row, but of the record of what was done."""
    found = {name: rows for name, rows in tables(url).items() if name != "events"}
    return hashlib.sha256(repr(sorted(found.items())).encode()).hexdigest()


def moves(url: str) -> list[tuple[str, list[int]]]:
    """All moves that stand, the last one first, with the ids that they moved."""
    query = """SELECT event, detail -> 'sources' FROM memory.events
               WHERE undone_at IS NULL ORDER BY number DESC"""
    with psycopg.connect(url) as conn:
        return conn.execute(query).fetchall()


def check(url: str, originals: dict[str, dict[str, Any]], *, done: bool) -> None:
    """Nothing is lost, nothing was promoted twice, every edge resolves."""
    assert broken(url) == {}
    stored = values(url)
    assert {key: stored[key] for key in originals} == originals
    moved = [one for _, sources in moves(url) for one in sources]
    assert len(moved) == len(set(moved))
    with psycopg.connect(url) as conn:
        rows = conn.execute("SELECT key, state FROM memory.memories").fetchall()
        edges = conn.execute("SELECT source FROM memory.lineage").fetchall()
    assert sorted(moved) == sorted(source for (source,) in edges)
    assert {one for _, one in rows} == {None}
    if done:
        assert len(moved) == len(originals)
        assert len(stored) == len(originals) + len({v["content"] for v in originals.values()})


def roll_all_back(url: str) -> None:
    with TieredStore.from_conn_string(url, index=text_index()) as store:
        memory = coordinator(store, policy=PROVEN)
        assert not [one for one in memory.learning.promote() if one.promoted]
        assert all(memory.learning.rollback(move) for move, _ in moves(url))


@pytest.mark.slow
def test_promotions_of_killed_workers_are_whole_or_not_at_all(database_url: str) -> None:
    rng = random.Random(1)  # noqa: S311 - seeded, not secret
    fill(database_url, 50)
    before, originals = state(database_url), values(database_url)
    for _ in range(2):
        killed_workers(database_url, rng, longest=0.1)
        check(database_url, originals, done=False)
    finished(database_url)
    check(database_url, originals, done=True)
    roll_all_back(database_url)
    assert state(database_url) == before


@pytest.mark.slow
def test_promotions_survive_a_kill_of_the_server(server: EmbeddedPostgres) -> None:
    rng = random.Random(2)  # noqa: S311 - seeded, not secret
    fill(server.url, 40)
    before, originals = state(server.url), values(server.url)
    killed_server(server, rng, longest=0.1)
    check(server.url, originals, done=False)
    finished(server.url)
    check(server.url, originals, done=True)
    roll_all_back(server.url)
    assert state(server.url) == before


@pytest.mark.proof
def test_a_thousand_promotions_survive_a_hundred_kills(server: EmbeddedPostgres) -> None:
    rng = random.Random(3)  # noqa: S311 - seeded, not secret
    fill(server.url, 1250)
    before, originals = state(server.url), values(server.url)
    for turn in range(24):
        if turn % 6 == 5:
            killed_server(server, rng, longest=0.3)
        else:
            killed_workers(server.url, rng, longest=0.3)
        check(server.url, originals, done=False)
    finished(server.url)
    check(server.url, originals, done=True)
    assert len(moves(server.url)) == 1000
    roll_all_back(server.url)
    assert state(server.url) == before
