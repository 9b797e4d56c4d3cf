"""What a cycle is made of, in order; rising, expiry, promotion and decay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any

from langmem_tiers.consolidate.lease import check_guard, guard
from langmem_tiers.consolidate.merge import Merge
from langmem_tiers.consolidate.models import Judge, Summariser
from langmem_tiers.consolidate.policy import ConsolidationPolicy, RisePolicy, rises
from langmem_tiers.consolidate.session_step import SessionEnd, ended_sessions
from langmem_tiers.consolidate.steps import (
    Cycle,
    CycleStep,
    NearPair,
    Proposal,
    StepCounts,
    StepDecision,
    counted,
    decision,
    version,
)
from langmem_tiers.consolidate.stored import hold, move_all, move_id, read, select
from langmem_tiers.consolidate.supersede import Supersede
from langmem_tiers.core.errors import InvalidInputError, ModelError
from langmem_tiers.core.memory import Tier
from langmem_tiers.core.namespaces import Place
from langmem_tiers.core.values import content_of
from langmem_tiers.learn import promotable, promote, rollback
from langmem_tiers.learn.generalise import Generaliser
from langmem_tiers.learn.promotable import Promoting
from langmem_tiers.learn.promote import Promotion
from langmem_tiers.learn.promotion_rules import PromotionPolicy, should_demote
from langmem_tiers.postgres.flow import Call, Flow, Query, apart, begun_anew, extent, rows_of
from langmem_tiers.remember.transaction import Check
from langmem_tiers.store.write import Write, delete_expired_calls

STAYS = "it has not reached what rises"
EXPIRED = "its time to live is over"
UNREAD = f"{EXPIRED}, and nobody had read it"
READ_SINCE = "it was read or written meanwhile"
FADES = "it was not accessed for a day or more"
ACCESSED = "it was accessed or deleted meanwhile"
LEAST = timedelta(days=1)
"""Younger strengths are left: in a day they lose 2 %."""
PROVEN = "it has proven itself"
UNPROVEN = "it is not proven yet"
SETTLED = "it has lived on in another one"
UNSAID = "the model said nothing usable of it"
NOT_NOW = "it could not be promoted as things stood; explain tells why"
TURNED = "later outcomes turned against it"
HOLDS = "later outcomes have not turned against it"


class Rise(CycleStep):
    """Moves what belongs to the project from short_term to working; ended sessions as well."""

    name = "rise"

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
                decisions.append(decision(one, reason))
        return Proposal(decisions=decisions, kept=counted(kept))

    def apply(self, cycle: Cycle, decisions: Sequence[StepDecision]) -> Flow[StepCounts]:
        """Move those that are as they were judged; what has just expired rises too."""
        ttl = {"ttl": cycle.options.tier_ttl.get(Tier.WORKING)}
        return move_all(
            cycle._replace(moment=cycle.moment._replace(omit_expired=False)),
            decisions,
            lambda one: move_id(cycle, self.name, one["id"]),
            lambda holding, one: holding.against(one, (Tier.SHORT_TERM,)),
            lambda _, params: [Call("record_rises", params | ttl)],
        )


class Expire(CycleStep):
    """Removes what has expired by the cycle's moment."""

    name = "expire"

    def select(self, cycle: Cycle, after: int, limit: int) -> Flow[list[int]]:
        """What has expired."""
        return select(cycle, "select_expired", after, limit)

    def propose(self, cycle: Cycle, ids: Sequence[int]) -> Flow[Proposal]:
        """All of it goes; what nobody had read is counted apart."""
        stored = yield from read(cycle, ids)
        decided = [decision(one, EXPIRED if one.access_count else UNREAD) for one in stored]
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
        return _done_but(decisions, {row[0] for row in rows}, READ_SINCE)


