"""The steps of a cycle, in order, and the code of those for which there is no other module."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from itertools import chain
from typing import Any

from langmem_tiers.consolidation import lease, merge, session_end
from langmem_tiers.consolidation.judges import Judge, Summariser, judge_pairs
from langmem_tiers.consolidation.policy import ConsolidationPolicy, RisePolicy, rise_reason
from langmem_tiers.consolidation.steps import (
    CHANGED,
    Cycle,
    CycleStep,
    MovingStep,
    Proposal,
    StepCounts,
    StepDecision,
    StepFinding,
    count_decisions,
    count_reasons,
    format_version,
    lock_rows,
    make_decision,
    make_finding,
    move_id,
    read_memories,
    select_ids,
)
from langmem_tiers.core.context import ABSENT, name_of_label
from langmem_tiers.core.errors import InvalidInputError, ModelError
from langmem_tiers.core.memory import Place, Tier, decode_namespace
from langmem_tiers.core.texts import LINE_LENGTH, shorten_line
from langmem_tiers.learning import promote
from langmem_tiers.learning.generalise import Generaliser, find_identifying
from langmem_tiers.learning.moves import DemotionCandidate, demotion_call, find_demotion_candidates
from langmem_tiers.learning.outcome import LIKELY_HARM
from langmem_tiers.learning.promotion_policy import PromotionCandidate, PromotionPolicy
from langmem_tiers.postgres.flow import (
    Call,
    Flow,
    Query,
    off_loop,
    reading_size,
    retried_on_conflict,
    rows_of,
)
from langmem_tiers.remember.commit import LockedCheck
from langmem_tiers.store.write import Write, delete_expired_calls, keys_of

NOT_RISING = "it has not reached what rises"
EXPIRED = "its time to live is over"
UNREAD = f"{EXPIRED}, and nobody had read it"
READ_SINCE = "it was read or written meanwhile"
FADES = "it was not accessed for a day or more"
ACCESSED = "it was accessed or deleted meanwhile"
MIN_DECAY_AGE = timedelta(days=1)
"""Younger strengths are left: in a day they lose 2 %."""

PROVEN = "it has proven itself"
UNPROVEN = "it is not proven yet"
SETTLED = "it has lived on in another one"
NOT_GENERALISED = "the model said nothing usable of it"
NOT_NOW = "it could not be promoted as things stood; explain tells why"
TURNED = "later outcomes turned against it"
HELPS = "runs do better with it"
SEEMS_HARMFUL = "runs seem to do worse with it: it is shown to fewer"
EFFECT_UNKNOWN = "whether runs do better with it is not known yet"
NOT_TURNED = "later outcomes have not turned against it"
_UNLIKELY_HARM = 0.05


def steps(
    policy: ConsolidationPolicy,
    generaliser: Generaliser | None = None,
    judge: Judge | None = None,
    archive_step: CycleStep | None = None,
    summariser: Summariser | None = None,
) -> tuple[CycleStep, ...]:
    """Return the steps that a policy asks for.

    They are session_end, rise, expire, merge, supersede, outdated, demote, promote, decay and
    archive, in this order. Without a `judge`, repetitions and contradictions are only proposed.
    `archive_step` is done if the policy archives. A `summariser` sums up the notes of sessions.
    """
    rise, promotion = policy.rise, policy.promotion
    wanted: tuple[CycleStep | None, ...] = (
        None if rise is None else SessionEnd(summariser),
        None if rise is None else Rise(rise),
        Expire() if policy.expiry else None,
        None if policy.merge is None else merge.Merge(policy.merge, judge, policy.supersede),
        None if policy.supersede is None else merge.Supersede(policy.supersede, judge),
        None if policy.supersede is None else merge.Outdated(),
        None if promotion is None else Demote(promotion),
        None if promotion is None else Promote(promotion, generaliser, judge),
        Decay() if policy.decay else None,
        None if policy.archive is None else archive_step,
    )
    return tuple(step for step in wanted if step is not None)


def find_ended_sessions(cycle: Cycle) -> Flow[list[str]]:
    """Return the namespaces of ended sessions: those that the cycle names, and those long idle."""
    if cycle.idle_since is None:
        return sorted(cycle.ended)
    rows = yield from rows_of("idle_sessions", tenant=cycle.tenant, since=cycle.idle_since)
    return sorted(cycle.ended.union(row[0] for row in rows))


@dataclass(frozen=True)
class SessionEnd(CycleStep):
    """Clears the notes of ended sessions, and keeps the important ones.

    A decision is about a whole session and names its first note.
    """

    summariser: Summariser | None = None
    """Sums up a session, if one is given."""
    name = "session_end"

    def select(self, cycle: Cycle, after: int, limit: int) -> Flow[list[int]]:
        """Return the id of the first note of each session that has ended."""
        ended = yield from find_ended_sessions(cycle)
        names = [_session_and_project(cycle.tenant, namespace) for namespace in ended]
        users = [cycle.options.user_of(Place(cycle.tenant, namespace)) for namespace in ended]
        params: dict[str, Any] = {
            "namespaces": ended,
            "homes": [
                f"{namespace.partition('.')[0]}.{session_end.user_suffix(user)}"
                for namespace, user in zip(ended, users, strict=True)
            ],
            "sessions": [session for session, _ in names],
            "projects": [project for _, project in names],
            "users": users,
        }
        ids: list[int] = []
        if ended:
            ids = yield from select_ids(cycle, "select_ended", after, limit, **params)
        if self.summariser is None or cycle.idle_since is None:
            return ids
        params["since"] = cycle.idle_since
        unread = yield from select_ids(cycle, "select_unread", after, limit, **params)
        return sorted({*ids, *unread})[:limit]

    def propose(self, cycle: Cycle, ids: Sequence[int]) -> Flow[Proposal]:
        """Choose the memories to keep of each session; a summariser is asked here."""
        decisions = []
        for first in (yield from read_memories(cycle, ids)):
            session, project = _session_and_project(cycle.tenant, first.namespace)
            named = first.value.get("project_id")
            ended = session_end.EndedSession(
                cycle=cycle,
                session=first.session or session,
                projects=[named if isinstance(named, str) else project],
                namespaces=[first.namespace] if (first.session or "") == session else [],
                user_id=first.user_id,
                summariser=self.summariser,
            )
            contents = yield from session_end.read_session(ended)
            detail = {
                "notes": [list(note) for note in session_end.ReadVersion.of(contents.notes)],
                "said": [list(memory) for memory in session_end.ReadVersion.of(contents.remarks)],
                "keeps": [list(memory) for memory in contents.kept],
            }
            decisions.append(make_decision(first, session_end.ENDED, detail=detail))
        return Proposal(decisions=decisions, kept={})

    def apply(self, cycle: Cycle, decisions: Sequence[StepDecision]) -> Flow[StepCounts]:
        """End the sessions one by one, if their memories are as they were read."""
        left = {}
        for decision in decisions:
            if not (yield from _end_session(cycle, decision["detail"])):
                left[decision["id"]] = CHANGED
        return count_decisions(decisions, left)


@retried_on_conflict
def _end_session(cycle: Cycle, detail: Mapping[str, Any]) -> Flow[bool]:
    """End the session of a decision in one transaction; return True if it has ended then."""
    notes = [session_end.ReadVersion(*each) for each in detail["notes"]]
    remarks = [session_end.ReadVersion(*each) for each in detail["said"]]
    memories = [session_end.KeptMemory(*each) for each in detail["keeps"]]
    recorded = session_end.read_event_calls(cycle, [each.id for each in remarks])
    asked = (cycle.guard,)
    if (
        yield from session_end.store_kept(
            cycle, memories, notes, remarks, recorded=recorded, asked=asked
        )
    ):
        return True
    notes_call = Call(
        "stored_memories", {"tenant": cycle.tenant, "ids": [each.id for each in notes]}
    )
    kept_call = Call("get_many", keys_of(session_end.kept_writes(cycle, memories)))
    notes_left, kept = yield Query((notes_call, kept_call), commit=True)
    return not notes_left and len(kept) == len(memories)


def _session_and_project(tenant: str, namespace: str) -> tuple[str, str]:
    """Return the session and the project of a session's namespace; an empty name for none."""
    _, project, session, *_ = (*decode_namespace(tenant, namespace), ABSENT, ABSENT)
    return name_of_label(session) or "", name_of_label(project) or ""


