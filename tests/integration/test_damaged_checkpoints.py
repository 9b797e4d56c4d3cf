"""A checkpoint that no cycle wrote: nothing of it is run, and its tenant fails alone."""

from __future__ import annotations

import asyncio
import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ormsgpack
import psycopg
import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.types import Send

from langmem_tiers import (
    ConsolidationWorker,
    MemoryContext,
    TieredStore,
    create_consolidation_graph,
)
from langmem_tiers.consolidation.lease import thread_name
from langmem_tiers.core.errors import CheckpointError
from langmem_tiers.graph.worker import CycleSerializer, read_strictly, thread_config
from tests.support.opening import Clock
from tests.support.workers import SCHEDULE, How, Workers, tenants

BOTH = pytest.mark.parametrize("how", ["run_due", "arun_due"])
ALIVE = {"beta": 1, "coda": 1}
"""How many memories of the others live on in another one after their cycles."""
WAYS: tuple[tuple[How, list[str]], ...] = (("run_due", ["beta", "coda"]), ("arun_due", []))
"""Of two passes one after the other, whose cycles end: nobody else is due twice."""
LATER = f"{999:032}.0"
"""A version of a channel, as LangGraph counts them."""

Value = tuple[str, bytes]
"""A value in one of the forms that LangGraph's serializer knows."""
Put = Callable[[psycopg.Connection[Any], str, Value], None]


# What is put into the tables


def calling(made: Path, code: int = 0) -> Value:
    """A value that names `os.system`."""
    command = f"touch {made}"
    given = {"command": command} if code == 5 else command
    parts = ["os", "system", given]
    return "msgpack", ormsgpack.packb([ormsgpack.Ext(code, ormsgpack.packb(parts))])


def constructing(made: Path, *, lc: int = 2) -> Value:
    """The same as a constructor in JSON."""
    said = {"lc": lc, "type": "constructor", "id": ["os", "system"], "kwargs": {}}
    return "json", json.dumps({**said, "args": [f"touch {made}"]}).encode()


class Pickled:
    """An object whose unpickling runs a command."""

    def __init__(self, made: Path) -> None:
        self.made = made

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.system, (f"touch {self.made}",)


def plain(value: Any) -> Value:
    """A value of no type that is not JSON's."""
    return "msgpack", ormsgpack.packb(value)


DAMAGES: dict[str, Callable[[Path], Value]] = {
    "a call of kind 0": calling,
    "a call of kind 5": lambda made: calling(made, 5),
    "an array": lambda made: calling(made, 6),
    "a snapshot": lambda made: calling(made, 7),
    "a kind that nobody knows": lambda made: calling(made, 99),
    "a constructor in JSON": constructing,
    "a constructor of LangChain's": lambda made: constructing(made, lc=1),
    "a pickled object": lambda made: ("pickle", pickle.dumps(Pickled(made))),
    "a form that nobody knows": lambda _: ("odd", b"1"),
    "bytes": lambda _: ("bytes", b"1"),
    "nothing": lambda _: ("msgpack", b""),
    "what is cut off": lambda _: ("msgpack", plain(["one", "two"])[1][:-2]),
}


def in_a_value(conn: psycopg.Connection[Any], tenant: str, value: Value) -> None:
    """Put it where a channel's value is."""
    done = conn.execute(
        "UPDATE checkpoint_blobs SET type = %s, blob = %s WHERE thread_id = %s",
        (*value, thread_name(tenant)),
    )
    assert done.rowcount


def in_a_write(conn: psycopg.Connection[Any], tenant: str, value: Value) -> None:
    """Put it among the writes that wait for the next checkpoint."""
    done = conn.execute(
        """INSERT INTO checkpoint_writes
               (thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel, type, blob)
           SELECT thread_id, checkpoint_ns, checkpoint_id, 'somebody', 0, 'counts', %s, %s
           FROM checkpoints WHERE thread_id = %s""",
        (*value, thread_name(tenant)),
    )
    assert done.rowcount


def in_the_state(name: str) -> Put:
    """Put it in one channel of the state."""

    def put(conn: psycopg.Connection[Any], tenant: str, value: Value) -> None:
        conn.execute(
            """UPDATE checkpoints
               SET checkpoint = jsonb_set(
                   checkpoint #- ARRAY['channel_values', %(name)s],
                   ARRAY['channel_versions', %(name)s], to_jsonb(%(at)s::text))
               WHERE thread_id = %(thread)s""",
            {"name": name, "thread": thread_name(tenant), "at": LATER},
        )
        done = conn.execute(
            """INSERT INTO checkpoint_blobs VALUES (%s, '', %s, %s, %s, %s)""",
            (thread_name(tenant), name, LATER, *value),
        )
        assert done.rowcount

    return put


@pytest.fixture
def workers(store: TieredStore, url: str) -> Workers:
    return Workers(store, url, "acme", "beta", "coda")


