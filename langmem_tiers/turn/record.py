"""What a turn has done so far, as plain data: what it spent, what it is going to write, and why."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from datetime import datetime
from typing import Any, Final, NamedTuple, Self
from uuid import NAMESPACE_OID, uuid5

from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.memory import MemoryContext
from langmem_tiers.core.namespaces import Place
from langmem_tiers.learn.reflexion import FailedAttempt
from langmem_tiers.learn.retries import teaches
from langmem_tiers.learn.skills import Trace, trace_memory
from langmem_tiers.remember.new import NewMemory
from langmem_tiers.turn.calls import Invocation
from langmem_tiers.turn.layout import Fragment
from langmem_tiers.turn.trace import TurnEvent

LONGEST_TASK: Final = 200
"""Characters of a prompt that its memories and its trace keep: our own choice."""


class Lesson(NamedTuple):
    """What a failed call of a turn teaches, and the key of the memory of that call."""

    memory: NewMemory
    attempt: str


@dataclass(slots=True, kw_only=True)
class TurnRecord:
    """A turn so far. All of it is JSON, so that a graph's state can hold it between two nodes."""

    turn: str
    began: datetime
    about: str | None = None
    """What it answers, by name: a message's id."""
    prompt: str = ""
    tokens: int = 0
    spent: int = 0
    """Events that count towards the budget."""
    pending: list[NewMemory] = field(default_factory=list)
    evicted: list[str] = field(default_factory=list)
    calls: list[Invocation] = field(default_factory=list)
    goals: list[dict[str, Any]] = field(default_factory=list)
    """Deltas of progress, each with its `goal`."""
    shown: list[dict[str, Any]] = field(default_factory=list)
    """What it was shown that is no new evidence when it is said again: texts, and whose."""
    echoes: list[dict[str, Any]] = field(default_factory=list)
    """What it was told to keep and repeats a memory, with that one's `key` and `namespace`."""
    wanted: list[str] = field(default_factory=list)
    """A name of each thing that it was told to keep, kept or not: a retry wants the same."""
    events: list[TurnEvent] = field(default_factory=list)
    closed: str | None = None
    """`committed` or `abandoned`; None while it goes on."""

    @property
    def task(self) -> str:
        """What the turn is about, in a line."""
        return " ".join(self.prompt.split())[:LONGEST_TASK]

    @property
    def refusals(self) -> int:
        """How many things were refused: by the gate, or as there was no budget for them."""
        by_gate = [one for one in self.events if one.kind == "tracked" and "refused" in one.detail]
        told = [one for one in self.events if one.kind == "refused"]
        return len(by_gate) + sum(int(one.detail.get("times", 1)) for one in told)

    def key(self, *parts: object) -> str:
        """A key that a retry of the turn makes too."""
        return str(uuid5(NAMESPACE_OID, json.dumps([self.turn, *map(str, parts)])))

    def wish(self, context: MemoryContext, *parts: object) -> str:
        """A name of something to be kept, and of whose it is to be: of something else, another."""
        return self.key(context.project_id, context.session_id, context.agent_id, *parts)

    def show(self, fragments: Iterable[Fragment]) -> None:
        """Keep in mind what is shown from memory, and what the agent is told of itself."""
        known = {(one["key"], one["content"]) for one in self.shown}
        for one in fragments:
            memory = one.memory
            if (memory is None and one.data) or (one.key, one.text) in known:
                continue
            key, place = (None, None) if memory is None else (memory.key, [*memory.namespace])
            self.shown.append({"content": one.text, "key": key, "namespace": place})

    def repeated(self, one: NewMemory, places: Iterable[tuple[Place, str]]) -> None:
        """Keep in mind what is not kept as it repeats these memories."""
        again = as_json(replace(one, recalled=()))
        for place, key in places:
            self.echoes.append({"key": key, "namespace": place.namespace, "memory": again})

    def untold(self, keys: Container[str]) -> list[NewMemory]:
        """What repeats the memories of these keys alone, which are not to stay as they are."""
        return [NewMemory(**one["memory"]) for one in self.echoes if one["key"] in keys]

    def refuse(self, what: str, why: str, at: datetime) -> None:
        """Note that something was refused; said again, it is counted."""
        for place, one in enumerate(self.events):
            if one.kind == "refused" and one.detail.get("what") == what:
                times = one.detail["times"] + 1
                self.events[place] = replace(one, detail={"what": what, "times": times})
                return
        refused = {"what": what, "times": 1}
        self.events.append(TurnEvent(kind="refused", at=at, reasons=(why,), detail=refused))

    def lessons(self, context: MemoryContext) -> list[Lesson]:
        """What was learned: of each failed call, the next try of it that worked."""
        found, kept = [], {one.key: one for one in self.pending}
        for place, one in enumerate(self.calls):
            worked = _instead(one, self.calls[place + 1 :])
            if one.error is None or worked is None or not {one.key, worked.key} <= kept.keys():
                continue
            attempt = FailedAttempt(
                task_id=self.task or "a task without a name",
                approach=one.approach,
                error=one.error,
                tool=one.tool,
                succeeded_with=worked.approach,
            )
            if (lesson := attempt.extracted()) is not None:
                calls = kept[one.key], kept[worked.key]
                found.append(Lesson(_derived(lesson.to_memory(context), calls), one.key))
        return found

    def trace(self, *, success: bool | None) -> Trace | None:
        """Its calls for the skill extractor; it went as its last call did, unless told.

        A call that was refused or quarantined is left out: its names may instruct as well.
        """
        kept = self._open_calls()
        if not kept:
            return None
        ended = self.calls[-1].error is None if success is None else success
        steps = [one.step() for one in self.calls if one.key in kept]
        return Trace(self.turn, steps, ended, min(one.trust for one in kept.values()))

    def run_memory(self, trace: Trace, context: MemoryContext) -> NewMemory:
        """Its trace as something to be stored, held for as long as one of its calls is."""
        return _derived(trace_memory(trace, context), [*self._open_calls().values()])

    def _open_calls(self) -> dict[str, NewMemory]:
        """The memories of its calls that are not held back, unless for want of a review alone."""
        calls = {one.key for one in self.calls}
        return {
            str(one.key): one
            for one in self.pending
            if one.key in calls and (one.held is None or one.awaits_review)
        }

    def to_state(self) -> dict[str, Any]:
        """The turn as JSON."""
        return as_json(self)

    @classmethod
    def of_state(cls, state: Mapping[str, Any]) -> Self:
        """The turn of that JSON.

        Raises:
            InvalidInputError: for what is no turn.
        """
        try:
            told: dict[str, Any] = {
                name: list(one) if isinstance(one, list) else one
                for name, one in dict(state).items()
            }
            read = {
                "began": datetime.fromisoformat(told["began"]),
                "pending": [NewMemory(**one) for one in told["pending"]],
                "calls": [Invocation(**one) for one in told["calls"]],
                "events": [TurnEvent.of_state(one) for one in told["events"]],
            }
            return cls(**{**told, **read})
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInputError(
                f"the state holds no turn ({error}): begin one with the assemble node, which "
                "writes the key 'turn'"
            ) from error


