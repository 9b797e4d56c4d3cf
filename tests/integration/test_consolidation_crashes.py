"""Cycles whose worker, or server, is killed or stands still: they end as undisturbed ones do."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest
from langgraph.checkpoint.postgres import PostgresSaver
from psycopg.conninfo import conninfo_to_dict

from benchmarks.ruling import Ruling
from langmem_tiers import EmbeddedPostgres
from langmem_tiers.core.errors import DatabaseError
from langmem_tiers.graph.consolidation import create_consolidation_graph
from langmem_tiers.graph.worker import LEASE_SECONDS, thread_config
from langmem_tiers.postgres.connection_config import checkpointer_pool
from tests.support.coordinating import coordinator
from tests.support.cycles import ACME, FILLING, contents, fill, opened_world
from tests.support.learning import broken
from tests.support.opening import Clock
from tests.support.servers import fresh_database, own_server, wait_until
from tests.support.worker_process import Done, Plan, Worker

STEPS = {
    "expire",
    "session_end",
    "rise",
    "merge",
    "supersede",
    "demote",
    "promote",
    "decay",
    "archive",
}
TENANTS = ("acme", "beta", "gamma")
ENDED = TENANTS[1]
"""Whose session has ended. No worker hears of that: an agent's graph has begun its cycle."""
BETWEEN = "between cycles"
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
CREATE TRIGGER probe AFTER INSERT ON memory.archived
FOR EACH ROW EXECUTE FUNCTION memory.probe();
CREATE TRIGGER probe AFTER INSERT OR UPDATE ON memory.cycles
FOR EACH ROW EXECUTE FUNCTION memory.probe();
"""
"""Notes who changes memories or what was seen, under which fence; the lease is locked meanwhile."""


class World(NamedTuple):
    """A database of tenants that are due, and a directory of its own for what is archived of it."""

    url: str
    archives: str

    def plan(self, **options: Any) -> Plan:
        """What a worker does on it."""
        return Plan(url=self.url, archives=self.archives, **options)


class Filled(NamedTuple):
    """A database of tenants that are due, and what an undisturbed worker makes of it."""

    server: str
    name: str
    directory: Path
    contents: dict[str, list[str]]
    restored: dict[str, list[str]]
    """The contents once everything is back from the archives."""
    done: Done

    @contextmanager
    def copy(self, statements: str = "") -> Iterator[World]:
        """A copy."""
        with fresh_database(self.server, self.name) as url:
            execute(url, statements)
            yield World(url, str(self.directory / str(conninfo_to_dict(url)["dbname"])))


def begin(url: str) -> None:
    """Begin the cycle of the tenant whose session has ended, and leave it at that."""
    with opened_world(url, Clock()) as store, checkpointer_pool(url) as pool:
        saver = PostgresSaver(pool)
        saver.setup()
        graph = create_consolidation_graph(
            Ruling(), store=store, checkpointer=saver, interrupt_before=["select"]
        )
        context = replace(ACME, tenant=ENDED)
        graph.invoke({"session_ended": True}, thread_config(ENDED), context=context)


def restored(url: str) -> dict[str, list[str]]:
    """The contents once all that was archived is back."""
    with opened_world(url, Clock()) as store:
        for tenant in TENANTS:
            memory = coordinator(store, tenant)
            for file in memory.admin.archives():
                assert memory.admin.restore_archive(file.archive).restored == file.remaining
    return contents(url)


@contextmanager
def filled_on(server: str, directory: Path) -> Iterator[Filled]:
    """A filled database on a server."""
    with fresh_database(server) as url:
        for tenant in TENANTS:
            clock = Clock()
            clock.now -= FILLING
            with opened_world(url, clock) as store:
                store.setup()
                fill(store, clock, tenant)
            assert clock.now == Clock().now
        begin(url)
        name = str(conninfo_to_dict(url)["dbname"])
        made = Filled(server, name, directory, {}, {}, Done({}))
        with made.copy() as world:
            done = ended(Worker(world.plan()))
            found = contents(world.url)
            back = restored(world.url)
            assert broken(world.url) == {}
            yield made._replace(contents=found, restored=back, done=done)


@pytest.fixture(scope="module")
def filled(server_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Filled]:
    with filled_on(server_url, tmp_path_factory.mktemp("archives")) as made:
        yield made


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedPostgres]:
    with own_server(tmp_path) as started:
        yield started


def execute(url: str, statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as conn:
        conn.execute(statements.encode())


def place(url: str) -> tuple[str, str]:
    """The first tenant whose cycle has not ended, and where it stands."""
    with opened_world(url, Clock()) as store, checkpointer_pool(url) as pool:
        graph = create_consolidation_graph(store=store, checkpointer=PostgresSaver(pool))
        for tenant in TENANTS:
            state = graph.get_state(thread_config(tenant))
            if state.next:
                return tenant, f"{state.values.get('step')}: {state.next[0]}"
            if "consolidated" not in state.values:
                return tenant, BETWEEN
    return "", BETWEEN


def time_passes(url: str) -> None:
    """As much of it as a lease lasts, and for leases alone: the clock of a cycle stands still."""
    execute(url, "UPDATE memory.leases SET until = '-infinity'")


def check_ended(world: World, filled: Filled, *workers: Done) -> None:
    """Cycles have ended as undisturbed ones do, and what they archived comes back as it was."""
    undisturbed = {one.tenant: one.lines for one in filled.done.reports}
    reports = [one for done in workers for one in done.reports]
    assert {one.tenant: one.lines for one in reports}.items() <= undisturbed.items()
    assert contents(world.url) == filled.contents
    assert restored(world.url) == filled.restored
    assert broken(world.url) == {}


def killed_workers(filled: Filled, rng: random.Random, kills: int) -> Counter[str]:
    """Kill workers at points throughout their work until that many died; where each one stood."""
    found: Counter[str] = Counter()
    while found.total() < kills:
        with filled.copy() as world:
            done = None
            while done is None:
                waits_for = rng.choice(("server",) * 9 + ("disk",))
                at = rng.randint(1, max(1, filled.done.waits[waits_for] // rng.choice((1, 4, 12))))
                plan = world.plan(waits_for=waits_for, at=at, sent=rng.random() < 0.5)
                done = Worker(plan if found.total() < kills else world.plan()).ended()
                if done is None:
                    found[place(world.url)[1]] += 1
                    time_passes(world.url)
            check_ended(world, filled, done)
    return found


def postmaster(server: EmbeddedPostgres) -> int:
    return int((server.path / "data" / "postmaster.pid").read_text().splitlines()[0])


def is_over(witness: psycopg.Connection[Any]) -> bool:
    """Whether the server that answered a session is gone."""
    try:
        witness.execute("SELECT")
    except psycopg.OperationalError:
        return True
    return False


def answers(server: EmbeddedPostgres) -> bool:
    """Start a server that was killed; whether it is there."""
    try:
        execute(server.start(), "SELECT")
    except (DatabaseError, psycopg.OperationalError) as error:
        if isinstance(error, DatabaseError) and error.code != "embedded_server":
            raise
        return False
    return True


def killed_servers(server: EmbeddedPostgres, rng: random.Random, kills: int) -> Counter[str]:
    """Kill the server at points throughout a worker's work; the worker lives, and goes on.

    In turns its first process dies, and the one that answers the worker, with which all others end.
    """
    found: Counter[str] = Counter()
    ways: Iterator[Any] = cycle(("kill server", "kill session"))
    with filled_on(server.url, server.path.parent / "archives") as filled:
        while found.total() < kills:
            with filled.copy() as world, psycopg.connect(server.url, autocommit=True) as witness:
                plan = world.plan(
                    at=rng.randint(1, filled.done.waits["server"]),
                    sent=rng.random() < 0.5,
                    befalls=next(ways),
                    server=postmaster(server),
                )
                worker = Worker(plan)
                if not worker.befallen():
                    continue  # no two take exactly as many waits
                wait_until(partial(is_over, witness), 60)
                wait_until(lambda: answers(server), 60)
                found[place(world.url)[1]] += 1
                check_ended(world, filled, ended(worker))
    return found


@pytest.mark.slow
def test_an_undisturbed_worker_takes_every_step(filled: Filled) -> None:
    assert filled.done.cycles == list(TENANTS)
    for report in filled.done.reports:
        done = {line.step for line in report.lines if line.verdict == "done"}
        assert done == (STEPS if report.tenant == ENDED else STEPS - {"session_end"})
        assert {line.verdict for line in report.lines} <= {"done", "kept"}
    assert filled.contents.keys() == filled.restored.keys() == set(TENANTS)
    assert all(filled.contents[one] != filled.restored[one] for one in TENANTS)


@pytest.mark.slow
def test_cycles_of_killed_workers_end_as_undisturbed_ones_do(filled: Filled) -> None:
    rng = random.Random(1)  # noqa: S311 - seeded, not secret
    killed_workers(filled, rng, kills=5)


@pytest.mark.slow
def test_a_worker_outlives_a_kill_of_the_server(server: EmbeddedPostgres) -> None:
    rng = random.Random(2)  # noqa: S311 - seeded, not secret
    killed_servers(server, rng, kills=2)


@pytest.mark.proof
def test_cycles_survive_two_hundred_kills(filled: Filled, server: EmbeddedPostgres) -> None:
    rng = random.Random(3)  # noqa: S311 - seeded, not secret
    found = killed_workers(filled, rng, kills=170)
    found += killed_servers(server, rng, kills=30)
    print("\n".join(f"{number:>4}  {where}" for where, number in found.most_common()))  # noqa: T201
    assert found.total() == 200
    nodes = {where.rpartition(": ")[2] for where in found}
    assert nodes >= {"select", "propose", "review", "apply"}
    assert {where.partition(": ")[0] for where in found} >= STEPS - {"session_end"}


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
def in_first_cycle(
    filled: Filled, statements: str, begin: int, **options: Any
) -> Iterator[tuple[World, Worker]]:
    """A worker that something has befallen in the midst of its first tenant's cycle.

    Where that is in its work is found by trying: at its wait `begin`, or at one that is later.
    """
    waits = filled.done.waits["server"]
    for at in range(begin, waits // 3, max(1, waits // 50)):
        with filled.copy(statements) as world:
            plan = world.plan(at=at, **options)
            worker = Worker(plan)
            befallen = worker.befallen() if plan.befalls == "stop" else worker.ended() is None
            tenant, where = place(world.url)
            if befallen and tenant == TENANTS[0] and where != BETWEEN:
                yield world, worker
                return
            worker.kill()
    raise AssertionError("no cycle was at work at any of these points")


def ended(worker: Worker) -> Done:
    done = worker.ended()
    assert done is not None
    return done


@pytest.mark.slow
def test_two_workers_share_the_tenants_and_no_tenant_has_two(filled: Filled) -> None:
    with filled.copy(PROBE) as world:
        workers = [Worker(world.plan(name=name)) for name in ("one", "other")]
        done = [ended(worker) for worker in workers]
        assert sorted(tenant for one in done for tenant in one.cycles) == sorted(TENANTS)
        assert all(len(turns) == 1 for turns in writers(world.url).values())
        check_ended(world, filled, *done)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_a_worker_that_stood_still_changes_nothing_once_its_lease_is_taken(
    filled: Filled, seed: int
) -> None:
    rng = random.Random(seed)  # noqa: S311 - seeded, not secret
    waits = filled.done.waits["server"]
    at = rng.randint(waits // 30, waits // 4)
    first, sent = TENANTS[0], rng.random() < 0.5
    stalled: dict[str, Any] = {"name": "stalled", "sent": sent, "befalls": "stop"}
    with in_first_cycle(filled, PROBE, at, **stalled) as (world, worker):
        url = world.url
        end_stalled_transactions(url)
        taker = ended(Worker(world.plan(name="taker", later=LEASE_SECONDS)))
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
        assert ended(Worker(world.plan(later=LEASE_SECONDS))).cycles == []
        assert contents(url) == before


@pytest.mark.slow
def test_a_lease_is_taken_over_when_it_is_over_and_not_before(filled: Filled) -> None:
    first = TENANTS[0]
    with in_first_cycle(filled, "", filled.done.waits["server"] // 5) as (world, _):
        early = ended(Worker(world.plan(later=LEASE_SECONDS - 1)))
        assert early.cycles == list(TENANTS[1:])
        in_time = ended(Worker(world.plan(later=LEASE_SECONDS)))
        assert in_time.cycles == [first]
        assert contents(world.url)[first] == filled.contents[first]
