"""The verbs by which a turn keeps what it does until it is committed; none writes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from langmem_tiers.core.config import OrchestratorSettings
from langmem_tiers.core.errors import BudgetExceededError, InvalidInputError
from langmem_tiers.core.memory import MemoryContext
from langmem_tiers.core.tracing import traced
from langmem_tiers.memory.coordinator import MemoryCoordinator
from langmem_tiers.postgres.flow import Flow, unit
from langmem_tiers.remember.admit import Judged, result_of
from langmem_tiers.remember.new import NewMemory, to_write
from langmem_tiers.state.state import ProgressDelta, checked_id
from langmem_tiers.state.stored import to_value
from langmem_tiers.store.store import TieredStore
from langmem_tiers.store.write import Write
from langmem_tiers.turn import spending
from langmem_tiers.turn.calls import Called, called, shortened
from langmem_tiers.turn.items import (
    as_memory,
    beginning,
    destinations,
    discreet,
    judgement,
    of_a_tool,
    passed_on,
    private,
    shown,
)
from langmem_tiers.turn.record import TurnRecord
from langmem_tiers.turn.routing import Memorized, Route, Tracked
from langmem_tiers.turn.spending import Budget, BudgetStatus
from langmem_tiers.turn.trace import Kind, TurnEvent, TurnTrace

STORED = "stored"
"""What the gate says of what it has nothing against."""
Router = Callable[[NewMemory], Route]
"""Says which memory types receive what is memorized without naming one."""


class KeepingVerbs:
    """What a turn tracks, memorizes and notes; all of it is pending."""

    memory: MemoryCoordinator
    budget: Budget
    settings: OrchestratorSettings
    _router: Router | None
    _record: TurnRecord | None
    _lock: threading.Lock

    @property
    def context(self) -> MemoryContext:
        """Who remembers and who asks."""
        return self.memory.context

    def track_tool_invocation(
        self,
        tool_name: str,
        parameters: Mapping[str, Any] | None = None,
        result: Any = None,
        error: BaseException | str | None = None,
        *,
        duration: float | None = None,
        relevance: float | None = None,
        call_id: str | None = None,
    ) -> Tracked:
        """Keep a tool call and what came of it, as an episodic memory that `commit` writes.

        Args:
            tool_name: The tool.
            parameters: What it was given; what is not JSON is kept as text.
            result: What it answered; what is neither text nor JSON is kept as text.
            error: How it failed, if it did: then the memory has the failure's signature.
            duration: Seconds that it took.
            relevance: To the task, from 0 to 1; if not given, the share of the prompt's words that
                the call and its answer have.
            call_id: A name that a retry has too: the same call is tracked once.

        Returns:
            Whether it is tracked, and the key of its memory. A call whose answer instructs its
            reader is tracked all the same, and its memory is quarantined.

        Raises:
            BudgetExceededError: if the turn has spent what it may; it was not tracked.
            InvalidInputError: for a tool without a name.
        """
        self._turn()
        told = {"duration": duration, "relevance": relevance, "call_id": call_id}
        given = called(tool_name, parameters, result, error, **told)
        if not self.settings.enable_tool_tracking:
            return Tracked(tracked=False, key=None, reason="tool tracking is switched off")
        if given.tool in self.settings.untracked_tools:
            why = f"{given.tool} is among the settings' untracked_tools"
            return Tracked(tracked=False, key=None, reason=why)
        return self._track(given)

    def _track(self, given: Called) -> Tracked:
        """Keep a tool call that was checked, once."""
        record, named = self._turn(), given.call_id
        with self._lock:
            self._turn()  # it may have ended meanwhile
            known = [one for one in record.calls if named is not None and one.call_id == named]
            if known:
                return Tracked(tracked=True, key=known[0].key, reason="tracked before")
            self._check("track a tool call")
            one = given.invocation(record.key("call", len(record.calls)), record.prompt)
            memory = one.to_memory(self._now, record.task)
            kept, held, begins = of_a_tool(self.memory.gate, memory, given.whole)
            writes = [self._checked(each) for each in kept]
            record.calls.append(one)
            record.wanted.append(record.wish(self.context, one.key, memory.content))
            record.pending += kept
            tool = shown(one.tool, self.memory.gate)
            came = "failed" if one.error is not None else "answered"
            why = f"{tool} {came}" + (f"; {held}" if held else "")
            about = {"tool": tool, "seconds": one.seconds, "relevance": one.relevance}
            about |= begins if kept else {**begins, "refused": True}
            self._spend("tracked", why, *writes, **about, failed=one.error is not None)
        return Tracked(
            tracked=True,
            key=one.key if kept else None,
            reason=why,
            quarantined=bool(kept and held),
        )

    async def atrack_tool_invocation(
        self,
        tool_name: str,
        parameters: Mapping[str, Any] | None = None,
        result: Any = None,
        error: BaseException | str | None = None,
        **told: Any,
    ) -> Tracked:
        """Keep a tool call and what came of it; see `track_tool_invocation`."""
        return self.track_tool_invocation(tool_name, parameters, result, error, **told)

    @traced("tool")
    def memorize(
        self, item: str | Mapping[str, Any], metadata: Mapping[str, Any] | None = None
    ) -> Memorized:
        """Put something to the gate; what it lets pass is written by `commit`.

        What it quarantines is committed as quarantined. What the turn was shown is no new evidence.

        Args:
            item: A text, or the arguments of `MemoryCoordinator.store` as a mapping. One that names
                its `memory_type` goes there, any other to each type that it is of by what it says.
            metadata: Anything else that is JSON, kept with it.

        Returns:
            Where it goes and why, under which keys, and what makes room for it.

        Raises:
            BudgetExceededError: if the turn has spent what it may; it is not kept.
            InvalidInputError: for what cannot be stored.
        """
        return self._store.run(self.memorizing(item, metadata))

    @traced("tool")
    async def amemorize(
        self, item: str | Mapping[str, Any], metadata: Mapping[str, Any] | None = None
    ) -> Memorized:
        """Put something to the gate; see `memorize`."""
        return await self._store.arun(self.memorizing(item, metadata))

    def memorizing(
        self,
        item: str | Mapping[str, Any],
        metadata: Mapping[str, Any] | None = None,
        *,
        longest: int | None = None,
    ) -> Flow[Memorized]:
        """What `memorize` does, as a flow; of a text longer than `longest` it keeps both ends.

        One with private data that the policy does not accept is not cut: the gate judges all of it.
        """
        record, given = self._turn(), as_memory(item, metadata)
        self._checked(given)
        whole, cut = len(given.content), ""
        if longest is not None and whole > longest and not private(given.content, self.memory.gate):
            given = replace(given, content=shortened(given.content, longest))
            cut = f"shortened: of {whole:,} characters {longest:,} are kept"
        with self._lock:
            self._turn()
            self._check("memorize")
            one = replace(given, key=given.key or record.key("item", record.spent))
            record.spent += 1
            wish = record.wish(self.context, one.key, one.memory_type, one.content, one.metadata)
            record.wanted.append(wish)
        try:
            routed = given.memory_type is None and self._router is not None
            route = self._router(given) if routed and self._router is not None else None
            own, leaving = self._routed(one, route), self._leaving(route)
            again = [
                replace(each, recalled=tuple(record.shown))
                for each in record.untold({str(each.key) for each in own} | leaving.keys())
            ]
            judged = yield from unit(
                self.memory.flows.judged([*own, *again], self.context, leaving)
            )
            verdicts = [discreet(each, self.memory.gate) for each in judged]
            found = self._memorized(one, verdicts[: len(own)], route, cut)
            if found.pending:
                self._taken_up(verdicts[len(own) :])
        except BaseException:
            record.wanted.remove(wish)
            raise
        return found

    def _routed(self, one: NewMemory, route: Route | None) -> list[NewMemory]:
        """What is put to the gate: an item once, or once for each type that a router names."""
        shown = replace(one, recalled=(*one.recalled, *self._turn().shown))
        if route is None:
            return [shown]
        several = enumerate(route.destinations)
        return [
            replace(
                shown,
                memory_type=to.memory_type,
                key=one.key if place == 0 else self._turn().key(one.key, place),
            )
            for place, to in several
        ]

    def _leaving(self, route: Route | None) -> dict[str, str | None]:
        """The keys that the turn gives another text, with it, or evicts."""
        record = self._turn()
        evicted = (*record.evicted, *(route.evicted if route is not None else ()))
        new = {one.key: one.content for one in record.pending if one.key is not None}
        return {**dict.fromkeys(evicted), **new}

    def _taken_up(self, verdicts: Sequence[Judged]) -> None:
        """Keep what repeated a memory that the turn has replaced since, or evicts."""
        record = self._turn()
        kept = [each for one in verdicts for each in passed_on(one, self.memory.gate)]
        with self._lock:
            self._turn()
            taken = {str(each.key) for each in kept}
            record.echoes = [one for one in record.echoes if one["memory"]["key"] not in taken]
            record.pending += kept
            for each in kept:
                why = "what it repeats is replaced or evicted by the turn"
                self._note("memorized", why, self._checked(each), keys=[each.key])

    def _memorized(
        self, one: NewMemory, verdicts: Sequence[Judged], route: Route | None, cut: str
    ) -> Memorized:
        """Keep what the gate lets pass, and note what it says."""
        gate, record = self.memory.gate, self._turn()
        kept = [each for judged in verdicts for each in passed_on(judged, gate)]
        writes = [self._checked(each) for each in kept]
        evicted = route.evicted if route is not None and kept else ()
        reasons: dict[str, str] = {}
        if not verdicts:
            found = Memorized(reason="routed: its router keeps it nowhere")
        else:
            first = next((each for each in verdicts if each.verdict.stored), verdicts[0]).verdict
            said = route.destinations if route is not None else first.destinations
            reasons = {to.memory_type: to.reason for to in said}
            found = Memorized.of(
                result_of(
                    first,
                    key=kept[0].key if kept else None,
                    tier=writes[0].tier if kept else None,
                    evicted=evicted,
                    destinations=destinations(kept, writes, reasons),
                )
            )
        begins = beginning(one, gate) if not kept or found.quarantined else {}
        with self._lock:
            self._turn()
            record.pending += kept
            record.evicted += evicted
            for each in verdicts:
                record.repeated(each.memory, each.repeats)
            kind: Kind = "memorized" if kept else "refused"
            why = found.reason if found.reason != STORED else "; ".join(reasons.values())
            why = "; ".join(one for one in (why, cut) if one)
            self._note(kind, why, *writes[:1], **judgement(found), **begins)
        return found

    def note_progress(self, goal_id: str, delta: float, reason: str) -> None:
        """Note how much nearer the turn brought a goal; `commit` adds it to the goal's progress.

        Args:
            goal_id: Of a goal of `memory.state`.
            delta: How much nearer, from -1 to 1.
            reason: Why; one with private data that the policy does not accept is not kept.

        Raises:
            BudgetExceededError: if the turn has spent what it may.
            InvalidInputError: for what is no delta. A goal that is not set is refused by the
                commit, which then writes nothing.
        """
        record, goal = self._turn(), checked_id(goal_id, "goal_id")
        with self._lock:
            self._turn()
            step = ProgressDelta(
                delta=delta,
                reason=reason,
                at=self._now,
                delta_id=record.key("goal", len(record.goals)),
            )
            step = replace(step, reason=shown(step.reason, self.memory.gate))
            self._check("note progress")
            noted = {"goal": goal, **to_value(step)}
            record.goals.append(noted)
            wish = record.wish(self.context, step.delta_id, goal, step.delta, step.reason)
            record.wanted.append(wish)
            about = {"goal": goal, "delta": step.delta, "delta_id": step.delta_id}
            self._spend("progressed", step.reason, **about)

    async def anote_progress(self, goal_id: str, delta: float, reason: str) -> None:
        """Note how much nearer the turn brought a goal; see `note_progress`."""
        self.note_progress(goal_id, delta, reason)

    def get_budget_status(self) -> BudgetStatus:
        """What the turn has spent, and what is left."""
        record = self._turn(ended=True)
        seconds = max(0.0, (self._now - record.began).total_seconds())
        return spending.status(self.budget, record.tokens, record.spent, seconds)

    async def aget_budget_status(self) -> BudgetStatus:
        """What the turn has spent, and what is left; see `get_budget_status`."""
        return self.get_budget_status()

    @property
    def trace(self) -> TurnTrace:
        """What the turn decided so far."""
        record = self._turn(ended=True)
        return TurnTrace(turn=record.turn, events=tuple(record.events))

    @property
    def _store(self) -> TieredStore:
        return self.memory.tiered_store

    @property
    def _now(self) -> datetime:
        return self._store.flows.now

    def _turn(self, *, ended: bool = False) -> TurnRecord:
        """The turn that goes on; with `ended`, one that is over as well."""
        if self._record is None:
            raise InvalidInputError(
                "no turn has begun: `with MemoryOrchestrator(memory) as turn`, or begin() one"
            )
        if self._record.closed is not None and not ended:
            raise InvalidInputError(
                f"the turn {self._record.turn!r} was {self._record.closed}: begin another"
            )
        return self._record

    def _check(self, what: str, *, tokens: bool = False) -> None:
        """Refuse what there is no budget for, and note that it was, and how often."""
        try:
            spending.check(self.get_budget_status(), what, tokens=tokens)
        except BudgetExceededError as refused:
            self._turn().refuse(what, str(refused), self._now)
            raise

    def _spend(self, kind: Kind, reason: str, *about: Write, **detail: Any) -> None:
        """Note a decision that counts towards the budget."""
        self._note(kind, reason, *about, **detail)
        self._turn().spent += 1

    def leave_out(self, what: str, why: str) -> None:
        """Note in the trace that something is left out, and why."""
        with self._lock:
            self._turn().refuse(what, why, self._now)

    def _note(self, kind: Kind, reason: str, *about: Write, **detail: Any) -> None:
        place = {"namespace": about[0].place.namespace, "key": about[0].key} if about else {}
        self._turn().events.append(
            TurnEvent(kind=kind, at=self._now, reasons=(reason,), detail=detail, **place)
        )

    def _checked(self, one: NewMemory) -> Write:
        """The write of a memory, so that what cannot be stored is refused at once."""
        return to_write(
            one,
            context=self.context,
            types=self.memory.types,
            index=self._store.options.index,
            default_ttl=self._store.flows.default_ttl,
            bounds=self._store.options.bounds,
        )
