"""Giving more time to a statement that a connection has yet to plan.

Each connection plans a recall once, which takes the server fifty milliseconds and more. A busy
server, where a pool grows by several connections at once, takes ten times as long. If planning were
broken off, the next recall would plan anew, and be broken off again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from langmem_tiers.postgres.flow import Call
from langmem_tiers.postgres.walls import Sent

PLANNING_MS: Final = 1_000
"""The milliseconds more for a statement that is yet to be planned: our own choice."""
_LIMIT: Final = "limit_time"


class Plans(Protocol):
    """A connection that knows which statements it has planned."""

    planned: set[str]
    prepare_threshold: int | None


def with_planning(sent: Sequence[Sent], conn: Plans) -> Sequence[Sent]:
    """Lengthen the time-out of what is sent where planning is still to be done."""
    names = {one.call.name for one in sent}
    if _LIMIT not in names or names <= conn.planned:
        return sent
    return [
        one._replace(call=_longer(one.call)) if one.call.name == _LIMIT else one for one in sent
    ]


def planned(sent: Sequence[Sent], conn: Plans) -> None:
    """Note the statements that were planned, once they have been answered.

    A connection that prepares nothing plans each anew.
    """
    if conn.prepare_threshold is not None and any(one.call.name == _LIMIT for one in sent):
        conn.planned |= {one.call.name for one in sent}


def _longer(limit: Call) -> Call:
    milliseconds = int(limit.params["milliseconds"]) + PLANNING_MS
    return limit._replace(params={"milliseconds": str(milliseconds)})
