"""A checkpoint that no cycle wrote: nothing of it is run, and its tenant fails alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import psycopg
import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.types import Send

from langmem_tiers import (
    ConsolidationReport,
    ConsolidationSchedule,
    ConsolidationWorker,
    MemoryContext,
    TieredStore,
    create_consolidation_graph,
)
from langmem_tiers.core.errors import CheckpointError
from langmem_tiers.graph.checkpoints import CycleSerializer, config_of, strictly, thread_of
from tests.support.coordinating import coordinator
from tests.support.damaging import (
    Put,
    calling,
    constructing,
    in_a_value,
    in_a_write,
    in_the_state,
    pickled,
    plain,
)
from tests.support.opening import Clock, text_index

SCHEDULE = ConsolidationSchedule(every=timedelta(hours=6))
How = Literal["run_due", "arun_due"]
BOTH = pytest.mark.parametrize("how", ["run_due", "arun_due"])
ALIVE = {"beta": 1, "coda": 1}
"""How many memories of the others live on in another one after their cycles."""

Damage = Callable[[Path], tuple[str, bytes]]
DAMAGES: dict[str, Damage] = {
    "a call of kind 0": lambda made: calling(made, 0),
    "a call of kind 5": lambda made: calling(made, 5),
    "an array": lambda made: calling(made, 6),
    "a snapshot": lambda made: calling(made, 7),
    "a kind that nobody knows": lambda made: calling(made, 99),
    "a constructor in JSON": constructing,
    "a constructor of LangChain's": lambda made: constructing(made, lc=1),
    "a pickled object": pickled,
    "a form that nobody knows": lambda _: ("odd", b"1"),
    "bytes": lambda _: ("bytes", b"1"),
    "nothing": lambda _: ("msgpack", b""),
    "what is cut off": lambda _: ("msgpack", plain(["one", "two"])[1][:-2]),
}


@pytest.fixture
def store(url: str, clock: Clock) -> Iterator[TieredStore]:
    """Three tenants, each with a memory that says the same as another one."""
    with TieredStore.from_conn_string(url, index=text_index(), clock=clock) as store:
        with PostgresSaver.from_conn_string(url) as saver:
            saver.setup()
        with psycopg.connect(url) as conn:
            for name in ("checkpoints", "checkpoint_blobs", "checkpoint_writes"):
                conn.execute(f"DELETE FROM {name}".encode())  # noqa: S608 - names of LangGraph's
        for tenant in ("acme", "beta", "coda"):
            for key in ("one", "two"):
                coordinator(store, tenant).store("The lamp is red.", "semantic", key=key)
        yield store


async def due(store: TieredStore, url: str, how: How) -> tuple[list[str], dict[str, Exception]]:
    """What a new worker runs, and what broke off."""
    if how == "arun_due":
        async with AsyncPostgresSaver.from_conn_string(url) as saver:
            worker = ConsolidationWorker(store, SCHEDULE, checkpointer=saver)
            reports = await worker.arun_due()
    else:
        with PostgresSaver.from_conn_string(url) as saver:
            worker = ConsolidationWorker(store, SCHEDULE, checkpointer=saver)
            reports = await asyncio.to_thread(worker.run_due)
    return [one.tenant for one in reports], worker.failures


def begun(store: TieredStore, url: str) -> None:
    """Begin a cycle of the first tenant, and leave it where batches are about to be judged."""
    with PostgresSaver.from_conn_string(url) as saver:
        graph = create_consolidation_graph(
            store=store, checkpointer=saver, interrupt_before=["propose"]
        )
        graph.invoke({}, config_of("acme"), context=MemoryContext(tenant="acme"))


def merged(url: str) -> dict[str, int]:
    """How many memories of each tenant live on in another one."""
    query = "SELECT tenant, count(*) FROM memory.memories WHERE state = 'consolidated' GROUP BY 1"
    with psycopg.connect(url) as conn:
        return dict(conn.execute(query).fetchall())


def damage(url: str, put: Put, value: tuple[str, bytes]) -> None:
    with psycopg.connect(url) as conn:
        put(conn, "acme", value)


@BOTH
async def test_a_cycle_that_was_begun_is_ended_where_nothing_is_damaged(
    store: TieredStore, url: str, how: How
) -> None:
    await asyncio.to_thread(begun, store, url)
    assert await due(store, url, how) == (["acme", "beta", "coda"], {})
    assert merged(url) == {"acme": 1, **ALIVE}


@pytest.mark.parametrize(
    ("name", "put"),
    [*((name, in_a_value) for name in DAMAGES), ("a call of kind 0", in_a_write)],
)
async def test_nothing_that_a_checkpoint_names_is_run_and_its_tenant_fails_alone(
    store: TieredStore, url: str, tmp_path: Path, name: str, put: Put
) -> None:
    await asyncio.to_thread(begun, store, url)
    damage(url, put, DAMAGES[name](tmp_path / "made"))
    ways: tuple[How, ...] = ("run_due", "arun_due")
    for how in ways:
        ended, failures = await due(store, url, how)
        assert ended == (["beta", "coda"] if how == "run_due" else [])
        assert list(failures) == ["acme"]
        assert isinstance(failures["acme"], CheckpointError)
        assert "delete_thread" in str(failures["acme"])
    assert merged(url) == ALIVE
    assert not (tmp_path / "made").exists()


SHAPES: dict[str, tuple[Put, Any]] = {
    "a number of batches": (in_the_state("batches"), 7),
    "a number as a time": (in_the_state("started_at"), 7),
    "a word as a time": (in_the_state("started_at"), "soon"),
    "a list of counts": (in_the_state("counts"), []),
    "several steps": (in_the_state("step"), ["merge"]),
    "a word as an id": (in_the_state("after"), "one"),
    "another tenant": (in_the_state("tenant"), "beta"),
    "a batch of another tenant": (in_the_state("__pregel_tasks"), Ellipsis),
}


@pytest.mark.parametrize("name", SHAPES)
async def test_a_state_of_another_shape_breaks_the_cycle_of_its_tenant_alone(
    store: TieredStore, url: str, name: str
) -> None:
    await asyncio.to_thread(begun, store, url)
    put, value = SHAPES[name]
    damage(url, put, of_another() if value is Ellipsis else plain(value))
    ended, failures = await due(store, url, "arun_due")
    assert (ended, list(failures)) == (["beta", "coda"], ["acme"])
    assert merged(url) == ALIVE
    if name != "a word as a time":
        assert isinstance(failures["acme"], CheckpointError)


def of_another() -> tuple[str, bytes]:
    """A batch that is to be judged, of the second tenant."""
    arg = {"tenant": "beta", "cycle": "a", "started_at": "2026-01-01T00:00:00+00:00", "ended": []}
    send = Send("propose", {**arg, "step": "merge", "ids": [1], "batch": (1, 1)})
    return JsonPlusSerializer().dumps_typed([send])


def of_the_last_cycle(name: str, value: Any) -> Callable[[psycopg.Connection[Any]], Any]:
    def put(conn: psycopg.Connection[Any]) -> None:
        in_the_state(name)(conn, "acme", plain(value))

    return put


def no_versions(conn: psycopg.Connection[Any]) -> None:
    conn.execute(
        """UPDATE checkpoints SET checkpoint = checkpoint - 'channel_versions'
           WHERE thread_id = %s""",
        [thread_of("acme")],
    )


def odd_fence(conn: psycopg.Connection[Any]) -> None:
    conn.execute(
        """UPDATE checkpoints SET metadata = metadata || '{"fence": "first"}'
           WHERE thread_id = %s""",
        [thread_of("acme")],
    )


@pytest.mark.parametrize(
    "put",
    [
        of_the_last_cycle("consolidated", {"tenant": "acme"}),
        of_the_last_cycle("consolidated", {"started_at": "soon"}),
        of_the_last_cycle("consolidated", "soon"),
        no_versions,
        odd_fence,
    ],
)
@BOTH
async def test_a_last_cycle_that_cannot_be_read_is_told_and_the_others_are_due(
    store: TieredStore, url: str, clock: Clock, how: How, put: Callable[[Any], Any]
) -> None:
    await due(store, url, how)
    with psycopg.connect(url) as conn:
        put(conn)
    clock.advance(days=1)
    ended, failures = await due(store, url, how)
    assert (ended, list(failures)) == (["beta", "coda"], ["acme"])


@BOTH
async def test_a_tenant_whose_thread_is_deleted_begins_anew(
    store: TieredStore, url: str, tmp_path: Path, how: How
) -> None:
    await asyncio.to_thread(begun, store, url)
    damage(url, in_a_value, calling(tmp_path / "made"))
    with PostgresSaver.from_conn_string(url) as saver:
        await asyncio.to_thread(saver.delete_thread, thread_of("acme"))
    assert await due(store, url, how) == (["acme", "beta", "coda"], {})


def test_who_is_told_of_a_cycle_and_raises_is_heard(store: TieredStore) -> None:
    def told(_: ConsolidationReport) -> None:
        raise RuntimeError("the pager is gone")

    worker = ConsolidationWorker(store, SCHEDULE, checkpointer=InMemorySaver(), told=told)
    with pytest.raises(RuntimeError, match="the pager is gone"):
        worker.run_due()
    assert worker.failures == {}


class Own(JsonPlusSerializer):
    """A serializer of somebody's own."""


def test_the_checkpointer_that_is_given_stays_as_it_is_and_one_with_a_serializer_of_its_own_is_used(
    store: TieredStore,
) -> None:
    given, own = InMemorySaver(), InMemorySaver(serde=Own())
    ConsolidationWorker(store, SCHEDULE, checkpointer=given).run_due()
    assert type(given.serde) is JsonPlusSerializer
    assert given.get_tuple(config_of("acme")) is not None
    assert isinstance(strictly(given).serde, CycleSerializer)
    assert strictly(own) is own
