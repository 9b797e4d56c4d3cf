"""Keep a turn's calls and memories, as the gate lets them pass, until its commit writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from langmem_tiers.agent_state.models import (
    GOAL,
    ProgressDelta,
    StateOwner,
    read_snapshot,
    state_to_json,
)
from langmem_tiers.coordinator.remember import new_memories
from langmem_tiers.core import checks
from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError, short
from langmem_tiers.core.memory import PERSON_SOURCES, Destination, Source, StoreResult
from langmem_tiers.postgres.flow import Flow, Query, unit
from langmem_tiers.remember.gate import Decision, Gate, Verdict, judge_trust, route
from langmem_tiers.remember.new_memory import NewMemory, freeze
from langmem_tiers.remember.pipeline import verdict_result
from langmem_tiers.turn.record import Invocation, TurnRecord, read_tool_call
from langmem_tiers.turn.trace import (
    redact,
    redact_verdict,
    redacted_beginning,
    to_json_fields,
    turn_ended_call,
)
from langmem_tiers.turn.turn import (
    Route,
    Turn,
    check_budget,
    current_record,
    locked_record,
    note_event,
    spend_event,
)

_ScreenedMemory = tuple[NewMemory, Verdict]
_NAMED = 5
"""Most goals that an error names: our own choice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memorized(StoreResult):
    """Result of memorizing something in a turn; nothing is stored before the commit."""

    stored: bool = False
    pending: bool = False
    """True if the commit will write it."""

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the key that it will have in each memory type."""
        return tuple(
            destination.key for destination in self.destinations if destination.key is not None
        )

    def __str__(self) -> str:
        """Return what becomes of it, where, and why."""
        if not self.pending:
            return f"not kept: {self.reason}"
        where = ", ".join(destination.memory_type for destination in self.destinations)
        return f"pending in {where} as {', '.join(self.keys)}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracked:
    """Result of tracking a tool call in a turn: pending until the turn is committed."""

    tracked: bool
    key: str | None
    """Key that its episodic memory will have; None if it gets none."""
    reason: str
    quarantined: bool = False
    """True if that memory will not be recalled until somebody releases it."""


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
        relevance: To the task, from 0 to 1; if not given, the commit says how near the call's
            memory is to the prompt: by vectors, or without a model by the words they share.
        call_id: A name that a retry has too: the same call is tracked once.

    Returns:
        Whether it is tracked, and the key of its memory. A call whose answer instructs its
        reader is tracked all the same, and its memory is quarantined.

    Raises:
        BudgetExceededError: if the turn has spent what it may; it was not tracked.
        InvalidInputError: for a tool without a name.
    """
    current_record(turn)
    invocation, whole = read_tool_call(
        tool_name,
        parameters,
        result,
        error,
        duration=duration,
        relevance=relevance,
        call_id=call_id,
    )
    gate = turn.memory.gate
    trust = judge_trust(NewMemory(content=whole, source=Source.TOOL), gate.policy)
    with locked_record(turn) as record:  # its output counts, whether the call is kept or not
        record.heard = min(record.heard, trust)
        why_not = None
        if not turn.settings.enable_tool_tracking:
            why_not = "tool tracking is switched off"
        elif invocation.tool in turn.settings.untracked_tools:
            why_not = f"{invocation.tool} is among the settings' untracked_tools"
        if why_not is not None:
            return Tracked(tracked=False, key=None, reason=why_not)
        for call in record.calls:
            if call_id is not None and call.call_id == invocation.call_id:
                return Tracked(tracked=True, key=call.key, reason="tracked before")
        check_budget(turn, "track a tool call")
        return _keep_call(turn, record, invocation, whole)