class Decay(CycleStep):
    """Brings strengths up to date."""

    name = "decay"

    def select(self, cycle: Cycle, after: int, limit: int) -> Flow[list[int]]:
        """Memories whose strength is as of a day ago, or longer."""
        return select(cycle, "select_fading", after, limit, before=cycle.moment.now - LEAST)

    def propose(self, cycle: Cycle, ids: Sequence[int]) -> Flow[Proposal]:
        """All of them fade."""
        stored = yield from read(cycle, ids)
        return Proposal(decisions=[decision(one, FADES) for one in stored], kept={})

    @begun_anew
    def apply(self, cycle: Cycle, decisions: Sequence[StepDecision]) -> Flow[StepCounts]:
        """Bring those up to date that are not yet."""
        (guarded,) = yield Query((guard(cycle),))
        check_guard(guarded, cycle.tenant)
        ids = {one["id"] for one in decisions}
        before = cycle.moment.now - LEAST
        rows = yield from rows_of("fade", **cycle.params, ids=[*ids], before=before)
        return _done_but(decisions, ids - {row[0] for row in rows}, ACCESSED)


def _done_but(decisions: Sequence[StepDecision], left: set[int], why: str) -> StepCounts:
    """That all was carried out but what was left."""
    return StepCounts(
        done=counted(one["reason"] for one in decisions if one["id"] not in left),
        left=counted(why for one in decisions if one["id"] in left),
        moves=[],
    )


class Promote(CycleStep):
    """Promotes what has proven itself."""

    name = "promote"

    def __init__(self, policy: PromotionPolicy, generaliser: Generaliser | None) -> None:
        """Hold what it is judged by, and what says it for everybody."""
        self._policy = policy
        self._generaliser = generaliser

    def select(self, cycle: Cycle, after: int, limit: int) -> Flow[list[int]]:
        """What may have proven itself."""
        call = promotable.candidates(self._how(cycle), after, limit)
        (rows,) = yield Query((call,), commit=True)
        return [row[0] for row in rows]

    def propose(self, cycle: Cycle, ids: Sequence[int]) -> Flow[Proposal]:
        """What has, and what it says for everybody; a model is asked for that here."""
        how = self._how(cycle)
        decisions: list[StepDecision] = []
        findings: list[NearPair] = []
        kept: list[str] = []
        for source in (yield from promotable.evidence(cycle.tenant, ids)):
            much = extent([source.value, source.near])
            worthy = yield from apart(partial(promote.judged, source, how), much)
            if isinstance(worthy, Promotion):
                kept.append(SETTLED if worthy.decision is None else UNPROVEN)
                continue
            names = promote.private_names(worthy, cycle.tenant)
            said = content_of(source.value)
            try:
                general = yield from promotable.said_for_all(said, names, self._generaliser)
            except (ModelError, InvalidInputError):
                kept.append(UNSAID)
                continue
            detail = {"general": general, "names": names}
            decisions.append(decision(source, PROVEN, detail=detail))
            unlike = yield from apart(partial(promotable.unlike, source, how), much)
            findings += (_finding(source, one) for one in unlike)
        return Proposal(decisions=decisions, kept=counted(kept), findings=findings)

    def apply(self, cycle: Cycle, decisions: Sequence[StepDecision]) -> Flow[StepCounts]:
        """Promote them one by one. One that went along with another is done."""
        moves = {one["id"]: move_id(cycle, self.name, one["id"]) for one in decisions}
        known = yield from _known(cycle, list(moves.values()))
        along = {one for sources in known.values() for one in sources}
        done: list[str] = []
        left: list[str] = []
        for one in decisions:
            if one["id"] not in along:
                yield from self._promote(cycle, one)
                known = yield from _known(cycle, list(moves.values()))
                along = {one for sources in known.values() for one in sources}
            fits = one["id"] in along
            (done if fits else left).append(one["reason"] if fits else NOT_NOW)
        written = [one for one in moves.values() if one in known]
        return StepCounts(done=counted(done), left=counted(left), moves=written)

    def _promote(self, cycle: Cycle, one: StepDecision) -> Flow[None]:
        """Promote a memory as it was judged, unless a name became known that was not left out."""
        sources = yield from promotable.evidence(cycle.tenant, [one["id"]])
        if not sources or version(sources[0].updated_at) != one["version"]:
            return
        how, said = self._how(cycle), one["detail"]
        worthy = promote.judged(sources[0], how)
        if isinstance(worthy, Promotion):
            return
        names = promote.private_names(worthy, cycle.tenant)
        if set(names) <= set(said["names"]):
            with suppress(InvalidInputError):
                yield from promote.promote_as(worthy, said["general"], names, how)

    def _how(self, cycle: Cycle) -> Promoting:
        return Promoting(
            cycle.tenant,
            self._policy,
            self._generaliser,
            cycle.options,
            cycle.moment,
            lambda: cycle.moment,
            lambda one: move_id(cycle, self.name, one),
            Check(lambda _: guard(cycle), lambda rows: check_guard(rows, cycle.tenant)),
        )


