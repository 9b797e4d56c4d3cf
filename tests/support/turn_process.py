"""A process that commits a turn, and ends at a point that a test names."""

from __future__ import annotations

import logging
import multiprocessing
import signal
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from langmem_tiers import MemoryCoordinator, MemoryOrchestrator, TieredStore
from langmem_tiers.core.errors import DatabaseError
from tests.support.coordinating import coordinator
from tests.support.opening import Clock, text_index
from tests.support.worker_process import Plan, _Waits

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload([__name__])


def opened(url: str) -> TieredStore:
    """A store whose clock stands still."""
    return TieredStore(url, index=text_index(), clock=Clock())


def whose(store: TieredStore) -> MemoryCoordinator:
    """Whose turns they are."""
    return coordinator(store, project_id="billing", session_id="chat", agent_id="coder")


def committing(plan: Plan, state: Mapping[str, Any]) -> int | None:
    """Commit a turn in a process of its own; how often that waited, None if it was killed."""
    hears, tells = _context.Pipe(duplex=False)
    process = _context.Process(target=_commit, args=(plan, state, tells), daemon=True)
    process.start()
    tells.close()
    waited = None
    try:
        while hears.poll(60):
            heard = hears.recv()
            waited = heard if isinstance(heard, int) else waited
    except EOFError:
        pass
    process.join(60)
    assert process.exitcode in (0, -signal.SIGKILL)
    return waited


def _commit(plan: Plan, state: Mapping[str, Any], tells: Connection) -> None:
    logging.getLogger("psycopg.pool").addHandler(logging.NullHandler())
    waits = _Waits(plan, tells)
    with opened(plan.url) as store:
        turn = MemoryOrchestrator(whose(store)).begin(state)
        waits.count()
        with suppress(DatabaseError):  # its outcome is not known where the server was killed
            turn.commit()
        tells.send(waits.numbers["server"])