def _keep_call(turn: Turn, record: TurnRecord, invocation: Invocation, whole: str) -> Tracked:
    """Keep a checked tool call; `whole` is its text before it was cut.

    The call happened, so its text may be trivial, or known, and nobody reviews it. Private data is
    looked for in the whole text.
    """
    call = replace(invocation, key=record.key("call", len(record.calls)))
    memory, gate = call.to_memory(turn.now, record.task), turn.memory.gate
    findings = [
        each
        for text in (memory.content, whole)
        for detect in gate.detectors
        for each in detect(text)
    ]
    lenient = replace(gate.policy, refuse_trivial=False, refuse_echoes=False)
    gate = replace(
        gate, policy=lenient, reviewers=None, detectors=(lambda _: findings,), panel=None
    )
    verdict = redact_verdict(gate.judge(memory), memory, gate)
    stored = _memory_as_stored(memory, verdict, gate)
    kept = [] if stored is None else [stored]
    writes = [turn.memory.pipeline.to_write(each, turn.context) for each in kept]
    record.calls.append(call)
    record.wanted.append(record.wish(turn.context, call.key, memory.content))
    record.pending += kept
    tool, failed = redact(call.tool, turn.memory.gate), call.error is not None
    why = f"{tool} {'failed' if failed else 'answered'}"
    about = {"tool": tool, "seconds": call.seconds, "relevance": call.relevance, "failed": failed}
    held = verdict.decision is not Decision.ACCEPT
    if held:
        why = f"{why}; {verdict.reason}"
        about |= redacted_beginning(memory, gate)
    if not kept:
        about["refused"] = True
    spend_event(turn, "tracked", why, *writes, **about)
    key = call.key if kept else None
    return Tracked(tracked=True, key=key, reason=why, quarantined=bool(kept and held))


def memorize(
    turn: Turn, item: str | Mapping[str, Any], metadata: Mapping[str, Any] | None = None
) -> Flow[Memorized]:
    """Screen something by the gate; `commit` writes what passes.

    A quarantined memory is committed as quarantined. Memories that the turn was shown are no new
    evidence. After a tool call of the turn the memory is the agent's, and trusted no further than
    the tools' output, unless it names a person as its source: `source="user"` or `"system"`.

    Args:
        item: A text, or the arguments of `MemoryCoordinator.store` as a mapping. One that names
            its `memory_type`, or whose metadata does, goes there. Any other that has a `speaker`
            is `episodic`, as what is said; anything else is `semantic`.
        metadata: Anything else that is JSON, kept with it.

    Returns:
        Where it goes and why, under which keys, and what makes room for it.

    Raises:
        BudgetExceededError: if the turn has spent what it may; it is not kept.
        InvalidInputError: if it cannot be stored, or its source is missing or itself pending; the
            rest of what is pending stays so.
    """
    current_record(turn)
    memory = _to_memory(turn, item, metadata)
    turn.memory.pipeline.to_write(memory, turn.context)
    return _memorize_checked(turn, memory)


def _memorize_checked(turn: Turn, memory: NewMemory) -> Flow[Memorized]:
    """Screen a checked memory, and keep it as pending."""
    (why,) = yield from unit(turn.memory.pipeline.missing_origins([memory], turn.context))
    if why is not None and not (yield from unit(_was_committed(turn))):
        raise InvalidInputError(f"{why}; it is not kept, and what is pending stays so")
    # a retry makes the same key; a memory that the gate does not see is not wanted
    with locked_record(turn) as record:
        check_budget(turn, "memorize")
        named_memory = replace(memory, key=memory.key or record.key("item", record.spent))
        record.spent += 1
        wish = record.wish(
            turn.context,
            named_memory.key,
            named_memory.memory_type,
            named_memory.content,
            named_memory.metadata,
        )
        record.wanted.append(wish)
    try:
        route = _choose_route(turn, memory)
        screened, *again = yield from _screen(turn, named_memory, route)
        with locked_record(turn) as record:
            return _keep_screened(turn, record, screened, again, route)
    except BaseException:
        record.wanted.remove(wish)
        raise


def _to_memory(
    turn: Turn, item: str | Mapping[str, Any], metadata: Mapping[str, Any] | None
) -> NewMemory:
    """Make a memory of an item; it has no type if none was named.

    A memory that no person says is trusted no further than the tools' output in this turn.
    """
    (memory,) = new_memories([item])
    item_fields = item if isinstance(item, Mapping) else {}
    if item_fields.get("memory_type") is None:
        memory = replace(memory, memory_type=None)
    memory = freeze(memory, turn.memory.tiered_store.options.bounds)
    heard = current_record(turn).heard
    if heard < 1.0 and item_fields.get("source") not in PERSON_SOURCES:
        source = memory.source if "source" in item_fields else Source.AGENT
        memory = replace(memory, source=source, trust=min(memory.trust, heard))
    if metadata is None:
        return memory
    for value in (metadata, memory.metadata):
        if not isinstance(value, Mapping):
            raise InvalidTypeError(f"metadata is a mapping, not {type(value).__name__}")
    return replace(memory, metadata={**memory.metadata, **metadata})


