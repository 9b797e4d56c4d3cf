"""Limit what a turn may spend, and describe its trace, its end and its commit's report."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from datetime import datetime
from typing import Annotated, Any, Final, Literal, get_args
from urllib.parse import quote

from langmem_tiers.core.checks import checked_number, record, validated_by
from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.errors import (
    BudgetExceededError,
    InvalidInputError,
    InvalidTypeError,
    short,
)
from langmem_tiers.core.memory import Place, StoreResult, Tier
from langmem_tiers.core.texts import LINE_LENGTH, printable_line, shorten_line
from langmem_tiers.core.values import replace_unstorable
from langmem_tiers.postgres.flow import Call, Flow, Query
from langmem_tiers.remember.gate import Decision, Gate, Verdict
from langmem_tiers.remember.new_memory import NewMemory
from langmem_tiers.turn.layout import EPISODES

EventKind = Literal[
    "assembled", "tracked", "memorized", "progressed", "refused", "committed", "abandoned"
]
Ending = Literal["committed", "abandoned"]


# The budget


def checked_allowance(value: object, name: str) -> Any:
    """Return a limit of a turn, or None for no limit."""
    if value is None:
        return None
    if name != "seconds" and not isinstance(value, int):
        raise InvalidTypeError(f"{name} is a whole number or None, not {short(value)}")
    return checked_number(value, name, 0, sys.float_info.max, use="0 or more, or None for no limit")


@record
class Budget:
    """Limits of one turn; None is no limit.

    Raises:
        InvalidInputError: for a limit below 0, or what is no number.
    """

    tokens: Annotated[int | None, validated_by(checked_allowance)] = 8000
    """Tokens of context that are assembled in the turn, all calls together (specification of the
    context pipeline: 8,000)."""
    events: Annotated[int | None, validated_by(checked_allowance)] = None
    """Events of the turn: assemble, track, memorize and note progress, each call once."""
    seconds: Annotated[float | None, validated_by(checked_allowance)] = None
    """Seconds that it may take, by the store's clock, waits for people included. A context is
    assembled by then, without the sources that have not answered. A commit is never too late."""

    def status(self, tokens: int, events: int, seconds: float) -> BudgetStatus:
        """Return what is left of it once so much is spent."""
        return BudgetStatus(
            tokens_used=tokens,
            tokens_left=None if self.tokens is None else max(0, self.tokens - tokens),
            events_used=events,
            events_left=None if self.events is None else max(0, self.events - events),
            seconds_used=seconds,
            seconds_left=None if self.seconds is None else max(0.0, self.seconds - seconds),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetStatus:
    """Amounts that a turn has spent, and those left; None for no limit."""

    tokens_used: int
    tokens_left: int | None
    events_used: int
    events_left: int | None
    seconds_used: float
    seconds_left: float | None

    def __str__(self) -> str:
        """Return all of it in one line."""
        return (
            f"tokens {self.tokens_used:,} ({_left(self.tokens_left)}), "
            f"events {self.events_used:,} ({_left(self.events_left)}), "
            f"seconds {self.seconds_used:.1f} ({_left(self.seconds_left)})"
        )

    def check(self, what: str, *, tokens: bool = False) -> None:
        """Refuse an action without budget; `tokens` if it needs some.

        Raises:
            BudgetExceededError: for what is spent: events, then seconds, then tokens.
        """
        if self.events_left == 0:
            name, used = "events", f"used its {self.events_used:,} events"
        elif self.seconds_left is not None and self.seconds_left <= 0:
            name, used = (
                "seconds",
                f"gone on for {self.seconds_used:.1f} seconds, more than it may,",
            )
        elif tokens and self.tokens_left == 0:
            name, used = "tokens", f"used its {self.tokens_used:,} tokens of context"
        else:
            return
        raise BudgetExceededError(
            f"the turn has {used} and cannot {what}: commit it and begin another, or give it "
            f"Budget({name}=…)"
        )


def _left(number: float | None) -> str:
    return "no limit" if number is None else f"{number:,.6g} left"


# The trace


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEvent:
    """Decision of a turn."""

    kind: EventKind
    at: datetime
    reasons: tuple[str, ...] = ()
    detail: Mapping[str, Any] = field(default_factory=dict)
    """Subject of the decision, as JSON."""
    namespace: str | None = None
    """Namespace of its memory, as the database names it; None if it has none."""
    key: str | None = None

    def __str__(self) -> str:
        """Return the time, the kind, and the reasons."""
        about = f" {printable_line(self.key)}" if self.key is not None else ""
        content = f" ({printable_line(self.detail['content'])})" if "content" in self.detail else ""
        why = shorten_line("; ".join(self.reasons), LINE_LENGTH)
        return f"{self.at:%H:%M:%S} {self.kind}{about}: {why}{content}"

    def to_state(self) -> dict[str, Any]:
        """Return the event as JSON."""
        return to_json_fields(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnTrace:
    """Decisions of a turn, oldest first."""

    turn: str
    events: tuple[TurnEvent, ...]

    def __str__(self) -> str:
        """Return a line for the turn, and one for each event."""
        return "\n".join(
            [f"turn {printable_line(self.turn)}", *(f"  {event}" for event in self.events)]
        )

    def of_kind(self, kind: EventKind) -> list[TurnEvent]:
        """Return the events of one kind."""
        return [event for event in self.events if event.kind == kind]

    def to_jsonl(self) -> str:
        """Return one event a line, as JSON."""
        events = [{"turn": self.turn, **_field_values(event)} for event in self.events]
        return "".join(f"{_to_json_text(event)}\n" for event in events)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedTurn:
    """End of a turn, in brief; `history` has its decisions."""

    turn: str
    kind: Ending
    """`failed` is one that has not ended: it may go on, if its run is resumed."""
    began: datetime | None
    """Beginning; None if it ended before beginnings were kept."""
    at: datetime
    """End."""
    reason: str
    project_id: str | None
    session_id: str | None
    summary: Mapping[str, int] = field(default_factory=dict)
    """Summary of the report, if it was committed; else the numbers of `memories` and `tool calls`
    that were pending, of things `refused`, and of those to be `quarantined`."""

    def __str__(self) -> str:
        """Return the time, the turn, how it ended, and why."""
        why = shorten_line(self.reason, LINE_LENGTH)
        return f"{self.at:%Y-%m-%d %H:%M:%S} {printable_line(self.turn)} {self.kind}: {why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitReport:
    """Report of a turn's commit."""

    turn: str
    stored: tuple[StoreResult, ...] = ()
    """Memories that were written."""
    refused: tuple[StoreResult, ...] = ()
    """Memories that passed the gate and were not written, each with the reason."""
    episodic: tuple[Mapping[str, Any], ...] = ()
    """Events as they were stored: `key`, `namespace`, `tier` and `value`. A retry exports those
    that are still there, as they are by then."""
    semantic: tuple[Mapping[str, Any], ...] = ()
    """Facts as they were stored, likewise."""
    goals: tuple[Mapping[str, Any], ...] = ()
    """Steps of progress in order, each with its goal's progress by now."""
    lessons: tuple[str, ...] = ()
    """Keys of lessons from its failed tool calls."""
    skills: tuple[str, ...] = ()
    """Keys of the skills whose evidence it changed."""
    summary: Mapping[str, int] = field(default_factory=dict)
    """Number written of each; number of things `refused`, by the gate, by the commit or for want of
    budget; number of memories written that are `quarantined`."""
    budget: BudgetStatus
    trace: TurnTrace

    def __str__(self) -> str:
        """Return what was written, in one line, and what it spent in another."""
        counts = ", ".join(f"{number:,} {name}" for name, number in self.summary.items() if number)
        return f"turn {self.turn}: {counts or 'nothing written'}\n{self.budget}"

    def to_state(self) -> dict[str, Any]:
        """Return the report as JSON for a graph's state: of memories their keys."""
        return {
            "turn": self.turn,
            "summary": dict(self.summary),
            "episodic": [export["key"] for export in self.episodic],
            "semantic": [export["key"] for export in self.semantic],
            "goals": [dict(goal) for goal in self.goals],
            "lessons": list(self.lessons),
            "skills": list(self.skills),
            "refused": {str(result.key): result.reason for result in self.refused},
            "quarantined": {
                str(result.key): result.reason for result in self.stored if result.quarantined
            },
        }

    def to_json(self) -> str:
        """Return the whole report as JSON."""
        whole = {"episodic": self.episodic, "semantic": self.semantic, "trace": self.trace.events}
        return _to_json_text({**self.to_state(), **whole})


