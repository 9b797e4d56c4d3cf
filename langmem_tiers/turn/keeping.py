"""The verbs by which a turn keeps what it does until it is committed; none writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from langmem_tiers.postgres.flow import Flow, unit
from langmem_tiers.remember.admit import Judged, result_of
from langmem_tiers.remember.new import NewMemory
from langmem_tiers.state.state import ProgressDelta, checked_id, to_value
from langmem_tiers.turn.calls import Invocation, both_ends, called
from langmem_tiers.turn.items import (
    Memorized,
    Route,
    Tracked,
    as_memory,
    beginning,
    destinations,
    discreet,
    judgement,
    of_a_tool,
    passed_on,
    private,
    shown,
)
from langmem_tiers.turn.trace import Kind
from langmem_tiers.turn.turn import Turn, changing, check, going_on, note, spend, write_of

STORED = "stored"
"""What the gate says of what it has nothing against."""


def track_tool_invocation(
    turn: Turn,
    tool_name: str,
    parameters: Mapping[str, Any] | None = None,
    result: Any = None,
    error: BaseException | str | None = None,
    *,
    duration: float | None = None,
    relevance: float | None = None,
    call_id: str | None = None,
) -> Tracked:
    """Keep a tool call and what came of it, as an episodic memory that `commit` writes.

    Args:
        tool_name: The tool.
        parameters: What it was given; what is not JSON is kept as text.
        result: What it answered; what is neither text nor JSON is kept as text.
        error: How it failed, if it did: then the memory has the failure's signature.
        duration: Seconds that it took.
        relevance: To the task, from 0 to 1; if not given, the share of the prompt's words that
            the call and its answer have.
        call_id: A name that a retry has too: the same call is tracked once.

    Returns:
        Whether it is tracked, and the key of its memory. A call whose answer instructs its
        reader is tracked all the same, and its memory is quarantined.

    Raises:
        BudgetExceededError: if the turn has spent what it may; it was not tracked.
        InvalidInputError: for a tool without a name.
    """
    going_on(turn)
    given, whole = called(
        tool_name,
        parameters,
        result,
        error,
        duration=duration,
        relevance=relevance,
        call_id=call_id,
    )
    if not turn.settings.enable_tool_tracking:
        return Tracked(tracked=False, key=None, reason="tool tracking is switched off")
    if given.tool in turn.settings.untracked_tools:
        why = f"{given.tool} is among the settings' untracked_tools"
        return Tracked(tracked=False, key=None, reason=why)
    return _track(turn, given, whole)


def _track(turn: Turn, given: Invocation, whole: str) -> Tracked:
    """Keep a tool call that was checked, once."""
    gate, named = turn.memory.gate, given.call_id
    with changing(turn) as record:
        known = [one for one in record.calls if named is not None and one.call_id == named]
        if known:
            return Tracked(tracked=True, key=known[0].key, reason="tracked before")
        check(turn, "track a tool call")
        one = given.within(record.key("call", len(record.calls)), record.prompt)
        memory = one.to_memory(turn.now, record.task)
        kept, held, begins = of_a_tool(gate, memory, whole)
        writes = [write_of(turn, each) for each in kept]
        record.calls.append(one)
        record.wanted.append(record.wish(turn.context, one.key, memory.content))
        record.pending += kept
        tool = shown(one.tool, gate)
        came = "failed" if one.error is not None else "answered"
        why = f"{tool} {came}" + (f"; {held}" if held else "")
        about = {"tool": tool, "seconds": one.seconds, "relevance": one.relevance}
        about |= begins if kept else {**begins, "refused": True}
        spend(turn, "tracked", why, *writes, **about, failed=one.error is not None)
    key, quarantined = one.key if kept else None, bool(kept and held)
    return Tracked(tracked=True, key=key, reason=why, quarantined=quarantined)


def memorize(
    turn: Turn,
    item: str | Mapping[str, Any],
    metadata: Mapping[str, Any] | None = None,
) -> Flow[Memorized]:
    """Put something to the gate; what it lets pass is written by `commit`.

    What it quarantines is committed as quarantined. What the turn was shown is no new evidence.

    Args:
        item: A text, or the arguments of `MemoryCoordinator.store` as a mapping. One that names
            its `memory_type` goes there, any other to each type that it is of by what it says.
        metadata: Anything else that is JSON, kept with it.

    Returns:
        Where it goes and why, under which keys, and what makes room for it.

    Raises:
        BudgetExceededError: if the turn has spent what it may; it is not kept.
        InvalidInputError: for what cannot be stored.
    """
    return memorized(turn, item, metadata)


def memorized(
    turn: Turn,
    item: str | Mapping[str, Any],
    metadata: Mapping[str, Any] | None = None,
    *,
    longest: int | None = None,
) -> Flow[Memorized]:
    """What `memorize` does, as a flow; of a text longer than `longest` it keeps both ends.

    One with private data that the policy does not accept is not cut: the gate judges all of it.
    """
    going_on(turn)
    given = as_memory(item, metadata)
    write_of(turn, given)
    whole, cut = len(given.content), ""
    if longest is not None and whole > longest and not private(given.content, turn.memory.gate):
        given = replace(given, content=both_ends(given.content, longest))
        cut = f"shortened: of {whole:,} characters {longest:,} are kept"
    return _put(turn, given, cut)


def _put(turn: Turn, given: NewMemory, cut: str) -> Flow[Memorized]:
    """Put something that was checked to the gate; what the gate does not see is not wanted."""
    gate = turn.memory.gate
    with changing(turn) as record:
        check(turn, "memorize")
        one = replace(given, key=given.key or record.key("item", record.spent))
        record.spent += 1
        wish = record.wish(turn.context, one.key, one.memory_type, one.content, one.metadata)
        record.wanted.append(wish)
    try:
        route = turn.router(given) if turn.router and given.memory_type is None else None
        own, leaving = _routed(turn, one, route), _leaving(turn, route)
        again = [
            replace(each, recalled=tuple(record.shown))
            for each in record.untold({str(each.key) for each in own} | leaving.keys())
        ]
        judged = yield from unit(turn.memory.flows.judged([*own, *again], turn.context, leaving))
        verdicts = [discreet(each, gate) for each in judged]
        found = _memorized(turn, one, verdicts[: len(own)], route, cut)
        if found.pending:
            _taken_up(turn, verdicts[len(own) :])
    except BaseException:
        record.wanted.remove(wish)
        raise
    return found


def _routed(turn: Turn, one: NewMemory, route: Route | None) -> list[NewMemory]:
    """What is put to the gate: an item once, or once for each type that a router names."""
    shown = replace(one, recalled=(*one.recalled, *going_on(turn).shown))
    if route is None:
        return [shown]
    first, keyed = one.key, going_on(turn).key
    return [
        replace(shown, memory_type=to.memory_type, key=keyed(first, place) if place else first)
        for place, to in enumerate(route.destinations)
    ]


def _leaving(turn: Turn, route: Route | None) -> dict[str, str | None]:
    """The keys that the turn gives another text, with it, or evicts."""
    record = going_on(turn)
    evicted = (*record.evicted, *(route.evicted if route is not None else ()))
    new = {one.key: one.content for one in record.pending if one.key is not None}
    return {**dict.fromkeys(evicted), **new}


def _taken_up(turn: Turn, verdicts: Sequence[Judged]) -> None:
    """Keep what repeated a memory that the turn has replaced since, or evicts."""
    kept = [each for one in verdicts for each in passed_on(one, turn.memory.gate)]
    with changing(turn) as record:
        taken = {str(each.key) for each in kept}
        record.echoes = [one for one in record.echoes if one["memory"]["key"] not in taken]
        record.pending += kept
        for each in kept:
            why = "what it repeats is replaced or evicted by the turn"
            note(turn, "memorized", why, write_of(turn, each), keys=[each.key])


def _memorized(
    turn: Turn, one: NewMemory, verdicts: Sequence[Judged], route: Route | None, cut: str
) -> Memorized:
    """Keep what the gate lets pass, and note what it says."""
    gate = turn.memory.gate
    kept = [each for judged in verdicts for each in passed_on(judged, gate)]
    writes = [write_of(turn, each) for each in kept]
    evicted = route.evicted if route is not None and kept else ()
    first = next((each for each in verdicts if each.verdict.stored), next(iter(verdicts), None))
    found, reasons = Memorized(reason="routed: its router keeps it nowhere"), dict[str, str]()
    if first is not None:
        said = route.destinations if route is not None else first.verdict.destinations
        reasons = {to.memory_type: to.reason for to in said}
        result = result_of(
            first.verdict,
            key=kept[0].key if kept else None,
            tier=writes[0].tier if kept else None,
            evicted=evicted,
            destinations=destinations(kept, writes, reasons),
        )
        found = Memorized.of(result)
    begins = beginning(one, gate) if not kept or found.quarantined else {}
    why = found.reason if found.reason != STORED else "; ".join(reasons.values())
    with changing(turn) as record:
        record.pending += kept
        record.evicted += evicted
        for each in verdicts:
            record.repeated(each.memory, each.repeats)
        kind: Kind = "memorized" if kept else "refused"
        told = "; ".join(part for part in (why, cut) if part)
        note(turn, kind, told, *writes[:1], **judgement(found), **begins)
    return found


def note_progress(turn: Turn, goal_id: str, delta: float, reason: str) -> None:
    """Note how much nearer the turn brought a goal; `commit` adds it to the goal's progress.

    Args:
        goal_id: Of a goal of `memory.state`.
        delta: How much nearer, from -1 to 1.
        reason: Why; one with private data that the policy does not accept is not kept.

    Raises:
        BudgetExceededError: if the turn has spent what it may.
        InvalidInputError: for what is no delta. A goal that is not set is refused by the
            commit, which then writes nothing.
    """
    going_on(turn)
    goal = checked_id(goal_id, "goal_id")
    with changing(turn) as record:
        name = record.key("goal", len(record.goals))
        step = ProgressDelta(delta=delta, reason=reason, at=turn.now, delta_id=name)
        step = replace(step, reason=shown(step.reason, turn.memory.gate))
        check(turn, "note progress")
        record.goals.append({"goal": goal, **to_value(step)})
        wish = record.wish(turn.context, name, goal, step.delta, step.reason)
        record.wanted.append(wish)
        spend(turn, "progressed", step.reason, goal=goal, delta=step.delta, delta_id=name)
