"""Hold what every verb of a turn uses: its memory, its rules, and its record so far."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self
from uuid import uuid4

from langmem_tiers.coordinator.coordinator import MemoryCoordinator
from langmem_tiers.core.checks import checked_flag, checked_instance, checked_label
from langmem_tiers.core.errors import (
    BudgetExceededError,
    InvalidInputError,
    InvalidTypeError,
    short,
)
from langmem_tiers.core.memory import Destination
from langmem_tiers.core.options import RECALL_OPTIONS
from langmem_tiers.core.settings import OrchestratorSettings
from langmem_tiers.remember.new_memory import NewMemory, checked_text
from langmem_tiers.store.write import Write
from langmem_tiers.turn.layout import ORCHESTRATOR, Layout, Stage
from langmem_tiers.turn.record import TurnRecord
from langmem_tiers.turn.sources import built_in_sources, check_known_names, check_stages, to_source
from langmem_tiers.turn.trace import (
    Budget,
    BudgetStatus,
    CommitReport,
    EventKind,
    TurnEvent,
    TurnTrace,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Destinations of an item, each with the reason, and the keys evicted to make room."""

    destinations: tuple[Destination, ...]
    """Memory types; empty if the item is not to be kept."""
    evicted: tuple[str, ...] = ()
    """Keys of memories that are deleted when the turn is committed."""


Router = Callable[[NewMemory], Route | None]
"""Function that chooses memory types for an item that names none."""


class Turn:
    """`MemoryOrchestrator` without its verbs."""

    def __init__(
        self,
        memory: MemoryCoordinator,
        *,
        budget: Budget | None = None,
        layout: Layout = ORCHESTRATOR,
        sources: Mapping[str, Any] | None = None,
        mode: str | None = None,
        turn_id: str | None = None,
        settings: OrchestratorSettings | None = None,
        router: Router | None = None,
        count_tokens: Callable[[str], int] | None = None,
    ) -> None:
        """Prepare a turn of a coordinator.

        Args:
            memory: Whose memory it is.
            budget: What the turn may spend.
            layout: `ORCHESTRATOR`, `PERSONA`, or a layout of one's own.
            sources: Sources by the name of their stage, in the place of those built in: anything
                with `remember(prompt, metadata)`, or such a function; for `identity` and `goals`
                also an object with `query(question, metadata)`; for `identity` also a mapping.
                Those that the layout has no stage for get one at its end, and are asked side by
                side. One that raises loses its own section.
            mode: The mode that the agent is in; its mandates depend on it.
            turn_id: A name that a retry of the turn has too; else a new one.
            settings: Filters for every recall, and what is tracked and extracted.
            router: Says where something goes that names no memory type; if not given, or where it
                answers None, it goes to the type that its metadata names, what has a speaker to
                `episodic`, and anything else to `semantic`.
            count_tokens: Counts the tokens of a text; LangChain's approximate counter if not given.

        Raises:
            ConfigurationError: if the layout has a stage without a source.
            InvalidTypeError: for what can be no source, or another argument of another type.
        """
        if not isinstance(memory, MemoryCoordinator):
            raise InvalidTypeError(f"a turn needs a MemoryCoordinator, not {type(memory).__name__}")
        check_turn_arguments(budget=budget, layout=layout, settings=settings, sources=sources)
        for what, function in {"router": router, "count_tokens": count_tokens}.items():
            if function is not None and not callable(function):
                raise InvalidTypeError(f"{what} is a function or None, not {short(function)}")
        self.memory, self.context, self.runner = memory, memory.context, memory.runner
        self.budget = Budget() if budget is None else budget
        self.layout = layout
        self.mode = checked_label(mode, "mode")
        self.settings = OrchestratorSettings() if settings is None else settings
        self.sources, self.own_sources, self.beside = built_in_sources(), set[str](), set[str]()
        for name, source in (sources or {}).items():
            self.register(name, source, replace=True)
        check_stages(self.layout, self.sources)
        self.router = router
        self.count_tokens = count_tokens or memory.count_tokens
        self.record: TurnRecord | None = None
        """Record so far; None before it begins."""
        self.report: CommitReport | None = None
        """Report, once it is committed."""
        self.lock = threading.Lock()
        """Lock on the record."""
        self._turn_id = checked_label(turn_id, "turn_id")

    def __repr__(self) -> str:
        """Return the turn's context and state."""
        record = self.record
        went = "not begun" if record is None else f"{record.turn!r} {record.closed or 'goes on'}"
        return f"MemoryOrchestrator({self.context!r}, {self.layout.name}: {went})"

    @property
    def now(self) -> datetime:
        """Return the time by the store's clock."""
        return self.memory.tiered_store.flows.now

    @property
    def trace(self) -> TurnTrace:
        """Return the decisions of the turn so far."""
        record = current_record(self, ended=True)
        return TurnTrace(turn=record.turn, events=tuple(record.events))

    def register(
        self, name: str, source: Any, *, stage: Stage | None = None, replace: bool = False
    ) -> None:
        """Add a source.

        Args:
            name: Of its stage. One that the layout has no stage for gets one at its end.
            source: See `sources` of the orchestrator.
            stage: How it is asked and shown.
            replace: Put it in the place of the one of that name.

        Raises:
            InvalidInputError: if there is one of that name, or the stage is another source's.
            InvalidTypeError: for what can be no source.
        """
        if checked_text(name, "the name of a source") in self.sources and not (
            checked_flag(replace, "replace")
        ):
            raise InvalidInputError(
                f"there is a source {name!r} already: register it with replace=True to put this "
                "one in its place, or under another name"
            )
        if stage is not None and checked_instance(stage, Stage, "stage").source != name:
            raise InvalidInputError(f"the stage of {name!r} names the source {stage.source!r}")
        self.sources[name] = to_source(name, source)
        self.own_sources.add(name)
        if stage is None and all(other.source != name for other in self.layout.stages):
            self.beside.add(name)  # a source without a stage is asked beside others
            rank = max(other.rank for other in self.layout.stages)
            title = f"## {name.replace('_', ' ').title()}"
            stage = Stage(source=name, title=title, rank=rank)
        if stage is not None:
            self.layout = self.layout.with_stage(stage)

    def begin(self, state: Mapping[str, Any] | None = None, *, about: str | None = None) -> Self:
        """Begin a turn, or continue one from `to_state`; `with` begins one by itself.

        Args:
            state: What `to_state` told of a turn that goes on.
            about: What a new turn answers, by name: a message's id.

        Raises:
            InvalidInputError: if a turn goes on already, or the state is none of a turn.
        """
        if self.record is not None and self.record.closed is None:
            raise InvalidInputError(
                f"the turn {self.record.turn!r} goes on: commit it, or make another orchestrator"
            )
        if state is None:
            turn, self._turn_id = self._turn_id or str(uuid4()), None
            self.record = TurnRecord(turn=turn, began=self.now, about=about)
        else:
            self.record = TurnRecord.of_state(state)
        self.report = None
        return self

    def to_state(self) -> dict[str, Any]:
        """Return the turn as JSON, for a graph's state between two nodes."""
        with self.lock:
            return current_record(self, ended=True).to_state()

    def get_budget_status(self) -> BudgetStatus:
        """Return what the turn has spent, and what is left."""
        record = current_record(self, ended=True)
        seconds = max(0.0, (self.now - record.began).total_seconds())
        return self.budget.status(record.tokens, record.spent, seconds)

    def leave_out(self, what: str, why: str) -> None:
        """Note in the trace that something is left out, and why."""
        with locked_record(self) as record:
            record.refuse(what, why, self.now)


