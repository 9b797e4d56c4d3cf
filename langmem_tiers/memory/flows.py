"""What a coordinator does, as flows: memories in, recollections out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from uuid import uuid4

from langmem_tiers.core.context import Caller, MemoryContext
from langmem_tiers.core.errors import InvalidInputError
from langmem_tiers.core.handles import as_handle
from langmem_tiers.core.memory import TIERS, MemoryStats, Recollection, Recollections, Tier
from langmem_tiers.core.namespaces import Place, encode
from langmem_tiers.core.reading import ends_of
from langmem_tiers.core.types import PROSPECTIVE
from langmem_tiers.learn.outcome import Showing, noted
from langmem_tiers.memory.meant import Known, meant, own_or_only, reached, why_absent
from langmem_tiers.postgres.flow import Call, Flow, Query, lasts, only
from langmem_tiers.recall.candidates import Candidate, read_columns, recollection
from langmem_tiers.recall.inquiry import POOL, Reader, RecallQuery, Vectors, reach, visibility
from langmem_tiers.recall.ranking import PROFILES
from langmem_tiers.recall.recall import QUERY_CHARACTERS, find, recall
from langmem_tiers.recall.replay import Recording
from langmem_tiers.remember.callers import Recalled
from langmem_tiers.remember.gate import Gate
from langmem_tiers.remember.pipeline import Pipeline
from langmem_tiers.store.flows import StoreFlows

_STORE_FIRST = " to derive from: store it first, in a call of its own"


class MemoryFlows(Pipeline):
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
        super().__init__(store, gate, reader.types, caller)
        self.reader = reader
        self._recall_days = recall_days

    def places_of(
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
        asks: Sequence[RecallQuery],
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
        ask = RecallQuery(
            query=ends_of(query, QUERY_CHARACTERS),
            bounds=reach(context),
            limit=POOL,
            memory_types=[PROSPECTIVE],
            profile=PROFILES["match"],
        )
        return (yield from only(self.looked_up([ask])))

    def looked_up(self, asks: Sequence[RecallQuery]) -> Flow[list[Recollections]]:
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
