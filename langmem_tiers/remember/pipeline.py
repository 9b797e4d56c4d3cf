"""The pipeline that writes memories: validate, screen, place and commit, in this order.

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
from langmem_tiers.remember import new_memory
from langmem_tiers.remember.commit import AppliedWrites, cap_trust, commit_writes
from langmem_tiers.remember.duplicates import RecentRecalls, find_echo
from langmem_tiers.remember.gate import Decision, Gate, Places, Verdict
from langmem_tiers.remember.new_memory import KnownText, NewMemory
from langmem_tiers.remember.review import Panel
from langmem_tiers.store.flows import StoreFlows
from langmem_tiers.store.write import Write

SAME_KEY: Final = "replaces: what was stored under the same key in this call is not quarantined"
"""The reason why a quarantined memory is not stored."""
_RUN_LENGTH = 2**14
"""Turns of a run; the number of its first one is a multiple, drawn, so that no two runs touch."""
_LAST_TURN = _RUN_LENGTH - 5
"""The place of the last turn of a run in it."""
_LONGEST_PAUSE = timedelta(minutes=30)
"""The longest pause within a sequence: our own choice."""
_MAX_SEQUENCES = 10_000
"""The number of callers' places whose runs are kept in mind."""


class SequenceNumbers:
    """Numbers memories that are no turn of a session, in each caller's order of storing in a place.

    They have no session, or nobody said them. Several threads may use it.
    """

    def __init__(self) -> None:
        """Begin with none."""
        self._lock = threading.Lock()
        self._of: OrderedDict[tuple[Caller, Place], tuple[int, datetime]] = OrderedDict()

    def next_turn(self, caller: Caller, place: Place, now: datetime) -> int:
        """Give a number to the next memory that a caller stores in a place."""
        with self._lock:
            turn, last = self._of.pop((caller, place), (_LAST_TURN, now))
            turn += 1
            if turn % _RUN_LENGTH > _LAST_TURN or abs(now - last) > _LONGEST_PAUSE:
                turn = _RUN_LENGTH * (1 + randbelow(MAX_TURN // _RUN_LENGTH - 2))
            self._of[caller, place] = turn, now
            if len(self._of) > _MAX_SEQUENCES:
                self._of.popitem(last=False)
        return turn


PlaceFinder: TypeAlias = Callable[
    [Sequence[str], MemoryContext, datetime], Flow[Mapping[str, tuple[Place, str]]]
]
"""Finds where the memories of these keys are, as of a moment."""


class Pipeline:
    """Writes the memories of one coordinator."""

    def __init__(
        self,
        store: StoreFlows,
        gate: Gate,
        types: MemoryTypes,
        caller: Caller,
        places_of: PlaceFinder,
    ) -> None:
        """Stand on a store's flows; what the caller recalled and stored before is kept there."""
        self._store, self._types, self._caller = store, types, caller
        self.lately, self._runs = store.shared.get(RecentRecalls), store.shared.get(SequenceNumbers)
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
        memories, writes = yield from self.validate(memories, context)
        verdicts = yield from self.screen(memories, writes, context)
        passed, passing, repeated = list[NewMemory](), list[Write](), list[tuple[Place, str]]()
        for memory, put, verdict in zip(memories, writes, verdicts, strict=True):
            repeated += verdict.repeated
            if verdict.stored:
                passed.append(memory)
                passing.append(apply_verdict(memory, put, verdict, self.gate))
        placed = yield from self.place(passed, passing, context, tuple(repeated))
        applied = yield from commit_writes(placed, self._store)
        own = iter(placed)
        return [
            admission_result(verdict, next(own) if verdict.stored else None, applied)
            for verdict in verdicts
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
        written = yield from self.prepare_writes(memories, context)
        writes = [replace(put, has_given_key=False) for put in written]
        applied = yield from commit_writes(writes, self._store)
        return [unjudged_result(put, applied) for put in writes]

    def prepare_writes(
        self, memories: Sequence[NewMemory], context: MemoryContext, spares: Places | None = None
    ) -> Flow[list[Write]]:
        """Prepare the writes of memories without the gate; see `place`.

        Raises:
            InvalidInputError: for what cannot be stored, or is derived from what is not there.
        """
        memories, writes = yield from self.validate(memories, context)
        return (yield from self.place(memories, writes, context, spares))

    # Validate

    def to_write(self, memory: NewMemory, context: MemoryContext) -> Write:
        """Build the write of a frozen memory, without its origins.

        Raises:
            InvalidInputError: for what cannot be stored.
        """
        return new_memory.to_write(
            memory,
            context=context,
            types=self._types,
            index=self._store.options.index,
            default_ttl=self._store.default_ttl,
            bounds=self._store.options.bounds,
        )

    def validate(
        self, memories: Sequence[NewMemory], context: MemoryContext
    ) -> Flow[tuple[list[NewMemory], list[Write]]]:
        """Freeze memories, cap their trust at their source's, and build their writes.

        Raises:
            InvalidInputError: for what cannot be stored.
        """
        bounds, frozen = self._store.options.bounds, list[NewMemory]()
        for memory in memories:
            frozen.append(self.gate.cap_source_trust(new_memory.freeze(memory, bounds)))
        check = partial(self.to_write, context=context)
        writes = yield from map_off_loop(check, new_memory.size_of(frozen), frozen)
        return frozen, writes

    # Screen

    def screen(
        self,
        memories: Sequence[NewMemory],
        writes: Sequence[Write],
        context: MemoryContext,
        leaving: Mapping[str, str | None] = MappingProxyType({}),
    ) -> Flow[list[Verdict]]:
        """Judge memories by the gate, with recently recalled and stored texts.

        The keys that are `leaving` get another text, with which they are given, or go.
        """
        gate, policy = self.gate, self.gate.policy
        lately = self.lately.known(self._caller, self._store.now)
        new_texts = {memory.key: memory.content for memory in memories if memory.key} | {**leaving}
        recalled, compared = list[tuple[KnownText, ...]](), list[str]()
        for memory in memories:
            repeatable = (
                _repeatable_texts(memory, lately, new_texts) if policy.refuse_echoes else ()
            )
            recalled.append(repeatable)
            compared += [text.content for text in repeatable]
        long = new_memory.size_of(memories)
        contents = [memory.content for memory in memories]
        reads = long + reading_size(compared)
        echoes = yield from map_off_loop(find_echo, reads, contents, recalled)
        candidates, named, copied = list[NewMemory](), dict[int, KnownText](), list[int]()
        for at, (memory, echo) in enumerate(zip(memories, echoes, strict=True)):
            unnamed = echo is not None and echo.key is None  # there is nothing to look up
            candidates.append(replace(memory, recalled=(echo,) if unnamed else ()))
            if echo is not None and not unnamed:
                named[at] = echo
            if policy.trust.of_source(memory.source) < policy.keep_copies_from:
                copied.append(at)
        sources: Mapping[int, Places] = {}
        if named or copied:
            sources = yield from self._look_up(candidates, writes, named, copied, context)
        reviews: Mapping[int, ReviewResult] = {}
        if gate.panel is not None:
            reviews = yield from self._reviews(gate.panel, candidates, long)
        given_reviews = map(reviews.get, count())
        verdicts = yield from map_off_loop(gate.judge, long, candidates, given_reviews)
        for at, repeated in sources.items():
            verdicts[at] = replace(verdicts[at], sources=repeated)
        return verdicts

    def _look_up(
        self,
        candidates: list[NewMemory],
        writes: Sequence[Write],
        named: Mapping[int, KnownText],
        copied: Sequence[int],
        context: MemoryContext,
    ) -> Flow[Mapping[int, Places]]:
        """Say in each candidate what is stored that it repeats; and what it is derived from.

        That is what it repeats and lasts less long. Each is known by its place among the
        candidates: those that repeat a memory that is `named`, and those whose copies are sought.
        """
        sources = dict[int, Places]()
        texts = [(writes[at].place.namespace, candidates[at].content) for at in copied]
        repeated, copies = yield Query(
            self._look_ups([*named.values()], texts, context), commit=True
        )
        for number, key, value in copies:
            candidate = candidates[at := copied[number - 1]]
            if key != candidate.key:  # a memory may replace itself
                stored_text = KnownText(content=content_of(value), key=key)
                candidates[at] = replace(candidate, stored=(*candidate.stored, stored_text))
        repeating = [*named]
        for number, *row in repeated:
            at, there = repeating[number - 1], Place(context.root, row[0])
            lasting = self._lasting(row, there, writes[at])
            if lasting is None:
                sources[at] = ((there, row[1]),)
            else:
                candidates[at] = replace(candidates[at], recalled=(lasting,))
        return sources

    def _look_ups(
        self,
        repeated: Sequence[KnownText],
        copied: Sequence[tuple[str, str]],
        context: MemoryContext,
    ) -> tuple[Call, Call]:
        """Look up these recalled memories, and who says the same in these namespaces."""
        moment, index = self._store.moment(), self._store.options.index
        named = [text.namespace for text in repeated]
        echoes = {
            **context.scope_params,
            "namespaces": [
                None if labels is None else encode_namespace(labels).namespace for labels in named
            ],
            "keys": [text.key for text in repeated],
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

    def _lasting(self, row: Row, there: Place, wanted: Write) -> KnownText | None:
        """Read the repeated memory if it is current, lives as long and is as shared as the write.

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
        return KnownText(content=content_of(value), key=key, namespace=decode_namespace(*there))

    def _reviews(
        self, panel: Panel, candidates: Sequence[NewMemory], long: int
    ) -> Flow[Mapping[int, ReviewResult]]:
        """Ask chat models about the candidates that need it, all at once; results by index."""
        needed = yield from map_off_loop(self.gate.needs_models, long, candidates)
        asked = [at for at, wanted in enumerate(needed) if wanted]
        if not asked:
            return {}
        candidates_asked = [candidates[at] for at in asked]
        results = yield from ask_model(panel, candidates_asked)
        return dict(zip(asked, results, strict=True))

    # Place

    def place(
        self,
        memories: Sequence[NewMemory],
        writes: Sequence[Write],
        context: MemoryContext,
        spares: Places | None = None,
    ) -> Flow[list[Write]]:
        """Add turn numbers, origins and capacities to writes.

        With `spares` they go where there is room: in a place that is full all but these may go.

        Raises:
            InvalidInputError: if they are derived from what is not there.
        """
        by, now = self._caller, self._store.now
        origins = sorted({key for memory in memories for key in memory.derived_from})
        places: Mapping[str, tuple[Place, str]] = {}
        if origins:
            places = yield from self._places_of(origins, context, self._store.moment().alive_at)
        placed = []
        for memory, put in zip(memories, writes, strict=True):
            memory_type, fields = memory.memory_type or "episodic", put.recall_fields
            # what was learned stands by itself, and in a session what is said follows the last
            is_turn = fields.turn is not None or (fields.session and fields.speaker)
            if not is_turn and self._types.get(memory_type).personal:
                fields = fields._replace(turn=self._runs.next_turn(by, put.place, now))
            named, echoes = list[tuple[Place, str]](), put.echoes
            if memory.derived_from:  # what is named is not only repeated
                named += [places[key] for key in memory.derived_from]
                echoes = tuple(each for each in echoes if each not in named)
            capacities = () if spares is None else self.gate.capacities(memory_type, put.tier)
            placed.append(
                replace(
                    put,
                    recall_fields=fields,
                    sources=(*named, *echoes),
                    echoes=echoes,
                    capacities=capacities,
                    repeated=spares or (),
                )
            )
        return placed

    def missing_origins(
        self, memories: Sequence[NewMemory], context: MemoryContext
    ) -> Flow[list[str | None]]:
        """Say why each of these cannot be derived from what it names; None where it can."""
        origins = sorted({key for memory in memories for key in memory.derived_from})
        try:
            if origins:
                yield from self._places_of(origins, context, self._store.moment().alive_at)
        except InvalidInputError as refused:
            if len(memories) == 1:
                return [str(refused)]
        else:
            return [None for _ in memories]
        reasons: list[str | None] = []
        for memory in memories:
            reasons += yield from self.missing_origins([memory], context)
        return reasons


def _repeatable_texts(
    memory: NewMemory, lately: tuple[KnownText, ...], new_texts: Mapping[str, str | None]
) -> tuple[KnownText, ...]:
    """List the recalled texts that a memory may repeat, without replaced or deleted ones.

    What a person is recorded to have said repeats nothing: that they said it again is evidence. Nor
    does what has a key of its own, unless it comes with what was recalled: who names a key means
    that memory.
    """
    recalled = cast("tuple[KnownText, ...]", memory.recalled)  # as it was read once
    if (memory.source == Source.USER and memory.speaker) or (
        memory.key is not None and not recalled
    ):
        return ()
    if not recalled and not new_texts:
        return lately
    return tuple(
        text
        for text in (*recalled, *lately)
        if text.key is None
        or (text.key != memory.key and new_texts.get(text.key, text.content) == text.content)
    )


def apply_verdict(memory: NewMemory, put: Write, verdict: Verdict, gate: Gate) -> Write:
    """Set trust, quarantine and repeated memories of an accepted write."""
    return replace(
        cap_trust(put, verdict.trust, source=memory.source),
        held=verdict.reason if verdict.decision is Decision.QUARANTINE else None,
        threshold=gate.policy.trust.below(memory.memory_type or "episodic"),
        sources=verdict.sources,
        echoes=verdict.sources,
    )


# What is answered once all is committed


def admission_result(verdict: Verdict, put: Write | None, applied: AppliedWrites) -> StoreResult:
    """Build the result of a judged memory, once the accepted writes are committed."""
    if put is None or verdict.destination is None:
        return verdict_result(verdict)
    done = applied.done.get(put.name)
    if done is None or (put.held and not done.held):
        reason = applied.refused.get(put.name, SAME_KEY)
        return verdict_result(verdict, stored=False, quarantined=False, reason=reason)
    return verdict_result(
        verdict,
        key=done.key,
        tier=done.tier,
        trust=done.trust,
        quarantined=done.held is not None,
        evicted=tuple(each.memory.key for each in applied.evicted if each.by == done.key),
        reason=done.held or verdict.reason,
        destinations=(verdict.destination._replace(key=done.key, tier=done.tier),),
    )


def unjudged_result(put: Write, applied: AppliedWrites) -> StoreResult:
    """Build the result of a memory without a gate, once it is committed."""
    refused, done = applied.refused.get(put.name), applied.done.get(put.name, put)
    if refused is None and put.held and not done.held:
        refused = SAME_KEY
    if refused is not None:
        return StoreResult(stored=False, key=put.key, reason=refused, trust=put.trust)
    return StoreResult(
        stored=True,
        key=put.key,
        tier=put.tier,
        trust=done.trust,
        quarantined=done.held is not None,
        reason=done.held or "stored",
    )


def verdict_result(verdict: Verdict, **changes: object) -> StoreResult:
    """Build the result of a verdict."""
    review = verdict.review or ReviewResult(consensus_score=None)
    result = StoreResult(
        stored=verdict.stored,
        score=verdict.score,
        reviewed=review.consensus_score is not None,
        reason=verdict.reason,
        quarantined=verdict.decision is Decision.QUARANTINE,
        trust=verdict.trust,
        repeats=verdict.repeats,
        private=tuple(sorted({match.kind for match in verdict.private})),
        scores=review.agent_scores,
        reasons=review.reasons,
        failures=review.failures,
    )
    return replace(result, **changes)  # type: ignore[arg-type]
