"""Cycles whose worker, or server, is killed or stands still: they end as undisturbed ones do."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import NamedTuple

import psycopg
import pytest
from langgraph.checkpoint.postgres import PostgresSaver

from langmem_tiers import EmbeddedPostgres, TieredStore
from langmem_tiers.consolidation import create_consolidation_graph
from langmem_tiers.database import checkpointer_pool
from langmem_tiers.errors import EmbeddedServerError
from langmem_tiers.worker import LEASE_SECONDS
from langmem_tiers.worker_thread import thread_of
from tests.support.cycles import TENANTS, contents, fill
from tests.support.learning import broken
from tests.support.opening import text_index
from tests.support.servers import own_server, wait_until
from tests.support.worker_process import Done, Plan, Worker

PROBE = """
CREATE TABLE memory.probe (
    number bigint GENERATED ALWAYS AS IDENTITY, tenant text, who text, fence bigint
);
CREATE FUNCTION memory.probe() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO memory.probe (tenant, who, fence)
    SELECT l.tenant, current_setting('application_name'), l.fence
    FROM memory.leases l WHERE l.tenant = NEW.tenant;
    RETURN NEW;
END $$;
CREATE TRIGGER probe AFTER INSERT ON memory.events
FOR EACH ROW EXECUTE FUNCTION memory.probe();
CREATE TRIGGER probe AFTER INSERT OR UPDATE ON memory.memories
FOR EACH ROW EXECUTE FUNCTION memory.probe();
"""
"""Notes who changes memories, under which fence; the lease's row is locked meanwhile."""

_numbers = count()


class Filled(NamedTuple):
    """A database of tenants that are due, and what an undisturbed worker makes of it."""

    server: str
    name: str
    contents: dict[str, str]
    waits: int

    @contextmanager
    def copy(self, statements: str = "") -> Iterator[str]:
        """The URL of a copy."""
        name = f"{self.name}_{next(_numbers)}"
        with psycopg.connect(self.server, autocommit=True) as conn:
            conn.execute(f"CREATE DATABASE {name} TEMPLATE {self.name}".encode())
        url = psycopg.conninfo.make_conninfo(self.server, dbname=name)
        execute(url, statements)
        yield url
        with psycopg.connect(self.server, autocommit=True) as conn:
            conn.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@contextmanager
def filled_on(server: str) -> Iterator[Filled]:
    """A filled database on a server."""
    name = f"cycles_{os.getpid()}_{next(_numbers)}"
    with psycopg.connect(server, autocommit=True) as conn:
        conn.execute(f"CREATE DATABASE {name}".encode())
    fill(psycopg.conninfo.make_conninfo(server, dbname=name))
    with Filled(server, name, {}, 0).copy() as url:
        done = Worker(Plan(url=url)).ended()
        assert done is not None
        assert done.cycles == list(TENANTS)
        assert broken(url) == {}
        yield Filled(server, name, contents(url), done.waits)
    with psycopg.connect(server, autocommit=True) as conn:
        conn.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest.fixture(scope="module")
def filled(server_url: str) -> Iterator[Filled]:
    with filled_on(server_url) as made:
        yield made


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedPostgres]:
    with own_server(tmp_path) as started:
        yield started