@dataclass(frozen=True)
class Rise(MovingStep):
    """Moves memories from short_term to working by their importance, reads or ended session."""

    policy: RisePolicy
    name = "rise"
    tiers = (Tier.SHORT_TERM,)

    def select(self, cycle: Cycle, after: int, limit: int) -> Flow[list[int]]:
        """Return the ids of memories that may rise."""
        params = {
            "ended": (yield from find_ended_sessions(cycle)),
            "accesses": self.policy.min_access_count,
            "importance": self.policy.min_importance,
            "life": cycle.options.tier_ttl.get(Tier.SHORT_TERM),
        }
        return (yield from select_ids(cycle, "select_rising", after, limit, **params))

    def propose(self, cycle: Cycle, ids: Sequence[int]) -> Flow[Proposal]:
        """Decide by `rise_reason` on each memory."""
        decisions, kept = [], []
        for memory in (yield from read_memories(cycle, ids)):
            # A memory that is neither read nor important was selected for its ended session alone.
            idle = cycle.idle_since is not None and memory.updated_at <= cycle.idle_since
            ended = memory.namespace in cycle.ended or idle
            reason = rise_reason(self.policy, memory.importance, memory.access_count, ended=ended)
            if reason is None:
                kept.append(NOT_RISING)
            else:
                decisions.append(make_decision(memory, reason))
        return Proposal(decisions=decisions, kept=count_reasons(kept))

    def apply(self, cycle: Cycle, decisions: Sequence[StepDecision]) -> Flow[StepCounts]:
        """Move the memories that are as they were judged, also one that has just expired."""
        moment = cycle.moment._replace(omit_expired=False)
        return super().apply(cycle._replace(moment=moment), decisions)

    def write_calls(
        self, cycle: Cycle, _: Sequence[StepDecision], params: dict[str, Any]
    ) -> Sequence[Call]:
        """Return the call that moves them to working, with the life time of that tier."""
        return [Call("record_rises", params | {"ttl": cycle.options.tier_ttl.get(Tier.WORKING)})]


