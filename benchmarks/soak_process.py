"""A client of the soak: `python -m benchmarks.soak_process URL NAME LOG SEED PACE`, until SIGTERM.

What it begins, and what was acknowledged, goes to its log a line each before anything else happens,
so that whoever kills it still knows.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from benchmarks.recall_data import History, generated
from langmem_tiers import (
    MemoryContext,
    MemoryCoordinator,
    MemoryOrchestrator,
    TieredStore,
    local_index,
)
from langmem_tiers.core.errors import DatabaseUnavailableError, TieredMemoryError, error_kind

FIXED, GROWING = "fixed", "growing"
"""Tenants: one is asked only, the other is written by all clients."""
PAUSE_SECONDS = 0.1
"""How long a client waits after an error, as a caller would."""
_BATCH = 10


def histories() -> list[History]:
    """The texts of the project's own script: chats, logs and facts."""
    return [one for style in generated() for one in style.histories]


class Client:
    """One process that writes to the growing tenant, and asks both."""

    def __init__(self, store: TieredStore, name: str, log: int, rng: Random) -> None:
        self._name, self._log, self._rng = name, log, rng
        self._growing = coordinator(store, GROWING)
        self._fixed = coordinator(store, FIXED)
        told = histories()
        self._texts = [one.content for history in told for one in history.memories]
        self._questions = [one.text for history in told for one in history.questions]
        self._mine: dict[str, int] = {}
        self._number = 0

    def step(self) -> None:
        """Do one thing, and recall as an agent would before it."""
        self._timed("recall", lambda: self._fixed.get_context(self._question()))
        verbs: Sequence[Callable[[], None]] = (self._many, self._turn, self._again, self._delete)
        weights = (55, 10, 15, 15, 5)
        (verb,) = self._rng.choices((self._one, *verbs), weights)
        verb()
        if self._rng.random() < 0.2:
            self._timed("recall growing", lambda: self._growing.get_context(self._question()))

    def failed(self, error: TieredMemoryError) -> None:
        """Note an error that a caller may be told."""
        self._note(error=error_kind(error), said=str(error)[:300])

    def _one(self) -> None:
        key, said = self._new()
        self._written({key: 1}, lambda: self._growing.store(said, key=key), "store")

    def _many(self) -> None:
        several = dict(self._new() for _ in range(_BATCH))
        given = [{"content": said, "key": key} for key, said in several.items()]
        versions = dict.fromkeys(several, 1)
        self._written(versions, lambda: self._growing.store_many(given), "store_many")

    def _turn(self) -> None:
        key, said = self._new()

        def turn() -> None:
            with MemoryOrchestrator(self._growing) as one:
                one.assemble_context(self._question())
                one.memorize({"content": said, "key": key, "source": "user"})
                one.commit()

        self._written({key: 1}, turn, "turn")

    def _again(self) -> None:
        if not self._mine:
            return self._one()
        key = self._rng.choice(sorted(self._mine))
        version = self._mine[key] + 1
        said = self._said(key, version)
        return self._written({key: version}, lambda: self._growing.store(said, key=key), "replace")

    def _delete(self) -> None:
        if not self._mine:
            return self._one()
        key = self._rng.choice(sorted(self._mine))
        return self._written({key: 0}, lambda: self._growing.delete_memory(key), "delete")

    def _written(self, versions: dict[str, int], write: Callable[[], object], verb: str) -> None:
        self._note(begins=versions)
        for key in versions:
            self._mine.pop(key, None)  # until it is acknowledged nobody knows
        self._timed(verb, write)
        self._note(acknowledged=versions)
        self._mine |= {key: version for key, version in versions.items() if version}

    def _new(self) -> tuple[str, str]:
        self._number += 1
        key = f"{self._name}-{self._number}"
        return key, self._said(key, 1)

    def _said(self, key: str, version: int) -> str:
        return f"{self._rng.choice(self._texts)} Noted as {key} v{version}."

    def _question(self) -> str:
        return self._rng.choice(self._questions)

    def _timed(self, what: str, call: Callable[[], object]) -> None:
        started = time.perf_counter()
        call()
        self._note(took=what, ms=round((time.perf_counter() - started) * 1000, 2))

    def _note(self, **told: Any) -> None:
        os.write(self._log, (json.dumps({"at": time.time(), **told}) + "\n").encode())


def coordinator(store: TieredStore, tenant: str) -> MemoryCoordinator:
    """Whose memory one of the two tenants' is."""
    return MemoryCoordinator(store, context=MemoryContext(tenant=tenant, project_id="soak"))


def main(url: str, name: str, log: str, seed: str, pace: str) -> None:
    """Work until told to stop, whatever becomes of the server."""
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopped.append(number))
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    rng = Random(f"{seed}-{name}")
    while not stopped:
        try:
            with TieredStore.from_conn_string(url, index=local_index()) as store:
                work(Client(store, name, file, rng), float(pace), stopped)
        except DatabaseUnavailableError:  # as it was opened
            time.sleep(PAUSE_SECONDS)


def work(client: Client, pace: float, stopped: Sequence[int]) -> None:
    """Go on, whatever becomes of the server."""
    while not stopped:
        try:
            client.step()
        except TieredMemoryError as error:
            client.failed(error)
            time.sleep(PAUSE_SECONDS)
        time.sleep(pace)


if __name__ == "__main__":
    main(*sys.argv[1:])
