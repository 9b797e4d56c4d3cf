"""A year that is lived through: its events in a store whose clock is theirs, and its cycles.

Tenants know nothing of each other, so what happens to one between two of its cycles is handed over
at once, before the second of them. Each memory says when it happened (`occurred_at`).
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any, NamedTuple

from langchain_core.language_models import BaseChatModel
from langgraph.store.base import GetOp

from benchmarks.year import END, NOTE_TTL, START, Event, Year
from langmem_tiers import MemoryContext, MemoryCoordinator, Recollection, TieredStore
from langmem_tiers.consolidation.policy import ConsolidationPolicy
from langmem_tiers.consolidation.report import VERDICTS, Counts
from langmem_tiers.core.memory import Tier
from langmem_tiers.graph.consolidation import create_consolidation_graph
from langmem_tiers.store.store import local_index

EVERY = timedelta(days=30)
"""From one cycle of a tenant to the next, if no session calls for one before."""
OPEN = timedelta(days=1)
"""After a session was begun that nobody ends, a cycle looks at its notes."""
HANDED_OVER = timedelta(minutes=2)
"""Before each cycle: what is younger than a minute is looked at by the next one once more."""
_APART = timedelta(minutes=3)
_AT_ONCE = 500

Report = Callable[[float], object]
"""Told the share of the year that is over."""


class Clock:
    """Tells the time of the year."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now


class Lived(NamedTuple):
    """A memory as it was handed over."""

    stored: Event
    recorded: datetime


class Done(NamedTuple):
    """What a cycle says it did, and what it looked at."""

    tenant: str
    at: datetime
    counts: Counts
    judged: dict[str, set[int]]
    """By step, what it selected and what it decided on."""

    def verdicts(self, step: str) -> int:
        """How many memories the report speaks of."""
        counts = self.counts.get(step)
        return sum(sum(counts[one].values()) for one in VERDICTS) if counts else 0


class Size(NamedTuple):
    """What a store holds at some time."""

    at: datetime
    told: int
    """Memories that were handed over until then."""
    rows: int
    bytes: int


@dataclass(slots=True)
class Story:
    """What became of a year."""

    memories: dict[str, Lived] = field(default_factory=dict)
    cycles: list[Done] = field(default_factory=list)
    sizes: list[Size] = field(default_factory=list)
    read: defaultdict[str, list[datetime]] = field(default_factory=lambda: defaultdict(list))
    """When each memory was read: a replay hands over what happened between two cycles at once."""

    def done(self, step: str) -> int:
        """What a step carried out in all cycles."""
        counts = (one.counts.get(step) for one in self.cycles)
        return sum(sum(one["done"].values()) for one in counts if one is not None)


class _Turn(NamedTuple):
    """A cycle that is due, and whose session has ended, if one has."""

    at: datetime
    tenant: str
    ended: tuple[str, str] | None = None


def open_year(url: str, clock: Clock) -> TieredStore:
    """A store on a database, not opened, in which a year can be lived through."""
    index = local_index(fields=["content"])
    return TieredStore.from_conn_string(url, index=index, clock=clock, short_term_ttl=NOTE_TTL)


