"""How a turn ends: all it wants written in one transaction, or its trace alone."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, NamedTuple

from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.errors import ConflictError, InvalidInputError, InvalidTypeError, short
from langmem_tiers.core.memory import Moment, Tier
from langmem_tiers.core.namespaces import Place, encode
from langmem_tiers.core.values import storable
from langmem_tiers.core.vectors import PackedVector
from langmem_tiers.learn.skills import (
    MIN_SUPPORT,
    Trace,
    is_news,
    proposed_skills,
    read_traces,
    recent_traces,
    stored_values,
)
from langmem_tiers.postgres.flow import Call, Flow, Query, Rows, anew
from langmem_tiers.remember.new import NewMemory
from langmem_tiers.remember.pipeline import SAME_KEY, without_held_twins
from langmem_tiers.remember.transaction import Applied, derive_calls, write_if
from langmem_tiers.state.flows import Whose, put_goal, reading_goals
from langmem_tiers.state.state import Goal, ProgressDelta
from langmem_tiers.store.flows import StoreFlows
from langmem_tiers.store.write import LOCK, Write, embed, last_writes, lock_call
from langmem_tiers.turn import progress
from langmem_tiers.turn.record import TurnRecord
from langmem_tiers.turn.relevance import weigh_calls
from langmem_tiers.turn.trace import (
    CommitReport,
    Ending,
    TurnEvent,
    TurnTrace,
    beginning,
    ended_call,
    export_of,
    happened,
    is_of,
    lock_name,
    record_call,
    report_of,
    trace_of,
)
from langmem_tiers.turn.turn import Turn, changing

_TRACES = "\0traces"
"""The key that turns lock to read a project's traces and add their own."""

_Vectors = dict[str, PackedVector | None]


@dataclass(slots=True)
class _Wanted:
    """What a turn wants written, and what that goes by once its keys are locked."""

    turn: str
    taught: list[NewMemory]
    """What its tool calls taught; beside it what is pending is written."""
    steps: Mapping[str, list[ProgressDelta]]
    """How much nearer it brought each goal."""
    lessons: dict[str, str]
    """The key of each attempt, and of the call that failed in it."""
    skills: list[str] = field(default_factory=list)
    seen: list[Trace] | None = None
    """The traces that its skills were found in; None if none were looked for."""
    goals: dict[str, Goal] = field(default_factory=dict)
    """What it brought nearer, as that will be; known once it `stands`."""
    closed: dict[str, str] = field(default_factory=dict)
    """The reason for the refusal of each step whose goal is gone by then."""

    def locks(self, context: MemoryContext) -> list[tuple[str, str, str]]:
        """What is locked beside what is written."""
        keys = [lock_name(context, self.turn)]
        if self.seen is not None:
            keys.append((*encode(context.namespace(Tier.WORKING)), _TRACES))
        return [*keys, (context.root, "", LOCK)] if self.lessons else keys

    def looks(self, context: MemoryContext, moment: Moment) -> list[Call]:
        """What is read then: how the turn ended, the project's traces, and the goals."""
        seen = [] if self.seen is None else [recent_traces(context, moment)]
        goals = reading_goals(Whose.of(context), list(self.steps), moment.now)
        return [ended_call(context, self.turn), *seen, *goals]

    def stands(self, answers: list[Rows]) -> bool:
        """Whether nobody else committed meanwhile."""
        ended, *others = answers
        if ended or (self.seen is not None and read_traces(others[0]) != self.seen):
            return False
        before = others[len(others) - len(self.steps) :]
        self.goals, self.closed = progress.advanced(self.steps, before)
        return True


class _Ended(NamedTuple):
    """What the `committed` event of a turn keeps, the memories that it wrote, and its trace."""

    detail: Mapping[str, Any]
    exports: Sequence[Mapping[str, Any]]
    trace: TurnTrace