def as_json(one: NewMemory | TurnRecord) -> dict[str, Any]:
    """A turn, or what is to be remembered, as JSON; of a memory the fields that were given.

    Raises:
        InvalidInputError: for what is nested too deeply.
    """
    try:
        read: dict[str, Any] = json.loads(json.dumps(one, default=_form))
    except RecursionError as error:
        raise InvalidInputError(
            "what is to be remembered is nested too deeply to be kept: give it fewer levels"
        ) from error
    return read


def _form(value: Any) -> Any:
    """The JSON of what has no form there by itself."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, NewMemory):
        given = {name: one for name, one in _fields(value).items() if one != _BLANK[name]}
        return {"content": value.content, **given}
    if is_dataclass(value):
        return _fields(value)
    return dict(value) if isinstance(value, Mapping) else list(value)


def _fields(one: Any) -> dict[str, Any]:
    return {each.name: getattr(one, each.name) for each in fields(one)}


_BLANK: Final = _fields(NewMemory(content=""))


def _instead(failed: Invocation, later: Sequence[Invocation]) -> Invocation | None:
    """The next try of a call that worked; None if the same call worked as well."""
    worked = [one for one in later if one.tool == failed.tool and one.error is None]
    if any(one.approach == failed.approach for one in worked):
        return None
    tries = (one for one in worked if teaches(failed.parameters, one.parameters))
    return next(tries, None)


def _derived(one: NewMemory, origins: Sequence[NewMemory]) -> NewMemory:
    """A memory that is trusted no further than what it comes from."""
    least = min(origins, key=lambda each: each.trust)
    barred = next((each.held for each in origins if each.held and not each.awaits_review), None)
    held = barred or next((each.held for each in origins if each.held), None)
    awaits = barred is None and any(each.awaits_review for each in origins)
    return replace(one, source=least.source, trust=least.trust, held=held, awaits_review=awaits)
