"""Rising: what of a session belongs to its project moves from short_term to working."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from langmem_tiers.consolidate.policy import RisePolicy
from langmem_tiers.consolidate.steps import Applied, Cycle, Decision, Proposal
from langmem_tiers.consolidate.stored import (
    Stored,
    Unnoted,
    counted,
    decision,
    hold,
    move_id,
    read,
    sort_out,
)
from langmem_tiers.core.memory import Tier
from langmem_tiers.postgres.flow import Call, Flow, Query, anew


class Note(NamedTuple):
    """A memory in short_term, as far as its rise depends on it."""

    importance: float | None = None
    """In 0…1; None if nobody told."""
    access_count: int = 0
    session_ended: bool = False


def rises(note: Note, policy: RisePolicy) -> str | None:
    """Why a note moves to working, in words that many share; None if it stays.

    The first of these that holds: it is important, it was read often, its session has ended. An
    importance that nobody told is never enough.
    """
    if note.importance is not None and note.importance >= policy.min_importance:
        return f"importance >= {policy.min_importance:g}"
    if note.access_count >= policy.min_access_count:
        return f"accesses >= {policy.min_access_count}"
    return "its session ended" if note.session_ended else None


class Rise(Unnoted):
    """Moves memories up; those of sessions that have ended as well."""

    name = "rise"

    def __init__(self, policy: RisePolicy) -> None:
        """Hold what the rule goes by."""
        self._policy = policy

    def select(self, cycle: Cycle, after: int, limit: int) -> Flow[list[int]]:
        """What may rise."""
        params = {
            "tenant": cycle.tenant,
            "after": after,
            "alive_at": cycle.moment.alive_at,
            "ended": sorted(cycle.ended),
            "accesses": self._policy.min_access_count,
            "importance": self._policy.min_importance,
            "lives": [one for one in _lives(cycle) if one is not None],
            "limit": limit,
        }
        (rows,) = yield Query((Call("select_rising", params),), commit=True)
        return [row[0] for row in rows]

    def propose(self, cycle: Cycle, ids: Sequence[int]) -> Flow[Proposal]:
        """What the rule says of each."""
        decisions, kept = [], []
        for one in (yield from read(cycle, ids)):
            reason = self._reason(one, cycle)
            if reason is None:
                kept.append("it has not reached what rises")
            else:
                decisions.append(decision(one, reason))
        return Proposal(decisions=decisions, kept=counted(kept))

    def _reason(self, one: Stored, cycle: Cycle) -> str | None:
        note = Note(one.importance, one.access_count, one.namespace in cycle.ended)
        return rises(note, self._policy)

    def apply(self, cycle: Cycle, decisions: Sequence[Decision]) -> Flow[Applied]:
        """Move those that are as they were judged."""
        return anew(lambda: self._apply(cycle, decisions))

    def _apply(self, cycle: Cycle, decisions: Sequence[Decision]) -> Flow[Applied]:
        moves = {one["id"]: move_id(cycle, self.name, one["id"], None) for one in decisions}
        whenever = cycle.moment._replace(omit_expired=False)  # what has just expired rises too
        holding = yield from hold(cycle._replace(moment=whenever), decisions, moves.values())
        found = sort_out(
            decisions,
            lambda one: moves[one["id"]] in holding.moves,
            lambda one: holding.against(one, (Tier.SHORT_TERM,)),
        )
        params = {
            "tenant": cycle.tenant,
            "ids": [one["id"] for one in found.todo],
            "events": [moves[one["id"]] for one in found.todo],
            "reasons": [one["reason"] for one in found.todo],
            "ttl": cycle.options.tier_ttl.get(Tier.WORKING),
            "now": cycle.moment.now,
        }
        calls = [Call("record_rises", params)] if found.todo else []
        yield Query(tuple(calls), commit=True)
        return found.applied(lambda one: moves[one["id"]])


def _lives(cycle: Cycle) -> tuple[float | None, float | None]:
    """The minutes that a memory lives of which nobody said how long it should."""
    return cycle.options.tier_ttl.get(Tier.SHORT_TERM), cycle.options.session_ttl
