"""Find skills, tool calls that recur in successful runs, and make memories of skills and traces."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError, short
from langmem_tiers.core.memory import TIERS, Moment, Source, Tier, encode_namespace
from langmem_tiers.learning.reflexion import stable_key
from langmem_tiers.postgres.flow import Call, Flow, Row, rows_of
from langmem_tiers.remember.gate import checked_trust, derived_trust
from langmem_tiers.remember.new_memory import NewMemory
from langmem_tiers.store.write import columns

SKILL, TRACE = "skill", "trace"
"""The memory type of a skill, and the tag and field of episodes that hold traces."""
MIN_SUPPORT = 3
"""The least successful runs of a skill: two may be chance. Our own choice."""
MIN_LENGTH = 2
"""The least steps of a skill: one call alone is a tool."""
MAX_LENGTH = 6
"""The most steps of a skill: more are specific to one task. Our own choice."""
MOST_TRACES = 500
"""The most traces of a project that are mined, the newest: our own choice. A skill that no run used
for so long is out of date."""

_PLAIN = re.compile(r"[\w.:/-]+")
_TOOL_WORDS = re.compile(r"[^\W\d_]?[^\WA-Z_]+|[^\W_]+")


class ToolCall(NamedTuple):
    """A call of a tool, with the names of its arguments (no values), and whether it succeeded.

    `frozenset(parameters)` makes the names of a mapping of parameters.
    """

    tool: str
    arguments: frozenset[str]
    succeeded: bool


class Trace(NamedTuple):
    """The calls of a run in order, and whether the run succeeded."""

    run: str
    calls: Sequence[ToolCall]
    succeeded: bool
    trust: float = 1.0
    """Trust of the run in 0…1. A skill has the least trust of its runs."""


class SkillStep(NamedTuple):
    """A call without its values: the tool, and the names of its arguments in alphabetical order."""

    tool: str
    arguments: tuple[str, ...]

    def __str__(self) -> str:
        return f"{_quote_name(self.tool)}({', '.join(map(_quote_name, self.arguments))})"


Steps = tuple[SkillStep, ...]


@dataclass(frozen=True, slots=True)
class SkillCandidate:
    """A sequence of steps that recurs, and the evidence for it."""

    steps: Steps
    runs: tuple[str, ...]
    """Successful runs that contain it, in alphabetical order."""
    success_rate: float
    """Share of the runs that contain it that succeeded, in 0…1."""

    @property
    def support(self) -> int:
        """Return the number of successful runs."""
        return len(self.runs)

    @property
    def signature(self) -> str:
        """Return a text that identifies the steps."""
        return " > ".join(map(str, self.steps))

    @property
    def content(self) -> str:
        """Return the text to embed: the words of the tools' names, then the numbered steps.

        It has only names of tools and arguments, and nothing about the topic of a run.
        """
        names = (
            " ".join(_TOOL_WORDS.findall(step.tool)).lower() or step.tool for step in self.steps
        )
        numbered = " ".join(f"{number}. {step}" for number, step in enumerate(self.steps, 1))
        return f"To {', then '.join(names)}: {numbered}"


def skill_candidates(
    traces: Iterable[Trace], *, min_support: int = MIN_SUPPORT
) -> list[SkillCandidate]:
    """Find the sequences of 2 to 6 steps that recur in at least `min_support` successful runs.

    A sequence is contiguous in a trace without its failed calls and repetitions: consecutive calls
    of one tool with the same argument names count as one step, whether they are retries or calls
    for several things. A part of a longer sequence is returned only if it has enough successful
    runs without any longer sequence that is returned.

    Traces of one run count as one run, which failed if any of them did. The order is by support,
    then by success rate, length and signature; the order of the traces does not matter. The time is
    proportional to the number of calls.

    Raises:
        InvalidInputError: `min_support` is below 1, or a run or a tool has no name.
        InvalidTypeError: Something in a trace is of another type than it says.
    """
    if isinstance(min_support, bool) or not isinstance(min_support, int):
        raise InvalidTypeError(f"min_support is a whole number, not {short(min_support)}")
    if min_support < 1:
        raise InvalidInputError(f"min_support is {short(min_support)}: use 1 or more")
    seen = [(trace, _successful_steps(trace)) for trace in traces]
    failed = {trace.run for trace, _ in seen if not trace.succeeded}
    runs = _find_recurring([(trace.run, steps) for trace, steps in seen], failed, min_support)
    good = {steps: runs[steps] - failed for steps in runs}
    candidates = (
        SkillCandidate(steps, tuple(sorted(good[steps])), len(good[steps]) / len(runs[steps]))
        for steps in _keep_longest(good, min_support)
    )
    return sorted(
        candidates,
        key=lambda candidate: (
            -candidate.support,
            -candidate.success_rate,
            -len(candidate.steps),
            candidate.signature,
        ),
    )


def _keep_longest(good: Mapping[Steps, set[str]], min_support: int) -> list[Steps]:
    """Return the sequences with enough successful runs without a longer returned sequence."""
    covered = defaultdict[Steps, set[str]](set)
    whole: list[Steps] = []
    for steps in sorted(good, key=len, reverse=True):
        if len(steps) < MIN_LENGTH or len(good[steps] - covered[steps]) < min_support:
            continue
        whole.append(steps)
        for length in range(MIN_LENGTH, len(steps)):
            for part in _windows(steps, length):
                covered[part] |= good[steps]
    return whole


def _find_recurring(
    seen: Sequence[tuple[str, Steps]], failed: set[str], min_support: int
) -> dict[Steps, set[str]]:
    """Find the sequences with enough successful runs, with all runs that contain them.

    A sequence can only be one if both its parts that are one step shorter are.
    """
    runs: dict[Steps, set[str]] = {}
    for length in range(1, MAX_LENGTH + 1):
        longer: dict[Steps, set[str]] = defaultdict(set)
        for run, steps in seen:
            for window in _windows(steps, length):
                if length == 1 or (window[1:] in runs and window[:-1] in runs):
                    longer[window].add(run)
        runs |= {sequence: of for sequence, of in longer.items() if len(of - failed) >= min_support}
    return runs


def _windows(steps: Steps, length: int) -> Iterator[Steps]:
    return (steps[start : start + length] for start in range(len(steps) - length + 1))


def _successful_steps(trace: Trace) -> Steps:
    """Return the steps of the successful calls, without repetitions."""
    _check_trace(trace)
    return tuple(
        step for step, _ in groupby(_make_step(call) for call in trace.calls if call.succeeded)
    )


def _make_step(call: ToolCall) -> SkillStep:
    return SkillStep(call.tool, tuple(sorted(call.arguments)))


def _quote_name(name: str) -> str:
    """Return a name, quoted if it could be read as more than a name."""
    return name if _PLAIN.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def _check_trace(trace: object) -> None:
    match trace:
        # a sequence, because the calls are read more than once
        case Trace(str(run), Sequence() as calls, bool()) if run and all(map(_is_call, calls)):
            return
    raise InvalidTypeError(
        "a trace is Trace(run, calls, succeeded=…): the name of the run, True or False, and a "
        "list of calls, each ToolCall(tool, frozenset(parameters), succeeded=…) with the "
        f"tool's name and those of its arguments; not {short(trace)}"
    )


def _is_call(call: object) -> bool:
    match call:
        case ToolCall(str(tool), frozenset(names), bool()):
            return bool(tool) and all(isinstance(name, str) for name in names)
    return False


# ---- traces and skills as memories ----------------------------------------------------------


def trace_memory(trace: Trace, context: MemoryContext) -> NewMemory:
    """Make a new memory of a trace. The same run has the same key."""
    ended = "succeeded" if trace.succeeded else "failed"
    calls = (f"{_make_step(call)}{'' if call.succeeded else ' (failed)'}" for call in trace.calls)
    return NewMemory(
        content=f"Run that {ended}\nCalled: {' > '.join(calls)}",
        key=stable_key(context, TRACE, trace.run),
        tags=(TRACE,),
        tier=Tier.WORKING,
        personal=False,  # it names tools, and quotes nobody
        source=Source.TOOL,
        trust=checked_trust(trace.trust, "the trust of a trace"),
        further={
            TRACE: {
                "run": trace.run,
                "succeeded": trace.succeeded,
                "calls": [
                    [call.tool, sorted(call.arguments), call.succeeded] for call in trace.calls
                ],
            }
        },
    )


def recent_traces_call(context: MemoryContext, moment: Moment) -> Call:
    """Return the call that reads a project's newest traces."""
    place = encode_namespace(context.namespace(Tier.WORKING))
    params = {**place._asdict(), "alive_at": moment.alive_at, "limit": MOST_TRACES}
    return Call("recent_traces", params)


