"""The steps of a cycle by which what has proven itself is promoted, and what failed demoted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Any

from langmem_tiers.consolidate import steps
from langmem_tiers.consolidate.lease import check_guard, guard
from langmem_tiers.consolidate.models import Judge, judged
from langmem_tiers.consolidate.stored import MovingStep, move_id, read
from langmem_tiers.core.errors import InvalidInputError, ModelError
from langmem_tiers.core.memory import Tier
from langmem_tiers.core.reading import LINE, shortened
from langmem_tiers.learn import promote, rollback
from langmem_tiers.learn.general import Generaliser, identifying
from langmem_tiers.learn.outcome import LIKELY_HARM
from langmem_tiers.learn.promote import Judged, Promotable, Promoting
from langmem_tiers.learn.promotion_rules import PromotionPolicy
from langmem_tiers.learn.rollback import Doubted
from langmem_tiers.postgres.flow import Call, Flow, apart, extent, rows_of
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


class Promote(steps.CycleStep):
    """Promotes what has proven itself."""

    name = "promote"

    def __init__(
        self, policy: PromotionPolicy, generaliser: Generaliser | None, judge: Judge | None = None
    ) -> None:
        """Hold what it is judged by, what says it for everybody, and who judges what is near."""
        self._policy = policy
        self._generaliser = generaliser
        self._judge = judge

    def select(self, cycle: steps.Cycle, after: int, limit: int) -> Flow[list[int]]:
        """What may have proven itself."""
        return promote.candidates(self._how(cycle), after, limit)

    def propose(self, cycle: steps.Cycle, ids: Sequence[int]) -> Flow[steps.Proposal]:
        """What has, and what it says for everybody; a model is asked for that here."""
        sources = yield from promote.evidence(cycle.tenant, ids)
        how = self._how(cycle)
        how = how._replace(same=(yield from self._same(cycle, sources, how)))
        decisions: list[steps.StepDecision] = []
        findings: list[steps.Finding] = []
        kept: list[str] = []
        for source in sources:
            much = extent([source.value, source.near])
            one = yield from apart(partial(promote.judge, source, how), much)
            if not one.worthy:
                kept.append(UNPROVEN if one.settled is None else SETTLED)
                if _is_near_miss(one):
                    findings += [
                        steps.finding(source, f"it lacks: {one.decision.lacks[0]}"),
                        *_near(one),
                    ]
                continue
            try:
                told = yield from promote.told_to_all(one, how)
            except (ModelError, InvalidInputError):
                kept.append(UNSAID)
                continue
            if isinstance(told, str):
                kept.append(promote.NEEDS)
                findings.append(steps.finding(source, told))
                continue
            words = None if told["content"] == source.content else told["content"]
            detail = {"general": words, "same": sorted(how.same.get(source.id, ()))}
            decisions.append(steps.decision(source, PROVEN, detail=detail))
            findings += _near(one)
        return steps.Proposal(decisions=decisions, kept=steps.counted(kept), findings=findings)

    def _same(
        self, cycle: steps.Cycle, sources: Sequence[Promotable], how: Promoting
    ) -> Flow[dict[int, list[int]]]:
        """What is near to each near miss and says the same, as the judge says: it may decide."""
        same: dict[int, list[int]] = {}
        if self._judge is None:
            return same
        near = {
            tuple(sorted((one.source.id, int(other["id"]))))
            for one in (promote.judge(source, how) for source in sources)
            if _is_near_miss(one)
            for other in one.unlike
        }
        ids = sorted({one for pair in near for one in pair})
        stored = {one.id: one for one in (yield from read(cycle, ids))}
        found = [[stored[one] for one in pair] for pair in sorted(near) if stored.keys() >= {*pair}]
        in_order = (sorted(pair, key=lambda one: one.recorded) for pair in found)
        pairs = [(older, newer) for older, newer in in_order]
        for older, newer in (yield from judged(self._judge, "same", pairs)):
            same.setdefault(older.id, []).append(newer.id)
            same.setdefault(newer.id, []).append(older.id)
        return same

    def apply(
        self, cycle: steps.Cycle, decisions: Sequence[steps.StepDecision]
    ) -> Flow[steps.StepCounts]:
        """Promote them one by one. One that went along with another is done."""
        moves = [move_id(cycle, self.name, one["id"]) for one in decisions]
        before = yield from _known(cycle, moves)
        for one in decisions:
            if one["id"] not in chain.from_iterable(before.values()):
                yield from self._promote(cycle, one)
        known = yield from _known(cycle, moves)
        went = set(chain.from_iterable(known.values()))
        left = {one["id"]: NOT_NOW for one in decisions if one["id"] not in went}
        return steps.carried_out(decisions, left, [one for one in moves if one in known])

    def _promote(self, cycle: steps.Cycle, one: steps.StepDecision) -> Flow[None]:
        """Promote a memory as it was judged, unless what became known since holds it back."""
        sources = yield from promote.evidence(cycle.tenant, [one["id"]])
        if not sources or steps.version(sources[0].updated_at) != one["version"]:
            return
        same, words = one["detail"].get("same", ()), one["detail"]["general"]
        how = self._how(cycle)._replace(same={one["id"]: same}, generaliser=None)
        labels = promote.judge(sources[0], how).labels(cycle.tenant)
        if words is None or not identifying(words, labels):
            with suppress(InvalidInputError):
                yield from promote.promote_one(sources[0], how, words)

    def _how(self, cycle: steps.Cycle) -> Promoting:
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

    def select(self, cycle: steps.Cycle, after: int, limit: int) -> Flow[list[int]]:
        """What was promoted and has failed a run since, and what some runs went without."""
        found = yield from rollback.doubted(cycle.tenant, self._policy, after, limit)
        return [one.id for one in found]

    def propose(self, cycle: steps.Cycle, ids: Sequence[int]) -> Flow[steps.Proposal]:
        """Against which of these outcomes have turned."""
        after, limit = min(ids) - 1, max(ids) - min(ids) + 1
        found = yield from rollback.doubted(cycle.tenant, self._policy, after, limit)
        doubted = [one for one in found if one.id in set(ids)]
        decisions = [
            steps.decision(
                one, TURNED, detail={"reasons": [*map(str, one.decision.reasons)], "tier": one.tier}
            )
            for one in doubted
            if one.decision.demote
        ]
        kept = steps.counted(_verdict(one) for one in doubted if not one.decision.demote)
        credit = [_credit(one) for one in doubted if one.counts is not None]
        return steps.Proposal(decisions=decisions, kept=kept, findings=credit)

    def records(
        self, cycle: steps.Cycle, todo: Sequence[steps.StepDecision], params: dict[str, Any]
    ) -> Sequence[Call]:
        """Demote them."""
        calls = []
        for one, move in zip(todo, params["events"], strict=True):
            memory = one["id"], one["detail"].get("tier", Tier.LONG_TERM)
            reasons = one["detail"]["reasons"]
            calls.append(rollback.demotion_call(cycle.tenant, memory, move, reasons, cycle.moment))
        return calls


def _verdict(one: Doubted) -> str:
    """What outcomes say of a memory, as far as they tell."""
    if one.decision.demote:
        return TURNED
    if one.counts is None:
        return HOLDS
    harm = one.decision.reasons[-1].value or 0.0
    if harm >= LIKELY_HARM:
        return SEEMS
    return HELPS if harm <= _HARDLY_HARM else UNKNOWN


def _credit(one: Doubted) -> steps.Finding:
    """What outcomes say of a memory, for the report."""
    reason = _verdict(one)
    found = steps.finding(one, f"{reason} ({one.counts})")
    credit = {HELPS: "helps", UNKNOWN: "unknown"}.get(reason, "harms")
    return {**found, "credit": credit, "content": shortened(one.content, LINE)}


def _known(cycle: steps.Cycle, moves: Sequence[str]) -> Flow[dict[str, list[int]]]:
    """Those moves that were written, and the memories that each moved."""
    rows = yield from rows_of("known_moves", tenant=cycle.tenant, events=sorted(moves))
    return {row[0]: row[1] or [] for row in rows}


def _is_near_miss(one: Judged) -> bool:
    """Whether a memory lacks but one thing to be promoted."""
    return one.settled is None and len(one.decision.lacks) == 1


def _near(judged: Judged) -> Iterator[steps.Finding]:
    """That what is near to a memory does not go along with it."""
    for one in judged.unlike:
        near, other = 1 - one["distance"], (one["namespace"], one["key"])
        reason = f"the same or the opposite? near ({near:.2f}), and not counted"
        yield steps.finding(judged.source, reason, other, near)