def current_record(turn: Turn, *, ended: bool = False) -> TurnRecord:
    """Return the record of the open turn; with `ended`, of one that is over as well.

    Raises:
        InvalidInputError: if there is none.
    """
    if turn.record is None:
        raise InvalidInputError(
            "no turn has begun: `with MemoryOrchestrator(memory) as turn`, or begin() one"
        )
    if turn.record.closed is not None and not ended:
        raise InvalidInputError(
            f"the turn {turn.record.turn!r} was {turn.record.closed}: begin another"
        )
    return turn.record


@contextmanager
def locked_record(turn: Turn) -> Iterator[TurnRecord]:
    """Yield the record of the open turn, while nobody else changes it."""
    with turn.lock:
        yield current_record(turn)  # it may have ended during the wait for the lock


def check_budget(turn: Turn, what: str, *, tokens: bool = False) -> None:
    """Refuse an action that there is no budget for, and count the refusals."""
    try:
        turn.get_budget_status().check(what, tokens=tokens)
    except BudgetExceededError as refused:
        current_record(turn).refuse(what, str(refused), turn.now)
        raise


def note_event(turn: Turn, kind: EventKind, reason: str, *about: Write, **detail: Any) -> None:
    """Note a decision, about the first of these writes."""
    place = {"namespace": about[0].place.namespace, "key": about[0].key} if about else {}
    current_record(turn).events.append(
        TurnEvent(kind=kind, at=turn.now, reasons=(reason,), detail=detail, **place)
    )


def spend_event(turn: Turn, kind: EventKind, reason: str, *about: Write, **detail: Any) -> None:
    """Note a decision that counts towards the budget."""
    note_event(turn, kind, reason, *about, **detail)
    current_record(turn).spent += 1


_KINDS: Mapping[str, tuple[type, str]] = {
    "budget": (Budget, "is a Budget, such as Budget(tokens=500)"),
    "layout": (Layout, "is ORCHESTRATOR, PERSONA or a Layout(name=…, stages=…)"),
    "settings": (OrchestratorSettings, "are OrchestratorSettings(default_filters=…)"),
    "sources": (Mapping, "is a mapping of sources by name"),
}
"""Type of each rule of a turn, and how an error describes it."""


def check_turn_arguments(filters: object = None, **rules: object) -> None:
    """Refuse wrong arguments of a turn: budget, layout, settings, sources or filters.

    None stands for an argument that is not given.

    Raises:
        InvalidTypeError: for one of another type, or a filter that no recall takes.
    """
    for name, value in rules.items():
        kind, phrase = _KINDS[name]
        left_out = value is None and name != "layout"
        if not left_out and not isinstance(value, kind):
            raise InvalidTypeError(f"{name} {phrase}, not {short(value)}")
    if filters is not None:
        checked_filters(filters)


def checked_filters(filters: object) -> dict[str, Any]:
    """Return filters of a turn: options of `get_context`, by name.

    Raises:
        InvalidTypeError: for no mapping, or a name that no recall takes.
    """
    if not isinstance(filters, Mapping):
        raise InvalidTypeError(
            f"filters is a mapping of options of get_context, not {short(filters)}"
        )
    check_known_names(filters, RECALL_OPTIONS, "filters")
    return dict(filters)
