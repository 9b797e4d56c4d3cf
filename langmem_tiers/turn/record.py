"""Record a turn as plain data: its budget spent, its tool calls, and what it will write."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache
from typing import Annotated, Any, ClassVar, Final
from uuid import NAMESPACE_OID, uuid5

from pydantic import ConfigDict, PlainValidator, TypeAdapter, ValidationError

from langmem_tiers.agent_state.models import ProgressDelta
from langmem_tiers.core.checks import (
    MAX_NAMESPACE_BYTES,
    checked_mapping,
    checked_number,
    checked_share,
)
from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError, short
from langmem_tiers.core.memory import Source
from langmem_tiers.core.values import replace_unstorable
from langmem_tiers.learning.reflexion import (
    FAILED_ATTEMPT,
    FailedAttempt,
    TriedCall,
    failure_fields,
    find_cure,
)
from langmem_tiers.learning.signature import signature
from langmem_tiers.learning.skills import ToolCall, Trace, trace_memory
from langmem_tiers.remember.new_memory import NewMemory, checked_text
from langmem_tiers.turn.layout import Fragment
from langmem_tiers.turn.trace import TurnEvent, to_json_fields

LONGEST_TASK: Final = 200
"""Characters of a prompt that its memories and its trace keep: our own choice."""
TOOL_CALL: Final = "tool-call"
"""Tag of memories of tool calls."""
LONGEST_RESULT: Final = 4_000
"""Characters of a result, of an error and of the arguments that are kept: our own choice."""
DEEPEST: Final = 50
"""Levels of a parameter that are kept as JSON: our own choice."""
_Memory = Annotated[NewMemory, PlainValidator(lambda fields: NewMemory(**fields))]
_CALL_FIELDS: Final = ("tool", "parameters", "result", "error", "seconds", "relevance")
"""Fields of a call that its memory keeps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """Tool call of a turn, with its result or error."""

    tool: str
    parameters: Mapping[str, Any]
    key: str = ""
    """Key of its memory, once it belongs to a turn."""
    result: str | None = None
    error: str | None = None
    seconds: float | None = None
    relevance: float | None = None
    call_id: str | None = None

    @property
    def approach(self) -> str:
        """Return the tool with its arguments."""
        arguments = json.dumps(self.parameters, ensure_ascii=False, sort_keys=True)
        return cut_middle(f"{self.tool}({arguments})")

    def to_memory(self, at: datetime, task: str) -> NewMemory:
        """Make an episodic memory of the call; a failed one has the failure's signature."""
        came = f"Failed with: {self.error}" if self.error is not None else f"Result: {self.result}"
        took = "" if self.seconds is None else f"\nTook: {self.seconds:.3f} s"
        failure = signature(self.error, tool=self.tool) if self.error is not None else None
        call = {name: getattr(self, name) for name in _CALL_FIELDS}
        return NewMemory(
            content=f"Called {self.approach}\n{came}{took}",
            memory_type="episodic",
            key=self.key,
            tags=(TOOL_CALL, FAILED_ATTEMPT) if failure else (TOOL_CALL,),
            source=Source.TOOL,
            occurred_at=at.isoformat(),
            source_task=task or None,
            further={"tool_call": call, **failure_fields(failure)},
        )


