"""What cycles cost: by the number of tenants, by the size of one, and for recalls beside them."""

from __future__ import annotations

import multiprocessing
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from functools import partial
from multiprocessing.synchronize import Event as Flag
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
from langchain_core.runnables import RunnableConfig

from benchmarks.consolidation_report import Cost, Costs, Recalls
from benchmarks.consolidation_report import Year as LivedYear
from benchmarks.databases import create
from benchmarks.listening import Statements
from benchmarks.ruling import Ruling
from benchmarks.timing import milliseconds
from benchmarks.year import END, Event, Year
from benchmarks.year_replay import Clock, Replay, open_year
from benchmarks.year_score import Left, Proposals, knowing, score
from langmem_tiers import MemoryContext, MemoryCoordinator, TieredStore
from langmem_tiers.consolidation.policy import ArchivalPolicy, ConsolidationPolicy
from langmem_tiers.graph.consolidation import create_consolidation_graph

SEED = 7
IDLE = 3
"""Cycles with nothing new after each first one."""
_LATER = timedelta(hours=36)
"""After everything was stored and read: notes are alive still, strengths have faded."""
_READ_AT_ONCE = 500
_SETTLE = 0.3

Report = Callable[[], object]


class Filled(NamedTuple):
    """A store that holds the memories of a year, none of which was looked at by a cycle."""

    store: TieredStore
    clock: Clock
    replay: Replay
    tenants: list[str]
    stored: int


@contextmanager
def filled(server_url: str, name: str, memories: int, tenants: int) -> Iterator[Filled]:
    """A database of its own; each memory was read once."""
    clock = Clock()
    clock.now = END
    url = create(server_url, name)
    with open_year(url, clock) as store:
        store.setup()
        replay = Replay(store, clock)
        stored = [one for one in Year(SEED, memories, tenants).events() if _told(one)]
        replay.hand_over(stored)
        for start in range(0, len(stored), _READ_AT_ONCE):
            several = stored[start : start + _READ_AT_ONCE]
            replay.hand_over([one._replace(kind="access") for one in several])
        store.run(store.flows.flush())
        with psycopg.connect(url, autocommit=True) as conn:
            conn.execute("VACUUM ANALYZE")
        clock.now += _LATER
        names = sorted({one.tenant for one in stored})
        yield Filled(store, clock, replay, names, memories)


def _told(event: Event) -> bool:
    return event.kind == "store"


