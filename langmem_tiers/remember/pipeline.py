"""How memories are written: validated, screened, placed and committed, in this order.

The gate screens what a caller stores (`admit`); what is derived from memories or imported is
trusted as its source is (`remember`). A turn and a reminder take the same steps one by one.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from itertools import count
from secrets import randbelow
from types import MappingProxyType
from typing import Final, TypeAlias, cast

from langmem_tiers.core.context import Caller, MemoryContext
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.memory import (
    TIERS,
    Place,
    ReviewResult,
    Source,
    StoreResult,
    Tier,
    decode_namespace,
    encode_namespace,
    outside_bounds,
)
from langmem_tiers.core.types import MemoryTypes
from langmem_tiers.core.values import MAX_TURN, content_of, lexical_text
from langmem_tiers.postgres.flow import (
    Call,
    Flow,
    Query,
    Row,
    ask_model,
    extend_deadline,
    map_off_loop,
    reading_size,
)
from langmem_tiers.remember import new
from langmem_tiers.remember.echo import RecalledLately, echo_of
from langmem_tiers.remember.gate import Decision, Gate, Places, Verdict
from langmem_tiers.remember.new import Known, NewMemory
from langmem_tiers.remember.review import Panel
from langmem_tiers.remember.transaction import Applied, trusted, write
from langmem_tiers.store.flows import StoreFlows
from langmem_tiers.store.write import Write

SAME_KEY: Final = "replaces: what was stored under the same key in this call is not quarantined"
"""Why something held is not stored."""
_LONGEST = 2**14
"""Turns of a run; the number of its first one is a multiple, drawn, so that no two runs touch."""
_LAST = _LONGEST - 5
"""The place of the last turn of a run in it."""
_APART = timedelta(minutes=30)
"""What is stored later than this after the last is of another run: our own choice."""
_MOST = 10_000
"""The number of callers' places whose runs are kept in mind."""


