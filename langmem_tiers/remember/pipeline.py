"""How memories are written: screened, validated, placed and committed, in this order.

The gate screens what a caller stores (`admit`); what is derived from memories or imported is
trusted as its source is (`remember`). A turn and a reminder take the same steps one by one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from langmem_tiers.core.context import Caller, MemoryContext
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.memory import TIERS, ReviewResult, Source, StoreResult, Tier
from langmem_tiers.core.namespaces import Place, check_key, elsewhere, encode
from langmem_tiers.core.types import MemoryTypes
from langmem_tiers.core.values import content_of, lexical_text
from langmem_tiers.postgres.flow import Ask, Call, Flow, Query, Row, apart, extent, lasts
from langmem_tiers.remember import new
from langmem_tiers.remember.callers import RecalledLately, Runs
from langmem_tiers.remember.echo import echo_of
from langmem_tiers.remember.gate import Decision, Gate, Verdict
from langmem_tiers.remember.new import Known, NewMemory
from langmem_tiers.remember.transaction import Applied, write
from langmem_tiers.store.flows import StoreFlows
from langmem_tiers.store.write import Write

Places: TypeAlias = tuple[tuple[Place, str], ...]
"""Memories by their places and keys."""

SAME_KEY = "replaces: what was stored under the same key in this call is not quarantined"
"""Why something held is not stored."""


class Judged(NamedTuple):
    """A memory, derived from what it repeats, and what the gate says of it."""

    memory: NewMemory
    verdict: Verdict
    repeats: Places = ()
    """The memory that it repeats, where it is refused for that."""


@dataclass(slots=True)
class _Looked:
    """A memory that is to be stored, and what is known already of what it says."""

    memory: NewMemory
    candidate: NewMemory
    echo: Known | None = None
    """What it repeats of what was recalled; its key is to be looked up."""
    place: Place | None = None
    """Where its words are sought, if whoever says them adds nothing by that."""
    sources: Places = ()
    """What it is derived from, as it repeats that."""
    repeats: Places = ()
    """What it only repeats."""


Find: TypeAlias = Callable[
    [Sequence[str], MemoryContext, datetime], Flow[Mapping[str, tuple[Place, str]]]
]
"""Finds where the memories of these keys are, as of a moment."""


class Pipeline:
    """Writes the memories of one coordinator."""

    def __init__(
        self, store: StoreFlows, gate: Gate, types: MemoryTypes, caller: Caller, find: Find
    ) -> None:
        """Stand on a store's flows; what the caller recalled and stored before is kept there."""
        self._store, self._types, self._caller = store, types, caller
        self._lately, self._runs = store.kept.one(RecalledLately), store.kept.one(Runs)
        self.gate, self._find = gate, find

    def admit(
        self, memories: Sequence[NewMemory], context: MemoryContext
    ) -> Flow[list[StoreResult]]:
        """Judge memories and store what the gate lets pass, in one transaction.

        Raises:
            InvalidInputError: for what cannot be stored, or is derived from what is not there;
                nothing was.
        """
        yield from lasts(len(memories))
        verdicts = yield from self.judged(memories, context)
        kept = [passed(one.memory, one.verdict, self.gate) for one in verdicts]
        refused = [one.memory for one, some in zip(verdicts, kept, strict=True) if some is None]
        yield from self._validated(refused, context)
        repeated = tuple(chain.from_iterable(one.repeats for one in verdicts))
        writes = yield from self.bounded([one for one in kept if one], context, repeated)
        applied = yield from write(without_held_twins(writes), self._store)
        own = iter(writes)
        return [
            admitted_as(one.verdict, None if some is None else next(own), applied)
            for one, some in zip(verdicts, kept, strict=True)
        ]

    def remember(
        self, memories: Sequence[NewMemory], context: MemoryContext
    ) -> Flow[list[StoreResult]]:
        """Store memories that nobody judges, as they are derived or imported, all or none.

        They are trusted as their source is.

        Raises:
            InvalidInputError: for what cannot be stored, or is derived from what is not there;
                nothing was.
        """
        written = yield from self.writes([*map(self.gate.trusting, memories)], context)
        writes = [replace(one, named=False) for one in written]
        applied = yield from write(writes, self._store)
        return [unjudged_as(one, applied) for one in writes]

    # Validate

    def checked(self, one: NewMemory, context: MemoryContext) -> Write:
        """What would store a memory, but for what it is derived from.

        Raises:
            InvalidInputError: for what cannot be stored.
        """
        return new.to_write(
            one,
            context=context,
            types=self._types,
            index=self._store.options.index,
            default_ttl=self._store.default_ttl,
            bounds=self._store.options.bounds,
        )

    def _validated(
        self, memories: Sequence[NewMemory], context: MemoryContext
    ) -> Flow[list[Write]]:
        return apart(
            lambda: [self.checked(one, context) for one in memories], new.extent_of(memories)
        )

    # Screen

    def judged(
        self,
        memories: Sequence[NewMemory],
        context: MemoryContext,
        leaving: Mapping[str, str | None] = MappingProxyType({}),
    ) -> Flow[list[Judged]]:
        """What the gate says of memories, by what was recalled lately and what is stored.

        The keys that are `leaving` get another text, with which they are given, or go.

        Raises:
            InvalidInputError: for content that is no text, or is empty.
        """
        bounds, gate = self._store.options.bounds, self.gate
        for one in memories:
            bounds.check_content(one.content)
        several = [new.read_once(one, bounds) for one in memories]
        named = {check_key(one.key): one.content for one in several if one.key is not None}
        lately = self._lately.known(self._caller, self._store.now)
        recalled = [_may_repeat(one, lately, {**named, **leaving}) for one in several]
        long = new.extent_of(several)
        compared = extent([known.content for some in recalled for known in some])
        found = yield from apart(
            lambda: [
                self._compared(*each, context) for each in zip(several, recalled, strict=True)
            ],
            long + compared,
        )
        yield from self._look_up(found, context)
        reviews = yield from self._reviews([one.candidate for one in found], long)
        verdicts = yield from apart(
            lambda: [gate.of(one.candidate, reviews.get(at)) for at, one in enumerate(found)], long
        )
        return [
            Judged(
                replace(one.memory, echoes=[(place.namespace, key) for place, key in one.sources]),
                verdict,
                one.repeats,
            )
            for one, verdict in zip(found, verdicts, strict=True)
        ]

    def _compared(
        self, one: NewMemory, recalled: Sequence[Known], context: MemoryContext
    ) -> _Looked:
        """What is to be looked up of a memory that may repeat what was recalled."""
        policy, content = self.gate.policy, new.checked_content(one.content)
        echo = echo_of(content, recalled) if policy.refuse_echoes else None
        adds = policy.trust.of_source(one.source) >= policy.keep_copies_from
        place = None if adds else self._unkeyed(one, context).place
        if echo is not None and echo.key is None:  # there is nothing to look up
            return _Looked(one, self.gate.candidate(one, recalled=(echo,)), place=place)
        return _Looked(one, self.gate.candidate(one), echo=echo, place=place)

    def _look_up(self, several: Sequence[_Looked], context: MemoryContext) -> Flow[None]:
        """Fill in what is stored of what these may repeat, in one round trip."""
        repeating = [(one, one.echo) for one in several if one.echo is not None]
        copied = [(one, one.place) for one in several if one.place is not None]
        if not repeating and not copied:
            return
        moment, index = self._store.moment(), self._store.options.index
        named = [echo.namespace for _, echo in repeating]
        spaces = [None if one is None else encode(one).namespace for one in named]
        repeated = {
            **context.whose,
            "namespaces": spaces,
            "keys": [echo.key for _, echo in repeating],
            **elsewhere(context.namespace(Tier.WORKING)),
            "alive_at": moment.alive_at,
            "true_at": moment.now,
            "known_at": None,
            "as_of": None,
        }
        copies = {
            "tenant": context.root,
            "namespaces": [place.namespace for _, place in copied],
            "texts": [lexical_text(one.candidate.content) for one, _ in copied],
            "language": index.language if index else "simple",
            "alive_at": moment.alive_at,
        }
        calls = (Call("repeated", repeated), Call("copies", copies))
        echoes, found = yield Query(calls, commit=True)
        for number, key, value in found:
            one = copied[number - 1][0]
            if key != one.memory.key:  # a memory may replace itself
                known = Known(content=content_of(value), key=key)
                one.candidate = replace(one.candidate, stored=(*one.candidate.stored, known))
        for number, *row in echoes:
            one = repeating[number - 1][0]
            lasting, there = self._lasting(row, one.memory, context), Place(context.root, row[0])
            if lasting is None:
                one.sources = ((there, row[1]),)
            elif echo_of(one.candidate.content, (lasting,)) is not None:
                one.candidate = replace(one.candidate, recalled=(lasting,))
                one.repeats = ((there, row[1]),)

    def _unkeyed(self, one: NewMemory, context: MemoryContext) -> Write:
        """The write that would store a memory, whatever its key, to learn where and how long."""
        return self.checked(replace(one, key=None), context)

    def _lasting(self, row: Row, one: NewMemory, context: MemoryContext) -> Known | None:
        """What is repeated, if it is current, and lasts and is told as far as what is to be stored.

        A recall renews what expires, so it lasts as long as another of its life.
        """
        _, key, tier, value, ttl, ends, current, personal = row
        wanted, options = self._unkeyed(one, context), self._store.options
        life = options.tier_ttl.get(wanted.tier) if wanted.ttl is None else wanted.ttl
        until = wanted.told.valid_to
        if (
            not current
            or (personal and options.user_of(wanted.place) is None)
            or TIERS.index(Tier(tier)) < TIERS.index(wanted.tier)
            or (ttl is not None and ttl < (math.inf if life is None else life))
            or (ends is not None and (until is None or ends < until))
        ):
            return None
        return Known(content=content_of(value), key=key)

    def _reviews(
        self, candidates: Sequence[NewMemory], long: int
    ) -> Flow[Mapping[int, ReviewResult]]:
        """What chat models say of those that they are asked about, by place; all at once."""
        panel = self.gate.panel
        if panel is None:
            return {}
        needed = yield from apart(lambda: [*map(self.gate.asks, candidates)], long)
        asked = [at for at, one in enumerate(needed) if one]
        if not asked:
            return {}
        several = [candidates[at] for at in asked]
        said = yield Ask(lambda: panel.call(several), lambda: panel.acall(several))
        return dict(zip(asked, said, strict=True))

    # Place

    def writes(self, memories: Sequence[NewMemory], context: MemoryContext) -> Flow[list[Write]]:
        """What would store these memories.

        Raises:
            InvalidInputError: for what cannot be stored, or is derived from what is not there.
        """
        checked = yield from self._validated(memories, context)
        types, by, now = self._types, self._caller, self._store.now
        writes = [
            # what was learned stands by itself
            write if types.learned(one.memory_type or "") else self._runs.numbered(by, write, now)
            for one, write in zip(memories, checked, strict=True)
        ]
        origins = [new.origin_keys(one) for one in memories]
        if any(origins):
            named = sorted({*chain(*origins)})
            known = yield from self._find(named, context, self._store.moment().alive_at)
            writes = [
                _derived(write, [known[key] for key in keys])
                for write, keys in zip(writes, origins, strict=True)
            ]
        return writes

    def bounded(
        self, memories: Sequence[NewMemory], context: MemoryContext, spares: Places
    ) -> Flow[list[Write]]:
        """What would store what the gate let pass: where a place is full, all but `spares` may go.

        Raises:
            InvalidInputError: for what cannot be stored, or is derived from what is not there.
        """
        writes = yield from self.writes(memories, context)
        rooms = self.gate.rooms
        return [
            replace(write, rooms=rooms(one.memory_type or "episodic", write.tier), spares=spares)
            for one, write in zip(memories, writes, strict=True)
        ]

    def lacking(
        self, memories: Sequence[NewMemory], context: MemoryContext
    ) -> Flow[list[str | None]]:
        """Say why each of these cannot be derived from what it names; None where it can."""
        several = [new.origin_keys(one) for one in memories]
        try:
            if any(several):
                named = sorted({*chain(*several)})
                yield from self._find(named, context, self._store.moment().alive_at)
        except InvalidInputError as refused:
            if len(memories) == 1:
                return [str(refused)]
        else:
            return [None for _ in memories]
        found: list[str | None] = []
        for one in memories:
            found += yield from self.lacking([one], context)
        return found