# As JSON


def to_json_fields(value: object) -> dict[str, Any]:
    """Return a turn or a new memory as JSON; of a memory the fields that were given.

    Raises:
        InvalidInputError: for what is nested too deeply.
    """
    try:
        read: dict[str, Any] = json.loads(json.dumps(value, default=_json_form))
    except RecursionError as error:
        raise InvalidInputError(
            "what is to be remembered is nested too deeply to be kept: give it fewer levels"
        ) from error
    return read


def _to_json_text(value: object) -> str:
    return json.dumps(value, default=_json_form, ensure_ascii=False, sort_keys=True)


def _json_form(value: Any) -> Any:
    """Return the JSON form of a value that has none by itself."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, NewMemory):
        fields_given = {
            name: field_value
            for name, field_value in _field_values(value).items()
            if field_value != _BLANK[name]
        }
        return {"content": value.content, **fields_given}
    if is_dataclass(value):
        return _field_values(value)
    return dict(value) if isinstance(value, Mapping) else list(value)


def _field_values(value: Any) -> dict[str, Any]:
    return {each.name: getattr(value, each.name) for each in fields(value)}


_BLANK: Final = _field_values(NewMemory(content=""))


# In the database


def commit_report(
    detail: Mapping[str, Any],
    exports: Sequence[Mapping[str, Any]],
    *,
    budget: BudgetStatus,
    trace: TurnTrace,
) -> CommitReport:
    """Return the report of a `committed` event; `exports` are its memories, in its order."""
    refused = detail.get("refused", {})
    return CommitReport(
        turn=trace.turn,
        stored=tuple(
            StoreResult(
                stored=True,
                key=entry["key"],
                tier=Tier(entry["tier"]),
                quarantined=entry["held"] is not None,
                reason=entry["held"] or "stored",
                evicted=tuple(entry["evicted"]),
            )
            for entry in detail["stored"]
        ),
        refused=tuple(StoreResult(stored=False, key=key, reason=refused[key]) for key in refused),
        episodic=tuple(export for export in exports if is_episodic(export)),
        semantic=tuple(export for export in exports if not is_episodic(export)),
        summary=dict(detail["summary"]),
        budget=budget,
        trace=trace,
        **{name: tuple(detail[name]) for name in ("goals", "lessons", "skills")},
    )


def export_memory(place: Place, key: str, tier: str, value: Mapping[str, Any]) -> dict[str, Any]:
    """Return a written memory, as a report exports it."""
    return {"key": key, **place._asdict(), "tier": str(tier), "value": value}


def is_episodic(export: Mapping[str, Any]) -> bool:
    """Tell whether a memory is of an event, and not a fact."""
    return export["value"].get("memory_type") in EPISODES


def event_key_bounds(turn: str) -> tuple[str, str]:
    """Return the bounds of the names of a turn's events."""
    begin = f"turn/{quote(turn, safe='')}"
    return f"{begin}/", f"{begin}0"  # '0' follows '/'