class Expire(CycleStep):
    """Removes memories that have expired by the cycle's moment."""

    name = "expire"

    def select(self, cycle: Cycle, after: int, limit: int) -> Flow[list[int]]:
        """Return the ids of expired memories."""
        return select_ids(cycle, "select_expired", after, limit)

    def propose(self, cycle: Cycle, ids: Sequence[int]) -> Flow[Proposal]:
        """Remove all of them; count those that nobody had read apart."""
        stored = yield from read_memories(cycle, ids)
        decided = [
            make_decision(memory, EXPIRED if memory.access_count else UNREAD) for memory in stored
        ]
        return Proposal(decisions=decided, kept={})

    @retried_on_conflict
    def apply(self, cycle: Cycle, decisions: Sequence[StepDecision]) -> Flow[StepCounts]:
        """Remove the memories that are still expired. One that is gone by now counts as done."""
        yield from lock_rows(cycle, decisions)
        gone = [
            Write(place=Place(cycle.tenant, decision["namespace"]), key=decision["key"], value=None)
            for decision in decisions
        ]
        params = {"tenant": cycle.tenant, "ids": [decision["id"] for decision in decisions]}
        removal = delete_expired_calls(gone, cycle.moment.now)
        *_, rows = yield Query((*removal, Call("stored_memories", params)), commit=True)
        return count_decisions(decisions, {row[0]: READ_SINCE for row in rows})


class Decay(CycleStep):
    """Brings the strengths of memories up to date."""

    name = "decay"

    def select(self, cycle: Cycle, after: int, limit: int) -> Flow[list[int]]:
        """Return the ids of memories whose strength is a day old, or older."""
        return select_ids(
            cycle, "select_fading", after, limit, before=cycle.moment.now - MIN_DECAY_AGE
        )

    def propose(self, cycle: Cycle, ids: Sequence[int]) -> Flow[Proposal]:
        """Fade all of them."""
        stored = yield from read_memories(cycle, ids)
        return Proposal(decisions=[make_decision(memory, FADES) for memory in stored], kept={})

    @retried_on_conflict
    def apply(self, cycle: Cycle, decisions: Sequence[StepDecision]) -> Flow[StepCounts]:
        """Bring the strengths up to date that are not yet."""
        (guarded,) = yield Query((cycle.guard,))
        lease.check_guard(guarded, cycle.tenant)
        ids = {decision["id"] for decision in decisions}
        before = cycle.moment.now - MIN_DECAY_AGE
        rows = yield from rows_of("fade", **cycle.params, ids=[*ids], before=before)
        left = dict.fromkeys(ids - {row[0] for row in rows}, ACCESSED)
        return count_decisions(decisions, left)


