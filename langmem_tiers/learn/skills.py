"""Skills: sequences of tool calls that recur in runs that succeeded."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import Any, NamedTuple

from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError, short

MIN_SUPPORT = 3
"""Runs that a sequence has to succeed in: two may be chance. Our own choice."""
MIN_LENGTH = 2
"""One call alone is a tool, not a skill."""
MAX_LENGTH = 6
"""Steps after which a skill says too much of one task: our own choice."""

_PLAIN = re.compile(r"[\w.:/-]+")
_TOOL_WORDS = re.compile(r"[^\W\d_]?[^\WA-Z_]+|[^\W_]+")


class ToolCall(NamedTuple):
    """A tool that was called, the names of its arguments (no values), and how it ended.

    `frozenset(parameters)` makes the names of a mapping of parameters.
    """

    tool: str
    arguments: frozenset[str]
    succeeded: bool


class Trace(NamedTuple):
    """The calls of a run, in the order in which they were made, and how the run ended."""

    run: str
    calls: Sequence[ToolCall]
    succeeded: bool
    trust: float = 1.0
    """How far it is trusted, in 0…1: a skill is trusted as the least of the runs it was seen in."""


class Step(NamedTuple):
    """A call without its values: the tool, and the names of its arguments in alphabetical order."""

    tool: str
    arguments: tuple[str, ...]

    def __str__(self) -> str:
        return f"{_name(self.tool)}({', '.join(map(_name, self.arguments))})"


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillCandidate:
    """A sequence of steps that recurs, and the evidence for it."""

    steps: tuple[Step, ...]
    runs: tuple[str, ...]
    """The runs that succeeded with it, in alphabetical order."""
    success_rate: float
    """In 0…1: of all runs that contain it, those that succeeded."""

    @property
    def support(self) -> int:
        """In how many different runs it succeeded."""
        return len(self.runs)

    @property
    def signature(self) -> str:
        """A text that is the same for the same steps and for no others."""
        return " > ".join(map(str, self.steps))

    @property
    def content(self) -> str:
        """The skill as text to embed: the words of its tools' names, then its numbered steps.

        Only names of tools and arguments are in it, nothing of what a run was about.
        """
        aim = ", then ".join(_spoken(step.tool) for step in self.steps)
        numbered = " ".join(f"{number}. {step}" for number, step in enumerate(self.steps, 1))
        return f"To {aim}: {numbered}"


@dataclass(slots=True, eq=False)
class _Pattern:
    """A sequence that recurs often enough; two of them are equal only if they are the same."""

    steps: tuple[Step, ...] = ()
    successes: list[str] = field(default_factory=list)
    failures: int = 0
    is_closed: bool = True


class _Run(NamedTuple):
    name: str
    succeeded: bool
    rows: list[list[Hashable | None]]
    """For each of its traces, what starts at each place; None for what is too rare."""


def skill_candidates(
    traces: Iterable[Trace],
    *,
    min_support: int = MIN_SUPPORT,
    min_length: int = MIN_LENGTH,
    max_length: int = MAX_LENGTH,
) -> list[SkillCandidate]:
    """Find the sequences of steps that recur in at least `min_support` successful runs.

    A sequence is contiguous in what is left of a trace without its failed calls and repetitions:
    calls of one tool with the same argument names in a row count as one step, be they retries or
    one call for each of many things. Only closed sequences are returned: none is part of a longer
    one, of up to `max_length` steps, with the same support.

    Traces of one run count as one run, which failed if any of them did. The best supported come
    first, then the more successful, the longer, and by signature; the order of the traces does
    not matter. Takes time in proportion to the number of calls times `max_length`.

    Raises:
        InvalidInputError: A bound is below 1, `max_length` is below `min_length`, or a run or a
            tool has no name.
        InvalidTypeError: Something in a trace is of another type than it says.
    """
    _check_bounds(min_support, min_length, max_length)
    runs = _runs(traces)
    levels = [_recurring(runs, min_support)]
    while levels[-1] and len(levels) < max_length:
        runs = [_lengthened(run) for run in runs]
        levels.append(_recurring(runs, min_support))
    closed = (one for level in levels[min_length - 1 :] for one in level if one.is_closed)
    return sorted(map(_candidate, closed), key=_best_first)


def _runs(traces: Iterable[Trace]) -> list[_Run]:
    """The runs by name, each with the steps of its traces."""
    by_name: dict[str, list[Trace]] = defaultdict(list)
    for trace in traces:
        _check_trace(trace)
        by_name[trace.run].append(trace)
    known: dict[ToolCall, Step] = {}
    return [
        _Run(
            name,
            succeeded=all(trace.succeeded for trace in own),
            rows=[_steps(trace.calls, known) for trace in own],
        )
        for name, own in sorted(by_name.items())
    ]


def _steps(calls: Iterable[ToolCall], known: dict[ToolCall, Step]) -> list[Hashable | None]:
    """The steps of the calls that succeeded, repetitions collapsed."""
    steps: list[Hashable | None] = []
    for call in calls:
        step = _step(call, known)
        if call.succeeded and (not steps or steps[-1] != step):
            steps.append(step)
    return steps


def _step(call: Any, known: dict[ToolCall, Step]) -> Step:
    if not isinstance(call, ToolCall) or not isinstance(call.arguments, frozenset):
        raise InvalidTypeError(
            "a call is ToolCall(tool, frozenset(parameters), succeeded=…), "
            f"with a frozenset of argument names, not {short(call)}"
        )
    if call not in known:
        _check_call(call)
        known[call] = Step(call.tool, tuple(sorted(call.arguments)))
    return known[call]


def _recurring(runs: list[_Run], min_support: int) -> list[_Pattern]:
    """Put patterns in the place of what recurs often enough, and None in that of the rest."""
    patterns: dict[Hashable, _Pattern] = defaultdict(_Pattern)
    for run in runs:
        for one in {*chain.from_iterable(run.rows)} - {None}:
            if run.succeeded:
                patterns[one].successes.append(run.name)
            else:
                patterns[one].failures += 1
    kept = {one: p for one, p in patterns.items() if len(p.successes) >= min_support}
    for one, pattern in kept.items():
        _name_steps(pattern, one)
    for run in runs:
        run.rows[:] = [[kept.get(one) for one in row] for row in run.rows]
    return list(kept.values())


def _name_steps(pattern: _Pattern, of: object) -> None:
    """Give a pattern its steps, and mark what is part of it and no better supported."""
    if isinstance(of, Step):
        pattern.steps = (of,)
    elif isinstance(of, tuple):
        first, last = of
        pattern.steps = (*first.steps, last.steps[-1])
        for part in of:
            part.is_closed &= len(part.successes) > len(pattern.successes)


def _lengthened(run: _Run) -> _Run:
    """The same run, with what starts at each place one step longer.

    Two patterns that start side by side and recur are all that a longer one can be made of, and
    as they overlap, the pair says which one: no sequence is ever compared step by step.
    """
    return run._replace(
        rows=[
            [None if one is None or other is None else (one, other) for one, other in pairwise(row)]
            for row in run.rows
        ]
    )


def _candidate(pattern: _Pattern) -> SkillCandidate:
    succeeded = len(pattern.successes)
    return SkillCandidate(
        steps=pattern.steps,
        runs=tuple(pattern.successes),
        success_rate=succeeded / (succeeded + pattern.failures),
    )


def _best_first(one: SkillCandidate) -> tuple[int, float, int, str]:
    return -one.support, -one.success_rate, -len(one.steps), one.signature


def _name(name: str) -> str:
    """A name as it is, or quoted where it could be mistaken for more than a name."""
    return name if _PLAIN.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def _spoken(tool: str) -> str:
    """The words of a tool's name: `searchWeb` and `search_web` are "search web"."""
    return " ".join(_TOOL_WORDS.findall(tool)).lower() or tool


