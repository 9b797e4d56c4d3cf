"""How a turn ends: all it wants written in one transaction, or its trace alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

from langmem_tiers.core.errors import ConflictError, InvalidInputError, InvalidTypeError, short
from langmem_tiers.core.memory import MemoryContext, Tier
from langmem_tiers.core.namespaces import Place, encode
from langmem_tiers.core.values import storable
from langmem_tiers.core.vectors import PackedVector
from langmem_tiers.learn import traces
from langmem_tiers.learn.skills import MIN_SUPPORT, Trace
from langmem_tiers.learn.stored import stored_values
from langmem_tiers.memory.flows import MemoryFlows
from langmem_tiers.memory.reviews import begin_reviews
from langmem_tiers.postgres.flow import Call, Flow, Query, Row, Rows, anew
from langmem_tiers.remember.admission import Applied, admitted, carry_out_admitted, needs_admission
from langmem_tiers.remember.admit import SAME_KEY, without_held_twins
from langmem_tiers.remember.new import NewMemory
from langmem_tiers.state.flows import Whose, goal_advanced, put_goal, read, reading_goals
from langmem_tiers.state.state import Goal, ProgressDelta, stored
from langmem_tiers.store.flows import StoreFlows
from langmem_tiers.store.write import (
    LOCK,
    Write,
    Writing,
    embed,
    last_writes,
    lock_call,
    lock_writes,
)
from langmem_tiers.turn.items import beginning
from langmem_tiers.turn.record import TurnRecord
from langmem_tiers.turn.report import (
    CommitReport,
    committed,
    exported,
    pending_in,
    report_of,
    written_in,
)
from langmem_tiers.turn.spending import BudgetStatus
from langmem_tiers.turn.trace import (
    Ending,
    TurnEvent,
    TurnTrace,
    ended_call,
    event_names,
    failure_name,
    is_of,
    lock_name,
    record_call,
    trace_of,
)
from langmem_tiers.turn.turn import Turn, changing, going_on

_TRACES = "\0traces"
"""The key that turns lock to read a project's traces and add their own."""

_Vectors = dict[str, PackedVector | None]


class _Settling(NamedTuple):
    """A turn that is to be settled, and how."""

    record: TurnRecord
    context: MemoryContext
    store: StoreFlows
    memory: MemoryFlows
    budget: BudgetStatus
    success: bool | None = None
    """Whether the turn went well; if not known, it went as its last tool call did."""
    min_support: int | None = None
    """Runs that a skill has to be seen in; None to look for none."""

    @classmethod
    def of(cls, turn: Turn, record: TurnRecord, **how: Any) -> _Settling:
        """A turn as it is now."""
        memory, spent = turn.memory, turn.get_budget_status()
        return cls(record, turn.context, memory.tiered_store.flows, memory.flows, spent, **how)


class _Learned(NamedTuple):
    """What a turn wants written, and the traces that its skills were found in."""

    memories: list[NewMemory]
    skills: list[str]
    lessons: list[tuple[str, str]]
    """The key of each lesson, and of the call that it comes from."""
    seen: list[Trace] | None
    """None if no skills were looked for."""


def commit(turn: Turn, *, success: bool | None = None) -> Flow[CommitReport]:
    """Write all that is pending in one transaction, with the trace; done again, nothing more.

    Failed tool calls that worked later become lessons, and what recurs in the project's turns
    is proposed as a skill.

    Args:
        success: Whether the turn went well, for the skills; if not given, it went as its last
            tool call did.

    Returns:
        A summary, and what was written: episodic, semantic, and the progress of goals.

    Raises:
        ConflictError: if others committed all the while, ten times; nothing was written.
        InvalidInputError: if the turn was left before, or was committed with other content, if it
            derives from what is not there, or notes progress of a goal that is not set.
    """
    if turn.report is not None:
        return turn.report
    if success is not None and not isinstance(success, bool):
        raise InvalidTypeError(f"success is True, False or None, not {short(success)}")
    record, vectors = going_on(turn), dict[str, PackedVector | None]()
    support = MIN_SUPPORT if turn.settings.enable_skill_extraction else None
    settling = _Settling.of(turn, record, success=success, min_support=support)
    with changing(turn):  # what came later would be written nowhere
        record.closed = "committing"
    try:
        report = yield from anew(lambda: _commit(settling, vectors))
    except BaseException:
        record.closed = None
        raise
    turn.report, record.closed = report, "committed"
    begin_reviews(turn.memory, [str(one.key) for one in report.stored])
    return report