@dataclass(frozen=True)
class Promote(CycleStep):
    """Promotes memories that have proven themselves."""

    policy: PromotionPolicy
    generaliser: Generaliser | None
    """Rewrites a memory in general words."""
    judge: Judge | None = None
    """Decides if near memories say the same."""
    name = "promote"

    def select(self, cycle: Cycle, after: int, limit: int) -> Flow[list[int]]:
        """Return the ids of memories that may have proven themselves."""
        return promote.find_candidates(self._promotion_run(cycle), after, limit)

    def propose(self, cycle: Cycle, ids: Sequence[int]) -> Flow[Proposal]:
        """Decide which to promote, and with which general words; the generaliser is asked here."""
        run, plans = self._promotion_run(cycle), list[promote.PromotionPlan]()
        for candidate in (yield from promote.read_evidence(cycle.tenant, ids)):
            plans.append((yield from _assess(candidate, run)))
        same = yield from self._find_equivalents(cycle, plans)
        run = run._replace(judged_same=same)
        decisions: list[StepDecision] = []
        findings: list[StepFinding] = []
        kept: list[str] = []
        for first in plans:
            memory = first.candidate
            plan = (yield from _assess(memory, run)) if memory.id in same else first
            if not plan.worthy:
                kept.append(UNPROVEN if plan.closed_reason is None else SETTLED)
                if plan.near_miss:
                    findings.append(make_finding(memory, f"it lacks: {plan.decision.lacks[0]}"))
                    findings += _near_findings(plan)
                continue
            try:
                general = yield from promote.general_value(plan, run)
            except (ModelError, InvalidInputError):
                kept.append(NOT_GENERALISED)
                continue
            if isinstance(general, str):
                kept.append(promote.NEEDS_WORDS)
                findings.append(make_finding(memory, general))
                continue
            words = None if general["content"] == memory.content else general["content"]
            detail = {"general": words, "same": sorted(same.get(memory.id, ()))}
            decisions.append(make_decision(memory, PROVEN, detail=detail))
            findings += _near_findings(plan)
        return Proposal(decisions=decisions, kept=count_reasons(kept), findings=findings)

    def _find_equivalents(
        self, cycle: Cycle, plans: Sequence[promote.PromotionPlan]
    ) -> Flow[dict[int, list[int]]]:
        """Ask the judge for the near memories that say the same as each near miss.

        With them a near miss may be promoted.
        """
        same: dict[int, list[int]] = {}
        if self.judge is None:
            return same
        near = {
            tuple(sorted((plan.candidate.id, int(other["id"]))))
            for plan in plans
            if plan.near_miss
            for other in plan.similar
        }
        ids = {id_ for pair in near for id_ in pair}
        stored = {memory.id: memory for memory in (yield from read_memories(cycle, ids))}
        stored_pairs = [
            [stored[id_] for id_ in pair] for pair in sorted(near) if stored.keys() >= {*pair}
        ]
        in_order = (sorted(pair, key=lambda memory: memory.record_order) for pair in stored_pairs)
        pairs = [(older, newer) for older, newer in in_order]
        for older, newer in (yield from judge_pairs(self.judge, "same", pairs)):
            same.setdefault(older.id, []).append(newer.id)
            same.setdefault(newer.id, []).append(older.id)
        return same

    def apply(self, cycle: Cycle, decisions: Sequence[StepDecision]) -> Flow[StepCounts]:
        """Promote them one by one. A memory that moved along with another counts as done."""
        moves = [move_id(cycle, self.name, decision["id"]) for decision in decisions]
        before = yield from _read_moves(cycle, moves)
        for decision in decisions:
            if decision["id"] not in chain.from_iterable(before.values()):
                yield from self._promote(cycle, decision)
        written = yield from _read_moves(cycle, moves)
        moved = set(chain.from_iterable(written.values()))
        left = {decision["id"]: NOT_NOW for decision in decisions if decision["id"] not in moved}
        return count_decisions(decisions, left, [move for move in moves if move in written])

    def _promote(self, cycle: Cycle, decision: StepDecision) -> Flow[None]:
        """Promote a memory as it was judged, unless later evidence forbids it."""
        candidates = yield from promote.read_evidence(cycle.tenant, [decision["id"]])
        if not candidates or format_version(candidates[0].updated_at) != decision["version"]:
            return
        same, words = decision["detail"].get("same", ()), decision["detail"]["general"]
        run = self._promotion_run(cycle)._replace(
            judged_same={decision["id"]: same}, generaliser=None
        )
        plan = promote.plan_promotion(candidates[0], run)
        if words is None or not find_identifying(words, plan.labels(cycle.tenant)):
            with suppress(InvalidInputError):
                yield from promote.promote_one(plan, run, words)

    def _promotion_run(self, cycle: Cycle) -> promote.PromotionJob:
        return promote.PromotionJob(
            cycle.tenant,
            self.policy,
            self.generaliser,
            cycle.options,
            cycle.moment,
            clock=lambda: cycle.moment,
            name_move=partial(move_id, cycle, self.name),
            check=LockedCheck(
                lambda _: cycle.guard, lambda rows: lease.check_guard(rows, cycle.tenant)
            ),
        )


