"""A tool call of a turn, and what came of it: arguments in, a memory out."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError, short
from langmem_tiers.core.memory import Source
from langmem_tiers.core.namespaces import MAX_NAMESPACE_BYTES
from langmem_tiers.core.values import storable
from langmem_tiers.learn.reflexion import FAILED_ATTEMPT, failure_fields
from langmem_tiers.learn.signature import signature
from langmem_tiers.learn.skills import ToolCall
from langmem_tiers.recall.dedupe import words
from langmem_tiers.remember.new import NewMemory, checked_text, share

TOOL_CALL: Final = "tool-call"
"""The tag of memories of tool calls."""
LONGEST_RESULT: Final = 4_000
"""Characters of a result, of an error and of the arguments that are kept: our own choice."""
DEEPEST: Final = 50
"""Levels of a parameter that are kept as JSON: our own choice."""
_TOLD: Final = ("tool", "parameters", "result", "error", "seconds", "relevance")
"""What the memory of a call says of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """A tool call of a turn, and what came of it."""

    tool: str
    parameters: Mapping[str, Any]
    key: str = ""
    """That of its memory, once it belongs to a turn."""
    result: str | None = None
    error: str | None = None
    seconds: float | None = None
    relevance: float | None = None
    call_id: str | None = None

    @property
    def approach(self) -> str:
        """What was done: the tool with its arguments."""
        arguments = json.dumps(self.parameters, ensure_ascii=False, sort_keys=True)
        return both_ends(f"{self.tool}({arguments})")

    def to_memory(self, at: datetime, task: str) -> NewMemory:
        """The call as an episodic memory; one that failed has the failure's signature."""
        came = f"Failed with: {self.error}" if self.error is not None else f"Result: {self.result}"
        took = "" if self.seconds is None else f"\nTook: {self.seconds:.3f} s"
        failure = signature(self.error, tool=self.tool) if self.error is not None else None
        told = {name: getattr(self, name) for name in _TOLD}
        return NewMemory(
            content=f"Called {self.approach}\n{came}{took}",
            memory_type="episodic",
            key=self.key,
            tags=(TOOL_CALL, FAILED_ATTEMPT) if failure else (TOOL_CALL,),
            source=Source.TOOL,
            occurred_at=at.isoformat(),
            source_task=task or None,
            further={"tool_call": told, **failure_fields(failure)},
        )

    def within(self, key: str, prompt: str) -> Invocation:
        """The call as a turn keeps it; its relevance, if not given, is that to the prompt."""
        return replace(self, key=key, relevance=_relevance(prompt, self))

    def step(self) -> ToolCall:
        """The call as the skill extractor reads it: names, and no values."""
        return ToolCall(self.tool, frozenset(self.parameters), self.error is None)


def both_ends(text: str, longest: int = LONGEST_RESULT) -> str:
    """A text of bounded length, that says what is left out."""
    if len(text) <= longest:
        return text
    head, tail = longest // 4, longest - longest // 4
    left_out = len(text) - head - tail
    return f"{text[:head]}\n[… {left_out:,} characters left out …]\n{text[-tail:]}"


def called(
    tool_name: str,
    parameters: Mapping[str, Any] | None,
    result: Any,
    error: BaseException | str | None,
    *,
    duration: float | None,
    relevance: float | None,
    call_id: str | None,
) -> tuple[Invocation, str]:
    """A tool call as a caller tells of it, checked; and all that is told of it, not cut.

    The latter is for whoever looks for private data.

    Raises:
        InvalidInputError: for a tool without a name, or what is no duration or relevance.
    """
    if parameters is not None and not isinstance(parameters, Mapping):
        raise InvalidTypeError(f"parameters is a mapping, not {type(parameters).__name__}")
    _check_seconds(duration)
    if call_id is not None and not isinstance(call_id, str):
        raise InvalidTypeError(f"call_id is a string or None, not {short(call_id)}")
    named: object = tool_name  # a model calls any name
    tool = checked_text(storable(named) if isinstance(named, str) else named, "tool_name")
    given = {_text(name): one for name, one in (parameters or {}).items()}
    written = {name: _said(one) for name, one in given.items()}
    whole = "\n".join((*written, *written.values()))
    came = _said(result) if error is None else _failed(error)
    one = Invocation(
        tool=tool.encode()[:MAX_NAMESPACE_BYTES].decode(errors="ignore"),
        parameters={name: both_ends(one) for name, one in written.items()}
        if len(whole) > LONGEST_RESULT
        else {name: _plain(one) for name, one in given.items()},
        result=both_ends(came) if error is None else None,
        error=None if error is None else both_ends(came),
        seconds=duration,
        relevance=share(relevance, "relevance"),
        call_id=None if call_id is None else storable(call_id),
    )
    return one, f"{tool}\n{whole}\n{came}"


def _check_seconds(given: object) -> None:
    if given is None:
        return
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise InvalidTypeError(f"duration is a number of seconds, not {short(given)}")
    if not abs(given) <= sys.float_info.max:
        raise InvalidInputError(f"duration is {short(given)}: use seconds, or None")


def _plain(value: Any, levels: int = DEEPEST) -> Any:
    """A value as JSON that Postgres can hold; what has no form there, or lies deeper, is a text."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float) and abs(value) <= sys.float_info.max:
        return value
    if levels and isinstance(value, Mapping):
        return {_text(name): _plain(one, levels - 1) for name, one in value.items()}
    if levels and isinstance(value, list | tuple):
        return [_plain(one, levels - 1) for one in value]
    return _text(value)


def _text(value: object) -> str:
    """What a value says of itself, or how it begins where it cannot."""
    try:
        nested = isinstance(value, Mapping | list)
        return storable(json.dumps(value, ensure_ascii=False) if nested else str(value))
    except Exception:  # noqa: BLE001 - a caller's object can raise anything when it is shown
        return storable(short(value, LONGEST_RESULT))


def _said(given: Any) -> str:
    """A text as it is, all else as JSON."""
    plain = _plain(given)
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)


def _failed(error: BaseException | str) -> str:
    named = f"{type(error).__name__}: {_text(error)}" if isinstance(error, BaseException) else error
    return _said(named).strip() or "it reported an error and nothing else"


def _relevance(prompt: str, one: Invocation) -> float | None:
    """How much of what the turn is about a call names."""
    sought = set(words(prompt))
    if one.relevance is not None or not sought:
        return one.relevance
    said = set(words(f"{one.tool.replace('_', ' ')} {one.approach} {one.result or ''}"))
    return round(len(sought & said) / len(sought), 2)