def leave(turn: Turn, error: BaseException | str | None = None) -> Flow[None] | None:
    """Leave of a turn that was not committed its trace alone; None if there is none to leave.

    One that has ended stays as it ended.
    """
    record = turn.record
    if record is None or record.closed is not None:
        return None
    record.closed = "abandoned"
    settling, now = _Settling.of(turn, record), turn.now
    why = f"left by {type(error).__name__}" if isinstance(error, BaseException) else error
    detail = pending_in(record)
    left = _ending(settling, "abandoned", now, why or "left without a commit", detail)
    return _record(settling, [*record.events, left])


def fail(turn: Turn, error: BaseException) -> Flow[None]:
    """Leave the trace of a turn that failed so far; it may go on, as a run does that is resumed."""
    record, now = going_on(turn), turn.now
    settling, why = _Settling.of(turn, record), f"failed by {type(error).__name__}"
    failed = _ending(settling, "failed", now, why, pending_in(record))
    names = event_names(record.turn, record.events)
    names.append(failure_name(record.turn, record.events, now))
    return _record(settling, [*record.events, failed], names)


def _commit(settling: _Settling, vectors: _Vectors) -> Flow[CommitReport]:
    store, context, record = settling.store, settling.context, settling.record
    yield from store.refresh_state()
    (rows,) = yield Query((ended_call(context, record.turn),), commit=True)
    if rows:
        return (yield from _as_before(settling, rows[0]))
    learned = yield from _learned(settling)
    memories = yield from settling.memory.writes(learned.memories, context)
    pending = [_in_its_room(settling, *one) for one in zip(record.pending, memories, strict=False)]
    evictions = yield from _evictions(record.evicted, context, store)
    wanted = [*pending, *memories[len(pending) :]]
    open_writes = without_held_twins(wanted)
    twins = [one for one in wanted if one.held and one not in open_writes]
    writes = last_writes([*evictions, *open_writes])
    yield from _embed(writes, vectors, store)
    goals = yield from _held(settling, writes, learned)
    moment, applied = store.moment(), Applied(writes)
    if needs_admission(writes):
        applied = yield from admitted(writes, (), moment)
    refused = {**{(one.place, one.key): SAME_KEY for one in twins}, **applied.refused}
    applied, writing = replace(applied, refused=refused), Writing(applied.writes, vectors, moment)
    return (yield from _written(settling, writing, applied, learned, goals))


def _in_its_room(settling: _Settling, one: NewMemory, write: Write) -> Write:
    """What the gate let pass, with what bounds the place that it goes to."""
    gate = settling.memory.gate
    root = settling.context.root
    told = [(Place(root, each["namespace"]), each["key"]) for each in settling.record.echoes]
    rooms = gate.rooms(one.memory_type or "episodic", write.tier)
    return replace(write, rooms=rooms, spares=tuple(told))


def _as_before(settling: _Settling, row: Row) -> Flow[CommitReport]:
    """The report of a turn that was committed before: what it stored then, as it is by now."""
    record, context = settling.record, settling.context
    kind, detail = row
    if kind == "abandoned":
        raise InvalidInputError(
            f"the turn {record.turn!r} was abandoned, and what it wanted written is gone: begin "
            "another"
        )
    if new := set(record.wanted) - set(detail["wanted"]):
        raise InvalidInputError(
            f"the turn {record.turn!r} was committed before, without {len(new)} of the things that "
            "it wants now: nothing was written; give each turn a turn_id of its own, and a retry "
            "what the first one had"
        )
    if not is_of(context, detail):
        raise InvalidInputError(
            f"the turn {record.turn!r} was committed before, in another project: nothing was "
            "written; give each turn a turn_id of its own"
        )
    names = [(one["namespace"], one["key"]) for one in detail["stored"]]
    params = {
        "tenants": [context.root for _ in names],
        "namespaces": [namespace for namespace, _ in names],
        "keys": [key for _, key in names],
    }
    (rows,) = yield Query((Call("get_many", params),), commit=True)
    alive_at = settling.store.moment().alive_at
    found = {(one["namespace"], one["key"]): one for one in map(_export, _alive(rows, alive_at))}
    exports = [found[name] for name in names if name in found]
    trace = yield from trace_of(record.turn, context)
    return report_of(detail, exports, budget=settling.budget, trace=trace)