def _choose_route(turn: Turn, memory: NewMemory) -> Route:
    """Route a memory to its type; without one, ask the turn's router, else use the defaults.

    A router may answer None, for no opinion.

    Raises:
        InvalidInputError: for a type in its metadata that is not known.
    """
    answer: object = turn.router(memory) if turn.router and memory.memory_type is None else None
    if isinstance(answer, Route):
        checks.checked_strings(answer.evicted, "evicted of a route")
        return answer
    if answer is not None:
        raise InvalidTypeError(
            f"a router answers Route(destinations=…) or None, not {short(answer)}"
        )
    if memory.memory_type is not None:
        return Route(destinations=(route(memory.memory_type),))
    named = checks.checked_label(memory.metadata.get("memory_type"), "memory_type of the metadata")
    if named is not None:
        to = Destination(turn.memory.types.get(named).name, "its metadata names the type")
    elif memory.speaker is not None:
        to = Destination("episodic", "somebody said it")
    else:
        to = Destination("semantic", "it was memorized")
    return Route(destinations=(to,))


def _screen(turn: Turn, memory: NewMemory, to: Route) -> Flow[list[_ScreenedMemory]]:
    """Screen a memory, and the repetitions of each memory that the turn replaces or evicts.

    It is screened as any write is, for the strictest of its types, beside what the turn was shown.
    """
    record, gate = current_record(turn), turn.memory.gate
    new = {each.key: each.content for each in record.pending if each.key is not None}
    leaving = {**dict.fromkeys((*record.evicted, *to.evicted)), **new}
    types = [each.memory_type for each in to.destinations]
    if types:
        memory = replace(memory, memory_type=max(types, key=gate.policy.trust.below))
    freed = {str(memory.key)} | leaving.keys()
    again = [NewMemory(**each["memory"]) for each in record.echoes if each["key"] in freed]
    memories = [
        replace(each, recalled=(*each.recalled, *record.shown)) for each in (memory, *again)
    ]
    pipeline = turn.memory.pipeline
    memories, writes = yield from pipeline.validate(memories, turn.context)
    verdicts = yield from unit(pipeline.screen(memories, writes, turn.context, leaving))
    verdict, *others = (
        redact_verdict(*each, gate) for each in zip(verdicts, memories, strict=True)
    )
    if verdict.stored and not types:
        nowhere = "routed: its router keeps it nowhere"
        verdict = replace(verdict, decision=Decision.REJECT, reason=nowhere, destination=None)
    return list(zip(memories, (verdict, *others), strict=True))


def _memory_as_stored(memory: NewMemory, verdict: Verdict, gate: Gate) -> NewMemory | None:
    """Return a memory as it is stored, or None if it is refused.

    Its trust and the reason of its quarantine are set, so that its write has them too.
    """
    if verdict.destination is None:
        return None
    return replace(
        memory,
        memory_type=verdict.destination.memory_type,
        recalled=(),
        echoes=[(place.namespace, key) for place, key in verdict.sources],
        trust=verdict.trust,
        held=verdict.reason if verdict.decision is Decision.QUARANTINE else None,
        threshold=gate.policy.trust.below(verdict.destination.memory_type),
    )


