"""A seeded year of memories with known truth, as docs/consolidation-benchmarks.md describes it.

`Year(seed).events()` yields what happens in the order of time, to be replayed on a store whose
clock is set to each event. `Year(seed).truth` says what consolidation should make of it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Literal, NamedTuple

from benchmarks.year_plots import Part, Plot, Plotter

MEMORIES, TENANTS, PROJECTS = 50_000, 200, 3
START = datetime(2026, 1, 1, tzinfo=UTC)
DAYS = 365
END = START + timedelta(days=DAYS)
NOTE_TTL = 2 * 24 * 60.0
"""Minutes that a session's note lives after it was last read."""
SESSION = 6
SHARES = {
    "plain": 0.30,
    "repeated": 0.20,
    "near-miss": 0.12,
    "changed": 0.12,
    "look-alike": 0.12,
    "session": 0.14,
}
OLD, RARELY, UNIMPORTANT = timedelta(days=180), 3, 0.6
"""What is due for the archive, by the default policy."""

Kind = Literal["store", "access", "outcome", "session_end"]


class Event(NamedTuple):
    """One thing that happens. The fields of a memory are those of its `store`."""

    at: datetime
    kind: Kind
    tenant: str
    project: str
    session: str
    key: str = ""
    content: str = ""
    memory_type: str = "semantic"
    tier: str = "working"
    importance: float | None = None
    ttl: float | None = None
    """Minutes."""
    success: bool | None = None


@dataclass(slots=True)
class Truth:
    """What is true of the memories, by key; keys are unique within a year."""

    family: dict[str, tuple[str, str]] = field(default_factory=dict)
    """The plot and the family of each."""
    duplicates: dict[str, str] = field(default_factory=dict)
    """What says the same as an older one, and the oldest of its kind."""
    contradictions: dict[str, str] = field(default_factory=dict)
    """What is no longer true, and by what. Where it is a duplicate as well, a cycle that merges
    first has nothing left to supersede."""
    rising: dict[str, str] = field(default_factory=dict)
    """Notes that rise, and why: importance, accesses or session."""
    expiring: set[str] = field(default_factory=set)
    archived: set[str] = field(default_factory=set)
    """Of the plain plots, where nothing is merged: what is due for the archive at the end."""


class _Life(NamedTuple):
    """What happens to one memory after it was stored."""

    accesses: list[datetime]
    outcomes: list[tuple[datetime, bool]]

    @property
    def is_little(self) -> bool:
        """Whether it is read rarely and long ago, and does no more good than harm."""
        lately = any(END - one <= OLD for one in self.accesses)
        gain = sum(1 if good else -1 for _, good in self.outcomes)
        return len(self.accesses) < RARELY and not lately and gain <= 0


class Year:
    """A year; the same seed and sizes give the same one."""

    def __init__(self, seed: int = 0, memories: int = MEMORIES, tenants: int = TENANTS) -> None:
        self._seed, self._memories, self._tenants = seed, memories, tenants

    @property
    def truth(self) -> Truth:
        """What consolidation should make of it."""
        return self._drawn[1]

    def events(self) -> Iterator[Event]:
        """Everything in the order of time, each at a second of its own."""
        last = START
        for event in sorted(self._drawn[0], key=lambda one: (one.at, one.key, one.kind)):
            last = max(event.at, last + timedelta(seconds=1))
            yield event._replace(at=last)

    @cached_property
    def _drawn(self) -> tuple[list[Event], Truth]:
        truth, events = Truth(), list[Event]()
        for number in range(self._tenants):
            share = self._memories * (number + 1) // self._tenants
            count = share - self._memories * number // self._tenants
            events += _Tenant(self._seed, number, truth).lived(count)
        return events, truth