def execute(url: str, statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute(statements.encode())


def places(url: str) -> list[str]:
    """Where the cycles that were begun and have not ended stand."""
    with (
        TieredStore.from_conn_string(url, index=text_index()) as store,
        checkpointer_pool(url) as pool,
    ):
        graph = create_consolidation_graph(store=store, checkpointer=PostgresSaver(pool))
        threads = [{"thread_id": thread_of(tenant)} for tenant in TENANTS]
        states = [graph.get_state({"configurable": one}) for one in threads]
    return [f"{one.values.get('step')}: {one.next[0]}" for one in states if one.next]


def time_passes(url: str) -> None:
    """As much of it as a lease lasts, and for leases alone: the clock of a cycle stands still."""
    execute(url, "UPDATE memory.leases SET until = '-infinity'")


def killed_workers(filled: Filled, rng: random.Random, kills: int) -> Counter[str]:
    """Kill workers at points throughout their work until that many died; where each one stood."""
    found: Counter[str] = Counter()
    while found.total() < kills:
        with filled.copy() as url:
            done = None
            while done is None:
                at = rng.randint(1, filled.waits // rng.choice((1, 4, 12)))
                plan = Plan(url=url, at=at, sent=rng.random() < 0.5)
                done = Worker(plan if found.total() < kills else Plan(url=url)).ended()
                if done is None:
                    found[(places(url) or ["between cycles"])[0]] += 1
                    time_passes(url)
            assert contents(url) == filled.contents
            assert broken(url) == {}
    return found


def postmaster(server: EmbeddedPostgres) -> int:
    return int((server.path / "data" / "postmaster.pid").read_text().splitlines()[0])


def answers(server: EmbeddedPostgres) -> bool:
    """Start a server that was killed; whether it is there."""
    try:
        execute(server.start(), "SELECT")
    except (EmbeddedServerError, psycopg.OperationalError):
        return False
    return True


def killed_servers(server: EmbeddedPostgres, rng: random.Random, kills: int) -> Counter[str]:
    """Kill the server at points throughout a worker's work; the worker lives, and goes on."""
    found: Counter[str] = Counter()
    with filled_on(server.url) as filled:
        while found.total() < kills:
            with filled.copy() as url:
                at = rng.randint(1, filled.waits)
                plan = Plan(
                    url=url,
                    at=at,
                    sent=rng.random() < 0.5,
                    befalls="kill server",
                    server=postmaster(server),
                )
                worker = Worker(plan)
                assert worker.befallen()
                wait_until(lambda: answers(server), 60)
                found[(places(url) or ["between cycles"])[0]] += 1
                assert worker.ended() is not None
                assert contents(url) == filled.contents
                assert broken(url) == {}
    return found


@pytest.mark.slow
def test_cycles_of_killed_workers_end_as_undisturbed_ones_do(filled: Filled) -> None:
    rng = random.Random(1)  # noqa: S311 - seeded, not secret
    killed_workers(filled, rng, kills=8)


@pytest.mark.slow
def test_a_worker_outlives_a_kill_of_the_server(server: EmbeddedPostgres) -> None:
    rng = random.Random(2)  # noqa: S311 - seeded, not secret
    killed_servers(server, rng, kills=2)


@pytest.mark.proof
def test_cycles_survive_two_hundred_kills(filled: Filled, server: EmbeddedPostgres) -> None:
    rng = random.Random(3)  # noqa: S311 - seeded, not secret
    found = killed_workers(filled, rng, kills=180)
    found += killed_servers(server, rng, kills=20)
    print("\n".join(f"{number:>4}  {place}" for place, number in found.most_common()))  # noqa: T201
    assert found.total() == 200
    nodes = {place.rpartition(": ")[2] for place in found}
    assert nodes >= {"begin", "select", "propose", "review", "apply"}
    steps = {place.partition(": ")[0] for place in found}
    assert steps >= {"expire", "rise", "merge", "supersede", "promote", "decay"}


def writers(url: str) -> dict[str, list[tuple[int, str]]]:
    """By tenant, who changed its memories under which fence, in this order."""
    with psycopg.connect(url) as conn:
        rows = conn.execute("SELECT tenant, fence, who FROM memory.probe ORDER BY number")
        found: dict[str, list[tuple[int, str]]] = {}
        for tenant, fence, who in rows:
            turns = found.setdefault(tenant, [])
            if not turns or turns[-1] != (fence, who):
                turns.append((fence, who))
    return found


def end_stalled_transactions(url: str) -> None:
    """Do at once what Postgres does with whoever stands still for as long as a lease lasts."""
    execute(
        url,
        """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
           WHERE datname = current_database() AND pid <> pg_backend_pid()
             AND xact_start IS NOT NULL""",
    )


@contextmanager
def in_first_cycle(filled: Filled, statements: str, plan: Plan) -> Iterator[tuple[str, Worker]]:
    """A worker that something has befallen in the midst of its first tenant's cycle.

    Where that is in its work is found by trying: at its point, or at one that is later.
    """
    for at in range(plan.at, filled.waits // 3, max(1, filled.waits // 50)):
        with filled.copy(statements) as url:
            worker = Worker(replace(plan, url=url, at=at))
            befallen = worker.befallen() if plan.befalls == "stop" else worker.ended() is None
            if befallen and places(url):
                yield url, worker
                return
            worker.kill()
    raise AssertionError("no cycle was at work at any of these points")


def ended(worker: Worker) -> Done:
    done = worker.ended()
    assert done is not None
    return done


@pytest.mark.slow
def test_two_workers_share_the_tenants_and_no_tenant_has_two(filled: Filled) -> None:
    with filled.copy(PROBE) as url:
        workers = [Worker(Plan(url=url, name=name)) for name in ("one", "other")]
        cycles = [tenant for worker in workers for tenant in ended(worker).cycles]
        assert sorted(cycles) == sorted(TENANTS)
        assert all(len(turns) == 1 for turns in writers(url).values())
        assert contents(url) == filled.contents


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_worker_that_stood_still_changes_nothing_once_its_lease_is_taken(
    filled: Filled, seed: int
) -> None:
    rng = random.Random(seed)  # noqa: S311 - seeded, not secret
    at = rng.randint(filled.waits // 6, filled.waits // 5)
    first, sent = TENANTS[0], rng.random() < 0.5
    plan = Plan(url="", name="stalled", at=at, sent=sent, befalls="stop")
    with in_first_cycle(filled, PROBE, plan) as (url, worker):
        end_stalled_transactions(url)
        taker = ended(Worker(Plan(url=url, name="taker", later=LEASE_SECONDS)))
        assert taker.cycles == list(TENANTS)
        before = contents(url)
        assert before[first] == filled.contents[first]
        worker.go_on()
        done = ended(worker)
        assert done.cycles == []
        assert [line for line in done.said if first in line]
        assert contents(url) == before
        assert writers(url)[first][-1] == (2, "taker")
        assert {who for _, who in writers(url)[first]} <= {"stalled", "taker"}
        assert ended(Worker(Plan(url=url, later=LEASE_SECONDS))).cycles == []
        assert contents(url) == before


@pytest.mark.slow
def test_a_lease_is_taken_over_when_it_is_over_and_not_before(filled: Filled) -> None:
    first = TENANTS[0]
    with in_first_cycle(filled, "", Plan(url="", at=filled.waits // 5)) as (url, _):
        early = ended(Worker(Plan(url=url, later=LEASE_SECONDS - 1)))
        assert early.cycles == list(TENANTS[1:])
        in_time = ended(Worker(Plan(url=url, later=LEASE_SECONDS)))
        assert in_time.cycles == [first]
        assert contents(url)[first] == filled.contents[first]
