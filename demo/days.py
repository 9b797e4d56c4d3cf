"""Nine days of work: the same tasks for an agent without memory and for one with it, counted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from demo.agent import (
    Agent,
    asked,
    build_agent,
    build_forgetful_agent,
    build_promoter,
    errors,
)
from demo.agent import State as Run
from demo.tasks import Task, tasks
from langmem_tiers import MemoryContext, TieredStore
from langmem_tiers.learning.signature import signature

TENANT = "acme"
DAYS = 9
FROM_THE_START = ("billing", "shipping")
LATER = "payroll"
"""A project that begins on the last day."""


@dataclass(slots=True)
class Clock:
    """Tells the time that the demonstration has set: it begins so that the last day is today."""

    now: datetime = field(default_factory=lambda: datetime.now(UTC) - timedelta(days=DAYS))

    def __call__(self) -> datetime:
        """Return the time."""
        return self.now

    def advance(self, **delta: float) -> None:
        """Let time pass, by the arguments of timedelta."""
        self.now += timedelta(**delta)


@dataclass(slots=True)
class Record:
    """The failures of one agent, by day; a failure is repeated if its like failed before."""

    failures: list[int] = field(default_factory=lambda: [0] * DAYS)
    repeated: list[int] = field(default_factory=lambda: [0] * DAYS)
    known: set[str] = field(default_factory=set)
    """Signatures of what failed so far, in whichever project."""

    def note(self, day: int, run: Run) -> None:
        """Count what failed in a run."""
        for error in errors(run):
            same = str(signature(error))
            self.failures[day] += 1
            self.repeated[day] += same in self.known
            self.known.add(same)


@dataclass(frozen=True, slots=True)
class Worked:
    """A run of the agent with a memory."""

    project: str
    task: Task
    run: Run


@dataclass(slots=True)
class History:
    """What nine days brought."""

    tasks: list[int] = field(default_factory=lambda: [0] * DAYS)
    without: Record = field(default_factory=Record)
    with_memory: Record = field(default_factory=Record)
    worked: list[Worked] = field(default_factory=list)
    promoted: list[list[dict[str, Any]]] = field(default_factory=list)
    """What each night moved."""

    def of(self, family: str, project: str) -> list[Run]:
        """Return the runs of one kind of task in a project, in order."""
        return [
            one.run for one in self.worked if (one.task.family, one.project) == (family, project)
        ]


def context_of(project: str) -> MemoryContext:
    """Who works in a project."""
    return MemoryContext(tenant=TENANT, project_id=project, agent_id="coder")


def nine_days(store: TieredStore, clock: Clock) -> History:
    """Work through all days with both agents; each night what has proven itself is promoted."""
    history = History()
    forgetful, learning = build_forgetful_agent(), build_agent(store)
    promoter = build_promoter(store)
    for day in range(DAYS):
        for project, task in _of_day(day):
            history.tasks[day] += 1
            history.without.note(day, _run(forgetful, project, task))
            run = _run(learning, project, task)
            history.with_memory.note(day, run)
            history.worked.append(Worked(project, task, run))
        clock.advance(hours=12)
        night = promoter.invoke({}, context=context_of(FROM_THE_START[0]))
        history.promoted.append(night["promoted"])
        clock.advance(hours=12)
    return history


def _of_day(day: int) -> Iterator[tuple[str, Task]]:
    projects = [*FROM_THE_START, *((LATER,) if day == DAYS - 1 else ())]
    for number, project in enumerate(projects):
        for task in tasks(day, number):
            yield project, task


def _run(agent: Agent, project: str, task: Task) -> Run:
    return cast("Run", agent.invoke(asked(task), context=context_of(project)))