class Demote(CycleStep):
    """Demotes what was promoted and has failed since."""

    name = "demote"

    def __init__(self, policy: PromotionPolicy) -> None:
        """Hold what it is judged by."""
        self._policy = policy

    def select(self, cycle: Cycle, after: int, limit: int) -> Flow[list[int]]:
        """What was promoted and has failed a run since."""
        found = yield from rollback.promoted(cycle.tenant, self._policy, after, limit)
        return [one.id for one in found]

    def propose(self, cycle: Cycle, ids: Sequence[int]) -> Flow[Proposal]:
        """Against which of these outcomes have turned."""
        after, limit = min(ids) - 1, max(ids) - min(ids) + 1
        found = yield from rollback.promoted(cycle.tenant, self._policy, after, limit)
        judged = [
            (one, should_demote(one.successes, one.failures, self._policy))
            for one in found
            if one.id in set(ids)
        ]
        decisions = [
            decision(one, TURNED, detail={"reasons": list(map(str, verdict.reasons))})
            for one, verdict in judged
            if verdict.demote
        ]
        kept = (HOLDS for _, verdict in judged if not verdict.demote)
        return Proposal(decisions=decisions, kept=counted(kept))

    def apply(self, cycle: Cycle, decisions: Sequence[StepDecision]) -> Flow[StepCounts]:
        """Demote those that are as they were judged."""

        def named(one: StepDecision) -> str:
            return move_id(cycle, self.name, one["id"])

        return move_all(
            cycle,
            decisions,
            named,
            lambda holding, one: holding.against(one, (Tier.LONG_TERM,)),
            lambda todo, _: [
                rollback.demotion(
                    cycle.tenant, one["id"], named(one), one["detail"]["reasons"], cycle.moment
                )
                for one in todo
            ],
        )


def _known(cycle: Cycle, moves: Sequence[str]) -> Flow[dict[str, list[int]]]:
    """Those moves that were written, and the memories that each moved."""
    rows = yield from rows_of("known_moves", tenant=cycle.tenant, events=sorted(moves))
    return {row[0]: row[1] or [] for row in rows}


def _finding(source: promotable.Promotable, one: Mapping[str, Any]) -> NearPair:
    """That what is near to a memory does not go along with it."""
    return NearPair(
        namespace=source.namespace,
        key=source.key,
        target_namespace=one["namespace"],
        target_key=one["key"],
        reason=f"near ({1 - one['distance']:.2f}) and not the same: not counted, and left as it is",
    )


def steps(
    policy: ConsolidationPolicy,
    generaliser: Generaliser | None = None,
    judge: Judge | None = None,
    archive_step: CycleStep | None = None,
    summariser: Summariser | None = None,
) -> tuple[CycleStep, ...]:
    """The steps that a policy asks for.

    They are session_end, rise, expire, merge, supersede, demote, promote, decay and archive, in
    this order. Without a `judge`, what says the same and what contradicts is proposed only.
    `archive_step` is done if the policy archives; a `summariser` sums up what sessions noted.
    """
    rise, merge, supersede = policy.rise, policy.merge, policy.supersede
    promotion = policy.promotion
    wanted: tuple[CycleStep | None, ...] = (
        None if rise is None else SessionEnd(rise, summariser),
        None if rise is None else Rise(rise),
        Expire() if policy.expiry else None,
        None if merge is None else Merge(merge, judge, supersede),
        None if supersede is None else Supersede(supersede, judge),
        None if promotion is None else Demote(promotion),
        None if promotion is None else Promote(promotion, generaliser),
        Decay() if policy.decay else None,
        None if policy.archive is None else archive_step,
    )
    return tuple(one for one in wanted if one is not None)