def many(
    server_url: str, sizes: Sequence[int], each: int, cycles: int, report: Report
) -> list[Costs]:
    """Cycles of tenants of one size, in databases with ever more of them, in turns."""
    with ExitStack() as stack:
        databases = []
        for size in sizes:
            name = f"many_{size}"
            databases.append(stack.enter_context(filled(server_url, name, size, size // each)))
            report()
        first, idle = ([_Spent() for _ in databases] for _ in range(2))
        for number in range(cycles):
            for one, new, old in zip(databases, first, idle, strict=True):
                _cycle(one, one.tenants[number * len(one.tenants) // cycles], new, old)
            report()
        return [
            Costs(one.stored, new.cost(each), old.cost(each))
            for one, new, old in zip(databases, first, idle, strict=True)
        ]


def one(server_url: str, sizes: Sequence[int], report: Report) -> Iterator[Costs]:
    """Cycles of one tenant, ever larger."""
    for size in sizes:
        with filled(server_url, f"one_{size}", size, 1) as database:
            new, old = _Spent(), _Spent()
            _cycle(database, database.tenants[0], new, old)
            report()
            yield Costs(size, new.cost(size), old.cost(size))


class _Spent:
    """The time and the statements of cycles."""

    def __init__(self) -> None:
        self._seconds: list[float] = []
        self._statements = Statements()

    @contextmanager
    def on(self, store: TieredStore) -> Iterator[None]:
        """Of a cycle that is run meanwhile."""
        with self._statements.of(store):
            started = time.perf_counter()
            yield
            self._seconds.append(time.perf_counter() - started)

    def cost(self, of: int) -> Cost:
        return Cost(of, tuple(self._seconds), self._statements.total)


def _cycle(database: Filled, tenant: str, first: _Spent, idle: _Spent) -> None:
    """The first cycle of a tenant, and a few with nothing new."""
    for number in range(1 + IDLE):
        with (idle if number else first).on(database.store):
            database.replay.cycle(tenant)
        database.clock.now += timedelta(hours=1)


def recalls(
    server_url: str, *, tenants: int, each: int, rounds: int, block: int, report: Report
) -> Recalls:
    """Recalls of one tenant in blocks, in turns with and without cycles in another process."""
    name = "beside"
    with filled(server_url, name, tenants * each, tenants) as database:
        url = psycopg.conninfo.make_conninfo(server_url, dbname=name)
        context = MemoryContext(tenant=database.tenants[0], project_id="project-0")
        memory = MemoryCoordinator(database.store, context=context)
        drawn = random.Random(SEED)
        texts = [one.stored.content for one in database.replay.story.memories.values()]
        found: dict[bool, list[float]] = {False: [], True: []}
        with _beside(url, database) as (at_work, done):
            for text in drawn.sample(texts, block):
                memory.get_context(text)
            for number in range(rounds):
                todo = drawn.sample(texts, block)
                for busy in (False, True) if number % 2 else (True, False):
                    found[busy] += _timed(memory, todo, at_work if busy else None)
                report()
            return Recalls(found[False], found[True], done.value)


def _timed(memory: MemoryCoordinator, texts: Sequence[str], at_work: Flag | None) -> list[float]:
    if at_work is not None:
        at_work.set()
    time.sleep(_SETTLE)  # the other process begins, or ends what it is at
    times = [milliseconds(partial(memory.get_context, text)) for text in texts]
    if at_work is not None:
        at_work.clear()
    return times


@contextmanager
def _beside(url: str, database: Filled) -> Iterator[tuple[Flag, Any]]:
    """A process that runs cycles while the flag is up; and how many batches it dealt with."""
    spawn = multiprocessing.get_context("spawn")
    at_work, done = spawn.Event(), spawn.Value("q", 0)
    given = (url, database.clock.now, database.tenants, at_work, done)
    process = spawn.Process(target=_work, args=given, daemon=True)
    process.start()
    try:
        at_work.set()
        while not done.value:  # it begins
            process.join(_SETTLE)
            if not process.is_alive():
                raise RuntimeError("the process that was to run cycles has ended")
        at_work.clear()
        yield at_work, done
    finally:
        process.terminate()
        process.join()


def _work(url: str, now: datetime, tenants: Sequence[str], at_work: Flag, done: Any) -> None:
    """Cycles of all tenants in turn, each as if nothing had been looked at before."""
    clock = Clock()
    clock.now = now
    with open_year(url, clock) as store:
        graph = create_consolidation_graph(store=store)
        while True:
            for tenant in tenants:
                with psycopg.connect(url) as conn:
                    conn.execute("DELETE FROM memory.cycles WHERE tenant = %s", (tenant,))
                clock.now += timedelta(days=2)
                context = MemoryContext(tenant=tenant)
                one_by_one: RunnableConfig = {"max_concurrency": 1}  # as a worker does
                for updates in graph.stream({}, one_by_one, context=context, stream_mode="updates"):
                    done.value += len(updates.keys() & {"propose", "apply"})
                    at_work.wait()


def years(
    server_url: str, folder: Path, memories: int, tenants: int, report: Report
) -> Iterator[LivedYear]:
    """The same year: without a model, with one that knows it, and with that and an archive."""
    year = Year(SEED, memories, tenants)
    model, archival = (
        Ruling(says=knowing(year)),
        ArchivalPolicy(url=str(folder), max_share=1, default_importance=0.5),
    )
    for number, (name, judge, archive) in enumerate(
        (
            ("no model", None, None),
            ("a model that knows", model, None),
            ("and an archive", model, archival),
        )
    ):
        url = create(server_url, f"year_{number}")
        clock, sent = Clock(), Statements()
        with open_year(url, clock) as store:
            store.setup()
            started = time.perf_counter()
            with sent.of(store):
                policy = ConsolidationPolicy(archive=archive)
                story = Replay(store, clock, policy, judge).live(year)
            seconds = time.perf_counter() - started
        found, proposed = score(Left.of(url), year.truth), Proposals.of(story).shares(year.truth)
        report()
        yield LivedYear(
            name, memories, len(story.cycles), seconds, sent.total, found, proposed, story.sizes
        )