def read_traces(rows: Iterable[Row]) -> list[Trace]:
    """Read the traces from rows. Other values are left out: a value may hold anything."""
    return [trace for stored, trust in rows if (trace := _read_trace(stored, trust)) is not None]


def _read_trace(stored: Any, trust: float) -> Trace | None:
    try:
        calls = [ToolCall(tool, frozenset(names), well) for tool, names, well in stored["calls"]]
        trace = Trace(stored["run"], calls, stored["succeeded"], trust)
        _check_trace(trace)
    except (KeyError, TypeError, ValueError):
        return None
    return trace


def proposed_skills(
    traces: Iterable[Trace], context: MemoryContext, *, min_support: int
) -> dict[str, NewMemory]:
    """Return a new memory for each skill in the traces, by key."""
    seen = list(traces)
    trust: dict[str, float] = {}
    for trace in seen:
        trust[trace.run] = derived_trust(trace.trust, [trust.get(trace.run, 1.0)])
    candidates = skill_candidates(seen, min_support=min_support)
    memories = (
        _skill_memory(candidate, context, min(trust[run] for run in candidate.runs))
        for candidate in candidates
    )
    return {str(memory.key): memory for memory in memories}


def _skill_memory(candidate: SkillCandidate, context: MemoryContext, trust: float) -> NewMemory:
    """Make a new memory of a skill, with the trust of its runs.

    It is `proposed`: the outcomes of the runs that recall it decide whether it stays. The same
    steps have the same key.
    """
    return NewMemory(
        content=candidate.content,
        memory_type=SKILL,
        key=stable_key(context, SKILL, candidate.signature),
        tier=Tier.WORKING,
        source=Source.TOOL,
        trust=trust,
        further={
            "steps": list(map(str, candidate.steps)),
            "support": candidate.support,
            "success_rate": candidate.success_rate,
            "runs": list(candidate.runs),
            "proposed": True,
        },
    )


def has_new_evidence(skill: NewMemory, stored: Mapping[str, Any] | None) -> bool:
    """Tell whether a skill or its evidence is new; False if somebody took over the stored one."""
    if stored is None:
        return True
    evidence = ("support", "success_rate", "runs")
    differs = any(stored.get(name) != skill.further[name] for name in evidence)
    return differs and stored.get("proposed") is True


def read_stored_values(
    keys: Sequence[str], context: MemoryContext, moment: Moment, tiers: Sequence[Tier] = TIERS
) -> Flow[Mapping[str, Mapping[str, Any]]]:
    """Read the values of the context's own memories with these keys, unless expired, by key."""
    if not keys:
        return {}
    own = [encode_namespace(place) for tier in tiers for place in context.places(tier)]
    places = [(*place, key) for place in own for key in keys]
    rows = yield from rows_of("get_many", **columns(("tenants", "namespaces", "keys"), places))
    return {
        key: value
        for _, _, key, value, _, _, _, expires_at, _, _ in rows
        if expires_at is None or expires_at > moment.alive_at
    }
