"""Decay: the strength of each memory, which halves in 30 days, brought up to date."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from langmem_tiers.consolidate.lease import check_guard, guard
from langmem_tiers.consolidate.steps import Applied, Cycle, Decision, Proposal
from langmem_tiers.consolidate.stored import Unnoted, counted, decision, read
from langmem_tiers.postgres.flow import Call, Flow, Query, anew

FADES = "it was not accessed for a day or more"
ACCESSED = "it was accessed or deleted meanwhile"
LEAST = timedelta(days=1)
"""Younger strengths are left: in a day they lose 2 %."""


class Decay(Unnoted):
    """Brings strengths up to date."""

    name = "decay"

    def select(self, cycle: Cycle, after: int, limit: int) -> Flow[list[int]]:
        """Memories whose strength is as of a day ago, or longer."""
        params = {
            "tenant": cycle.tenant,
            "after": after,
            "before": cycle.moment.now - LEAST,
            "limit": limit,
        }
        (rows,) = yield Query((Call("select_fading", params),), commit=True)
        return [row[0] for row in rows]

    def propose(self, cycle: Cycle, ids: Sequence[int]) -> Flow[Proposal]:
        """All of them fade."""
        stored = yield from read(cycle, ids)
        return Proposal(decisions=[decision(one, FADES) for one in stored], kept={})

    def apply(self, cycle: Cycle, decisions: Sequence[Decision]) -> Flow[Applied]:
        """Bring those up to date that are not yet."""
        return anew(lambda: self._apply(cycle, decisions))

    def _apply(self, cycle: Cycle, decisions: Sequence[Decision]) -> Flow[Applied]:
        (guarded,) = yield Query((guard(cycle),))
        check_guard(guarded, cycle.tenant)
        params = {
            "tenant": cycle.tenant,
            "ids": [one["id"] for one in decisions],
            "before": cycle.moment.now - LEAST,
            "now": cycle.moment.now,
        }
        (rows,) = yield Query((Call("fade", params),), commit=True)
        faded = {row[0] for row in rows}
        done = (one["reason"] for one in decisions if one["id"] in faded)
        left = (ACCESSED for one in decisions if one["id"] not in faded)
        return Applied(done=counted(done), left=counted(left), moves=[])