def _keep_screened(
    turn: Turn,
    record: TurnRecord,
    judged: _ScreenedMemory,
    again: Sequence[_ScreenedMemory],
    to: Route,
) -> Memorized:
    """Add a memory that passed to what is pending, once for each type, and note the verdict.

    Repetitions of a memory that the turn has replaced since, or evicts, are added too.
    """
    gate, context, checked = turn.memory.gate, turn.context, turn.memory.pipeline.to_write
    memory, verdict = judged
    passing = [
        _memory_as_stored(memory, replace(verdict, destination=each), gate)
        for each in (to.destinations if verdict.stored else ())
    ]
    kept = [
        replace(each, key=record.key(each.key, number) if number else each.key)
        for number, each in enumerate(passing)
        if each is not None
    ]
    writes = [checked(each, context) for each in kept]
    places = [
        place._replace(key=each.key, tier=each.tier)
        for place, each in zip(to.destinations, writes, strict=False)
    ]
    first = {"key": writes[0].key, "tier": writes[0].tier} if writes else {}
    evicted = to.evicted if kept else ()
    result = verdict_result(verdict, evicted=evicted, destinations=tuple(places), **first)
    shared = {each.name: getattr(result, each.name) for each in fields(StoreResult)}
    memorized = Memorized(**{**shared, "stored": False}, pending=result.stored)
    record.pending += kept
    record.evicted += memorized.evicted
    repeated = to_json_fields(replace(memory, recalled=())) if verdict.repeated else {}
    record.echoes += [
        {"key": key, "namespace": place.namespace, "memory": repeated}
        for place, key in verdict.repeated
    ]
    about = _verdict_detail(memorized)
    if not kept or memorized.quarantined:
        about |= redacted_beginning(memory, gate)
    why = "; ".join(dict.fromkeys(each.reason for each in to.destinations))
    reason = why if memorized.reason == "stored" else memorized.reason
    note_event(turn, "memorized" if kept else "refused", reason, *writes[:1], **about)
    for untold, repeat_verdict in again if kept else ():
        if (more := _memory_as_stored(untold, repeat_verdict, gate)) is not None:
            record.echoes = [each for each in record.echoes if each["memory"]["key"] != more.key]
            record.pending.append(more)
            why = "what it repeats is replaced or evicted by the turn"
            note_event(turn, "memorized", why, checked(more, context), keys=[more.key])
    return memorized


def _verdict_detail(memorized: Memorized) -> dict[str, Any]:
    """Return the gate's verdict, as JSON for the trace."""
    detail = {
        "destinations": [each.memory_type for each in memorized.destinations],
        "keys": list(memorized.keys),
        "evicted": list(memorized.evicted),
        "trust": memorized.trust,
        "quarantined": memorized.quarantined,
        "repeats": memorized.repeats,
        "score": memorized.score if memorized.reviewed else None,
        "reviewers": {
            name: {"score": score, "reason": memorized.reasons.get(name)}
            for name, score in memorized.scores.items()
        },
        "failures": dict(memorized.failures),
        "private": list(memorized.private),
    }
    return {name: value for name, value in detail.items() if value or isinstance(value, float)}


def note_progress(turn: Turn, goal_id: str, delta: float, reason: str) -> Flow[None]:
    """Note how much nearer the turn brought a goal; `commit` adds it to the goal's progress.

    Args:
        goal_id: The id of a goal of `memory.state`.
        delta: How much nearer, from -1 to 1.
        reason: Why; one with private data that the policy does not accept is not kept.

    Raises:
        BudgetExceededError: if the turn has spent what it may.
        InvalidInputError: for a wrong delta, or a goal that is not set; the rest of what is pending
            stays so. The commit refuses a step whose goal is closed by then, by itself.
    """
    current_record(turn)
    goal = checks.checked_name(goal_id, "goal_id")
    step = ProgressDelta(delta=delta, reason=reason, at=turn.now)
    step = replace(step, reason=redact(step.reason, turn.memory.gate))
    with locked_record(turn):
        check_budget(turn, "note progress")
    return _note_step(turn, goal, step)


def _note_step(turn: Turn, goal: str, step: ProgressDelta) -> Flow[None]:
    """Note a checked step, if its goal is there."""
    snapshot = yield from unit(
        read_snapshot(StateOwner.from_context(turn.context), turn.now, kinds=(GOAL,))
    )
    goals = [goal.goal_id for goal in snapshot.goals]
    if goal not in goals and not (yield from unit(_was_committed(turn))):
        named = ", ".join(short(name) for name in goals[:_NAMED])
        more = f", or name one of {named}{', …' if len(goals) > _NAMED else ''}" if goals else ""
        raise InvalidInputError(f"there is no goal {short(goal)}: set it first{more}")
    with locked_record(turn) as record:
        check_budget(turn, "note progress")
        name = record.key("goal", len(record.goals))
        record.goals.append({"goal": goal, **state_to_json(replace(step, delta_id=name))})
        record.wanted.append(record.wish(turn.context, name, goal, step.delta, step.reason))
        spend_event(turn, "progressed", step.reason, goal=goal, delta=step.delta, delta_id=name)


def _was_committed(turn: Turn) -> Flow[bool]:
    """Tell whether the turn was committed before; the commit then says what it stored."""
    (rows,) = yield Query((turn_ended_call(turn.context, current_record(turn).turn),), commit=True)
    return bool(rows)
