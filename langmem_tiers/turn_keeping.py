"""The verbs by which a turn keeps what it does until it is committed; none reads or writes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from langmem_tiers.asking import new_memories
from langmem_tiers.config import OrchestratorSettings
from langmem_tiers.consolidate.claims import statements
from langmem_tiers.coordinator import MemoryCoordinator
from langmem_tiers.errors import BudgetExceededError, InvalidInputError, InvalidTypeError
from langmem_tiers.memory import MemoryContext
from langmem_tiers.remember.flow import Write
from langmem_tiers.remember.memories import NewMemory, checked_text, share, to_write
from langmem_tiers.store import TieredStore
from langmem_tiers.turn import spending
from langmem_tiers.turn.invocation import called
from langmem_tiers.turn.record import TurnRecord, settled
from langmem_tiers.turn.routing import Memorized, Route, Tracked
from langmem_tiers.turn.spending import Budget, BudgetStatus
from langmem_tiers.turn.trace import Kind, TurnEvent, TurnTrace

Router = Callable[[NewMemory], Route]
"""Says which memory types receive what is memorized without naming one."""


class KeepingVerbs:
    """What a turn tracks, memorizes and notes; all of it is pending."""

    memory: MemoryCoordinator
    budget: Budget
    settings: OrchestratorSettings
    _router: Router
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
            Whether it is tracked, and the key of its memory.

        Raises:
            BudgetExceededError: if the turn has spent what it may; it was not tracked.
            InvalidInputError: for a tool without a name.
        """
        record = self._turn()
        told = {"duration": duration, "relevance": relevance, "call_id": call_id}
        given = called(tool_name, parameters, result, error, **told)
        if not self.settings.enable_tool_tracking:
            return Tracked(tracked=False, key=None, reason="tool tracking is switched off")
        with self._lock:
            known = [one for one in record.calls if call_id is not None and one.call_id == call_id]
            if known:
                return Tracked(tracked=True, key=known[0].key, reason="tracked before")
            self._check(f"track a call of {given.tool!r}")
            one = given.invocation(record.key("call", len(record.calls)), record.prompt)
            memory = one.to_memory(self._now, record.prompt)
            write = self._checked(memory)
            record.calls.append(one)
            record.pending.append(memory)
            why = f"{one.tool} failed" if one.error is not None else f"{one.tool} answered"
            about = {"tool": one.tool, "seconds": one.seconds, "relevance": one.relevance}
            self._spend("tracked", why, write, **about, failed=one.error is not None)
        return Tracked(tracked=True, key=one.key, reason=why)

    def memorize(
        self, item: str | Mapping[str, Any], metadata: Mapping[str, Any] | None = None
    ) -> Memorized:
        """Keep something that `commit` writes, in the memory types that it is routed to.

        Args:
            item: A text, or the arguments of `MemoryCoordinator.store` as a mapping. One that names
                its `memory_type` goes there.
            metadata: Anything else that is JSON, kept with it.

        Returns:
            Where it goes and why, under which keys, and what makes room for it.

        Raises:
            BudgetExceededError: if the turn has spent what it may; it is not kept.
            InvalidInputError: for what cannot be stored.
        """
        record = self._turn()
        (given,) = new_memories([item])
        one = settled(given)
        if metadata is not None:
            if not isinstance(metadata, Mapping):
                raise InvalidTypeError(f"metadata is a mapping, not {type(metadata).__name__}")
            one = replace(one, metadata={**one.metadata, **metadata})
        named = isinstance(item, Mapping) and item.get("memory_type") is not None
        with self._lock:
            self._check("memorize")
            route = _own(one) if named else self._router(one)
            kept = [self._kept(one, store, place) for place, store in enumerate(route.stores)]
            writes = [self._checked(each) for each in kept]
            record.pending += kept
            record.evicted += route.evicted
            keys = tuple(each.key for each in writes)
            about = {"stores": list(route.stores), "keys": [*keys], "evicted": [*route.evicted]}
            self._spend("memorized", route.reason, *writes[:1], **about)
        return Memorized(
            pending=bool(kept),
            keys=keys,
            stores=route.stores,
            tiers=tuple(each.tier for each in writes),
            reason=route.reason,
            evicted=route.evicted,
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

    async def amemorize(
        self, item: str | Mapping[str, Any], metadata: Mapping[str, Any] | None = None
    ) -> Memorized:
        """Keep something that `commit` writes; see `memorize`."""
        return self.memorize(item, metadata)

    async def anote_progress(self, goal: str, **noted: Any) -> None:
        """Note what the turn did for a goal; see `note_progress`."""
        self.note_progress(goal, **noted)

    async def aget_budget_status(self) -> BudgetStatus:
        """What the turn has spent, and what is left; see `get_budget_status`."""
        return self.get_budget_status()

    def note_progress(
        self,
        goal: str,
        *,
        progress: float | None = None,
        status: str | None = None,
        note: str | None = None,
    ) -> None:
        """Note what the turn did for a goal; `commit` exports it.

        Args:
            goal: The goal's name or id.
            progress: How much of it is done by now, from 0 to 1.
            status: What it is now: `done`, `blocked`, ….
            note: In a sentence.

        Raises:
            BudgetExceededError: if the turn has spent what it may.
            InvalidInputError: if nothing is noted.
        """
        record = self._turn()
        texts = {"status": status, "note": note}
        told = {name: checked_text(one, name) for name, one in texts.items() if one is not None}
        done = {} if progress is None else {"progress": share(progress, "progress")}
        if not done and not told:
            raise InvalidInputError("nothing is noted: give progress, status or note")
        delta = {"goal": checked_text(goal, "goal"), **done, **told}
        with self._lock:
            self._check("note progress")
            record.goals.append({**delta, "at": self._now.isoformat()})
            said = ", ".join(f"{name} {one}" for name, one in delta.items())
            self._spend("progressed", said, **delta)

    def get_budget_status(self) -> BudgetStatus:
        """What the turn has spent, and what is left."""
        record = self._turn(ended=True)
        seconds = max(0.0, (self._now - record.began).total_seconds())
        return spending.status(self.budget, record.tokens, record.spent, seconds)

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
        """Refuse what there is no budget for, and note that it was."""
        try:
            spending.check(self.get_budget_status(), what, tokens=tokens)
        except BudgetExceededError as refused:
            self._note("refused", str(refused), what=what)
            raise

    def _spend(self, kind: Kind, reason: str, *about: Write, **detail: Any) -> None:
        """Note a decision that counts towards the budget."""
        self._note(kind, reason, *about, **detail)
        self._turn().spent += 1

    def _note(self, kind: Kind, reason: str, *about: Write, **detail: Any) -> None:
        place = {"namespace": about[0].place.namespace, "key": about[0].key} if about else {}
        self._turn().events.append(
            TurnEvent(kind=kind, at=self._now, reasons=(reason,), detail=detail, **place)
        )

    def _kept(self, one: NewMemory, store: str, place: int) -> NewMemory:
        """An item as one of the memories that it becomes."""
        own = one.key if place == 0 else None
        return replace(
            one, memory_type=store, key=own or self._turn().key("item", self._turn().spent, place)
        )

    def _checked(self, one: NewMemory) -> Write:
        """The write of a memory, so that what cannot be stored is refused at once."""
        return to_write(
            one,
            context=self.context,
            types=self.memory.types,
            index=self._store.options.index,
            default_ttl=self._store.flows.default_ttl,
        )


def route(one: NewMemory) -> Route:
    """What plainly states a fact is known, all else happened."""
    if any(each.claims for each in statements(one.content) or ()):
        return Route(stores=("semantic",), reason="it states a fact")
    return Route(stores=("episodic",), reason="it tells what happened")


def _own(one: NewMemory) -> Route:
    return Route(stores=(one.memory_type,), reason=f"it is of type {one.memory_type!r}")
