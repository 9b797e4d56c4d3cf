"""The verbs that read what turns decided: one turn's trace, and the latest turns in brief."""

from __future__ import annotations

from langmem_tiers.memory.asking import checked_limit
from langmem_tiers.postgres.flow import Flow
from langmem_tiers.remember.new import checked_text, label
from langmem_tiers.turn.trace import EndedTurn, TurnTrace, ended_turns, trace_of
from langmem_tiers.turn.turn import Turn

_TURNS = 20
"""Turns that are listed unless told otherwise: our own choice."""


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

    They are those of the context's project, or of the whole tenant if it names none.

    Args:
        limit: How many at most: 0 to 1,000.
        session_id: Only those of this session.
    """
    return ended_turns(turn.context, checked_limit(limit), label(session_id, "session_id"))
