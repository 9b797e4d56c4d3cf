"""How a turn keeps what it does, as the gate lets it pass, until it is committed; none writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from langmem_tiers.core.checks import checked_strings
from langmem_tiers.core.errors import InvalidInputError, InvalidTypeError, short
from langmem_tiers.core.memory import PERSONS, Destination, Source, StoreResult
from langmem_tiers.memory.asking import new_memories
from langmem_tiers.postgres.flow import Flow, unit
from langmem_tiers.remember.gate import Decision, Gate, route, trust_in
from langmem_tiers.remember.new import NewMemory, label, origin_keys, read_once, recalled_texts
from langmem_tiers.remember.pipeline import Judged, passed, result_of
from langmem_tiers.turn.progress import was_committed
from langmem_tiers.turn.record import Invocation, called
from langmem_tiers.turn.trace import beginning, discreet, shown
from langmem_tiers.turn.turn import Route, Turn, changing, check, going_on, note, spend


@dataclass(frozen=True, slots=True, kw_only=True)
class Memorized(StoreResult):
    """What became of something that a turn memorizes; nothing is stored before the commit."""

    stored: bool = False
    pending: bool = False
    """Whether the commit will write it."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The key that it will have in each memory type."""
        return tuple(one.key for one in self.destinations if one.key is not None)

    def __str__(self) -> str:
        """What becomes of it, where, and why."""
        if not self.pending:
            return f"not kept: {self.reason}"
        where = ", ".join(one.memory_type for one in self.destinations)
        return f"pending in {where} as {', '.join(self.keys)}: {self.reason}"

    @classmethod
    def of(cls, result: StoreResult) -> Memorized:
        """What the gate answered; pending if it let it pass."""
        told = {one.name: getattr(result, one.name) for one in fields(StoreResult)}
        return cls(**{**told, "stored": False}, pending=result.stored)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracked:
    """What became of a tool call that a turn tracks: pending until the turn is committed."""

    tracked: bool
    key: str | None
    """The key that its episodic memory will have; None if it gets none."""
    reason: str
    quarantined: bool = False
    """Whether that memory will not be recalled until somebody releases it."""


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
    _hear(turn, whole)
    if not turn.settings.enable_tool_tracking:
        return Tracked(tracked=False, key=None, reason="tool tracking is switched off")
    if given.tool in turn.settings.untracked_tools:
        why = f"{given.tool} is among the settings' untracked_tools"
        return Tracked(tracked=False, key=None, reason=why)
    return _track(turn, given, whole)


def _hear(turn: Turn, whole: str) -> None:
    """Keep in mind how far is trusted what a tool brought, whether its call is kept or not."""
    gate = turn.memory.gate
    told = gate.candidate(NewMemory(content=whole, source=Source.TOOL))
    with changing(turn) as record:
        record.heard = min(record.heard, trust_in(told, gate.policy))


def _track(turn: Turn, given: Invocation, whole: str) -> Tracked:
    """Keep a tool call that was checked, once; `whole` is what was told of it before it was cut."""
    named = given.call_id
    with changing(turn) as record:
        known = [one for one in record.calls if named is not None and one.call_id == named]
        if known:
            return Tracked(tracked=True, key=known[0].key, reason="tracked before")
        check(turn, "track a tool call")
        one = replace(given, key=record.key("call", len(record.calls)))
        memory = one.to_memory(turn.now, record.task)
        gate = _of_a_tool(turn.memory.gate, memory, whole)
        verdict = discreet(Judged(memory, gate.of(gate.candidate(memory))), gate).verdict
        stored = passed(memory, verdict, gate)
        kept = [] if stored is None else [stored]
        writes = [turn.memory.flows.checked(each, turn.context) for each in kept]
        record.calls.append(one)
        record.wanted.append(record.wish(turn.context, one.key, memory.content))
        record.pending += kept
        tool, failed = shown(one.tool, turn.memory.gate), one.error is not None
        why = f"{tool} {'failed' if failed else 'answered'}"
        about = {"tool": tool, "seconds": one.seconds, "relevance": one.relevance}
        held = verdict.decision is not Decision.ACCEPT
        if held:
            why = f"{why}; {verdict.reason}"
            about |= beginning(memory, gate)
        if not kept:
            about["refused"] = True
        spend(turn, "tracked", why, *writes, **about, failed=failed)
    key = one.key if kept else None
    return Tracked(tracked=True, key=key, reason=why, quarantined=bool(kept and held))


