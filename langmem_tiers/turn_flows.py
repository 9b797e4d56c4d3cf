"""How a turn ends, as flows: all it wants written in one transaction, or its trace alone."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from langmem_tiers.errors import ConflictError, InvalidInputError
from langmem_tiers.flow import Call, Flow, Query, Row, anew
from langmem_tiers.learn import traces
from langmem_tiers.learn.skills import Trace
from langmem_tiers.learn.stored import stored_values
from langmem_tiers.memory import MemoryContext, StoreResult, Tier
from langmem_tiers.memory_flows import MemoryFlows
from langmem_tiers.namespaces import Place, encode
from langmem_tiers.remember.flow import (
    LOCK,
    Write,
    Writing,
    apply,
    embed,
    last_writes,
    lock_writes,
)
from langmem_tiers.remember.memories import NewMemory
from langmem_tiers.store_flows import StoreFlows
from langmem_tiers.turn.layout import EPISODES
from langmem_tiers.turn.record import TurnRecord
from langmem_tiers.turn.spending import BudgetStatus
from langmem_tiers.turn.trace import TurnEvent, TurnTrace, bounds, event_names

_TRACES = "\0traces"
"""The key that turns lock to read a project's traces and add their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitReport:
    """What a turn left behind."""

    turn: str
    stored: tuple[StoreResult, ...] = ()
    """Every memory that was written."""
    episodic: tuple[Mapping[str, Any], ...] = ()
    """What happened, as it was stored: `key`, `namespace`, `tier` and `value`."""
    semantic: tuple[Mapping[str, Any], ...] = ()
    """What is known, likewise."""
    goals: tuple[Mapping[str, Any], ...] = ()
    """What was noted of goals, in order."""
    lessons: tuple[str, ...] = ()
    """Keys of what its failed tool calls taught."""
    skills: tuple[str, ...] = ()
    """Keys of the skills whose evidence it changed."""
    summary: Mapping[str, int] = field(default_factory=dict)
    """How many of each it wrote."""
    budget: BudgetStatus
    trace: TurnTrace

    def __str__(self) -> str:
        """What was written, in one line, and what it spent in another."""
        told = ", ".join(f"{number:,} {name}" for name, number in self.summary.items() if number)
        return f"turn {self.turn}: {told or 'nothing written'}\n{self.budget}"

    def to_json(self) -> str:
        """The whole report as JSON."""
        told = {
            "turn": self.turn,
            "summary": dict(self.summary),
            "episodic": [dict(one) for one in self.episodic],
            "semantic": [dict(one) for one in self.semantic],
            "goals": [dict(one) for one in self.goals],
            "lessons": list(self.lessons),
            "skills": list(self.skills),
            "trace": [one.to_state() for one in self.trace.events],
        }
        return json.dumps(told, ensure_ascii=False, sort_keys=True)


class Settling(NamedTuple):
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


class _Learned(NamedTuple):
    """What a turn wants written, and the traces that its skills were found in."""

    memories: list[NewMemory]
    skills: list[str]
    lessons: list[tuple[str, str]]
    """The key of each lesson, and of the call that it comes from."""
    seen: list[Trace]
    extracts: bool


def commit(settling: Settling) -> Flow[CommitReport]:
    """Write all of a turn, or nothing; done again it writes nothing more.

    Raises:
        InvalidInputError: if it was abandoned, or derives from what is not there.
        ConflictError: if others committed all the while, ten times.
    """
    return anew(lambda: _commit(settling))


def _commit(settling: Settling) -> Flow[CommitReport]:
    store, context, record = settling.store, settling.context, settling.record
    yield from store.refresh_state()
    ended = _ended_call(context, record.turn)
    (rows,) = yield Query((ended,), commit=True)
    learned = yield from _learned(settling)
    wanted = yield from settling.memory.writes(learned.memories, context)
    evictions = yield from _evictions(record.evicted, context, store)
    writes = last_writes([*evictions, *wanted])
    if rows:
        return _report(settling, writes, learned, _skills(rows, record.turn))
    vectors = yield from embed(writes, store.options)
    moment = store.moment()
    again = (traces.recent(context, moment),) if learned.extracts else ()
    place = encode(context.namespace(Tier.WORKING))
    further = [(*place, _TRACES)] if learned.extracts else []
    further += [(place.tenant, "", LOCK)] if learned.lessons else []
    lock = lock_writes(writes, store.options, further)
    _, rows, *stored = yield Query((lock, ended, *again))
    if rows or (stored and traces.read_traces(stored[0]) != learned.seen):
        yield Query((), commit=True)  # which lets go of the locks
        raise ConflictError(f"somebody else committed beside the turn {record.turn!r}: again")
    report = _report(settling, writes, learned, tuple(learned.skills))
    events = [*record.events, _committed(report, moment.now)]
    yield from apply(
        Writing(writes, vectors, moment),
        options=store.options,
        tier=None,
        locked=True,
        further=(
            *_derived(learned.lessons, context, record, moment.now),
            record_call(context, record.turn, events),
        ),
    )
    return _report(settling, writes, learned, tuple(learned.skills), events)


def abandon(settling: Settling, reason: str) -> Flow[None]:
    """Leave of a turn its trace alone; one that has ended stays as it ended."""
    context, record = settling.context, settling.record
    (rows,) = yield Query((_ended_call(context, record.turn),), commit=True)
    if rows:
        return
    dropped = {"memories": len(record.pending), "calls": len(record.calls)}
    left = TurnEvent(kind="abandoned", at=settling.store.now, reasons=(reason,), detail=dropped)
    events = [*record.events, left]
    yield Query((record_call(context, record.turn, events),), commit=True)


