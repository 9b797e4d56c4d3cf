"""Commits whose process, or whose server's, is killed: all of a turn is there, or nothing."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest

from langmem_tiers import MemoryOrchestrator
from langmem_tiers.core.errors import DatabaseUnavailableError, OutcomeUnknownError
from tests.support.learning import broken
from tests.support.servers import fresh_database, name_of, own_server, sessions, wait_until
from tests.support.turn_process import committing, opened, whose
from tests.support.worker_process import Plan

FACTS = ("The API key is rotated on Mondays.", "The vault is in the basement.")
BAD = "ValueError: the amount '1,234' has a comma"
TABLES = {
    "memories": "SELECT tenant, namespace, key, tier, value, state FROM memory.memories",
    "vectors": "SELECT m.key FROM memory.vectors v JOIN memory.memories m USING (tenant, id)",
    "states": "SELECT kind, name, value FROM memory.states",
    "events": """SELECT e.event, e.kind, e.detail - 'turn' - 'sources', m.key
                 FROM memory.events e LEFT JOIN memory.memories m USING (tenant, id)""",
    "lineage": """SELECT s.key, m.key FROM memory.lineage l
                  JOIN memory.memories s ON s.tenant = l.tenant AND s.id = l.source
                  JOIN memory.memories m ON m.tenant = l.tenant AND m.id = l.id""",
}


class Filled(NamedTuple):
    """A database in which a turn is to be committed, and what it is to come to."""

    server: str
    name: str
    state: dict[str, Any]
    before: dict[str, list[str]]
    after: dict[str, list[str]]
    waits: int

    @contextmanager
    def copy(self) -> Iterator[str]:
        """A copy."""
        with fresh_database(self.server, self.name) as url:
            yield url


@contextmanager
def filled_on(server: str) -> Iterator[Filled]:
    with fresh_database(server) as url:
        with opened(url) as store:
            store.setup()
            memory = whose(store)
            memory.state.set_goal("books", "Close the books")
            for number in (1, 2):
                with MemoryOrchestrator(memory, turn_id=f"t{number}") as turn:
                    go(turn)
                    turn.commit()
            turn = MemoryOrchestrator(memory, turn_id="t3").begin()
            go(turn, *FACTS)
            state = turn.to_state()
        made = Filled(server, name_of(url), state, contents(url), {}, 0)
        with made.copy() as copy:
            waits = committing(Plan(url=copy, archives=""), state)
            assert waits is not None
            after = contents(copy)
        assert all(after[name] != made.before[name] for name in TABLES)
        assert any('"steps"' in row or "'steps'" in row for row in after["memories"])
        yield made._replace(after=after, waits=waits)


@pytest.fixture(scope="module")
def filled(server_url: str) -> Iterator[Filled]:
    with filled_on(server_url) as made:
        yield made


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Filled]:
    with own_server(tmp_path) as server, filled_on(server.url) as made:
        yield made


def go(turn: MemoryOrchestrator, *facts: str) -> None:
    """Tool calls that are an attempt and steps of a skill, progress, and facts."""
    turn.track_tool_invocation("add", {"amount": "1,234", "of": "May"}, error=BAD)
    turn.track_tool_invocation("add", {"amount": "1234", "of": "May"}, result="added")
    turn.track_tool_invocation("pay", {"amount": "1234"}, result="paid")
    turn.note_progress("books", 0.25, "one invoice")
    for one in facts:
        turn.memorize(one)


def contents(url: str) -> dict[str, list[str]]:
    """What the tables say at one moment, but for numbers that a rollback leaves out.

    A server may finish what a killed process had sent while they are read.
    """
    with psycopg.connect(url) as conn:
        conn.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        return {
            name: sorted(str(row) for row in conn.execute(query.encode()).fetchall())
            for name, query in TABLES.items()
        }


def answers(server: str) -> bool:
    """Whether a server that was killed takes connections again."""
    try:
        psycopg.connect(server).close()
    except psycopg.OperationalError:
        return False
    return True


def points(filled: Filled, befalls: Sequence[str]) -> list[dict[str, Any]]:
    """Every wait of a commit, before it is sent and before its answer."""
    return [
        {"at": at, "sent": sent, "befalls": what}
        for what in befalls
        for at in range(1, filled.waits + 1)
        for sent in (False, True)
    ]


def check(filled: Filled, point: dict[str, Any]) -> bool:
    """Kill a commit there, and retry it; whether the first one had written all."""
    with filled.copy() as url:
        killed = committing(Plan(url=url, archives="", **point), filled.state) is None
        assert killed == (point["befalls"] == "kill")
        wait_until(lambda: answers(url) and sessions(url) == 0)  # what was sent has ended
        left = contents(url)
        assert left in (filled.before, filled.after)
        for _ in range(2):
            report = retried(url, filled.state)
            assert contents(url) == filled.after
            assert (len(report.lessons), len(report.skills), len(report.goals)) == (1, 1, 1)
            assert {one["value"]["content"] for one in report.semantic} >= set(FACTS)
        assert broken(url) == {}
    return left == filled.after


def retried(url: str, state: dict[str, Any]) -> Any:
    with opened(url) as store:
        while True:
            try:
                return MemoryOrchestrator(whose(store)).begin(state).commit()
            except (DatabaseUnavailableError, OutcomeUnknownError):
                continue


@pytest.mark.slow
def test_a_commit_whose_process_is_killed_is_whole_or_not_at_all(filled: Filled) -> None:
    every = points(filled, ["kill"])
    for one in random.Random(5).sample(every, 5):  # noqa: S311 - seeded, not secret
        check(filled, one)


@pytest.mark.slow
def test_a_commit_whose_server_process_is_killed_is_whole_or_not_at_all(own: Filled) -> None:
    for one in random.Random(6).sample(points(own, ["kill session"]), 3):  # noqa: S311
        check(own, one)


@pytest.mark.proof
def test_a_commit_is_whole_or_not_at_all_wherever_anybody_is_killed(own: Filled) -> None:
    every = points(own, ["kill", "kill session"])

    done = [check(own, one) for one in every]

    assert {True, False} == set(done)