class _Tenant:
    """The year of one tenant."""

    def __init__(self, seed: int, number: int, truth: Truth) -> None:
        self.name = f"tenant-{number:03}"
        self._drawn = random.Random(f"{seed} {number}")
        self._plotter = Plotter(self._drawn)
        self._truth = truth
        self._events: list[Event] = []
        self._count = 0

    def lived(self, memories: int) -> list[Event]:
        """All its events, of so many memories."""
        while (left := memories - self._count) > 0:
            kind = self._drawn.choices(list(SHARES), list(SHARES.values()))[0]
            if kind == "session":
                self._session(min(SESSION, left))
            elif left < 2 or kind == "plain":
                self._play(self._plotter.plain())
            else:
                self._play(self._plot(kind, left))
        return self._events

    def _plot(self, kind: str, left: int) -> Plot:
        if kind == "repeated":
            return self._plotter.repeated(left)
        if kind == "near-miss":
            return self._plotter.near_miss()
        return self._plotter.changed(left) if kind == "changed" else self._plotter.look_alike()

    def _play(self, plot: Plot) -> None:
        """Tell a plot over the year, at least a day between its parts."""
        project = f"project-{self._drawn.randrange(PROJECTS)}"
        days = sorted(self._drawn.sample(range(DAYS - 1), len(plot.parts)))
        keys = [self._key() for _ in plot.parts]
        for day, key, part in zip(days, keys, plot.parts, strict=True):
            at = START + timedelta(days=day, seconds=self._drawn.randrange(86_400))
            self._tell(plot, part, key, at, project)
            if part.repeats is not None:
                self._truth.duplicates[key] = keys[part.repeats]
            if part.ended_by is not None:
                self._truth.contradictions[key] = keys[part.ended_by]

    def _key(self) -> str:
        self._count += 1
        return f"{self.name}-{self._count:05}"

    def _tell(self, plot: Plot, part: Part, key: str, at: datetime, project: str) -> None:
        drawn = self._drawn
        unimportant = drawn.random() < 0.6
        importance = round(drawn.uniform(0.1, 0.5) if unimportant else drawn.uniform(0.6, 1), 2)
        event = Event(
            at,
            "store",
            self.name,
            project,
            session=f"chat-{at:%m%d}",
            key=key,
            content=part.content,
            memory_type=plot.memory_type,
            importance=importance,
        )
        life = self._life(at)
        self._events.append(event)
        self._after(event, life)
        self._truth.family[key] = plot.kind, part.family
        due = END - at > OLD and life.is_little and importance < UNIMPORTANT
        if plot.kind == "plain" and due:
            self._truth.archived.add(key)

    def _life(self, born: datetime) -> _Life:
        drawn = self._drawn
        if drawn.random() >= 1 / 3:
            return _Life([], [])
        accesses = [self._later(born) for _ in range(drawn.randint(1, 12))]
        if drawn.random() >= 1 / 5:
            return _Life(accesses, [])
        rate = drawn.choice((0.2, 0.5, 0.9))
        outcomes = [(self._later(born), drawn.random() < rate) for _ in range(drawn.randint(2, 8))]
        return _Life(accesses, outcomes)

    def _later(self, born: datetime) -> datetime:
        return born + (END - born) * self._drawn.uniform(0.001, 0.999)

    def _after(self, stored: Event, life: _Life) -> None:
        bare = Event(
            stored.at, "access", stored.tenant, stored.project, stored.session, stored.key,
            tier=stored.tier,
        )  # fmt: skip
        self._events += [bare._replace(at=at) for at in life.accesses]
        self._events += [
            bare._replace(at=at, kind="outcome", success=success) for at, success in life.outcomes
        ]

    def _session(self, notes: int) -> None:
        """Notes of one session, within an hour; it ends within another, or is left open."""
        drawn = self._drawn
        project = f"project-{drawn.randrange(PROJECTS)}"
        session = f"session-{self._count:05}"
        begun = START + timedelta(seconds=drawn.randrange((DAYS - 4) * 86_400))
        ended = drawn.random() < 0.4 / 0.7
        for _ in range(notes):
            self._note(begun, project, session, ended=ended)
        if ended:
            at = begun + timedelta(seconds=drawn.randint(3_601, 7_200))
            self._events.append(Event(at, "session_end", self.name, project, session))

    def _note(self, begun: datetime, project: str, session: str, *, ended: bool) -> None:
        drawn, key = self._drawn, self._key()
        at = begun + timedelta(seconds=drawn.randrange(1_800))
        fate = drawn.choices(("importance", "accesses", ""), (0.15, 0.15, 0.7))[0]
        importance = drawn.uniform(0.6, 1) if fate == "importance" else drawn.uniform(0.1, 0.5)
        reads = drawn.randint(3, 6) if fate == "accesses" else 0
        event = Event(
            at,
            "store",
            self.name,
            project,
            session,
            key=key,
            content=self._plotter.plain().parts[0].content,
            memory_type="episodic",
            tier="short_term",
            importance=round(importance, 2),
            ttl=NOTE_TTL,
        )
        self._events.append(event)
        accesses = [at + timedelta(seconds=drawn.randrange(1, 1_800)) for _ in range(reads)]
        self._after(event, _Life(accesses, []))
        self._truth.family[key] = "session", fate or "session"
        if reason := fate or ("session" if ended else ""):
            self._truth.rising[key] = reason
        else:
            self._truth.expiring.add(key)