@dataclass(slots=True, kw_only=True)
class TurnRecord:
    """Turn so far. All of it is JSON, so that a graph's state can hold it between two nodes."""

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")

    turn: str
    began: datetime
    about: str | None = None
    """Name of what it answers: a message's id."""
    prompt: str = ""
    tokens: int = 0
    spent: int = 0
    """Events that count towards the budget."""
    pending: list[_Memory] = field(default_factory=list)
    evicted: list[str] = field(default_factory=list)
    calls: list[Invocation] = field(default_factory=list)
    heard: float = 1.0
    """Trust, in 0…1, of the least trusted output of its tools, kept or not."""
    goals: list[dict[str, Any]] = field(default_factory=list)
    """Steps of progress, each with its `goal`."""
    shown: list[dict[str, Any]] = field(default_factory=list)
    """Texts that it was shown, with their places: repeating them is no new evidence."""
    echoes: list[dict[str, Any]] = field(default_factory=list)
    """Items to keep that repeat a memory, with that memory's `key` and `namespace`."""
    wanted: list[str] = field(default_factory=list)
    """Name of each thing that it was asked to keep, kept or not: a retry wants the same."""
    events: list[TurnEvent] = field(default_factory=list)
    closed: str | None = None
    """`committed` or `abandoned`; None while it goes on."""

    @property
    def task(self) -> str:
        """Return the prompt in a line."""
        return " ".join(self.prompt.split())[:LONGEST_TASK]

    @property
    def refusals(self) -> int:
        """Return the number of refusals: by the gate, or for want of budget."""
        by_gate = [
            event for event in self.events if event.kind == "tracked" and "refused" in event.detail
        ]
        refused = [event for event in self.events if event.kind == "refused"]
        return len(by_gate) + sum(int(event.detail.get("times", 1)) for event in refused)

    def key(self, *parts: object) -> str:
        """Make a key that a retry of the turn makes too."""
        return str(uuid5(NAMESPACE_OID, json.dumps([self.turn, *map(str, parts)])))

    def wish(self, context: MemoryContext, *parts: object) -> str:
        """Name a thing to be kept, by its content and its owner."""
        own = (context.project_id, context.session_id, context.agent_id, context.user_id)
        return self.key(*own, *parts)

    def show(self, fragments: Iterable[Fragment]) -> None:
        """Note the memories shown, and the agent's own texts."""
        shown_before = {(entry["key"], entry["content"]) for entry in self.shown}
        for fragment in fragments:
            memory = fragment.memory
            if (memory is None and fragment.data) or (fragment.key, fragment.text) in shown_before:
                continue
            key, place = (None, None) if memory is None else (memory.key, [*memory.namespace])
            self.shown.append({"content": fragment.text, "key": key, "namespace": place})

    def refuse(self, what: str, why: str, at: datetime) -> None:
        """Note a refusal; a repeated one is counted."""
        for place, event in enumerate(self.events):
            if event.kind == "refused" and event.detail.get("what") == what:
                times = event.detail["times"] + 1
                self.events[place] = replace(event, detail={"what": what, "times": times})
                return
        refused = {"what": what, "times": 1}
        self.events.append(TurnEvent(kind="refused", at=at, reasons=(why,), detail=refused))

    def attempts(self, context: MemoryContext) -> list[tuple[NewMemory, str]]:
        """Return failures that worked later, each with the key of the call that failed."""
        attempts, kept = [], {memory.key: memory for memory in self.pending}
        calls = [
            TriedCall(call.tool, call.parameters, call.error, at)
            for at, call in enumerate(self.calls)
        ]
        for place, call in enumerate(self.calls):
            cure = find_cure(place, calls)
            worked = None if cure is None else self.calls[cure]
            if call.error is None or worked is None or not {call.key, worked.key} <= kept.keys():
                continue
            attempt = FailedAttempt(
                task_id=self.task or "a task without a name",
                approach=call.approach,
                error=call.error,
                tool=call.tool,
                succeeded_with=worked.approach,
            )
            origins = kept[call.key], kept[worked.key]
            attempts.append((_derive_from(attempt.to_memory(context), origins), call.key))
        return attempts

    def steps(self) -> dict[str, list[ProgressDelta]]:
        """Return the steps of progress by goal."""
        steps: dict[str, list[ProgressDelta]] = {}
        for delta in self.goals:
            fields = {name: value for name, value in delta.items() if name != "goal"}
            steps.setdefault(delta["goal"], []).append(ProgressDelta(**fields))
        return steps

    def trace(self, *, success: bool | None) -> Trace | None:
        """Return its calls for the skill extractor; by default it went as its last call did.

        A refused or quarantined call is left out: its names may instruct as well.
        """
        kept = self._open_calls()
        if not kept:
            return None
        ended = self.calls[-1].error is None if success is None else success
        steps = [  # as the skill extractor reads calls: names, and no values
            ToolCall(call.tool, frozenset(call.parameters), call.error is None)
            for call in self.calls
            if call.key in kept
        ]
        return Trace(self.turn, steps, ended, min(memory.trust for memory in kept.values()))

    def run_memory(self, trace: Trace, context: MemoryContext) -> NewMemory:
        """Make a memory of its trace, held for as long as one of its calls is."""
        return _derive_from(trace_memory(trace, context), [*self._open_calls().values()])

    def _open_calls(self) -> dict[str, NewMemory]:
        """Return the memories of its calls that are not held back."""
        calls = {call.key for call in self.calls}
        return {
            str(memory.key): memory
            for memory in self.pending
            if memory.key in calls and memory.held is None
        }

    def to_state(self) -> dict[str, Any]:
        """Return the turn as JSON."""
        return to_json_fields(self)

    @classmethod
    def of_state(cls, state: Mapping[str, Any]) -> TurnRecord:
        """Read a turn from that JSON.

        Raises:
            InvalidInputError: for what is no turn.
        """
        try:
            return _record_adapter().validate_python(
                checked_mapping(state, "state", "what to_state told")
            )
        except (TypeError, ValidationError) as error:
            raise InvalidInputError(
                f"the state holds no turn ({short(str(error))}): begin one with the assemble node, "
                "which writes the key 'turn'"
            ) from error