def _learned(settling: _Settling) -> Flow[_Learned]:
    """What is pending, and what the turn's tool calls taught."""
    record, context, store = settling.record, settling.context, settling.store
    lessons = record.lessons(context)
    memories = [*record.pending, *(one.memory for one in lessons)]
    pairs = [(str(one.memory.key), one.attempt) for one in lessons]
    own = None if settling.min_support is None else record.trace(success=settling.success)
    if own is None or settling.min_support is None:
        return _Learned(memories, [], pairs, None)
    moment = store.moment()
    (rows,) = yield Query((traces.recent(context, moment),), commit=True)
    seen = traces.read_traces(rows)
    others = [one for one in seen if one.run != own.run]
    trace = record.run_memory(own, context)
    current = [own] if trace.held is None else []
    skills = traces.proposed([*current, *others], context, min_support=settling.min_support)
    known = yield from stored_values(list(skills), context, moment, (Tier.WORKING,))
    news = {key: one for key, one in skills.items() if traces.is_news(one, known.get(key))}
    memories += [trace, *map(settling.memory.gate.trusting, news.values())]
    return _Learned(memories, list(news), pairs, seen)


def _evictions(keys: Sequence[str], context: MemoryContext, store: StoreFlows) -> Flow[list[Write]]:
    """The deletions of what makes room, as far as it is the context's own and still there."""
    if not keys:
        return []
    params = {"tenant": context.root, "keys": list(keys), "alive_at": store.moment().alive_at}
    (rows,) = yield Query((Call("known_keys", params),), commit=True)
    own = {encode(context.namespace(tier)) for tier in Tier}
    found = [(Place(tenant, namespace), key) for key, tenant, namespace, _ in rows]
    return [Write(place=place, key=key, value=None) for place, key in found if place in own]


def _embed(writes: Sequence[Write], known: _Vectors, store: StoreFlows) -> Flow[None]:
    """Add the vectors that are not known yet: a commit that begins anew has most of them."""
    fresh = [one for one in writes if any(text not in known for _, text in one.texts)]
    known |= yield from embed(fresh, store.options)


def _held(settling: _Settling, writes: Sequence[Write], learned: _Learned) -> Flow[dict[str, Goal]]:
    """Lock all that the commit goes by, and leave the transaction open; its goals as they will be.

    Raises:
        ConflictError: if somebody else committed beside it; its transaction has ended then.
        InvalidInputError: if a goal is not set.
    """
    store, context, record = settling.store, settling.context, settling.record
    moment, place = store.moment(), encode(context.namespace(Tier.WORKING))
    again = () if learned.seen is None else (traces.recent(context, moment),)
    further = [lock_name(context, record.turn)]
    further += [(*place, _TRACES)] if again else []
    further += [(place.tenant, "", LOCK)] if learned.lessons else []
    ids = list(dict.fromkeys(one["goal"] for one in record.goals))
    goals = reading_goals(Whose.of(context), ids, moment.now)
    lock = lock_writes(writes, store.options, further)
    answers = yield Query((lock, ended_call(context, record.turn), *again, *goals))
    ended, known = answers[1], answers[2 : 2 + len(again)]
    if ended or (known and traces.read_traces(known[0]) != learned.seen):
        yield Query((), commit=True)  # which lets go of the locks
        raise ConflictError(f"somebody else committed beside the turn {record.turn!r}: again")
    by_goal = zip(ids, answers[len(answers) - len(ids) :], strict=True)
    return {
        one: goal_advanced(one, read(Goal, rows), *_steps(record, one)) for one, rows in by_goal
    }


