"""The verbs that read what turns decided: one turn's trace, and the latest turns in brief."""

from __future__ import annotations

from langmem_tiers.memory.asking import checked_limit
from langmem_tiers.memory.coordinator import MemoryCoordinator
from langmem_tiers.remember.new import checked_text, label
from langmem_tiers.turn.trace import EndedTurn, TurnTrace
from langmem_tiers.turn.trace_flows import history, turns

_TURNS = 20
"""Turns that are listed unless told otherwise: our own choice."""


class HistoryVerbs:
    """What the turns of a project decided, once they have ended."""

    memory: MemoryCoordinator

    def history(self, turn_id: str) -> TurnTrace:
        """What was decided in a turn that has ended.

        Raises:
            InvalidInputError: if the context's project has no such turn.
        """
        told = history(checked_text(turn_id, "turn_id"), self.memory.context)
        return self.memory.tiered_store.run(told)

    async def ahistory(self, turn_id: str) -> TurnTrace:
        """What was decided in a turn that has ended; see `history`."""
        told = history(checked_text(turn_id, "turn_id"), self.memory.context)
        return await self.memory.tiered_store.arun(told)

    def turns(self, limit: int = _TURNS, *, session_id: str | None = None) -> list[EndedTurn]:
        """How the project's turns ended, the latest first; one that failed is among them.

        They are those of the context's project, or of the whole tenant if it names none.

        Args:
            limit: How many at most: 0 to 1,000.
            session_id: Only those of this session.
        """
        told = turns(self.memory.context, checked_limit(limit), label(session_id, "session_id"))
        return self.memory.tiered_store.run(told)

    async def aturns(
        self, limit: int = _TURNS, *, session_id: str | None = None
    ) -> list[EndedTurn]:
        """How the project's turns ended, the latest first; see `turns`."""
        told = turns(self.memory.context, checked_limit(limit), label(session_id, "session_id"))
        return await self.memory.tiered_store.arun(told)