@cache
def _record_adapter() -> TypeAdapter[TurnRecord]:
    """Make the adapter that reads turns, at the first use: that takes time."""
    return TypeAdapter(TurnRecord)


def _derive_from(memory: NewMemory, origins: Sequence[NewMemory]) -> NewMemory:
    """Trust a memory no further than its origins."""
    least = min(origins, key=lambda each: each.trust)
    held = next((each.held for each in origins if each.held), None)
    return replace(memory, source=least.source, trust=least.trust, held=held)


# Reading a tool call


def cut_middle(text: str, longest: int = LONGEST_RESULT) -> str:
    """Cut a text to a length, and say how much is left out."""
    if len(text) <= longest:
        return text
    head, tail = longest // 4, longest - longest // 4
    left_out = len(text) - head - tail
    return f"{text[:head]}\n[… {left_out:,} characters left out …]\n{text[-tail:]}"


def read_tool_call(
    tool_name: str,
    parameters: Mapping[str, Any] | None,
    result: Any,
    error: BaseException | str | None,
    *,
    duration: float | None,
    relevance: float | None,
    call_id: str | None,
) -> tuple[Invocation, str]:
    """Check a tool call; return it, and its whole text, not cut.

    The text is for the search for private data.

    Raises:
        InvalidInputError: for a tool without a name, or what is no duration or relevance.
    """
    if parameters is not None:
        checked_mapping(parameters, "parameters", "{'of': 'ops'}")
    if duration is not None:
        most, use = sys.float_info.max, "a number of seconds or None"
        checked_number(duration, "duration", -most, most, use=use)
    if call_id is not None and not isinstance(call_id, str):
        raise InvalidTypeError(f"call_id is a string or None, not {short(call_id)}")
    named: object = tool_name  # a model calls any name
    tool = checked_text(replace_unstorable(named) if isinstance(named, str) else named, "tool_name")
    arguments = {_value_text(name): value for name, value in (parameters or {}).items()}
    written = {name: _as_text(argument) for name, argument in arguments.items()}
    whole = "\n".join((*written, *written.values()))
    came = _as_text(result) if error is None else error_text(error)
    invocation = Invocation(
        tool=tool.encode()[:MAX_NAMESPACE_BYTES].decode(errors="ignore"),
        parameters={name: cut_middle(text) for name, text in written.items()}
        if len(whole) > LONGEST_RESULT
        else {name: _to_json_value(argument) for name, argument in arguments.items()},
        result=cut_middle(came) if error is None else None,
        error=None if error is None else cut_middle(came),
        seconds=duration,
        relevance=checked_share(relevance, "relevance"),
        call_id=None if call_id is None else replace_unstorable(call_id),
    )
    return invocation, f"{tool}\n{whole}\n{came}"


def _to_json_value(value: Any, levels: int = DEEPEST) -> Any:
    """Make JSON of a value that Postgres can hold; other or deeper values become texts."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float) and abs(value) <= sys.float_info.max:
        return value
    if levels and isinstance(value, Mapping):
        return {_value_text(name): _to_json_value(item, levels - 1) for name, item in value.items()}
    if levels and isinstance(value, list | tuple):
        return [_to_json_value(item, levels - 1) for item in value]
    return _value_text(value)


def _value_text(value: object) -> str:
    """Return a value's own text, or a short form if it has none."""
    try:
        nested = isinstance(value, Mapping | list)
        return replace_unstorable(json.dumps(value, ensure_ascii=False) if nested else str(value))
    except Exception:  # noqa: BLE001 - a caller's object can raise anything when it is shown
        return replace_unstorable(short(value, LONGEST_RESULT))


def _as_text(value: Any) -> str:
    """Return a text as it is, all else as JSON."""
    plain = _to_json_value(value)
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)


def error_text(error: BaseException | str) -> str:
    """Return the class and the text of an error."""
    named = (
        f"{type(error).__name__}: {_value_text(error)}"
        if isinstance(error, BaseException)
        else error
    )
    return _as_text(named).strip() or "it reported an error and nothing else"
