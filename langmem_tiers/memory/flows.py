"""What a coordinator does, as flows: memories in, recollections out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from types import MappingProxyType
from uuid import uuid4

from langmem_tiers.core.context import Caller, MemoryContext
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.handles import as_handle
from langmem_tiers.core.memory import (
    TIERS,
    MemoryStats,
    Recollection,
    Recollections,
    StoreResult,
    Tier,
)
from langmem_tiers.core.namespaces import Place, encode
from langmem_tiers.core.reading import ends_of
from langmem_tiers.core.types import PROSPECTIVE
from langmem_tiers.learn.outcome import Showing, noted
from langmem_tiers.memory.meant import Known, meant, own_or_only, reached, why_absent
from langmem_tiers.postgres.flow import Call, Flow, Query, apart, lasts, only
from langmem_tiers.recall.candidates import Candidate, read_columns, recollection
from langmem_tiers.recall.inquiry import POOL, Inquiry, Reader, reach, visibility
from langmem_tiers.recall.ranking import PROFILES
from langmem_tiers.recall.recall import QUERY_CHARACTERS, find, recall
from langmem_tiers.recall.replay import Recording
from langmem_tiers.recall.vectors import Vectors
from langmem_tiers.remember.candidate import Recalled, RecalledLately
from langmem_tiers.remember.gating import (
    Gate,
    Judged,
    admitted_as,
    judged,
    passed,
    unjudged_as,
    without_held_twins,
)
from langmem_tiers.remember.known import Knowing
from langmem_tiers.remember.new import (
    NewMemory,
    extent_of,
    origin_keys,
    read_once,
    to_write,
)
from langmem_tiers.remember.runs import Runs
from langmem_tiers.remember.transaction import write
from langmem_tiers.store.flows import StoreFlows
from langmem_tiers.store.write import Write

_STORE_FIRST = " to derive from: store it first, in a call of its own"


class MemoryFlows:
    """The flows of one coordinator, on those of its store."""

    def __init__(
        self,
        store: StoreFlows,
        reader: Reader,
        gate: Gate,
        caller: Caller,
        recall_days: float | None = None,
    ) -> None:
        """Stand on a store's flows; `reader` says how to recall, `gate` what to remember.

        Recalls are recorded for so many days, if any.
        """
        self._store = store
        self.reader = reader
        self._recall_days = recall_days
        self._caller = caller
        self._lately, self._runs = store.kept.one(RecalledLately), store.kept.one(Runs)
        self.gate = gate

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
        yield from self._checked(refused, context)
        todo = [one for one in kept if one is not None]
        repeated = tuple(chain.from_iterable(one.repeats for one in verdicts))
        writes = yield from self.bounded(todo, context, repeated)
        applied = yield from write(without_held_twins(writes), self._store)
        own = iter(writes)
        return [
            admitted_as(one.verdict, None if some is None else next(own), applied)
            for one, some in zip(verdicts, kept, strict=True)
        ]

    def judged(
        self,
        memories: Sequence[NewMemory],
        context: MemoryContext,
        leaving: Mapping[str, str | None] = MappingProxyType({}),
    ) -> Flow[list[Judged]]:
        """What the gate says of memories, by what was recalled lately and what is stored.

        The keys that are `leaving` get another text, with which they are given, or go.
        """
        bounds = self._store.options.bounds
        for one in memories:
            bounds.check_content(one.content)
        knowing = Knowing(
            context=context,
            types=self.reader.types,
            options=self._store.options,
            moment=self._store.moment(),
            recalled=self._lately.known(self._caller, self._store.now),
            leaving=leaving,
            default_ttl=self._store.default_ttl,
        )
        return judged([read_once(one, bounds) for one in memories], self.gate, knowing)

    def remember(
        self, memories: Sequence[NewMemory], context: MemoryContext
    ) -> Flow[list[StoreResult]]:
        """Store memories that nobody judges, as they are derived or imported, all or none.

        They are trusted as their source is.

        Raises:
            InvalidInputError: for what cannot be stored, or is derived from what is not there;
                nothing was.
        """
        trusted = [self.gate.trusting(one) for one in memories]
        written = yield from self.writes(trusted, context)
        writes = [replace(one, named=False) for one in written]
        applied = yield from write(writes, self._store)
        return [unjudged_as(one, applied) for one in writes]

    def writes(self, memories: Sequence[NewMemory], context: MemoryContext) -> Flow[list[Write]]:
        """What would store these memories.

        Raises:
            InvalidInputError: for what cannot be stored, or is derived from what is not there.
        """
        checked = yield from self._checked(memories, context)
        types, by, now = self.reader.types, self._caller, self._store.now
        writes = [
            # what was learned stands by itself
            write if types.learned(one.memory_type or "") else self._runs.numbered(by, write, now)
            for one, write in zip(memories, checked, strict=True)
        ]
        origins = [origin_keys(one) for one in memories]
        if any(origins):
            keys = sorted({key for named in origins for key in named})
            known = yield from self._known(keys, context)
            writes = [
                _derived(write, [known[key] for key in named])
                for write, named in zip(writes, origins, strict=True)
            ]
        return writes

    def lacking(
        self, memories: Sequence[NewMemory], context: MemoryContext
    ) -> Flow[list[str | None]]:
        """Say why each of these cannot be derived from what it names; None where it can."""
        several = [sorted(origin_keys(one)) for one in memories]
        try:
            if any(several):
                yield from self._known(sorted(set(chain.from_iterable(several))), context)
        except InvalidInputError as refused:
            if len(memories) == 1:
                return [str(refused)]
        else:
            return [None for _ in memories]
        found: list[str | None] = []
        for one in memories:
            found += yield from self.lacking([one], context)
        return found

    def bounded(
        self,
        memories: Sequence[NewMemory],
        context: MemoryContext,
        spares: tuple[tuple[Place, str], ...],
    ) -> Flow[list[Write]]:
        """What would store what the gate let pass: where a place is full, all but `spares` may go.

        Raises:
            InvalidInputError: for what cannot be stored, or is derived from what is not there.
        """
        writes = yield from self.writes(memories, context)
        types = [one.memory_type or "episodic" for one in memories]
        return [
            replace(write, rooms=self.gate.rooms(memory_type, write.tier), spares=spares)
            for memory_type, write in zip(types, writes, strict=True)
        ]

    def checked(self, one: NewMemory, context: MemoryContext) -> Write:
        """What would store a memory, but for what it is derived from.

        Raises:
            InvalidInputError: for what cannot be stored.
        """
        return to_write(
            one,
            context=context,
            types=self.reader.types,
            index=self._store.options.index,
            default_ttl=self._store.default_ttl,
            bounds=self._store.options.bounds,
        )

    def _checked(self, memories: Sequence[NewMemory], context: MemoryContext) -> Flow[list[Write]]:
        return apart(lambda: [self.checked(one, context) for one in memories], extent_of(memories))

    def _known(
        self, keys: Sequence[str], context: MemoryContext
    ) -> Flow[Mapping[str, tuple[Place, str]]]:
        """Where the memories of these keys are.

        Raises:
            InvalidInputError: if none of a key is reached, or several elsewhere are.
        """
        alive_at = self._store.moment().alive_at
        whose = {**context.whose, "alive_at": alive_at}
        handles = {handle: key for key in keys if (handle := as_handle(key))}
        calls = [Call("known_keys", {**whose, "keys": keys})]
        if handles:
            calls.append(Call("known_handles", {**whose, "handles": [*handles]}))
        rows, *more = yield Query(tuple(calls), commit=True)
        found: dict[str, list[Known]] = {}
        for row in rows:
            found.setdefault(row[0], []).append(Known(*row))
        by_key = frozenset(found)
        for handle, *row in chain.from_iterable(more):
            if (key := handles[handle]) not in by_key:
                found.setdefault(key, []).append(Known(*row))
        places = {}
        for key in keys:
            one = meant(found.get(key, []), key, context)
            if one is None:
                raise InvalidInputError((yield from why_absent(key, context, _STORE_FIRST)))
            places[key] = Place(one.tenant, one.namespace), one.key
        return places

    def known(
        self,
        key: str,
        context: MemoryContext,
        absent: type[InvalidInputError] = InvalidInputError,
        *,
        everywhere: bool = False,
    ) -> Flow[Candidate]:
        """The memory of that key: the context's own, else the only one it reaches.

        It is sought `everywhere` in the tenant by those who look after all of it.

        Raises:
            InvalidInputError: if it reaches none (as `absent`), or if it reaches several elsewhere.
        """
        found = yield from find(context, key, TIERS, self._store)
        one = own_or_only(found, key, context) if everywhere else meant(found, key, context)
        if one is None:
            raise absent((yield from why_absent(key, context)))
        return one

    def recall(
        self,
        asks: Sequence[Inquiry],
        hidden: Callable[[Candidate], bool] | None = None,
        vectors: Vectors | None = None,
        *,
        turn: str | None = None,
        shown_to: Showing | None = None,
        context: MemoryContext | None = None,
    ) -> Flow[list[Recollections]]:
        """Recall for several questions at once; what is hidden does not count as accessed.

        It is noted what the run of a context is shown; what it goes without is not returned. Where
        recalls are recorded it is, as one of the turn or the run of that name, or of a new one.
        """
        yield from lasts(len(asks))
        shown_of, root = None, None
        if shown_to is not None and context is not None and asks:
            turn, root = shown_to.run
            project = context.project_id or asks[0].project_id  # the options are one question's
            context = replace(context, project_id=project)
            shown_of = partial(noted, context=context, showing=shown_to, now=self._store.now)
        days = self._recall_days
        recording = None if days is None else Recording(days, turn or str(uuid4()), root)
        answers = yield from recall(
            asks,
            self.reader,
            self._store,
            hidden,
            vectors,
            shown_of=shown_of,
            recording=recording,
        )
        for found in answers:
            self.note(found)
        return answers

    def standing(
        self, places: Sequence[tuple[tuple[str, ...], str]], context: MemoryContext
    ) -> Flow[list[Recollection]]:
        """Find those that a recall could still return, in this order; it accesses none."""
        if not places:
            return []
        moment = self._store.moment()
        params = {
            **context.whose,
            "namespaces": [encode(namespace).namespace for namespace, _ in places],
            "keys": [key for _, key in places],
            "alive_at": moment.alive_at,
            **visibility(moment.now),
        }
        (rows,) = yield Query((Call("read_again", params),), commit=True)
        found = read_columns(rows, self._store.distance)
        known = [recollection(one, 0.0, {}) for one in reached(found, context)]
        self.note(known)
        return known

    def intended_near(self, query: str, context: MemoryContext) -> Flow[Recollections]:
        """The prospective memories that a query is about, best first, as they are `looked_up`."""
        ask = Inquiry(
            query=ends_of(query, QUERY_CHARACTERS),
            reach=reach(context),
            limit=POOL,
            memory_types=[PROSPECTIVE],
            profile=PROFILES["match"],
        )
        return (yield from only(self.looked_up([ask])))

    def looked_up(self, asks: Sequence[Inquiry]) -> Flow[list[Recollections]]:
        """What several questions find, for rules and not for whoever asks.

        None counts as read or recalled, nothing orders them anew, and it takes the time it takes.
        """
        reader = replace(self.reader, reranker=None, timeout_ms=None)
        return (yield from recall(asks, reader, self._store, lambda _: True))

    def note(self, found: Iterable[Recalled]) -> None:
        """Keep in mind what is recalled: whoever says it again tells nothing new."""
        self._lately.note(self._caller, found, self._store.now)

    def stats(self, context: MemoryContext) -> Flow[MemoryStats]:
        """What the tenant has stored that the context's user sees."""
        rows = yield from self._store.type_stats(context.whose)
        by_type: dict[str, int] = {}
        by_tier = dict.fromkeys(TIERS, 0)
        for tier, memory_type, count, _ in rows:
            by_type[memory_type] = by_type.get(memory_type, 0) + count
            by_tier[Tier(tier)] += count
        return MemoryStats(
            total_count=sum(by_tier.values()),
            by_type=dict(sorted(by_type.items())),
            by_tier=by_tier,
            accesses=sum(row[3] for row in rows),
        )


def _derived(write: Write, named: Sequence[tuple[Place, str]]) -> Write:
    """A write that is derived from these as well; what is named is not only repeated."""
    echoes = tuple(one for one in write.echoes if one not in named)
    return replace(write, sources=(*named, *echoes), echoes=echoes)
