"""Traces of runs as memories, and the skills that recur in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langmem_tiers.core.context import MemoryContext
from langmem_tiers.core.memory import TIERS, Moment, Source, Tier
from langmem_tiers.core.namespaces import encode
from langmem_tiers.learn.reflexion import stable_key
from langmem_tiers.learn.skills import SkillCandidate, Step, ToolCall, Trace, skill_candidates
from langmem_tiers.postgres.flow import Call, Flow, Query, Row
from langmem_tiers.remember.new import NewMemory
from langmem_tiers.remember.trust import checked_trust, derived_trust

SKILL, TRACE = "skill", "trace"
"""The memory type of a skill, and the tag and field of the episodes that traces are."""
MOST_TRACES = 500
"""How many of a project's traces are mined, the newest: our own choice. A skill that nobody used
in as many runs has nothing to say of today's."""


def trace_memory(trace: Trace, context: MemoryContext) -> NewMemory:
    """A trace as something to be stored; the same run has the same key."""
    ended = "succeeded" if trace.succeeded else "failed"
    return NewMemory(
        content=f"Run that {ended}\nCalled: {' > '.join(map(_told, trace.calls))}",
        key=stable_key(context, TRACE, trace.run),
        tags=(TRACE,),
        tier=Tier.WORKING,
        source=Source.TOOL,
        trust=checked_trust(trace.trust, "the trust of a trace"),
        further={
            TRACE: {
                "run": trace.run,
                "succeeded": trace.succeeded,
                "calls": [[one.tool, sorted(one.arguments), one.succeeded] for one in trace.calls],
            }
        },
    )


def proposals(
    context: MemoryContext, moment: Moment, *, min_support: int
) -> Flow[dict[str, NewMemory]]:
    """The skills in a project's newest traces, each as something to be stored, by key."""
    (rows,) = yield Query((recent(context, moment),), commit=True)
    return proposed(read_traces(rows), context, min_support=min_support)


def recent(context: MemoryContext, moment: Moment) -> Call:
    """The call that reads a project's newest traces."""
    place = encode(context.namespace(Tier.WORKING))
    params = {**place._asdict(), "alive_at": moment.alive_at, "limit": MOST_TRACES}
    return Call("recent_traces", params)


def read_traces(rows: Iterable[Row]) -> list[Trace]:
    """The traces that the call answered."""
    found = ((read_trace(stored), trust) for stored, trust in rows)
    return [trace._replace(trust=trust) for trace, trust in found if trace is not None]


def proposed(
    traces: Iterable[Trace], context: MemoryContext, *, min_support: int
) -> dict[str, NewMemory]:
    """The skills in traces, each as something to be stored, by key."""
    seen = list(traces)
    found = skill_candidates(seen, min_support=min_support)
    trust: dict[str, float] = {}
    for one in seen:
        trust[one.run] = derived_trust(one.trust, [trust.get(one.run, 1.0)])
    skills = [(skill_key(one, context), one) for one in found]
    return {key: skill_memory(one, key, min(trust[run] for run in one.runs)) for key, one in skills}


def skill_key(one: SkillCandidate, context: MemoryContext) -> str:
    """The key of a skill: the same for the same steps."""
    return stable_key(context, SKILL, one.signature)


def skill_memory(one: SkillCandidate, key: str, trust: float = 1.0) -> NewMemory:
    """A skill as something to be stored, trusted no further than the runs that it was seen in.

    It is `proposed`: what comes of the runs that recall it says whether it is one.
    """
    return NewMemory(
        content=one.content,
        memory_type=SKILL,
        key=key,
        tier=Tier.WORKING,
        source=Source.TOOL,
        trust=trust,
        further={
            "steps": list(map(str, one.steps)),
            "support": one.support,
            "success_rate": one.success_rate,
            "runs": list(one.runs),
            "proposed": True,
        },
    )


def is_news(skill: NewMemory, stored: Mapping[str, Any] | None) -> bool:
    """Whether a skill is new, or its evidence is; not if somebody made the stored one their own."""
    if stored is None:
        return True
    told = ("support", "success_rate", "runs")
    differs = any(stored.get(name) != skill.further[name] for name in told)
    return differs and stored.get("proposed") is True


def read_trace(stored: object) -> Trace | None:
    """A trace as it was stored; None for what is none, as a value may hold anything."""
    match stored:
        case {"run": str(run), "succeeded": bool(succeeded), "calls": list(listed)} if run:
            calls = [_call(one) for one in listed]
            whole = [one for one in calls if one is not None]
            return Trace(run, whole, succeeded) if len(whole) == len(calls) else None
    return None


def _call(stored: object) -> ToolCall | None:
    match stored:
        case [str(tool), list(arguments), bool(succeeded)] if tool and _are_names(arguments):
            return ToolCall(tool, frozenset(arguments), succeeded)
    return None


def _are_names(given: Iterable[object]) -> bool:
    return all(isinstance(one, str) for one in given)


def _told(call: ToolCall) -> str:
    step = Step(call.tool, tuple(sorted(call.arguments)))
    return str(step) if call.succeeded else f"{step} (failed)"


def stored_values(
    keys: Sequence[str],
    context: MemoryContext,
    moment: Moment,
    tiers: Sequence[Tier] = TIERS,
) -> Flow[Mapping[str, Mapping[str, Any]]]:
    """The values of the context's own memories with these keys, if they live, by key."""
    if not keys:
        return {}
    places = [(encode(context.namespace(tier)), key) for tier in tiers for key in keys]
    params = {
        "tenants": [place.tenant for place, _ in places],
        "namespaces": [place.namespace for place, _ in places],
        "keys": [key for _, key in places],
    }
    (rows,) = yield Query((Call("get_many", params),), commit=True)
    return {
        key: value
        for _, _, key, value, _, _, _, expires_at, _, _ in rows
        if expires_at is None or expires_at > moment.alive_at
    }