def _derived(write: Write, named: Sequence[tuple[Place, str]]) -> Write:
    """A write that is derived from these as well; what is named is not only repeated."""
    echoes = tuple(one for one in write.echoes if one not in named)
    return replace(write, sources=(*named, *echoes), echoes=echoes)


def _may_repeat(
    one: NewMemory, lately: tuple[Known, ...], leaving: Mapping[str, str | None]
) -> tuple[Known, ...]:
    """What a memory may repeat: what was recalled, but for what is replaced or goes.

    What a person is recorded to have said repeats nothing: that they said it again is evidence. Nor
    does what has a key of its own, unless it comes with what was recalled: who names a key means
    that memory.
    """
    given = new.recalled_texts(one.recalled)
    if (one.source == Source.USER and one.speaker) or (one.key is not None and not given):
        return ()
    if not given and not leaving:
        return lately
    return tuple(
        known
        for known in (*given, *lately)
        if known.key is None
        or (known.key != one.key and leaving.get(known.key, known.content) == known.content)
    )


def passed(one: NewMemory, verdict: Verdict, gate: Gate) -> NewMemory | None:
    """A memory as it is stored; None if it is refused.

    It says how far it is trusted and why it is quarantined, so that its write does so too.
    """
    if verdict.destination is None:
        return None
    return replace(
        one,
        memory_type=verdict.destination.memory_type,
        recalled=(),
        trust=verdict.trust,
        held=verdict.reason if verdict.decision is Decision.QUARANTINE else None,
        threshold=gate.policy.trust.below(verdict.destination.memory_type),
    )


