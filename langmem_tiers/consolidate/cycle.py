"""What a cycle is made of, in order; rising, expiry, promotion and decay."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from langmem_tiers.consolidate import steps as parts
from langmem_tiers.consolidate.lease import check_guard, guard
from langmem_tiers.consolidate.merge import Merge, Outdated, Supersede
from langmem_tiers.consolidate.models import Judge, Summariser
from langmem_tiers.consolidate.policy import ConsolidationPolicy, RisePolicy, rises
from langmem_tiers.consolidate.promotion_step import Demote, Promote
from langmem_tiers.consolidate.session_end import SessionEnd, ended_sessions
from langmem_tiers.consolidate.steps import Cycle, CycleStep, Proposal, StepCounts, StepDecision
from langmem_tiers.consolidate.stored import MovingStep, hold, read, select
from langmem_tiers.core.memory import Tier
from langmem_tiers.core.namespaces import Place
from langmem_tiers.learn.general import Generaliser
from langmem_tiers.postgres.flow import Call, Flow, Query, begun_anew, rows_of
from langmem_tiers.store.write import Write, delete_expired_calls

STAYS = "it has not reached what rises"
EXPIRED = "its time to live is over"
UNREAD = f"{EXPIRED}, and nobody had read it"
READ_SINCE = "it was read or written meanwhile"
FADES = "it was not accessed for a day or more"
ACCESSED = "it was accessed or deleted meanwhile"
LEAST = timedelta(days=1)
"""Younger strengths are left: in a day they lose 2 %."""


class Rise(MovingStep):
    """Moves what belongs to the project from short_term to working; ended sessions as well."""

    name = "rise"
    tiers = (Tier.SHORT_TERM,)

    def __init__(self, policy: RisePolicy) -> None:
        """Hold what the rule goes by."""
        self._policy = policy

    def select(self, cycle: Cycle, after: int, limit: int) -> Flow[list[int]]:
        """What may rise."""
        params = {
            "ended": (yield from ended_sessions(cycle)),
            "accesses": self._policy.min_access_count,
            "importance": self._policy.min_importance,
            "life": cycle.options.tier_ttl.get(Tier.SHORT_TERM),
        }
        return (yield from select(cycle, "select_rising", after, limit, **params))

    def propose(self, cycle: Cycle, ids: Sequence[int]) -> Flow[Proposal]:
        """What the rule says of each."""
        decisions, kept = [], []
        for one in (yield from read(cycle, ids)):
            # What nobody reads or thinks important was selected for its session alone.
            idle = cycle.idle_since is not None and one.updated_at <= cycle.idle_since
            ended = one.namespace in cycle.ended or idle
            reason = rises(self._policy, one.importance, one.access_count, ended=ended)
            if reason is None:
                kept.append(STAYS)
            else:
                decisions.append(parts.decision(one, reason))
        return Proposal(decisions=decisions, kept=parts.counted(kept))

    def apply(self, cycle: Cycle, decisions: Sequence[StepDecision]) -> Flow[StepCounts]:
        """Move those that are as they were judged; what has just expired rises too."""
        moment = cycle.moment._replace(omit_expired=False)
        return super().apply(cycle._replace(moment=moment), decisions)

    def records(
        self, cycle: Cycle, _: Sequence[StepDecision], params: dict[str, Any]
    ) -> Sequence[Call]:
        """Move them to working, for as long as what stands there lives."""
        return [Call("record_rises", params | {"ttl": cycle.options.tier_ttl.get(Tier.WORKING)})]


class Expire(CycleStep):
    """Removes what has expired by the cycle's moment."""

    name = "expire"

    def select(self, cycle: Cycle, after: int, limit: int) -> Flow[list[int]]:
        """What has expired."""
        return select(cycle, "select_expired", after, limit)

    def propose(self, cycle: Cycle, ids: Sequence[int]) -> Flow[Proposal]:
        """All of it goes; what nobody had read is counted apart."""
        stored = yield from read(cycle, ids)
        decided = [parts.decision(one, EXPIRED if one.access_count else UNREAD) for one in stored]
        return Proposal(decisions=decided, kept={})

    @begun_anew
    def apply(self, cycle: Cycle, decisions: Sequence[StepDecision]) -> Flow[StepCounts]:
        """Remove what is still expired. What is gone by now is done."""
        yield from hold(cycle, decisions)
        gone = [
            Write(place=Place(cycle.tenant, one["namespace"]), key=one["key"], value=None)
            for one in decisions
        ]
        params = {"tenant": cycle.tenant, "ids": [one["id"] for one in decisions]}
        removal = delete_expired_calls(gone, cycle.moment.now)
        *_, rows = yield Query((*removal, Call("stored_memories", params)), commit=True)
        return parts.carried_out(decisions, {row[0]: READ_SINCE for row in rows})


class Decay(CycleStep):
    """Brings strengths up to date."""

    name = "decay"

    def select(self, cycle: Cycle, after: int, limit: int) -> Flow[list[int]]:
        """Memories whose strength is as of a day ago, or longer."""
        return select(cycle, "select_fading", after, limit, before=cycle.moment.now - LEAST)

    def propose(self, cycle: Cycle, ids: Sequence[int]) -> Flow[Proposal]:
        """All of them fade."""
        stored = yield from read(cycle, ids)
        return Proposal(decisions=[parts.decision(one, FADES) for one in stored], kept={})

    @begun_anew
    def apply(self, cycle: Cycle, decisions: Sequence[StepDecision]) -> Flow[StepCounts]:
        """Bring those up to date that are not yet."""
        (guarded,) = yield Query((guard(cycle),))
        check_guard(guarded, cycle.tenant)
        ids = {one["id"] for one in decisions}
        before = cycle.moment.now - LEAST
        rows = yield from rows_of("fade", **cycle.params, ids=[*ids], before=before)
        left = dict.fromkeys(ids - {row[0] for row in rows}, ACCESSED)
        return parts.carried_out(decisions, left)


def steps(
    policy: ConsolidationPolicy,
    generaliser: Generaliser | None = None,
    judge: Judge | None = None,
    archive_step: CycleStep | None = None,
    summariser: Summariser | None = None,
) -> tuple[CycleStep, ...]:
    """The steps that a policy asks for.

    They are session_end, rise, expire, merge, supersede, outdated, demote, promote, decay and
    archive, in this order. Without a `judge`, repetitions and contradictions are only proposed.
    `archive_step` is done if the policy archives; a `summariser` sums up what sessions noted.
    """
    rise, merge, supersede = policy.rise, policy.merge, policy.supersede
    promotion = policy.promotion
    wanted: tuple[CycleStep | None, ...] = (
        None if rise is None else SessionEnd(summariser),
        None if rise is None else Rise(rise),
        Expire() if policy.expiry else None,
        None if merge is None else Merge(merge, judge, supersede),
        None if supersede is None else Supersede(supersede, judge),
        None if supersede is None else Outdated(),
        None if promotion is None else Demote(promotion),
        None if promotion is None else Promote(promotion, generaliser, judge),
        Decay() if policy.decay else None,
        None if policy.archive is None else archive_step,
    )
    return tuple(one for one in wanted if one is not None)