def _of_a_tool(gate: Gate, call: NewMemory, whole: str) -> Gate:
    """The gate for a tool call, which finds private data in all that was told of it.

    It happened, so it may say little, or what is known, and nobody reviews it.
    """
    texts = (call.content, whole)
    found = [one for text in texts for detect in gate.detectors for one in detect(text)]
    return replace(
        gate,
        policy=replace(gate.policy, refuse_trivial=False, refuse_echoes=False),
        reviewers=None,
        detectors=(lambda _: found,),
        panel=None,
    )


def memorize(
    turn: Turn,
    item: str | Mapping[str, Any],
    metadata: Mapping[str, Any] | None = None,
) -> Flow[Memorized]:
    """Put something to the gate; what it lets pass is written by `commit`.

    What it quarantines is committed as quarantined. What the turn was shown is no new evidence.
    After a tool call of the turn it is the agent's, and trusted no further than what its tools
    brought, unless it says that a person says so: `source="user"` or `"system"`.

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
    going_on(turn)
    given = _as_memory(turn, item, metadata)
    if not (isinstance(item, Mapping) and item.get("source") in PERSONS):
        given = _after_tools(turn, given, named=isinstance(item, Mapping) and "source" in item)
    turn.memory.flows.checked(given, turn.context)
    return _sound(turn, given)


def _sound(turn: Turn, given: NewMemory) -> Flow[Memorized]:
    """Put something to the gate, and make sure that the commit will be able to write it.

    Raises:
        InvalidInputError: if a memory that it is derived from is missing.
    """
    (why,) = yield from unit(turn.memory.flows.lacking([given], turn.context))
    if why is not None and not (yield from unit(was_committed(turn))):
        raise InvalidInputError(f"{why}; it is not kept, and what is pending stays so")
    return (yield from _put(turn, given))


def _after_tools(turn: Turn, one: NewMemory, *, named: bool) -> NewMemory:
    """What no person says, trusted no further than what the turn's tools brought."""
    heard = going_on(turn).heard
    if heard >= 1.0:
        return one
    source = one.source if named else Source.AGENT
    return replace(one, source=source, trust=min(one.trust, heard))


def _as_memory(
    turn: Turn, item: str | Mapping[str, Any], metadata: Mapping[str, Any] | None
) -> NewMemory:
    """An item as a memory that can be read again; it has no type where none was named."""
    (one,) = new_memories([item])
    if isinstance(item, str) or item.get("memory_type") is None:
        one = replace(one, memory_type=None)
    one = read_once(one, turn.memory.tiered_store.options.bounds)
    known, origins = recalled_texts(one.recalled), tuple(origin_keys(one))
    one = replace(one, derived_from=origins, recalled=known)
    if metadata is None:
        return one
    for given in (metadata, one.metadata):
        if not isinstance(given, Mapping):
            raise InvalidTypeError(f"metadata is a mapping, not {type(given).__name__}")
    return replace(one, metadata={**one.metadata, **metadata})


def _put(turn: Turn, given: NewMemory) -> Flow[Memorized]:
    """Put something that was checked to the gate; what the gate does not see is not wanted."""
    with changing(turn) as record:
        check(turn, "memorize")
        one = replace(given, key=given.key or record.key("item", record.spent))
        record.spent += 1
        wish = record.wish(turn.context, one.key, one.memory_type, one.content, one.metadata)
        record.wanted.append(wish)
    try:
        route = _routed(turn, given)
        judged, *again = yield from _judged(turn, one, route)
        found = _memorized(turn, judged, route)
        if found.pending:
            _taken_up(turn, again)
    except BaseException:
        record.wanted.remove(wish)
        raise
    return found


def _routed(turn: Turn, one: NewMemory) -> Route:
    """To its type; without one, where the turn's router sends it.

    A router that has no say answers None: an agent memorizes what it intends, or wants to know.
    """
    told: object = turn.router(one) if turn.router and one.memory_type is None else None
    if isinstance(told, Route):
        checked_strings(told.evicted, "evicted of a route")
        return told
    if told is not None:
        raise InvalidTypeError(f"a router answers Route(destinations=…) or None, not {short(told)}")
    return Route(destinations=(_by_itself(turn, one),))


