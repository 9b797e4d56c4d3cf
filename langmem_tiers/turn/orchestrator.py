"""MemoryOrchestrator: one turn; its commit writes all that is pending, else its trace."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from math import hypot
from operator import mul
from typing import Any, Self

from langmem_tiers.agent_state import models as states
from langmem_tiers.coordinator.base import checked_limit
from langmem_tiers.core.checks import checked_label
from langmem_tiers.core.errors import (
    ConflictError,
    DatabaseError,
    InvalidInputError,
    InvalidTypeError,
    short,
)
from langmem_tiers.core.memory import Place, Tier, encode_namespace
from langmem_tiers.core.texts import exact_words
from langmem_tiers.core.values import replace_unstorable
from langmem_tiers.core.vectors import PackedVector, pack_all
from langmem_tiers.learning import skills
from langmem_tiers.postgres.flow import (
    Call,
    Embed,
    Flow,
    Query,
    Rows,
    both,
    both_of_function,
    map_result,
    retry_on_conflict,
    rows_of,
)
from langmem_tiers.remember.commit import AppliedWrites, commit_if, derive_calls
from langmem_tiers.remember.new_memory import NewMemory, checked_text
from langmem_tiers.remember.pipeline import SAME_KEY
from langmem_tiers.store.write import LOCK, Write, embed_writes, last_writes, lock_call
from langmem_tiers.turn import assembly, pending
from langmem_tiers.turn import trace as traces
from langmem_tiers.turn.record import Invocation, TurnRecord
from langmem_tiers.turn.turn import Turn, locked_record

_TRACES = "\0traces"
"""Key that turns lock to read a project's traces and add their own."""
_TURNS = 20
"""Turns that are listed by default: our own choice."""
_log = logging.getLogger(__name__)


def commit(turn: Turn, *, success: bool | None = None) -> Flow[traces.CommitReport]:
    """Write all that is pending in one transaction, with the trace; a second call writes nothing.

    An entry that cannot be written any more, as its goal is closed or its source is gone, is
    refused by itself: the report says why.

    Failed tool calls that worked later become attempts, and what recurs in the project's turns
    is proposed as a skill.

    Args:
        success: Whether the turn went well, for the skills; if not given, it went as its last
            tool call did.

    Returns:
        A summary, and what was written: episodic, semantic, and the progress of goals.

    Raises:
        ConflictError: if others committed all the while, ten times; nothing was written.
        InvalidInputError: if the turn was left before, or was committed with other content.
    """
    if turn.report is not None:
        return turn.report
    if success is not None and not isinstance(success, bool):
        raise InvalidTypeError(f"success is True, False or None, not {short(success)}")
    vectors = dict[str, PackedVector | None]()
    with locked_record(turn) as record:  # a later entry would be lost
        record.closed = "committing"
    try:
        report = yield from retry_on_conflict(
            lambda: _Commit(turn, record, vectors).run(success=success)
        )
    except BaseException:
        record.closed = None
        raise
    turn.report, record.closed = report, "committed"
    return report


def leave_turn(turn: Turn, error: BaseException | str | None = None) -> Flow[None] | None:
    """Leave a turn that was not committed: write its trace, or return None if there is none.

    A turn that has ended stays as it ended.
    """
    record = turn.record
    if record is None or record.closed is not None:
        return None
    record.closed = "abandoned"
    why = f"left by {type(error).__name__}" if isinstance(error, BaseException) else error
    return _write_abandoned(turn, record, why or "left without a commit")


def _write_abandoned(turn: Turn, record: TurnRecord, reason: str) -> Flow[None]:
    """Write the trace of a turn and nothing else, unless the turn has ended."""
    summary = {
        "memories": len(record.pending),
        "tool calls": len(record.calls),
        "refused": record.refusals,
        "quarantined": sum(memory.held is not None for memory in record.pending),
    }
    ended = _ending_event(turn, record, "abandoned", reason, {"summary": summary}, at=turn.now)
    trace = traces.TurnTrace(turn=record.turn, events=(*record.events, ended))
    lock = lock_call(
        [traces.turn_lock(turn.context, record.turn)], turn.memory.tiered_store.options
    )
    yield Query((lock, traces.record_call(turn.context, trace)), commit=True)