def commit(turn: Turn, *, success: bool | None = None) -> Flow[CommitReport]:
    """Write all that is pending in one transaction, with the trace; done again, nothing more.

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
    budget, vectors = turn.get_budget_status(), _Vectors()
    with changing(turn) as record:  # what came later would be written nowhere
        record.closed = "committing"
    try:
        ended = yield from anew(lambda: _commit(turn, record, vectors, success=success))
    except BaseException:
        record.closed = None
        raise
    report = report_of(ended.detail, ended.exports, budget=budget, trace=ended.trace)
    turn.report, record.closed = report, "committed"
    return report


def leave(turn: Turn, error: BaseException | str | None = None) -> Flow[None] | None:
    """Leave of a turn that was not committed its trace alone; None if there is none to leave.

    One that has ended stays as it ended.
    """
    record = turn.record
    if record is None or record.closed is not None:
        return None
    record.closed = "abandoned"
    why = f"left by {type(error).__name__}" if isinstance(error, BaseException) else error
    return _left(turn, record, why or "left without a commit")


def _left(turn: Turn, record: TurnRecord, reason: str) -> Flow[None]:
    """Write the trace of a turn beside nothing else, unless the turn has ended."""
    summary = {
        "memories": len(record.pending),
        "tool calls": len(record.calls),
        "refused": record.refusals,
        "quarantined": sum(one.held is not None for one in record.pending),
    }
    ended = _ending(turn, record, "abandoned", reason, {"summary": summary}, at=turn.now)
    trace = TurnTrace(turn=record.turn, events=(*record.events, ended))
    lock = lock_call([lock_name(turn.context, record.turn)], turn.memory.tiered_store.options)
    yield Query((lock, record_call(turn.context, trace)), commit=True)


def _commit(
    turn: Turn, record: TurnRecord, vectors: _Vectors, *, success: bool | None
) -> Flow[_Ended]:
    """Find what the turn wants written, lock all that it goes by, and write it."""
    memory, context = turn.memory, turn.context
    store = memory.tiered_store.flows
    yield from store.refresh_state()
    (rows,) = yield Query((ended_call(context, record.turn),), commit=True)
    if rows:
        return (yield from _as_before(turn, record, *rows[0]))
    vectors |= yield from weigh_calls(record, store.options)
    wanted = yield from _wanted(turn, record, success=success)
    puts, twins = yield from _pending(turn, record)
    puts += yield from memory.flows.writes(wanted.taught, context)
    kept = without_held_twins(puts)
    twins |= {(one.place, one.key): SAME_KEY for one in puts if one.held and one not in kept}
    evictions = yield from _evictions(record.evicted, context, store)
    writes = last_writes([*evictions, *kept])
    # a commit that begins anew has most of the vectors
    fresh = [one for one in writes if any(text not in vectors for _, text in one.texts)]
    vectors |= yield from embed(fresh, store.options)
    moment = store.moment()
    ended: list[_Ended] = []

    def further(applied: Applied) -> list[Call]:
        told = replace(applied, refused={**twins, **applied.refused})
        ended.append(_told(turn, record, told, wanted, moment.now))
        lessons = [_from_its_call(one, applied, wanted) for one in applied.writes]
        derived = derive_calls(lessons, moment.now, lambda one: record.key("lesson", one.key))
        states = [put_goal(Whose.of(context), one, moment.now) for one in wanted.goals.values()]
        return [*derived, *states, record_call(context, ended[0].trace)]

    applied = yield from write_if(
        writes,
        options=store.options,
        moment=moment,
        vectors=vectors,
        keys=wanted.locks(context),
        calls=wanted.looks(context, moment),
        stands=wanted.stands,
        further=further,
        sparing=True,
    )
    if applied is None:
        raise ConflictError(f"somebody else committed beside the turn {record.turn!r}: again")
    return ended[0]


def _pending(
    turn: Turn, record: TurnRecord
) -> Flow[tuple[list[Write], dict[tuple[Place, str], str]]]:
    """Return the writes of what is pending, and why each of the others cannot be written."""
    flows, context = turn.memory.flows, turn.context
    told = tuple((Place(context.root, one["namespace"]), one["key"]) for one in record.echoes)
    lacking = yield from flows.lacking(record.pending, context)
    judged = list(zip(record.pending, lacking, strict=True))
    puts = yield from flows.bounded([one for one, why in judged if why is None], context, told)
    gone = [(flows.checked(one, context), why) for one, why in judged if why is not None]
    return puts, {(one.place, one.key): why for one, why in gone}


def _from_its_call(one: Write, applied: Applied, wanted: _Wanted) -> Write:
    """An attempt with the call that failed in it, as far as both are written; else without any."""
    attempt = wanted.lessons.get(one.key)
    calls = ((each.place, each.key) for each in applied.writes if each.key == attempt)
    return replace(one, sources=tuple(calls))


def _as_before(
    turn: Turn, record: TurnRecord, kind: Ending, detail: Mapping[str, Any]
) -> Flow[_Ended]:
    """What a turn that was committed before stored then, as it is by now.

    Raises:
        InvalidInputError: if it was left, wanted something else, or was another project's.
    """
    context = turn.context
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
            f"the turn {record.turn!r} was committed before, in another project or by another "
            "user: nothing was written; give each turn a turn_id of its own"
        )
    names = [(one["namespace"], one["key"]) for one in detail["stored"]]
    params = {
        "tenants": [context.root for _ in names],
        "namespaces": [namespace for namespace, _ in names],
        "keys": [key for _, key in names],
    }
    (rows,) = yield Query((Call("get_many", params),), commit=True)
    alive_at = turn.memory.tiered_store.flows.moment().alive_at
    found = {
        (namespace, key): export_of(Place(tenant, namespace), key, tier, value)
        for tenant, namespace, key, value, _, _, tier, expires_at, *_ in rows
        if expires_at is None or expires_at > alive_at
    }
    trace = yield from trace_of(record.turn, context)
    return _Ended(detail, [found[name] for name in names if name in found], trace)


def _wanted(turn: Turn, record: TurnRecord, *, success: bool | None) -> Flow[_Wanted]:
    """What is pending, and what the turn's tool calls taught."""
    context, attempts = turn.context, record.attempts(turn.context)
    wanted = _Wanted(
        record.turn,
        [one for one, _ in attempts],
        record.steps(),
        {str(one.key): call for one, call in attempts},
    )
    own = record.trace(success=success) if turn.settings.enable_skill_extraction else None
    if own is None:
        return wanted
    moment = turn.memory.tiered_store.flows.moment()
    (rows,) = yield Query((recent_traces(context, moment),), commit=True)
    wanted.seen = read_traces(rows)
    others = [one for one in wanted.seen if one.run != own.run]
    trace = record.run_memory(own, context)
    current = [own] if trace.held is None else []
    skills = proposed_skills([*current, *others], context, min_support=MIN_SUPPORT)
    known = yield from stored_values(list(skills), context, moment, (Tier.WORKING,))
    news = {key: one for key, one in skills.items() if is_news(one, known.get(key))}
    wanted.taught += [trace, *map(turn.memory.gate.trusting, news.values())]
    wanted.skills += news
    return wanted