def without_held_twins(writes: Sequence[Write]) -> list[Write]:
    """The writes of a call, without what is held where something else takes the same key."""
    open_keys = {one.name for one in writes if not one.held}
    return [one for one in writes if not one.held or one.name not in open_keys]


# What is answered once all is committed


def admitted_as(verdict: Verdict, one: Write | None, applied: Applied) -> StoreResult:
    """What is answered to whoever wanted something stored, once what passed is written."""
    if one is None or verdict.destination is None:
        return result_of(verdict)
    done = applied.done.get(one.name)
    if done is None or (one.held and not done.held):
        reason = applied.refused.get(one.name, SAME_KEY)
        return result_of(verdict, stored=False, quarantined=False, reason=reason)
    return result_of(
        verdict,
        key=done.key,
        tier=done.tier,
        trust=done.trust,
        quarantined=done.held is not None,
        evicted=tuple(each.memory.key for each in applied.evicted if each.by == done.key),
        reason=done.held or verdict.reason,
        destinations=(verdict.destination._replace(key=done.key, tier=done.tier),),
    )


def unjudged_as(one: Write, applied: Applied) -> StoreResult:
    """What is answered of a memory that nobody judged, once it is written."""
    refused = applied.refused.get(one.name)
    if refused is not None:
        return StoreResult(stored=False, key=one.key, reason=refused, trust=one.trust)
    done = applied.done.get(one.name, one)
    return StoreResult(
        stored=True,
        key=one.key,
        tier=one.tier,
        trust=done.trust,
        quarantined=done.held is not None,
        reason=done.held or "stored",
    )


def result_of(verdict: Verdict, **told: object) -> StoreResult:
    """What is answered of a verdict."""
    review = verdict.review or ReviewResult(consensus_score=None)
    result = StoreResult(
        stored=verdict.stored,
        score=verdict.score,
        reviewed=verdict.reviewed,
        reason=verdict.reason,
        quarantined=verdict.decision is Decision.QUARANTINE,
        trust=verdict.trust,
        repeats=verdict.repeats,
        private=tuple(sorted({one.kind for one in verdict.private})),
        scores=review.agent_scores,
        reasons=review.reasons,
        failures=review.failures,
    )
    return replace(result, **told)  # type: ignore[arg-type]
