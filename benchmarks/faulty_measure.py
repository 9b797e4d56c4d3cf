"""How often an agent with faulty tools repeats a failure, by what it remembers with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from typing import Any, NamedTuple
from uuid import uuid4

from langgraph.store.base import BaseStore
from langgraph.store.postgres import PostgresStore

from benchmarks.databases import create
from benchmarks.faulty import (
    TASKS,
    WORLDS,
    Memory,
    Outcome,
    State,
    agent,
    answers,
    forgetful,
    lesson_of,
    tasks,
    tiered,
)
from langmem_tiers import LocalEmbeddings, TieredStore, local_index
from langmem_tiers.learning.reflexion import Reflexion

NONE, SIGNATURES, SIMILARITY, PEER = ("no memory", "signatures", "similarity", "PostgresStore")
WAYS = (NONE, SIGNATURES, SIMILARITY, PEER)
SEEDS = (10, 11, 12, 20, 21, 22)

_NEAREST = 20


class Run(NamedTuple):
    """What one way of remembering came to with one seed."""

    world: str
    way: str
    seed: int
    outcomes: Sequence[Outcome]


class Repeats(NamedTuple):
    """Tasks in which a family failed again, and all that could have."""

    again: int = 0
    """Tasks that failed in a family that had failed in the project before."""
    calls: int = 0
    """The failed calls of those tasks."""
    chances: int = 0
    """Tasks whose fault fires in a family that had failed in the project before."""
    unsolved: int = 0

    @classmethod
    def of(cls, outcomes: Iterable[Outcome]) -> Repeats:
        """Count one run."""
        known: set[tuple[str, str]] = set()
        again = calls = chances = unsolved = 0
        for one in outcomes:
            place = (one.task.project, one.task.family.name)
            if place in known:
                chances += one.task.fires
                again += one.failed_calls > 0
                calls += one.failed_calls
            if one.failed_calls:
                known.add(place)
            unsolved += not one.succeeded
        return cls(again, calls, chances, unsolved)


def total(runs: Iterable[Run], world: str, way: str) -> Repeats:
    """The repeats of one way in one world, over all seeds."""
    counted = [Repeats.of(one.outcomes) for one in runs if (one.world, one.way) == (world, way)]
    return Repeats(*map(sum, zip(*counted, strict=True)))


def measure(
    server_url: str,
    *,
    worlds: Sequence[str] = WORLDS,
    seeds: Sequence[int] = SEEDS,
    count: int = TASKS,
    ways: Sequence[str] = WAYS,
    report: Callable[[], object] = lambda: None,
) -> Iterator[Run]:
    """Let every way of remembering do the same tasks; `report` is told after each task."""
    with _memories(server_url) as memory:
        for world, seed, way in product(worlds, seeds, ways):
            tenant = f"{world} {way} {seed}"
            working = agent(memory(way, tenant), world, tenant=tenant, seed=seed)
            outcomes = []
            for task in tasks(world, seed, count):
                outcomes.append(working.do(task))
                report()
            yield Run(world, way, seed, outcomes)


@contextmanager
def _memories(server_url: str) -> Iterator[Callable[[str, str], Memory]]:
    """What makes the memory of a way, for a tenant of its own."""
    with _store(server_url) as store, _peer(server_url) as other:

        def memory(way: str, tenant: str) -> Memory:
            if way == NONE:
                return forgetful()
            if way == PEER:
                return similar(other, tenant)
            options = {"lessons": 0, "limit": 1} if way == SIMILARITY else {}
            return tiered(store, **options)

        yield memory


@contextmanager
def _store(server_url: str) -> Iterator[TieredStore]:
    with TieredStore.from_conn_string(
        create(server_url, "learning_faulty"), index=local_index()
    ) as store:
        store.setup()
        yield store


@contextmanager
def _peer(server_url: str) -> Iterator[PostgresStore]:
    model = LocalEmbeddings()
    with PostgresStore.from_conn_string(
        create(server_url, "learning_faulty_peer"),
        index={
            "dims": model.dims,
            "embed": model,
            "fields": ["content"],
            "ann_index_config": {"kind": "flat"},
        },
    ) as store:
        store.setup()
        yield store


def similar(store: BaseStore, tenant: str) -> Memory:
    """The same lessons as texts in any store of LangGraph's, found by nearness alone.

    After a failure it is asked with the error as well.
    """

    def recall(state: State) -> dict[str, Any]:
        said = [one.text for one in answers(state)[-1:]]
        query = "\n".join([state["task"].question, *said])
        found = store.search((tenant, state["task"].project), query=query, limit=_NEAREST)
        return {"recalled_text": "\n\n".join(one.value["content"] for one in found)}

    def learn(state: State) -> dict[str, Any]:
        if (told := lesson_of(state)) is not None:
            fields = {name: one for name, one in told.items() if name not in ("failure", "tool")}
            value = {"content": Reflexion(**fields).to_memory_format()}
            store.put((tenant, state["task"].project), str(uuid4()), value)
        return {}

    return Memory(recall, [learn])