def damage(url: str, put: Put, value: tuple[str, bytes]) -> None:
    with psycopg.connect(url) as conn:
        put(conn, "acme", value)


@pytest.fixture
def begun(workers: Workers) -> Workers:
    """Workers where a cycle of the first tenant is at where batches are about to be judged."""
    with PostgresSaver.from_conn_string(workers.url) as saver:
        graph = create_consolidation_graph(
            store=workers.store, checkpointer=saver, interrupt_before=["propose"]
        )
        graph.invoke({}, thread_config("acme"), context=MemoryContext(tenant="acme"))
    return workers


@BOTH
async def test_a_cycle_that_was_begun_is_ended_where_nothing_is_damaged(
    begun: Workers, how: How
) -> None:
    assert tenants(await begun.due(how)) == ["acme", "beta", "coda"]
    assert (begun.failures, begun.merged()) == ({}, {"acme": 1, **ALIVE})


@pytest.mark.parametrize(
    ("name", "put"),
    [*((name, in_a_value) for name in DAMAGES), ("a call of kind 0", in_a_write)],
)
async def test_nothing_that_a_checkpoint_names_is_run_and_its_tenant_fails_alone(
    begun: Workers, tmp_path: Path, name: str, put: Put
) -> None:
    damage(begun.url, put, DAMAGES[name](tmp_path / "made"))
    for how, ended in WAYS:
        assert tenants(await begun.due(how)) == ended
        assert list(begun.failures) == ["acme"]
        assert isinstance(begun.failures["acme"], CheckpointError)
        assert "delete_thread" in str(begun.failures["acme"])
    assert begun.merged() == {"acme": 0, **ALIVE}
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
    begun: Workers, name: str
) -> None:
    put, value = SHAPES[name]
    damage(begun.url, put, of_another() if value is Ellipsis else plain(value))
    assert tenants(await begun.due("arun_due")) == ["beta", "coda"]
    assert list(begun.failures) == ["acme"]
    assert begun.merged() == {"acme": 0, **ALIVE}
    if name != "a word as a time":
        assert isinstance(begun.failures["acme"], CheckpointError)


def of_another() -> tuple[str, bytes]:
    """A batch that is to be judged, of the second tenant."""
    arg = {"tenant": "beta", "cycle": "a", "started_at": "2026-01-01T00:00:00+00:00", "ended": []}
    send = Send("propose", {**arg, "step": "merge", "ids": [1], "batch": (1, 1)})
    return JsonPlusSerializer().dumps_typed([send])


@pytest.mark.parametrize(
    "damaged",
    [
        "soon",
        "checkpoint = checkpoint - 'channel_versions'",
        """metadata = metadata || '{"fence": "first"}'""",
    ],
    ids=str,
)
async def test_a_last_cycle_that_cannot_be_read_is_told_and_the_others_are_due(
    workers: Workers, clock: Clock, damaged: str
) -> None:
    await workers.due("run_due")
    with psycopg.connect(workers.url) as conn:
        if "=" in damaged:
            change = f"UPDATE checkpoints SET {damaged} WHERE thread_id = %s"  # noqa: S608 - of the test
            conn.execute(change.encode(), [thread_name("acme")])
        else:
            in_the_state("consolidated")(conn, "acme", plain(damaged))
    clock.advance(days=1)
    for how, ended in WAYS:
        assert tenants(await workers.due(how)) == ended
        assert list(workers.failures) == ["acme"]


async def test_the_next_cycle_is_due_whatever_the_report_of_the_last_one_says(
    workers: Workers, clock: Clock
) -> None:
    await workers.due("run_due")
    with psycopg.connect(workers.url) as conn:
        in_the_state("consolidated")(conn, "acme", plain({"started_at": "soon"}))
    clock.advance(days=1)
    assert tenants(await workers.due("run_due")) == ["acme", "beta", "coda"]


@BOTH
async def test_a_tenant_whose_thread_is_deleted_begins_anew(
    begun: Workers, tmp_path: Path, how: How
) -> None:
    damage(begun.url, in_a_value, calling(tmp_path / "made"))
    with PostgresSaver.from_conn_string(begun.url) as saver:
        await asyncio.to_thread(saver.delete_thread, thread_name("acme"))
    assert tenants(await begun.due(how)) == ["acme", "beta", "coda"]
    assert begun.failures == {}


class Own(JsonPlusSerializer):
    """A serializer of somebody's own."""


def test_the_checkpointer_that_is_given_stays_as_it_is_and_one_with_a_serializer_of_its_own_is_used(
    workers: Workers,
) -> None:
    given, own = InMemorySaver(), InMemorySaver(serde=Own())
    ConsolidationWorker(workers.store, SCHEDULE, checkpointer=given).run_due()
    assert type(given.serde) is JsonPlusSerializer
    assert given.get_tuple(thread_config("acme")) is not None
    assert isinstance(read_strictly(given).serde, CycleSerializer)
    assert read_strictly(own) is own