class Replay:
    """Lives through a year; with a model as judge, what says the same or contradicts is settled."""

    def __init__(
        self,
        store: TieredStore,
        clock: Clock,
        policy: ConsolidationPolicy | None = None,
        model: BaseChatModel | None = None,
    ) -> None:
        self._store, self._clock = store, clock
        self._graph = create_consolidation_graph(model, policy=policy, store=store)
        self.story = Story()

    def live(
        self,
        year: Year,
        report: Report = lambda _: None,
        sizes: timedelta = timedelta(days=30),
        every: timedelta = EVERY,
    ) -> Story:
        """Everything that happens, and the cycles between; at the end one more of each tenant."""
        waiting: defaultdict[str, list[Event]] = defaultdict(list)
        for event in year.events():
            waiting[event.tenant].append(event)
        for several in waiting.values():
            several.reverse()
        measured = START
        for turn in turns(waiting, every):
            self._clock.now = max(turn.at, self._clock.now + _APART - HANDED_OVER)
            self.hand_over(_until(waiting[turn.tenant], self._clock.now))
            self._clock.now += HANDED_OVER
            self.cycle(turn.tenant, turn.ended)
            if self._clock.now - measured >= sizes:
                measured = self._clock.now
                self.measure()
            report((self._clock.now - START) / (END - START))
        self.measure()
        return self.story

    def cycle(self, tenant: str, ended: tuple[str, str] | None = None) -> Done:
        """One cycle of a tenant, now."""
        project, session = ended or (None, None)
        context = MemoryContext(tenant=tenant, project_id=project, session_id=session)
        judged: defaultdict[str, set[int]] = defaultdict(set)
        step, said = "", dict[str, Any]()
        given = {"session_ended": ended is not None}
        for updates in self._graph.stream(given, context=context, stream_mode="updates"):
            for node, update in updates.items():
                if node == "select":
                    step = update["step"]
                    judged[step].update(one for batch in update["batches"] for one in batch)
                elif node == "review":
                    decided = (one for batch in update["decisions"] for one in batch)
                    judged[step].update(one["id"] for one in decided)
                elif node == "report":
                    said = update["consolidated"]
        done = Done(tenant, self._clock.now, said["counts"], dict(judged))
        self.story.cycles.append(done)
        return done

    def measure(self) -> Size:
        """What the store holds now, dead rows and all."""
        rows = sum(one.memories for one in self._store.stats())
        size = sum(one.bytes for one in self._store.sizes())
        self.story.sizes.append(Size(self._clock.now, len(self.story.memories), rows, size))
        return self.story.sizes[-1]

    def hand_over(self, events: Sequence[Event]) -> None:
        """Let these happen, now."""
        stored = [one for one in events if one.kind == "store"]
        for (_, _), several in groupby(sorted(stored, key=_place), _place):
            chosen = list(several)
            for start in range(0, len(chosen), _AT_ONCE):
                self._remember(chosen[start : start + _AT_ONCE])
        self._read([one for one in events if one.kind == "access"])
        self._credit([one for one in events if one.kind == "outcome"])

    def _remember(self, stored: Sequence[Event]) -> None:
        self._coordinator(stored[0]).store_many(
            {
                "content": one.content,
                "memory_type": one.memory_type,
                "tier": one.tier,
                "session_id": one.session,
                "occurred_at": one.at,
                "importance": one.importance,
                "key": one.key,
            }
            for one in stored
        )
        for one in stored:
            self.story.memories[one.key] = Lived(one, self._clock.now)

    def _coordinator(self, event: Event) -> MemoryCoordinator:
        context = MemoryContext(tenant=event.tenant, project_id=event.project)
        return MemoryCoordinator(self._store, context=context)

    def _read(self, accesses: Sequence[Event]) -> None:
        """Each as a get by key; those of what has expired find nothing, as in life."""
        times: defaultdict[str, int] = defaultdict(int)
        rounds: defaultdict[int, list[Event]] = defaultdict(list)
        for one in accesses:
            rounds[times[one.key]].append(one)
            times[one.key] += 1
            self.story.read[one.key].append(self._clock.now)
        for several in rounds.values():
            self._store.batch([GetOp(_namespace(one), one.key) for one in several])

    def _credit(self, outcomes: Sequence[Event]) -> None:
        """Each outcome is that of a run of its own."""
        for one in outcomes:
            told = self.story.memories[one.key]
            shown = Recollection(
                key=one.key,
                namespace=_namespace(one),
                tier=Tier.WORKING,
                memory_type=told.stored.memory_type,
                content=told.stored.content,
                value={},
                created_at=told.recorded,
                updated_at=told.recorded,
            )
            self._coordinator(one).learning.record_outcome([shown], success=bool(one.success))


def turns(
    waiting: dict[str, list[Event]], every: timedelta, end: datetime = END
) -> Iterator[_Turn]:
    """The cycles of all tenants in the order of time."""
    yield from heapq.merge(*(_turns(*one, every, end) for one in waiting.items()))


def _turns(
    tenant: str, events: Sequence[Event], every: timedelta, end: datetime
) -> Iterator[_Turn]:
    """As sessions end, a day after others began, and where nothing came for so long."""
    at = START
    for turn in [*sorted(_of_sessions(tenant, events)), _Turn(end, tenant)]:
        while turn.at - at > every:
            at += every
            yield _Turn(at, tenant)
        at = turn.at
        yield turn


def _of_sessions(tenant: str, events: Sequence[Event]) -> Iterator[_Turn]:
    ended = {(one.project, one.session) for one in events if one.kind == "session_end"}
    begun: dict[tuple[str, str], datetime] = {}
    for one in events:
        where = one.project, one.session
        if one.kind == "session_end":
            yield _Turn(one.at, tenant, where)
        elif one.tier == "short_term" and where not in ended:
            begun[where] = min(one.at, begun.get(where, one.at))
    yield from (_Turn(at + OPEN, tenant) for at in begun.values())


def _until(events: list[Event], moment: datetime) -> list[Event]:
    """Take what has happened by then; the latest stands first."""
    taken = []
    while events and events[-1].at <= moment:
        taken.append(events.pop())
    return taken


def _place(event: Event) -> tuple[str, str]:
    return event.tenant, event.project


def _namespace(event: Event) -> tuple[str, ...]:
    context = MemoryContext(tenant=event.tenant, project_id=event.project, session_id=event.session)
    return context.namespace(Tier(event.tier))
