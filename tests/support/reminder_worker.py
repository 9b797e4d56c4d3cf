"""A worker that raises what is due until it is killed, at a time that a file tells.

What it does is appended to a log of its own, one line of JSON each, before anything else happens:
what it was given, what it acknowledged, and the time at which it was.
"""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, datetime
from pathlib import Path

from langmem_tiers import MemoryContext, MemoryCoordinator, TieredStore
from langmem_tiers.testing import TrigramEmbeddings

LEASE = 30.0


def told(clock: Path) -> datetime:
    """The time that the file tells."""
    return datetime.fromtimestamp(float(clock.read_text("utf-8")), UTC)


def main(url: str, clock: Path, log: Path, mode: str) -> None:
    """Raise three at a time; in mode `lease`, acknowledge what was raised."""
    index = {"dims": 64, "embed": TrigramEmbeddings(64), "fields": ["text"]}
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def write(kind: str, **what: object) -> None:
        line = json.dumps({"kind": kind, "at": told(clock).timestamp(), **what})
        os.write(file, f"{line}\n".encode())

    with TieredStore.from_conn_string(url, index=index, clock=lambda: told(clock)) as store:
        memory = MemoryCoordinator(store, context=MemoryContext(tenant="acme"))
        write("ready")
        while True:
            raised = memory.reminders.due(limit=3, lease_seconds=LEASE if mode == "lease" else None)
            for one in raised:
                write("raised", key=one.key, token=one.token)
            for one in raised if mode == "lease" else ():
                if memory.reminders.acknowledge(one):
                    write("acknowledged", key=one.key, token=one.token)
            if not raised:
                time.sleep(0.005)