class Runs:
    """Numbers memories that are no turn of a session, in each caller's order of storing in a place.

    They have no session, or nobody said them. Several threads may use it.
    """

    def __init__(self) -> None:
        """Begin with none."""
        self._lock = threading.Lock()
        self._of: OrderedDict[tuple[Caller, Place], tuple[int, datetime]] = OrderedDict()

    def next_turn(self, caller: Caller, place: Place, now: datetime) -> int:
        """The number of what a caller stores next in a place."""
        with self._lock:
            turn, last = self._of.pop((caller, place), (_LAST, now))
            turn += 1
            if turn % _LONGEST > _LAST or abs(now - last) > _APART:
                turn = _LONGEST * (1 + randbelow(MAX_TURN // _LONGEST - 2))
            self._of[caller, place] = turn, now
            if len(self._of) > _MOST:
                self._of.popitem(last=False)
        return turn


PlacesOf: TypeAlias = Callable[
    [Sequence[str], MemoryContext, datetime], Flow[Mapping[str, tuple[Place, str]]]
]
"""Finds where the memories of these keys are, as of a moment."""


class Pipeline:
    """Writes the memories of one coordinator."""

    def __init__(
        self, store: StoreFlows, gate: Gate, types: MemoryTypes, caller: Caller, places_of: PlacesOf
    ) -> None:
        """Stand on a store's flows; what the caller recalled and stored before is kept there."""
        self._store, self._types, self._caller = store, types, caller
        self.lately, self._runs = store.shared.get(RecalledLately), store.shared.get(Runs)
        self.gate, self._places_of = gate, places_of

    def admit(
        self, memories: Sequence[NewMemory], context: MemoryContext
    ) -> Flow[list[StoreResult]]:
        """Judge memories and store what the gate lets pass, in one transaction.

        Raises:
            InvalidInputError: for what cannot be stored, or is derived from what is not there;
                nothing was.
        """
        yield from extend_deadline(len(memories))
        memories, writes = yield from self.validated(memories, context)
        verdicts = yield from self.screened(memories, writes, context)
        several, passing, repeated = list[NewMemory](), list[Write](), list[tuple[Place, str]]()
        for one, put, verdict in zip(memories, writes, verdicts, strict=True):
            repeated += verdict.repeated
            if verdict.stored:
                several.append(one)
                passing.append(as_judged(one, put, verdict, self.gate))
        placed = yield from self.placed(several, passing, context, tuple(repeated))
        applied = yield from write(placed, self._store)
        own = iter(placed)
        return [admitted_as(one, next(own) if one.stored else None, applied) for one in verdicts]

    def remember(
        self, memories: Sequence[NewMemory], context: MemoryContext
    ) -> Flow[list[StoreResult]]:
        """Store memories that nobody judges, as they are derived or imported, all or none.

        They are trusted as their source is.

        Raises:
            InvalidInputError: for what cannot be stored, or is derived from what is not there;
                nothing was.
        """
        written = yield from self.writes(memories, context)
        writes = [replace(one, has_given_key=False) for one in written]
        applied = yield from write(writes, self._store)
        return [unjudged_as(one, applied) for one in writes]

    def writes(
        self, memories: Sequence[NewMemory], context: MemoryContext, spares: Places | None = None
    ) -> Flow[list[Write]]:
        """What would store memories as they are, judged before or by nobody; see `placed`.

        Raises:
            InvalidInputError: for what cannot be stored, or is derived from what is not there.
        """
        memories, writes = yield from self.validated(memories, context)
        return (yield from self.placed(memories, writes, context, spares))

    # Validate

    def checked(self, one: NewMemory, context: MemoryContext) -> Write:
        """What would store a memory that was read, but for what it is derived from.

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

    def validated(
        self, memories: Sequence[NewMemory], context: MemoryContext
    ) -> Flow[tuple[list[NewMemory], list[Write]]]:
        """Memories that can be read again, trusted as their source is, and what would store them.

        Raises:
            InvalidInputError: for what cannot be stored.
        """
        bounds, several = self._store.options.bounds, list[NewMemory]()
        for one in memories:
            several.append(self.gate.trusting(new.read_once(one, bounds)))
        check = partial(self.checked, context=context)
        writes = yield from map_off_loop(check, new.extent_of(several), several)
        return several, writes

    # Screen

    def screened(
        self,
        memories: Sequence[NewMemory],
        writes: Sequence[Write],
        context: MemoryContext,
        leaving: Mapping[str, str | None] = MappingProxyType({}),
    ) -> Flow[list[Verdict]]:
        """What the gate says of memories, by what was recalled lately and what is stored.

        The keys that are `leaving` get another text, with which they are given, or go.
        """
        gate, policy = self.gate, self.gate.policy
        lately = self.lately.known(self._caller, self._store.now)
        new_texts = {one.key: one.content for one in memories if one.key} | {**leaving}
        recalled, compared = list[tuple[Known, ...]](), list[str]()
        for one in memories:
            repeatable = _may_repeat(one, lately, new_texts) if policy.refuse_echoes else ()
            recalled.append(repeatable)
            compared += [known.content for known in repeatable]
        long = new.extent_of(memories)
        contents = [one.content for one in memories]
        reads = long + reading_size(compared)
        echoes = yield from map_off_loop(echo_of, reads, contents, recalled)
        candidates, named, copied = list[NewMemory](), dict[int, Known](), list[int]()
        for at, (one, echo) in enumerate(zip(memories, echoes, strict=True)):
            unnamed = echo is not None and echo.key is None  # there is nothing to look up
            candidates.append(replace(one, recalled=(echo,) if unnamed else ()))
            if echo is not None and not unnamed:
                named[at] = echo
            if policy.trust.of_source(one.source) < policy.keep_copies_from:
                copied.append(at)
        sources: Mapping[int, Places] = {}
        if named or copied:
            sources = yield from self._look_up(candidates, writes, named, copied, context)
        reviews: Mapping[int, ReviewResult] = {}
        if gate.panel is not None:
            reviews = yield from self._reviews(gate.panel, candidates, long)
        given = map(reviews.get, count())
        verdicts = yield from map_off_loop(gate.of, long, candidates, given)
        for at, repeated in sources.items():
            verdicts[at] = replace(verdicts[at], sources=repeated)
        return verdicts

    def _look_up(
        self,
        candidates: list[NewMemory],
        writes: Sequence[Write],
        named: Mapping[int, Known],
        copied: Sequence[int],
        context: MemoryContext,
    ) -> Flow[Mapping[int, Places]]:
        """Say in each candidate what is stored that it repeats; and what it is derived from.

        That is what it repeats and lasts less long. Each is known by its place among the
        candidates: those that repeat a memory that is `named`, and those whose copies are sought.
        """
        sources = dict[int, Places]()
        texts = [(writes[at].place.namespace, candidates[at].content) for at in copied]
        found, copies = yield Query(self._look_ups([*named.values()], texts, context), commit=True)
        for number, key, value in copies:
            one = candidates[at := copied[number - 1]]
            if key != one.key:  # a memory may replace itself
                known = Known(content=content_of(value), key=key)
                candidates[at] = replace(one, stored=(*one.stored, known))
        repeating = [*named]
        for number, *row in found:
            at, there = repeating[number - 1], Place(context.root, row[0])
            lasting = self._lasting(row, there, writes[at])
            if lasting is None:
                sources[at] = ((there, row[1]),)
            else:
                candidates[at] = replace(candidates[at], recalled=(lasting,))
        return sources

    def _look_ups(
        self,
        repeated: Sequence[Known],
        copied: Sequence[tuple[str, str]],
        context: MemoryContext,
    ) -> tuple[Call, Call]:
        """Look up these recalled memories, and who says the same in these namespaces."""
        moment, index = self._store.moment(), self._store.options.index
        named = [one.namespace for one in repeated]
        echoes = {
            **context.whose,
            "namespaces": [
                None if one is None else encode_namespace(one).namespace for one in named
            ],
            "keys": [one.key for one in repeated],
            **outside_bounds(context.namespace(Tier.WORKING)),
            "alive_at": moment.alive_at,
            "true_at": moment.now,
            "known_at": None,
            "as_of": None,
        }
        copies = {
            "tenant": context.root,
            "namespaces": [namespace for namespace, _ in copied],
            "texts": [lexical_text(content) for _, content in copied],
            "language": index.language if index else "simple",
            "alive_at": moment.alive_at,
        }
        return Call("repeated", echoes), Call("copies", copies)

    def _lasting(self, row: Row, there: Place, wanted: Write) -> Known | None:
        """What is repeated, if it is current, and lasts and is told as far as what is to be stored.

        A recall renews what expires, so it lasts as long as another of its life.
        """
        _, key, tier, value, ttl, ends, current, personal = row
        options = self._store.options
        life = options.tier_ttl.get(wanted.tier) if wanted.ttl is None else wanted.ttl
        until = wanted.recall_fields.valid_to
        if (
            not current
            or (personal and options.user_of(wanted.place) is None)
            or TIERS.index(Tier(tier)) < TIERS.index(wanted.tier)
            or (ttl is not None and ttl < (math.inf if life is None else life))
            or (ends is not None and (until is None or ends < until))
        ):
            return None
        return Known(content=content_of(value), key=key, namespace=decode_namespace(*there))

    def _reviews(
        self, panel: Panel, candidates: Sequence[NewMemory], long: int
    ) -> Flow[Mapping[int, ReviewResult]]:
        """What chat models say of those that they are asked about, by place; all at once."""
        needed = yield from map_off_loop(self.gate.asks, long, candidates)
        asked = [at for at, one in enumerate(needed) if one]
        if not asked:
            return {}
        several = [candidates[at] for at in asked]
        said = yield from ask_model(panel, several)
        return dict(zip(asked, said, strict=True))

    # Place

    def placed(
        self,
        memories: Sequence[NewMemory],
        writes: Sequence[Write],
        context: MemoryContext,
        spares: Places | None = None,
    ) -> Flow[list[Write]]:
        """Writes with their turns, and derived from what their memories name.

        With `spares` they go where there is room: in a place that is full all but these may go.

        Raises:
            InvalidInputError: if they are derived from what is not there.
        """
        by, now = self._caller, self._store.now
        origins = sorted({key for one in memories for key in one.derived_from})
        places: Mapping[str, tuple[Place, str]] = {}
        if origins:
            places = yield from self._places_of(origins, context, self._store.moment().alive_at)
        placed = []
        for one, put in zip(memories, writes, strict=True):
            memory_type, told = one.memory_type or "episodic", put.recall_fields
            # what was learned stands by itself, and in a session what is said follows the last
            said = told.turn is not None or (told.session and told.speaker)
            if not said and self._types.get(memory_type).personal:
                told = told._replace(turn=self._runs.next_turn(by, put.place, now))
            named, echoes = list[tuple[Place, str]](), put.echoes
            if one.derived_from:  # what is named is not only repeated
                named += [places[key] for key in one.derived_from]
                echoes = tuple(each for each in echoes if each not in named)
            rooms = () if spares is None else self.gate.rooms(memory_type, put.tier)
            placed.append(
                replace(
                    put,
                    recall_fields=told,
                    sources=(*named, *echoes),
                    echoes=echoes,
                    capacities=rooms,
                    repeated=spares or (),
                )
            )
        return placed

    def lacking(
        self, memories: Sequence[NewMemory], context: MemoryContext
    ) -> Flow[list[str | None]]:
        """Say why each of these cannot be derived from what it names; None where it can."""
        origins = sorted({key for one in memories for key in one.derived_from})
        try:
            if origins:
                yield from self._places_of(origins, context, self._store.moment().alive_at)
        except InvalidInputError as refused:
            if len(memories) == 1:
                return [str(refused)]
        else:
            return [None for _ in memories]
        found: list[str | None] = []
        for one in memories:
            found += yield from self.lacking([one], context)
        return found


def _may_repeat(
    one: NewMemory, lately: tuple[Known, ...], new_texts: Mapping[str, str | None]
) -> tuple[Known, ...]:
    """What a memory may repeat: what was recalled, but for what is replaced or goes.

    What a person is recorded to have said repeats nothing: that they said it again is evidence. Nor
    does what has a key of its own, unless it comes with what was recalled: who names a key means
    that memory.
    """
    given = cast("tuple[Known, ...]", one.recalled)  # as it was read once
    if (one.source == Source.USER and one.speaker) or (one.key is not None and not given):
        return ()
    if not given and not new_texts:
        return lately
    return tuple(
        known
        for known in (*given, *lately)
        if known.key is None
        or (known.key != one.key and new_texts.get(known.key, known.content) == known.content)
    )


def as_judged(one: NewMemory, put: Write, verdict: Verdict, gate: Gate) -> Write:
    """A write that the gate lets pass: how far it is trusted, why it is held, what it repeats."""
    return replace(
        trusted(put, verdict.trust, source=one.source),
        held=verdict.reason if verdict.decision is Decision.QUARANTINE else None,
        threshold=gate.policy.trust.below(one.memory_type or "episodic"),
        sources=verdict.sources,
        echoes=verdict.sources,
    )


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
    refused, done = applied.refused.get(one.name), applied.done.get(one.name, one)
    if refused is None and one.held and not done.held:
        refused = SAME_KEY
    if refused is not None:
        return StoreResult(stored=False, key=one.key, reason=refused, trust=one.trust)
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
        reviewed=review.consensus_score is not None,
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
