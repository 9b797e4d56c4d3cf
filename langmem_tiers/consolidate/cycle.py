"""What a cycle is made of, in the order in which it happens; expiry and decay."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta

from langmem_tiers.consolidate.judge import Judge
from langmem_tiers.consolidate.lease import check_guard, guard
from langmem_tiers.consolidate.merge import Merge
from langmem_tiers.consolidate.policy import ConsolidationPolicy
from langmem_tiers.consolidate.promotion import Demote, Promote
from langmem_tiers.consolidate.rise import Rise
from langmem_tiers.consolidate.session import SessionEnd
from langmem_tiers.consolidate.session_rules import Summariser
from langmem_tiers.consolidate.steps import Applied, Cycle, Decision, Proposal, Step
from langmem_tiers.consolidate.stored import Unnoted, counted, decision, hold, read
from langmem_tiers.consolidate.supersede import Supersede
from langmem_tiers.core.namespaces import Place
from langmem_tiers.learn.generalise import DETERMINISTIC, Generaliser
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


def steps(
    policy: ConsolidationPolicy,
    generaliser: Generaliser = DETERMINISTIC,
    judge: Judge | None = None,
    archive_step: Step | None = None,
    summariser: Summariser | None = None,
) -> tuple[Step, ...]:
    """The steps that a policy asks for.

    They are session_end, rise, expire, merge, supersede, demote, promote, decay and archive, in
    this order. Without a `judge`, what says the same and what contradicts is proposed only.
    `archive_step` is done if the policy archives; a `summariser` sums up what sessions noted.
    """
    return tuple(_steps(policy, generaliser, judge, archive_step, summariser))


def _steps(
    policy: ConsolidationPolicy,
    generaliser: Generaliser,
    judge: Judge | None,
    archive_step: Step | None,
    summariser: Summariser | None,
) -> Iterator[Step]:
    if policy.rise is not None:
        yield SessionEnd(policy.rise, summariser)
        yield Rise(policy.rise)
    if policy.expiry:
        yield Expire()
    if policy.merge is not None:
        yield Merge(policy.merge, judge)
    if policy.supersede is not None:
        yield Supersede(policy.supersede, judge)
    if policy.promotion is not None:
        yield Demote(policy.promotion)
        yield Promote(policy.promotion, generaliser)
    if policy.decay:
        yield Decay()
    if policy.archive is not None and archive_step is not None:
        yield archive_step
