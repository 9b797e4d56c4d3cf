"""What a turn left behind, as its `committed` event keeps it: the same for every retry."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langmem_tiers.core.memory import StoreResult, Tier
from langmem_tiers.remember.admission import Applied
from langmem_tiers.remember.new import NewMemory
from langmem_tiers.store.write import Write
from langmem_tiers.turn.layout import EPISODES
from langmem_tiers.turn.record import TurnRecord
from langmem_tiers.turn.spending import BudgetStatus
from langmem_tiers.turn.trace import TurnTrace


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitReport:
    """What a turn left behind."""

    turn: str
    stored: tuple[StoreResult, ...] = ()
    """Every memory that was written."""
    refused: tuple[StoreResult, ...] = ()
    """What the gate let pass and the commit did not write, each with the reason."""
    episodic: tuple[Mapping[str, Any], ...] = ()
    """What happened, as it was stored: `key`, `namespace`, `tier` and `value`. A retry exports what
    is still there, as it is by then."""
    semantic: tuple[Mapping[str, Any], ...] = ()
    """What is known, likewise."""
    goals: tuple[Mapping[str, Any], ...] = ()
    """How much nearer which goals came, in order, and how far each is by now."""
    lessons: tuple[str, ...] = ()
    """Keys of what its failed tool calls taught."""
    skills: tuple[str, ...] = ()
    """Keys of the skills whose evidence it changed."""
    summary: Mapping[str, int] = field(default_factory=dict)
    """How many of each it wrote; how many things were `refused`, by the gate, by the commit or as
    there was no budget for them; how many of what it wrote are `quarantined`."""
    budget: BudgetStatus
    trace: TurnTrace

    def __str__(self) -> str:
        """What was written, in one line, and what it spent in another."""
        told = ", ".join(f"{number:,} {name}" for name, number in self.summary.items() if number)
        return f"turn {self.turn}: {told or 'nothing written'}\n{self.budget}"

    def to_state(self) -> dict[str, Any]:
        """The report as JSON for a graph's state: of memories their keys."""
        return {
            "turn": self.turn,
            "summary": dict(self.summary),
            "episodic": [one["key"] for one in self.episodic],
            "semantic": [one["key"] for one in self.semantic],
            "goals": [dict(one) for one in self.goals],
            "lessons": list(self.lessons),
            "skills": list(self.skills),
            "refused": {str(one.key): one.reason for one in self.refused},
            "quarantined": {str(one.key): one.reason for one in self.stored if one.quarantined},
        }

    def to_json(self) -> str:
        """The whole report as JSON."""
        told = {
            **self.to_state(),
            "episodic": [dict(one) for one in self.episodic],
            "semantic": [dict(one) for one in self.semantic],
            "trace": [one.to_state() for one in self.trace.events],
        }
        return json.dumps(told, ensure_ascii=False, sort_keys=True)


def exported(one: Write) -> dict[str, Any]:
    """A memory that is written, as a report exports it."""
    place = {"tenant": one.place.tenant, "namespace": one.place.namespace}
    return {"key": one.key, **place, "tier": one.tier.value, "value": json.loads(one.value or "{}")}


def committed(
    record: TurnRecord,
    puts: Sequence[Write],
    applied: Applied,
    *,
    lessons: Sequence[str],
    skills: Sequence[str],
    goals: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """What the `committed` event of a turn keeps, so that a retry can be answered from it."""
    exports = [exported(one) for one in puts]
    episodes = sum(map(_happened, exports))
    made_room = [(one.memory.key, one.by) for one in applied.evicted]
    return {
        "summary": {
            "episodic": episodes,
            "semantic": len(exports) - episodes,
            "tool calls": len(record.calls),
            "lessons": len(lessons),
            "skills": len(skills),
            "goals": len(goals),
            "refused": record.refusals + len(applied.refused),
            "quarantined": _held(puts),
        },
        "wanted": list(record.wanted),
        "stored": [_stored(one, [key for key, by in made_room if by == one.key]) for one in puts],
        "refused": {key: why for (_, key), why in applied.refused.items()},
        "lessons": list(lessons),
        "skills": list(skills),
        "goals": list(goals),
    }


def _stored(one: Write, evicted: Sequence[str]) -> dict[str, Any]:
    """A memory that is written, as the event keeps it."""
    place, tier = one.place.namespace, one.tier.value
    return {
        "key": one.key,
        "namespace": place,
        "tier": tier,
        "held": one.held,
        "evicted": list(evicted),
    }


def pending_in(record: TurnRecord) -> dict[str, Any]:
    """What the ending of a turn keeps of what it did not write."""
    return {
        "summary": {
            "memories": len(record.pending),
            "tool calls": len(record.calls),
            "refused": record.refusals,
            "quarantined": _held(record.pending),
        }
    }


def written_in(detail: Mapping[str, Any]) -> str:
    """What was written, in a line for the trace."""
    wrote = ", ".join(f"{number} {name}" for name, number in detail["summary"].items() if number)
    return wrote or "nothing to write"


def report_of(
    detail: Mapping[str, Any],
    exports: Iterable[Mapping[str, Any]],
    *,
    budget: BudgetStatus,
    trace: TurnTrace,
) -> CommitReport:
    """The report of a `committed` event; `exports` are its memories, in its order."""
    found = list(exports)
    return CommitReport(
        turn=trace.turn,
        stored=tuple(map(_result, detail["stored"])),
        refused=tuple(
            StoreResult(stored=False, key=key, reason=why)
            for key, why in detail.get("refused", {}).items()
        ),
        episodic=tuple(one for one in found if _happened(one)),
        semantic=tuple(one for one in found if not _happened(one)),
        goals=tuple(detail["goals"]),
        lessons=tuple(detail["lessons"]),
        skills=tuple(detail["skills"]),
        summary=dict(detail["summary"]),
        budget=budget,
        trace=trace,
    )


def _result(one: Mapping[str, Any]) -> StoreResult:
    """What became of a memory that was written, as the event keeps it."""
    return StoreResult(
        stored=True,
        key=one["key"],
        tier=Tier(one["tier"]),
        quarantined=one["held"] is not None,
        reason=one["held"] or "stored",
        evicted=tuple(one["evicted"]),
    )


def _held(several: Iterable[Write | NewMemory]) -> int:
    return sum(one.held is not None for one in several)


def _happened(one: Mapping[str, Any]) -> bool:
    return one["value"].get("memory_type") in EPISODES