def _event_params(context: MemoryContext, turn: str) -> dict[str, str]:
    """Return the parameters that select the events of a turn."""
    low, high = event_key_bounds(turn)
    return {"tenant": context.root, "low": low, "high": high}


def record_call(context: MemoryContext, trace: TurnTrace) -> Call:
    """Make the call that writes the trace of a turn, unless that has ended; lock it first."""
    turn, events = trace.turn, trace.events
    details = [{**event.detail, "reasons": list(event.reasons), "turn": turn} for event in events]
    within = _event_params(context, turn)
    params = {
        **within,
        "events": [f"{within['low']}{number:06}" for number, _ in enumerate(events)],
        "kinds": [event.kind for event in events],
        "namespaces": [event.namespace for event in events],
        "keys": [event.key for event in events],
        "at": [event.at for event in events],
        "details": [json.dumps(detail, ensure_ascii=False) for detail in details],
    }
    return Call("record_turn", params)


def turn_lock(context: MemoryContext, turn: str) -> tuple[str, str, str]:
    """Return the lock that ending a turn takes."""
    return context.root, "", f"\0{event_key_bounds(turn)[0]}"


def turn_ended_call(context: MemoryContext, turn: str) -> Call:
    """Make the call that reads how a turn ended: a kind and its detail, if it did."""
    return Call("turn_ended", _event_params(context, turn))


