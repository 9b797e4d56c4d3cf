"""MemoryOrchestrator: one turn of an agent, from the context it begins with to what it leaves."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Self

from langmem_tiers.core.checks import label
from langmem_tiers.core.errors import DatabaseError
from langmem_tiers.core.values import storable
from langmem_tiers.memory.asking import checked_limit
from langmem_tiers.postgres.flow import Flow, both, plain, rows_of
from langmem_tiers.remember.new import checked_text
from langmem_tiers.turn import assembly, ending, keeping
from langmem_tiers.turn.trace import EndedTurn, TurnTrace, trace_of
from langmem_tiers.turn.turn import Turn

_TURNS = 20
"""Turns that are listed unless told otherwise: our own choice."""
_log = logging.getLogger(__name__)


def history(turn: Turn, turn_id: str) -> Flow[TurnTrace]:
    """What was decided in a turn that has ended.

    Raises:
        InvalidInputError: if the context's project has no such turn.
    """
    return trace_of(checked_text(turn_id, "turn_id"), turn.context)


def turns(
    turn: Turn, limit: int = _TURNS, *, session_id: str | None = None
) -> Flow[list[EndedTurn]]:
    """How the project's turns ended, the latest first; one that failed is among them.

    They are those of the context's project, or of the whole tenant if it names none; but for
    those of other users.

    Args:
        limit: How many at most: 0 to 1,000.
        session_id: Only those of this session.
    """
    context, session = turn.context, label(session_id, "session_id")
    project = None if context.project_id is None else storable(context.project_id)
    params = {**context.whose, "limit": checked_limit(limit)}
    rows = yield from rows_of("turns_ended", **params, session=session, project=project)
    names = ("at", "kind", "turn", "began", "reason", "project_id", "session_id", "summary")
    found = [dict(zip(names, row[1:], strict=True)) for row in rows]
    for one in found:
        one["began"] = None if one["began"] is None else datetime.fromisoformat(one["began"])
        one["summary"] = dict(one["summary"] or {})
    return [EndedTurn(**one) for one in found]


class MemoryOrchestrator(Turn):
    """One turn: assembles its context, tracks what it does, and commits all of it or nothing.

    What is memorized and tracked is pending until `commit`, which writes it in one transaction.
    Left without a commit, the turn leaves its trace and the accesses that its recalls counted. It
    goes `with` and `async with`, and every verb has an async twin with an `a` in front.

    Example:
        ```python
        from langmem_tiers import Budget, MemoryContext, MemoryCoordinator, MemoryOrchestrator
        from langmem_tiers import TieredStore

        with TieredStore.embedded("./.memory") as store:
            memory = MemoryCoordinator(store, context=MemoryContext(tenant="acme"))
            with MemoryOrchestrator(memory, budget=Budget(tokens=2000)) as turn:
                context = turn.assemble_context("When do keys rotate?")
                print(context.text, context.tokens, context.sources)
                turn.track_tool_invocation("read_calendar", {"of": "ops"}, result="Mondays")
                turn.memorize("The API key rotates on Mondays.")
                print(turn.commit())
        ```
    """

    assemble_context, aassemble_context = both(assembly.assemble_context, "tool")
    track_tool_invocation, atrack_tool_invocation = plain(keeping.track_tool_invocation)
    memorize, amemorize = both(keeping.memorize, "tool")
    note_progress, anote_progress = both(keeping.note_progress)
    commit, acommit = both(ending.commit, "tool")

    get_budget_status, aget_budget_status = plain(Turn.get_budget_status)
    history, ahistory = both(history)
    turns, aturns = both(turns)

    def __enter__(self) -> Self:
        return self.begin()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        with _telling(error):
            if (leaving := ending.leave(self, error)) is not None:
                self.runner.run(leaving)

    async def __aenter__(self) -> Self:
        return self.begin()

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        with _telling(error):
            if (leaving := ending.leave(self, error)) is not None:
                await self.runner.arun(leaving)


@contextmanager
def _telling(error: BaseException | None) -> Iterator[None]:
    """The error that ended a turn goes on; that its trace is lost is told beside it."""
    try:
        yield
    except DatabaseError as refused:
        if error is None:
            raise
        _log.warning("the trace of a turn could not be written: %s", refused)