def _ending_event(
    turn: Turn,
    record: TurnRecord,
    kind: traces.Ending,
    reason: str,
    detail: Mapping[str, Any],
    *,
    at: datetime,
) -> traces.TurnEvent:
    """Make the event that ends a turn, with the fields that it is listed by."""
    context_fields = {
        name: getattr(turn.context, name) for name in ("project_id", "session_id", "user_id")
    }
    whose = {
        name: replace_unstorable(value)
        for name, value in context_fields.items()
        if value is not None
    }
    detail = {"began": record.began.isoformat(), **whose, **detail}
    return traces.TurnEvent(kind=kind, at=at, reasons=(reason,), detail=detail)


class _Commit:
    """One try to commit a turn: what it writes, and what it checks once its keys are locked.

    If another transaction was faster, a new try begins, with the vectors that there are.
    """

    def __init__(
        self, turn: Turn, record: TurnRecord, vectors: dict[str, PackedVector | None]
    ) -> None:
        """Begin with the turn's record."""
        self.turn, self.record, self.vectors = turn, record, vectors
        self.budget = turn.get_budget_status()
        self.context, self.pipeline = turn.context, turn.memory.pipeline
        self.store = turn.memory.tiered_store.flows
        attempts = record.attempts(self.context)
        self.taught = [attempt for attempt, _ in attempts]
        """Attempts and skills that are written beside the pending memories."""
        self.lessons = {str(attempt.key): call for attempt, call in attempts}
        """Key of the failed call, by the key of its attempt."""
        self.steps = record.steps()
        """Progress by goal."""
        self.skills = list[str]()
        self.seen: list[skills.Trace] | None = None
        """Traces that its skills were found in; None if none were looked for."""
        self.lost = dict[tuple[Place, str], str]()
        """Reason why a pending memory cannot be written, by its place and key."""
        self.goals = dict[str, states.Goal]()
        """Goals with their new progress, once `_is_current` has read them."""
        self.closed = dict[str, str]()
        """Reason of the refusal of each step whose goal is gone by then."""
        self.report: traces.CommitReport | None = None

    def run(self, *, success: bool | None) -> Flow[traces.CommitReport]:
        """Prepare the writes, lock all that they depend on, and write them."""
        options = self.store.options
        yield from self.store.refresh_state()
        (rows,) = yield Query(
            (traces.turn_ended_call(self.context, self.record.turn),), commit=True
        )
        if rows:
            return (yield from self._report_before(*rows[0]))
        self.vectors |= yield from self._measure_relevance()
        yield from self._find_skills(success=success)
        puts = yield from self._pending_writes()
        puts += yield from self.pipeline.prepare_writes(self.taught, self.context)
        writes = last_writes([*(yield from self._eviction_writes()), *puts])
        free = {write.name for write in writes if not write.held}
        self.lost |= {write.name: SAME_KEY for write in puts if write.held and write.name in free}
        # a second try has most of the vectors
        fresh = [
            write for write in writes if any(text not in self.vectors for _, text in write.texts)
        ]
        self.vectors |= yield from embed_writes(fresh, options)
        locks, moment = [traces.turn_lock(self.context, self.record.turn)], self.store.moment()
        looks = [traces.turn_ended_call(self.context, self.record.turn)]
        if self.seen is not None:
            locks.append((*encode_namespace(self.context.namespace(Tier.WORKING)), _TRACES))
            looks.append(skills.recent_traces_call(self.context, moment))
        if self.lessons:
            locks.append((self.context.root, "", LOCK))
        owner = states.StateOwner.from_context(self.context)
        goal = {"kind": states.GOAL, "now": moment.now}
        if self.steps:
            looks.append(owner.call("lock_states", kind=states.GOAL))
            looks += [owner.call("one_state", name=name, **goal) for name in self.steps]
        applied = yield from commit_if(
            writes,
            options=options,
            moment=moment,
            vectors=self.vectors,
            keys=locks,
            calls=looks,
            stands=self._is_current,
            further=lambda applied: self._further_calls(applied, moment.now),
            sparing=True,
        )
        if applied is None or self.report is None:
            turn = self.record.turn
            raise ConflictError(f"somebody else committed beside the turn {turn!r}: again")
        return self.report

    def _measure_relevance(self) -> Flow[Mapping[str, PackedVector | None]]:
        """Measure how near each tool call is to the prompt, unless its caller said so.

        The relevance is the cosine of the prompt and of the call's memory, from 0 up; without an
        embedding model, the share of the prompt's words that the call and its answer have.

        Returns:
            The vectors of the memories, by text, as they are written with these.
        """
        record, index = self.record, self.store.options.index
        untold = {call.key: call for call in record.calls if call.relevance is None}
        if not (untold and exact_words(record.prompt)):
            return {}
        contents = {
            str(memory.key): memory.content for memory in record.pending if memory.key in untold
        }
        vector = None if index is None else index.vector
        if vector is None:
            self._note_relevance(
                {key: _shared_words(record.prompt, call) for key, call in untold.items()}
            )
        if vector is None or not contents:
            return {}
        texts = tuple(dict.fromkeys(contents.values()))
        (asked,) = yield Embed((record.prompt,), "query")
        vectors = yield Embed(texts, "documents")
        near = dict(
            zip(texts, (_cosine_similarity(asked, answered) for answered in vectors), strict=True)
        )
        self._note_relevance({key: near[text] for key, text in contents.items()})
        return dict(zip(texts, pack_all(vectors, len(texts), vector), strict=True))

    def _note_relevance(self, relevance: Mapping[str, float]) -> None:
        """Set the relevance of the calls, and of their memories."""
        record, rounded = self.record, {key: round(value, 2) for key, value in relevance.items()}
        record.calls = [
            replace(call, relevance=rounded.get(call.key, call.relevance)) for call in record.calls
        ]
        for place, memory in enumerate(record.pending):
            if (key := str(memory.key)) in rounded:
                tool_call = {**memory.further["tool_call"], "relevance": rounded[key]}
                further = {**memory.further, "tool_call": tool_call}
                record.pending[place] = replace(memory, further=further)

    def _find_skills(self, *, success: bool | None) -> Flow[None]:
        """Find what recurs in the project's turns; this turn adds its trace."""
        own = self.record.trace(success=success)
        if own is None or not self.turn.settings.enable_skill_extraction:
            return
        moment = self.store.moment()
        (rows,) = yield Query((skills.recent_traces_call(self.context, moment),), commit=True)
        self.seen = skills.read_traces(rows)
        others = [run_trace for run_trace in self.seen if run_trace.run != own.run]
        trace = self.record.run_memory(own, self.context)
        current = [own] if trace.held is None else []
        proposed = skills.proposed_skills(
            [*current, *others], self.context, min_support=skills.MIN_SUPPORT
        )
        stored = yield from skills.read_stored_values(
            list(proposed), self.context, moment, (Tier.WORKING,)
        )
        news = {
            key: skill
            for key, skill in proposed.items()
            if skills.has_new_evidence(skill, stored.get(key))
        }
        self.taught += [trace, *map(self.turn.memory.gate.cap_source_trust, news.values())]
        self.skills += news

    def _pending_writes(self) -> Flow[list[Write]]:
        """Return the writes of what is pending; what cannot be written goes to `lost`."""
        record, context, sound = self.record, self.context, list[NewMemory]()
        lacking = yield from self.pipeline.missing_origins(record.pending, context)
        for memory, why in zip(record.pending, lacking, strict=True):
            if why is None:
                sound.append(memory)
            else:
                gone = self.pipeline.to_write(memory, context)
                self.lost[gone.place, gone.key] = why
        echoed = tuple(
            (Place(context.root, echo["namespace"]), echo["key"]) for echo in record.echoes
        )
        return (yield from self.pipeline.prepare_writes(sound, context, echoed))

    def _eviction_writes(self) -> Flow[list[Write]]:
        """Return the deletions that make room, of memories of the context that are still there."""
        if not self.record.evicted:
            return []
        alive_at = self.store.moment().alive_at
        params = {
            **self.context.scope_params,
            "keys": list(self.record.evicted),
            "alive_at": alive_at,
        }
        rows = yield from rows_of("known_keys", **params)
        own = {encode_namespace(place) for tier in Tier for place in self.context.places(tier)}
        places = [(Place(tenant, namespace), key) for key, tenant, namespace, _ in rows]
        return [Write(place=place, key=key, value=None) for place, key in places if place in own]

    def _is_current(self, answers: list[Rows]) -> bool:
        """Tell whether nobody else committed meanwhile, and read the goals."""
        ended, *others = answers
        if ended or (self.seen is not None and skills.read_traces(others[0]) != self.seen):
            return False
        before = others[len(others) - len(self.steps) :]
        for (goal, steps), rows in zip(self.steps.items(), before, strict=True):
            if (goal_before := states.state_from_rows(states.Goal, rows)) is not None:
                self.goals[goal] = states.apply_deltas(goal, goal_before, *steps)
            else:
                why = f"the goal {short(goal)} is closed by now: it is no nearer"
                self.closed |= {str(step.delta_id): why for step in steps}
        return True

    def _further_calls(self, applied: AppliedWrites, now: datetime) -> list[Call]:
        """Return the calls made with the memories: lineage, goals, and the trace."""
        outcome = replace(applied, refused={**self.lost, **applied.refused})
        self.report = self._make_report(outcome, now)
        places = [(write.place, write.key) for write in applied.writes]
        calls = [self.lessons.get(write.key) for write in applied.writes]
        lessons = [  # an attempt comes from the call that failed in it
            replace(write, sources=tuple(each for each in places if each[1] == call))
            for write, call in zip(applied.writes, calls, strict=True)
        ]
        derived = derive_calls(lessons, now, lambda attempt: self.record.key("lesson", attempt.key))
        owner = states.StateOwner.from_context(self.context)
        goals = [
            owner.put(states.GOAL, name, states.state_to_json(goal), now)
            for name, goal in self.goals.items()
        ]
        return [*derived, *goals, traces.record_call(self.context, self.report.trace)]

    def _make_report(self, applied: AppliedWrites, now: datetime) -> traces.CommitReport:
        """Report a commit, now that its writes are known; a retry gets the same report."""
        record = self.record
        puts = [put for put in applied.writes if put.value is not None]
        exports = [
            traces.export_memory(put.place, put.key, put.tier, json.loads(put.value or ""))
            for put in puts
        ]
        written = {put.key for put in puts}
        lessons = [key for key in self.lessons if key in written]
        learned = [key for key in self.skills if key in written]
        episodes = sum(map(traces.is_episodic, exports))
        summary = {
            "episodic": episodes,
            "semantic": len(exports) - episodes,
            "tool calls": len(record.calls),
            "lessons": len(lessons),
            "skills": len(learned),
            "goals": len(record.goals) - len(self.closed),
            "refused": record.refusals + len(applied.refused) + len(self.closed),
            "quarantined": sum(put.held is not None for put in puts),
        }
        detail = {
            "summary": summary,
            "wanted": list(record.wanted),
            "stored": [
                {
                    "key": put.key,
                    "namespace": put.place.namespace,
                    "tier": put.tier.value,
                    "held": put.held,
                    "evicted": [each.memory.key for each in applied.evicted if each.by == put.key],
                }
                for put in puts
            ],
            "refused": {**{key: why for (_, key), why in applied.refused.items()}, **self.closed},
            "lessons": lessons,
            "skills": learned,
            "goals": [
                {**delta, "progress": self.goals[delta["goal"]].progress}
                for delta in record.goals
                if delta["goal"] in self.goals
            ],
        }
        wrote = ", ".join(f"{number} {name}" for name, number in summary.items() if number)
        why = wrote or "nothing to write"
        ended = _ending_event(self.turn, record, "committed", why, detail, at=now)
        events = (*record.events, *self._refusal_events(applied, now), ended)
        trace = traces.TurnTrace(turn=record.turn, events=events)
        return traces.commit_report(detail, exports, budget=self.budget, trace=trace)

    def _refusal_events(self, applied: AppliedWrites, now: datetime) -> Iterator[traces.TurnEvent]:
        """Yield an event for each entry that passed the gate and was not written."""
        for why in self.closed.values():
            yield traces.TurnEvent(kind="refused", at=now, reasons=(why,))
        pending = {memory.key: memory for memory in self.record.pending}
        for (place, key), why in applied.refused.items():
            begins = (
                traces.redacted_beginning(pending[key], self.turn.memory.gate)
                if key in pending
                else {}
            )
            about: dict[str, Any] = {"namespace": place.namespace, "key": key, "detail": begins}
            yield traces.TurnEvent(kind="refused", at=now, reasons=(why,), **about)

    def _report_before(
        self, kind: traces.Ending, detail: Mapping[str, Any]
    ) -> Flow[traces.CommitReport]:
        """Report the earlier commit of this turn, as its memories are by now.

        Raises:
            InvalidInputError: if it was left, wanted something else, or was another project's.
        """
        record, context = self.record, self.context
        if kind == "abandoned":
            raise InvalidInputError(
                f"the turn {record.turn!r} was abandoned, and what it wanted written is gone: "
                "begin another"
            )
        if new := set(record.wanted) - set(detail["wanted"]):
            raise InvalidInputError(
                f"the turn {record.turn!r} was committed before, without {len(new)} of the things "
                "that it wants now: nothing was written; give each turn a turn_id of its own, and "
                "a retry what the first one had"
            )
        if not traces.belongs_to_context(context, detail):
            raise InvalidInputError(
                f"the turn {record.turn!r} was committed before, in another project or by another "
                "user: nothing was written; give each turn a turn_id of its own"
            )
        names = [(entry["namespace"], entry["key"]) for entry in detail["stored"]]
        rows = yield from rows_of(
            "get_many",
            tenants=[context.root for _ in names],
            namespaces=[namespace for namespace, _ in names],
            keys=[key for _, key in names],
        )
        alive_at = self.store.moment().alive_at
        exports_by_name = {
            (namespace, key): traces.export_memory(Place(tenant, namespace), key, tier, value)
            for tenant, namespace, key, value, _, _, tier, expires_at, *_ in rows
            if expires_at is None or expires_at > alive_at
        }
        trace = yield from traces.read_trace(record.turn, context)
        exports = [exports_by_name[name] for name in names if name in exports_by_name]
        return traces.commit_report(detail, exports, budget=self.budget, trace=trace)


