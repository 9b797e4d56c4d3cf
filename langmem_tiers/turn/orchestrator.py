"""MemoryOrchestrator: one turn of an agent, from the context it begins with to what it leaves."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

from langmem_tiers.core.config import OrchestratorSettings
from langmem_tiers.core.errors import DatabaseError, InvalidInputError, InvalidTypeError, short
from langmem_tiers.core.namespaces import utf8_bytes
from langmem_tiers.core.tracing import traced
from langmem_tiers.core.values import storable
from langmem_tiers.learn.skills import MIN_SUPPORT
from langmem_tiers.memory.coordinator import MemoryCoordinator
from langmem_tiers.memory.reviews import begin_reviews
from langmem_tiers.postgres.flow import Flow
from langmem_tiers.remember.gate import keepable
from langmem_tiers.remember.new import checked_text, label
from langmem_tiers.turn.arguments import (
    checked_filters,
    checked_function,
    checked_list,
    checked_stages,
    checked_turn,
)
from langmem_tiers.turn.assemble import Assembled, assemble
from langmem_tiers.turn.calls import shortened
from langmem_tiers.turn.commit import Settling, abandon, commit, fail
from langmem_tiers.turn.history import HistoryVerbs
from langmem_tiers.turn.keeping import KeepingVerbs, Router
from langmem_tiers.turn.layout import ORCHESTRATOR, Layout, Stage
from langmem_tiers.turn.record import LONGEST_TASK, TurnRecord
from langmem_tiers.turn.report import CommitReport
from langmem_tiers.turn.sources import as_source, built_in, filled
from langmem_tiers.turn.spending import Budget, checked_tokens

_UNLIMITED = 10**9
_log = logging.getLogger(__name__)


class MemoryOrchestrator(KeepingVerbs, HistoryVerbs):
    """One turn: assembles its context, tracks what it does, and commits all of it or nothing.

    What is memorized and tracked is pending until `commit`, which writes it in one transaction.
    Left without a commit, the turn leaves its trace and the accesses that its recalls counted. It
    goes `with` and `async with`, and every verb has an async twin with an `a` in front.

    Example:
        ```python
        from langmem_tiers import Budget, MemoryContext, MemoryCoordinator, MemoryOrchestrator
        from langmem_tiers import TieredStore

        with TieredStore.embedded("./.memory") as store:
            memory = MemoryCoordinator(store, context=MemoryContext(tenant="acme"))
            with MemoryOrchestrator(memory, budget=Budget(tokens=2000)) as turn:
                context = turn.assemble_context("When do keys rotate?")
                print(context.text, context.tokens, context.sources)
                turn.track_tool_invocation("read_calendar", {"of": "ops"}, result="Mondays")
                turn.memorize("The API key rotates on Mondays.")
                print(turn.commit())
        ```
    """

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
        """Stand on a coordinator.

        Args:
            memory: Whose memory it is.
            budget: What the turn may spend.
            layout: `ORCHESTRATOR`, `PERSONA`, or a layout of one's own.
            sources: Sources by the name of their stage, in the place of those built in: anything
                with `remember(prompt, metadata)`, or such a function; for `identity` and `goals`
                also a mapping, or an object with `query(question, metadata)`; for `tools` and
                `conversation` also a list. One that the layout has no stage for gets one at its
                end.
            mode: The mode that the agent is in; its mandates depend on it.
            turn_id: A name that a retry of the turn has too; else a new one.
            settings: Filters for every recall, and what is tracked and extracted.
            router: Says where something goes that names no memory type; if not given, the gate
                does, by what it says.
            count_tokens: Counts the tokens of a text; LangChain's approximate counter if not given.

        Raises:
            ConfigurationError: if the layout has a stage without a source.
            InvalidTypeError: for what can be no source, or another argument of another type.
        """
        if not isinstance(memory, MemoryCoordinator):
            raise InvalidTypeError(f"a turn needs a MemoryCoordinator, not {type(memory).__name__}")
        checked_turn(budget=budget, layout=layout, settings=settings, sources=sources)
        checked_function(router, "router")
        checked_function(count_tokens, "count_tokens")
        self.memory = memory
        self.budget = Budget() if budget is None else budget
        self.layout = layout
        self.mode = label(mode, "mode")
        self.settings = OrchestratorSettings() if settings is None else settings
        self._sources = built_in()
        for name, given in (sources or {}).items():
            self.register(name, given)
        checked_stages(self.layout, self._sources)
        self._router = router
        self._count = count_tokens or memory.count_tokens
        self._turn_id = label(turn_id, "turn_id")
        self._record: TurnRecord | None = None
        self._report: CommitReport | None = None
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        """Whose turn it is, and how far."""
        record = self._record
        went = "not begun" if record is None else f"{record.turn!r} {record.closed or 'goes on'}"
        return f"MemoryOrchestrator({self.context!r}, {self.layout.name}: {went})"

    def register(self, name: str, source: Any, *, stage: Stage | None = None) -> None:
        """Add a source, or put it in the place of the one of that name.

        Args:
            name: Of its stage. One that the layout has no stage for gets one at its end.
            source: See `sources` of the orchestrator.
            stage: Its place in the layout, if it is new.

        Raises:
            InvalidTypeError: for what can be no source.
        """
        self._sources[checked_text(name, "the name of a source")] = as_source(name, source)
        if all(one.source != name for one in self.layout.stages):
            rank = max(one.rank for one in self.layout.stages)
            new = stage or Stage(
                source=name, title=f"## {name.replace('_', ' ').title()}", rank=rank
            )
            self.layout = self.layout.with_stage(new)

    # Beginning and end

    def begin(self, state: Mapping[str, Any] | None = None, *, about: str | None = None) -> Self:
        """Begin a turn, or go on with one that `to_state` told; `with` begins one by itself.

        Args:
            state: What `to_state` told of a turn that goes on.
            about: What a new turn answers, by name: a message's id.

        Raises:
            InvalidInputError: if a turn goes on already, or the state is none of a turn.
        """
        if self._record is not None and self._record.closed is None:
            raise InvalidInputError(
                f"the turn {self._record.turn!r} goes on: commit it, or make another orchestrator"
            )
        if state is None:
            turn, self._turn_id = self._turn_id or str(uuid4()), None
            self._record = TurnRecord(turn=turn, began=self._now, about=about)
        else:
            self._record = TurnRecord.of_state(state)
        self._report = None
        return self

    def to_state(self) -> dict[str, Any]:
        """The turn as JSON, for a graph's state between two nodes."""
        with self._lock:
            return self._turn(ended=True).to_state()

    def __enter__(self) -> Self:
        return self.begin()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if (leaving := self.leaving(error)) is None:
            return
        try:
            self._store.run(leaving)
        except DatabaseError as refused:
            _tell_or_raise(refused, error)

    async def __aenter__(self) -> Self:
        return self.begin()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if (leaving := self.leaving(error)) is None:
            return
        try:
            await self._store.arun(leaving)
        except DatabaseError as refused:
            _tell_or_raise(refused, error)

    def leaving(self, error: BaseException | str | None = None) -> Flow[None] | None:
        """What leaves of a turn that was not committed its trace alone, as a flow; else None."""
        record = self._record
        if record is None or record.closed is not None:
            return None
        record.closed = "abandoned"
        why = f"left by {type(error).__name__}" if isinstance(error, BaseException) else error
        return abandon(self._settling(record), why or "left without a commit")

    def failing(self, error: BaseException) -> Flow[None]:
        """What leaves the trace of a turn that failed and may go on, if its run is resumed."""
        return fail(self._settling(self._turn()), f"failed by {type(error).__name__}")

    # What a turn does

    @traced("tool")
    def assemble_context(
        self,
        prompt: str,
        budget: int | None = None,
        filters: Mapping[str, Any] | None = None,
        *,
        messages: Sequence[Any] | None = None,
        tools: Sequence[Any] | None = None,
        show_messages: bool = True,
    ) -> Assembled:
        """Ask every source in the layout's order, and put what fits into one text.

        Each source is told what the earlier ones answered.

        Args:
            prompt: What the turn is about.
            budget: Tokens at most; it never gets more than what is left of the turn's.
            filters: Options of `get_context` for every recall: `agent_id`, `tags`, `tiers`, ….
            messages: The conversation so far; the session's memories if not given.
            show_messages: False where the model is sent `messages` itself: they only inform.
            tools: What the agent can call, unless a source says so.

        Raises:
            BudgetExceededError: if the turn has spent what it may; nothing was asked.
            InvalidInputError: for a filter that no recall takes, or no room for a persona's rules.
        """
        plan = self.assembling(
            prompt, budget, filters, messages=messages, tools=tools, show_messages=show_messages
        )
        return self._store.run(plan)

    @traced("tool")
    async def aassemble_context(
        self,
        prompt: str,
        budget: int | None = None,
        filters: Mapping[str, Any] | None = None,
        *,
        messages: Sequence[Any] | None = None,
        tools: Sequence[Any] | None = None,
        show_messages: bool = True,
    ) -> Assembled:
        """Ask every source and put what fits into one text; see `assemble_context`."""
        plan = self.assembling(
            prompt, budget, filters, messages=messages, tools=tools, show_messages=show_messages
        )
        return await self._store.arun(plan)

    def assembling(
        self,
        prompt: str,
        budget: int | None = None,
        filters: Mapping[str, Any] | None = None,
        *,
        messages: Sequence[Any] | None = None,
        tools: Sequence[Any] | None = None,
        show_messages: bool = True,
    ) -> Flow[Assembled]:
        """What `assemble_context` does, as a flow."""
        record, wanted = self._turn(), checked_tokens(budget)
        utf8_bytes(_text(prompt, "prompt"), "prompt")
        self._check("assemble a context", tokens=True)
        told = {
            **self._told(filters),
            "messages": checked_list(messages, "messages"),
            "tools": checked_list(tools, "tools"),
            "show_messages": show_messages,
            "budget": self._room(wanted),
        }
        said = self._store.options.bounds.beginning(prompt)
        self.memory.asking.ask(said, self.context, **told["filters"])
        sections = yield from filled(self.layout, self._sources, prompt, told, self.memory)
        with self._lock:  # another call may have spent or ended it meanwhile
            self._turn()
            room = self._room(wanted)
            found = assemble(
                sections,
                layout=self.layout,
                budget=room,
                count_tokens=self._count,
                query=prompt,
                spent=0 if room == wanted else record.tokens,
            )
            kept = storable(keepable(prompt, self.memory.gate.policy, self.memory.gate.detectors))
            record.prompt = record.prompt or shortened(kept)
            record.tokens += found.tokens
            record.show(found.fragments)
            detail = {"prompt": kept[:LONGEST_TASK], "budget": room, **found.detail()}
            self._spend("assembled", found.reason(room), **detail)
        if found.nothing_fits:
            _log.warning("a context is empty: %s", found.reason(room))
        return found

    def _told(self, filters: Mapping[str, Any] | None) -> dict[str, Any]:
        """What every source is told of the turn."""
        return {
            **asdict(self.context),
            "mode": self.mode,
            "filters": {**self.settings.default_filters, **checked_filters(filters or {})},
            "now": self._now,
            "vectors": {},
        }

    def _room(self, wanted: int | None) -> int:
        """The tokens that a context may have: as many as are wanted, and as are left."""
        left = self.get_budget_status().tokens_left
        return min(one for one in (wanted, left, _UNLIMITED) if one is not None)

    @traced("tool")
    def commit(self, *, success: bool | None = None) -> CommitReport:
        """Write all that is pending in one transaction, with the trace; done again, nothing more.

        Failed tool calls that worked later become lessons, and what recurs in the project's turns
        is proposed as a skill.

        Args:
            success: Whether the turn went well, for the skills; if not given, it went as its last
                tool call did.

        Returns:
            A summary, and what was written: episodic, semantic, and the progress of goals.

        Raises:
            ConflictError: if others committed all the while; nothing was written.
            InvalidInputError: if the turn was left before, or derives from what is not there.
        """
        if self._report is not None:
            return self._report
        return self._store.run(self.committing(success=success))

    @traced("tool")
    async def acommit(self, *, success: bool | None = None) -> CommitReport:
        """Write all that is pending in one transaction; see `commit`."""
        if self._report is not None:
            return self._report
        return await self._store.arun(self.committing(success=success))

    def committing(self, *, success: bool | None = None) -> Flow[CommitReport]:
        """What `commit` does, as a flow."""
        if success is not None and not isinstance(success, bool):
            raise InvalidTypeError(f"success is True, False or None, not {short(success)}")
        record = self._turn()
        support = MIN_SUPPORT if self.settings.enable_skill_extraction else None
        settling = self._settling(record)._replace(success=success, min_support=support)
        with self._lock:  # what came later would be written nowhere
            self._turn().closed = "committing"
        try:
            report = yield from commit(settling)
        except BaseException:
            record.closed = None
            raise
        self._report, record.closed = report, "committed"
        begin_reviews(self.memory, [str(one.key) for one in report.stored])
        return report

    def _settling(self, record: TurnRecord) -> Settling:
        return Settling(
            record=record,
            context=self.context,
            store=self._store.flows,
            memory=self.memory.flows,
            budget=self.get_budget_status(),
        )


def _tell_or_raise(refused: DatabaseError, error: BaseException | None) -> None:
    """The error that ended a turn goes on; that its trace is lost is told beside it."""
    if error is None:
        raise refused
    _log.warning("the trace of a turn could not be written: %s", refused)


def _text(given: object, what: str) -> str:
    if not isinstance(given, str):
        raise InvalidTypeError(f"{what} is a string, not {type(given).__name__}")
    return given