def _evictions(keys: Sequence[str], context: MemoryContext, store: StoreFlows) -> Flow[list[Write]]:
    """The deletions of what makes room, as far as it is the context's own and still there."""
    if not keys:
        return []
    params = {**context.whose, "keys": list(keys), "alive_at": store.moment().alive_at}
    (rows,) = yield Query((Call("known_keys", params),), commit=True)
    own = {encode(one) for tier in Tier for one in context.places(tier)}
    found = [(Place(tenant, namespace), key) for key, tenant, namespace, _ in rows]
    return [Write(place=place, key=key, value=None) for place, key in found if place in own]


def _told(
    turn: Turn, record: TurnRecord, applied: Applied, wanted: _Wanted, now: datetime
) -> _Ended:
    """What is told of a commit, now that it is known what it writes: a retry is answered by it."""
    puts = [one for one in applied.writes if one.value is not None]
    exports = [export_of(one.place, one.key, one.tier, json.loads(one.value or "")) for one in puts]
    written = {one.key for one in puts}
    lessons = [key for key in wanted.lessons if key in written]
    skills = [key for key in wanted.skills if key in written]
    episodes = sum(map(happened, exports))
    summary = {
        "episodic": episodes,
        "semantic": len(exports) - episodes,
        "tool calls": len(record.calls),
        "lessons": len(lessons),
        "skills": len(skills),
        "goals": len(record.goals) - len(wanted.closed),
        "refused": record.refusals + len(applied.refused) + len(wanted.closed),
        "quarantined": sum(one.held is not None for one in puts),
    }
    detail = {
        "summary": summary,
        "wanted": list(record.wanted),
        "stored": [
            {
                "key": one.key,
                "namespace": one.place.namespace,
                "tier": one.tier.value,
                "held": one.held,
                "evicted": [each.memory.key for each in applied.evicted if each.by == one.key],
            }
            for one in puts
        ],
        "refused": {**{key: why for (_, key), why in applied.refused.items()}, **wanted.closed},
        "lessons": lessons,
        "skills": skills,
        "goals": progress.told(record.goals, wanted.goals),
    }
    wrote = ", ".join(f"{number} {name}" for name, number in summary.items() if number)
    ended = _ending(turn, record, "committed", wrote or "nothing to write", detail, at=now)
    refused = _refusals(turn, record, applied, wanted, now)
    events = (*record.events, *refused, ended)
    return _Ended(detail, exports, TurnTrace(turn=record.turn, events=events))


def _refusals(
    turn: Turn, record: TurnRecord, applied: Applied, wanted: _Wanted, now: datetime
) -> Iterable[TurnEvent]:
    """Find what the gate let pass, or was noted, and the commit did not write."""
    for why in wanted.closed.values():
        yield TurnEvent(kind="refused", at=now, reasons=(why,))
    said = {one.key: one for one in record.pending}
    for (place, key), why in applied.refused.items():
        begins = beginning(said[key], turn.memory.gate) if key in said else {}
        yield TurnEvent(
            kind="refused",
            at=now,
            reasons=(why,),
            detail=begins,
            namespace=place.namespace,
            key=key,
        )


def _ending(
    turn: Turn,
    record: TurnRecord,
    kind: Ending,
    reason: str,
    detail: Mapping[str, Any],
    *,
    at: datetime,
) -> TurnEvent:
    """How a turn ends, with what it is listed by: whose it is, and when it began."""
    told = {name: getattr(turn.context, name) for name in ("project_id", "session_id", "user_id")}
    whose = {name: storable(one) for name, one in told.items() if one is not None}
    detail = {"began": record.began.isoformat(), **whose, **detail}
    return TurnEvent(kind=kind, at=at, reasons=(reason,), detail=detail)
