"""The trace of a turn: every decision as an event, in order, with its reasons."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal
from urllib.parse import quote

from langmem_tiers.core.explain import LINE, plain, shortened

Kind = Literal[
    "assembled",
    "tracked",
    "memorized",
    "progressed",
    "refused",
    "failed",
    "committed",
    "abandoned",
]
Ending = Literal["committed", "abandoned", "failed"]
_PREFIX: Final = "turn/"


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEvent:
    """One decision of a turn."""

    kind: Kind
    at: datetime
    reasons: tuple[str, ...] = ()
    detail: Mapping[str, Any] = field(default_factory=dict)
    """What was decided on, as JSON."""
    namespace: str | None = None
    """Where the memory is that it is about, as the database names it; None if about none."""
    key: str | None = None

    def __str__(self) -> str:
        """When, what, and why."""
        about = f" {plain(self.key)}" if self.key is not None else ""
        said = f" ({plain(self.detail['content'])})" if "content" in self.detail else ""
        why = shortened("; ".join(self.reasons), LINE)
        return f"{self.at:%H:%M:%S} {self.kind}{about}: {why}{said}"

    def to_state(self) -> dict[str, Any]:
        """The event as JSON."""
        return {
            "kind": self.kind,
            "at": self.at.isoformat(),
            "reasons": list(self.reasons),
            "detail": dict(self.detail),
            "namespace": self.namespace,
            "key": self.key,
        }

    @classmethod
    def of_state(cls, state: Mapping[str, Any]) -> TurnEvent:
        """The event of that JSON."""
        at, reasons = datetime.fromisoformat(state["at"]), tuple(state["reasons"])
        return cls(**{**state, "at": at, "reasons": reasons})


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnTrace:
    """What was decided in a turn, oldest first."""

    turn: str
    events: tuple[TurnEvent, ...]

    def __str__(self) -> str:
        """A line for the turn, and one for each event."""
        return "\n".join([f"turn {plain(self.turn)}", *(f"  {one}" for one in self.events)])

    def of_kind(self, kind: Kind) -> list[TurnEvent]:
        """The events of one kind."""
        return [one for one in self.events if one.kind == kind]

    def to_jsonl(self) -> str:
        """One event a line, as JSON."""
        lines = ({"turn": self.turn, **one.to_state()} for one in self.events)
        return "".join(json.dumps(one, ensure_ascii=False, sort_keys=True) + "\n" for one in lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedTurn:
    """How a turn ended, in brief; `history` has its decisions."""

    turn: str
    kind: Ending
    """`failed` is one that has not ended: it may go on, if its run is resumed."""
    began: datetime | None
    """None if it ended before that was kept."""
    at: datetime
    """When it ended."""
    reason: str
    project_id: str | None
    session_id: str | None
    summary: Mapping[str, int] = field(default_factory=dict)
    """Of one that was committed, that of its report; else how many `memories` and `tool calls` were
    pending, how many things were `refused`, and how many were to be `quarantined`."""

    def __str__(self) -> str:
        """When, which, how it ended, and why."""
        why = shortened(self.reason, LINE)
        return f"{self.at:%Y-%m-%d %H:%M:%S} {plain(self.turn)} {self.kind}: {why}"


def event_names(turn: str, events: Sequence[TurnEvent], project: str | None = None) -> list[str]:
    """The name of each event: the same for the same turn, in the order of its events."""
    begin, _ = bounds(turn, project)
    return [f"{begin}{number:06}" for number, _ in enumerate(events)]


def failure_name(
    turn: str, events: Sequence[TurnEvent], at: datetime, project: str | None = None
) -> str:
    """The name of a failure that a turn may go on after: between its events so far and the next."""
    return f"{bounds(turn, project)[0]}{max(0, len(events) - 1):06}-{at.isoformat()}"


def bounds(turn: str, project: str | None = None) -> tuple[str, str]:
    """Between which names the events of a turn are; that of another project is another turn."""
    of = "" if project is None else f"{quote(project, safe='', errors='surrogatepass')}:"
    begin = f"{_PREFIX}{of}{quote(turn, safe='')}"
    return f"{begin}/", f"{begin}0"  # '0' follows '/'