def _cosine_similarity(vector: Sequence[float], other: Sequence[float]) -> float:
    """Return the cosine of two vectors of any length; 0 if it is negative or undefined."""
    long = hypot(*vector) * hypot(*other)
    return max(0.0, min(1.0, sum(map(mul, vector, other)) / long)) if long else 0.0


def _shared_words(prompt: str, call: Invocation) -> float:
    """Return the share of the prompt's words that a call has."""
    sought = set(exact_words(prompt))
    words = set(exact_words(f"{call.tool.replace('_', ' ')} {call.approach} {call.result or ''}"))
    return len(sought & words) / len(sought)


# Turns that have ended


def history(turn: Turn, turn_id: str) -> Flow[traces.TurnTrace]:
    """Return the trace of a turn that has ended.

    Raises:
        InvalidInputError: if the context's project has no such turn.
    """
    return traces.read_trace(checked_text(turn_id, "turn_id"), turn.context)


def turns(
    turn: Turn, limit: int = _TURNS, *, session_id: str | None = None
) -> Flow[list[traces.EndedTurn]]:
    """Return how the project's turns ended, the latest first, failed ones too.

    They are those of the context's project, or of the whole tenant if it names none, without those
    of other users.

    Args:
        limit: How many at most: 0 to 1,000.
        session_id: Only those of this session.
    """
    context, session = turn.context, checked_label(session_id, "session_id")
    project = None if context.project_id is None else replace_unstorable(context.project_id)
    params = {**context.scope_params, "limit": checked_limit(limit)}
    ended = rows_of("turns_ended", **params, session=session, project=project)
    return map_result(ended, _read_ended_turns)