def history(turn: str, context: MemoryContext) -> Flow[TurnTrace]:
    """What was decided in a turn.

    Raises:
        InvalidInputError: if the tenant has no such turn.
    """
    low, high = bounds(turn)
    params = {"tenant": context.root, "low": low, "high": high}
    (rows,) = yield Query((Call("turn_events", params),), commit=True)
    if not rows:
        raise InvalidInputError(
            f"there is no turn {turn!r} in tenant {context.tenant!r}: one is written when it is "
            "committed, or left"
        )
    return TurnTrace(turn=turn, events=tuple(map(_event, rows)))


def record_call(context: MemoryContext, turn: str, events: Sequence[TurnEvent]) -> Call:
    """The call that writes the trace of a turn."""
    details = [{**one.detail, "reasons": list(one.reasons), "turn": turn} for one in events]
    params = {
        "tenant": context.root,
        "events": event_names(turn, events),
        "kinds": [one.kind for one in events],
        "namespaces": [one.namespace for one in events],
        "keys": [one.key for one in events],
        "at": [one.at for one in events],
        "details": [json.dumps(one, ensure_ascii=False) for one in details],
    }
    return Call("record_turn", params)


def _learned(settling: Settling) -> Flow[_Learned]:
    """What is pending, and what the turn's tool calls taught."""
    record, context, store = settling.record, settling.context, settling.store
    lessons = record.lessons(context)
    memories = [*record.pending, *(one.memory for one in lessons)]
    pairs = [(str(one.memory.key), one.attempt) for one in lessons]
    own = None if settling.min_support is None else record.trace(success=settling.success)
    if own is None or settling.min_support is None:
        return _Learned(memories, [], pairs, [], extracts=False)
    moment = store.moment()
    (rows,) = yield Query((traces.recent(context, moment),), commit=True)
    seen = traces.read_traces(rows)
    others = [one for one in seen if one.run != own.run]
    skills = traces.proposed([own, *others], context, min_support=settling.min_support)
    known = yield from stored_values(list(skills), context, moment, (Tier.WORKING,))
    news = {key: one for key, one in skills.items() if traces.is_news(one, known.get(key))}
    memories += [traces.trace_memory(own, context), *news.values()]
    return _Learned(memories, list(news), pairs, seen, extracts=True)


def _evictions(keys: Sequence[str], context: MemoryContext, store: StoreFlows) -> Flow[list[Write]]:
    """The deletions of what makes room, as far as it is the context's own and still there."""
    if not keys:
        return []
    params = {"tenant": context.root, "keys": list(keys), "alive_at": store.moment().alive_at}
    (rows,) = yield Query((Call("known_keys", params),), commit=True)
    own = {encode(context.namespace(tier)) for tier in Tier}
    found = [(Place(tenant, namespace), key) for key, tenant, namespace, _ in rows]
    return [Write(place=place, key=key, value=None) for place, key in found if place in own]


def _derived(
    lessons: Sequence[tuple[str, str]], context: MemoryContext, record: TurnRecord, now: Any
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


def _report(
    settling: Settling,
    writes: Sequence[Write],
    learned: _Learned,
    skills: tuple[str, ...],
    events: Sequence[TurnEvent] | None = None,
) -> CommitReport:
    puts = [one for one in writes if one.value is not None]
    exports = [_export(one) for one in puts]
    episodic = tuple(one for one in exports if one["value"]["memory_type"] in EPISODES)
    semantic = tuple(one for one in exports if one["value"]["memory_type"] not in EPISODES)
    record = settling.record
    return CommitReport(
        turn=record.turn,
        stored=tuple(StoreResult(stored=True, key=one.key, tier=one.tier) for one in puts),
        episodic=episodic,
        semantic=semantic,
        goals=tuple(record.goals),
        lessons=tuple(lesson for lesson, _ in learned.lessons),
        skills=skills,
        summary={
            "episodic": len(episodic),
            "semantic": len(semantic),
            "tool calls": len(record.calls),
            "lessons": len(learned.lessons),
            "skills": len(skills),
            "goals": len(record.goals),
        },
        budget=settling.budget,
        trace=TurnTrace(turn=record.turn, events=tuple(events or record.events)),
    )


def _export(one: Write) -> dict[str, Any]:
    place = {"tenant": one.place.tenant, "namespace": one.place.namespace}
    return {"key": one.key, **place, "tier": one.tier.value, "value": json.loads(one.value or "{}")}


def _committed(report: CommitReport, now: Any) -> TurnEvent:
    wrote = ", ".join(f"{number} {name}" for name, number in report.summary.items() if number)
    detail = {
        "summary": dict(report.summary),
        "keys": [one.key for one in report.stored],
        "lessons": list(report.lessons),
        "skills": list(report.skills),
    }
    return TurnEvent(
        kind="committed", at=now, reasons=(wrote or "nothing to write",), detail=detail
    )


def _skills(rows: Sequence[Row], turn: str) -> tuple[str, ...]:
    """The skills that the turn changed when it was committed before."""
    ((kind, detail),) = rows
    if kind == "abandoned":
        raise InvalidInputError(
            f"the turn {turn!r} was abandoned, and what it wanted written is gone: begin another"
        )
    return tuple(detail["skills"])


def _ended_call(context: MemoryContext, turn: str) -> Call:
    low, high = bounds(turn)
    return Call("turn_ended", {"tenant": context.root, "low": low, "high": high})


def _event(row: Row) -> TurnEvent:
    kind, at, detail, namespace, key = row
    told = dict(detail)
    reasons = tuple(told.pop("reasons", ()))
    told.pop("turn", None)
    return TurnEvent(kind=kind, at=at, reasons=reasons, detail=told, namespace=namespace, key=key)
