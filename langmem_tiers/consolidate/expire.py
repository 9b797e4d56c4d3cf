"""Expiry: what has lived out its time is removed, with everything that hangs on it."""

from __future__ import annotations

from collections.abc import Sequence

from langmem_tiers.consolidate.steps import Applied, Cycle, Decision, Proposal
from langmem_tiers.consolidate.stored import Unnoted, counted, decision, hold, read
from langmem_tiers.core.namespaces import Place
from langmem_tiers.postgres.flow import Call, Flow, Query, anew
from langmem_tiers.store.write import Write, delete_expired_calls

EXPIRED = "its time to live is over"
UNREAD = f"{EXPIRED}, and nobody had read it"
READ_SINCE = "it was read or written meanwhile"


class Expire(Unnoted):
    """Removes what has expired by the cycle's moment."""

    name = "expire"

    def select(self, cycle: Cycle, after: int, limit: int) -> Flow[list[int]]:
        """What has expired."""
        params = {
            "tenant": cycle.tenant,
            "after": after,
            "now": cycle.moment.now,
            "limit": limit,
        }
        (rows,) = yield Query((Call("select_expired", params),), commit=True)
        return [row[0] for row in rows]

    def propose(self, cycle: Cycle, ids: Sequence[int]) -> Flow[Proposal]:
        """All of it goes; what nobody had read is counted apart."""
        stored = yield from read(cycle, ids)
        decided = [decision(one, EXPIRED if one.access_count else UNREAD) for one in stored]
        return Proposal(decisions=decided, kept={})

    def apply(self, cycle: Cycle, decisions: Sequence[Decision]) -> Flow[Applied]:
        """Remove what is still expired. What is gone by now is done."""
        return anew(lambda: self._apply(cycle, decisions))

    def _apply(self, cycle: Cycle, decisions: Sequence[Decision]) -> Flow[Applied]:
        yield from hold(cycle, decisions)
        gone = [
            Write(place=Place(cycle.tenant, one["namespace"]), key=one["key"], value=None)
            for one in decisions
        ]
        params = {"tenant": cycle.tenant, "ids": [one["id"] for one in decisions]}
        removal = delete_expired_calls(gone, cycle.moment.now)
        *_, rows = yield Query((*removal, Call("stored_memories", params)), commit=True)
        alive = {row[0] for row in rows}
        done = (one["reason"] for one in decisions if one["id"] not in alive)
        left = (READ_SINCE for one in decisions if one["id"] in alive)
        return Applied(done=counted(done), left=counted(left), moves=[])