def _read_ended_turns(rows: Rows) -> list[traces.EndedTurn]:
    names = ("at", "kind", "turn", "began", "reason", "project_id", "session_id", "summary")
    ended = [dict(zip(names, row[1:], strict=True)) for row in rows]
    for fields in ended:
        fields["began"] = (
            None if fields["began"] is None else datetime.fromisoformat(fields["began"])
        )
        fields["summary"] = dict(fields["summary"] or {})
    return [traces.EndedTurn(**fields) for fields in ended]


# The verbs


class MemoryOrchestrator(Turn):
    """One turn: assembles its context, tracks what it does, and commits all of it or nothing.

    What is memorized and tracked is pending until `commit`, which writes it in one transaction.
    Without a commit, the turn leaves its trace and the accesses that its recalls counted. It works
    with `with` and `async with`, and every verb has an async twin with an `a` in front.

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

    assemble_context, aassemble_context = both(assembly.assemble_context, "tool")
    track_tool_invocation, atrack_tool_invocation = both_of_function(pending.track_tool_invocation)
    memorize, amemorize = both(pending.memorize, "tool")
    note_progress, anote_progress = both(pending.note_progress)
    commit, acommit = both(commit, "tool")

    get_budget_status, aget_budget_status = both_of_function(Turn.get_budget_status)
    history, ahistory = both(history)
    turns, aturns = both(turns)

    def __enter__(self) -> Self:
        return self.begin()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        with _log_lost_trace(error):
            if (leaving := leave_turn(self, error)) is not None:
                self.runner.run(leaving)

    async def __aenter__(self) -> Self:
        return self.begin()

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        with _log_lost_trace(error):
            if (leaving := leave_turn(self, error)) is not None:
                await self.runner.arun(leaving)


@contextmanager
def _log_lost_trace(error: BaseException | None) -> Iterator[None]:
    """Let the error that ended a turn go on, and log that its trace is lost."""
    try:
        yield
    except DatabaseError as refused:
        if error is None:
            raise
        _log.warning("the trace of a turn could not be written: %s", refused)
