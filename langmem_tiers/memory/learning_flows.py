"""What a coordinator learns, as flows: lessons, outcomes, promotion and the way back."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Any, NamedTuple
from uuid import uuid4

from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.memory import MemoryContext, Recollection, StoreResult, Tier
from langmem_tiers.core.namespaces import decode
from langmem_tiers.learn import explain as explaining
from langmem_tiers.learn import lessons as teaching
from langmem_tiers.learn import outcome, promote, rollback, traces, worth
from langmem_tiers.learn.evidence import HoldoutCounts, Uplift, uplifts
from langmem_tiers.learn.evolve import Entities, evolve
from langmem_tiers.learn.explain import Explanation
from langmem_tiers.learn.generalise import DETERMINISTIC, Generaliser
from langmem_tiers.learn.lessons import record_lessons
from langmem_tiers.learn.outcome import Exposure, LearningStats, OutcomeReport, Run, held_out
from langmem_tiers.learn.policy import PromotionPolicy
from langmem_tiers.learn.promote import Promotion
from langmem_tiers.learn.reflexion import FailedAttempt, Reflector
from langmem_tiers.learn.rollback import Demotion
from langmem_tiers.learn.skills import Trace, skill_candidates
from langmem_tiers.learn.traces import stored_values
from langmem_tiers.learn.worth import Promoting
from langmem_tiers.memory.flows import MemoryFlows
from langmem_tiers.postgres.flow import Ask, Call, Flow, Query, apart, extent
from langmem_tiers.recall.candidates import Candidate
from langmem_tiers.recall.recall import Inquiry
from langmem_tiers.remember.new import NewMemory, drawn_from
from langmem_tiers.store.flows import StoreFlows


class Showing(NamedTuple):
    """For which run memories are recalled, and which share of them it goes without."""

    run: Run
    holdout: float = 0.0

    def hides(self, one: Recollection | Candidate) -> bool:
        """Whether the run goes without a memory."""
        labels = one.namespace if isinstance(one, Recollection) else one.place[0]
        return held_out(self.run.id, "\0".join((*labels, one.key)), self.holdout)


class LearningFlows:
    """The flows of learning, on those of a store and of a coordinator."""

    def __init__(self, store: StoreFlows, memory: MemoryFlows) -> None:
        """Stand on a store's flows, and on those that recall."""
        self._store = store
        self._memory = memory

    def recall(
        self, asks: Sequence[Inquiry], context: MemoryContext, showing: Showing | None
    ) -> Flow[list[list[Recollection]]]:
        """Recall for several questions at once, and note what the run is shown."""
        if showing is None:
            return (yield from self._memory.recall(asks))
        answers = yield from self._memory.recall(asks, showing.hides)
        everything = [one for found in answers for one in found]
        asked = asks[0].project_id if asks else None  # the options of a batch are one question's
        project = context.project_id or asked
        yield from self._shown(everything, context.root, project, showing)
        return [[one for one in found if not showing.hides(one)] for found in answers]

    def reflect(
        self,
        attempts: Sequence[FailedAttempt],
        context: MemoryContext,
        reflector: Reflector | None,
    ) -> Flow[list[StoreResult]]:
        """Keep failed attempts, and store the lesson of each that has one.

        A model is asked once for each attempt, however often it is given. The attempts are safe
        before it is, and each lesson of it before the next one. An attempt lives on in its lesson.
        """
        distinct = list(dict.fromkeys(attempts))
        if not distinct:
            return []
        kept = yield from self._memory.gate.screening([one.to_memory(context) for one in distinct])
        yield from self._memory.remember(kept, context)
        if reflector is None:
            seen = [
                (one, one.extracted(), origin) for one, origin in zip(distinct, kept, strict=True)
            ]
            taught = [(one, each, origin) for one, each, origin in seen if each is not None]
            lessons = [drawn_from(origin, each.to_memory(context)) for _, each, origin in taught]
            learned = (yield from self._memory.remember(lessons, context)) if lessons else []
            drawn = [one for one, _, _ in taught]
        else:
            drawn, learned = distinct, (yield from self._drawn(distinct, kept, context, reflector))
        pairs = zip(drawn, learned, strict=True)
        keys = [(str(one.to_memory(context).key), str(lesson.key)) for one, lesson in pairs]
        yield from record_lessons(keys, context, self._store.options, self._store.now)
        return learned

    def _drawn(
        self,
        attempts: Sequence[FailedAttempt],
        kept: Sequence[NewMemory],
        context: MemoryContext,
        reflector: Reflector,
    ) -> Flow[list[StoreResult]]:
        """Store the lesson that a model draws from each attempt, unless it did before."""
        keys = [one.lesson_key(context) for one in attempts]
        known = yield from stored_values(keys, context, self._store.moment())
        learned: list[StoreResult] = []
        for one, origin, key in zip(attempts, kept, keys, strict=True):
            if key in known:
                learned.append(StoreResult(stored=False, key=key, reason="learned before"))
                continue
            lesson = yield _asked(reflector, one)
            memory = replace(drawn_from(origin, lesson.to_memory(context)), key=key)
            learned += yield from self._memory.remember([memory], context)
        return learned

    def evolve(
        self,
        interaction: Mapping[str, Any],
        success_metrics: Mapping[str, Any],
        context: MemoryContext,
        threshold: float,
        extract_entities: Entities | None,
    ) -> Flow[StoreResult]:
        """Store what an interaction teaches, if it was worth it."""
        judge = partial(evolve, interaction, success_metrics, threshold=threshold)
        if extract_entities is None:
            evolved = yield from apart(judge, extent((interaction, success_metrics)))
        else:  # it may ask a model
            judge = partial(judge, extract_entities=extract_entities)
            evolved = yield Ask(judge, partial(asyncio.to_thread, judge))
        if not evolved.worth:
            return StoreResult(stored=False, reason=evolved.reason)
        memory = evolved.to_memory(interaction, context)
        (result,) = yield from self._memory.remember([memory], context)
        return replace(result, reason=evolved.reason)

    def learn_skills(
        self, trace: Trace | None, context: MemoryContext, min_support: int
    ) -> Flow[list[StoreResult]]:
        """Store a trace, and what recurs in the project's newest; every skill there is.

        What was written is looked at again until nothing differs: of concurrent runs, the one
        that writes last has so seen the traces of all.
        """
        given = [] if trace is None else [trace]
        skill_candidates(given, min_support=min_support)  # refuses what is none
        memories = yield from self._memory.gate.screening(
            [traces.trace_memory(one, context) for one in given]
        )
        if memories:
            yield from self._memory.remember(memories, context)
        stored: dict[str, StoreResult] = {}
        while True:
            moment = self._store.moment()
            skills = yield from traces.proposals(context, moment, min_support=min_support)
            known = yield from stored_values(list(skills), context, moment, (Tier.WORKING,))
            news = {key: one for key, one in skills.items() if traces.is_news(one, known.get(key))}
            if news.keys() <= {key for key in stored if key not in known}:
                return [stored.get(key) or _unchanged(key) for key in skills]
            results = yield from self._memory.remember(list(news.values()), context)
            stored |= zip(news, results, strict=True)

    def lessons(
        self, concern: teaching.Concern, context: MemoryContext, showing: Showing | None
    ) -> Flow[list[Recollection]]:
        """Lessons for a failure or a tool; what is returned counts as accessed."""
        moment = self._store.moment()
        found, rows = yield from teaching.lessons(concern, moment)
        hides = showing.hides if showing else lambda _: False
        yield from self._store.mark([row for row in rows if not hides(row)], moment)
        self._memory.note(found)
        return (yield from self._shown(found, context.root, context.project_id, showing))

    def _shown(
        self,
        found: Sequence[Recollection],
        tenant: str,
        project: str | None,
        showing: Showing | None,
    ) -> Flow[list[Recollection]]:
        """What of this is shown to the run, which is noted, with what is held out of it."""
        if showing is None or not found:
            return list(found)
        exposures = [Exposure(one.namespace, one.key, showing.hides(one)) for one in found]
        yield from outcome.expose(tenant, showing.run, project, exposures, self._store.now)
        return [one for one, noted in zip(found, exposures, strict=True) if not noted.held_out]

    def expose(
        self, found: Sequence[Recollection], context: MemoryContext, showing: Showing
    ) -> Flow[list[Recollection]]:
        """Note that a run is shown these; those that are not held out of it."""
        return self._shown(found, context.root, context.project_id, showing)

    def settle(self, run: str, context: MemoryContext, *, success: bool) -> Flow[OutcomeReport]:
        """Credit what was shown to a run."""
        return outcome.settle(run, context, success=success, now=self._store.now)

    def settle_shown(
        self,
        shown: Sequence[Recollection],
        run: str | None,
        context: MemoryContext,
        *,
        success: bool,
    ) -> Flow[OutcomeReport]:
        """Credit these memories; without a run, as those of a new one."""
        return outcome.settle_shown(
            run or str(uuid4()),
            context,
            shown,
            success=success,
            now=self._store.now,
        )

    def promote_all(
        self, context: MemoryContext, policy: PromotionPolicy, generaliser: Generaliser
    ) -> Flow[list[Promotion]]:
        """Promote what has proven itself; all that were judged."""
        yield from self._ready()
        return (yield from promote.promote_all(self._how(context, policy, generaliser)))

    def promote(
        self, key: str, context: MemoryContext, policy: PromotionPolicy, generaliser: Generaliser
    ) -> Flow[Promotion]:
        """Promote one memory, if it is worthy."""
        yield from self._ready()
        how = self._how(context, policy, generaliser)
        one = yield from self._memory.known(key, context)
        sources = yield from worth.evidence(how.tenant, [one.id])
        if not sources:
            raise InvalidInputError(f"the memory {key!r} was deleted meanwhile")
        return (yield from promote.promote_one(sources[0], how))

    def demote_all(self, context: MemoryContext, policy: PromotionPolicy) -> Flow[list[Demotion]]:
        """Demote what was promoted and has failed since; all that were judged."""
        store = self._store
        return rollback.demote_all(context.root, policy, store.options, store.moment())

    def rollback(self, move: str, context: MemoryContext) -> Flow[bool]:
        """Undo a move; False if it was undone before."""
        yield from self._store.flush()
        store = self._store
        return (yield from rollback.rollback(context, move, store.options, store.moment()))

    def explain(
        self, key: str, context: MemoryContext, policy: PromotionPolicy
    ) -> Flow[Explanation]:
        """What is known of a memory's worth."""
        yield from self._store.flush_aside()
        one = yield from self._memory.known(key, context)
        how = self._how(context, policy, DETERMINISTIC)
        return (yield from explaining.explain(one.id, how, context))

    def stats(self, context: MemoryContext) -> Flow[LearningStats]:
        """What the tenant has stored, and what each memory ever held out does to runs."""
        stored = yield from self._memory.stats(context)
        uplift = yield from self._uplift(context)
        known = {one.name: getattr(stored, one.name) for one in fields(stored)}
        return LearningStats(**known, uplift=uplift)

    def _uplift(self, context: MemoryContext) -> Flow[Mapping[tuple[tuple[str, ...], str], Uplift]]:
        (rows,) = yield Query((Call("holdout_counts", {"tenant": context.root}),), commit=True)
        counts = {
            (decode(context.root, row[0]), str(row[1])): HoldoutCounts(*row[2:]) for row in rows
        }
        return uplifts(counts)

    def _ready(self) -> Flow[None]:
        """What was read counts, and the index fits."""
        yield from self._store.flush()
        yield from self._store.refresh_state()

    def _how(
        self, context: MemoryContext, policy: PromotionPolicy, generaliser: Generaliser
    ) -> Promoting:
        store = self._store
        return Promoting(
            context.root, policy, generaliser, store.options, store.moment(), store.moment
        )


def _asked(reflector: Reflector, attempt: FailedAttempt) -> Ask:
    return Ask(lambda: reflector.call(attempt), lambda: reflector.acall(attempt))


def _unchanged(key: str) -> StoreResult:
    return StoreResult(stored=False, key=key, reason="known already, with the same evidence")