def _by_itself(turn: Turn, one: NewMemory) -> Destination:
    """Where something goes by what it is: of a type, of one that its metadata names, or said.

    Raises:
        InvalidInputError: for a type in its metadata that is not known.
    """
    if one.memory_type is not None:
        return route(one.memory_type)
    named = label(one.metadata.get("memory_type"), "memory_type of the metadata")
    if named is not None:
        return Destination(turn.memory.types.get(named).name, "its metadata names the type")
    if one.speaker is not None:
        return Destination("episodic", "somebody said it")
    return Destination("semantic", "it was memorized")


def _judged(turn: Turn, one: NewMemory, route: Route) -> Flow[list[Judged]]:
    """What the gate says of something, and of what the turn's changes leave unsaid with it."""
    record, gate = going_on(turn), turn.memory.gate
    evicted = (*record.evicted, *route.evicted)
    new = {each.key: each.content for each in record.pending if each.key is not None}
    leaving = {**dict.fromkeys(evicted), **new}
    if route.destinations:
        below = gate.policy.trust.below
        strictest = max(route.destinations, key=lambda to: below(to.memory_type))
        one = replace(one, memory_type=strictest.memory_type)
    again = record.untold({str(one.key)} | leaving.keys())
    several = [replace(each, recalled=(*each.recalled, *record.shown)) for each in (one, *again)]
    judged = yield from unit(turn.memory.flows.judged(several, turn.context, leaving))
    found, *others = (discreet(each, gate) for each in judged)
    verdict = found.verdict
    if verdict.stored and not route.destinations:
        nowhere = "routed: its router keeps it nowhere"
        verdict = replace(verdict, decision=Decision.REJECT, reason=nowhere, destination=None)
    return [found._replace(verdict=verdict), *others]


def _taken_up(turn: Turn, again: Sequence[Judged]) -> None:
    """Keep what repeated a memory that the turn has replaced since, or evicts."""
    gate = turn.memory.gate
    kept = [each for one in again if (each := passed(one.memory, one.verdict, gate))]
    with changing(turn) as record:
        taken = {str(each.key) for each in kept}
        record.echoes = [one for one in record.echoes if one["memory"]["key"] not in taken]
        record.pending += kept
        for each in kept:
            why = "what it repeats is replaced or evicted by the turn"
            note(
                turn,
                "memorized",
                why,
                turn.memory.flows.checked(each, turn.context),
                keys=[each.key],
            )


def _kept(turn: Turn, one: Judged, route: Route) -> list[NewMemory]:
    """What the gate lets pass, once for each type that it goes to, under keys of their own."""
    if not one.verdict.stored:
        return []
    first, keyed = str(one.memory.key), going_on(turn).key
    several = (
        passed(
            replace(one.memory, key=keyed(first, place) if place else first),
            replace(one.verdict, destination=to),
            turn.memory.gate,
        )
        for place, to in enumerate(route.destinations)
    )
    return [each for each in several if each is not None]


def _memorized(turn: Turn, one: Judged, route: Route) -> Memorized:
    """Keep what the gate lets pass, and note what it says."""
    gate, verdict = turn.memory.gate, one.verdict
    kept = _kept(turn, one, route)
    writes = [turn.memory.flows.checked(each, turn.context) for each in kept]
    result = result_of(
        verdict,
        key=kept[0].key if kept else None,
        tier=writes[0].tier if kept else None,
        evicted=route.evicted if kept else (),
        destinations=tuple(
            to._replace(key=each.key, tier=each.tier)
            for to, each in zip(route.destinations, writes, strict=bool(kept))
        ),
    )
    found = Memorized.of(result)
    why = "; ".join(dict.fromkeys(to.reason for to in route.destinations))
    about = _judgement(found)
    if not kept or found.quarantined:
        about |= beginning(one.memory, gate)
    with changing(turn) as record:
        record.pending += kept
        record.evicted += found.evicted
        record.repeated(one.memory, one.repeats)
        reason = why if found.reason == "stored" else found.reason
        note(turn, "memorized" if kept else "refused", reason, *writes[:1], **about)
    return found


def _judgement(found: Memorized) -> dict[str, Any]:
    """What the gate said, as JSON for the trace."""
    told = {
        "destinations": [one.memory_type for one in found.destinations],
        "keys": list(found.keys),
        "evicted": list(found.evicted),
        "trust": found.trust,
        "quarantined": found.quarantined,
        "repeats": found.repeats,
        "score": found.score if found.reviewed else None,
        "reviewers": {
            name: {"score": score, "reason": found.reasons.get(name)}
            for name, score in found.scores.items()
        },
        "failures": dict(found.failures),
        "private": list(found.private),
    }
    return {name: one for name, one in told.items() if one or isinstance(one, float)}