def _check_bounds(min_support: int, min_length: int, max_length: int) -> None:
    bounds = {"min_support": min_support, "min_length": min_length, "max_length": max_length}
    for name, bound in bounds.items():
        if isinstance(bound, bool) or not isinstance(bound, int):
            raise InvalidTypeError(f"{name} is a whole number, not {short(bound)}")
        if bound < 1:
            raise InvalidInputError(f"{name} is {bound}: use 1 or more")
    if max_length < min_length:
        raise InvalidInputError(
            f"max_length is {max_length}: use at least min_length, which is {min_length}"
        )


def _check_trace(trace: object) -> None:
    if not isinstance(trace, Trace) or not isinstance(trace.run, str):
        raise InvalidTypeError(
            f"a trace is Trace(run, calls, succeeded=…) with the run's name, not {short(trace)}"
        )
    if not trace.run:
        raise InvalidInputError("a trace has no run: name it, so that a run counts once")
    if not isinstance(trace.succeeded, bool):
        raise InvalidTypeError(
            f"run {short(trace.run, 40)} has no outcome: say True or False, or leave its trace out"
        )


def _check_call(call: ToolCall) -> None:
    if not all(isinstance(name, str) for name in (call.tool, *call.arguments)):
        raise InvalidTypeError(f"names of tools and arguments are strings, not {short(call)}")
    if not call.tool:
        raise InvalidInputError("a call has no tool: name the tool that was called")
    if not isinstance(call.succeeded, bool):
        raise InvalidTypeError(f"a call succeeded or not, True or False: {short(call)}")