def _assess(
    candidate: PromotionCandidate, run: promote.PromotionJob
) -> Flow[promote.PromotionPlan]:
    return off_loop(
        partial(promote.plan_promotion, candidate, run),
        reading_size([candidate.value, candidate.near]),
    )


def _read_moves(cycle: Cycle, moves: Sequence[str]) -> Flow[dict[str, list[int]]]:
    """Return the moves that were written, with the memories that each moved."""
    rows = yield from rows_of("known_moves", tenant=cycle.tenant, events=sorted(moves))
    return {row[0]: row[1] or [] for row in rows}


def _near_findings(plan: promote.PromotionPlan) -> Iterator[StepFinding]:
    """Report the near memories that are not promoted along with a memory."""
    for neighbour in plan.similar:
        near, other = 1 - neighbour["distance"], (neighbour["namespace"], neighbour["key"])
        reason = f"the same or the opposite? near ({near:.2f}), and not counted"
        yield make_finding(plan.candidate, reason, other, near)


@dataclass(frozen=True)
class Demote(MovingStep):
    """Demotes promoted memories that have failed since, and memories that do harm."""

    policy: PromotionPolicy
    name = "demote"

    def select(self, cycle: Cycle, after: int, limit: int) -> Flow[list[int]]:
        """Return the ids of memories that failed after promotion, or that some runs did without."""
        memories = yield from find_demotion_candidates(cycle.tenant, self.policy, after, limit)
        return [memory.id for memory in memories]

    def propose(self, cycle: Cycle, ids: Sequence[int]) -> Flow[Proposal]:
        """Demote those that outcomes have turned against, and report the effect of each."""
        after, limit = min(ids) - 1, max(ids) - min(ids) + 1
        memories = yield from find_demotion_candidates(cycle.tenant, self.policy, after, limit)
        wanted = set(ids)
        decisions: list[StepDecision] = []
        findings: list[StepFinding] = []
        kept: list[str] = []
        for memory in (memory for memory in memories if memory.id in wanted):
            verdict = _verdict(memory)
            if memory.decision.demote:
                detail = {"reasons": [*map(str, memory.decision.reasons)], "tier": memory.tier}
                decisions.append(make_decision(memory, verdict, detail=detail))
            else:
                kept.append(verdict)
            if memory.counts is not None:
                credit = {HELPS: "helps", EFFECT_UNKNOWN: "unknown"}.get(verdict, "harms")
                finding = make_finding(memory, f"{verdict} ({memory.counts})")
                content = shorten_line(memory.content, LINE_LENGTH)
                findings.append({**finding, "credit": credit, "content": content})
        return Proposal(decisions=decisions, kept=count_reasons(kept), findings=findings)

    def write_calls(
        self, cycle: Cycle, todo: Sequence[StepDecision], params: dict[str, Any]
    ) -> Sequence[Call]:
        """Return the calls that demote them."""
        return [
            demotion_call(
                cycle.tenant,
                (decision["id"], decision["detail"].get("tier", Tier.LONG_TERM)),
                move,
                decision["detail"]["reasons"],
                cycle.moment,
            )
            for decision, move in zip(todo, params["events"], strict=True)
        ]


def _verdict(memory: DemotionCandidate) -> str:
    """Return the verdict of outcomes on a memory."""
    if memory.decision.demote:
        return TURNED
    if memory.counts is None:
        return NOT_TURNED
    harm = memory.decision.reasons[-1].value or 0.0
    if harm >= LIKELY_HARM:
        return SEEMS_HARMFUL
    return HELPS if harm <= _UNLIKELY_HARM else EFFECT_UNKNOWN
