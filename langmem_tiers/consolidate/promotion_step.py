"""The steps of a cycle by which what has proven itself is promoted, and what failed demoted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from langmem_tiers.consolidate.lease import check_guard, guard
from langmem_tiers.consolidate.models import Judge, judged
from langmem_tiers.consolidate.steps import (
    Cycle,
    CycleStep,
    Finding,
    Proposal,
    StepCounts,
    StepDecision,
    counted,
    decision,
    version,
)
from langmem_tiers.consolidate.stored import MovingStep, Stored, move_id, read
from langmem_tiers.core.errors import InvalidInputError, ModelError
from langmem_tiers.core.memory import Tier
from langmem_tiers.core.reading import LINE, shortened
from langmem_tiers.core.values import content_of
from langmem_tiers.learn import promotable, promote, rollback
from langmem_tiers.learn.chances import LIKELY_HARM
from langmem_tiers.learn.identifying import identifying
from langmem_tiers.learn.promotable import NEEDS, Generaliser, Promoting
from langmem_tiers.learn.promote import Promotion
from langmem_tiers.learn.promotion_rules import PromotionDecision, PromotionPolicy
from langmem_tiers.postgres.flow import Call, Flow, Query, apart, extent, rows_of
from langmem_tiers.remember.transaction import Check

PROVEN = "it has proven itself"
UNPROVEN = "it is not proven yet"
SETTLED = "it has lived on in another one"
UNSAID = "the model said nothing usable of it"
NOT_NOW = "it could not be promoted as things stood; explain tells why"
TURNED = "later outcomes turned against it"
HELPS = "runs do better with it"
SEEMS = "runs seem to do worse with it: it is shown to fewer"
UNKNOWN = "whether runs do better with it is not known yet"
_HARDLY_HARM = 0.05
HOLDS = "later outcomes have not turned against it"


class Promote(CycleStep):
    """Promotes what has proven itself."""

    name = "promote"

    def __init__(
        self, policy: PromotionPolicy, generaliser: Generaliser | None, judge: Judge | None = None
    ) -> None:
        """Hold what it is judged by, what says it for everybody, and who judges what is near."""
        self._policy = policy
        self._generaliser = generaliser
        self._judge = judge

    def select(self, cycle: Cycle, after: int, limit: int) -> Flow[list[int]]:
        """What may have proven itself."""
        call = promotable.candidates(self._how(cycle), after, limit)
        (rows,) = yield Query((call,), commit=True)
        return [row[0] for row in rows]

    def propose(self, cycle: Cycle, ids: Sequence[int]) -> Flow[Proposal]:
        """What has, and what it says for everybody; a model is asked for that here."""
        sources = yield from promotable.evidence(cycle.tenant, ids)
        how = self._how(cycle)
        how = how._replace(same=(yield from self._same(cycle, sources, how)))
        decisions: list[StepDecision] = []
        findings: list[Finding] = []
        kept: list[str] = []
        for source in sources:
            much = extent([source.value, source.near])
            worthy = yield from apart(partial(promote.judged, source, how), much)
            unlike = yield from apart(partial(promotable.unlike, source, how), much)
            if isinstance(worthy, Promotion):
                kept.append(SETTLED if worthy.decision is None else UNPROVEN)
                findings += _missed(source, worthy.decision, unlike)
                continue
            labels = promote.labels_of(worthy, cycle.tenant)
            try:
                told = yield from promotable.told_to_all(source, labels, how)
            except (ModelError, InvalidInputError):
                kept.append(UNSAID)
                continue
            if isinstance(told, str):
                kept.append(NEEDS)
                findings.append(_alone(source, told))
                continue
            words = None if told.content == content_of(source.value) else told.content
            detail = {"general": words, "same": sorted(how.same.get(source.id, ()))}
            decisions.append(decision(source, PROVEN, detail=detail))
            findings += (_near(source, one) for one in unlike)
        return Proposal(decisions=decisions, kept=counted(kept), findings=findings)

    def _same(
        self, cycle: Cycle, sources: Sequence[promotable.Promotable], how: Promoting
    ) -> Flow[dict[int, list[int]]]:
        """What is near to each near miss and says the same, as the judge says: it may decide."""
        if self._judge is None:
            return {}
        near = {
            tuple(sorted((source.id, int(one["id"]))))
            for source in sources
            if _is_near_miss(promote.judged(source, how).decision)
            for one in promotable.unlike(source, how)
        }
        ids = sorted({one for pair in near for one in pair})
        stored = {one.id: one for one in (yield from read(cycle, ids))}
        pairs = [
            _older_first(stored[one], stored[other])
            for one, other in sorted(near)
            if one in stored and other in stored
        ]
        same: dict[int, list[int]] = {}
        for one, other in (yield from judged(self._judge, "same", pairs)):
            same.setdefault(one.id, []).append(other.id)
            same.setdefault(other.id, []).append(one.id)
        return same

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
        """Promote a memory as it was judged, unless what became known since holds it back."""
        sources = yield from promotable.evidence(cycle.tenant, [one["id"]])
        if not sources or version(sources[0].updated_at) != one["version"]:
            return
        said = one["detail"]
        how = self._how(cycle)._replace(same={one["id"]: said.get("same", ())})
        worthy = promote.judged(sources[0], how)
        if isinstance(worthy, Promotion):
            return
        labels, words = promote.labels_of(worthy, cycle.tenant), said["general"]
        if words is not None and identifying(words, labels):
            return
        unasked = how._replace(generaliser=None)
        told = yield from promotable.told_to_all(sources[0], labels, unasked, words)
        if not isinstance(told, str):
            with suppress(InvalidInputError):
                yield from promote.promote_as(worthy, told, how)

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


class Demote(MovingStep):
    """Demotes what was promoted and has failed since, and what harms beyond doubt."""

    name = "demote"

    def __init__(self, policy: PromotionPolicy) -> None:
        """Hold what it is judged by."""
        self._policy = policy

    def select(self, cycle: Cycle, after: int, limit: int) -> Flow[list[int]]:
        """What was promoted and has failed a run since, and what some runs went without."""
        found = yield from rollback.doubted(cycle.tenant, self._policy, after, limit)
        return [one.id for one, _ in found]

    def propose(self, cycle: Cycle, ids: Sequence[int]) -> Flow[Proposal]:
        """Against which of these outcomes have turned."""
        after, limit = min(ids) - 1, max(ids) - min(ids) + 1
        found = yield from rollback.doubted(cycle.tenant, self._policy, after, limit)
        judged = [(one, verdict) for one, verdict in found if one.id in set(ids)]
        decisions = [
            decision(
                one, TURNED, detail={"reasons": [*map(str, verdict.reasons)], "tier": one.tier}
            )
            for one, verdict in judged
            if verdict.demote
        ]
        kept = (_kept(*one) for one in judged if not one[1].demote)
        credit = [
            _credit(one, verdict) for one, verdict in judged if isinstance(one, rollback.Tried)
        ]
        return Proposal(decisions=decisions, kept=counted(kept), findings=credit)

    def records(
        self, cycle: Cycle, todo: Sequence[StepDecision], params: dict[str, Any]
    ) -> Sequence[Call]:
        """Demote them."""
        moves = zip(todo, params["events"], strict=True)
        return [_demotion(cycle, one, move) for one, move in moves]


def _kept(one: rollback.Promoted | rollback.Tried, verdict: PromotionDecision) -> str:
    """Why a memory stays, as far as its outcomes tell."""
    if isinstance(one, rollback.Promoted):
        return HOLDS
    harm = verdict.reasons[-1].value or 0.0
    if harm >= LIKELY_HARM:
        return SEEMS
    return HELPS if harm <= _HARDLY_HARM else UNKNOWN


def _credit(one: rollback.Tried, verdict: PromotionDecision) -> Finding:
    """What outcomes say of a memory, for the report."""
    reason = TURNED if verdict.demote else _kept(one, verdict)
    return Finding(
        namespace=one.namespace,
        key=one.key,
        target_namespace=None,
        target_key=None,
        reason=f"{reason} ({one.counts})",
        credit={HELPS: "helps", UNKNOWN: "unknown"}.get(reason, "harms"),
        content=shortened(one.content, LINE),
    )


def _demotion(cycle: Cycle, one: StepDecision, move: str) -> Call:
    told = one["detail"]
    memory = one["id"], told.get("tier", Tier.LONG_TERM)
    return rollback.demotion(cycle.tenant, memory, move, told["reasons"], cycle.moment)


def _known(cycle: Cycle, moves: Sequence[str]) -> Flow[dict[str, list[int]]]:
    """Those moves that were written, and the memories that each moved."""
    rows = yield from rows_of("known_moves", tenant=cycle.tenant, events=sorted(moves))
    return {row[0]: row[1] or [] for row in rows}


def _older_first(one: Stored, other: Stored) -> tuple[Stored, Stored]:
    return (one, other) if one.created_at <= other.created_at else (other, one)


def _is_near_miss(decided: PromotionDecision | None) -> bool:
    return decided is not None and len(decided.lacks) == 1


def _missed(
    source: promotable.Promotable,
    decided: PromotionDecision | None,
    unlike: Sequence[Mapping[str, Any]],
) -> Iterator[Finding]:
    """That a memory lacks but one thing to be promoted, and what is near to it."""
    if decided is None or not _is_near_miss(decided):
        return
    yield _alone(source, f"it lacks: {decided.lacks[0]}")
    yield from (_near(source, one) for one in unlike)


def _alone(source: promotable.Promotable, reason: str) -> Finding:
    """Why a memory stays that is nearly promoted."""
    return Finding(
        namespace=source.namespace,
        key=source.key,
        target_namespace=None,
        target_key=None,
        reason=reason,
    )


def _near(source: promotable.Promotable, one: Mapping[str, Any]) -> Finding:
    """That what is near to a memory does not go along with it."""
    return Finding(
        namespace=source.namespace,
        key=source.key,
        target_namespace=one["namespace"],
        target_key=one["key"],
        reason=f"the same or the opposite? near ({1 - one['distance']:.2f}), and not counted",
        near=1 - one["distance"],
    )