def _written(
    settling: _Settling,
    writing: Writing,
    applied: Applied,
    learned: _Learned,
    goals: Mapping[str, Goal],
) -> Flow[CommitReport]:
    """Write all of it; the locks are held."""
    store, context, record = settling.store, settling.context, settling.record
    now, puts = writing.moment.now, [one for one in writing.writes if one.value is not None]
    written = {one.key for one in puts}
    lessons = [one for one in learned.lessons if one[0] in written]
    skills = [one for one in learned.skills if one in written]
    advanced = [{**one, "progress": goals[one["goal"]].progress} for one in record.goals]
    named = [lesson for lesson, _ in lessons]
    detail = committed(record, puts, applied, lessons=named, skills=skills, goals=advanced)
    ended = _ending(settling, "committed", now, written_in(detail), detail)
    refused = _refusals(applied, settling, now)
    trace = TurnTrace(turn=record.turn, events=(*record.events, *refused, ended))
    yield from carry_out_admitted(
        writing,
        applied,
        options=store.options,
        further=(
            *_derived(lessons, context, record, now),
            *(put_goal(Whose.of(context), one, now) for one in goals.values()),
            record_call(context, record.turn, trace.events),
        ),
    )
    return report_of(detail, map(exported, puts), budget=settling.budget, trace=trace)


def _refusals(applied: Applied, settling: _Settling, now: datetime) -> list[TurnEvent]:
    """What the gate let pass, and the commit did not write."""
    gate, said = settling.memory.gate, {one.key: one for one in settling.record.pending}
    return [
        TurnEvent(
            kind="refused",
            at=now,
            reasons=(why,),
            detail=beginning(said[key], gate) if key in said else {},
            namespace=place.namespace,
            key=key,
        )
        for (place, key), why in applied.refused.items()
    ]


def _ending(
    settling: _Settling, kind: Ending, at: datetime, reason: str, detail: Mapping[str, Any]
) -> TurnEvent:
    """How a turn ends, with what it is listed by: whose it is, and when it began."""
    record, context = settling.record, settling.context
    told = {"project_id": context.project_id, "session_id": context.session_id}
    whose = {name: storable(one) for name, one in told.items() if one is not None}
    detail = {"began": record.began.isoformat(), **whose, **detail}
    return TurnEvent(kind=kind, at=at, reasons=(reason,), detail=detail)


def _record(
    settling: _Settling, events: Sequence[TurnEvent], names: Sequence[str] | None = None
) -> Flow[None]:
    """Write a trace beside nothing else, unless the turn has ended."""
    context, turn = settling.context, settling.record.turn
    lock = lock_call([lock_name(context, turn)], settling.store.options)
    yield Query((lock, record_call(context, turn, events, names)), commit=True)


def _derived(
    lessons: Sequence[tuple[str, str]], context: MemoryContext, record: TurnRecord, now: datetime
) -> list[Call]:
    """The calls that say of lessons which call they came from."""
    if not lessons:
        return []
    place = encode(context.namespace(Tier.WORKING))
    events = [record.key("lesson", lesson) for lesson, _ in lessons]
    params = {
        "tenant": place.tenant,
        "namespaces": [place.namespace for _ in lessons],
        "keys": [lesson for lesson, _ in lessons],
        "source_namespaces": [place.namespace for _ in lessons],
        "source_keys": [attempt for _, attempt in lessons],
        "events": events,
        "now": now,
    }
    doubt = Call("doubt", {"tenant": place.tenant, "ids": [], "events": events})
    return [Call("derive", params), doubt]


def _steps(record: TurnRecord, goal_id: str) -> list[ProgressDelta]:
    """How much nearer the turn brought a goal."""
    noted = [dict(one) for one in record.goals if one["goal"] == goal_id]
    return [stored(ProgressDelta, {k: v for k, v in one.items() if k != "goal"}) for one in noted]


def _alive(rows: Rows, alive_at: datetime) -> list[Row]:
    return [row for row in rows if row[7] is None or row[7] > alive_at]


def _export(row: Row) -> dict[str, Any]:
    tenant, namespace, key, value, _, _, tier, *_ = row
    place = {"tenant": tenant, "namespace": namespace}
    return {"key": key, **place, "tier": tier, "value": value}
