"""MemoryOrchestrator: one turn of an agent, from the context it begins with to what it leaves."""

from __future__ import annotations

import logging
from types import TracebackType
from typing import Self

from langmem_tiers.core.errors import DatabaseError
from langmem_tiers.postgres.flow import both, plain
from langmem_tiers.turn import assembly, ending, keeping
from langmem_tiers.turn import history as told
from langmem_tiers.turn.turn import Turn

_log = logging.getLogger(__name__)


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
    note_progress, anote_progress = plain(keeping.note_progress)
    commit, acommit = both(ending.commit, "tool")

    get_budget_status, aget_budget_status = plain(Turn.get_budget_status)
    history, ahistory = both(told.history)
    turns, aturns = both(told.turns)

    def __enter__(self) -> Self:
        return self.begin()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if (leaving := ending.leave(self, error)) is None:
            return
        try:
            self.runner.run(leaving)
        except DatabaseError as refused:
            _tell_or_raise(refused, error)

    async def __aenter__(self) -> Self:
        return self.begin()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if (leaving := ending.leave(self, error)) is None:
            return
        try:
            await self.runner.arun(leaving)
        except DatabaseError as refused:
            _tell_or_raise(refused, error)


def _tell_or_raise(refused: DatabaseError, error: BaseException | None) -> None:
    """The error that ended a turn goes on; that its trace is lost is told beside it."""
    if error is None:
        raise refused
    _log.warning("the trace of a turn could not be written: %s", refused)
