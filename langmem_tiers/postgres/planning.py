"""Statements that a connection has yet to plan have more time, the first time.

A recall is planned once a connection, which takes the server fifty milliseconds and more; on a busy
one, where a pool grows by several connections at once, ten times as long. If it were broken off
meanwhile it would be planned anew by the next recall, and broken off again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from langmem_tiers.postgres.flow import Call
from langmem_tiers.postgres.walls import Sent

PLANNING_MS: Final = 1_000
"""Milliseconds more for what is planned first: our own choice."""
_LIMIT: Final = "limit_time"


class Plans(Protocol):
    """A connection that knows which statements it has planned."""

    planned: set[str]


def with_planning(sent: Sequence[Sent], conn: Plans) -> Sequence[Sent]:
    """What is sent, in which a time-out counts planning where that is still to be done."""
    names = {one.call.name for one in sent}
    if _LIMIT not in names or names <= conn.planned:
        return sent
    return [
        one._replace(call=_longer(one.call)) if one.call.name == _LIMIT else one for one in sent
    ]


def planned(sent: Sequence[Sent], conn: Plans) -> None:
    """Note what was planned, once it has been answered."""
    if any(one.call.name == _LIMIT for one in sent):
        conn.planned |= {one.call.name for one in sent}


def _longer(limit: Call) -> Call:
    milliseconds = int(limit.params["milliseconds"]) + PLANNING_MS
    return limit._replace(params={"milliseconds": str(milliseconds)})