def read_trace(turn: str, context: MemoryContext) -> Flow[TurnTrace]:
    """Return the trace of a turn.

    Raises:
        InvalidInputError: if the context's project and user have no such turn.
    """
    (rows,) = yield Query((Call("turn_events", _event_params(context, turn)),), commit=True)
    if not rows or not all(
        belongs_to_context(context, row[2]) for row in rows if row[0] in get_args(Ending)
    ):
        raise InvalidInputError(
            f"there is no turn {short(turn)} in tenant {context.tenant!r}: one is written when it "
            "is committed, or left, and kept for as many days as the store's trace_days"
        )
    events = []
    for kind, at, detail, namespace, key in rows:
        event_detail = {
            name: value for name, value in detail.items() if name not in ("reasons", "turn")
        }
        why, place = tuple(detail.get("reasons", ())), {"namespace": namespace, "key": key}
        events.append(TurnEvent(kind=kind, at=at, reasons=why, detail=event_detail, **place))
    return TurnTrace(turn=turn, events=tuple(events))


def belongs_to_context(context: MemoryContext, ended: Mapping[str, Any]) -> bool:
    """Tell whether a turn that ended so belongs to the context's project and user."""
    project, user = context.project_id, ended.get("user_id")
    if user not in (None, context.user_id):
        return False
    return project is None or ended.get("project_id") == replace_unstorable(project)


# Redaction

_PRIVATE: Final = "(private)"
"""Text that a trace shows in place of private data that the policy refuses."""
_QUOTELESS: Final = frozenset(
    ("stored", "private", "too long", "trivial", "echo", "duplicate", "trust")
)
"""Rules of the gate whose reasons quote nothing of the memory."""
LONGEST_BEGINNING: Final = 80
"""Characters that a trace keeps of a refused or quarantined memory: our own choice."""


def redact_verdict(verdict: Verdict, memory: NewMemory, gate: Gate) -> Verdict:
    """Redact a verdict on a memory with private data that the policy refuses."""
    labels = [tag.replace("-", " ") for tag in memory.tags]
    if not any(
        holds_private_data(text, gate) for text in (memory.content, *memory.beside, *labels)
    ):
        return verdict
    rule, reason, review = verdict.reason.partition(":")[0], verdict.reason, verdict.review
    if rule not in _QUOTELESS:
        kinds = ", ".join(each.kind for each in verdict.findings)
        reason = f"{rule}: {_PRIVATE}" + (f" ({kinds})" if kinds else "")
    if review is not None:
        reasons, failures = dict.fromkeys(review.reasons, _PRIVATE), review.failures
        review = replace(review, reasons=reasons, failures=dict.fromkeys(failures, _PRIVATE))
    return replace(verdict, reason=reason, review=review)


def redacted_beginning(memory: NewMemory, gate: Gate) -> dict[str, str]:
    """Return the beginning and the speaker of a memory for the trace, redacted."""
    texts = {"content": memory.content, "speaker": memory.speaker}
    return {
        name: " ".join(redact(text, gate).split())[:LONGEST_BEGINNING]
        for name, text in texts.items()
        if text is not None
    }


def redact(text: str, gate: Gate) -> str:
    """Return a text for a trace; a placeholder if it holds private data."""
    return _PRIVATE if holds_private_data(text, gate) else text


def holds_private_data(text: str, gate: Gate) -> bool:
    """Tell whether a text holds private data that the policy does not accept."""
    kinds = {finding.kind for detect in gate.detectors for finding in detect(text)}
    return any(gate.policy.private.get(kind) not in (None, Decision.ACCEPT) for kind in kinds)
