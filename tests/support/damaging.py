"""Damage to the checkpoints of a tenant's cycles, as somebody does who can write to the tables."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ormsgpack
import psycopg

from langmem_tiers.graph.checkpoints import thread_of


def calling(made: Path, code: int = 0) -> tuple[str, bytes]:
    """A value that names `os.system`, in each form that LangGraph's serializer knows a value in."""
    command = f"touch {made}"
    parts: list[Any] = ["os", "system", command]
    if code == 1:
        parts[2] = [command]
    elif code in {2, 4, 5}:
        parts[2] = {"command": command}
    elif code == 3:
        parts = ["os", "sys", command, "system"]
    return "msgpack", ormsgpack.packb([ormsgpack.Ext(code, ormsgpack.packb(parts))])


def constructing(made: Path, *, lc: int = 2) -> tuple[str, bytes]:
    """The same as a constructor in JSON."""
    said = {"lc": lc, "type": "constructor", "id": ["os", "system"], "kwargs": {}}
    return "json", json.dumps({**said, "args": [f"touch {made}"]}).encode()


class Pickled:
    """An object whose unpickling runs a command."""

    def __init__(self, made: Path) -> None:
        self.made = made

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        import os  # noqa: PLC0415 - so that it is looked for where it is unpickled

        return os.system, (f"touch {self.made}",)


def pickled(made: Path) -> tuple[str, bytes]:
    """The same as a pickled object."""
    return "pickle", pickle.dumps(Pickled(made))


def plain(value: Any) -> tuple[str, bytes]:
    """A value of no type that is not JSON's."""
    return "msgpack", ormsgpack.packb(value)


_LATER = f"{999:032}.0"
"""A version of a channel, as LangGraph counts them."""

Put = Callable[[psycopg.Connection[Any], str, tuple[str, bytes]], None]


def in_a_value(conn: psycopg.Connection[Any], tenant: str, value: tuple[str, bytes]) -> None:
    """Put it where a channel's value is."""
    done = conn.execute(
        "UPDATE checkpoint_blobs SET type = %s, blob = %s WHERE thread_id = %s",
        (*value, thread_of(tenant)),
    )
    assert done.rowcount


def in_a_write(conn: psycopg.Connection[Any], tenant: str, value: tuple[str, bytes]) -> None:
    """Put it among the writes that wait for the next checkpoint."""
    done = conn.execute(
        """INSERT INTO checkpoint_writes
               (thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel, type, blob)
           SELECT thread_id, checkpoint_ns, checkpoint_id, 'somebody', 0, 'counts', %s, %s
           FROM checkpoints WHERE thread_id = %s""",
        (*value, thread_of(tenant)),
    )
    assert done.rowcount


def in_the_state(name: str) -> Put:
    """Put it in one channel of the state."""

    def put(conn: psycopg.Connection[Any], tenant: str, value: tuple[str, bytes]) -> None:
        conn.execute(
            """UPDATE checkpoints
               SET checkpoint = jsonb_set(
                   checkpoint #- ARRAY['channel_values', %(name)s],
                   ARRAY['channel_versions', %(name)s], to_jsonb(%(at)s::text))
               WHERE thread_id = %(thread)s""",
            {"name": name, "thread": thread_of(tenant), "at": _LATER},
        )
        done = conn.execute(
            """INSERT INTO checkpoint_blobs VALUES (%s, '', %s, %s, %s, %s)""",
            (thread_of(tenant), name, _LATER, *value),
        )
        assert done.rowcount

    return put
